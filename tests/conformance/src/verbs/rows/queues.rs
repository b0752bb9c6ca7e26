//! Messages, receives, completions; shared receive queues and XRC.

use alloc::vec;
use alloc::vec::Vec;

use verbs_core::attributes::rnr_time;
use verbs_core::types::WcStatus::{
    LocLenErr, LocProtErr, RemInvReqErr, RemOpErr, RetryExcErr, RnrRetryExcErr, Success, WrFlushErr,
};
use verbs_core::types::{
    Access, Error, EventType, Opcode, QpState, QpType, SendFlags, WcFlags, WcOpcode,
};
use verbs_core::work::{Data, SendRequest};

use crate::verbs::bench::{Bench, Checked, OTHER, Place, Qp, REGION, Side, Spec, Thing, same};
use crate::verbs::{Row, row};

pub const RC: Spec = Spec::new(QpType::Rc);

/// A receive must be posted within a time.
const BY_CLOCK: &[(Place, &str)] = &[(Place::Node, WHY_NO_CLOCK), (Place::Pair, WHY_NO_CLOCK)];
const WHY_NO_CLOCK: &str = "it would depend on how fast the machine is";

pub const QUEUES: &[Row] = &[
    row("order", order),
    row("fence", fence),
    row("scatter", scatter),
    row("empty", empty),
    row("immediate", immediate),
    row("write-immediate", write_immediate),
    row("atomics", atomics),
    row("unsignaled", unsignaled),
    row("last-bytes", last_bytes),
    row("rnr-never", rnr_never),
    row("rnr-late", rnr_late),
    row("rnr-flag", rnr_in_time).except(BY_CLOCK),
    row("receive-key", receive_key),
    row("receive-read-only", receive_read_only),
    row("cq-overrun", overrun),
    row("cq-resize", resize),
    row("cq-armed", armed),
    row("cq-solicited", solicited),
    row("cq-busy", busy),
    row("own-error", own_error),
];

fn fill(bench: &mut Bench<'_>, side: Side, at: u64, count: usize, seed: u8) -> Checked<Vec<u8>> {
    let bytes: Vec<u8> = (0..count)
        .map(|at| (at as u8).wrapping_mul(7) ^ seed)
        .collect();
    // Long pieces of memory are filled in several jobs.
    for (piece, at) in bytes.chunks(4096).zip((at..).step_by(4096)) {
        bench.fill(side, at, piece)?;
    }
    Ok(bytes)
}

fn order(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 0..4 {
        bench.receive(&b, 10 + id, 0x4000, 8)?;
    }
    let bytes = fill(bench, Side::A, 0, 3000, 1)?;
    for round in 0..4 {
        let to = b.place(round * 3000, b.key);
        bench.post(&a, &a.one_sided(2 * round, Opcode::RdmaWrite, 3000, to))?;
        bench.send(&a, 2 * round + 1, 8)?;
    }
    bench.received(&b, &Vec::from_iter((10..14).map(|id| (id, Success))))?;
    for round in 0..4 {
        bench.holds(Side::B, round * 3000, &bytes)?;
    }
    bench
        .sent(&a, &Vec::from_iter((0..8).map(|id| (id, Success))))
        .map(drop)
}

/// A SEND behind requests that bring bytes, with and without FENCE: it is not sent before they
/// have ended.
fn fence(bench: &mut Bench<'_>) -> Checked {
    for flags in [SendFlags::FENCE, SendFlags::empty()] {
        let (a, b) = bench.pair(&RC)?;
        let send = |id| SendRequest {
            flags: SendFlags::SIGNALED | flags,
            ..a.send(id, 8)
        };
        bench.receive(&b, 10, 0x4000, 8)?;
        let bytes = fill(bench, Side::B, 0, 4096, 3)?;
        bench.fill(Side::A, 0, &[0; 4096])?;
        let from = b.place(0, b.key);
        bench.post(&a, &a.one_sided(1, Opcode::RdmaRead, 4096, from))?;
        bench.post(&a, &send(2))?;
        bench.received(&b, &[(10, Success)])?;
        bench.holds(Side::A, 0, &bytes)?;
        let found = bench.sent(&a, &[(1, Success), (2, Success)])?;
        let (opcode, length) = (found[0].opcode, found[0].byte_len);
        same("read", (opcode, length), (WcOpcode::RdmaRead, 4096))?;
        bench.receive(&b, 11, 0x4000, 8)?;
        bench.fill(Side::B, 64, &5u64.to_ne_bytes())?;
        bench.post(&a, &atomic(&a, &b, Opcode::AtomicFetchAndAdd, (10, 0)))?;
        bench.post(&a, &send(2))?;
        bench.received(&b, &[(11, Success)])?;
        bench.holds(Side::A, 0, &5u64.to_ne_bytes())?;
        bench.holds(Side::B, 64, &15u64.to_ne_bytes())?;
        bench.sent(&a, &[(1, Success), (2, Success)])?;
    }
    Ok(())
}

