//! Bypass clients: programs with a connection's rings mapped, beside and among file calls.

use scif_abi::bypass::{
    CONTROL_BYTES, COPY_ROUTINES_OFFSET, EPOCH_OFFSET, LOCK_DAEMON, LOCK_FREE, Part,
    SEND_LOCK_OFFSET, STATE_CONNECTED, STATE_DISCONNECTED, STATE_FINISHED, STATE_OFFSET,
};
use scif_abi::call::Call;
use scif_abi::flags::{Kicks, Readiness};
use scif_ring::{RingError, RingMemory, Side, Word};
use syscall::error::*;
use syscall::flag::{EventFlags, MapFlags, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};

use super::client::{Client, View, dup_bypass, info};
use super::fixture::{Fixture, Op, PAGE, USER};
use super::memory::shared;
use super::programs::*;
use crate::ROOT;

const IN: u16 = Readiness::IN.bits();
const HUP: u16 = Readiness::HUP.bits();
const RING: usize = 4096;

/// A millisecond and more passes on a node.
fn pass(fixture: &mut Fixture, node: usize, milliseconds: u64) {
    let (engine, memory) = fixture.nodes[node].scif.engine();
    engine.tick(memory, milliseconds * 1_000_000);
    fixture.run();
}

#[test]
fn bypass_handles_are_checked() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let bypass = dup_bypass(fixture, 0, near).unwrap();
        let record = info(fixture, 0, bypass).unwrap();
        assert_eq!(record.handle.get(), 2);
        let rings = [record.own_ring_bytes.get(), record.peer_ring_bytes.get()];
        assert_eq!(rings, [RING as u32; 2]);
        let second = dup_bypass(fixture, 0, near).unwrap();
        assert_eq!(info(fixture, 0, second).unwrap().handle.get(), 3);

        let flags = shared(READ_WRITE);
        let own = Part::Own.offset();
        let ring = Part::PeerRing.offset();
        for (offset, bytes, flags, errno) in [
            (0, CONTROL_BYTES + PAGE, flags, EINVAL),
            (CONTROL_BYTES as u64, PAGE, flags, EINVAL),
            (own, RING + 2 * PAGE, flags, EINVAL),
            (own + 1, PAGE, flags, EINVAL),
            (ring + RING as u64, PAGE, flags, EINVAL),
            (1 << 63, PAGE, flags, EINVAL),
            (0, 0, flags, EINVAL),
            (0, PAGE, READ_WRITE | MapFlags::MAP_PRIVATE, EINVAL),
            (0, PAGE, flags | MapFlags::PROT_EXEC, EACCES),
        ] {
            let found = fixture.map(0, bypass, offset, bytes, flags);
            assert_eq!(found, error(errno), "{offset:#x} {bytes:#x}");
        }
        // A piece of a part can be mapped as well.
        fixture
            .map(0, bypass, own + PAGE as u64, RING, flags)
            .unwrap();
        let mappings = fixture.text(0, "mappings");
        assert_eq!(mappings.matches("bypass").count(), 1, "{mappings}");
        fixture.unmap(0, bypass, own + PAGE as u64, RING).unwrap();

        assert_eq!(fixture.read(0, bypass, 1), error(EINVAL));
        assert_eq!(fixture.write(0, bypass, b"x"), error(EINVAL));
        assert_eq!(call(fixture, 0, bypass, Call::PeerPort), error(ENOTTY));
        assert_eq!(info(fixture, 0, near), error(ENOTTY));
        assert_eq!(dup_bypass(fixture, 0, bypass), error(ENOTTY));
        for id in [near, bypass] {
            assert_eq!(call(fixture, 0, id, Call::Kick { kicks: 4 }), error(EINVAL));
            assert_eq!(call(fixture, 0, id, Call::Kick { kicks: 3 }), Ok(0));
        }
        assert_eq!(call(fixture, 0, near, Call::Shutdown), Ok(0));
        assert_eq!(dup_bypass(fixture, 0, near), error(EBADF));
        let kick = Call::Kick { kicks: 1 };
        assert_eq!(call(fixture, 0, bypass, kick), error(EBADF));
        for id in [near, bypass, second] {
            fixture.close(0, id);
        }
        fixture.close(to, far);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn only_connections_for_both_ways_are_worked_on_directly() {
    let mut fixture = Fixture::new(1);
    let fresh = fixture.open_with(0, "endpoint", O_RDWR, USER).unwrap();
    assert_eq!(dup_bypass(&mut fixture, 0, fresh), error(ENOTCONN));
    let kick = Call::Kick { kicks: 1 };
    assert_eq!(call(&mut fixture, 0, fresh, kick), error(ENOTCONN));
    let wait = Call::Wait {
        events: 1,
        kicks: 0,
    };
    let readiness = call(&mut fixture, 0, fresh, wait).unwrap() as u16;
    assert_eq!(readiness, Readiness::ERR.bits());
    let file = fixture.open_with(0, "nodes", O_RDONLY, USER).unwrap();
    assert_eq!(dup_bypass(&mut fixture, 0, file), error(ENOTTY));
    assert_eq!(call(&mut fixture, 0, file, wait), error(ENOTTY));
    for flags in [O_RDONLY, O_WRONLY] {
        let listener = fixture.open_with(0, "listen/2060", O_RDWR, USER).unwrap();
        let connect = Op::Open {
            directory: ROOT,
            path: "0/2060".into(),
            flags: flags | O_NONBLOCK,
            caller: USER,
        };
        let half = fixture.now(0, connect).0.unwrap();
        // The connect is under way.
        assert_eq!(dup_bypass(&mut fixture, 0, half), error(ENOTCONN));
        let name = b"accept".to_vec();
        let accept = Op::Dup {
            id: listener,
            name,
            caller: USER,
        };
        let accepted = fixture.now(0, accept).0.unwrap();
        assert_eq!(dup_bypass(&mut fixture, 0, half), error(EACCES));
        for id in [half, accepted, listener] {
            fixture.close(0, id);
        }
    }
}

