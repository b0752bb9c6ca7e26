//! Posting in each state, and what each state does.

use alloc::vec;
use alloc::vec::Vec;

use verbs_core::attributes::Attributes;
use verbs_core::types::WcStatus::{LocProtErr, Success, WrFlushErr};
use verbs_core::types::{Access, AttributeMask as M, Error, EventType, Opcode, QpState, QpType};
use verbs_core::work::{Capacity, Data, ReceiveRequest, SendRequest};

use super::datagrams;
use crate::verbs::bench::{Bench, Checked, LOOKS, QKEY, Qp, Side, Spec, Verbs, same};
use crate::verbs::{Row, row, word};

const RC: Spec = Spec::new(QpType::Rc);

pub const POSTING: &[Row] = &[
    row("post-early", early_sends),
    row("post-recv-reset", early_receives),
    row("post-full", full),
    row("post-sges", elements),
    row("post-opcode", opcodes),
    row("post-inline", inline),
    row("post-shared", of_shared),
];

pub const STATES: &[Row] = &[
    row("state-init", in_init),
    row("state-rtr", in_rtr),
    row("state-sqd", in_sqd),
    row("state-sqd-busy", sqd_with_work),
    row("state-sqd-incoming", sqd_receives),
    row("state-sqe", in_sqe),
    row("state-err", in_err),
    row("state-reset", in_reset),
    row("state-query", query),
    row("state-cur", current),
    row("state-values", values),
];

fn try_send(bench: &mut Bench<'_>, qp: &Qp, request: &SendRequest, error: Error) -> Checked {
    let number = qp.number;
    bench.fails("post_send", qp.side, error, |end| {
        end.post_send(number, request.clone())
    })
}

fn try_receive(bench: &mut Bench<'_>, qp: &Qp, error: Error) -> Checked {
    let (number, request) = (qp.number, qp.receive(1, 0, 8));
    bench.fails("post_recv", qp.side, error, |end| {
        end.post_recv(number, request.clone())
    })
}

fn early_sends(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = (bench.qp(Side::A, &RC)?, bench.qp(Side::B, &RC)?);
    let request = a.send(1, 8);
    try_send(bench, &a, &request, Error::Invalid)?;
    bench.init(&a, &RC)?;
    try_send(bench, &a, &request, Error::Invalid)?;
    bench.rtr(&a, &RC, (b.lid, b.number))?;
    try_send(bench, &a, &request, Error::Invalid)
}

fn early_receives(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = (bench.qp(Side::A, &RC)?, bench.qp(Side::B, &RC)?);
    try_receive(bench, &b, Error::Invalid)?;
    bench.init(&b, &RC)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.init(&a, &RC)?;
    bench.rtr(&a, &RC, (b.lid, b.number))?;
    bench.rtr(&b, &RC, (a.lid, a.number))?;
    bench.receive(&b, 11, 0, 8)?;
    same("queued", bench.queued(&b)?, (0, 2))?;
    bench.rts(&a, &RC)?;
    bench.send(&a, 1, 8)?;
    bench.send(&a, 2, 8)?;
    bench.sent(&a, &[(1, Success), (2, Success)])?;
    bench
        .received(&b, &[(10, Success), (11, Success)])
        .map(drop)
}

fn full(bench: &mut Bench<'_>) -> Checked {
    let mut spec = RC;
    spec.capacity.send_wr = 3;
    spec.capacity.recv_wr = 3;
    let (a, b) = bench.pair(&spec)?;
    for id in 1..=3 {
        bench.send(&a, id, 8)?;
        bench.receive(&a, 10 + id, 0, 8)?;
    }
    try_send(bench, &a, &a.send(4, 8), Error::NoMemory)?;
    try_receive(bench, &a, Error::NoMemory)?;
    same("queued", bench.queued(&a)?, (3, 3))?;
    for id in 21..24 {
        bench.receive(&b, id, 0, 8)?;
    }
    bench.sent(&a, &[(1, Success), (2, Success), (3, Success)])?;
    bench.received(&b, &[(21, Success), (22, Success), (23, Success)])?;
    let shared = Spec { shared: true, ..RC };
    let c = bench.qp(Side::A, &shared)?;
    for id in 0..16 {
        bench.receive(&c, id, 0, 8)?;
    }
    let (srq, request) = (c.srq.unwrap_or(c.pd), c.receive(16, 0, 8));
    bench.fails("post_srq_recv", Side::A, Error::NoMemory, |end| {
        end.post_srq_recv(srq, request.clone())
    })
}

