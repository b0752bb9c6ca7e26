//! mmap and munmap of the peer's windows.

use scif_abi::Error::{
    AccessDenied, ConnectionReset, InvalidArgument, NoSuchAddress, NotConnected,
};

use crate::ask::{HUP, PAGE, READ, WRITE};
use crate::bench::{Ask, Bench, Checked, Side};
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

/// Registers a window of two pages at page 4 of B. Returns A's call that maps this range.
fn map(b: &mut Bench<'_>, offset: i64, length: i64) -> Checked<Ask> {
    let (active, passive) = b.pair()?;
    b.window(passive, 2, 4 * PAGE, BOTH)?;
    let mapping = b.new_memory(Side::A);
    Ok(active.map(mapping, offset, length, READ))
}

/// Registers a window of B with one protection. Returns A's call that maps it with another.
fn protected(b: &mut Bench<'_>, window: u32, mapping: u32) -> Checked<Ask> {
    let (active, passive) = b.pair()?;
    b.window(passive, 2, 0, window)?;
    let name = b.new_memory(Side::A);
    Ok(active.map(name, 0, 2 * PAGE, mapping))
}

/// `scif_mmap`, `scif_munmap`.
pub const MAPPING: Section = Section {
    title: "scif_mmap, scif_munmap",
    word: "mmap",
    about: "Maps the peer's pages; loads and stores reach them without any daemon in between.",
    rows: &[
        Row::story(
            ["a window of the peer", "its pages", "its pages"],
            "loads see what the peer stores, the peer sees what is stored",
            |b| {
                for (from, to) in [(Side::A, Side::B), (Side::B, Side::A)] {
                    let (active, passive) = b.connection(from, to)?;
                    let memory = b.window(passive, 3, 0, BOTH)?;
                    b.ok(memory.fill(0, 3 * PAGE, 5))?;
                    let mapping = b.new_memory(from);
                    b.ok(active.map(mapping, 0, 3 * PAGE, BOTH))?;
                    b.holds_pattern(mapping, 0, 3 * PAGE, 5)?;
                    b.ok(memory.store(2 * PAGE, 99))?;
                    b.gives(mapping.load(2 * PAGE), 99)?;
                    b.ok(mapping.fill(PAGE, PAGE, 6))?;
                    b.holds_pattern(memory, PAGE, PAGE, 6)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["a part of a window", "allowed", "allowed"],
            "the pages at that offset",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(passive, 4, 0x7000, BOTH)?;
                b.ok(memory.fill(0, 4 * PAGE, 5))?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, 0x8000, 2 * PAGE, READ))?;
                b.gives(mapping.check_from(0, 2 * PAGE, 5, PAGE), -1)
            },
        ),
        Row::story(
            ["adjacent windows by one call", "–", "allowed"],
            "allowed, in the order of their offsets",
            |b| {
                let (active, passive) = b.pair()?;
                let second = b.window(passive, 2, 2 * PAGE, BOTH)?;
                let first = b.window(passive, 2, 0, BOTH)?;
                b.ok(first.fill(0, 2 * PAGE, 1))?;
                b.ok(second.fill(0, 2 * PAGE, 2))?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, PAGE, 2 * PAGE, READ))?;
                b.gives(mapping.check_from(0, PAGE, 1, PAGE), -1)?;
                b.holds_pattern(mapping, PAGE, PAGE, 2)
            },
        ),
        Row::story(
            ["memory in many pieces", "–", "allowed"],
            "64 pages as one range",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(passive, 64, 0, BOTH)?;
                b.ok(memory.fill(0, 64 * PAGE, 3))?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, 0, 64 * PAGE, BOTH))?;
                b.holds_pattern(mapping, 0, 64 * PAGE, 3)?;
                b.ok(mapping.fill(0, 64 * PAGE, 4))?;
                b.holds_pattern(memory, 0, 64 * PAGE, 4)
            },
        ),
        Row::story(
            ["twice", "–", "allowed"],
            "two mappings of the same pages",
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 2, 0, BOTH)?;
                let (one, other) = (b.new_memory(Side::A), b.new_memory(Side::A));
                b.ok(active.map(one, 0, 2 * PAGE, BOTH))?;
                b.ok(active.map(other, PAGE, PAGE, BOTH))?;
                b.ok(one.store(PAGE + 8, 41))?;
                b.gives(other.load(8), 41)?;
                b.ok(one.unmap(0, 2 * PAGE))?;
                b.gives(other.load(8), 41)
            },
        ),
        Row::fails(
            ["nothing is registered there", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| map(b, 0, PAGE),
        ),
        Row::fails(
            ["the range ends behind the window", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| map(b, 5 * PAGE, 2 * PAGE),
        ),
        Row::fails(
            ["the range begins before the window", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| map(b, 3 * PAGE, 2 * PAGE),
        ),
        Row::fails(
            ["a hole between two windows", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 1, 0, BOTH)?;
                b.window(passive, 1, 2 * PAGE, BOTH)?;
                let mapping = b.new_memory(Side::A);
                Ok(active.map(mapping, 0, 3 * PAGE, READ))
            },
        ),
        Row::fails(["the own window", "ENXIO", "ENXIO"], NoSuchAddress, |b| {
            let (active, _) = b.pair()?;
            b.window(active, 1, 0, BOTH)?;
            let mapping = b.new_memory(Side::A);
            Ok(active.map(mapping, 0, PAGE, READ))
        }),
        Row::fails(
            ["offset not a multiple of the page size", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| map(b, 4 * PAGE + 8, PAGE),
        ),
        Row::fails(["length 0", "EINVAL", "EINVAL"], InvalidArgument, |b| {
            map(b, 4 * PAGE, 0)
        }),
        Row::fails(
            ["WRITE of a window with READ", "EACCES", "EPERM"],
            AccessDenied,
            |b| protected(b, READ, WRITE),
        )
        .because("EACCES wherever a protection forbids something: the documents' word"),
        Row::fails(
            ["READ and WRITE of a window with READ", "EACCES", "EPERM"],
            AccessDenied,
            |b| protected(b, READ, BOTH),
        ),
        Row::fails(
            ["READ of a window with WRITE", "EACCES", "EPERM"],
            AccessDenied,
            |b| protected(b, WRITE, READ),
        ),
        Row::succeeds(
            ["READ of a window with READ", "succeeds", "succeeds"],
            |b| protected(b, READ, READ),
        ),
        Row::succeeds(
            ["WRITE of a window with WRITE", "succeeds", "succeeds"],
            |b| protected(b, WRITE, WRITE),
        ),
        Row::fails(
            [
                "adjacent windows, the second without the right",
                "EACCES",
                "EPERM",
            ],
            AccessDenied,
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 1, 0, BOTH)?;
                b.window(passive, 1, PAGE, READ)?;
                let mapping = b.new_memory(Side::A);
                Ok(active.map(mapping, 0, 2 * PAGE, BOTH))
            },
        ),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| {
                let endpoint = b.open(Side::A)?;
                let mapping = b.new_memory(Side::A);
                Ok(endpoint.map(mapping, 0, PAGE, READ))
            },
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 1, 0, BOTH)?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                let mapping = b.new_memory(Side::A);
                Ok(active.map(mapping, 0, PAGE, READ))
            },
        ),
        Row::story(
            ["munmap of a part", "–", "the rest stays"],
            "the rest stays; the window is used until the last page",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(passive, 4, 0, BOTH)?;
                b.ok(memory.fill(0, 4 * PAGE, 5))?;
                let mapping = b.new_memory(Side::A);
                let before = b.counts()?;
                b.ok(active.map(mapping, 0, 4 * PAGE, READ))?;
                b.ok(mapping.unmap(PAGE, PAGE))?;
                b.gives(mapping.check(0, PAGE, 5), -1)?;
                b.gives(mapping.check_from(2 * PAGE, 2 * PAGE, 5, 2 * PAGE), -1)?;
                b.ok(mapping.unmap(0, PAGE))?;
                b.ok(mapping.unmap(2 * PAGE, 2 * PAGE))?;
                b.settles_at(before)
            },
        ),
        Row::story(
            ["the owner unregisters", "stays mapped", "stays mapped"],
            "the mapping stays; its pages are released with it",
            |b| {
                let (active, passive) = b.pair()?;
                let before = b.counts()?;
                let memory = b.window(passive, 2, 0, BOTH)?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, 0, 2 * PAGE, BOTH))?;
                b.ok(passive.unregister(0, 2 * PAGE))?;
                b.ok(mapping.store(16, 5))?;
                b.gives(memory.load(16), 5)?;
                b.ok(mapping.unmap(0, 2 * PAGE))?;
                b.settles_at(before)
            },
        ),
        Row::story(
            [
                "the owner closes",
                "\"remains mapped by the peer\"",
                "stays mapped",
            ],
            "the mapping stays",
            |b| {
                let before = b.counts()?;
                let (active, passive) = b.pair()?;
                let memory = b.window(passive, 2, 0, BOTH)?;
                b.ok(memory.fill(0, 2 * PAGE, 7))?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, 0, 2 * PAGE, BOTH))?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                b.holds_pattern(mapping, 0, 2 * PAGE, 7)?;
                b.ok(mapping.store(16, 5))?;
                b.gives(memory.load(16), 5)?;
                b.ok(mapping.unmap(0, 2 * PAGE))?;
                b.ok(active.close())?;
                b.settles_at(before)
            },
        ),
        Row::story(
            ["the mapper closes", "–", "stays mapped"],
            "the mapping stays; munmap works all the same",
            |b| {
                let before = b.counts()?;
                let (active, passive) = b.pair()?;
                let memory = b.window(passive, 2, 0, BOTH)?;
                b.ok(memory.fill(0, 2 * PAGE, 7))?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, 0, 2 * PAGE, BOTH))?;
                b.ok(active.close())?;
                b.becomes(passive.poll(0), HUP.into())?;
                b.holds_pattern(mapping, 0, 2 * PAGE, 7)?;
                b.ok(passive.close())?;
                b.ok(mapping.store(16, 5))?;
                b.gives(memory.load(16), 5)?;
                b.ok(mapping.unmap(0, 2 * PAGE))?;
                b.settles_at(before)
            },
        ),
        Row::story(
            ["the connection is used meanwhile", "–", "–"],
            "transfers and mapping see the same bytes",
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 2, 0, BOTH)?;
                let mapping = b.new_memory(Side::A);
                b.ok(active.map(mapping, 0, 2 * PAGE, BOTH))?;
                let data = b.memory(Side::A, 2)?;
                b.ok(data.fill(0, 2 * PAGE, 3))?;
                b.ok(active.virtual_write(data, 0, 2 * PAGE, 0, 4))?;
                b.holds_pattern(mapping, 0, 2 * PAGE, 3)
            },
        ),
    ],
};