#[test]
fn files_and_bypass_clients_share_a_stream() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let clients = [Client::new(fixture, 0, near), Client::new(fixture, to, far)];
        let stream = pattern(60_000, 3);
        let (mut sent, mut received) = (0, Vec::new());
        let mut random = 1_u64;
        while received.len() < stream.len() {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let length = 1 + (random >> 40) as usize % 700;
            let rest = &stream[sent..stream.len().min(sent + length)];
            match random >> 33 & 3 {
                0 => sent += clients[0].send(fixture, rest),
                1 if !rest.is_empty() => {
                    let write = Op::Write {
                        id: near,
                        bytes: rest.to_vec(),
                        flags: O_NONBLOCK,
                    };
                    match fixture.now(0, write).0 {
                        Ok(count) => sent += count,
                        found => assert_eq!(found, error(EAGAIN)),
                    }
                }
                2 => received.extend(clients[1].receive(fixture, length)),
                _ => {
                    let read = Op::Read {
                        id: far,
                        length,
                        flags: O_NONBLOCK,
                    };
                    match fixture.now(to, read) {
                        (Ok(count), bytes) => received.extend(&bytes[..count]),
                        (found, _) => assert_eq!(found, error(EAGAIN)),
                    }
                }
            }
        }
        assert!(received == stream);
        // Whoever has moved the bytes, they are counted once.
        let connections = fixture.text(0, "connections");
        assert!(connections.contains("60000"), "{connections}");
        assert_eq!(fixture.counter(0, "bytes_sent"), 60_000);
        assert_eq!(fixture.counter(to, "bytes_received"), 60_000);
        let [first, second] = clients;
        // Without clients, the files continue where they were.
        first.end(fixture);
        assert_eq!(fixture.write(0, near, b"after"), Ok(5));
        assert_eq!(second.receive(fixture, 9), b"after");
        second.end(fixture);
        assert_eq!(fixture.write(0, near, b"more"), Ok(4));
        assert_eq!(fixture.read(to, far, 9), Ok(b"more".to_vec()));
        fixture.close(0, near);
        fixture.close(to, far);
        assert_eq!(state(fixture), before);
        // The traffic is known after the end.
        let row = |fixture: &mut Fixture, node: usize, peer: usize| {
            let text = fixture.text(node, "traffic");
            let start = format!("{peer} ");
            let line = text.lines().find(|line| line.starts_with(&start));
            let words = line.unwrap_or_default().split_whitespace();
            words.map(ToString::to_string).collect::<Vec<_>>()
        };
        let own = row(fixture, 0, to);
        assert_eq!(own[1], "60009");
        let there = row(fixture, to, 0);
        assert_eq!(
            (there[2].as_str(), &there[3..]),
            ("60009", &["0".to_string(), "0".to_string()][..])
        );
    });
}

