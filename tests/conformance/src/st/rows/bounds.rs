//! Illegal combinations of arguments, and bounds of memory.

use super::six::mapped;
use crate::errno::{EAGAIN, EFAULT, EINVAL, ENXIO};
use crate::st::bench::{Ask, Bench, Checked, End, Memory, Place, Side, ensure};
use crate::st::call::{Call, NOTHING};
use crate::st::{Row, row};

/// Local memory belongs to the program, and the state machine never sees it.
const LOCAL: &[(Place, &str)] = &[(
    Place::Sim,
    "local addresses are C's, the machine never sees one",
)];
/// Handles belong to the C library.
const HANDLE: &[(Place, &str)] = &[(Place::Sim, "handles are pointers of C's")];

pub const BOUNDS: &[Row] = &[
    row(62, "push and pull, all NULL", "`EINVAL`", nothing),
    row(
        63,
        "push and pull with `hdr` and `loc`, `hdr` and `rem`, `loc` only",
        "`EINVAL` each",
        one_address,
    ),
    row(
        64,
        "len −1; len 5 with `hdr` only; len 0 with both pointers",
        "`EINVAL`; `EINVAL`; the header arrives and nothing moves",
        lengths,
    ),
    row(
        65,
        "`rem` one before the range, behind its last byte, across its end, wrapping around",
        "`ENXIO`; no byte and no header moved",
        outside,
    ),
    row(
        66,
        "`rem` at the first byte, at the last, and the whole range",
        "work",
        edges,
    ),
    row(
        67,
        "B has never mapped",
        "waits and goes on when B maps; `EAGAIN` with `O_NONBLOCK`; ends with `ECONNRESET` when B \
         closes",
        never_mapped,
    ),
    row(68, "`loc` outside the own range", "works", local_anywhere).except(LOCAL),
    row(
        69,
        "`loc` and `len` that wrap around",
        "`EFAULT`; nothing moved",
        local_wraps,
    )
    .except(LOCAL),
    row(70, "a handle that is NULL, in every call", "`EINVAL`", null).except(HANDLE),
];

type Make = fn(End, bool, u64, u64, i64) -> Ask;

fn push(end: End, header: bool, local: u64, remote: u64, length: i64) -> Ask {
    end.push(header.then_some(1), local, remote, length)
}

/// `st1_push` and `st1_pull`.
const BOTH: [Make; 2] = [push, End::pull];

const RANGE: u64 = 8192;

fn nothing(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    for make in BOTH {
        bench.fails(make(ends.a, false, 0, 0, 0), EINVAL)?;
        bench.fails(make(ends.a, false, 0, 0, 8), EINVAL)?;
    }
    Ok(())
}

fn one_address(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    bench.push(ends.b, 63)?;
    for make in BOTH {
        bench.fails(make(ends.a, true, at_a.at, 0, 8), EINVAL)?;
        bench.fails(make(ends.a, true, 0, at_b.at, 8), EINVAL)?;
        bench.fails(make(ends.a, false, at_a.at, 0, 8), EINVAL)?;
        bench.fails(make(ends.a, false, 0, at_b.at, 8), EINVAL)?;
    }
    // The header was not taken, and none was sent.
    bench.pull(ends.a, 63)?;
    bench.is_empty(ends.b)
}

fn lengths(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    bench.ok(at_a.set(1))?;
    bench.ok(at_b.set(2))?;
    for make in BOTH {
        bench.fails(make(ends.a, true, at_a.at, at_b.at, -1), EINVAL)?;
        bench.fails(make(ends.a, true, 0, 0, 5), EINVAL)?;
    }
    bench.ok(ends.a.push(Some(64), at_a.at, at_b.at, 0))?;
    bench.comes(ends.b.pull(true, at_b.at, at_a.at, 0), 64)?;
    bench.ok(ends.a.push(None, at_a.at, at_b.at, 0))?;
    bench.is_empty(ends.b)?;
    bench.is_all(at_a, 1)?;
    bench.is_all(at_b, 2)
}

fn outside(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, RANGE)?;
    let local = bench.allocate(Side::A, 2 * RANGE)?;
    bench.ok(local.set(9))?;
    let end = at_b.at + RANGE;
    let bad = [
        (at_b.at - 1, 1),
        (at_b.at - 1, 2),
        (end, 1),
        (end - 50, 51),
        (at_b.at, RANGE as i64 + 1),
        (u64::MAX - 49, 100),
        (1, 1),
    ];
    for (remote, length) in bad {
        bench.fails(ends.a.push(None, local.at, remote, length), ENXIO)?;
        bench.fails(ends.a.push(Some(1), local.at, remote, length), ENXIO)?;
        bench.fails(ends.a.pull(false, local.at, remote, length), ENXIO)?;
    }
    bench.ok(ends.a.fence())?;
    bench.is_all(at_b, 0)?;
    bench.is_all(local, 9)?;
    bench.is_empty(ends.b)
}

