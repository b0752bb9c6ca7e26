//! XRC: connections whose messages choose a shared receive queue of the peer's domain.

mod pair;

use pair::{ALL, End, LANE, REGION, Setup, settle, wait};
use verbs_core::attributes::{Attributes, rnr_time};
use verbs_core::context::Context;
use verbs_core::demo::BASE;
use verbs_core::keys::Region;
use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::WcStatus::{
    LocLenErr, LocProtErr, RemAccessErr, RemInvReqErr, RemOpErr, RetryExcErr, Success, WrFlushErr,
};
use verbs_core::types::{
    AttributeMask as M, Error, EventType, Opcode, QpState, QpType, WcOpcode, WcStatus,
};
use verbs_core::work::{QpInit, ReceiveRequest, SendRequest};
use verbs_core::{Event, Subject};

/// Shared receive queues of the right end, and their completion queues.
struct Queues {
    xrcd: Id,
    srqs: [Id; 2],
    cqs: [Id; 2],
}

fn setup(kind: QpType) -> Setup {
    Setup {
        kind,
        ..Setup::default()
    }
}

/// A sending half at the left end, a receiving half at the right end, with two queues.
fn ends() -> (End, End, Queues) {
    let mut left = End::new(1, &setup(QpType::XrcSend));
    let mut right = End::new(2, &Setup::default());
    let context = &mut right.context;
    let init = context.query_qp(2).unwrap().init;
    context.destroy_qp(2).unwrap();
    let xrcd = context.open_xrcd().unwrap();
    let cqs = [0; 2].map(|_| context.create_cq(64).unwrap());
    let srqs = cqs.map(|cq| {
        let xrc = Xrc { domain: xrcd, cq };
        context.create_xrc_srq(right.pd, xrc, 16, 4, 0).unwrap()
    });
    let init = QpInit {
        kind: QpType::XrcRecv,
        xrcd: Some(xrcd),
        ..init
    };
    context.create_qp(2, init).unwrap();
    left.program.join(LANE, &mut right.program, LANE);
    for (end, kind, peer) in [
        (&mut left, QpType::XrcSend, 2),
        (&mut right, QpType::XrcRecv, 1),
    ] {
        let setup = setup(kind);
        end.context.open_lane(LANE, end.pd).unwrap();
        end.enter_init(&setup);
        end.context.attach(end.qp, LANE).unwrap();
        end.enter_rtr(&setup, peer);
        end.enter_rts(&setup);
    }
    settle(&mut left, &mut right);
    (left, right, Queues { xrcd, srqs, cqs })
}

fn send(left: &mut End, id: u64, length: u32, srq: Id) {
    let segments = vec![left.segment(0, length)];
    left.post(SendRequest {
        remote_srq: srq.0,
        ..SendRequest::new(id, Opcode::Send, segments)
    });
}

fn receive(right: &mut End, srq: Id, id: u64, length: u32) {
    let segments = vec![right.segment(0, length)];
    let request = ReceiveRequest {
        id,
        segments: segments.into(),
    };
    right.context.post_srq_recv(srq, request).unwrap();
}

/// Completions of a queue: number, status, queue pair and the peer's one.
fn done(right: &mut End, cq: Id) -> Vec<(u64, WcStatus, u32)> {
    let next = || right.context.poll_cq(cq).unwrap();
    let all = std::iter::from_fn(next);
    all.map(|wc| (wc.id, wc.status, wc.qp)).collect()
}

#[test]
fn a_message_goes_to_the_queue_that_it_chooses() {
    let (mut left, mut right, queues) = ends();
    let [first, second] = queues.srqs;
    for id in 0..2 {
        receive(&mut right, first, 10 + id, 4000);
        receive(&mut right, second, 20 + id, 4000);
    }
    send(&mut left, 1, 8, second);
    send(&mut left, 2, 3000, first);
    let mut write = left.one_sided(3, Opcode::RdmaWriteWithImm, (0, 8), (128, right.key));
    write.remote_srq = second.0;
    left.post(write);
    left.post(left.one_sided(4, Opcode::RdmaRead, (0, 8), (0, right.key)));
    settle(&mut left, &mut right);
    let results = [1, 2, 3, 4].map(|id| (id, Success));
    assert_eq!(left.send_results(), results);
    assert_eq!(done(&mut right, queues.cqs[0]), [(10, Success, 2)]);
    let wc = right.context.poll_cq(queues.cqs[1]).unwrap().unwrap();
    assert_eq!((wc.id, wc.qp, wc.src_qp, wc.byte_len), (20, 2, 1, 8));
    let wc = right.context.poll_cq(queues.cqs[1]).unwrap().unwrap();
    assert_eq!((wc.id, wc.opcode), (21, WcOpcode::RecvRdmaWithImm));
}