#[test]
fn sleepers_are_woken_by_files_and_clients() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let wait = Call::Wait {
            events: IN,
            kicks: 0,
        };
        for id in [client.id, near] {
            // A client sleeps, a file writes; and the other way round.
            let asleep = fixture.submit(0, op(id, wait));
            assert!(fixture.is_kept(0, asleep));
            assert_eq!(fixture.write(to, far, b"wake up"), Ok(7));
            let (result, _) = fixture.answer(0, asleep).expect("still asleep");
            assert_eq!(result, Ok(usize::from(IN)));
            assert_eq!(call(fixture, 0, id, wait), Ok(usize::from(IN)));
            assert_eq!(client.receive(fixture, 100), b"wake up");
            let reader = fixture.start_read(to, far, 10);
            assert!(fixture.is_kept(to, reader));
            assert_eq!(client.send(fixture, b"you too"), 7);
            let (result, bytes) = fixture.answer(to, reader).expect("still asleep");
            assert_eq!((result, &bytes[..7]), (Ok(7), &b"you too"[..]));
        }
        // A wait that is given up leaves nothing behind.
        let asleep = fixture.submit(0, op(client.id, wait));
        assert_eq!(fixture.cancel(0, asleep), error(ECANCELED));
        assert_eq!(fixture.counter(0, "waiting"), 0);
        // The end of either side wakes the client as well.
        let asleep = fixture.submit(0, op(client.id, wait));
        fixture.close(to, far);
        let (result, _) = fixture.answer(0, asleep).expect("still asleep");
        assert_eq!(result, Ok(usize::from(HUP)));
        client.end(fixture);
        fixture.close(0, near);
        assert_eq!(fixture.counter(0, "connections"), 0);

        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let asleep = fixture.submit(0, op(client.id, wait));
        let file = fixture.submit(0, op(near, wait));
        assert_eq!(call(fixture, 0, near, Call::Shutdown), Ok(0));
        let (result, _) = fixture.answer(0, asleep).expect("still asleep");
        assert_eq!(result, Ok(usize::from(Readiness::NVAL.bits())));
        let (result, _) = fixture.answer(0, file).expect("still asleep");
        assert_eq!(result, error(ECANCELED));
        client.end(fixture);
        fixture.close(0, near);
        fixture.close(to, far);
        assert_eq!(fixture.counter(0, "waiting"), 0);
    });
}