fn elements(bench: &mut Bench<'_>) -> Checked {
    let (a, _) = bench.pair(&RC)?;
    let three = SendRequest::new(1, Opcode::Send, vec![a.segment(0, 1); 3]);
    try_send(bench, &a, &three, Error::Invalid)?;
    let three = ReceiveRequest {
        id: 1,
        segments: vec![a.segment(0, 1); 3].into(),
    };
    bench.fails("post_recv", Side::A, Error::Invalid, |end| {
        end.post_recv(a.number, three.clone())
    })
}

fn opcodes(bench: &mut Bench<'_>) -> Checked {
    let (rc, _) = bench.pair(&RC)?;
    let bind = SendRequest::new(1, Opcode::BindMw, Vec::new());
    try_send(bench, &rc, &bind, Error::Invalid)?;
    let (uc, far) = bench.pair(&Spec::new(QpType::Uc))?;
    for opcode in [
        Opcode::RdmaRead,
        Opcode::AtomicCmpAndSwp,
        Opcode::AtomicFetchAndAdd,
        Opcode::SendWithInv,
    ] {
        let request = uc.one_sided(1, opcode, 8, far.place(0, far.key));
        try_send(bench, &uc, &request, Error::Invalid)?;
    }
    let ud = datagrams::ready(bench, Side::A, &Spec::new(QpType::Ud))?;
    let ah = datagrams::address(bench, &ud, datagrams::plain(far.lid))?;
    let to = (ah, far.number, QKEY);
    // With a good address only the operation is wrong.
    bench.post(&ud, &datagrams::datagram(&ud, 2, 8, to))?;
    bench.sent(&ud, &[(2, Success)])?;
    for opcode in [
        Opcode::RdmaWrite,
        Opcode::RdmaWriteWithImm,
        Opcode::RdmaRead,
        Opcode::AtomicCmpAndSwp,
        Opcode::AtomicFetchAndAdd,
        Opcode::SendWithInv,
        Opcode::LocalInv,
    ] {
        let request = SendRequest {
            opcode,
            remote: far.place(0, far.key),
            ..datagrams::datagram(&ud, 1, 8, to)
        };
        try_send(bench, &ud, &request, Error::Invalid)?;
    }
    Ok(())
}

fn inline(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    try_send(
        bench,
        &a,
        &Qp::inline(1, Opcode::Send, &[0; 129]),
        Error::Invalid,
    )?;
    try_send(
        bench,
        &a,
        &Qp::inline(1, Opcode::RdmaRead, &[0; 8]),
        Error::Invalid,
    )?;
    bench.receive(&b, 10, 0, 128)?;
    bench.post(&a, &Qp::inline(2, Opcode::Send, &[7; 128]))?;
    bench.sent(&a, &[(2, Success)])?;
    bench.received(&b, &[(10, Success)])?;
    bench.holds(Side::B, 0, &[7; 128])
}

fn of_shared(bench: &mut Bench<'_>) -> Checked {
    let shared = Spec { shared: true, ..RC };
    let (_, b) = bench.pair(&shared)?;
    try_receive(bench, &b, Error::Invalid)
}

