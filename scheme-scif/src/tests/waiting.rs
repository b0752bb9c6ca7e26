//! Waits of threads that share a connection: one thread may take what another one waits for.

use scif_abi::bypass::{STATE_FINISHED, STATE_OFFSET};
use scif_abi::call::Call;
use scif_abi::flags::{Kicks, Readiness};
use scif_ring::{RingMemory, Word};
use syscall::error::{ECANCELED, ECONNRESET};

use super::client::Client;
use super::fixture::Fixture;
use super::programs::*;

const IN: u16 = Readiness::IN.bits();
const HUP: u16 = Readiness::HUP.bits();

/// The peer puts bytes, and a thread takes them before any daemon polls. Then the peer reports
/// them, if it was asked to.
#[track_caller]
fn come_and_go(fixture: &mut Fixture, to: usize, client: &Client, peer: &Client) {
    let sent = peer
        .producer
        .send(&mut peer.view(fixture), peer.number, b"record");
    let sent = sent.unwrap();
    assert_eq!(client.receive(fixture, 100), b"record");
    if sent.notify {
        let kicks = Kicks::BYTES.bits();
        assert_eq!(call(fixture, to, peer.id, Call::Kick { kicks }), Ok(0));
    }
    fixture.run();
}

#[test]
fn a_wait_past_an_index_ends_with_bytes_that_others_take() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let peer = Client::new(fixture, to, far);
        let written = |fixture: &mut Fixture| client.view(fixture).load(Word::LocalWrite);
        let plain = Call::Wait {
            events: IN,
            kicks: 0,
        };
        for _ in 0..3 {
            let past = Call::WaitBytes {
                written: written(fixture),
            };
            let (asleep, sleeps_on) = (
                fixture.submit(0, op(client.id, past)),
                fixture.submit(0, op(client.id, plain)),
            );
            assert!(fixture.is_kept(0, asleep));
            come_and_go(fixture, to, &client, &peer);
            let (result, _) = fixture.answer(0, asleep).expect("still asleep");
            assert_eq!(result, Ok(usize::from(IN)));
            // A wait for bytes that are there continues.
            assert!(fixture.is_kept(0, sleeps_on));
            assert_eq!(fixture.cancel(0, sleeps_on), error(ECANCELED));
            // They came and went before the request.
            assert_eq!(call(fixture, 0, client.id, past), Ok(usize::from(IN)));
        }
        // Bytes that no thread has taken end the wait whatever the index is, and so does the end.
        assert_eq!(peer.send(fixture, b"left"), 4);
        let past = Call::WaitBytes {
            written: written(fixture),
        };
        assert_eq!(call(fixture, 0, client.id, past), Ok(usize::from(IN)));
        assert_eq!(client.receive(fixture, 100), b"left");
        let asleep = fixture.submit(0, op(client.id, past));
        assert!(fixture.is_kept(0, asleep));
        peer.end(fixture);
        fixture.close(to, far);
        let (result, _) = fixture.answer(0, asleep).expect("still asleep");
        assert_eq!(
            result.map(|bits| bits & usize::from(HUP)),
            Ok(usize::from(HUP))
        );
        client.end(fixture);
        fixture.close(0, near);
        assert_eq!(fixture.counter(0, "waiting"), 0);
    });
}

#[test]
fn a_program_that_receives_no_more_ends_its_own_reads_and_waits() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let wait = Call::Wait {
            events: IN,
            kicks: 0,
        };
        let wait = fixture.submit_only(0, op(near, wait));
        assert_eq!(call(fixture, 0, near, Call::FinishReceiving), Ok(0));
        assert_eq!(fixture.answer(0, wait).unwrap().0, Ok(usize::from(IN)));
        assert_eq!(client.control(fixture, STATE_OFFSET), STATE_FINISHED);
        assert_eq!(fixture.read(0, near, 100), error(ECONNRESET));
        assert_eq!(client.send(fixture, b"answer"), 6);
        assert_eq!(fixture.read(to, far, 100), Ok(b"answer".to_vec()));
        let waiting = fixture.start_read(to, far, 100);
        assert_eq!(call(fixture, to, far, Call::FinishReceiving), Ok(0));
        assert_eq!(fixture.answer(to, waiting).unwrap().0, error(ECONNRESET));
        assert_eq!(fixture.write(to, far, b"more"), Ok(4));
        client.end(fixture);
        fixture.close(0, near);
        fixture.close(to, far);
    });
}