#[test]
fn who_sleeps_is_told_of_windows_that_go() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let wait = Call::Wait {
            events: IN,
            kicks: 0,
        };
        let (far_memory, own_memory) = (memory(fixture, to, 2), memory(fixture, 0, 2));
        for (node, id, memory) in [(to, far, far_memory), (0, near, own_memory)] {
            assert_eq!(register(fixture, node, id, fixed(memory, 0, 2)), Ok(0));
            let asleep = fixture.submit(0, op(client.id, wait));
            assert!(fixture.is_kept(0, asleep));
            let length = 2 * PAGE as u64;
            let offset = 0;
            assert_eq!(
                call(fixture, node, id, Call::Unregister { offset, length }),
                Ok(0)
            );
            // There is nothing to read, but a reason to wake once. A window of the other end does
            // not count: no program here maps it.
            let asleep = if id == near {
                let (result, _) = fixture.answer(0, asleep).expect("still asleep");
                assert_eq!(result, Ok(0));
                fixture.submit(0, op(client.id, wait))
            } else {
                asleep
            };
            assert!(fixture.is_kept(0, asleep));
            assert_eq!(fixture.cancel(0, asleep), error(ECANCELED));
            // A client that was awake when the window went learns of it as well.
            assert_eq!(register(fixture, node, id, fixed(memory, 0, 2)), Ok(0));
            assert_eq!(
                call(fixture, node, id, Call::Unregister { offset, length }),
                Ok(0)
            );
            assert_eq!(call(fixture, 0, client.id, wait), Ok(0));
        }
        client.end(fixture);
        fixture.close(0, near);
        fixture.close(to, far);
    });
}

#[test]
fn a_wait_can_kick_first() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let clients = [Client::new(fixture, 0, near), Client::new(fixture, to, far)];
        let sleep = |kicks: Kicks| Call::Wait {
            events: IN,
            kicks: kicks.bits(),
        };
        let mut asleep = fixture.submit(to, op(clients[1].id, sleep(Kicks::empty())));
        let mut near_asleep = None;
        for round in 0..6_u8 {
            // Ping: one call puts the sender to sleep and wakes the receiver.
            let (at, other) = if round % 2 == 0 { (0, to) } else { (to, 0) };
            let (client, peer) = (
                &clients[usize::from(round % 2)],
                &clients[usize::from(1 - round % 2)],
            );
            let sent = client
                .producer
                .send(&mut client.view(fixture), client.number, &[round]);
            assert!(sent.unwrap().notify);
            let next = fixture.submit(at, op(client.id, sleep(Kicks::BYTES)));
            assert!(fixture.is_kept(at, next));
            let woken = near_asleep.replace(next).unwrap_or(asleep);
            asleep = next;
            let (result, _) = fixture.answer(other, woken).expect("still asleep");
            assert_eq!(result, Ok(usize::from(IN)));
            assert_eq!(peer.receive(fixture, 10), [round]);
        }
        assert_eq!(
            fixture.counter(0, "waiting") + fixture.counter(to, "waiting"),
            if to == 0 { 2 } else { 1 }
        );
    });
}

#[test]
fn subscribers_hear_of_every_change() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        assert_eq!(fixture.ready(0, near), EventFlags::EVENT_WRITE);
        fixture.run();
        for _ in 0..3 {
            fixture.nodes[0].events.clear();
            assert_eq!(fixture.write(to, far, b"news"), Ok(4));
            assert!(fixture.nodes[0].events.contains(&near));
            // The request that the event loop makes then.
            let both = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
            assert_eq!(fixture.ready(0, near), both);
            assert_eq!(client.receive(fixture, 9), b"news");
            fixture.run();
        }
        // There is no subscriber and no waiting request, so the peer need not report.
        fixture.nodes[0]
            .scif
            .ready(near, EventFlags::empty())
            .unwrap();
        fixture.write(to, far, b"first").unwrap();
        fixture.nodes[0].events.clear();
        fixture.write(to, far, b"second").unwrap();
        assert!(!fixture.nodes[0].events.contains(&near));
        assert_eq!(client.receive(fixture, 20), b"firstsecond");
    });
}

