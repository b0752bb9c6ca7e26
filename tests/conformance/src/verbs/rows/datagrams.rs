//! Datagrams: which arrive, and which end drops the others.

use alloc::vec;

use verbs_core::address::{
    AddressVector, Datagram, GRH_BYTES, GlobalRoute, MULTICAST_QPN, OWN_QKEY, gid,
};
use verbs_core::table::Id;
use verbs_core::types::WcStatus::{LocLenErr, LocProtErr, Success, WrFlushErr};
use verbs_core::types::{Access, Error, Opcode, QpState, QpType, SendFlags, WcFlags, WcOpcode};
use verbs_core::work::{Data, SendRequest};

use super::queues;
use crate::verbs::bench::{Bench, Checked, OTHER, QKEY, Qp, Side, Spec, Thing, handle, same};
use crate::verbs::{Row, row};

const UD: Spec = Spec::new(QpType::Ud);
/// A local identifier (LID) of a group.
const GROUP_LID: u16 = 0xc001;
/// Bytes that precede a datagram.
const GRH: u32 = GRH_BYTES as u32;

pub const DATAGRAMS: &[Row] = &[
    row("ud", lengths),
    row("ud-immediate", immediate),
    row("ud-grh", route),
    row("ud-own-key", own_key),
    row("ud-wrong-key", wrong_key),
    row("ud-nobody", nobody),
    row("ud-no-receive", no_receive),
    row("ud-short", short),
    row("ud-too-long", too_long),
    row("ud-local", local),
    row("ud-receive-key", receive_key),
    row("ud-shared-short", shared_short),
    row("ud-state", in_init),
    row("ud-armed", armed),
    row("ah", handles),
    row("mcast", groups),
    row("mcast-datagram", group_datagrams),
];

/// Makes an address handle for a port.
pub fn address(bench: &mut Bench<'_>, qp: &Qp, vector: AddressVector) -> Checked<Id> {
    let make =
        |end: &mut dyn crate::verbs::bench::Verbs| Ok(vec![end.create_ah(qp.pd, vector)?.0.into()]);
    let words = bench.ok("create_ah", qp.side, make)?;
    let ah = handle(&words);
    bench.own(qp.side, Thing::Ah(qp.pd, ah));
    Ok(ah)
}

/// The address of a port in the own subnet.
pub fn plain(lid: u16) -> AddressVector {
    AddressVector {
        lid,
        ..AddressVector::default()
    }
}

/// Makes a queue pair that can send.
pub fn ready(bench: &mut Bench<'_>, side: Side, spec: &Spec) -> Checked<Qp> {
    let qp = bench.qp(side, spec)?;
    bench.init(&qp, spec)?;
    bench.rtr(&qp, spec, (0, 0))?;
    bench.rts(&qp, spec)?;
    Ok(qp)
}

/// Makes a queue pair at each end, and A's address handle for B's port.
fn ends(bench: &mut Bench<'_>, spec: &Spec) -> Checked<(Qp, Qp, Id)> {
    let (a, b) = (ready(bench, Side::A, &UD)?, ready(bench, Side::B, spec)?);
    let ah = address(bench, &a, plain(b.lid))?;
    Ok((a, b, ah))
}

/// A datagram from the beginning of the region.
pub fn datagram(a: &Qp, id: u64, length: u32, (ah, qpn, qkey): (Id, u32, u32)) -> SendRequest {
    SendRequest {
        datagram: Datagram { ah, qpn, qkey },
        ..a.send(id, length)
    }
}

/// Checks that a datagram of 8 bytes arrives. All earlier ones, which have other lengths, have been
/// dropped by then.
fn arrives(bench: &mut Bench<'_>, a: &Qp, b: &Qp, ah: Id) -> Checked {
    bench.receive(b, 90, 0x4000, 8 + GRH)?;
    bench.post(a, &datagram(a, 9, 8, (ah, b.number, QKEY)))?;
    bench.sent(a, &[(9, Success)])?;
    let wc = bench.received(b, &[(90, Success)])?[0];
    same("length", wc.byte_len, 8 + GRH)
}

