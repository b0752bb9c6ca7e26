//! Peers that come late, leave, die or begin anew.

mod pair;

use pair::{End, LANE, REGION, Setup, apart, pair, settle, wait};
use verbs_core::attributes::Attributes;
use verbs_core::host::{Host, Source, Target};
use verbs_core::record::{Ack, Address, HEADER_BYTES, Piece, Record};
use verbs_core::types::WcStatus::{LocProtErr, RetryExcErr, Success, WrFlushErr};
use verbs_core::types::{Access, AttributeMask as M, Error, EventType, Opcode, QpState};
use verbs_core::{Event, Subject};

const ERROR: QpState = QpState::Err;

#[test]
fn a_peer_that_never_comes_exceeds_the_retries() {
    for (code, retries, timeout) in [
        (10, 2, 3 * 4096 * 1024),
        (10, 0, 4096 * 1024),
        (1, 7, 8 * 4096 * 2),
        (31, 7, 8 * (4096 << 31)),
    ] {
        let mut setup = Setup::default();
        (setup.attributes.timeout, setup.attributes.retry_cnt) = (code, retries);
        let (mut left, mut right) = apart(&setup);
        left.enter_rtr(&setup, 2);
        left.enter_rts(&setup);
        left.send(1, 0, 8);
        left.send(2, 0, 8);
        settle(&mut left, &mut right);
        wait(&mut left, &mut right, timeout - 1);
        assert_eq!(left.send_results(), []);
        wait(&mut left, &mut right, 1);
        assert_eq!(left.send_results(), [(1, RetryExcErr), (2, WrFlushErr)]);
        assert_eq!(left.state(), ERROR);
    }
}

#[test]
fn without_a_timeout_a_peer_may_come_at_any_time() {
    let mut setup = Setup::default();
    setup.attributes.timeout = 0;
    let (mut left, mut right) = apart(&setup);
    left.enter_rtr(&setup, 2);
    left.enter_rts(&setup);
    left.send(1, 0, 8);
    wait(&mut left, &mut right, 1 << 50);
    assert_eq!(left.send_results(), []);
    right.receive(10, 0, 8);
    right.enter_rtr(&setup, 1);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
}

#[test]
fn a_peer_that_comes_late_is_in_time() {
    let setup = Setup::default();
    let (mut left, mut right) = apart(&setup);
    left.enter_rtr(&setup, 2);
    left.enter_rts(&setup);
    left.send(1, 0, 8);
    settle(&mut left, &mut right);
    right.receive(10, 0, 8);
    right.enter_rtr(&setup, 1);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(right.receive_results(), [(10, Success)]);
}

#[test]
fn nobody_else_is_let_in() {
    // The right end expects another peer.
    let setup = Setup::default();
    let (mut left, mut right) = apart(&setup);
    for (end, peer) in [(&mut left, 2), (&mut right, 3)] {
        end.enter_rtr(&setup, peer);
        end.enter_rts(&setup);
    }
    right.receive(10, 0, 8);
    left.send(1, 0, 8);
    settle(&mut left, &mut right);
    wait(&mut left, &mut right, 1 << 40);
    assert_eq!(left.send_results(), [(1, RetryExcErr)]);
    assert_eq!(right.receive_results(), []);
}

#[test]
fn a_lane_alone_reaches_no_memory() {
    let setup = Setup::default();
    let (mut left, mut right) = apart(&setup);
    let ask = |left: &mut pair::End, right: &mut pair::End| {
        let key = right.key;
        left.program.inject(LANE, &Record::Expose(key).encode());
        right.progress();
        right.program.windows()
    };
    // Its queue pair is in INIT, then connected, then it has failed.
    assert_eq!(ask(&mut left, &mut right), 0);
    right.enter_rtr(&setup, 1);
    assert_eq!(ask(&mut left, &mut right), 1);
    let (mut left, mut right) = pair(&setup);
    right.modify(ERROR, Attributes::default(), M::empty());
    assert_eq!(ask(&mut left, &mut right), 0);
}