#[test]
fn a_lock_is_waited_for_and_given_back() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        assert!(client.view(fixture).try_lock(Side::Send, client.number));
        let flags = O_NONBLOCK;
        let bytes = b"no".to_vec();
        assert_eq!(
            fixture
                .now(
                    0,
                    Op::Write {
                        id: near,
                        bytes,
                        flags
                    }
                )
                .0,
            error(EAGAIN)
        );
        let writer = fixture.start_write(0, near, b"patient");
        assert!(fixture.is_kept(0, writer));
        let (engine, _) = fixture.nodes[0].scif.engine();
        assert!(engine.next_deadline().is_some_and(|at| at <= 1_000_000));
        client.view(fixture).unlock(Side::Send);
        pass(fixture, 0, 2);
        assert_eq!(
            fixture.answer(0, writer).map(|answer| answer.0),
            Some(Ok(7))
        );
        assert_eq!(fixture.read(to, far, 20), Ok(b"patient".to_vec()));

        // A client dies while it holds the lock.
        assert!(client.view(fixture).try_lock(Side::Receive, client.number));
        let reader = fixture.start_read(0, near, 10);
        assert_eq!(fixture.write(to, far, b"late"), Ok(4));
        assert!(fixture.is_kept(0, reader));
        client.end(fixture);
        pass(fixture, 0, 4);
        assert_eq!(
            fixture.answer(0, reader).map(|answer| answer.0),
            Some(Ok(4))
        );
        fixture.close(0, near);
        fixture.close(to, far);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn a_large_write_is_not_mixed_with_what_clients_send() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let large = pattern(3 * RING, 5);
        let writer = fixture.start_write(0, near, &large);
        assert!(fixture.is_kept(0, writer));
        assert_eq!(client.control(fixture, SEND_LOCK_OFFSET), LOCK_DAEMON);
        let sent = client
            .producer
            .send(&mut client.view(fixture), client.number, b"x");
        assert_eq!(sent, Err(RingError::Locked));
        let mut received = Vec::new();
        while fixture.is_kept(0, writer) {
            received.extend(fixture.read(to, far, 1000).unwrap());
        }
        assert_eq!(fixture.answer(0, writer).unwrap().0, Ok(large.len()));
        assert_eq!(client.control(fixture, SEND_LOCK_OFFSET), LOCK_FREE);
        assert_eq!(client.send(fixture, b"behind"), 6.min(RING - 1));
        while received.len() < large.len() + 6 {
            received.extend(fixture.read(to, far, 1000).unwrap());
        }
        assert!(received[..large.len()] == large);
        assert_eq!(&received[large.len()..], b"behind");
        // A transfer that is given up in the middle releases the ring.
        let writer = fixture.start_write(0, near, &large);
        assert!(
            fixture
                .cancel(0, writer)
                .is_ok_and(|moved| moved < large.len())
        );
        assert_eq!(client.control(fixture, SEND_LOCK_OFFSET), LOCK_FREE);
    });
}

#[test]
fn clients_learn_of_the_end_and_release() {
    on_both(|fixture, to| {
        let before = state(fixture);
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        assert_eq!(client.control(fixture, STATE_OFFSET), STATE_CONNECTED);
        assert_eq!(client.control(fixture, COPY_ROUTINES_OFFSET), 0);
        assert_eq!(fixture.write(to, far, b"last words"), Ok(10));
        fixture.close(to, far);
        assert_eq!(client.control(fixture, STATE_OFFSET), STATE_DISCONNECTED);
        // No memory of the peer is mapped any more; bytes that have arrived can be taken.
        let ring = Part::PeerRing.offset();
        let found = fixture.map(0, client.id, ring, PAGE, shared(READ_WRITE));
        assert_eq!(found, error(ECONNRESET));
        let mut buffer = [0; 10];
        let drained = client
            .consumer
            .drain(&mut client.view(fixture), client.number, &mut buffer);
        assert_eq!((drained, &buffer), (Ok(10), b"last words"));
        assert_eq!(fixture.read(0, near, 1), error(ECONNRESET));
        client.end(fixture);
        fixture.close(0, near);
        assert_eq!(state(fixture), before);
    });
}