#[test]
fn an_empty_queue_is_waited_for_in_order() {
    let (mut left, mut right, queues) = ends();
    let [first, second] = queues.srqs;
    receive(&mut right, second, 20, 8);
    send(&mut left, 1, 8, first);
    send(&mut left, 2, 8, second);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), []);
    receive(&mut right, first, 10, 8);
    wait(&mut left, &mut right, rnr_time(12));
    assert_eq!(left.send_results(), [(1, Success), (2, Success)]);
    assert_eq!(done(&mut right, queues.cqs[0]), [(10, Success, 2)]);
    assert_eq!(done(&mut right, queues.cqs[1]), [(20, Success, 2)]);
}

/// A name, what makes a message or its receive bad, the results of sender and receiver, and the
/// events of the receiving queue pair.
type Bad = (
    &'static str,
    fn(&mut End, &mut End, &Queues),
    WcStatus,
    &'static [(u64, WcStatus, u32)],
    &'static [EventType],
);

#[test]
fn who_gets_which_error() {
    let requests = &[EventType::QpReqErr];
    let cases: [Bad; 5] = [
        (
            "no such queue",
            |left, _, _| send(left, 1, 8, Id(77)),
            RemInvReqErr,
            &[],
            requests,
        ),
        (
            "a queue of no domain",
            |left, right, _| {
                let srq = right.context.create_srq(right.pd, 16, 4, 0).unwrap();
                send(left, 1, 8, srq);
            },
            RemInvReqErr,
            &[],
            requests,
        ),
        (
            "a queue of another domain",
            |left, right, queues| {
                let domain = right.context.open_xrcd().unwrap();
                let xrc = Xrc {
                    domain,
                    cq: queues.cqs[0],
                };
                let srq = right
                    .context
                    .create_xrc_srq(right.pd, xrc, 16, 4, 0)
                    .unwrap();
                send(left, 1, 8, srq);
            },
            RemInvReqErr,
            &[],
            requests,
        ),
        (
            "too long",
            |left, right, queues| {
                receive(right, queues.srqs[0], 10, 7);
                send(left, 1, 8, queues.srqs[0]);
            },
            RemInvReqErr,
            &[(10, LocLenErr, 2)],
            &[],
        ),
        (
            "memory of another domain",
            |left, right, queues| {
                let pd = right.context.alloc_pd().unwrap();
                let xrc = Xrc {
                    domain: queues.xrcd,
                    cq: queues.cqs[0],
                };
                let srq = right.context.create_xrc_srq(pd, xrc, 16, 4, 0).unwrap();
                receive(right, srq, 10, 8);
                send(left, 1, 8, srq);
            },
            RemOpErr,
            &[(10, LocProtErr, 2)],
            &[],
        ),
    ];
    for (what, post, status, received, events) in cases {
        let (mut left, mut right, queues) = ends();
        post(&mut left, &mut right, &queues);
        send(&mut left, 2, 8, queues.srqs[1]);
        settle(&mut left, &mut right);
        assert_eq!(
            left.send_results(),
            [(1, status), (2, WrFlushErr)],
            "{what}"
        );
        assert_eq!(done(&mut right, queues.cqs[0]), received, "{what}");
        assert_eq!(right.qp_events(), events, "{what}");
        assert_eq!(
            (left.state(), right.state()),
            (QpState::Err, QpState::Err),
            "{what}"
        );
    }
}