fn edges(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, RANGE)?;
    let local = bench.allocate(Side::A, RANGE)?;
    bench.ok(local.set(3))?;
    bench.ok(ends.a.push(None, local.at, at_b.at, 1))?;
    bench.ok(ends.a.push(Some(1), local.at, at_b.at + RANGE - 1, 1))?;
    bench.pull(ends.b, 1)?;
    let middle = Memory {
        length: RANGE - 2,
        ..at_b.from(1)
    };
    bench.is_all(middle, 0)?;
    for at in [0, RANGE - 1] {
        let byte = Memory {
            length: 1,
            ..at_b.from(at)
        };
        bench.is_all(byte, 3)?;
    }
    bench.ok(local.fill(RANGE, 66))?;
    bench.ok(ends.a.push(Some(2), local.at, at_b.at, RANGE as i64))?;
    bench.pull(ends.b, 2)?;
    bench.has(at_b, RANGE, 66)?;
    bench.ok(local.set(0))?;
    bench.ok(ends.a.pull(false, local.at, at_b.at, RANGE as i64))?;
    bench.has(local, RANGE, 66)
}

fn never_mapped(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let local = bench.allocate(Side::A, RANGE)?;
    bench.ok(local.fill(100, 67))?;
    bench.ok(ends.a.socket.nonblocking(true))?;
    // The place of the range does not matter, as it is not known yet.
    bench.fails(ends.a.push(Some(1), local.at, 4096, 1), EAGAIN)?;
    bench.fails(ends.a.pull(false, local.at, 4096, 1), EAGAIN)?;
    bench.ok(ends.a.socket.nonblocking(false))?;
    let memory = bench.allocate(Side::B, 3 * RANGE)?;
    let place = Memory {
        at: memory.at.next_multiple_of(4096),
        length: RANGE,
        ..memory
    };
    let putting = bench.begin(ends.a.push(Some(2), local.at, place.at, 100))?;
    bench.waits(putting)?;
    bench.ok(ends.b.map(place.at, RANGE as i64))?;
    bench.ends(putting, Ok(0))?;
    bench.pull(ends.b, 2)?;
    bench.has(place, 100, 67)?;
    bench.ok(ends.b.unmap(place.at, 0))?;

    let others = bench.ends_joined()?;
    for call in [
        others.a.push(Some(1), local.at, place.at, 1),
        others.a.pull(false, local.at, place.at, 1),
    ] {
        let others = bench.ends_joined()?;
        let (side, call) = call;
        let call = of_handle(call, others.a);
        let waiting = bench.begin((side, call))?;
        bench.waits(waiting)?;
        bench.ok(others.b.socket.close())?;
        bench.ends(waiting, Err(crate::errno::ECONNRESET))?;
    }
    Ok(())
}

/// The same call on another handle.
fn of_handle(call: Call, end: End) -> Call {
    let handle = end.slot;
    match call {
        Call::Push {
            header,
            local,
            remote,
            length,
            ..
        } => Call::Push {
            handle,
            header,
            local,
            remote,
            length,
        },
        Call::Pull {
            header,
            local,
            remote,
            length,
            ..
        } => Call::Pull {
            handle,
            header,
            local,
            remote,
            length,
        },
        other => other,
    }
}

fn local_anywhere(bench: &mut Bench<'_>) -> Checked {
    let (ends, at_a, at_b) = mapped(bench, RANGE)?;
    let local = bench.allocate(Side::A, RANGE)?;
    bench.ok(local.fill(RANGE, 68))?;
    ensure(local.at != at_a.at, || "one memory".into())?;
    bench.ok(ends.a.push(Some(1), local.at, at_b.at, RANGE as i64))?;
    bench.pull(ends.b, 1)?;
    bench.has(at_b, RANGE, 68)?;
    bench.ok(local.set(0))?;
    bench.ok(ends.a.pull(false, local.at, at_b.at, RANGE as i64))?;
    bench.has(local, RANGE, 68)
}

fn local_wraps(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, RANGE)?;
    let wraps = u64::MAX - 49;
    bench.fails(ends.a.push(Some(1), wraps, at_b.at, 100), EFAULT)?;
    bench.fails(ends.a.push(None, wraps, at_b.at, 100), EFAULT)?;
    bench.fails(ends.a.pull(false, wraps, at_b.at, 100), EFAULT)?;
    bench.is_all(at_b, 0)?;
    bench.is_empty(ends.b)
}

fn null(bench: &mut Bench<'_>) -> Checked {
    let null = End::null(Side::A);
    let local = bench.allocate(Side::A, 64)?;
    let handle = NOTHING;
    let calls = [
        null.push(Some(1), 0, 0, 0).1,
        null.pull(true, 0, 0, 0).1,
        null.map(0, 4096).1,
        null.unmap(local.at, 0).1,
        Call::Fence { handle, flush: 0 },
        Call::Fence { handle, flush: 1 },
        Call::Transmit {
            handle,
            given: 1,
            w0: 0x8000,
            w1: 0,
            w2: 0,
            w3: 0,
            w4: 0,
            payload: NOTHING,
            length: 0,
            buffer: 0,
            offset: 0,
        },
        Call::Receive {
            handle,
            given: 1,
            payload: 0,
        },
    ];
    for call in calls {
        bench.fails((Side::A, call), EINVAL)?;
    }
    // A pointer to NULL. Row 23 has a NULL pointer to a handle.
    let handle = bench.slot();
    bench.fails((Side::A, Call::Detach { handle }), EINVAL)
}