fn scatter(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let bytes = fill(bench, Side::A, 0, 3000, 5)?;
    let segments = vec![b.segment(0x1000, 17), b.segment(0x2000, 2983)];
    bench.post_receive(&b, 10, segments)?;
    let segments = vec![a.segment(0, 2001), a.segment(2001, 999)];
    bench.post(&a, &SendRequest::new(1, Opcode::Send, segments))?;
    bench.sent(&a, &[(1, Success)])?;
    let found = bench.received(&b, &[(10, Success)])?;
    same("length", found[0].byte_len, 3000)?;
    bench.holds(Side::B, 0x1000, &bytes[..17])?;
    bench.holds(Side::B, 0x2000, &bytes[17..])
}

fn empty(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.post(&a, &SendRequest::new(1, Opcode::Send, Vec::new()))?;
    bench.sent(&a, &[(1, Success)])?;
    let found = bench.received(&b, &[(10, Success)])?;
    same("length", found[0].byte_len, 0)
}

fn immediate(bench: &mut Bench<'_>) -> Checked {
    for kind in [QpType::Rc, QpType::Uc] {
        let (a, b) = bench.pair(&Spec::new(kind))?;
        bench.receive(&b, 10, 0, 8)?;
        let mut request = a.send(1, 8);
        (request.opcode, request.immediate) = (Opcode::SendWithImm, 0x0102_03ff);
        bench.post(&a, &request)?;
        bench.sent(&a, &[(1, Success)])?;
        let found = bench.received(&b, &[(10, Success)])?[0];
        let what = (
            found.opcode,
            found.flags,
            found.immediate,
            found.byte_len,
            found.qp,
        );
        let expected = (WcOpcode::Recv, WcFlags::WITH_IMM, 0x0102_03ff, 8, b.number);
        same("completion", what, expected)?;
    }
    Ok(())
}

fn write_immediate(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.fill(Side::B, 0x4000, &[0xa5; 64])?;
    for (round, length) in [(0, 300), (1, 0)] {
        bench.receive(&b, 10 + round, 0x4000, 64)?;
        let bytes = fill(bench, Side::A, 0, length as usize, 9)?;
        let to = b.place(0, b.key);
        let mut request = a.one_sided(round, Opcode::RdmaWriteWithImm, length, to);
        request.immediate = 77;
        bench.post(&a, &request)?;
        bench.sent(&a, &[(round, Success)])?;
        let found = bench.received(&b, &[(10 + round, Success)])?[0];
        let what = (found.opcode, found.flags, found.immediate, found.byte_len);
        let expected = (WcOpcode::RecvRdmaWithImm, WcFlags::WITH_IMM, 77, length);
        same("completion", what, expected)?;
        bench.holds(Side::B, 0, &bytes)?;
    }
    bench.holds(Side::B, 0x4000, &[0xa5; 64])
}

fn atomic(a: &Qp, b: &Qp, opcode: Opcode, numbers: (u64, u64)) -> SendRequest {
    let mut request = a.one_sided(1, opcode, 8, b.place(64, b.key));
    (request.compare_add, request.swap) = numbers;
    request
}

