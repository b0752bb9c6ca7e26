//! The peer's memory where there is little room for windows, and where a bus has no atomic
//! operations.

mod pair;

use pair::{ALL, End, Setup, pair, settle};
use verbs_core::attributes::Attributes;
use verbs_core::demo::BASE;
use verbs_core::keys::Region;
use verbs_core::record::{Address, AtomicCall, Record};
use verbs_core::types::Atomic;
use verbs_core::types::WcStatus::{
    LocProtErr, RemAccessErr, RemInvReqErr, RemOpErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, AttributeMask as M, EventType, Opcode, QpState, WcOpcode};
use verbs_core::work::{Data, ReceiveRequest, Segment};
use verbs_core::{Event, Subject};

fn page(end: &mut End, number: u64, access: Access) -> u32 {
    let start = BASE + number * 4096;
    let region = Region {
        pd: end.pd,
        start,
        length: 4096,
        iova: start,
        access,
    };
    end.context.register(region).unwrap()
}

#[test]
fn old_windows_make_room_for_new_ones() {
    let (mut left, mut right) = pair(&Setup::default());
    right.program.windows_left = 2;
    let keys: Vec<_> = (0..4).map(|at| page(&mut right, at, ALL)).collect();
    // Each page in turn, again and again: all arrive, with two windows at a time.
    let mut expected = Vec::new();
    for round in 0..3u8 {
        for (at, key) in (0..).zip(&keys) {
            left.fill(0, &[round * 16 + at; 8]);
            let target = (u64::from(at) * 4096, *key);
            left.post(left.one_sided(u64::from(at), Opcode::RdmaWrite, (0, 8), target));
            settle(&mut left, &mut right);
            let bytes = right.bytes(u64::from(at) * 4096, 8);
            assert_eq!(bytes, [round * 16 + at; 8]);
            expected.push((u64::from(at), Success));
            assert!(right.program.windows() <= 2);
        }
    }
    assert_eq!(left.send_results(), expected);
}

#[test]
fn a_window_that_went_between_answer_and_copy_is_asked_for_again() {
    let (mut left, mut right) = pair(&Setup::default());
    right.program.windows_left = 1;
    let keys = [0, 1].map(|at| page(&mut right, at, ALL));
    left.fill(0, b"written!");
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (0, keys[0])));
    settle(&mut left, &mut right);
    // Another request asks for the other key; this end has not been told that its window went.
    left.program
        .inject(pair::LANE, &Record::Expose(keys[1]).encode());
    right.progress();
    left.post(left.one_sided(2, Opcode::RdmaWrite, (0, 8), (8, keys[0])));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    assert_eq!(
        (right.bytes(8, 8), right.program.windows()),
        (b"written!".to_vec(), 1)
    );
}

#[test]
fn a_window_that_always_goes_is_given_up() {
    let (mut left, mut right) = pair(&Setup::default());
    let key = page(&mut right, 0, ALL);
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (0, key)));
    settle(&mut left, &mut right);
    left.post(left.one_sided(2, Opcode::RdmaWrite, (0, 8), (0, key)));
    for _ in 0..100 {
        // All windows go, and nobody is told.
        right.program.forget_windows();
        settle(&mut left, &mut right);
    }
    assert_eq!(left.send_results(), [(1, Success), (2, RemOpErr)]);
    assert_eq!(right.state(), QpState::Rts);
}

/// Two ends on a bus without atomic operations.
fn ends() -> (End, End) {
    let (mut left, right) = pair(&Setup::default());
    left.program.has_atomics = false;
    (left, right)
}

fn word(end: &End, offset: u64) -> u64 {
    u64::from_ne_bytes(end.bytes(offset, 8).try_into().unwrap())
}