fn lengths(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    let bytes = vec![0x3c; 4096];
    bench.fill(Side::A, 0, &bytes)?;
    for length in [0, 1, 2001, 4096] {
        bench.fill(Side::B, 0, &vec![0; 4136])?;
        bench.receive(&b, 10, 0, 4096 + GRH)?;
        bench.post(&a, &datagram(&a, 1, length, (ah, b.number, QKEY)))?;
        bench.sent(&a, &[(1, Success)])?;
        let wc = bench.received(&b, &[(10, Success)])?[0];
        let what = (wc.opcode, wc.byte_len, wc.src_qp, wc.slid, wc.flags);
        let expected = (
            WcOpcode::Recv,
            length + GRH,
            a.number,
            a.lid,
            WcFlags::empty(),
        );
        same("completion", what, expected)?;
        bench.holds(Side::B, GRH.into(), &bytes[..length as usize])?;
    }
    Ok(())
}

fn immediate(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    bench.receive(&b, 10, 0, 8 + GRH)?;
    let mut request = datagram(&a, 1, 8, (ah, b.number, QKEY));
    (request.opcode, request.immediate) = (Opcode::SendWithImm, 55);
    bench.post(&a, &request)?;
    bench.sent(&a, &[(1, Success)])?;
    let wc = bench.received(&b, &[(10, Success)])?[0];
    same(
        "completion",
        (wc.flags, wc.immediate),
        (WcFlags::WITH_IMM, 55),
    )
}

fn route(bench: &mut Bench<'_>) -> Checked {
    let (a, b, _) = ends(bench, &UD)?;
    let global = GlobalRoute {
        gid: gid(b.lid),
        flow_label: 5,
        traffic_class: 6,
        hop_limit: 7,
    };
    let vector = AddressVector {
        service_level: 3,
        global: Some(global),
        ..plain(b.lid)
    };
    let ah = address(bench, &a, vector)?;
    // The header's length counts what is behind it on a wire: headers and checksum, 24 bytes; the
    // immediate data, 4; and the datagram, filled up to a multiple of 4.
    for (length, opcode, behind) in [
        (8, Opcode::Send, 32),
        (9, Opcode::Send, 36),
        (0, Opcode::Send, 24),
        (9, Opcode::SendWithImm, 40),
    ] {
        bench.fill(Side::B, 0, &[0; GRH_BYTES])?;
        bench.receive(&b, 10, 0, length + GRH)?;
        let mut request = datagram(&a, 1, length, (ah, b.number, QKEY));
        request.opcode = opcode;
        bench.post(&a, &request)?;
        bench.sent(&a, &[(1, Success)])?;
        let wc = bench.received(&b, &[(10, Success)])?[0];
        same(
            "flags and level",
            (wc.flags - WcFlags::WITH_IMM, wc.service_level),
            (WcFlags::GRH, 3),
        )?;
        // Version 6, class 6, flow label 5; the length, next header and hop limit.
        bench.holds(Side::B, 0, &[0x60, 0x60, 0, 5, 0, behind, 0x1b, 7])?;
        bench.holds(Side::B, 8, &gid(a.lid))?;
        bench.holds(Side::B, 24, &gid(b.lid))?;
    }
    Ok(())
}

