//! Peers that come late or never, fail, leave in order, restart and die.

use verbs_core::types::WcStatus::{RetryExcErr, Success, WrFlushErr};
use verbs_core::types::{EventType, Opcode, QpState, QpType};

use crate::verbs::bench::{Bench, Checked, Place, Qp, Side, Spec, Thing};
use crate::verbs::{Row, row};

const RC: Spec = Spec::new(QpType::Rc);
/// On booted nodes programs die in suites of their own, which also check what is left of them.
const BY_KILLS: &[(Place, &str)] = &[
    (Place::Node, "programs die in the suite `verbs-kills`"),
    (
        Place::Pair,
        "programs and nodes die in the suites `verbs-kills` and `verbs-loss`",
    ),
];

/// In the simulator a lane has its two ends at two places.
const TWO_ENDS: &[(Place, &str)] = &[(
    Place::Sim,
    "the simulator's lanes have two ends; `a_queue_pair_connected_to_itself` in \
     `lib/verbs-core/tests/reliable.rs`",
)];

pub const PEERS: &[Row] = &[
    row("peer-never", never),
    row("peer-wrong", wrong_number),
    row("peer-other", connected_to_other),
    row("peer-late", late),
    row("peer-error", goes_to_error),
    row("peer-destroys", destroys),
    row("peer-destroys-pending", destroys_pending),
    row("peer-uc", destroys_unreliable),
    row("peer-anew", anew),
    row("peer-half", half_anew),
    row("peer-independent", independent),
    row("peer-itself", itself).except(TWO_ENDS),
    row("peer-own", own),
    row("peer-killed", killed).except(BY_KILLS),
    row("peer-killed-uc", killed_unreliable).except(BY_KILLS),
];

fn impatient() -> Spec {
    let mut spec = RC;
    (spec.attributes.timeout, spec.attributes.retry_cnt) = (10, 1);
    spec
}

fn a_alone(bench: &mut Bench<'_>, spec: &Spec, peer: (u16, u32)) -> Checked<Qp> {
    let a = bench.qp(Side::A, spec)?;
    bench.init(&a, spec)?;
    bench.rtr(&a, spec, peer)?;
    bench.rts(&a, spec)?;
    Ok(a)
}

fn gives_up(bench: &mut Bench<'_>, a: &Qp) -> Checked {
    bench.send(a, 1, 8)?;
    bench.send(a, 2, 8)?;
    bench.sent(a, &[(1, RetryExcErr), (2, WrFlushErr)])?;
    bench.state(a, QpState::Err)
}

fn never(bench: &mut Bench<'_>) -> Checked {
    let spec = impatient();
    let b = bench.qp(Side::B, &RC)?;
    bench.init(&b, &RC)?;
    let a = a_alone(bench, &spec, (b.lid, b.number))?;
    let since = bench.driver().now();
    gives_up(bench, &a)?;
    // `retry_cnt` is 1, so there are two tries.
    bench.took(since, 2, 4096 << spec.attributes.timeout)
}

fn wrong_number(bench: &mut Bench<'_>) -> Checked {
    let b = bench.qp(Side::B, &RC)?;
    let a = a_alone(bench, &impatient(), (b.lid, b.number ^ 0x7f))?;
    gives_up(bench, &a)
}

fn connected_to_other(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let spec = impatient();
    let c = bench.qp_of(Side::A, &spec, a.pd)?;
    bench.init(&c, &spec)?;
    bench.rtr(&c, &spec, (b.lid, b.number))?;
    bench.rts(&c, &spec)?;
    bench.receive(&b, 10, 0, 8)?;
    gives_up(bench, &c)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn late(bench: &mut Bench<'_>) -> Checked {
    let b = bench.qp(Side::B, &RC)?;
    let a = a_alone(bench, &RC, (b.lid, b.number))?;
    bench.send(&a, 1, 8)?;
    bench.quiet()?;
    bench.init(&b, &RC)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.rtr(&b, &RC, (a.lid, a.number))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn goes_to_error(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.to(&b, QpState::Err)?;
    bench.quiet()?;
    bench.state(&a, QpState::Rts)?;
    gives_up(bench, &a)
}

fn destroy(bench: &mut Bench<'_>, qp: &Qp) -> Checked {
    let number = qp.number;
    bench.run("destroy_qp", qp.side, |end| end.destroy_qp(number))?;
    bench.forget(qp.side, Thing::Qp(number));
    Ok(())
}

fn destroys(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 10..13 {
        bench.receive(&a, id, 0x4000, 8)?;
    }
    bench.send(&b, 30, 8)?;
    bench.send(&b, 31, 8)?;
    bench.sent(&b, &[(30, Success), (31, Success)])?;
    destroy(bench, &b)?;
    bench.received(&a, &[(10, Success), (11, Success)])?;
    bench.quiet()?;
    bench.state(&a, QpState::Rts)?;
    gives_up(bench, &a)?;
    bench.received(&a, &[(12, WrFlushErr)]).map(drop)
}

fn destroys_pending(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.send(&a, 1, 8)?;
    bench.send(&a, 2, 8)?;
    bench.quiet()?;
    destroy(bench, &b)?;
    bench.sent(&a, &[(1, RetryExcErr), (2, WrFlushErr)])?;
    bench.state(&a, QpState::Err)
}

fn destroys_unreliable(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&Spec::new(QpType::Uc))?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)])?;
    destroy(bench, &b)?;
    bench.quiet()?;
    bench.send(&a, 2, 8)?;
    bench.sent(&a, &[(2, Success)])?;
    bench.state(&a, QpState::Rts)
}