/// Makes a pair of which A can send and B is in this state.
fn b_in(bench: &mut Bench<'_>, state: QpState) -> Checked<(Qp, Qp)> {
    let (a, b) = (bench.qp(Side::A, &RC)?, bench.qp(Side::B, &RC)?);
    bench.init(&a, &RC)?;
    bench.init(&b, &RC)?;
    bench.rtr(&a, &RC, (b.lid, b.number))?;
    bench.rts(&a, &RC)?;
    if state == QpState::Rtr {
        bench.rtr(&b, &RC, (a.lid, a.number))?;
    }
    bench.state(&b, state)?;
    Ok((a, b))
}

fn in_init(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = b_in(bench, QpState::Init)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 1, 8)?;
    bench.quiet()?;
    bench.rtr(&b, &RC, (a.lid, a.number))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn in_rtr(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = b_in(bench, QpState::Rtr)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)])?;
    try_send(bench, &b, &b.send(1, 8), Error::Invalid)
}

/// Changes a queue pair to SQD with or without the event at its end.
fn drain(bench: &mut Bench<'_>, qp: &Qp, notify: bool) -> Checked {
    let new = Attributes {
        state: QpState::Sqd,
        notify_drained: notify,
        ..Attributes::default()
    };
    bench.modify(qp, new, M::STATE | M::EN_SQD_ASYNC_NOTIFY)
}

fn in_sqd(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 10..13 {
        bench.receive(&b, id, 0, 8)?;
    }
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    drain(bench, &a, true)?;
    bench.events(Side::A, &[(EventType::SqDrained, a.number)])?;
    bench.send(&a, 2, 8)?;
    bench.send(&a, 3, 8)?;
    bench.received(&b, &[(10, Success)])?;
    bench.quiet()?;
    same("queued", bench.queued(&a)?.0, 2)?;
    bench.to(&a, QpState::Rts)?;
    bench.sent(&a, &[(2, Success), (3, Success)])?;
    bench
        .received(&b, &[(11, Success), (12, Success)])
        .map(drop)
}

/// A SEND that the peer has refused for want of a receive is under way until it ends.
fn sqd_with_work(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&Spec { shared: true, ..RC })?;
    bench.send(&a, 1, 8)?;
    let mut is_draining = false;
    for _ in 0..LOOKS {
        drain(bench, &a, true)?;
        let look = |end: &mut dyn Verbs| Ok(vec![end.query_qp(a.number)?.is_draining.into()]);
        is_draining = word(&bench.ok("query_qp", Side::A, look)?, 0) == 1;
        if is_draining {
            break;
        }
        // It had not begun when the state changed.
        bench.events(Side::A, &[(EventType::SqDrained, a.number)])?;
        bench.to(&a, QpState::Rts)?;
        bench.driver().pause();
    }
    same("draining", is_draining, true)?;
    bench.send(&a, 2, 8)?;
    bench.quiet()?;
    bench.events(Side::A, &[])?;
    same("queued", bench.queued(&a)?.0, 2)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.receive(&b, 11, 0, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.events(Side::A, &[(EventType::SqDrained, a.number)])?;
    bench.received(&b, &[(10, Success)])?;
    bench.quiet()?;
    same("queued", bench.queued(&a)?.0, 1)?;
    bench.to(&a, QpState::Rts)?;
    bench.sent(&a, &[(2, Success)])?;
    bench.received(&b, &[(11, Success)]).map(drop)
}

fn sqd_receives(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    drain(bench, &b, false)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)])?;
    bench.state(&b, QpState::Sqd)
}