fn own_key(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    bench.receive(&b, 10, 0, 8 + GRH)?;
    bench.post(&a, &datagram(&a, 1, 8, (ah, b.number, OWN_QKEY | 99)))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn violations(bench: &mut Bench<'_>) -> Checked<u64> {
    let words = bench.ok("violations", Side::B, |end| {
        Ok(vec![end.qkey_violations().into()])
    })?;
    Ok(words[0])
}

fn wrong_key(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    let before = violations(bench)?;
    bench.receive(&b, 10, 0, 8 + GRH)?;
    bench.post(&a, &datagram(&a, 1, 4, (ah, b.number, QKEY + 1)))?;
    bench.post(&a, &datagram(&a, 2, 8, (ah, b.number, QKEY)))?;
    bench.sent(&a, &[(1, Success), (2, Success)])?;
    let wc = bench.received(&b, &[(10, Success)])?[0];
    same("length", wc.byte_len, 8 + GRH)?;
    same("violations", violations(bench)?, before + 1)
}

fn nobody(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    let nowhere = address(bench, &a, plain(60))?;
    bench.post(&a, &datagram(&a, 1, 4, (ah, b.number ^ 0x7f, QKEY)))?;
    bench.post(&a, &datagram(&a, 2, 4, (nowhere, b.number, QKEY)))?;
    bench.sent(&a, &[(1, Success), (2, Success)])?;
    arrives(bench, &a, &b, ah)
}

fn no_receive(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    bench.post(&a, &datagram(&a, 1, 4, (ah, b.number, QKEY)))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.quiet()?;
    arrives(bench, &a, &b, ah)
}

fn short(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    bench.receive(&b, 10, 0, 64)?;
    for (id, length) in [(1, 25), (2, 24)] {
        bench.post(&a, &datagram(&a, id, length, (ah, b.number, QKEY)))?;
    }
    bench.sent(&a, &[(1, Success), (2, Success)])?;
    let wc = bench.received(&b, &[(10, Success)])?[0];
    same("length", wc.byte_len, 24 + GRH)
}

fn stopped(bench: &mut Bench<'_>, a: &Qp, b: &Qp, ah: Id) -> Checked {
    bench.state(a, QpState::Sqe)?;
    bench.post(a, &datagram(a, 2, 8, (ah, b.number, QKEY)))?;
    bench.sent(a, &[(2, WrFlushErr)])?;
    let back = address(bench, b, plain(a.lid))?;
    bench.receive(a, 20, 0, 8 + GRH)?;
    bench.post(b, &datagram(b, 30, 8, (back, a.number, QKEY)))?;
    bench.sent(b, &[(30, Success)])?;
    bench.received(a, &[(20, Success)])?;
    bench.to(a, QpState::Rts)?;
    arrives(bench, a, b, ah)
}

fn too_long(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    bench.post(&a, &datagram(&a, 1, 4097, (ah, b.number, QKEY)))?;
    bench.sent(&a, &[(1, LocLenErr)])?;
    stopped(bench, &a, &b, ah)
}

fn local(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    let request = SendRequest {
        data: Data::Segments(vec![a.segment_by(0, 0, 8)]),
        ..datagram(&a, 1, 8, (ah, b.number, QKEY))
    };
    bench.post(&a, &request)?;
    bench.sent(&a, &[(1, LocProtErr)])?;
    stopped(bench, &a, &b, ah)
}

fn receive_key(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    let key = bench.page(&b, Access::REMOTE_READ)?;
    bench.post_receive(&b, 10, vec![b.segment_by(key, OTHER, 64)])?;
    bench.post(&a, &datagram(&a, 1, 8, (ah, b.number, QKEY)))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, LocProtErr)])?;
    bench.state(&b, QpState::Err)
}

fn shared_short(bench: &mut Bench<'_>) -> Checked {
    let spec = Spec { shared: true, ..UD };
    let (a, b, ah) = ends(bench, &spec)?;
    bench.receive(&b, 10, 0, 40)?;
    bench.post(&a, &datagram(&a, 1, 8, (ah, b.number, QKEY)))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, LocLenErr)]).map(drop)
}

fn in_init(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = (ready(bench, Side::A, &UD)?, bench.qp(Side::B, &UD)?);
    let ah = address(bench, &a, plain(b.lid))?;
    bench.init(&b, &UD)?;
    bench.receive(&b, 10, 0, 8 + GRH)?;
    bench.post(&a, &datagram(&a, 1, 8, (ah, b.number, QKEY)))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.quiet()
}

/// The number of notifications of the receives' channel once a datagram has arrived.
fn told(bench: &mut Bench<'_>, (a, b): (&Qp, &Qp), ah: Id, flags: SendFlags) -> Checked<u64> {
    bench.receive(b, 10, 0, 8 + GRH)?;
    let mut request = datagram(a, 1, 8, (ah, b.number, QKEY));
    request.flags |= flags;
    queues::told(bench, (a, b), &request)
}

