//! Memory regions that are deregistered and reregistered, and memory windows.

use alloc::vec;
use alloc::vec::Vec;

use verbs_core::keys::{Region, WindowType};
use verbs_core::types::WcStatus::{
    LocQpOpErr, MwBindErr, RemAccessErr, RemOpErr, Success, WrFlushErr,
};
use verbs_core::types::{Access, Error, EventType, Opcode, QpState, QpType, WcFlags, WcOpcode};
use verbs_core::work::{Bind, SendRequest};

use crate::verbs::bench::{ALL, Bench, Checked, OTHER, Qp, Side, Spec, Thing, same};
use crate::verbs::{Row, row};

const RC: Spec = Spec::new(QpType::Rc);

pub const MEMORY: &[Row] = &[
    row("mr-refused", refused),
    row("mr-demand", on_demand),
    row("mr-gone", gone),
    row("mr-old-key", old_key),
    row("mr-rereg-access", rereg_access),
    row("mr-rereg-pd", rereg_pd),
    row("mr-rereg-address", rereg_address),
    row("mr-many", many),
    row("mw-1", |bench| inside(bench, WindowType::One)),
    row("mw-2", |bench| inside(bench, WindowType::Two)),
    row("mw-rights", rights),
    row("mw-refused", bind_refused),
    row("mw-twice", twice),
    row("mw-rebind", rebind),
    row("mw-local-inv", local_invalidation),
    row("mw-local-inv-1", cannot_invalidate),
    row("mw-send-inv", remote_invalidation),
    row("mw-send-inv-wrong", wrong_invalidation),
    row("mw-busy", busy),
    row("mw-freed", freed),
    row("mw-other-qp", other_queue_pair),
];

fn refused(bench: &mut Bench<'_>) -> Checked {
    let pd = bench.domain(Side::A)?;
    let good = Region {
        pd,
        start: 0,
        length: 64,
        iova: 0,
        access: ALL,
    };
    let bad = [
        Region { length: 0, ..good },
        Region {
            access: Access::REMOTE_WRITE,
            ..good
        },
        Region {
            access: Access::REMOTE_ATOMIC,
            ..good
        },
        // Another place within its page than that of the memory.
        Region { iova: 8, ..good },
    ];
    for region in bad {
        bench.fails("register", Side::A, Error::Invalid, |end| {
            let start = end.base() + region.start;
            let iova = end.base() + region.iova;
            end.register(Region {
                start,
                iova,
                ..region
            })
            .map(drop)
        })?;
    }
    // The page before the end of addresses has the memory's place within a page, so that only the
    // length is wrong.
    bench.fails("register", Side::A, Error::Invalid, |end| {
        let start = end.base();
        let iova = (u64::MAX - 4095) | (start % 4096);
        let length = 4097;
        end.register(Region {
            start,
            iova,
            length,
            ..good
        })
        .map(drop)
    })?;
    let pd = verbs_core::table::Id(77);
    bench.fails("register", Side::A, Error::NotFound, |end| {
        let start = end.base();
        let iova = start;
        end.register(Region {
            pd,
            start,
            iova,
            ..good
        })
        .map(drop)
    })
}

fn exposed(bench: &mut Bench<'_>, side: Side) -> Checked<u64> {
    Ok(bench.ok("exposed", side, |end| Ok(vec![end.exposed()]))?[0])
}

/// Posts a WRITE of 8 bytes of `x` by a key, and returns its result.
fn write(
    bench: &mut Bench<'_>,
    (a, b): (&Qp, &Qp),
    (at, key): (u64, u32),
    status: verbs_core::types::WcStatus,
) -> Checked {
    bench.fill(Side::A, 0, b"xxxxxxxx")?;
    bench.post(a, &a.one_sided(1, Opcode::RdmaWrite, 8, b.place(at, key)))?;
    bench.sent(a, &[(1, status)])?;
    match status {
        Success => bench.holds(Side::B, at, b"xxxxxxxx"),
        _ => bench.events(Side::B, &[(EventType::QpAccessErr, b.number)]),
    }
}

fn on_demand(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    for _ in 0..8 {
        bench.page(&b, ALL)?;
    }
    bench.receive(&b, 10, 0, 8)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, Success)])?;
    bench.received(&b, &[(10, Success)])?;
    same("windows", exposed(bench, Side::B)?, 0)?;
    write(bench, (&a, &b), (0, b.key), Success)?;
    same("windows", exposed(bench, Side::B)?, 1)?;
    write(bench, (&a, &b), (8, b.key), Success)?;
    same("windows", exposed(bench, Side::B)?, 1)
}