fn atomics(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.fill(Side::B, 64, &5u64.to_ne_bytes())?;
    for (opcode, numbers, before, after) in [
        (Opcode::AtomicFetchAndAdd, (10, 0), 5u64, 15u64),
        (Opcode::AtomicFetchAndAdd, (u64::MAX, 0), 15, 14),
        (Opcode::AtomicCmpAndSwp, (13, 99), 14, 14),
        (Opcode::AtomicCmpAndSwp, (14, 99), 14, 99),
    ] {
        bench.post(&a, &atomic(&a, &b, opcode, numbers))?;
        let found = bench.sent(&a, &[(1, Success)])?[0];
        same("opcode", found.opcode, opcode.into())?;
        bench.holds(Side::A, 0, &before.to_ne_bytes())?;
        bench.holds(Side::B, 64, &after.to_ne_bytes())?;
    }
    Ok(())
}

fn unsignaled(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 10..13 {
        bench.receive(&b, id, 0, 8)?;
    }
    let quietly = |id, length| SendRequest {
        flags: SendFlags::empty(),
        ..a.send(id, length)
    };
    bench.post(&a, &quietly(1, 8))?;
    bench.post(&a, &quietly(2, 8))?;
    bench.send(&a, 3, 8)?;
    bench.sent(&a, &[(3, Success)])?;
    bench.received(&b, &[(10, Success), (11, Success), (12, Success)])?;
    bench.receive(&b, 13, 0, 8)?;
    bench.post(&a, &quietly(4, 9))?;
    bench.sent(&a, &[(4, RemInvReqErr)])?;
    bench.received(&b, &[(13, LocLenErr)]).map(drop)
}

fn last_bytes(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let bytes = fill(bench, Side::A, 0, REGION as usize, 11)?;
    let to = b.place(0, b.key);
    bench.post(&a, &a.one_sided(1, Opcode::RdmaWrite, REGION as u32, to))?;
    bench.sent(&a, &[(1, Success)])?;
    for (piece, at) in bytes.chunks(4096).zip((0..).step_by(4096)) {
        bench.holds(Side::B, at, piece)?;
    }
    Ok(())
}

/// A specification with this number of retries, and this timer of the responder.
pub fn retries(count: u8, timer: u8) -> Spec {
    let mut spec = RC;
    (spec.attributes.rnr_retry, spec.attributes.min_rnr_timer) = (count, timer);
    spec
}

fn rnr_never(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&retries(2, 14))?;
    let since = bench.driver().now();
    bench.send(&a, 1, 8)?;
    bench.send(&a, 2, 8)?;
    bench.sent(&a, &[(1, RnrRetryExcErr), (2, WrFlushErr)])?;
    bench.took(since, 2, rnr_time(14))?;
    bench.state(&a, QpState::Err)?;
    bench.state(&b, QpState::Rts)
}

