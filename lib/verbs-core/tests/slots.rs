//! Places in the queues of requests: each is free again when its completion, or a later one of the
//! queue, was polled, so that completion queues for all places are never overrun.

mod pair;

use pair::{End, LANE, Setup, capacity, pair, settle};
use verbs_core::attributes::Attributes;
use verbs_core::types::WcStatus::{RetryExcErr, Success, WrFlushErr};
use verbs_core::types::{AttributeMask as M, Error, Opcode, QpState, SendFlags};
use verbs_core::work::{Data, ReceiveRequest, SendRequest};

const FULL: Result<(), Error> = Err(Error::NoMemory);

fn send(id: u64) -> SendRequest {
    SendRequest::new(id, Opcode::Send, Vec::new())
}

fn write(id: u64) -> SendRequest {
    SendRequest::new(id, Opcode::RdmaWrite, Vec::new())
}

fn receive(id: u64) -> ReceiveRequest {
    ReceiveRequest {
        id,
        segments: Vec::new().into(),
    }
}

#[test]
fn a_send_keeps_its_place_until_its_completion_is_polled() {
    let (mut left, mut right) = pair(&Setup::default());
    let places = u64::from(capacity().send_wr);
    for round in 0..3 {
        for id in 0..places {
            left.post(write(id));
        }
        settle(&mut left, &mut right);
        assert_eq!(left.context.post_send(1, write(99)), FULL, "{round}");
        // One completion is one place.
        let first = left.context.poll_cq(left.send_cq).unwrap().unwrap();
        assert_eq!((first.id, first.status), (0, Success));
        left.post(write(99));
        assert_eq!(left.context.post_send(1, write(99)), FULL, "{round}");
        settle(&mut left, &mut right);
        assert_eq!(left.sent().len() as u64, places);
    }
}

#[test]
fn unsignaled_sends_keep_their_places_until_a_later_completion_is_polled() {
    let (mut left, mut right) = pair(&Setup::default());
    let places = u64::from(capacity().send_wr);
    for id in 0..places {
        let mut request = write(id);
        // Every fourth one is signaled.
        request.flags.set(SendFlags::SIGNALED, id % 4 == 3);
        left.post(request);
    }
    settle(&mut left, &mut right);
    assert_eq!(left.context.post_send(1, write(99)), FULL);
    let first = left.context.poll_cq(left.send_cq).unwrap().unwrap();
    assert_eq!(first.id, 3);
    for _ in 0..4 {
        left.post(write(99));
    }
    assert_eq!(left.context.post_send(1, write(99)), FULL);
    settle(&mut left, &mut right);
    // Those behind the last signaled one wait for the next one.
    assert_eq!(left.sent().len() as u64, places / 4 - 1 + 4);
    for _ in 0..places {
        let mut request = write(0);
        request.flags.remove(SendFlags::SIGNALED);
        left.post(request);
    }
    settle(&mut left, &mut right);
    assert_eq!(left.sent(), []);
    assert_eq!(left.context.post_send(1, write(99)), FULL);
}

#[test]
fn a_receive_keeps_its_place_until_its_completion_is_polled() {
    for shared in [false, true] {
        let setup = Setup {
            shared,
            ..Setup::default()
        };
        let (mut left, mut right) = pair(&setup);
        let places = u64::from(capacity().recv_wr);
        let post = |end: &mut pair::End| match end.srq {
            Some(srq) => end.context.post_srq_recv(srq, receive(0)),
            None => end.context.post_recv(2, receive(0)),
        };
        for _ in 0..places {
            assert_eq!(post(&mut right), Ok(()));
            left.post(send(0));
        }
        settle(&mut left, &mut right);
        assert_eq!(left.sent().len() as u64, places);
        assert_eq!(post(&mut right), FULL, "{shared}");
        assert!(right.context.poll_cq(right.recv_cq).unwrap().is_some());
        assert_eq!(post(&mut right), Ok(()));
        assert_eq!(post(&mut right), FULL, "{shared}");
        assert_eq!(right.received().len() as u64, places - 1);
        for _ in 1..places {
            assert_eq!(post(&mut right), Ok(()));
        }
        assert_eq!(post(&mut right), FULL, "{shared}");
    }
}

#[test]
fn a_message_under_way_keeps_its_place_in_a_shared_queue() {
    let setup = Setup {
        shared: true,
        ..Setup::default()
    };
    let (mut left, mut right) = pair(&setup);
    let srq = right.srq.unwrap();
    for _ in 0..capacity().recv_wr {
        right.receive(0, 0, 4000);
    }
    left.program.ring = 2100;
    left.send(1, 0, 4000);
    left.progress();
    right.progress();
    assert_eq!(right.context.post_srq_recv(srq, receive(9)), FULL);
    settle(&mut left, &mut right);
    assert_eq!(right.context.post_srq_recv(srq, receive(9)), FULL);
    assert_eq!(right.receive_results(), [(0, Success)]);
    assert_eq!(right.context.post_srq_recv(srq, receive(9)), Ok(()));
}

/// A queue pair in the error state completes at once what is posted, but no more than it has
/// places.
#[test]
fn flushed_requests_do_not_overrun_their_completion_queue() {
    let (mut left, _) = pair(&Setup::default());
    left.modify(QpState::Err, Attributes::default(), M::empty());
    let places = u64::from(capacity().send_wr);
    for id in 0..places {
        left.post(write(id));
        assert_eq!(left.context.post_recv(1, receive(id)), Ok(()));
    }
    assert_eq!(left.context.post_send(1, write(99)), FULL);
    assert_eq!(left.context.post_recv(1, receive(99)), FULL);
    let flushed: Vec<_> = (0..places).map(|id| (id, WrFlushErr)).collect();
    assert_eq!(left.send_results(), flushed);
    assert_eq!(left.receive_results(), flushed);
    left.post(write(99));
    assert_eq!(left.context.post_recv(1, receive(99)), Ok(()));
}