#[test]
fn a_peer_that_leaves_in_order() {
    for shared in [false, true] {
        let setup = Setup {
            shared,
            ..Setup::default()
        };
        let (mut left, mut right) = pair(&setup);
        // Its messages arrive; then nothing happens.
        left.receive(1, 0, 8);
        left.receive(2, 0, 8);
        settle(&mut left, &mut right);
        right.send(10, 0, 8);
        right.progress();
        right.context.destroy_qp(2).unwrap();
        right.context.say_bye(LANE).unwrap();
        right.progress();
        right.program.cut(LANE);
        left.progress();
        assert_eq!(left.receive_results(), [(1, Success)]);
        assert_eq!((left.state(), left.qp_events()), (QpState::Rts, vec![]));
        // The next send finds no peer.
        left.send(3, 0, 8);
        left.send(4, 0, 8);
        left.progress();
        assert_eq!(left.send_results(), [(3, RetryExcErr), (4, WrFlushErr)]);
        assert_eq!(left.state(), ERROR);
    }
}

#[test]
fn a_peer_that_leaves_has_acknowledged_what_it_took() {
    let (mut left, mut right) = pair(&Setup::default());
    right.receive(10, 0, 8);
    settle(&mut left, &mut right);
    left.send(1, 0, 8);
    left.send(2, 0, 8);
    left.progress();
    right.context.progress(&mut right.program, 0);
    right.modify(ERROR, Attributes::default(), M::empty());
    settle(&mut left, &mut right);
    left.send(3, 0, 8);
    let results = [(1, Success), (2, RetryExcErr), (3, WrFlushErr)];
    assert_eq!(left.send_results(), results);
}

#[test]
fn a_peer_that_is_killed() {
    let (mut left, mut right) = pair(&Setup::default());
    left.receive(1, 0, 8);
    left.receive(2, 0, 8);
    settle(&mut left, &mut right);
    right.send(10, 0, 8);
    right.progress();
    left.send(3, 0, 8);
    left.send(4, 0, 8);
    left.progress();
    right.program.cut(LANE);
    left.progress();
    assert_eq!(left.receive_results(), [(1, Success), (2, WrFlushErr)]);
    assert_eq!(left.send_results(), [(3, RetryExcErr), (4, WrFlushErr)]);
    let events = left.events();
    let fatal = Event::Async(EventType::QpFatal, Subject::Qp(1));
    assert_eq!(events, [fatal, Event::LaneOver(LANE)]);
    assert_eq!((left.state(), left.program.windows()), (ERROR, 0));
}

#[test]
fn another_life_of_the_peer() {
    let setup = Setup::default();
    for is_under_way in [false, true] {
        let (mut left, mut right) = pair(&setup);
        for id in 10..(if is_under_way { 12 } else { 11 }) {
            right.receive(id, 0, 8);
        }
        left.send(1, 0, 8);
        settle(&mut left, &mut right);
        // The right end begins anew while something is on its way to its former life, or waits.
        left.send(2, 0, 8);
        left.progress();
        right.modify(QpState::Reset, Attributes::default(), M::empty());
        right.enter_init(&setup);
        right.context.attach(2, LANE).unwrap();
        right.receive(20, 0, 8);
        right.enter_rtr(&setup, 1);
        right.enter_rts(&setup);
        settle(&mut left, &mut right);
        let results = left.send_results();
        if is_under_way {
            assert_eq!(results, [(1, Success), (2, RetryExcErr)]);
            assert_eq!((right.receive_results(), left.state()), (vec![], ERROR));
        } else {
            assert_eq!(results, [(1, Success), (2, Success)]);
            assert_eq!(right.receive_results(), [(20, Success)]);
            assert_eq!(left.state(), QpState::Rts);
        }
    }
}

#[test]
fn what_is_in_use_stays() {
    let (mut left, mut right) = pair(&Setup::default());
    let busy = Err(Error::Busy);
    let (pd, send_cq, recv_cq) = (left.pd, left.send_cq, left.recv_cq);
    assert_eq!(left.context.dealloc_pd(pd), busy);
    assert_eq!(left.context.destroy_cq(send_cq), busy);
    left.context.destroy_qp(1).unwrap();
    left.context.destroy_cq(send_cq).unwrap();
    left.context.destroy_cq(recv_cq).unwrap();
    assert_eq!(left.context.destroy_cq(recv_cq), Err(Error::NotFound));
    left.context.end_lane(&mut left.program, LANE).unwrap();
    assert_eq!(left.context.dealloc_pd(pd), busy);
    let key = left.key;
    left.context.deregister(&mut left.program, key).unwrap();
    left.context.dealloc_pd(pd).unwrap();
    assert_eq!(left.context.counts(), Default::default());
    right.progress();
}

