//! Shared receive queues, and XRC.

use alloc::vec;

use verbs_core::srq::Xrc;
use verbs_core::table::Id;
use verbs_core::types::WcStatus::{LocLenErr, RemInvReqErr, RnrRetryExcErr, Success};
use verbs_core::types::{Error, EventType, Opcode, QpState, QpType};
use verbs_core::work::{QpInit, SendRequest};

use super::queues::{RC, retries};
use crate::verbs::bench::{Bench, Checked, Qp, REGION, Side, Spec, Thing, Verbs, handle, same};
use crate::verbs::{Row, row};

pub const SHARED: &[Row] = &[
    row("srq", shared),
    row("srq-too-long", shared_too_long),
    row("srq-empty", shared_empty),
    row("srq-limit", limit),
    row("srq-resize", shared_resize),
    row("srq-last", last),
    row("srq-busy", shared_busy),
    row("xrc", xrc),
    row("xrc-wrong", xrc_wrong),
    row("xrc-atomics", xrc_one_sided),
];

const MANY: Spec = Spec { shared: true, ..RC };

/// The shared receive queue of a queue pair that has one.
fn srq(qp: &Qp) -> Id {
    qp.srq.unwrap_or(qp.pd)
}

fn shared(bench: &mut Bench<'_>) -> Checked {
    let b = bench.qp(Side::B, &MANY)?;
    let init = QpInit {
        kind: QpType::Rc,
        pd: b.pd,
        send_cq: b.sends,
        recv_cq: b.receives,
        srq: b.srq,
        xrcd: None,
        capacity: RC.capacity,
        signal_all: false,
    };
    let d = bench.qp_with(Side::B, init, b.key)?;
    let (a, c) = (bench.qp(Side::A, &RC)?, bench.qp(Side::A, &RC)?);
    bench.connect(&a, &b, &RC)?;
    bench.connect(&c, &d, &RC)?;
    for id in 10..13 {
        bench.receive(&b, id, 0, 8)?;
    }
    let expected = [(&a, &b, 10), (&c, &d, 11), (&a, &b, 12)];
    for (from, to, receive) in expected {
        bench.send(from, 1, 8)?;
        bench.sent(from, &[(1, Success)])?;
        let found = bench.received(to, &[(receive, Success)])?;
        same("queue pair", found[0].qp, to.number)?;
    }
    Ok(())
}

fn shared_too_long(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&MANY)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.receive(&b, 11, 0, 8)?;
    bench.send(&a, 1, 9)?;
    bench.sent(&a, &[(1, RemInvReqErr)])?;
    bench.received(&b, &[(10, LocLenErr)])?;
    bench.events(Side::A, &[(EventType::QpLastWqeReached, a.number)])?;
    bench.events(Side::B, &[(EventType::QpLastWqeReached, b.number)])?;
    bench.state(&a, QpState::Err)?;
    bench.state(&b, QpState::Err)
}

fn shared_empty(bench: &mut Bench<'_>) -> Checked {
    let spec = Spec {
        shared: true,
        ..retries(1, 14)
    };
    let (a, b) = bench.pair(&spec)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, RnrRetryExcErr)])?;
    bench.events(Side::A, &[(EventType::QpLastWqeReached, a.number)])?;
    bench.state(&b, QpState::Rts)
}

