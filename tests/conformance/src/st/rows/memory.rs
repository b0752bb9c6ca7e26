//! Mapping and unmapping memory.

use alloc::format;
use alloc::vec::Vec;

use super::six::mapped;
use crate::errno::{EAGAIN, EBUSY, EFAULT, EINVAL, ENXIO};
use crate::st::bench::{Bench, Checked, End, Ends, Memory, Place, Side, ensure};
use crate::st::call::{Call, NOTHING};
use crate::st::{Row, row};

/// Addresses and pages belong to programs and their system.
const ADDRESSES: &[(Place, &str)] = &[(
    Place::Sim,
    "addresses and pages are the system's, the machine never sees one",
)];

pub const MAP: &[Row] = &[
    row(36, "the place of the address is NULL", "`EFAULT`", no_place).except(ADDRESSES),
    row(
        37,
        "NULL inside",
        "memory comes back: zeroed, at the beginning of a page, usable by both ends",
        new_memory,
    )
    .except(ADDRESSES),
    row(
        38,
        "an own buffer",
        "keeps its address and content",
        own_buffer,
    )
    .except(ADDRESSES),
    row(
        39,
        "a second map, of the same range or another",
        "`EBUSY`; the first one stays",
        second,
    ),
    row(
        40,
        "two handles of a connection map two ranges, and the same range",
        "work (in `sim` two ranges only: memory is one thing in one place there)",
        two_handles,
    ),
    row(
        41,
        "lengths 0 and −1; 1 byte; a page and a byte; 300 MiB",
        "`EINVAL`, `EINVAL`; the others work",
        lengths,
    )
    .except(&[(
        Place::Sim,
        "lengths are bounded by the system, the machine takes any but 0",
    )]),
    row(
        42,
        "memory of `malloc` at an odd address",
        "works; the neighbours of the range are unchanged under load",
        odd,
    )
    .except(ADDRESSES),
    row(43, "an address where nothing is", "`EFAULT`", nothing_there).except(ADDRESSES),
    row(
        44,
        "more pages than may be pinned",
        "`EAGAIN`, no trace",
        pinned_limit,
    )
    .except(ADDRESSES),
    row(
        45,
        "unmap of another pointer, of a shorter length; of nothing; twice",
        "`EINVAL`, `EINVAL`; `ENXIO`; `ENXIO`",
        unmap_other,
    ),
    row(
        46,
        "unmap under a storm of puts",
        "when it has returned the memory never changes; the peer gets `ENXIO`",
        storm,
    ),
    row(
        47,
        "unmap, then a map elsewhere",
        "the old addresses are `ENXIO`, the new ones work",
        elsewhere,
    ),
    row(
        48,
        "map and unmap at both ends: 600 times, or a hundredth of very often",
        "nothing is left",
        often,
    ),
];

fn no_place(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    bench.fails(ends.a.map(NOTHING, 4096), EFAULT)?;
    bench.fails(ends.a.unmap(NOTHING, 0), EFAULT)
}

fn new_memory(bench: &mut Bench<'_>) -> Checked {
    for length in [100, 4096, 70_000] {
        let (ends, at_a, at_b) = mapped(bench, length)?;
        for memory in [at_a, at_b] {
            bench.is_all(memory, 0)?;
            let is_aligned = memory.at % 4096 == 0;
            ensure(is_aligned, || format!("address {:#x}", memory.at))?;
            bench.ok(memory.fill(length, 37))?;
        }
        let local = bench.allocate(Side::A, length)?;
        bench.ok(ends.a.pull(false, local.at, at_b.at, length as i64))?;
        bench.has(local, length, 37)?;
        for (end, memory) in [(ends.a, at_a), (ends.b, at_b)] {
            let after = bench.word(end.unmap(memory.at, length as i64))?;
            ensure(after == 0, || format!("the address stays {after:#x}"))?;
        }
    }
    Ok(())
}