fn anew(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for round in 0..3 {
        bench.receive(&b, 10 + round, 0, 8)?;
        bench.send(&a, round, 8)?;
        bench.sent(&a, &[(round, Success)])?;
        bench.received(&b, &[(10 + round, Success)])?;
        bench.to(&b, QpState::Reset)?;
        bench.to(&a, QpState::Reset)?;
        bench.connect(&a, &b, &RC)?;
    }
    Ok(())
}

fn half_anew(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 5, 8)?;
    bench.sent(&a, &[(5, Success)])?;
    bench.received(&b, &[(10, Success)])?;
    bench.to(&b, QpState::Reset)?;
    bench.init(&b, &RC)?;
    bench.receive(&b, 11, 0, 8)?;
    bench.rtr(&b, &RC, (a.lid, a.number))?;
    bench.send(&a, 6, 8)?;
    bench.sent(&a, &[(6, Success)])?;
    bench.received(&b, &[(11, Success)]).map(drop)
}

fn independent(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let c = bench.qp_of(Side::A, &RC, a.pd)?;
    let d = bench.qp_of(Side::B, &RC, b.pd)?;
    bench.connect(&c, &d, &RC)?;
    bench.send(&a, 1, 0x7000)?;
    bench.quiet()?;
    for id in 0..4 {
        bench.receive(&d, 20 + id, 0, 8)?;
        bench.send(&c, id, 8)?;
        bench.sent(&c, &[(id, Success)])?;
        bench.received(&d, &[(20 + id, Success)])?;
        let to = d.place(0, d.key);
        bench.post(&c, &c.one_sided(9, Opcode::RdmaWrite, 4096, to))?;
        bench.sent(&c, &[(9, Success)])?;
    }
    bench.receive(&b, 10, 0, 0x7000)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)]).map(drop)
}

fn traffic(bench: &mut Bench<'_>, from: &Qp, to: &Qp) -> Checked {
    bench.fill(from.side, 0, b"01234567")?;
    bench.receive(to, 10, 0x4000, 8)?;
    bench.send(from, 1, 8)?;
    bench.sent(from, &[(1, Success)])?;
    bench.received(to, &[(10, Success)])?;
    bench.holds(to.side, 0x4000, b"01234567")?;
    let place = to.place(0x5000, to.key);
    bench.post(from, &from.one_sided(2, Opcode::RdmaWrite, 8, place))?;
    bench.sent(from, &[(2, Success)])?;
    bench.holds(to.side, 0x5000, b"01234567")?;
    bench.fill(to.side, 0x5000, &7u64.to_ne_bytes())?;
    let mut add = from.one_sided(3, Opcode::AtomicFetchAndAdd, 8, place);
    add.compare_add = 3;
    bench.post(from, &add)?;
    bench.sent(from, &[(3, Success)])?;
    bench.holds(to.side, 0x5000, &10u64.to_ne_bytes())?;
    bench.holds(from.side, 0, &7u64.to_ne_bytes())
}

fn itself(bench: &mut Bench<'_>) -> Checked {
    let a = bench.qp(Side::A, &RC)?;
    bench.init(&a, &RC)?;
    bench.rtr(&a, &RC, (a.lid, a.number))?;
    bench.rts(&a, &RC)?;
    traffic(bench, &a, &a)
}

fn own(bench: &mut Bench<'_>) -> Checked {
    let (a, c) = (bench.qp(Side::A, &RC)?, bench.qp(Side::A, &RC)?);
    bench.connect(&a, &c, &RC)?;
    traffic(bench, &a, &c)?;
    traffic(bench, &c, &a)
}

fn killed(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for id in 10..13 {
        bench.receive(&a, id, 0x4000, 8)?;
    }
    bench.send(&b, 30, 8)?;
    bench.sent(&b, &[(30, Success)])?;
    bench.send(&a, 1, 8)?;
    bench.send(&a, 2, 8)?;
    bench.driver().kill(Side::B)?;
    bench.gone(Side::B);
    bench.sent(&a, &[(1, RetryExcErr), (2, WrFlushErr)])?;
    bench.received(&a, &[(10, Success), (11, WrFlushErr), (12, WrFlushErr)])?;
    bench.events(Side::A, &[(EventType::QpFatal, a.number)])?;
    bench.state(&a, QpState::Err)
}

fn killed_unreliable(bench: &mut Bench<'_>) -> Checked {
    let (a, _) = bench.pair(&Spec::new(QpType::Uc))?;
    bench.driver().kill(Side::B)?;
    bench.gone(Side::B);
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.state(&a, QpState::Rts)
}
