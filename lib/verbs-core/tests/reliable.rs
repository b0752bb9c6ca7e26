//! Reliable connections: what arrives, in what order, and how long a send waits for a receive.

mod pair;

use pair::{End, LANE, REGION, Setup, pair, settle, wait};
use verbs_core::attributes::{Attributes, rnr_time};
use verbs_core::types::WcStatus::{
    LocProtErr, RemInvReqErr, RetryExcErr, RnrRetryExcErr, Success, WrFlushErr,
};
use verbs_core::types::{
    AttributeMask as M, Error, EventType, Opcode, QpState, SendFlags, WcFlags, WcOpcode,
};
use verbs_core::work::{ReceiveRequest, SendRequest};
use verbs_core::{Event, Subject};

const ERROR: QpState = QpState::Err;

#[test]
fn messages_of_all_lengths_arrive_in_order() {
    for shared in [false, true] {
        let setup = Setup {
            shared,
            ..Setup::default()
        };
        let (mut left, mut right) = pair(&setup);
        // A small ring: long messages go in pieces, as room comes.
        left.program.ring = 4095;
        let data: Vec<u8> = (0..REGION).map(|at| (at * 7 + at / 256) as u8).collect();
        left.fill(0, &data);
        let lengths = [0, 1, 63, 2000, 2001, 4000, 9000, REGION as u32];
        for (id, length) in (0..).zip(lengths) {
            right.receive(100 + id, 0, REGION as u32);
            left.send(id, 0, length);
            settle(&mut left, &mut right);
            assert_eq!(left.send_results(), [(id, Success)]);
            let received = right.received();
            assert_eq!(received.len(), 1, "{length}");
            let wc = received[0];
            assert_eq!((wc.id, wc.status, wc.byte_len), (100 + id, Success, length));
            assert_eq!((wc.qp, wc.src_qp, wc.opcode), (2, 1, WcOpcode::Recv));
            assert_eq!(right.bytes(0, length as usize), data[..length as usize]);
        }
    }
}

#[test]
fn segments_inline_and_immediate_data() {
    let (mut left, mut right) = pair(&Setup::default());
    left.fill(0, b"abcdefgh");
    let request = ReceiveRequest {
        id: 9,
        segments: vec![right.segment(0, 3), right.segment(100, 50)].into(),
    };
    right.context.post_recv(2, request).unwrap();
    let segments = vec![left.segment(6, 2), left.segment(0, 0), left.segment(0, 4)];
    let mut request = SendRequest::new(1, Opcode::SendWithImm, segments);
    request.immediate = 0x1234_5678;
    left.post(request);
    settle(&mut left, &mut right);
    let wc = right.received()[0];
    assert_eq!((wc.immediate, wc.flags), (0x1234_5678, WcFlags::WITH_IMM));
    assert_eq!(
        (right.bytes(0, 3), right.bytes(100, 3)),
        (b"gha".to_vec(), b"bcd".to_vec())
    );
    // Inline data needs no key, and is copied at once.
    right.receive(10, 0, 100);
    left.post(End::inline(2, Opcode::Send, b"inline"));
    settle(&mut left, &mut right);
    assert_eq!(right.received()[0].byte_len, 6);
    assert_eq!(right.bytes(0, 6), b"inline");
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
}