/// Allocates own memory of whole pages.
fn pages(bench: &mut Bench<'_>, side: Side, length: u64) -> Checked<Memory> {
    let memory = bench.allocate(side, length + 4096)?;
    Ok(Memory {
        side,
        at: memory.at.next_multiple_of(4096),
        length,
    })
}

fn own_buffer(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let own = pages(bench, Side::B, 8192)?;
    bench.ok(own.fill(8192, 38))?;
    let after = bench.word(ends.b.map(own.at, 8192))?;
    ensure(after as u64 == own.at, || format!("address {after:#x}"))?;
    bench.has(own, 8192, 38)?;
    let local = bench.allocate(Side::A, 8192)?;
    bench.ok(ends.a.pull(false, local.at, own.at, 8192))?;
    bench.has(local, 8192, 38)?;
    bench.ok(local.fill(8192, 39))?;
    bench.ok(ends.a.push(Some(1), local.at, own.at, 8192))?;
    bench.pull(ends.b, 1)?;
    bench.has(own, 8192, 39)?;
    let after = bench.word(ends.b.unmap(own.at, 8192))?;
    ensure(after as u64 == own.at, || format!("address {after:#x}"))?;
    bench.has(own, 8192, 39)
}

fn second(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let at_b = bench.map(ends.b, 8192)?;
    bench.fails(ends.b.map(0, 8192), EBUSY)?;
    bench.fails(ends.b.map(at_b.at, 8192), EBUSY)?;
    let own = pages(bench, Side::B, 4096)?;
    bench.fails(ends.b.map(own.at, 4096), EBUSY)?;
    let local = bench.allocate(Side::A, 8192)?;
    bench.ok(local.fill(8192, 39))?;
    bench.ok(ends.a.push(Some(1), local.at, at_b.at, 8192))?;
    bench.pull(ends.b, 1)?;
    bench.has(at_b, 8192, 39)
}

fn two_handles(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let other_a = bench.attach(ends.a.socket, 1)?;
    let other_b = bench.attach(ends.b.socket, 1)?;
    let local = bench.allocate(Side::A, 8192)?;
    let one = pages(bench, Side::B, 8192)?;
    let two = pages(bench, Side::B, 8192)?;
    // First two ranges, then the same range by both handles.
    let seconds = match bench.place() {
        Place::Sim => &[two][..],
        _ => &[two, one],
    };
    for second in seconds.iter().copied() {
        bench.ok(ends.b.map(one.at, 8192))?;
        bench.ok(other_b.map(second.at, 8192))?;
        for (seed, from, to, memory) in [(1, ends.a, ends.b, one), (2, other_a, other_b, second)] {
            bench.ok(local.fill(8192, seed))?;
            bench.ok(from.push(Some(seed), local.at, memory.at, 8192))?;
            bench.pull(to, seed)?;
            bench.has(memory, 8192, seed)?;
        }
        if second.at != one.at {
            // Each handle reaches its own range.
            bench.has(one, 8192, 1)?;
            bench.fails(ends.a.push(None, local.at, second.at, 1), ENXIO)?;
        }
        bench.ok(ends.b.unmap(one.at, 0))?;
        // The other mapping remains.
        bench.ok(other_a.push(Some(3), local.at, second.at, 8192))?;
        bench.pull(other_b, 3)?;
        bench.ok(other_b.unmap(second.at, 0))?;
    }
    Ok(())
}

/// A range larger than what a connection maps at a time (256 MiB), in half of a node's memory.
const LARGE: u64 = 300 << 20;

fn lengths(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    bench.fails(ends.b.map(0, 0), EINVAL)?;
    bench.fails(ends.b.map(0, -1), EINVAL)?;
    let own = pages(bench, Side::B, 4096)?;
    bench.fails(ends.b.map(own.at, 0), EINVAL)?;
    bench.fails(ends.b.map(own.at, -1), EINVAL)?;
    let pages = LARGE / 4096 * 2;
    let limit = bench.word((Side::B, Call::Limit { pages }))?;
    let result = each_length(bench, ends);
    bench.word((
        Side::B,
        Call::Limit {
            pages: limit as u64,
        },
    ))?;
    result
}