fn gone(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let key = bench.page(&b, ALL)?;
    write(bench, (&a, &b), (OTHER, key), Success)?;
    bench.run("deregister", Side::B, |end| end.deregister(key))?;
    bench.forget(Side::B, Thing::Key(key));
    bench.fill(Side::B, OTHER, b"unharmed")?;
    write(bench, (&a, &b), (OTHER, key), RemAccessErr)?;
    bench.holds(Side::B, OTHER, b"unharmed")?;
    bench.fails("deregister", Side::B, Error::NotFound, |end| {
        end.deregister(key)
    })
}

fn old_key(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let old = bench.page(&b, ALL)?;
    bench.run("deregister", Side::B, |end| end.deregister(old))?;
    bench.forget(Side::B, Thing::Key(old));
    let new = bench.page(&b, ALL)?;
    same("another key", old == new, false)?;
    write(bench, (&a, &b), (OTHER, new), Success)?;
    write(bench, (&a, &b), (OTHER, old), RemAccessErr)
}

/// Reregisters a page of B.
fn renew(
    bench: &mut Bench<'_>,
    key: u32,
    at: u64,
    pd: verbs_core::table::Id,
    access: Access,
) -> Checked<u32> {
    let words = bench.ok("reregister", Side::B, |end| {
        let start = end.base() + at;
        let region = Region {
            pd,
            start,
            length: 4096,
            iova: start,
            access,
        };
        Ok(vec![end.reregister(key, region)?.into()])
    })?;
    bench.forget(Side::B, Thing::Key(key));
    let fresh = words[0] as u32;
    bench.own(Side::B, Thing::Key(fresh));
    Ok(fresh)
}

fn rereg_access(bench: &mut Bench<'_>) -> Checked {
    for back in [true, false] {
        let (a, b) = bench.pair(&RC)?;
        let first = bench.page(&b, ALL)?;
        write(bench, (&a, &b), (OTHER, first), Success)?;
        let second = renew(bench, first, OTHER, b.pd, Access::REMOTE_READ)?;
        match back {
            true => {
                let third = renew(bench, second, OTHER, b.pd, ALL)?;
                write(bench, (&a, &b), (OTHER, third), Success)?;
                write(bench, (&a, &b), (OTHER, first), RemAccessErr)?;
            }
            false => write(bench, (&a, &b), (OTHER, second), RemAccessErr)?,
        }
    }
    let (a, b) = bench.pair(&RC)?;
    let first = bench.page(&b, Access::LOCAL_WRITE | Access::REMOTE_READ)?;
    let access = Access::LOCAL_WRITE | Access::REMOTE_ATOMIC;
    let second = renew(bench, first, OTHER, b.pd, access)?;
    let add = |key| SendRequest {
        compare_add: 3,
        ..a.one_sided(1, Opcode::AtomicFetchAndAdd, 8, b.place(OTHER, key))
    };
    bench.fill(Side::B, OTHER, &5u64.to_ne_bytes())?;
    bench.post(&a, &add(second))?;
    bench.sent(&a, &[(1, Success)])?;
    bench.holds(Side::B, OTHER, &8u64.to_ne_bytes())?;
    let third = renew(bench, second, OTHER, b.pd, Access::LOCAL_WRITE)?;
    bench.post(&a, &add(third))?;
    bench.sent(&a, &[(1, RemAccessErr)])?;
    bench.events(Side::B, &[(EventType::QpAccessErr, b.number)])?;
    bench.holds(Side::B, OTHER, &8u64.to_ne_bytes())
}

fn rereg_pd(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let key = bench.page(&b, ALL)?;
    bench.post_receive(&b, 10, vec![b.segment_by(key, OTHER, 8)])?;
    let pd = bench.domain(Side::B)?;
    renew(bench, key, OTHER, pd, ALL)?;
    bench.send(&a, 1, 8)?;
    bench.sent(&a, &[(1, RemOpErr)])?;
    bench
        .received(&b, &[(10, verbs_core::types::WcStatus::LocProtErr)])
        .map(drop)
}

fn rereg_address(bench: &mut Bench<'_>) -> Checked {
    let (a, b) = bench.pair(&RC)?;
    let key = bench.page(&b, ALL)?;
    let fresh = renew(bench, key, OTHER + 4096, b.pd, ALL)?;
    bench.fill(Side::B, OTHER, b"unharmed")?;
    write(bench, (&a, &b), (OTHER + 4096, fresh), Success)?;
    write(bench, (&a, &b), (OTHER, fresh), RemAccessErr)?;
    bench.holds(Side::B, OTHER, b"unharmed")
}

fn many(bench: &mut Bench<'_>) -> Checked {
    let pd = bench.domain(Side::A)?;
    bench.run("1000 regions", Side::A, |end| {
        let start = end.base();
        let region = Region {
            pd,
            start,
            length: 4096,
            iova: start,
            access: ALL,
        };
        let keys: Result<Vec<u32>, Error> = (0..1000).map(|_| end.register(region)).collect();
        let mut keys = keys?;
        keys.sort_unstable();
        let before = keys.len();
        keys.dedup();
        for key in &keys {
            end.deregister(*key)?;
        }
        match keys.len() == before {
            true => Ok(()),
            false => Err(Error::Busy),
        }
    })
}