#[test]
fn a_queue_that_is_destroyed_fails_what_it_has_begun() {
    let (mut left, mut right, queues) = ends();
    left.program.ring = 2100;
    receive(&mut right, queues.srqs[0], 10, 4000);
    send(&mut left, 1, 4000, queues.srqs[0]);
    left.progress();
    right.progress();
    right.context.destroy_srq(queues.srqs[0]).unwrap();
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RemInvReqErr)]);
    assert_eq!(right.qp_events(), [EventType::QpReqErr]);
    assert_eq!(done(&mut right, queues.cqs[0]), []);
}

#[test]
fn a_limit_tells_once() {
    let (mut left, mut right, queues) = ends();
    let srq = queues.srqs[0];
    for id in 10..14 {
        receive(&mut right, srq, id, 8);
    }
    right.context.modify_srq(srq, None, Some(2)).unwrap();
    let limit = Event::Async(EventType::SrqLimitReached, Subject::Srq(srq));
    for (id, events) in [(1, vec![]), (2, vec![]), (3, vec![limit]), (4, vec![])] {
        send(&mut left, id, 8, srq);
        settle(&mut left, &mut right);
        assert_eq!(right.events(), events, "{id}");
    }
    // A limit that the queue is below already tells at once, and that again only once.
    right.context.modify_srq(srq, None, Some(2)).unwrap();
    assert_eq!(right.events(), [limit]);
    assert_eq!(right.context.srq(srq).unwrap().query(), (16, 4, 0));
    receive(&mut right, srq, 15, 8);
    send(&mut left, 5, 8, srq);
    settle(&mut left, &mut right);
    assert_eq!(right.events(), []);
}

#[test]
fn an_overrun_of_a_queues_completions_fails_the_domains_queue_pairs() {
    let (mut left, mut right, queues) = ends();
    right.context.resize_cq(queues.cqs[0], 1).unwrap();
    for id in 0..2 {
        receive(&mut right, queues.srqs[0], 10 + id, 8);
        send(&mut left, id, 8, queues.srqs[0]);
    }
    settle(&mut left, &mut right);
    let overrun = Event::Async(EventType::CqErr, Subject::Cq(queues.cqs[0]));
    assert_eq!(
        (right.events(), right.state()),
        (vec![overrun], QpState::Err)
    );
}

#[test]
fn what_is_in_use_stays_and_what_is_made_of_nothing_is_not_made() {
    let (mut left, mut right, queues) = ends();
    let busy = Err(Error::Busy);
    let context = &mut right.context;
    assert_eq!(context.close_xrcd(queues.xrcd), busy);
    assert_eq!(context.destroy_cq(queues.cqs[0]), busy);
    let init = context.query_qp(2).unwrap().init;
    let rc = QpInit {
        kind: QpType::Rc,
        ..init
    };
    let with_srq = QpInit {
        xrcd: None,
        srq: Some(queues.srqs[0]),
        ..rc
    };
    let none = QpInit { xrcd: None, ..init };
    let sender = QpInit {
        kind: QpType::XrcSend,
        ..with_srq
    };
    for bad in [rc, with_srq, none, sender] {
        assert_eq!(context.create_qp(9, bad), Err(Error::Invalid), "{bad:?}");
    }
    let unknown = QpInit {
        xrcd: Some(Id(9)),
        ..init
    };
    assert_eq!(context.create_qp(9, unknown), Err(Error::NotFound));
    let xrc = Xrc {
        domain: Id(9),
        cq: queues.cqs[0],
    };
    let srq = context.create_xrc_srq(right.pd, xrc, 1, 1, 0);
    assert_eq!(srq, Err(Error::NotFound));
    // Neither half can do what the other one does.
    let nothing = ReceiveRequest {
        id: 1,
        segments: Vec::new().into(),
    };
    let message = SendRequest::new(1, Opcode::Send, Vec::new());
    assert_eq!(context.post_recv(2, nothing.clone()), Err(Error::Invalid));
    assert_eq!(context.post_send(2, message), Err(Error::Invalid));
    assert_eq!(left.context.post_recv(1, nothing), Err(Error::Invalid));
    // The sending half learns that the receiving one has gone.
    context.destroy_qp(2).unwrap();
    settle(&mut left, &mut right);
    send(&mut left, 1, 8, queues.srqs[0]);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RetryExcErr)]);
    let context = &mut right.context;
    assert_eq!(context.close_xrcd(queues.xrcd), busy);
    for srq in queues.srqs {
        context.destroy_srq(srq).unwrap();
    }
    context.close_xrcd(queues.xrcd).unwrap();
    for cq in queues.cqs {
        context.destroy_cq(cq).unwrap();
    }
    let counts = context.counts();
    assert_eq!((counts.srqs, counts.xrcds, counts.cqs), (0, 0, 2));
}