fn each_length(bench: &mut Bench<'_>, ends: Ends) -> Checked {
    let local = bench.allocate(Side::A, 4097)?;
    for length in [1, 4097, LARGE] {
        let at_b = bench.map(ends.b, length)?;
        let count = length.min(4097);
        bench.ok(local.fill(count, length))?;
        for at in [0, length / 2, length - count] {
            let at = at.min(length - count);
            let remote = at_b.at + at;
            bench.ok(ends.a.push(Some(1), local.at, remote, count as i64))?;
            bench.pull(ends.b, 1)?;
            bench.has(at_b.from(at), count, length)?;
        }
        bench.ok(ends.b.unmap(at_b.at, length as i64))?;
    }
    Ok(())
}

fn odd(bench: &mut Bench<'_>) -> Checked {
    const LENGTH: u64 = 5000;
    let ends = bench.ends_joined()?;
    let around = bench.allocate(Side::B, 3 * 4096)?;
    bench.ok(around.set(0xaa))?;
    let inner = Memory {
        side: Side::B,
        at: around.at + 1111 + around.at % 2,
        length: LENGTH,
    };
    let after = bench.word(ends.b.map(inner.at, LENGTH as i64))?;
    ensure(after as u64 == inner.at, || format!("address {after:#x}"))?;
    let local = bench.allocate(Side::A, LENGTH)?;
    // The program changes bytes beside the range while the peer writes the range.
    let before = Memory {
        length: inner.at - around.at,
        ..around
    };
    let behind = around.from(inner.at + LENGTH - around.at);
    for seed in 0..100 {
        let value = 1 + seed;
        bench.ok(local.fill(LENGTH, seed))?;
        let putting = bench.begin(ends.a.push(Some(seed), local.at, inner.at, LENGTH as i64))?;
        bench.ok(before.set(value))?;
        bench.ok(behind.set(value))?;
        bench.ends(putting, Ok(0))?;
        bench.pull(ends.b, seed)?;
        bench.has(inner, LENGTH, seed)?;
        bench.is_all(before, value)?;
        bench.is_all(behind, value)?;
    }
    bench.ok(ends.b.unmap(inner.at, LENGTH as i64))?;
    bench.has(inner, LENGTH, 99)
}

fn nothing_there(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    // The first page, and one far above all memory of programs.
    for address in [8, 4096, 0x7000_0000_0000] {
        bench.fails(ends.a.map(address, 4096), EFAULT)?;
    }
    Ok(())
}

fn pinned_limit(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let before = bench.counts()?;
    let limit = bench.word((Side::B, Call::Limit { pages: 600 }))?;
    let result = beyond_limit(bench, ends.b, &before);
    bench.ok((
        Side::B,
        Call::Limit {
            pages: limit as u64,
        },
    ))?;
    result?;
    bench.map(ends.b, 1000 * 4096).map(drop)
}

fn beyond_limit(bench: &mut Bench<'_>, end: End, before: &[Vec<i64>; 2]) -> Checked {
    const LENGTH: i64 = 1000 * 4096;
    let own = pages(bench, Side::B, LENGTH as u64)?;
    bench.fails(end.map(0, LENGTH), EAGAIN)?;
    bench.fails(end.map(own.at, LENGTH), EAGAIN)?;
    bench.settles_at(before)
}

fn unmap_other(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let own = pages(bench, Side::A, 8192)?;
    bench.fails(ends.a.unmap(own.at, 0), ENXIO)?;
    bench.ok(ends.a.map(own.at, 8192))?;
    bench.fails(ends.a.unmap(own.at + 4096, 0), EINVAL)?;
    bench.fails(ends.a.unmap(0, 0), EINVAL)?;
    bench.fails(ends.a.unmap(own.at, 4096), EINVAL)?;
    bench.fails(ends.a.unmap(own.at, 8193), EINVAL)?;
    bench.fails(ends.a.unmap(own.at, -1), EINVAL)?;
    bench.ok(ends.a.unmap(own.at, 8192))?;
    bench.fails(ends.a.unmap(own.at, 8192), ENXIO)
}