// ---- Windows ----

/// A connected pair, a memory window of B, and a region that it can be bound to.
struct Window {
    a: Qp,
    b: Qp,
    key: u32,
    region: u32,
}

fn allocate(bench: &mut Bench<'_>, b: &Qp, kind: WindowType) -> Checked<u32> {
    let words = bench.ok("alloc_mw", Side::B, |end| {
        Ok(vec![end.alloc_mw(b.pd, kind)?.into()])
    })?;
    let key = words[0] as u32;
    bench.own(Side::B, Thing::Mw(b.pd, key));
    Ok(key)
}

fn window(bench: &mut Bench<'_>, kind: WindowType) -> Checked<Window> {
    let (a, b) = bench.pair(&RC)?;
    let region = bench.page(&b, Access::LOCAL_WRITE | Access::MW_BIND)?;
    let key = allocate(bench, &b, kind)?;
    Ok(Window { a, b, key, region })
}

fn next(key: u32) -> u32 {
    key & !0xff | (key + 1) & 0xff
}

impl Window {
    /// Binds the 64 bytes behind the first 64 of the region, to read and write.
    fn bind(&self) -> Bind {
        Bind {
            window: self.key,
            key: next(self.key),
            region: self.region,
            address: self.b.base + OTHER + 64,
            length: 64,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ,
        }
    }

    /// Binds the window, which then has a new key.
    fn bound(&mut self, bench: &mut Bench<'_>, bind: Bind) -> Checked {
        bench.post(&self.b, &request(5, bind))?;
        let found = bench.sent(&self.b, &[(5, Success)])?;
        same("opcode", found[0].opcode, WcOpcode::BindMw)?;
        bench.forget(Side::B, Thing::Mw(self.b.pd, self.key));
        self.key = bind.key;
        // The window is destroyed before the region, which it keeps in use.
        bench.own(Side::B, Thing::Mw(self.b.pd, self.key));
        Ok(())
    }

    fn write(
        &self,
        bench: &mut Bench<'_>,
        at: u64,
        status: verbs_core::types::WcStatus,
    ) -> Checked {
        write(bench, (&self.a, &self.b), (OTHER + at, self.key), status)
    }
}

fn request(id: u64, bind: Bind) -> SendRequest {
    SendRequest {
        bind: Some(bind),
        ..SendRequest::new(id, Opcode::BindMw, Vec::new())
    }
}

fn inside(bench: &mut Bench<'_>, kind: WindowType) -> Checked {
    for (at, status) in [(120, Success), (121, RemAccessErr), (63, RemAccessErr)] {
        let mut of = window(bench, kind)?;
        let bind = of.bind();
        of.bound(bench, bind)?;
        of.write(bench, at, status)?;
    }
    Ok(())
}

fn rights(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::One)?;
    let bind = Bind {
        access: Access::REMOTE_WRITE,
        ..of.bind()
    };
    of.bound(bench, bind)?;
    of.write(bench, 64, Success)?;
    let from = of.b.place(OTHER + 64, of.key);
    bench.post(&of.a, &of.a.one_sided(2, Opcode::RdmaRead, 8, from))?;
    bench.sent(&of.a, &[(2, RemAccessErr)])?;
    bench.events(Side::B, &[(EventType::QpAccessErr, of.b.number)])
}

fn bind_refused(bench: &mut Bench<'_>) -> Checked {
    for kind in [WindowType::One, WindowType::Two] {
        for case in 0..7 {
            let of = window(bench, kind)?;
            let good = of.bind();
            let bind = match case {
                0 => Bind {
                    address: of.b.base + OTHER + 4090,
                    ..good
                },
                1 => Bind {
                    address: of.b.base + OTHER - 1,
                    ..good
                },
                2 => Bind {
                    region: of.b.key,
                    ..good
                },
                3 => {
                    let pd = bench.domain(Side::B)?;
                    let access = Access::LOCAL_WRITE | Access::MW_BIND;
                    let region = bench.register(Side::B, pd, (OTHER, 4096), access)?;
                    Bind { region, ..good }
                }
                4 => {
                    let region = bench.page(&of.b, Access::MW_BIND)?;
                    Bind { region, ..good }
                }
                5 => Bind {
                    key: of.key,
                    ..good
                },
                _ if kind == WindowType::Two => Bind { length: 0, ..good },
                _ => continue,
            };
            bench.post(&of.b, &request(5, bind))?;
            bench.sent(&of.b, &[(5, MwBindErr)])?;
            bench.state(&of.b, QpState::Err)?;
        }
    }
    Ok(())
}

