//! States of queue pairs, posting, and completion queues.

mod pair;

use pair::{End, Setup, apart, pair, settle};
use verbs_core::attributes::Attributes;
use verbs_core::types::WcStatus::Success;
use verbs_core::types::{AttributeMask as M, Error, EventType, Opcode, QpState, SendFlags};
use verbs_core::work::{ReceiveRequest, SendRequest};
use verbs_core::{Event, Subject};

const ERROR: QpState = QpState::Err;

#[test]
fn when_posting_is_refused() {
    let setup = Setup::default();
    let (mut left, _right) = apart(&setup);
    let receive = |end: &mut End| {
        let segments = Vec::new();
        end.context.post_recv(
            1,
            ReceiveRequest {
                id: 1,
                segments: segments.into(),
            },
        )
    };
    let send = |end: &mut End| {
        let request = SendRequest::new(1, Opcode::Send, Vec::new());
        end.context.post_send(1, request)
    };
    let invalid = Err(Error::Invalid);
    assert_eq!((send(&mut left), receive(&mut left)), (invalid, Ok(())));
    left.enter_rtr(&setup, 2);
    assert_eq!((send(&mut left), receive(&mut left)), (invalid, Ok(())));
    left.enter_rts(&setup);
    assert_eq!((send(&mut left), receive(&mut left)), (Ok(()), Ok(())));
    // Queues are as long as was asked for.
    while send(&mut left).is_ok() {}
    assert_eq!(send(&mut left), Err(Error::NoMemory));
    assert_eq!(left.context.query_qp(1).unwrap().queued, (64, 3));
    while receive(&mut left).is_ok() {}
    assert_eq!(receive(&mut left), Err(Error::NoMemory));
    left.modify(QpState::Reset, Attributes::default(), M::empty());
    assert_eq!((send(&mut left), receive(&mut left)), (invalid, invalid));
    assert_eq!(left.send_results(), []);
    let (mut left, _right) = pair(&setup);
    let segment = left.segment(0, 1);
    for bad in [
        SendRequest::new(1, Opcode::Send, vec![segment; 5]),
        End::inline(1, Opcode::Send, &[0; 129]),
        End::inline(1, Opcode::RdmaRead, &[0; 8]),
        SendRequest::new(1, Opcode::BindMw, Vec::new()),
    ] {
        assert_eq!(left.context.post_send(1, bad.clone()), invalid, "{bad:?}");
    }
}

#[test]
fn a_send_queue_drains_and_goes_on() {
    let (mut left, mut right) = pair(&Setup::default());
    left.program.ring = 2100;
    right.receive(10, 0, 8000);
    settle(&mut left, &mut right);
    left.send(1, 0, 8000);
    left.progress();
    left.send(2, 0, 8);
    let attributes = Attributes {
        notify_drained: true,
        ..Attributes::default()
    };
    left.modify(QpState::Sqd, attributes, M::EN_SQD_ASYNC_NOTIFY);
    assert_eq!(left.qp_events(), []);
    let is_draining = |left: &End| left.context.query_qp(1).unwrap().is_draining;
    assert!(is_draining(&left));
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, Success)]);
    assert_eq!(left.qp_events(), [EventType::SqDrained]);
    // The second request has not begun.
    assert!(!is_draining(&left));
    left.send(3, 0, 8);
    right.receive(11, 0, 8);
    right.receive(12, 0, 8);
    settle(&mut left, &mut right);
    assert_eq!((left.send_results(), left.qp_events()), (vec![], vec![]));
    left.modify(QpState::Rts, Attributes::default(), M::empty());
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(2, Success), (3, Success)]);
    // A queue that is drained says so at once, if it is asked.
    left.modify(QpState::Sqd, attributes, M::EN_SQD_ASYNC_NOTIFY);
    assert_eq!(left.qp_events(), [EventType::SqDrained]);
    left.modify(QpState::Rts, Attributes::default(), M::empty());
    left.modify(QpState::Sqd, Attributes::default(), M::empty());
    assert_eq!(left.qp_events(), []);
}

#[test]
fn a_modification_that_is_refused_changes_nothing() {
    let (mut left, _right) = pair(&Setup::default());
    let before = left.context.query_qp(1).unwrap();
    let bad = [
        (
            Attributes {
                state: QpState::Sqe,
                ..before.attributes
            },
            M::STATE,
        ),
        (
            Attributes {
                cur_state: QpState::Rtr,
                ..before.attributes
            },
            M::CUR_STATE,
        ),
        (
            Attributes {
                min_rnr_timer: 32,
                ..before.attributes
            },
            M::MIN_RNR_TIMER,
        ),
        (
            Attributes {
                min_rnr_timer: 5,
                ..before.attributes
            },
            M::MIN_RNR_TIMER | M::QKEY,
        ),
    ];
    for (attributes, mask) in bad {
        let refused = left.context.modify_qp(1, &attributes, mask);
        assert_eq!(refused, Err(Error::Invalid), "{mask:?}");
        assert_eq!(left.context.query_qp(1).unwrap(), before);
    }
    let unknown = M::from_bits_retain(1 << 24);
    let refused = left.context.modify_qp(1, &before.attributes, unknown);
    assert_eq!(refused, Err(Error::NotSupported));
}

#[test]
fn an_overrun_of_a_completion_queue_fails_its_queue_pairs() {
    let (mut left, mut right) = pair(&Setup::default());
    right.context.resize_cq(right.recv_cq, 2).unwrap();
    for id in 0..4 {
        right.receive(id, 0, 8);
        left.send(id, 0, 8);
    }
    settle(&mut left, &mut right);
    let overrun = Event::Async(EventType::CqErr, Subject::Cq(right.recv_cq));
    assert_eq!(right.events(), [overrun]);
    assert_eq!(right.state(), ERROR);
    assert_eq!(right.receive_results(), [(0, Success), (1, Success)]);
}

#[test]
fn completion_channels_are_told() {
    let (mut left, mut right) = pair(&Setup::default());
    let told = Event::Completion(right.recv_cq);
    for id in 0..6 {
        right.receive(id, 0, 8);
    }
    let send = |left: &mut End, right: &mut End, flags| {
        let mut request = SendRequest::new(1, Opcode::Send, vec![left.segment(0, 8)]);
        request.flags |= flags;
        left.post(request);
        settle(left, right);
        right.events()
    };
    let (plain, solicited) = (SendFlags::empty(), SendFlags::SOLICITED);
    assert_eq!(send(&mut left, &mut right, plain), []);
    right.context.req_notify_cq(right.recv_cq, true).unwrap();
    assert_eq!(send(&mut left, &mut right, plain), []);
    assert_eq!(send(&mut left, &mut right, solicited), [told]);
    assert_eq!(send(&mut left, &mut right, solicited), []);
    right.context.req_notify_cq(right.recv_cq, false).unwrap();
    assert_eq!(send(&mut left, &mut right, plain), [told]);
}