#[test]
fn the_owner_does_atomic_operations_that_the_bus_lacks() {
    let (mut left, mut right) = ends();
    let key = right.key;
    right.fill(72, &5u64.to_ne_bytes());
    let mut add = left.one_sided(1, Opcode::AtomicFetchAndAdd, (8, 8), (72, key));
    add.compare_add = 37;
    let mut swap = left.one_sided(2, Opcode::AtomicCmpAndSwp, (16, 8), (72, key));
    (swap.compare_add, swap.swap) = (42, 99);
    let mut not = left.one_sided(3, Opcode::AtomicCmpAndSwp, (24, 8), (72, key));
    (not.compare_add, not.swap) = (42, 7);
    right.receive(10, 256, 8);
    for request in [add, swap, not] {
        left.post(request);
    }
    left.send(4, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!([8, 16, 24].map(|at| word(&left, at)), [5, 42, 99]);
    assert_eq!(word(&right, 72), 99);
    let done: Vec<_> = left
        .sent()
        .iter()
        .map(|wc| (wc.id, wc.status, wc.opcode))
        .collect();
    let expected = [
        (1, Success, WcOpcode::FetchAdd),
        (2, Success, WcOpcode::CompSwap),
        (3, Success, WcOpcode::CompSwap),
        (4, Success, WcOpcode::Send),
    ];
    assert_eq!(done, expected);
    assert_eq!(right.receive_results(), [(10, Success)]);
}

#[test]
fn what_was_right_when_it_was_asked_may_be_wrong_when_it_is_done() {
    let (mut left, mut right) = ends();
    let key = page(&mut right, 1, ALL);
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (4096, key)));
    settle(&mut left, &mut right);
    left.post(left.one_sided(2, Opcode::AtomicFetchAndAdd, (0, 8), (4096, key)));
    left.post(left.one_sided(3, Opcode::RdmaWrite, (0, 8), (4096, key)));
    left.progress();
    right.context.deregister(&mut right.program, key).unwrap();
    settle(&mut left, &mut right);
    let results = [(1, Success), (2, RemAccessErr), (3, WrFlushErr)];
    assert_eq!(left.send_results(), results);
    assert_eq!(
        (right.state(), right.qp_events()),
        (QpState::Err, vec![EventType::QpAccessErr])
    );
    // The own memory for the result is gone.
    let (mut left, mut right) = ends();
    let own = page(&mut left, 1, ALL);
    let mut add = left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, 8), (0, right.key));
    add.data = Data::Segments(vec![Segment {
        address: BASE + 4096,
        length: 8,
        key: own,
    }]);
    left.post(add);
    left.progress();
    right.progress();
    left.progress();
    left.context.deregister(&mut left.program, own).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, LocProtErr)]);
}

/// A key, an offset, and the event of the owner's queue pair.
type Asked = (fn(&mut End) -> u32, u64, Option<EventType>);

#[test]
fn the_owner_checks_what_it_is_asked_for() {
    let cases: [Asked; 7] = [
        (|right| right.key, 0, None),
        (|_| 0, 0, Some(EventType::QpAccessErr)),
        (|right| right.key, 0x8000, Some(EventType::QpAccessErr)),
        (|right| right.key, 0x7ffc, Some(EventType::QpAccessErr)),
        (
            |right| right.key,
            0u64.wrapping_sub(8),
            Some(EventType::QpAccessErr),
        ),
        (|right| right.key, 4, Some(EventType::QpReqErr)),
        (
            |right| page(right, 0, Access::REMOTE_WRITE | Access::LOCAL_WRITE),
            0,
            Some(EventType::QpAccessErr),
        ),
    ];
    for (key, offset, event) in cases {
        let (mut left, mut right) = ends();
        let call = AtomicCall {
            operation: Atomic::FetchAdd(1),
            address: BASE.wrapping_add(offset),
            key: key(&mut right),
        };
        // A peer that checks nothing.
        let address = Address {
            destination: 2,
            source: 1,
            generation: (2 << 8) + 2,
        };
        left.program
            .inject(pair::LANE, &Record::Atomic(address, call).encode());
        right.progress();
        assert_eq!(right.qp_events(), Vec::from_iter(event), "{offset:x}");
        assert_eq!(word(&right, 0), u64::from(event.is_none()), "{offset:x}");
    }
    // Answers that nobody has asked for end the lane.
    let (mut left, mut right) = ends();
    let address = Address {
        destination: 1,
        source: 2,
        generation: (1 << 8) + 2,
    };
    let answer = Record::AtomicDone(address, Ok(1)).encode();
    right.program.inject(pair::LANE, &answer);
    left.progress();
    let fatal = Event::Async(EventType::QpFatal, Subject::Qp(1));
    assert_eq!(left.events(), [fatal, Event::LaneOver(pair::LANE)]);
}

#[test]
fn an_unaligned_atomic_is_refused_before_it_is_asked_for() {
    let (mut left, mut right) = ends();
    left.post(left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, 8), (4, right.key)));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemInvReqErr)]);
}

#[test]
fn the_oldest_window_goes() {
    let (mut left, mut right) = pair(&Setup::default());
    right.program.windows_left = 2;
    let keys = [0, 1, 2].map(|at| page(&mut right, at, ALL));
    for (at, key) in (0..).zip(keys) {
        left.post(left.one_sided(at, Opcode::RdmaWrite, (0, 8), (at * 4096, key)));
        settle(&mut left, &mut right);
    }
    assert_eq!(left.send_results(), [0, 1, 2].map(|id| (id, Success)));
    // The other two are there: nobody has to be asked.
    for at in [1, 2] {
        let target = (at * 4096, keys[at as usize]);
        left.post(left.one_sided(at, Opcode::RdmaWrite, (0, 8), target));
        left.progress();
        assert_eq!(left.send_results(), [(at, Success)]);
    }
}