fn storm(bench: &mut Bench<'_>) -> Checked {
    const LENGTH: u64 = 100_000;
    let ends = bench.ends_joined()?;
    let local = bench.allocate(Side::A, LENGTH)?;
    bench.ok(local.set(0x11))?;
    for _ in 0..5 {
        let own = pages(bench, Side::B, LENGTH)?;
        bench.ok(own.set(0))?;
        bench.ok(ends.b.map(own.at, LENGTH as i64))?;
        let storm = bench.begin((
            Side::A,
            Call::Storm {
                handle: ends.a.slot,
                local: local.at,
                remote: own.at,
                length: LENGTH,
                header: 0,
            },
        ))?;
        // The program counts in the first word.
        bench.grows(own)?;
        bench.ok(ends.b.unmap(own.at, 0))?;
        let after = bench.load(own)?;
        bench.ok(own.set(0x77))?;
        let reply = bench.end(storm)?;
        let is_gone = reply.word(0)? == i64::from(ENXIO.0);
        ensure(is_gone, || format!("the storm ended with {reply}"))?;
        ensure(after > 0, || "no put arrived".into())?;
        bench.is_all(own, 0x77)?;
    }
    bench.is_empty(ends.b)
}

fn elsewhere(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let local = bench.allocate(Side::A, 100)?;
    bench.ok(local.fill(100, 47))?;
    let one = pages(bench, Side::B, 8192)?;
    let two = pages(bench, Side::B, 8192)?;
    for (old, new) in [(one, two), (two, one), (one, two)] {
        bench.ok(ends.b.map(old.at, 8192))?;
        bench.ok(ends.a.push(Some(1), local.at, old.at, 100))?;
        bench.pull(ends.b, 1)?;
        bench.ok(ends.b.unmap(old.at, 0))?;
        bench.fails(ends.a.push(Some(2), local.at, old.at, 100), ENXIO)?;
        bench.ok(old.set(0))?;
        bench.ok(ends.b.map(new.at, 8192))?;
        bench.fails(ends.a.push(Some(2), local.at, old.at, 100), ENXIO)?;
        bench.fails(ends.a.pull(false, local.at, old.at, 100), ENXIO)?;
        bench.ok(ends.a.push(Some(3), local.at, new.at, 100))?;
        bench.pull(ends.b, 3)?;
        bench.has(new, 100, 47)?;
        bench.is_all(old, 0)?;
        bench.ok(ends.b.unmap(new.at, 0))?;
    }
    bench.is_empty(ends.b)
}

/// Least number of times that memory is mapped and unmapped.
const LEAST: u64 = 600;

fn often(bench: &mut Bench<'_>) -> Checked {
    let ends = bench.ends_joined()?;
    let before = bench.counts()?;
    let count = (bench.many() / 200).max(LEAST / 2);
    for (from, to) in [(ends.a, ends.b), (ends.b, ends.a)] {
        // The peer is notified of each, and must receive at some time.
        let pulling = bench.begin(to.pull(true, 0, 0, 0))?;
        let call = Call::Maps {
            handle: from.slot,
            length: 8192,
            count,
        };
        let mapping = bench.begin((from.side, call))?;
        let reply = bench.take(mapping)?;
        let is_whole = reply.result == Ok(count as i64);
        ensure(is_whole, || format!("of {count}: {reply}"))?;
        bench.push(from, 48)?;
        bench.ends(pulling, Ok(0))?;
    }
    bench.settles_at(&before)?;
    let at_b = bench.map(ends.b, 8192)?;
    let local = bench.allocate(Side::A, 100)?;
    bench.ok(ends.a.push(Some(1), local.at, at_b.at, 100))?;
    bench.pull(ends.b, 1)
}