#[test]
fn a_queue_pair_that_is_reset_has_all_its_places() {
    let setup = Setup::default();
    let (mut left, mut right) = pair(&setup);
    for id in 0..u64::from(capacity().send_wr) {
        left.post(write(id));
    }
    settle(&mut left, &mut right);
    left.modify(QpState::Reset, Attributes::default(), M::empty());
    left.enter_init(&setup);
    left.enter_rtr(&setup, 2);
    left.enter_rts(&setup);
    for id in 0..u64::from(capacity().send_wr) {
        left.post(write(id));
    }
    assert_eq!(left.context.post_send(1, write(99)), FULL);
}

/// Posting adds the completion that overruns a queue: the peers of all queue pairs that fail are
/// told, without a record that arrives here first.
#[test]
fn an_overrun_when_posting_is_told_to_peers() {
    let (mut left, mut right) = pair(&Setup::default());
    // Another queue pair, which is in the error state: what is posted there completes at once,
    // into a queue that is too small.
    let small = left.context.create_cq(1).unwrap();
    let mut init = left.context.query_qp(1).unwrap().init;
    left.context.destroy_qp(1).unwrap();
    (left.recv_cq, init.recv_cq) = (small, small);
    for number in [1, 9] {
        left.context.create_qp(number, init).unwrap();
    }
    let setup = Setup::default();
    right.modify(QpState::Reset, Attributes::default(), M::empty());
    for (end, peer) in [(&mut left, 2), (&mut right, 1)] {
        end.enter_init(&setup);
        end.context.attach(end.qp, LANE).unwrap();
        end.enter_rtr(&setup, peer);
        end.enter_rts(&setup);
    }
    settle(&mut left, &mut right);
    left.qp = 9;
    left.enter_init(&setup);
    left.modify(QpState::Err, Attributes::default(), M::empty());
    left.qp = 1;
    right.context.post_send(2, send(5)).unwrap();
    right.progress();
    let mut is_done = true;
    for id in 0..2 {
        let posted = left
            .context
            .post_recv_now(&mut left.program, 9, receive(id));
        is_done &= posted.unwrap();
    }
    assert_eq!(left.state(), QpState::Err);
    // A call of `progress` follows if the post has asked for one.
    if !is_done {
        left.progress();
    }
    right.progress();
    assert_eq!(right.send_results(), [(5, RetryExcErr)]);
}

#[test]
fn a_post_says_what_records_have_left_that_it_took_on_the_way() {
    let (mut left, mut right) = pair(&Setup::default());
    // The completions of its sends do not fit.
    let small = left.context.create_cq(1).unwrap();
    let mut init = left.context.query_qp(1).unwrap().init;
    left.context.destroy_qp(1).unwrap();
    (left.send_cq, init.send_cq) = (small, small);
    left.context.create_qp(1, init).unwrap();
    // Another queue pair on the same lane, whose requests end at once.
    init.send_cq = left.recv_cq;
    left.context.create_qp(9, init).unwrap();
    let setup = Setup::default();
    right.modify(QpState::Reset, Attributes::default(), M::empty());
    for (end, peer) in [(&mut left, 2), (&mut right, 1)] {
        end.enter_init(&setup);
        end.context.attach(end.qp, LANE).unwrap();
        end.enter_rtr(&setup, peer);
        end.enter_rts(&setup);
    }
    left.qp = 9;
    left.enter_init(&setup);
    left.context.attach(9, LANE).unwrap();
    left.modify(QpState::Err, Attributes::default(), M::empty());
    left.qp = 1;
    for id in 0..3 {
        right.context.post_recv(2, receive(id)).unwrap();
    }
    settle(&mut left, &mut right);
    for id in 0..3 {
        left.context.post_send(1, send(id)).unwrap();
    }
    left.progress();
    right.progress();
    right.progress();
    let (context, program) = (&mut left.context, &mut left.program);
    let request = End::inline(7, Opcode::Send, b"a");
    assert_eq!(context.post_send_now(program, 9, request), Ok(false));
    assert_eq!(left.state(), QpState::Err);
}

#[test]
fn a_list_of_sends_is_checked_as_a_whole() {
    let (mut left, mut right) = pair(&Setup::default());
    let most = capacity().send_wr as usize;
    let good = left.one_sided(1, Opcode::Send, (0, 8), (0, 0));
    let list = |count| vec![good.clone(); count];
    let check = |end: &mut End, list: &[SendRequest]| end.context.check_sends(end.qp, list);
    assert_eq!(check(&mut left, &list(most)), Ok(()));
    assert_eq!(check(&mut left, &list(most + 1)), Err(Error::NoMemory));
    let mut bad = list(3);
    bad[2].data = Data::Segments(vec![left.segment(0, 1); 5]);
    assert_eq!(check(&mut left, &bad), Err(Error::Invalid));
    assert_eq!(check(&mut left, &[]), Ok(()));
    // A place is free again once its completion was polled.
    right.receive(2, 0, 8);
    left.post(good.clone());
    assert_eq!(check(&mut left, &list(most)), Err(Error::NoMemory));
    settle(&mut left, &mut right);
    assert_eq!(check(&mut left, &list(most)), Err(Error::NoMemory));
    assert_eq!(check(&mut left, &list(most - 1)), Ok(()));
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(check(&mut left, &list(most)), Ok(()));
    assert_eq!(left.context.check_sends(77, &[]), Err(Error::NotFound));
}