fn rnr_late(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&retries(7, 10))?;
    bench.send(&a, 1, 8)?;
    bench.quiet()?;
    bench.receive(&b, 10, 0, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn rnr_in_time(bench: &mut Bench<'_>) -> Checked {
    // The timer is longer than this row takes.
    let (a, b) = bench.pair(&retries(1, 0))?;
    bench.send(&a, 1, 8)?;
    bench.quiet()?;
    bench.receive(&b, 10, 0, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn receive_fails(bench: &mut Bench<'_>, a: &Qp, b: &Qp) -> Checked {
    bench.send(a, 1, 8)?;
    bench.sent(a, &[(1, RemOpErr)])?;
    bench.received(b, &[(10, LocProtErr), (11, WrFlushErr)])?;
    bench.state(a, QpState::Err)?;
    bench.state(b, QpState::Err)
}

fn receive_key(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let key = bench.page(&b, Access::LOCAL_WRITE)?;
    bench.post_receive(&b, 10, vec![b.segment_by(key, OTHER, 64)])?;
    bench.receive(&b, 11, 0, 8)?;
    bench.run("deregister", Side::B, |end| end.deregister(key))?;
    bench.forget(Side::B, Thing::Key(key));
    receive_fails(bench, &a, &b)
}

fn receive_read_only(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let key = bench.page(&b, Access::REMOTE_READ)?;
    bench.post_receive(&b, 10, vec![b.segment_by(key, OTHER, 64)])?;
    bench.receive(&b, 11, 0, 8)?;
    receive_fails(bench, &a, &b)
}

fn overrun(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.run("resize_cq", Side::B, |end| end.resize_cq(b.receives, 2))?;
    for id in 0..3 {
        bench.receive(&b, 10 + id, 0, 8)?;
    }
    for id in 1..=2 {
        bench.send(&a, id, 8)?;
    }
    bench.sent(&a, &[(1, Success), (2, Success)])?;
    bench.send(&a, 3, 8)?;
    bench.events(Side::B, &[(EventType::CqErr, b.receives.0)])?;
    bench.state(&b, QpState::Err)?;
    bench.received(&b, &[(10, Success), (11, Success)])?;
    // It is not specified whether the third one was acknowledged before.
    bench.completions(Side::A, a.sends, 1).map(drop)
}

fn resize(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 0..3 {
        bench.receive(&b, 10 + id, 0, 8)?;
        bench.send(&a, id, 8)?;
    }
    bench.sent(&a, &[(0, Success), (1, Success), (2, Success)])?;
    bench.fails("resize_cq", Side::B, Error::Invalid, |end| {
        end.resize_cq(b.receives, 2)
    })?;
    bench.run("resize_cq", Side::B, |end| end.resize_cq(b.receives, 3))?;
    bench.run("resize_cq", Side::B, |end| end.resize_cq(b.receives, 500))?;
    bench
        .received(&b, &[(10, Success), (11, Success), (12, Success)])
        .map(drop)
}

/// Arms the completion queue of a queue pair's receives.
pub fn arm(bench: &mut Bench<'_>, qp: &Qp, solicited_only: bool) -> Checked {
    let cq = qp.receives;
    bench.run("req_notify_cq", qp.side, |end| {
        end.req_notify_cq(cq, solicited_only)
    })
}

/// The number of notifications of the receives' channel once the message has arrived.
fn told_of(bench: &mut Bench<'_>, a: &Qp, b: &Qp, flags: SendFlags) -> Checked<u64> {
    bench.receive(b, 10, 0, 8)?;
    let mut request = a.send(1, 8);
    request.flags |= flags;
    told(bench, (a, b), &request)
}

/// Sends a message with the number 1 into the receive with the number 10. Returns the number of
/// notifications of that receive's channel.
pub fn told(bench: &mut Bench<'_>, (a, b): (&Qp, &Qp), request: &SendRequest) -> Checked<u64> {
    bench.post(a, request)?;
    bench.sent(a, &[(1, Success)])?;
    bench.received(b, &[(10, Success)])?;
    let cq = b.receives;
    let words = bench.ok("told", b.side, |end| Ok(vec![end.told(cq)]))?;
    Ok(words[0])
}

fn armed(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    same("not armed", told_of(bench, &a, &b, SendFlags::empty())?, 0)?;
    arm(bench, &b, false)?;
    same("armed", told_of(bench, &a, &b, SendFlags::empty())?, 1)?;
    same("once", told_of(bench, &a, &b, SendFlags::SOLICITED)?, 0)
}

fn solicited(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    arm(bench, &b, true)?;
    same("plain", told_of(bench, &a, &b, SendFlags::empty())?, 0)?;
    same(
        "solicited",
        told_of(bench, &a, &b, SendFlags::SOLICITED)?,
        1,
    )?;
    arm(bench, &b, true)?;
    bench.receive(&b, 11, 0, 8)?;
    bench.to(&b, QpState::Err)?;
    bench.received(&b, &[(11, WrFlushErr)])?;
    let words = bench.ok("told", Side::B, |end| Ok(vec![end.told(b.receives)]))?;
    same("an error", words[0], 1)
}

fn busy(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for cq in [a.sends, a.receives] {
        bench.fails("destroy_cq", Side::A, Error::Busy, |end| end.destroy_cq(cq))?;
    }
    bench.fails("dealloc_pd", Side::A, Error::Busy, |end| {
        end.dealloc_pd(a.pd)
    })?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn own_error(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let mut bad = b.send(30, 8);
    bad.data = Data::Segments(vec![b.segment_by(0, 0, 8)]);
    bench.post(&b, &bad)?;
    bench.sent(&b, &[(30, LocProtErr)])?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, RetryExcErr)])?;
    bench.state(&a, QpState::Err)
}
