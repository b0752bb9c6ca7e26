//! unregister.

use scif_abi::Error::{
    AddressInUse, ConnectionReset, InvalidArgument, NoSuchAddress, NotConnected,
};

use crate::ask::{FIXED, HUP, LOCAL, PAGE, READ, REMOTE, RMA_SYNC, SELF, WRITE};
use crate::bench::{Ask, Bench, Checked, Ep, Side};
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

/// Makes a connection whose connector has windows at pages 4 to 7, 8 to 9 and 12 to 13.
fn windows(b: &mut Bench<'_>) -> Checked<(Ep, Ep)> {
    let (active, passive) = b.pair()?;
    b.window(active, 4, 4 * PAGE, BOTH)?;
    b.window(active, 2, 8 * PAGE, BOTH)?;
    b.window(active, 2, 12 * PAGE, BOTH)?;
    Ok((active, passive))
}

/// Makes those windows. Returns the call that unregisters pages `first..end`.
fn pages(b: &mut Bench<'_>, first: i64, end: i64) -> Checked<Ask> {
    let (active, _) = windows(b)?;
    Ok(active.unregister(first * PAGE, (end - first) * PAGE))
}

/// `scif_unregister`.
pub const UNREGISTER: Section = Section {
    title: "scif_unregister",
    word: "unregister",
    about: "A range must consist of whole windows; all of them are unregistered, or none. The call \
        returns when the peer has answered that it has no more use of the window, or that the \
        window is still in use.",
    rows: &[
        Row::gives(["one window", "0", "0"], 0, |b| pages(b, 4, 8)),
        Row::gives(["two windows side by side", "0", "0"], 0, |b| {
            pages(b, 4, 10)
        }),
        Row::fails(
            [
                "windows with a gap between them",
                "ENXIO",
                "ENXIO / 0, and they are gone",
            ],
            NoSuchAddress,
            |b| pages(b, 8, 14),
        ),
        Row::fails(
            [
                "a window and nothing behind it",
                "ENXIO",
                "ENXIO / 0, and it is gone",
            ],
            NoSuchAddress,
            |b| pages(b, 12, 16),
        ),
        Row::fails(
            [
                "nothing and a window behind it",
                "ENXIO",
                "ENXIO / 0, and it is gone",
            ],
            NoSuchAddress,
            |b| pages(b, 2, 8),
        ),
        Row::fails(
            ["nothing is registered there", "ENXIO", "ENXIO / 0"],
            NoSuchAddress,
            |b| pages(b, 100, 101),
        ),
        Row::fails(
            [
                "begins in the middle of a window",
                "EINVAL",
                "0, and all of it is gone / EINVAL",
            ],
            InvalidArgument,
            |b| pages(b, 6, 8),
        ),
        Row::fails(
            ["ends in the middle of a window", "EINVAL", "ENXIO / EINVAL"],
            InvalidArgument,
            |b| pages(b, 4, 6),
        ),
        Row::fails(
            ["inside a window", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| pages(b, 5, 6),
        ),
        Row::fails(
            [
                "a window and a part of the next",
                "EINVAL",
                "ENXIO / EINVAL, and the first is \
                gone",
            ],
            InvalidArgument,
            |b| pages(b, 4, 9),
        ),
        Row::fails(
            [
                "part of a window, and nothing behind it",
                "EINVAL or ENXIO",
                "0 / EINVAL",
            ],
            InvalidArgument,
            |b| pages(b, 9, 11),
        ),
        Row::fails(["length 0", "–", "EINVAL"], InvalidArgument, |b| {
            pages(b, 4, 4)
        }),
        Row::fails(
            ["offset negative", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| pages(b, -4, 0),
        ),
        Row::fails(
            [
                "offset not a multiple of the page \
            size",
                "–",
                "EINVAL",
            ],
            InvalidArgument,
            |b| {
                let (active, _) = windows(b)?;
                Ok(active.unregister(4 * PAGE + 1, 4 * PAGE))
            },
        ),
        Row::fails(
            [
                "length not a multiple of the page \
            size",
                "–",
                "EINVAL",
            ],
            InvalidArgument,
            |b| {
                let (active, _) = windows(b)?;
                Ok(active.unregister(4 * PAGE, 4 * PAGE - 1))
            },
        ),
        Row::fails(
            ["beyond the last offset", "–", "EINVAL"],
            InvalidArgument,
            |b| {
                let (active, _) = windows(b)?;
                Ok(active.unregister(i64::MAX - (PAGE - 1), 2 * PAGE))
            },
        ),
        Row::fails(["twice", "ENXIO", "ENXIO / 0"], NoSuchAddress, |b| {
            let (active, _) = windows(b)?;
            b.gives(active.unregister(4 * PAGE, 4 * PAGE), 0)?;
            Ok(active.unregister(4 * PAGE, 4 * PAGE))
        }),
        Row::fails(
            ["the peer's window", "ENXIO", "ENXIO / 0"],
            NoSuchAddress,
            |b| {
                let (_, passive) = windows(b)?;
                Ok(passive.unregister(4 * PAGE, 4 * PAGE))
            },
        ),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| Ok(b.open(Side::A)?.unregister(0, PAGE)),
        ),
        Row::fails(
            [
                "a bad argument, not connected",
                "–",
                "EINVAL: arguments first",
            ],
            InvalidArgument,
            |b| Ok(b.open(Side::A)?.unregister(1, PAGE)),
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let (active, passive) = windows(b)?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                Ok(active.unregister(4 * PAGE, 4 * PAGE))
            },
        ),
        Row::story(
            [
                "one that failed in part",
                "no windows are unregistered",
                "some are",
            ],
            "all windows are as before",
            |b| {
                let (active, passive) = windows(b)?;
                b.fails(active.unregister(4 * PAGE, 5 * PAGE), InvalidArgument)?;
                b.fails(active.unregister(8 * PAGE, 6 * PAGE), NoSuchAddress)?;
                let copy = b.memory(Side::B, 6)?;
                b.ok(passive.virtual_read(copy, 0, 6 * PAGE, 4 * PAGE, 0))?;
                b.ok(passive.virtual_read(copy, 0, 2 * PAGE, 12 * PAGE, 0))?;
                b.gives(active.unregister(4 * PAGE, 6 * PAGE), 0)
            },
        ),
        Row::story(
            [
                "new use of it, by either side",
                "ENXIO",
                "works while somebody refers to it",
            ],
            "ENXIO for RMA, mapping and signals",
            |b| {
                let (active, passive) = b.pair()?;
                b.window(active, 2, 0, BOTH)?;
                b.window(passive, 2, 0, BOTH)?;
                // The mapping is a reference to the window.
                let mapping = b.new_memory(Side::B);
                b.ok(passive.map(mapping, 0, PAGE, READ))?;
                b.ok(active.unregister(0, 2 * PAGE))?;
                let copy = b.memory(Side::B, 2)?;
                b.fails(passive.virtual_read(copy, 0, 8, 0, 0), NoSuchAddress)?;
                b.fails(passive.virtual_write(copy, 0, 8, 0, 0), NoSuchAddress)?;
                b.fails(passive.read_from(0, 8, 0, 0), NoSuchAddress)?;
                b.fails(active.write_to(0, 8, 0, 0), NoSuchAddress)?;
                let other = b.new_memory(Side::B);
                b.fails(passive.map(other, 0, PAGE, READ), NoSuchAddress)?;
                b.fails(
                    passive.fence_signal((0, 0), (0, 1), SELF | REMOTE),
                    NoSuchAddress,
                )?;
                b.fails(
                    active.fence_signal((0, 1), (0, 0), SELF | LOCAL),
                    NoSuchAddress,
                )?;
                b.fails(active.unregister(0, 2 * PAGE), NoSuchAddress)
            },
        )
        .because("the documents: not \"in calls to\" them any more"),
        Row::story(
            [
                "the peer still maps it",
                "exists until its references are gone",
                "EADDRINUSE for its offsets / after 10 s ENODEV",
            ],
            "mapping and offsets stay; after munmap the offset can be registered again at once",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(active, 2, 0, BOTH)?;
                b.ok(memory.fill(0, 2 * PAGE, 8))?;
                let mapping = b.new_memory(Side::B);
                b.ok(passive.map(mapping, 0, 2 * PAGE, BOTH))?;
                b.gives(active.unregister(0, 2 * PAGE), 0)?;
                b.holds_pattern(mapping, 0, 2 * PAGE, 8)?;
                b.ok(mapping.store(8, 77))?;
                b.gives(memory.load(8), 77)?;
                let again = active.register(memory, 0, 2 * PAGE, 0, BOTH, FIXED);
                b.fails(again, AddressInUse)?;
                // Unmapping one of two pages is not enough.
                b.ok(mapping.unmap(0, PAGE))?;
                b.fails(again, AddressInUse)?;
                b.ok(mapping.unmap(PAGE, PAGE))?;
                b.gives(again, 0)
            },
        ),
        Row::story(
            [
                "the peer has copied to it many times, and FIXED again",
                "the offsets are free when nothing refers to the window",
                "ok",
            ],
            "works at once",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(active, 2, 0, BOTH)?;
                let copy = b.window(passive, 2, 0, BOTH)?;
                for seed in 0..6 {
                    b.ok(copy.fill(0, 64, seed))?;
                    b.gives(passive.write_to(0, 64, 0, RMA_SYNC), 0)?;
                    b.holds_pattern(memory, 0, 64, seed)?;
                }
                for seed in 6..11 {
                    b.gives(active.unregister(0, 2 * PAGE), 0)?;
                    let other = b.memory(active.side, 2)?;
                    b.gives(active.register(other, 0, 2 * PAGE, 0, BOTH, FIXED), 0)?;
                    b.ok(copy.fill(0, 64, seed))?;
                    b.gives(passive.write_to(0, 64, 0, RMA_SYNC), 0)?;
                    b.holds_pattern(other, 0, 64, seed)?;
                }
                b.holds_pattern(memory, 0, 64, 5)
            },
        )
        .because(
            "what a library keeps mapped for its copies is no reference of a program: it keeps \
             pages, not offsets",
        ),
        Row::story(
            ["and FIXED again, many times", "–", "ok / may take 10 s"],
            "works at once each time",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.memory(Side::A, 2)?;
                let copy = b.memory(Side::B, 2)?;
                for turn in 0..20 {
                    let register = active.register(memory, 0, 2 * PAGE, 0, BOTH, FIXED);
                    b.gives(register, 0)?;
                    b.ok(memory.store(0, turn))?;
                    b.ok(passive.virtual_read(copy, 0, 2 * PAGE, 0, 0))?;
                    b.gives(copy.load(0), turn as i64)?;
                    b.gives(active.unregister(0, 2 * PAGE), 0)?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "a transfer is under way",
                "the window exists until it is over",
                "completes",
            ],
            "the transfer completes, then the pages are released",
            |b| {
                let (active, passive) = b.pair()?;
                let before = b.counts()?;
                let source = b.window(active, 256, 0, BOTH)?;
                let target = b.window(passive, 256, 0, BOTH)?;
                b.ok(source.fill(0, 256 * PAGE, 4))?;
                b.ok(active.write_to(0, 256 * PAGE, 0, 0))?;
                b.gives(active.unregister(0, 256 * PAGE), 0)?;
                b.gives(passive.unregister(0, 256 * PAGE), 0)?;
                b.becomes(target.check(0, 256 * PAGE, 4), -1)?;
                b.settles_at(before)
            },
        ),
        Row::story(
            [
                "by the other side's transfer under way",
                "the window exists until it is \
                over",
                "completes",
            ],
            "the transfer completes or touches whole bytes only; nothing is left over",
            |b| {
                let (active, passive) = b.pair()?;
                let before = b.counts()?;
                let source = b.window(active, 128, 0, BOTH)?;
                b.window(passive, 128, 0, BOTH)?;
                b.ok(source.fill(0, 128 * PAGE, 4))?;
                b.ok(active.write_to(0, 128 * PAGE, 0, 0))?;
                b.gives(passive.unregister(0, 128 * PAGE), 0)?;
                b.gives(active.unregister(0, 128 * PAGE), 0)?;
                b.settles_at(before)
            },
        ),
    ],
};