#[test]
fn the_receiving_half_can_be_stopped() {
    let (mut left, mut right, queues) = ends();
    receive(&mut right, queues.srqs[0], 10, 8);
    right.modify(QpState::Err, Attributes::default(), M::empty());
    send(&mut left, 1, 8, queues.srqs[0]);
    settle(&mut left, &mut right);
    assert_eq!(left.send_results(), [(1, RetryExcErr)]);
    // The receives are not its own.
    assert_eq!(done(&mut right, queues.cqs[0]), []);
    assert_eq!(right.context.srq(queues.srqs[0]).unwrap().len(), 1);
}

#[test]
fn a_half_does_not_hear_what_is_for_the_other_one() {
    let (mut left, mut right, _) = ends();
    // Values that no queue pair takes.
    let new = Attributes {
        state: QpState::Rts,
        min_rnr_timer: 255,
        max_dest_rd_atomic: 255,
        max_rd_atomic: 255,
        retry_cnt: 255,
        rnr_retry: 255,
        ..Attributes::default()
    };
    let answers = M::STATE | M::MIN_RNR_TIMER | M::MAX_DEST_RD_ATOMIC;
    let requests = M::STATE | M::MAX_QP_RD_ATOMIC | M::RETRY_CNT | M::RNR_RETRY;
    for (end, unheard, heard) in [
        (&mut left, answers, requests),
        (&mut right, requests, answers),
    ] {
        let before = end.context.query_qp(end.qp).unwrap().attributes;
        let changed = end.context.modify_qp(end.qp, &new, unheard);
        assert_eq!(changed, Ok(()), "{unheard:?}");
        let changed = end.context.modify_qp(end.qp, &new, heard);
        assert_eq!(changed, Err(Error::Invalid), "{heard:?}");
        let after = end.context.query_qp(end.qp).unwrap().attributes;
        assert_eq!(format!("{before:?}"), format!("{after:?}"));
    }
}

#[test]
fn the_size_of_a_shared_queue_changes() {
    let (_, mut right, queues) = ends();
    let srq = queues.srqs[0];
    for id in 0..4 {
        receive(&mut right, srq, id, 8);
    }
    let context = &mut right.context;
    context.modify_srq(srq, None, Some(4)).unwrap();
    let sizes = [
        (0, Err(Error::Invalid)),
        (3, Err(Error::Invalid)),
        (16385, Err(Error::Invalid)),
        (5, Ok(())),
    ];
    for (size, result) in sizes {
        let resized = context.modify_srq(srq, Some(size), None);
        assert_eq!(resized, result, "{size}");
    }
    assert_eq!(context.srq(srq).unwrap().query(), (5, 4, 4));
    // Size and limit are checked as a pair, and change together or not at all. A limit above the
    // four receives is reported at once, and is 0 again.
    let pairs = [
        ((20, 21), Err(Error::Invalid), (5, 4)),
        ((3, 2), Err(Error::Invalid), (5, 4)),
        ((0, 0), Err(Error::Invalid), (5, 4)),
        ((20, 10), Ok(()), (20, 0)),
        ((4, 3), Ok(()), (4, 3)),
        ((5, 4), Ok(()), (5, 4)),
    ];
    for ((size, limit), result, (is_size, is_limit)) in pairs {
        let modified = context.modify_srq(srq, Some(size), Some(limit));
        assert_eq!(modified, result, "{size} {limit}");
        let found = context.srq(srq).unwrap().query();
        assert_eq!(found, (is_size, 4, is_limit), "{size} {limit}");
    }
    let request = |id| ReceiveRequest {
        id,
        segments: Vec::new().into(),
    };
    assert_eq!(context.post_srq_recv(srq, request(4)), Ok(()));
    assert_eq!(context.post_srq_recv(srq, request(5)), Err(Error::NoMemory));
}

