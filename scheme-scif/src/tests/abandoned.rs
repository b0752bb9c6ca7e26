//! Accepts that were given up after their grant.

use scif_abi::call::Call;
use scif_abi::codec::Operation;
use syscall::error::{EAGAIN, ECANCELED, ECONNREFUSED, ECONNRESET};
use syscall::flag::{EventFlags, O_RDWR};

use super::connections::{error, take};
use super::fixture::{Fixture, USER, state};

/// Its connector may have returned from its call already.
#[test]
fn a_connection_of_a_cancelled_accept_is_the_next_ones() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
    let before = state(&mut fixture);
    let connect = fixture.start_open(1, "0/2050");
    let accept = fixture.submit_only(0, take(listener, b"accept-wait"));
    assert!(fixture.is_kept(0, accept), "the grant is not acknowledged");
    assert_eq!(fixture.cancel(0, accept), error(ECANCELED));
    assert_eq!(fixture.ready(0, listener), EventFlags::EVENT_READ);
    let there = fixture.answer(1, connect).unwrap().0.unwrap();
    let here = fixture.now(0, take(listener, b"accept-now")).0.unwrap();
    assert_eq!(fixture.ready(0, listener), EventFlags::empty());
    assert_eq!(fixture.write(1, there, b"word"), Ok(4));
    assert_eq!(fixture.read(0, here, 4), Ok(b"word".to_vec()));
    fixture.close(1, there);
    fixture.close(0, here);
    assert_eq!(state(&mut fixture), before);
}

#[test]
fn a_connection_that_nobody_takes_ends_with_its_listener() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
    let connect = fixture.start_open(1, "0/2050");
    let accept = fixture.submit_only(0, take(listener, b"accept-wait"));
    assert!(fixture.is_kept(0, accept));
    assert_eq!(fixture.cancel(0, accept), error(ECANCELED));
    let there = fixture.answer(1, connect).unwrap().0.unwrap();
    fixture.close(0, listener);
    assert_eq!(fixture.read(1, there, 1), error(ECONNRESET));
    fixture.close(1, there);
    assert_eq!(fixture.counter(0, "endpoints"), 0);
}

#[test]
fn a_connection_whose_connector_has_withdrawn_is_none() {
    for is_accept_first in [false, true] {
        let mut fixture = Fixture::new(2);
        let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
        let before = state(&mut fixture);
        let connect = fixture.start_open(1, "0/2050");
        let accept = fixture.submit_only(0, take(listener, b"accept-wait"));
        assert!(fixture.is_kept(0, accept));
        if is_accept_first {
            assert!(fixture.cancel_only(0, accept).is_err());
        }
        assert!(fixture.cancel(1, connect).is_err());
        if !is_accept_first {
            assert!(fixture.cancel(0, accept).is_err());
        }
        // Nobody waits for an event of it, nor is it charged to anybody.
        assert_eq!(fixture.ready(0, listener), EventFlags::empty());
        assert_eq!(state(&mut fixture), before);
        let none = fixture.now(0, take(listener, b"accept-now")).0;
        assert_eq!(none, error(EAGAIN));
    }
}

#[test]
fn a_request_of_a_cancelled_accept_comes_before_later_ones() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open_with(0, "listen/2050", O_RDWR, USER).unwrap();
    let connects = [(); 2].map(|()| fixture.start_open(1, "0/2050"));
    let given_up = fixture.submit_only(0, take(listener, b"accept-wait"));
    assert!(fixture.is_kept(0, given_up));
    assert!(fixture.cancel_only(0, given_up).is_err());
    // The handshake is under way, for which an accept waits.
    let accept = fixture.submit_only(0, take(listener, b"accept-now"));
    assert!(fixture.is_kept(0, accept));
    fixture.run();
    let here = fixture.answer(0, accept).unwrap().0.unwrap();
    let there = fixture.answer(1, connects[0]).unwrap().0.unwrap();
    assert_eq!(fixture.write(1, there, b"first"), Ok(5));
    assert_eq!(fixture.read(0, here, 9), Ok(b"first".to_vec()));
}

#[test]
fn a_cancelled_accept_takes_no_place_of_the_backlog() {
    let mut fixture = Fixture::new(2);
    let listener = fixture.open(0, "endpoint").unwrap();
    for call in [
        Call::Bind { port: 2050 },
        Call::Listen {
            backlog: 1,
            flags: 0,
        },
    ] {
        let [first, second] = call.words();
        let done = fixture.call(0, listener, &[], [call.number(), first, second]);
        assert!(done.0.is_ok());
    }
    fixture.start_open(1, "0/2050");
    let accept = fixture.submit_only(0, take(listener, b"accept-wait"));
    assert_eq!(fixture.cancel(0, accept), error(ECANCELED));
    let waiting = fixture.start_open(1, "0/2050");
    assert!(fixture.answer(1, waiting).is_none(), "it is not refused");
    let refused = fixture.start_open(1, "0/2050");
    assert_eq!(fixture.answer(1, refused).unwrap().0, error(ECONNREFUSED));
}