fn armed(bench: &mut Bench<'_>) -> Checked {
    let (a, b, ah) = ends(bench, &UD)?;
    let (plain, solicited) = (SendFlags::empty(), SendFlags::SOLICITED);
    let told = |bench: &mut Bench<'_>, flags| told(bench, (&a, &b), ah, flags);
    same("not armed", told(bench, solicited)?, 0)?;
    queues::arm(bench, &b, false)?;
    same("armed", told(bench, plain)?, 1)?;
    same("once", told(bench, solicited)?, 0)?;
    queues::arm(bench, &b, true)?;
    same("plain", told(bench, plain)?, 0)?;
    same("solicited", told(bench, solicited)?, 1)
}

fn handles(bench: &mut Bench<'_>) -> Checked {
    let a = ready(bench, Side::A, &UD)?;
    let level = AddressVector {
        service_level: 16,
        ..plain(1)
    };
    for bad in [plain(0), level] {
        bench.fails("create_ah", Side::A, Error::Invalid, |end| {
            end.create_ah(a.pd, bad).map(drop)
        })?;
    }
    let ah = address(bench, &a, plain(1))?;
    bench.run("destroy_ah", Side::A, |end| end.destroy_ah(a.pd, ah))?;
    bench.forget(Side::A, Thing::Ah(a.pd, ah));
    bench.fails("destroy_ah", Side::A, Error::NotFound, |end| {
        end.destroy_ah(a.pd, ah)
    })
}

fn groups(bench: &mut Bench<'_>) -> Checked {
    let a = ready(bench, Side::A, &UD)?;
    let rc = bench.qp(Side::A, &Spec::new(QpType::Rc))?;
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 0x12, 9);
    for _ in 0..2 {
        bench.run("attach", Side::A, |end| {
            end.attach_multicast(a.number, group)
        })?;
    }
    for (number, gid) in [(a.number, gid(1)), (rc.number, group)] {
        bench.fails("attach", Side::A, Error::Invalid, |end| {
            end.attach_multicast(number, gid)
        })?;
    }
    bench.run("detach", Side::A, |end| {
        end.detach_multicast(a.number, group)
    })?;
    bench.fails("detach", Side::A, Error::Invalid, |end| {
        end.detach_multicast(a.number, group)
    })
}

/// A datagram to a group reaches a member, and no queue pair that is none or has left.
fn group_datagrams(bench: &mut Bench<'_>) -> Checked {
    const AT: u64 = 0x4000;
    let (a, member) = (ready(bench, Side::A, &UD)?, ready(bench, Side::A, &UD)?);
    let other = ready(bench, Side::A, &UD)?;
    let mut group = [0; 16];
    (group[0], group[1], group[15]) = (0xff, 0x12, 9);
    let vector = AddressVector {
        global: Some(GlobalRoute {
            gid: group,
            ..GlobalRoute::default()
        }),
        ..plain(GROUP_LID)
    };
    let ah = address(bench, &a, vector)?;
    bench.run("attach", Side::A, |end| {
        end.attach_multicast(member.number, group)
    })?;
    let bytes = [0x5a; 8];
    bench.fill(Side::A, 0, &bytes)?;
    bench.receive(&other, 20, 0x6000, 8 + GRH)?;
    bench.receive(&member, 10, AT, 8 + GRH)?;
    let to_group = |id| datagram(&a, id, 8, (ah, MULTICAST_QPN, QKEY));
    bench.post(&a, &to_group(1))?;
    bench.sent(&a, &[(1, Success)])?;
    let wc = bench.received(&member, &[(10, Success)])?[0];
    let what = (wc.byte_len, wc.src_qp, wc.slid, wc.flags);
    same("completion", what, (8 + GRH, a.number, a.lid, WcFlags::GRH))?;
    bench.holds(Side::A, AT + 24, &group)?;
    bench.holds(Side::A, AT + u64::from(GRH), &bytes)?;
    bench.run("detach", Side::A, |end| {
        end.detach_multicast(member.number, group)
    })?;
    bench.receive(&member, 11, AT, 8 + GRH)?;
    bench.post(&a, &to_group(2))?;
    bench.sent(&a, &[(2, Success)])?;
    bench.quiet()
}