#[test]
fn an_xrc_domain_serves_the_memory_of_queues_that_it_has_now() {
    let mut context = Context::new(1);
    let domains = [0; 2].map(|_| context.alloc_pd().unwrap());
    let cq = context.create_cq(8).unwrap();
    let (xrcd, other) = (context.open_xrcd().unwrap(), context.open_xrcd().unwrap());
    assert_eq!(context.pd_of_xrcd(xrcd), Ok(None));
    let queue = |context: &mut Context, pd, domain| {
        context
            .create_xrc_srq(pd, Xrc { domain, cq }, 4, 1, 0)
            .unwrap()
    };
    context.create_srq(domains[0], 4, 1, 0).unwrap();
    queue(&mut context, domains[0], other);
    let first = queue(&mut context, domains[0], xrcd);
    let second = queue(&mut context, domains[1], xrcd);
    assert_eq!(context.pd_of_xrcd(xrcd), Ok(Some(domains[0])));
    context.destroy_srq(first).unwrap();
    assert_eq!(context.pd_of_xrcd(xrcd), Ok(Some(domains[1])));
    context.destroy_srq(second).unwrap();
    assert_eq!(context.pd_of_xrcd(xrcd), Ok(None));
    context.close_xrcd(xrcd).unwrap();
    assert_eq!(context.pd_of_xrcd(xrcd), Err(Error::NotFound));
}

#[test]
fn the_end_of_a_receiving_half_leaves_completions() {
    for (index, resets) in [(0, false), (1, false), (0, true), (1, true)] {
        let (mut left, mut right, queues) = ends();
        // The handles that the queue pair, which has no completion queues, shows for them.
        let cq = [right.send_cq, right.recv_cq][index];
        assert_eq!(cq, Id(index as u32));
        let domain = queues.xrcd;
        let made = right
            .context
            .create_xrc_srq(right.pd, Xrc { domain, cq }, 16, 4, 0);
        let srq = made.unwrap();
        receive(&mut right, srq, 10, 8);
        send(&mut left, 1, 8, srq);
        settle(&mut left, &mut right);
        match resets {
            true => right.modify(QpState::Reset, Attributes::default(), M::empty()),
            false => right.context.destroy_qp(2).unwrap(),
        }
        assert_eq!(done(&mut right, cq), [(10, Success, 2)], "{index} {resets}");
    }
}

#[test]
fn the_queues_of_a_domain_decide_which_memory_is_reached() {
    // The lane belongs to the first domain in all cases.
    for (has_queue, in_second, has_atomics, result) in [
        (false, false, true, RemAccessErr),
        (false, true, true, RemAccessErr),
        (false, false, false, RemAccessErr),
        (true, true, true, Success),
        (true, true, false, Success),
        (true, false, true, RemAccessErr),
        (true, false, false, RemAccessErr),
    ] {
        let (mut left, mut right, queues) = ends();
        left.program.has_atomics = has_atomics;
        let context = &mut right.context;
        for srq in queues.srqs {
            context.destroy_srq(srq).unwrap();
        }
        let second = context.alloc_pd().unwrap();
        if has_queue {
            let (domain, cq) = (queues.xrcd, queues.cqs[0]);
            let xrc = Xrc { domain, cq };
            context.create_xrc_srq(second, xrc, 16, 4, 0).unwrap();
        }
        let region = Region {
            pd: second,
            start: BASE,
            length: REGION as u64,
            iova: BASE,
            access: ALL,
        };
        let key = match in_second {
            true => context.register(region).unwrap(),
            false => right.key,
        };
        let opcode = match has_atomics {
            true => Opcode::RdmaWrite,
            // The right end does it.
            false => Opcode::AtomicFetchAndAdd,
        };
        left.post(left.one_sided(1, opcode, (0, 8), (128, key)));
        settle(&mut left, &mut right);
        let row = (has_queue, in_second, has_atomics);
        assert_eq!(left.send_results(), [(1, result)], "{row:?}");
    }
}
