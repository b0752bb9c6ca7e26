//! RMA: the data, in every alignment, length and combination of flags.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::ask::{ORDERED, PAGE, PEER, READ, RMA_SYNC, SELF, USECACHE, USECPU, WRITE};
use crate::bench::{Bench, Checked, Side, equal};
use crate::cases::rma::{Ends, KINDS, Kind, ends};
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

/// Positions in the source and in the destination.
const ALIGNMENTS: [(i64, i64); 7] = [
    (0, 0),
    (64, 128),
    (1, 1),
    (63, 127),
    (0, 1),
    (5, 64),
    (4095, 63),
];
const LENGTHS: [i64; 9] = [1, 7, 63, 64, 65, 511, 4095, 4096, 4097];
/// Bytes around the destination that must not change.
const GUARD: i64 = 64;

/// The names of all 16 sets of flags for each of the four calls.
fn combinations() -> Vec<String> {
    let mut names = Vec::new();
    for (_, call) in KINDS {
        for flags in 0..16_u32 {
            let all = [
                (USECPU, "USECPU"),
                (USECACHE, "USECACHE"),
                (RMA_SYNC, "SYNC"),
                (ORDERED, "ORDERED"),
            ];
            let set: Vec<&str> = all
                .iter()
                .filter(|(bit, _)| flags & bit != 0)
                .map(|(_, name)| *name)
                .collect();
            let set = if set.is_empty() {
                "no flag".into()
            } else {
                set.join(" ")
            };
            names.push(format!("{call} with {set}"));
        }
    }
    names
}

/// Copies `length` bytes from `from` to `to` by a call, and checks them and the bytes around them.
fn transfer(
    b: &mut Bench<'_>,
    e: &Ends,
    kind: Kind,
    flags: u32,
    (from, to, length): (i64, i64, i64),
) -> Checked {
    // The seed distinguishes the former contents of the destination from those of the source.
    let (source, target, local, remote) = match kind.reads() {
        true => (e.remote, e.local, to, from),
        false => (e.local, e.remote, from, to),
    };
    let (start, end) = ((to - GUARD).max(0), to + length + GUARD);
    b.ok(target.fill(start, end - start, 77))?;
    b.ok(source.store(from, 0x5eed + (length + from) as u64))?;
    b.ok(source.fill(from, length, (length + from) as u64))?;
    b.gives(kind.ask(e.active, e.local, local, length, remote, flags), 0)?;
    if flags & (RMA_SYNC | USECPU) == 0 {
        let mark = b.ok(e.active.fence_mark(SELF))?;
        b.gives(e.active.fence_wait(mark), 0)?;
    }
    let what = |what: &str| format!("{what} of {length} bytes from {from} to {to}");
    let found = b.ok(target.check(to, length, (length + from) as u64))?;
    equal(&what("the first wrong byte"), found, -1)?;
    let found = b.ok(target.check(start, to - start, 77))?;
    equal(&what("a changed byte before"), found, -1)?;
    let behind = b.ok(target.check_from(to + length, GUARD, 77, to + length - start))?;
    equal(&what("a changed byte behind"), behind, -1)
}

/// The ranges of large transfers.
const LARGE: [(i64, i64, i64); 4] = [
    (0, 0, 1 << 20),
    (1, 0, (1 << 20) - 1),
    (64, 1, (1 << 20) + 1),
    (0, 4096, 4 << 20),
];