#[test]
fn writes_reads_and_atomics() {
    let (mut left, mut right) = pair(&Setup::default());
    let key = right.key;
    left.fill(0, b"written!");
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 8), (64, key)));
    settle(&mut left, &mut right);
    assert_eq!(right.bytes(64, 8), b"written!");
    left.post(left.one_sided(2, Opcode::RdmaRead, (200, 8), (64, key)));
    // From now on the responder does nothing: it was asked for the key before.
    left.progress();
    assert_eq!(left.bytes(200, 8), b"written!");
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    right.fill(72, &5u64.to_ne_bytes());
    let mut add = left.one_sided(3, Opcode::AtomicFetchAndAdd, (208, 8), (72, key));
    add.compare_add = 37;
    let mut swap = left.one_sided(4, Opcode::AtomicCmpAndSwp, (216, 8), (72, key));
    (swap.compare_add, swap.swap) = (42, 99);
    let mut not = left.one_sided(5, Opcode::AtomicCmpAndSwp, (224, 8), (72, key));
    (not.compare_add, not.swap) = (42, 7);
    for request in [add, swap, not] {
        left.post(request);
    }
    left.progress();
    let read = |end: &End, at| u64::from_ne_bytes(end.bytes(at, 8).try_into().unwrap());
    assert_eq!([208, 216, 224].map(|at| read(&left, at)), [5, 42, 99]);
    assert_eq!(read(&right, 72), 99);
    let done = left.sent();
    let opcodes: Vec<_> = done.iter().map(|wc| (wc.opcode, wc.byte_len)).collect();
    let (add, swap) = ((WcOpcode::FetchAdd, 8), (WcOpcode::CompSwap, 8));
    assert_eq!(opcodes, [add, swap, swap]);
    // A write with immediate data consumes a receive, and touches only what it names.
    right.receive(6, 0, 4);
    let mut write = left.one_sided(7, Opcode::RdmaWriteWithImm, (0, 8), (128, key));
    write.immediate = 11;
    left.post(write);
    settle(&mut left, &mut right);
    let wc = right.received()[0];
    assert_eq!(
        (wc.id, wc.opcode, wc.byte_len),
        (6, WcOpcode::RecvRdmaWithImm, 8)
    );
    assert_eq!((wc.immediate, wc.flags), (11, WcFlags::WITH_IMM));
    assert_eq!(
        (right.bytes(128, 8), right.bytes(0, 4)),
        (b"written!".to_vec(), vec![0; 4])
    );
    assert!(right.received().is_empty() && right.qp_events().is_empty());
}

/// A message behind a READ or an atomic operation is not sent before that has ended, whether the
/// program asks for FENCE or not.
#[test]
fn a_message_waits_for_the_reads_before_it() {
    let (read, add) = (Opcode::RdmaRead, Opcode::AtomicFetchAndAdd);
    for (opcode, has_atomics) in [(read, true), (add, true), (add, false)] {
        for flags in [SendFlags::FENCE, SendFlags::empty()] {
            let (mut left, mut right) = pair(&Setup::default());
            left.program.has_atomics = has_atomics;
            right.receive(10, 256, 8);
            settle(&mut left, &mut right);
            right.fill(64, b"contents");
            left.post(left.one_sided(1, opcode, (0, 8), (64, right.key)));
            let mut send = SendRequest::new(2, Opcode::Send, vec![left.segment(128, 8)]);
            send.flags |= flags;
            left.post(send);
            // The peer must answer first, so the message has time to come too early.
            let mut turns = 0;
            while right.receive_results().is_empty() {
                left.progress();
                right.progress();
                let has_arrived = right.context.query_qp(2).unwrap().queued.1 == 0;
                let is_read = left.bytes(0, 8) == b"contents";
                assert!(is_read || !has_arrived, "{opcode:?} {flags:?}");
                turns += 1;
                assert!(turns < 50, "it does not go on");
            }
            settle(&mut left, &mut right);
            assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
        }
    }
}

#[test]
fn a_queue_pair_connected_to_itself() {
    let setup = Setup::default();
    let mut end = End::new(1, &setup);
    end.program.join_self(LANE);
    end.context.open_lane(LANE, end.pd).unwrap();
    end.enter_init(&setup);
    end.context.attach(1, LANE).unwrap();
    end.enter_rtr(&setup, 1);
    end.enter_rts(&setup);
    end.fill(0, b"myself");
    end.receive(1, 100, 6);
    end.send(2, 0, 6);
    let key = end.key;
    end.post(end.one_sided(3, Opcode::RdmaWrite, (0, 6), (200, key)));
    for _ in 0..10 {
        end.progress();
    }
    assert_eq!(end.send_results(), [(2, Success), (3, Success)]);
    assert_eq!(end.receive_results(), [(1, Success)]);
    assert_eq!(
        (end.bytes(100, 6), end.bytes(200, 6)),
        (b"myself".to_vec(), b"myself".to_vec())
    );
}