fn twice(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::Two)?;
    let bind = of.bind();
    of.bound(bench, bind)?;
    let again = of.bind();
    bench.post(&of.b, &request(6, again))?;
    bench.sent(&of.b, &[(6, MwBindErr)]).map(drop)
}

fn rebind(bench: &mut Bench<'_>) -> Checked {
    for to_nothing in [false, true] {
        let mut of = window(bench, WindowType::One)?;
        let bind = of.bind();
        of.bound(bench, bind)?;
        of.write(bench, 64, Success)?;
        let (former, bind) = (of.key, of.bind());
        let length = if to_nothing { 0 } else { 64 };
        of.bound(bench, Bind { length, ..bind })?;
        if !to_nothing {
            of.write(bench, 64, Success)?;
        }
        of.key = former;
        of.write(bench, 64, RemAccessErr)?;
    }
    Ok(())
}

fn invalidate(id: u64, key: u32) -> SendRequest {
    SendRequest {
        immediate: key,
        ..SendRequest::new(id, Opcode::LocalInv, Vec::new())
    }
}

fn local_invalidation(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::Two)?;
    let bind = of.bind();
    of.bound(bench, bind)?;
    of.write(bench, 64, Success)?;
    bench.post(&of.b, &invalidate(6, of.key))?;
    let found = bench.sent(&of.b, &[(6, Success)])?;
    same("opcode", found[0].opcode, WcOpcode::LocalInv)?;
    let (former, bind) = (of.key, of.bind());
    of.bound(bench, bind)?;
    of.write(bench, 64, Success)?;
    of.key = former;
    of.write(bench, 64, RemAccessErr)
}

fn cannot_invalidate(bench: &mut Bench<'_>) -> Checked {
    for of_region in [true, false] {
        let mut of = window(bench, WindowType::One)?;
        let bind = of.bind();
        of.bound(bench, bind)?;
        let key = if of_region { of.region } else { of.key };
        bench.post(&of.b, &invalidate(6, key))?;
        bench.sent(&of.b, &[(6, LocQpOpErr)])?;
    }
    Ok(())
}

fn send_with_inv(a: &Qp, id: u64, key: u32) -> SendRequest {
    SendRequest {
        opcode: Opcode::SendWithInv,
        immediate: key,
        ..a.send(id, 8)
    }
}

fn remote_invalidation(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::Two)?;
    let bind = of.bind();
    of.bound(bench, bind)?;
    bench.receive(&of.b, 10, 0, 8)?;
    bench.post(&of.a, &send_with_inv(&of.a, 3, of.key))?;
    bench.sent(&of.a, &[(3, Success)])?;
    let found = bench.received(&of.b, &[(10, Success)])?[0];
    let what = (found.flags, found.immediate);
    same("completion", what, (WcFlags::WITH_INV, of.key))?;
    of.write(bench, 64, RemAccessErr)
}

fn wrong_invalidation(bench: &mut Bench<'_>) -> Checked {
    let of = window(bench, WindowType::Two)?;
    bench.receive(&of.b, 10, 0, 8)?;
    bench.receive(&of.b, 11, 0, 8)?;
    bench.post(&of.a, &send_with_inv(&of.a, 3, of.region))?;
    bench.sent(&of.a, &[(3, RemOpErr)])?;
    bench.received(&of.b, &[(10, LocQpOpErr), (11, WrFlushErr)])?;
    bench.state(&of.a, QpState::Err)?;
    bench.state(&of.b, QpState::Err)
}

fn busy(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::One)?;
    let bind = of.bind();
    of.bound(bench, bind)?;
    bench.fails("deregister", Side::B, Error::Busy, |end| {
        end.deregister(of.region)
    })?;
    of.write(bench, 64, Success)
}

fn freed(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::One)?;
    let bind = of.bind();
    of.bound(bench, bind)?;
    of.write(bench, 64, Success)?;
    bench.run("dealloc_mw", Side::B, |end| end.dealloc_mw(of.b.pd, of.key))?;
    bench.forget(Side::B, Thing::Mw(of.b.pd, of.key));
    of.write(bench, 64, RemAccessErr)
}

fn other_queue_pair(bench: &mut Bench<'_>) -> Checked {
    let mut of = window(bench, WindowType::Two)?;
    let bind = of.bind();
    of.bound(bench, bind)?;
    let c = bench.qp_of(Side::A, &RC, of.a.pd)?;
    let d = bench.qp_of(Side::B, &RC, of.b.pd)?;
    bench.connect(&c, &d, &RC)?;
    of.write(bench, 64, Success)?;
    write(bench, (&c, &d), (OTHER + 64, of.key), RemAccessErr)
}