/// The data of transfers.
pub const DATA: Section = Section {
    title: "RMA: the data",
    word: "data",
    about: "A call without SYNC and USECPU may return before the data has moved; a fence waits \
        for the end. The v* calls of Skiff pass the data itself and are complete when they \
        return, except with USECACHE.",
    rows: &[
        Row::each(
            [
                "any alignment, any length up to two pages, all flags",
                "all are allowed",
                "all",
            ],
            "the bytes arrive, those around them stay",
            combinations,
            |b, index| {
                let (kind, flags) = (KINDS[index / 16].0, (index % 16) as u32);
                let e = ends(b, 4)?;
                for (from, to) in ALIGNMENTS {
                    for length in LENGTHS {
                        transfer(b, &e, kind, flags, (from, to, length))?;
                    }
                }
                Ok(())
            },
        ),
        Row::each(
            [
                "1 MiB and more, any alignment",
                "allowed",
                "pieces of 1 MiB when misaligned",
            ],
            "the bytes arrive",
            || KINDS.iter().map(|(_, name)| String::from(*name)).collect(),
            |b, kind| {
                let e = ends(b, 1026)?;
                for (index, what) in LARGE.iter().enumerate() {
                    let flags = [0, RMA_SYNC, USECPU, ORDERED][index];
                    transfer(b, &e, KINDS[kind].0, flags, *what)?;
                }
                Ok(())
            },
        ),
        Row::each(
            [
                "within a node",
                "as between nodes",
                "by the CPU / as between nodes",
            ],
            "the same",
            || KINDS.iter().map(|(_, name)| String::from(*name)).collect(),
            |b, kind| {
                let (active, passive) = b.connection(Side::A, Side::A)?;
                let e = Ends {
                    active,
                    passive,
                    local: b.window(active, 4, 0, BOTH)?,
                    remote: b.window(passive, 4, 0, BOTH)?,
                };
                for (from, to) in ALIGNMENTS {
                    transfer(b, &e, KINDS[kind].0, 0, (from, to, 4097))?;
                    transfer(b, &e, KINDS[kind].0, RMA_SYNC, (from, to, 65))?;
                }
                Ok(())
            },
        ),
        Row::each(
            ["from the second node", "symmetric", "symmetric"],
            "the same",
            || KINDS.iter().map(|(_, name)| String::from(*name)).collect(),
            |b, kind| {
                let (active, passive) = b.connection(Side::B, Side::A)?;
                let e = Ends {
                    active,
                    passive,
                    local: b.window(active, 4, 0, BOTH)?,
                    remote: b.window(passive, 4, 0, BOTH)?,
                };
                for (from, to) in ALIGNMENTS {
                    transfer(b, &e, KINDS[kind].0, 0, (from, to, 4097))?;
                    transfer(b, &e, KINDS[kind].0, ORDERED, (from, to, 511))?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["the acceptor's end", "symmetric", "symmetric"],
            "both ends can start transfers",
            |b| {
                let e = ends(b, 4)?;
                let turned = Ends {
                    active: e.passive,
                    passive: e.active,
                    local: e.remote,
                    remote: e.local,
                };
                for (kind, _) in KINDS {
                    transfer(b, &turned, kind, 0, (1, 70, 4097))?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["both ends at once, on the same windows", "–", "–"],
            "each range gets what it was sent",
            |b| {
                let e = ends(b, 64)?;
                let half = 32 * PAGE;
                b.ok(e.local.fill(0, half, 1))?;
                b.ok(e.remote.fill(half, half, 2))?;
                b.ok(e.active.write_to(0, half, 0, 0))?;
                b.ok(e.passive.write_to(half, half, half, 0))?;
                b.becomes(e.remote.check(0, half, 1), -1)?;
                b.becomes(e.local.check(half, half, 2), -1)
            },
        ),
        Row::story(
            [
                "many small ones, then a fence",
                "–",
                "one channel per endpoint",
            ],
            "all are done when fence_wait returns",
            |b| {
                let e = ends(b, 64)?;
                b.ok(e.local.fill(0, 64 * PAGE, 3))?;
                for index in 0..256 {
                    let at = index * 1024;
                    b.gives(e.active.write_to(at, 1024, at, 0), 0)?;
                }
                let mark = b.ok(e.active.fence_mark(SELF))?;
                b.gives(e.active.fence_wait(mark), 0)?;
                b.holds_pattern(e.remote, 0, 64 * PAGE, 3)
            },
        ),
        Row::story(
            ["seen from the other side", "–", "–"],
            "its fence_wait of a PEER mark returns when the data is there",
            |b| {
                let e = ends(b, 64)?;
                b.ok(e.local.fill(0, 64 * PAGE, 4))?;
                b.gives(e.active.write_to(0, 64 * PAGE, 0, 0), 0)?;
                let mark = b.ok(e.passive.fence_mark(PEER))?;
                b.gives(e.passive.fence_wait(mark), 0)?;
                b.holds_pattern(e.remote, 0, 64 * PAGE, 4)
            },
        ),
        Row::story(
            [
                "ORDERED, and the peer looks at the last byte",
                "visible after all others",
                "the \
                same",
            ],
            "once the last word is there, all is",
            |b| {
                let e = ends(b, 64)?;
                b.ok(e.local.fill(0, 64 * PAGE, 5))?;
                let last = 64 * PAGE - 8;
                let word = b.ok(e.local.load(last))?;
                b.gives(e.active.write_to(0, 64 * PAGE, 0, ORDERED), 0)?;
                b.becomes(e.remote.load(last), word)?;
                b.holds_pattern(e.remote, 0, 64 * PAGE, 5)
            },
        ),
        Row::story(
            [
                "USECACHE again and again on one range",
                "may stay pinned",
                "off / never hits",
            ],
            "the bytes of each call",
            |b| {
                let (active, passive) = b.pair()?;
                let remote = b.window(passive, 8, 0, BOTH)?;
                let local = b.memory(Side::A, 8)?;
                for turn in 0..6 {
                    b.ok(local.fill(0, 8 * PAGE, turn))?;
                    b.ok(active.virtual_write(local, 0, 8 * PAGE, 0, USECACHE | RMA_SYNC))?;
                    b.holds_pattern(remote, 0, 8 * PAGE, turn)?;
                    b.ok(remote.fill(0, 4 * PAGE, turn + 50))?;
                    b.ok(active.virtual_read(local, PAGE, 4 * PAGE, 0, USECACHE | RMA_SYNC))?;
                    b.holds_pattern(local, PAGE, 4 * PAGE, turn + 50)?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "USECACHE, and the memory is another one since",
                "–",
                "invalidated",
            ],
            "the bytes of the memory that is there now",
            |b| {
                let (active, passive) = b.pair()?;
                let remote = b.window(passive, 4, 0, BOTH)?;
                for turn in 0..6 {
                    let local = b.memory(Side::A, 4)?;
                    b.ok(local.fill(0, 4 * PAGE, turn))?;
                    b.ok(active.virtual_write(local, 0, 4 * PAGE, 0, USECACHE | RMA_SYNC))?;
                    b.holds_pattern(remote, 0, 4 * PAGE, turn)?;
                    b.ok(local.free())?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["USECACHE on memory that is registered too", "–", "–"],
            "both ways see the same bytes",
            |b| {
                let e = ends(b, 4)?;
                b.ok(e.local.fill(0, 4 * PAGE, 1))?;
                b.ok(e
                    .active
                    .virtual_write(e.local, 0, 4 * PAGE, 0, USECACHE | RMA_SYNC))?;
                b.holds_pattern(e.remote, 0, 4 * PAGE, 1)?;
                b.ok(e.remote.fill(0, PAGE, 2))?;
                b.ok(e
                    .active
                    .virtual_read(e.local, 0, PAGE, 0, USECACHE | RMA_SYNC))?;
                b.holds_pattern(e.local, 0, PAGE, 2)?;
                b.ok(e.active.write_to(0, PAGE, PAGE, RMA_SYNC))?;
                b.holds_pattern(e.remote, PAGE, PAGE, 2)
            },
        ),
        Row::story(
            [
                "the endpoint is closed meanwhile",
                "completes before the close returns",
                "completes",
            ],
            "completes before the close returns: what is stored afterwards goes nowhere, and \
             nothing is stored; all pages are released",
            |b| {
                let before = b.counts()?;
                let e = ends(b, 256)?;
                b.ok(e.local.fill(0, 256 * PAGE, 9))?;
                b.gives(e.active.write_to(0, 256 * PAGE, 0, 0), 0)?;
                b.ok(e.active.close())?;
                b.ok(e.local.fill(0, 256 * PAGE, 10))?;
                b.holds_pattern(e.remote, 0, 256 * PAGE, 9)?;
                b.becomes(e.passive.poll(0), crate::ask::HUP.into())?;
                b.ok(e.passive.close())?;
                b.settles_at(before)
            },
        )
        .because(
            "a peer that does not answer is waited for 30 s, and a lost node not at all. Who \
             closes the last descriptor without `scif_close` (a process that ends, a bare `close` \
             of a Rust program) does not wait: the pages are kept until the copies have ended",
        ),
        Row::story(
            [
                "the peer closes meanwhile",
                "completes before its close returns",
                "its pages stay pinned until it is over",
            ],
            "completes before the peer's close returns",
            |b| {
                let before = b.counts()?;
                let e = ends(b, 256)?;
                b.ok(e.remote.fill(0, 256 * PAGE, 11))?;
                b.gives(e.active.read_from(0, 256 * PAGE, 0, 0), 0)?;
                b.ok(e.passive.close())?;
                b.ok(e.remote.fill(0, 256 * PAGE, 12))?;
                b.holds_pattern(e.local, 0, 256 * PAGE, 11)?;
                b.becomes(e.active.poll(0), crate::ask::HUP.into())?;
                b.ok(e.active.close())?;
                b.settles_at(before)
            },
        ),
        Row::story(
            [
                "a small transfer behind a large one, neither SYNC",
                "the order \"is non-deterministic\"",
                "one after the other",
            ],
            "the small one may be done first; a fence waits for both",
            |b| {
                let e = ends(b, 256)?;
                b.ok(e.local.fill(0, 256 * PAGE, 13))?;
                // After a few calls the library executes small transfers itself.
                for _ in 0..4 {
                    b.gives(e.active.write_to(0, 64, 0, 0), 0)?;
                }
                b.gives(e.active.write_to(0, 255 * PAGE, 0, 0), 0)?;
                b.gives(e.active.write_to(255 * PAGE, 64, 255 * PAGE, 0), 0)?;
                let mark = b.ok(e.active.fence_mark(crate::ask::SELF))?;
                b.gives(e.active.fence_wait(mark), 0)?;
                b.holds_pattern(e.remote, 0, 255 * PAGE, 13)?;
                b.gives(e.remote.check_from(255 * PAGE, 64, 13, 255 * PAGE), -1)
            },
        )
        .because("a program that copies by itself does not wait for what the daemon has queued"),
        Row::story(
            [
                "a range that is source and destination in one memory",
                "–",
                "–",
            ],
            "copies within the memory of one node",
            |b| {
                let (active, passive) = b.connection(Side::A, Side::A)?;
                let memory = b.memory(Side::A, 4)?;
                b.ok(memory.fill(0, 2 * PAGE, 1))?;
                let fixed = crate::ask::FIXED;
                b.ok(active.register(memory, 0, 2 * PAGE, 0, BOTH, fixed))?;
                b.ok(passive.register(memory, 2 * PAGE, 2 * PAGE, 0, BOTH, fixed))?;
                b.gives(active.write_to(0, 2 * PAGE, 0, RMA_SYNC), 0)?;
                b.holds_pattern(memory, 2 * PAGE, 2 * PAGE, 1)
            },
        ),
    ],
};