#[test]
fn what_completes_and_what_does_not() {
    let (mut left, mut right) = pair(&Setup::default());
    for id in 0..4 {
        right.receive(id, 0, 8);
        let mut request = SendRequest::new(id, Opcode::Send, vec![left.segment(0, 8)]);
        if id != 3 {
            request.flags = SendFlags::empty();
        }
        left.post(request);
    }
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(3, Success)]);
    assert_eq!(right.receive_results().len(), 4);
    // An error completes in any case.
    let mut request = SendRequest::new(5, Opcode::Send, vec![left.segment(REGION as u64, 1)]);
    request.flags = SendFlags::empty();
    left.post(request);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(5, LocProtErr)]);
    let all = Setup {
        signal_all: true,
        ..Setup::default()
    };
    let (mut left, mut right) = pair(&all);
    right.receive(1, 0, 8);
    let mut request = SendRequest::new(6, Opcode::Send, vec![left.segment(0, 8)]);
    request.flags = SendFlags::empty();
    left.post(request);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(6, Success)]);
}

#[test]
fn a_send_waits_for_a_receive_as_often_as_it_may() {
    for shared in [false, true] {
        for retries in 0..7u8 {
            let mut setup = Setup {
                shared,
                ..Setup::default()
            };
            setup.attributes.rnr_retry = retries;
            let timer = rnr_time(setup.attributes.min_rnr_timer);
            let (mut left, mut right) = pair(&setup);
            let tries = |left: &End| left.program.sent_records;
            let before = tries(&left);
            left.send(1, 0, 8);
            left.send(2, 0, 8);
            settle(&mut left, &mut right);
            for used in 0..usize::from(retries) {
                assert_eq!(left.send_results(), [], "{retries}");
                // Each try is both messages, or the question whether there is a receive.
                let sent = (used + 1) * if shared { 2 } else { 1 };
                assert_eq!(tries(&left) - before, sent, "{shared} {retries}");
                wait(&mut left, &mut right, timer - 1);
                assert_eq!(tries(&left) - before, sent, "{shared} {retries}");
                wait(&mut left, &mut right, 1);
            }
            let flushed = [(1, RnrRetryExcErr), (2, WrFlushErr)];
            assert_eq!(left.send_results(), flushed, "{shared} {retries}");
            assert_eq!((left.state(), right.state()), (ERROR, QpState::Rts));
            assert_eq!(right.qp_events(), []);
        }
    }
}

/// A peer is told of new receives only now and then, but a message that may not be tried again
/// must not fail because of that.
#[test]
fn a_receive_that_the_sender_has_not_heard_of_counts() {
    let mut setup = Setup::default();
    setup.attributes.rnr_retry = 0;
    let (mut left, mut right) = pair(&setup);
    for round in 0..8 {
        for id in 0..4 {
            right.receive(id, 0, 8);
            settle(&mut left, &mut right);
        }
        for id in 0..4 {
            left.send(id, 0, 8);
        }
        settle(&mut left, &mut right);
        let all = [(0, Success), (1, Success), (2, Success), (3, Success)];
        assert_eq!(left.send_results(), all, "{round}");
        assert_eq!(right.receive_results(), all, "{round}");
    }
    // A message without a receive fails, after one question and its answer.
    let records = |left: &End, right: &End| {
        let ends = [left, right].map(|end| end.program.sent_records);
        ends.into_iter().sum::<usize>()
    };
    let before = records(&left, &right);
    left.send(5, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(5, RnrRetryExcErr)]);
    // The third record tells of the error state.
    assert_eq!(records(&left, &right) - before, 3);
}