fn in_sqe(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&Spec::new(QpType::Uc))?;
    bench.receive(&a, 20, 0x100, 8)?;
    let mut bad = a.send(1, 8);
    bad.data = Data::Segments(vec![a.segment_by(0, 0, 8)]);
    bench.post(&a, &bad)?;
    bench.sent(&a, &[(1, LocProtErr)])?;
    bench.state(&a, QpState::Sqe)?;
    bench.send(&a, 2, 8)?;
    bench.sent(&a, &[(2, WrFlushErr)])?;
    bench.send(&b, 30, 8)?;
    bench.sent(&b, &[(30, Success)])?;
    bench.received(&a, &[(20, Success)])?;
    bench.to(&a, QpState::Rts)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 3, 8)?;
    bench.sent(&a, &[(3, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn in_err(bench: &mut Bench<'_>) -> Checked {
    let (a, _) = bench.pair(&RC)?;
    for id in 1..=3 {
        bench.send(&a, id, 8)?;
        bench.receive(&a, 10 + id, 0, 8)?;
    }
    bench.to(&a, QpState::Err)?;
    bench.send(&a, 4, 8)?;
    bench.receive(&a, 14, 0, 8)?;
    let flushed = |from: u64| Vec::from_iter((from..from + 4).map(|id| (id, WrFlushErr)));
    bench.sent(&a, &flushed(1))?;
    bench.received(&a, &flushed(11)).map(drop)
}

fn in_reset(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 10..13 {
        bench.receive(&b, id, 0, 8)?;
    }
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.to(&b, QpState::Reset)?;
    same("queued", bench.queued(&b)?, (0, 0))?;
    bench.quiet()?;
    bench.to(&a, QpState::Reset)?;
    bench.connect(&a, &b, &RC)?;
    bench.receive(&b, 20, 0, 8)?;
    bench.send(&a, 2, 8)?;
    bench.sent(&a, &[(2, Success)])?;
    bench.received(&b, &[(20, Success)]).map(drop)
}

/// The numbers among the attributes of a queue pair, and two of its sizes.
fn numbers(of: &Attributes, capacity: Capacity) -> [u64; 19] {
    [
        of.dlid.into(),
        of.dest_qpn.into(),
        of.access.bits().into(),
        of.path_mtu.into(),
        of.timeout.into(),
        of.retry_cnt.into(),
        of.rnr_retry.into(),
        of.min_rnr_timer.into(),
        of.max_rd_atomic.into(),
        of.max_dest_rd_atomic.into(),
        of.port.into(),
        of.pkey_index.into(),
        of.qkey.into(),
        of.rq_psn.into(),
        of.sq_psn.into(),
        capacity.send_wr.into(),
        capacity.recv_wr.into(),
        capacity.send_sge.into(),
        capacity.inline.into(),
    ]
}

fn attributes(bench: &mut Bench<'_>, qp: &Qp) -> Checked<Vec<u64>> {
    bench.ok("query_qp", qp.side, |end| {
        let view = end.query_qp(qp.number)?;
        Ok(numbers(&view.attributes, view.init.capacity).to_vec())
    })
}

fn query(bench: &mut Bench<'_>) -> Checked {
    let mut spec = RC;
    // No two numbers of the same kind are equal, so that none is taken for another.
    spec.access = Access::REMOTE_READ | Access::REMOTE_ATOMIC;
    spec.attributes = Attributes {
        path_mtu: 3,
        timeout: 17,
        retry_cnt: 5,
        rnr_retry: 6,
        min_rnr_timer: 11,
        max_rd_atomic: 2,
        max_dest_rd_atomic: 4,
        rq_psn: 0x12_3456,
        sq_psn: 0xfe_dcba,
        ..RC.attributes
    };
    spec.capacity.recv_wr = 15;
    let (a, b) = (bench.qp(Side::A, &spec)?, bench.qp(Side::B, &spec)?);
    bench.init(&a, &spec)?;
    bench.state(&a, QpState::Init)?;
    bench.rtr(&a, &spec, (b.lid, b.number))?;
    bench.state(&a, QpState::Rtr)?;
    bench.rts(&a, &spec)?;
    bench.state(&a, QpState::Rts)?;
    let set = Attributes {
        access: spec.access,
        dlid: b.lid,
        dest_qpn: b.number,
        // A connected queue pair has no Q_Key.
        qkey: 0,
        ..spec.attributes
    };
    let found = attributes(bench, &a)?;
    same("attributes", &found[..], &numbers(&set, spec.capacity)[..])?;
    let uc = Spec {
        kind: QpType::Uc,
        ..spec
    };
    let (c, d) = bench.pair(&uc)?;
    let found = attributes(bench, &c)?;
    // Nothing of it is tried again, and it answers nothing.
    let fresh = Attributes::default();
    let set = Attributes {
        timeout: fresh.timeout,
        retry_cnt: fresh.retry_cnt,
        rnr_retry: fresh.rnr_retry,
        min_rnr_timer: fresh.min_rnr_timer,
        max_rd_atomic: fresh.max_rd_atomic,
        max_dest_rd_atomic: fresh.max_dest_rd_atomic,
        dest_qpn: d.number,
        ..set
    };
    same("unreliable", &found[..], &numbers(&set, spec.capacity)[..])?;
    let ud = Spec {
        kind: QpType::Ud,
        ..spec
    };
    let e = datagrams::ready(bench, Side::A, &ud)?;
    let set = Attributes {
        qkey: QKEY,
        sq_psn: spec.attributes.sq_psn,
        ..Attributes::default()
    };
    let found = attributes(bench, &e)?;
    same(
        "of datagrams",
        &found[..],
        &numbers(&set, spec.capacity)[..],
    )
}

fn refused(bench: &mut Bench<'_>, qp: &Qp, new: Attributes, mask: M) -> Checked {
    let look = |end: &mut dyn crate::verbs::bench::Verbs| {
        let view = end.query_qp(qp.number)?;
        let state = view.state as u64;
        let of = view.attributes;
        Ok(vec![
            state,
            of.path_mtu.into(),
            of.min_rnr_timer.into(),
            of.timeout.into(),
            of.dest_qpn.into(),
        ])
    };
    let before = bench.ok("query_qp", qp.side, look)?;
    bench.fails("modify_qp", qp.side, Error::Invalid, |end| {
        end.modify_qp(qp.number, &new, mask)
    })?;
    same("attributes", bench.ok("query_qp", qp.side, look)?, before)
}

fn current(bench: &mut Bench<'_>) -> Checked {
    let (a, _) = bench.pair(&RC)?;
    let new = |cur_state| Attributes {
        state: QpState::Rts,
        cur_state,
        ..Attributes::default()
    };
    for wrong in [QpState::Rtr, QpState::Sqd, QpState::Reset, QpState::Err] {
        refused(bench, &a, new(wrong), M::STATE | M::CUR_STATE)?;
    }
    bench.modify(&a, new(QpState::Rts), M::STATE | M::CUR_STATE)
}

fn values(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = (bench.qp(Side::A, &RC)?, bench.qp(Side::B, &RC)?);
    bench.init(&a, &RC)?;
    let mask = M::STATE
        | M::AV
        | M::PATH_MTU
        | M::DEST_QPN
        | M::RQ_PSN
        | M::MAX_DEST_RD_ATOMIC
        | M::MIN_RNR_TIMER;
    let good = Attributes {
        state: QpState::Rtr,
        dlid: b.lid,
        dest_qpn: b.number,
        ..RC.attributes
    };
    for path_mtu in [0, 6] {
        refused(bench, &a, Attributes { path_mtu, ..good }, mask)?;
    }
    let bad = [
        Attributes {
            min_rnr_timer: 32,
            ..good
        },
        Attributes {
            dest_qpn: 1 << 24,
            ..good
        },
        Attributes {
            max_dest_rd_atomic: 129,
            ..good
        },
    ];
    for new in bad {
        refused(bench, &a, new, mask)?;
    }
    bench.modify(&a, good, mask)?;
    let mask =
        M::STATE | M::SQ_PSN | M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
    let good = Attributes {
        state: QpState::Rts,
        ..RC.attributes
    };
    let bad = [
        Attributes {
            timeout: 32,
            ..good
        },
        Attributes {
            retry_cnt: 8,
            ..good
        },
        Attributes {
            rnr_retry: 8,
            ..good
        },
        Attributes {
            max_rd_atomic: 129,
            ..good
        },
    ];
    for new in bad {
        refused(bench, &a, new, mask)?;
    }
    bench.modify(&a, good, mask)
}