fn limit(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&MANY)?;
    let set = |bench: &mut Bench<'_>, limit| {
        bench.run("modify_srq", Side::B, |end| {
            end.modify_srq(srq(&b), None, Some(limit))
        })
    };
    bench.fails("a limit above its size", Side::B, Error::Invalid, |end| {
        end.modify_srq(srq(&b), None, Some(17))
    })?;
    for id in 10..16 {
        bench.receive(&b, id, 0, 8)?;
    }
    set(bench, 5)?;
    let send = |bench: &mut Bench<'_>, id| {
        bench.send(&a, id, 8)?;
        bench.sent(&a, &[(id, Success)])?;
        bench.received(&b, &[(10 + id, Success)]).map(drop)
    };
    send(bench, 0)?;
    bench.events(Side::B, &[])?;
    send(bench, 1)?;
    let event = [(EventType::SrqLimitReached, srq(&b).0)];
    bench.events(Side::B, &event)?;
    send(bench, 2)?;
    bench.events(Side::B, &[])?;
    set(bench, 3)?;
    send(bench, 3)?;
    bench.events(Side::B, &event)?;
    // Two receives are left, so this limit is reported before any message comes.
    set(bench, 3)?;
    bench.events(Side::B, &event)?;
    send(bench, 4)?;
    bench.events(Side::B, &[])
}

fn shared_resize(bench: &mut Bench<'_>) -> Checked {
    let (_, b) = bench.pair(&MANY)?;
    for id in 0..4 {
        bench.receive(&b, id, 0, 8)?;
    }
    let modify =
        |max_wr, limit| move |end: &mut dyn Verbs| end.modify_srq(srq(&b), Some(max_wr), limit);
    let refused = [
        ("less than what is in it", 3, None),
        ("that, with a limit", 3, Some(2)),
        ("a limit above the new size", 20, Some(21)),
    ];
    for (what, max_wr, limit) in refused {
        bench.fails(what, Side::B, Error::Invalid, modify(max_wr, limit))?;
        same_size(bench, &b, 16, 0)?;
    }
    bench.run("another size", Side::B, modify(40, None))?;
    same_size(bench, &b, 40, 0)?;
    bench.run("both smaller", Side::B, modify(5, Some(4)))?;
    same_size(bench, &b, 5, 4)?;
    // This limit is above the former size, and above what is there, which is reported at once.
    bench.run("both larger", Side::B, modify(40, Some(20)))?;
    bench.events(Side::B, &[(EventType::SrqLimitReached, srq(&b).0)])?;
    same_size(bench, &b, 40, 0)
}

/// Checks the size and the limit of a shared receive queue.
fn same_size(bench: &mut Bench<'_>, of: &Qp, size: u32, limit: u32) -> Checked {
    let words = bench.ok("query_srq", Side::B, |end| {
        let (size, limit) = end.query_srq(srq(of))?;
        Ok(vec![size.into(), limit.into()])
    })?;
    same("size and limit", words, vec![size.into(), limit.into()])
}

fn last(bench: &mut Bench<'_>) -> Checked {
    let (_, b) = bench.pair(&MANY)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.to(&b, QpState::Err)?;
    bench.events(Side::B, &[(EventType::QpLastWqeReached, b.number)])?;
    bench.quiet()
}

fn shared_busy(bench: &mut Bench<'_>) -> Checked {
    let (_, b) = bench.pair(&MANY)?;
    bench.fails("destroy_srq", Side::B, Error::Busy, |end| {
        end.destroy_srq(srq(&b))
    })
}

// ---- XRC ----

/// The receiving side: two shared receive queues of the domain with their completion queues.
struct Domain {
    queues: [(Id, Id); 2],
    key: u32,
}

fn xrc_domain(bench: &mut Bench<'_>, side: Side) -> Checked<Id> {
    let words = bench.ok("open_xrcd", side, |end| Ok(vec![end.open_xrcd()?.0.into()]))?;
    let domain = handle(&words);
    bench.own(side, Thing::Xrcd(domain));
    Ok(domain)
}

fn xrc_queue(bench: &mut Bench<'_>, pd: Id, domain: Id) -> Checked<(Id, Id)> {
    let cq = bench.queue(Side::B, 64)?;
    let of = Xrc { domain, cq };
    let words = bench.ok("create_xrc_srq", Side::B, |end| {
        Ok(vec![end.create_xrc_srq(pd, of, 16)?.0.into()])
    })?;
    let srq = handle(&words);
    bench.own(Side::B, Thing::Srq(srq));
    Ok((srq, cq))
}