#[test]
fn seven_retries_are_for_ever_and_messages_stay_in_order() {
    for shared in [false, true] {
        let setup = Setup {
            shared,
            ..Setup::default()
        };
        let timer = rnr_time(setup.attributes.min_rnr_timer);
        let (mut left, mut right) = pair(&setup);
        for id in 0..6 {
            left.fill(id, &[id as u8 + 1]);
            left.send(id, id, 1);
        }
        for _ in 0..100 {
            wait(&mut left, &mut right, timer);
        }
        assert_eq!(left.send_results(), []);
        for id in 0..6 {
            right.receive(10 + id, 100 + id, 1);
            wait(&mut left, &mut right, timer);
            assert_eq!(left.send_results(), [(id, Success)], "{shared}");
            assert_eq!(right.receive_results(), [(10 + id, Success)]);
        }
        assert_eq!(right.bytes(100, 6), [1, 2, 3, 4, 5, 6]);
    }
}

#[test]
fn a_receive_lets_a_send_go_before_the_timer() {
    let (mut left, mut right) = pair(&Setup::default());
    left.send(1, 0, 8);
    settle(&mut left, &mut right);
    right.receive(2, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
}

#[test]
fn a_one_sided_request_waits_for_messages_that_may_be_refused() {
    let setup = Setup {
        shared: true,
        ..Setup::default()
    };
    let timer = rnr_time(setup.attributes.min_rnr_timer);
    let (mut left, mut right) = pair(&setup);
    left.fill(0, b"x");
    left.send(1, 0, 1);
    let key = right.key;
    left.post(left.one_sided(2, Opcode::RdmaWrite, (0, 1), (500, key)));
    wait(&mut left, &mut right, timer);
    assert_eq!(
        (left.send_results(), right.bytes(500, 1)),
        (vec![], vec![0])
    );
    right.receive(3, 0, 1);
    wait(&mut left, &mut right, timer);
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    assert_eq!(right.bytes(500, 1), b"x");
}

#[test]
fn the_limit_of_a_shared_receive_queue_tells_once() {
    let setup = Setup {
        shared: true,
        ..Setup::default()
    };
    let (mut left, mut right) = pair(&setup);
    let srq = right.srq.unwrap();
    for id in 0..8 {
        right.receive(id, 0, 8);
    }
    right.context.modify_srq(srq, None, Some(5)).unwrap();
    let above = right.context.modify_srq(srq, None, Some(65));
    assert_eq!(above, Err(Error::Invalid));
    for (sends, expected) in [(3, 0), (1, 1), (2, 0)] {
        for id in 0..sends {
            left.send(id, 0, 8);
        }
        settle(&mut left, &mut right);
        let limit = Event::Async(EventType::SrqLimitReached, Subject::Srq(srq));
        let events = right.events();
        assert_eq!(events, vec![limit; expected], "after {sends}");
    }
    assert_eq!(right.context.srq(srq).unwrap().len(), 2);
    // The error state leaves the receives that were not used.
    right.modify(ERROR, Attributes::default(), M::empty());
    assert_eq!(right.qp_events(), [EventType::QpLastWqeReached]);
    assert_eq!(right.context.srq(srq).unwrap().len(), 2);
}

#[test]
fn the_timer_of_the_responder_can_be_changed() {
    let mut setup = Setup::default();
    setup.attributes.rnr_retry = 1;
    let (mut left, mut right) = pair(&setup);
    let attributes = Attributes {
        min_rnr_timer: 20,
        ..Attributes::default()
    };
    right.modify(QpState::Rts, attributes, M::MIN_RNR_TIMER);
    settle(&mut left, &mut right);
    left.send(1, 0, 8);
    wait(&mut left, &mut right, rnr_time(20) - 1);
    assert_eq!(left.send_results(), []);
    wait(&mut left, &mut right, 1);
    assert_eq!(left.send_results(), [(1, RnrRetryExcErr)]);
}

#[test]
fn an_acknowledgement_counts_the_receive_of_a_message_under_way() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 4000);
    right.receive(11, 0, 4000);
    settle(&mut left, &mut right);
    // The first message and the beginning of the second one arrive together.
    left.program.ring = 3000;
    left.send(1, 0, 8);
    left.send(2, 0, 4000);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    assert_eq!(right.receive_results(), [(10, Success), (11, Success)]);
}