#[test]
fn an_atomic_operation_is_asked_for_once() {
    let (mut left, mut right) = ends();
    right.receive(10, 256, 8);
    settle(&mut left, &mut right);
    let key = right.key;
    left.post(left.one_sided(1, Opcode::RdmaRead, (8, 8), (72, key)));
    settle(&mut left, &mut right);
    let mut add = left.one_sided(2, Opcode::AtomicFetchAndAdd, (8, 8), (72, key));
    add.compare_add = 1;
    left.post(add);
    left.progress();
    left.send(3, 0, 8);
    left.progress();
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [1, 2, 3].map(|id| (id, Success)));
    assert_eq!(word(&right, 72), 1);
}

/// What happens to keys between the question and the answer is nobody else's matter: the lane
/// serves other queue pairs, too.
#[test]
fn the_answer_to_an_atomic_operation_is_awaited() {
    for expected in [LocProtErr, RemAccessErr] {
        let (mut left, mut right) = ends();
        let (own, key) = (page(&mut left, 1, ALL), right.key);
        left.post(left.one_sided(1, Opcode::RdmaRead, (8, 8), (72, key)));
        right.receive(10, 256, 8);
        settle(&mut left, &mut right);
        // The answer comes before the acknowledgement.
        left.send(2, 0, 8);
        let mut add = left.one_sided(3, Opcode::AtomicFetchAndAdd, (0, 8), (72, key));
        add.data = Data::Segments(vec![Segment {
            address: BASE + 4096,
            length: 8,
            key: own,
        }]);
        left.post(add);
        left.progress();
        if expected == LocProtErr {
            left.context.deregister(&mut left.program, own).unwrap();
        } else {
            right.modify(QpState::Rts, Attributes::default(), M::ACCESS_FLAGS);
            // The other end learns of it before the operation is done.
            let request = ReceiveRequest {
                id: 11,
                segments: vec![right.segment(0, 8)].into(),
            };
            let posted = right.context.post_recv_now(&mut right.program, 2, request);
            assert!(posted.is_ok());
        }
        left.send(4, 0, 8);
        left.progress();
        settle(&mut left, &mut right);
        assert_eq!(
            left.send_results(),
            [(1, Success), (2, Success), (3, expected), (4, WrFlushErr)]
        );
        let events = left.events();
        assert!(!events.contains(&Event::LaneOver(pair::LANE)), "{events:?}");
    }
}

/// Requests of an end whose memory is no longer there.
#[test]
fn no_request_succeeds_with_memory_that_is_not_there() {
    for is_short in [true, false] {
        // A single segment goes the short way, two do not.
        let own = |end: &End| match is_short {
            true => vec![end.segment(0, 8)],
            false => vec![end.segment(0, 4), end.segment(4, 4)],
        };
        for opcode in [Opcode::Send, Opcode::RdmaWrite, Opcode::RdmaRead] {
            let (mut left, mut right) = pair(&Setup::default());
            let key = page(&mut right, 0, ALL);
            right.receive(9, 0, 64);
            // The key is known to the other end, so that the request is the only thing to do.
            left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (0, key)));
            settle(&mut left, &mut right);
            right.fill(0, b"untouched");
            left.program.missing = Some(left.key);
            let mut request = left.one_sided(2, opcode, (0, 8), (0, key));
            request.data = Data::Segments(own(&left));
            left.post(request);
            settle(&mut left, &mut right);
            assert_eq!(left.send_results(), [(1, Success), (2, LocProtErr)]);
            assert_eq!(right.bytes(0, 9), b"untouched", "{opcode:?}");
            let received = right.receive_results();
            assert!(!received.contains(&(9, Success)), "{opcode:?}");
        }
        let (mut left, mut right) = pair(&Setup::default());
        let segments = own(&right).into_iter().collect();
        let request = ReceiveRequest { id: 3, segments };
        right.context.post_recv(right.qp, request).unwrap();
        right.program.missing = Some(right.key);
        left.send(4, 0, 8);
        settle(&mut left, &mut right);
        assert_eq!(right.receive_results(), [(3, LocProtErr)]);
        assert_eq!(left.send_results(), [(4, RemOpErr)]);
    }
}

#[test]
fn the_result_of_an_atomic_operation_needs_memory() {
    for has_atomics in [true, false] {
        let (mut left, mut right) = pair(&Setup::default());
        left.program.has_atomics = has_atomics;
        let key = page(&mut right, 0, ALL);
        left.program.missing = Some(left.key);
        left.post(left.one_sided(1, Opcode::AtomicFetchAndAdd, (0, 8), (0, key)));
        settle(&mut left, &mut right);
        assert_eq!(left.send_results(), [(1, LocProtErr)]);
    }
}

#[test]
fn a_key_without_memory_takes_no_window_from_others() {
    let (mut left, mut right) = pair(&Setup::default());
    let [good, bad] = [0, 1].map(|at| page(&mut right, at, ALL));
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (0, good)));
    settle(&mut left, &mut right);
    right.program.missing = Some(bad);
    left.post(left.one_sided(2, Opcode::RdmaWrite, (0, 8), (4096, bad)));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, RemOpErr)]);
    assert_eq!(right.program.windows(), 1);
}