#[test]
fn a_peer_that_finishes_ends_reads_and_waits() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let client = Client::new(fixture, 0, near);
        let epoch = client.control(fixture, EPOCH_OFFSET);
        assert_eq!(fixture.write(to, far, b"last words"), Ok(10));
        let read = fixture.submit_only(
            0,
            op(
                near,
                Call::Wait {
                    events: IN,
                    kicks: 0,
                },
            ),
        );
        assert_eq!(call(fixture, to, far, Call::Finish), Ok(0));
        assert_eq!(fixture.answer(0, read).unwrap().0, Ok(usize::from(IN)));
        assert_eq!(client.control(fixture, STATE_OFFSET), STATE_FINISHED);
        assert_ne!(client.control(fixture, EPOCH_OFFSET), epoch);
        assert_eq!(fixture.read(0, near, 100), Ok(b"last words".to_vec()));
        assert_eq!(fixture.read(0, near, 100), error(ECONNRESET));
        // A read has to wait for the word.
        assert_eq!(client.send(fixture, b"answer"), 6);
        assert_eq!(fixture.read(to, far, 100), Ok(b"answer".to_vec()));
        let waiting = fixture.start_read(to, far, 100);
        assert_eq!(call(fixture, 0, near, Call::Finish), Ok(0));
        assert_eq!(fixture.answer(to, waiting).unwrap().0, error(ECONNRESET));
        client.end(fixture);
        fixture.close(0, near);
        fixture.close(to, far);
    });
}

#[test]
fn who_scribbles_loses_the_own_connection_only() {
    // A position that goes back, and an index outside every ring.
    let spoil: [fn(&mut View<'_>); 2] = [
        |view| view.set_position(Side::Send, 3),
        |view| view.store_at(Part::Own, Word::LocalRead.offset(), &[0xff; 4]),
    ];
    for spoil in spoil {
        for (nodes, to) in [(2, 1), (1, 0)] {
            let fixture = &mut Fixture::new(nodes);
            let (near, far) = ends(fixture, to);
            let client = Client::new(fixture, 0, near);
            let (other, other_far) = fixture.pair(0, to, 2070);
            assert_eq!(fixture.write(0, near, b"before"), Ok(6));
            spoil(&mut client.view(fixture));
            let large = vec![0; RING];
            let write = Op::Write {
                id: near,
                bytes: large,
                flags: 0,
            };
            assert_eq!(fixture.now(0, write).0, error(ECONNRESET));
            assert_ne!(client.control(fixture, STATE_OFFSET), STATE_CONNECTED);
            client.end(fixture);
            assert_eq!(fixture.read(to, far, 9), Ok(b"before".to_vec()));
            assert_eq!(fixture.read(to, far, 9), error(ECONNRESET));
            assert_eq!(fixture.write(0, other, b"fine"), Ok(4));
            assert_eq!(fixture.read(to, other_far, 9), Ok(b"fine".to_vec()));
            fixture.close(0, near);
            fixture.close(to, far);
        }
    }
}

#[test]
fn positions_at_the_end_of_numbers_harm_nobody() {
    on_both(|fixture, to| {
        let (near, far) = ends(fixture, to);
        let (other, other_far) = fixture.pair(0, to, 2070);
        let client = Client::new(fixture, 0, near);
        // The daemon's own byte takes the position over the end of the numbers, and the next store
        // takes it there again: the daemon cannot count the bytes, and need not.
        for _ in 0..3 {
            let mut view = client.view(fixture);
            view.set_position(Side::Send, u64::MAX);
            let full = (RING as u32 - 1).to_le_bytes();
            view.store_at(Part::Own, Word::LocalRead.offset(), &full);
            let write = Op::Write {
                id: near,
                bytes: vec![0],
                flags: O_NONBLOCK,
            };
            // A sent byte, no room, or the end of the connection: each affects only this client.
            let _ = fixture.now(0, write);
        }
        assert_eq!(fixture.write(0, other, b"fine"), Ok(4));
        assert_eq!(fixture.read(to, other_far, 9), Ok(b"fine".to_vec()));
        client.end(fixture);
        for (node, id) in [(0, near), (0, other), (to, far), (to, other_far)] {
            fixture.close(node, id);
        }
    });
}