#[test]
fn a_queue_pair_that_fails_has_acknowledged_what_it_took() {
    let mut setup = Setup::default();
    setup.attributes.max_dest_rd_atomic = 0;
    let (mut left, mut right) = pair(&setup);
    right.receive(10, 0, 8);
    settle(&mut left, &mut right);
    // A message and a read that is not allowed arrive together.
    left.send(1, 0, 8);
    left.post(left.one_sided(2, Opcode::RdmaRead, (0, 8), (0, right.key)));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, RemInvReqErr)]);
    assert_eq!(right.receive_results(), [(10, Success)]);
    assert_eq!(right.qp_events(), [EventType::QpReqErr]);
}

#[test]
fn what_was_sent_to_a_former_life_is_dropped() {
    let setup = Setup::default();
    let (mut left, mut right) = pair(&setup);
    left.send(1, 0, 8);
    right.receive(10, 0, 8);
    settle(&mut left, &mut right);
    right.receive(11, 0, 8);
    settle(&mut left, &mut right);
    left.send(2, 0, 8);
    left.progress();
    // The message is on its way when its receiver begins anew, with the same peer.
    right.modify(QpState::Reset, Attributes::default(), M::empty());
    right.enter_init(&setup);
    right.context.attach(2, LANE).unwrap();
    right.receive(20, 0, 8);
    right.enter_rtr(&setup, 1);
    right.progress();
    assert_eq!(right.receive_results(), []);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success), (2, RetryExcErr)]);
}

#[test]
fn the_receive_of_a_message_under_way_is_flushed_first() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 4000);
    right.receive(11, 0, 8);
    settle(&mut left, &mut right);
    left.program.ring = 2100;
    left.send(1, 0, 4000);
    left.progress();
    right.progress();
    right.modify(ERROR, Attributes::default(), M::empty());
    assert_eq!(
        right.receive_results(),
        [(10, WrFlushErr), (11, WrFlushErr)]
    );
}

#[test]
fn a_receive_that_is_posted_before_the_peer_is_known_counts() {
    let setup = Setup::default();
    let (mut left, mut right) = pair::apart(&setup);
    left.enter_rtr(&setup, 2);
    left.enter_rts(&setup);
    settle(&mut left, &mut right);
    // The right end introduces itself, and tells of a receive before it has an answer.
    right.enter_rtr(&setup, 1);
    right.progress();
    right.receive(10, 0, 8);
    right.progress();
    settle(&mut left, &mut right);
    left.send(1, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(right.receive_results(), [(10, Success)]);
}

/// A request that has waited for records before it is executed without another cause.
#[test]
fn a_request_behind_records_that_have_found_room_goes_on() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 8);
    settle(&mut left, &mut right);
    // The record about the change goes first.
    left.modify(QpState::Rts, Attributes::default(), M::ACCESS_FLAGS);
    left.send(1, 0, 8);
    assert!(left.progress().is_busy);
    left.progress();
    right.progress();
    assert_eq!(right.receive_results(), [(10, Success)]);
}

/// A signal may interrupt a copy while the lane lives: nothing else happens there that would
/// resume the request.
#[test]
fn a_copy_that_is_interrupted_is_made_again() {
    let (mut left, mut right) = pair(&Setup::default());
    let key = right.key;
    left.fill(0, b"again");
    left.program.interruptions = 2;
    left.post(left.one_sided(1, Opcode::RdmaWrite, (0, 5), (64, key)));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(right.bytes(64, 5), b"again");
}

#[test]
fn a_message_that_is_refused_comes_again_before_one_that_has_failed() {
    let shared = Setup {
        shared: true,
        ..Setup::default()
    };
    let (mut left, mut right) = pair(&shared);
    left.send(1, 0, 8);
    let mut bad = left.segment(0, 8);
    bad.key ^= 1;
    left.post(SendRequest::new(2, Opcode::Send, vec![bad]));
    settle(&mut left, &mut right);
    right.receive(10, 0, 8);
    wait(&mut left, &mut right, 1_000_000_000);
    assert_eq!(right.receive_results(), [(10, Success)]);
    let results = [(1, Success), (2, LocProtErr)];
    assert_eq!(left.send_results(), results);
    assert_eq!(left.state(), QpState::Err);
}