fn xrc_pair(bench: &mut Bench<'_>) -> Checked<(Qp, Qp, Domain)> {
    let pd = bench.domain(Side::B)?;
    let key = bench.register(Side::B, pd, (0, REGION), crate::verbs::bench::ALL)?;
    let domain = xrc_domain(bench, Side::B)?;
    let queues = [xrc_queue(bench, pd, domain)?, xrc_queue(bench, pd, domain)?];
    let unused = bench.queue(Side::B, 4)?;
    let init = QpInit {
        kind: QpType::XrcRecv,
        pd,
        send_cq: unused,
        recv_cq: unused,
        srq: None,
        xrcd: Some(domain),
        capacity: RC.capacity,
        signal_all: false,
    };
    let b = bench.qp_with(Side::B, init, key)?;
    let a = bench.qp(Side::A, &Spec::new(QpType::XrcSend))?;
    bench.connect(&a, &b, &RC)?;
    Ok((a, b, Domain { queues, key }))
}

fn post_to(bench: &mut Bench<'_>, b: &Qp, srq: Id, id: u64) -> Checked {
    let request = b.receive(id, 0, 64);
    bench.run("post_srq_recv", Side::B, |end: &mut dyn Verbs| {
        end.post_srq_recv(srq, request.clone())
    })
}

fn send_to(a: &Qp, id: u64, srq: Id) -> SendRequest {
    SendRequest {
        remote_srq: srq.0,
        ..a.send(id, 8)
    }
}

fn xrc(bench: &mut Bench<'_>) -> Checked {
    let (a, b, domain) = xrc_pair(bench)?;
    for (index, (srq, _)) in (0..).zip(domain.queues) {
        post_to(bench, &b, srq, 10 + index)?;
    }
    for index in [1, 0] {
        let (srq, cq) = domain.queues[index];
        bench.post(&a, &send_to(&a, 1, srq))?;
        bench.sent(&a, &[(1, Success)])?;
        let found = bench.completions(Side::B, cq, 1)?;
        let what = (found[0].id, found[0].status, found[0].qp);
        same("receive", what, (10 + index as u64, Success, b.number))?;
    }
    Ok(())
}

fn xrc_wrong(bench: &mut Bench<'_>) -> Checked {
    for of_other in [true, false] {
        let (a, b, _) = xrc_pair(bench)?;
        let wrong = match of_other {
            true => {
                let domain = xrc_domain(bench, Side::B)?;
                xrc_queue(bench, b.pd, domain)?.0
            }
            false => Id(999),
        };
        bench.post(&a, &send_to(&a, 1, wrong))?;
        bench.sent(&a, &[(1, RemInvReqErr)])?;
        bench.events(Side::B, &[(EventType::QpReqErr, b.number)])?;
        bench.state(&b, QpState::Err)?;
    }
    Ok(())
}

fn xrc_one_sided(bench: &mut Bench<'_>) -> Checked {
    let (a, b, domain) = xrc_pair(bench)?;
    bench.fill(Side::A, 0, b"12345678")?;
    bench.fill(Side::B, 64, &[0; 16])?;
    let to = b.place(64, domain.key);
    bench.post(&a, &a.one_sided(1, Opcode::RdmaWrite, 8, to))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.holds(Side::B, 64, b"12345678")?;
    let word = b.place(72, domain.key);
    let mut add = a.one_sided(2, Opcode::AtomicFetchAndAdd, 8, word);
    add.compare_add = 4;
    bench.post(&a, &add)?;
    let mut swap = a.one_sided(3, Opcode::AtomicCmpAndSwp, 8, word);
    (swap.compare_add, swap.swap) = (4, 9);
    bench.post(&a, &swap)?;
    bench.post(&a, &a.one_sided(4, Opcode::RdmaRead, 8, word))?;
    bench.sent(&a, &[(2, Success), (3, Success), (4, Success)])?;
    bench.holds(Side::A, 0, &9u64.to_ne_bytes())
}