#[test]
fn a_peer_that_takes_no_answers_and_dies() {
    let (mut left, mut right) = pair(&Setup::default());
    left.program.ring = 0;
    let wish = verbs_core::record::Record::Expose(5).encode();
    for _ in 0..20_000 {
        right.program.inject(LANE, &wish);
    }
    // The left end receives only as much as it can answer at some time.
    for _ in 0..1000 {
        left.progress();
    }
    assert_eq!(left.events(), []);
    right.program.cut(LANE);
    for _ in 0..1000 {
        left.progress();
    }
    let fatal = Event::Async(EventType::QpFatal, Subject::Qp(1));
    assert_eq!(left.events(), [fatal, Event::LaneOver(LANE)]);
}

#[test]
fn what_waits_for_a_peer_that_takes_nothing_has_a_bound() {
    let (mut left, mut right) = pair(&Setup::default());
    left.program.ring = 0;
    let attributes = Attributes {
        access: Access::REMOTE_READ,
        ..Attributes::default()
    };
    let change = |left: &mut End, times| {
        for _ in 0..times {
            left.modify(QpState::Rts, attributes, M::ACCESS_FLAGS);
            left.progress();
        }
    };
    change(&mut left, 30_000);
    assert_eq!(left.events(), []);
    // A peer that takes what is there keeps its lane.
    left.program.ring = 1 << 16;
    settle(&mut left, &mut right);
    left.program.ring = 0;
    change(&mut left, 30_000);
    assert_eq!(left.events(), []);
    change(&mut left, 2_769);
    let fatal = Event::Async(EventType::QpFatal, Subject::Qp(1));
    assert_eq!(left.events(), [fatal, Event::LaneOver(LANE)]);
}

#[test]
fn events_of_what_is_destroyed_are_dropped() {
    let (mut left, mut right) = pair(&Setup::default());
    right.program.cut(LANE);
    left.progress();
    left.context.destroy_qp(1).unwrap();
    assert_eq!(left.events(), [Event::LaneOver(LANE)]);
    right.progress();
}

#[test]
fn own_mistakes_count_also_when_nobody_is_there() {
    let setup = Setup::default();
    let (mut left, _right) = apart(&setup);
    left.enter_rtr(&setup, 2);
    left.enter_rts(&setup);
    left.send(1, REGION as u64, 1);
    left.progress();
    assert_eq!(left.send_results(), [(1, LocProtErr)]);
    let (mut left, mut right) = pair(&setup);
    right.context.destroy_qp(2).unwrap();
    settle(&mut left, &mut right);
    left.send(1, REGION as u64, 1);
    left.progress();
    assert_eq!(left.send_results(), [(1, LocProtErr)]);
}

#[test]
fn a_message_that_acknowledges_what_was_not_sent_ends_the_lane() {
    for (taken, is_good) in [(1, true), (2, false), (u32::MAX, false)] {
        let (mut left, mut right) = pair(&Setup::default());
        right.receive(1, 0, 8);
        settle(&mut left, &mut right);
        left.send(1, 0, 8);
        left.progress();
        let mut header = [0; HEADER_BYTES];
        right
            .program
            .receive(LANE, Target::Bytes(&mut header))
            .unwrap();
        let Ok(Record::Message(address, piece)) = Record::decode(&header) else {
            panic!("no message");
        };
        let back = Address {
            destination: address.source,
            source: address.destination,
            generation: (1 << 8) + 2,
        };
        let ack = piece.ack.map(|_| Ack { taken, limit: 1 });
        let answer = Piece {
            ack,
            number: 99,
            ..piece
        };
        let header = Record::Message(back, answer).encode();
        let bytes = Source::Bytes(&[0; 8]);
        right.program.send(LANE, &header, bytes).unwrap();
        left.progress();
        let expected = if is_good {
            vec![(1, Success)]
        } else {
            vec![(1, RetryExcErr)]
        };
        assert_eq!(left.send_results(), expected, "{taken}");
    }
}

#[test]
fn a_send_that_is_posted_goes_to_the_peer_that_has_come_last() {
    let setup = Setup::default();
    let (mut left, mut right) = pair(&setup);
    right.modify(QpState::Reset, Attributes::default(), M::empty());
    right.enter_init(&setup);
    right.receive(10, 0, 8);
    right.enter_rtr(&setup, 1);
    right.context.attach(right.qp, LANE).unwrap();
    right.progress();
    // The left end has not looked at what the right one has said of itself.
    let request = left.one_sided(1, Opcode::Send, (0, 8), (0, 0));
    let left_qp = left.qp;
    let posted = left
        .context
        .post_send_now(&mut left.program, left_qp, request);
    posted.unwrap();
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(right.receive_results(), [(10, Success)]);
}
