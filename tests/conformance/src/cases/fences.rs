//! fence_mark, fence_wait and fence_signal.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use scif_abi::Error::{
    AccessDenied, ConnectionReset, InvalidArgument, NoSuchAddress, NotConnected,
};

use crate::ask::{FIXED, HUP, LOCAL, PAGE, PEER, READ, REMOTE, SELF, WRITE};
use crate::bench::{Ask, Bench, Checked, Side, equal, holds};
use crate::cases::rma::ends;
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

fn mark(b: &mut Bench<'_>, flags: u32) -> Checked<Ask> {
    Ok(b.pair()?.0.fence_mark(flags))
}

/// `scif_fence_mark`.
pub const MARK: Section = Section {
    title: "scif_fence_mark",
    word: "fence_mark",
    about: "The order of the checks: state, flags. A mark is an opaque number from 0 up; \
        it belongs to the endpoint that took it.",
    rows: &[
        Row::succeeds(["INIT_SELF", "0 and a mark", "0 and a mark"], |b| {
            mark(b, SELF)
        }),
        Row::succeeds(["INIT_PEER", "0 and a mark", "0 and a mark"], |b| {
            mark(b, PEER)
        }),
        Row::fails(["no flag", "EINVAL", "EINVAL"], InvalidArgument, |b| {
            mark(b, 0)
        }),
        Row::fails(["both", "EINVAL", "EINVAL"], InvalidArgument, |b| {
            mark(b, SELF | PEER)
        }),
        Row::fails(
            ["a flag of signals", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| mark(b, SELF | LOCAL),
        ),
        Row::fails(
            ["an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| mark(b, SELF | 0x100),
        ),
        Row::fails(
            ["RAS_SELF, 4, of older headers", "–", "EINVAL"],
            InvalidArgument,
            |b| mark(b, 4),
        ),
        Row::fails(
            ["RAS_PEER, 8, of older headers", "–", "EINVAL"],
            InvalidArgument,
            |b| mark(b, 8),
        ),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| Ok(b.open(Side::A)?.fence_mark(SELF)),
        ),
        Row::fails(
            [
                "an unknown flag, not connected",
                "–",
                "ENOTCONN: the state first",
            ],
            NotConnected,
            |b| Ok(b.open(Side::A)?.fence_mark(0x100)),
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                Ok(active.fence_mark(PEER))
            },
        ),
        Row::story(
            ["its value", "–", "any int / negative for PEER"],
            "0 to 2^31 - 1",
            |b| {
                let (active, _) = b.pair()?;
                for flags in [SELF, PEER, SELF, PEER] {
                    let mark = b.ok(active.fence_mark(flags))?;
                    holds((0..1 << 31).contains(&mark), "a negative mark")?;
                }
                Ok(())
            },
        )
        .because("programs take negative numbers for errors"),
    ],
};

/// `scif_fence_wait`.
pub const WAIT: Section = Section {
    title: "scif_fence_wait",
    word: "fence_wait",
    about: "",
    rows: &[
        Row::gives(["a mark, nothing is under way", "0", "0"], 0, |b| {
            let (active, _) = b.pair()?;
            let mark = b.ok(active.fence_mark(SELF))?;
            Ok(active.fence_wait(mark))
        }),
        Row::gives(["a mark of the peer's transfers", "0", "0"], 0, |b| {
            let (active, _) = b.pair()?;
            let mark = b.ok(active.fence_mark(PEER))?;
            Ok(active.fence_wait(mark))
        }),
        Row::story(
            ["twice, and older ones after newer", "–", "undefined"],
            "0",
            |b| {
                let (active, _) = b.pair()?;
                let mut marks = Vec::new();
                for flags in [SELF, PEER, SELF, PEER] {
                    marks.push(b.ok(active.fence_mark(flags))?);
                }
                for mark in marks.iter().rev().chain(&marks) {
                    b.gives(active.fence_wait(*mark), 0)?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "transfers are under way",
                "returns when they have completed",
                "the same",
            ],
            "returns when they have completed",
            |b| {
                let e = ends(b, 256)?;
                b.ok(e.local.fill(0, 256 * PAGE, 4))?;
                b.gives(e.active.write_to(0, 256 * PAGE, 0, 0), 0)?;
                let mark = b.ok(e.active.fence_mark(SELF))?;
                b.gives(e.active.fence_wait(mark), 0)?;
                b.holds_pattern(e.remote, 0, 256 * PAGE, 4)
            },
        ),
        Row::fails(
            ["a number that was never a mark", "–", "undefined"],
            InvalidArgument,
            |b| {
                let (active, _) = b.pair()?;
                b.ok(active.fence_mark(SELF))?;
                Ok(active.fence_wait(0x0123_4567))
            },
        )
        .because("\"must have been obtained in a previous call\""),
        Row::fails(
            ["the number after the newest mark", "–", "undefined"],
            InvalidArgument,
            |b| {
                let (active, _) = b.pair()?;
                let mark = b.ok(active.fence_mark(SELF))?;
                Ok(active.fence_wait(mark + 1))
            },
        ),
        Row::fails(
            ["a negative number", "–", "undefined"],
            InvalidArgument,
            |b| Ok(b.pair()?.0.fence_wait(-1)),
        ),
        Row::fails(
            ["no mark was ever taken", "–", "undefined"],
            InvalidArgument,
            |b| Ok(b.pair()?.0.fence_wait(5)),
        ),
        Row::fails(
            ["a mark, not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| {
                let (active, _) = b.pair()?;
                let mark = b.ok(active.fence_mark(SELF))?;
                Ok(b.open(Side::A)?.fence_wait(mark))
            },
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let (active, passive) = b.pair()?;
                let mark = b.ok(active.fence_mark(SELF))?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                Ok(active.fence_wait(mark))
            },
        ),
    ],
};

/// Valid sets of signal flags, each with whether it stores locally and remotely.
const VALID: [(&str, u32, bool, bool); 6] = [
    ("INIT_SELF LOCAL", SELF | LOCAL, true, false),
    ("INIT_SELF REMOTE", SELF | REMOTE, false, true),
    ("INIT_SELF LOCAL REMOTE", SELF | LOCAL | REMOTE, true, true),
    ("INIT_PEER LOCAL", PEER | LOCAL, true, false),
    ("INIT_PEER REMOTE", PEER | REMOTE, false, true),
    ("INIT_PEER LOCAL REMOTE", PEER | LOCAL | REMOTE, true, true),
];

/// Invalid sets of signal flags.
const INVALID: [(&str, u32); 9] = [
    ("none", 0),
    ("INIT_SELF alone", SELF),
    ("INIT_PEER alone", PEER),
    ("both INIT flags", SELF | PEER | LOCAL),
    ("LOCAL alone", LOCAL),
    ("REMOTE alone", REMOTE),
    ("RAS_SELF, 4", 4 | LOCAL),
    ("RAS_PEER, 8, besides", SELF | LOCAL | 8),
    ("an unknown one besides", SELF | LOCAL | 0x100),
];

fn valid() -> Vec<String> {
    VALID.iter().map(|(name, ..)| name.to_string()).collect()
}

fn invalid() -> Vec<String> {
    INVALID.iter().map(|(name, _)| name.to_string()).collect()
}

/// Checks that a signal at `offset` fails with the flags of a variant.
fn fails(b: &mut Bench<'_>, index: usize, offset: i64, error: scif_abi::Error) -> Checked {
    let e = ends(b, 2)?;
    let (_, flags, local, remote) = VALID[index];
    let bad = |used| if used { offset } else { 0 };
    let ask = e
        .active
        .fence_signal((bad(local), 1), (bad(remote), 2), flags);
    b.fails(ask, error)?;
    for memory in [e.local, e.remote] {
        b.gives(memory.load(0), 0)?;
    }
    Ok(())
}

/// `scif_fence_signal`.
pub const SIGNAL: Section = Section {
    title: "scif_fence_signal",
    word: "fence_signal",
    about: "The order of the checks: state, flags, alignment, windows, protections. \
        Eight bytes are stored, at a multiple of four.",
    rows: &[
        Row::each(
            [
                "flags that are valid",
                "lval at loff, rval at roff",
                "with INIT_PEER from the \
                peer's side",
            ],
            "what the flags name is stored, and nothing else",
            valid,
            |b, index| {
                let e = ends(b, 2)?;
                let (_, flags, local, remote) = VALID[index];
                let signal =
                    e.active
                        .fence_signal((64, 0x1111_2222_3333_4444), (PAGE + 8, 0x55), flags);
                b.gives(signal, 0)?;
                if local {
                    b.becomes(e.local.load(64), 0x1111_2222_3333_4444)?;
                }
                if remote {
                    b.becomes(e.remote.load(PAGE + 8), 0x55)?;
                }
                for (memory, at, stored) in [(e.local, 64, local), (e.remote, PAGE + 8, remote)] {
                    for other in [64, PAGE + 8, at - 8, at + 8] {
                        if !(stored && other == at) {
                            b.gives(memory.load(other), 0)?;
                        }
                    }
                }
                Ok(())
            },
        )
        .because(
            "documents: local is the caller's side, remote its peer's, whoever started \
            the transfers",
        ),
        Row::each(
            ["flags that are not", "EINVAL", "EINVAL"],
            "EINVAL",
            invalid,
            |b, index| {
                let e = ends(b, 1)?;
                let ask = e.active.fence_signal((0, 1), (0, 1), INVALID[index].1);
                b.fails(ask, InvalidArgument)
            },
        ),
        Row::each(
            ["an offset that is not a multiple of 4", "EINVAL", "EINVAL"],
            "EINVAL",
            valid,
            |b, index| fails(b, index, 2, InvalidArgument),
        ),
        Row::each(
            ["an offset where nothing is registered", "ENXIO", "ENXIO"],
            "ENXIO",
            valid,
            |b, index| fails(b, index, 16 * PAGE, NoSuchAddress),
        ),
        Row::each(
            ["a negative offset", "ENXIO", "ENXIO"],
            "ENXIO",
            valid,
            |b, index| fails(b, index, -8, NoSuchAddress),
        ),
        Row::each(
            ["the last four bytes of a window", "–", "ENXIO"],
            "ENXIO: eight bytes must fit",
            valid,
            |b, index| fails(b, index, 2 * PAGE - 4, NoSuchAddress),
        ),
        Row::each(
            ["over the boundary of adjacent windows", "–", "ENXIO"],
            "ENXIO: in one window",
            valid,
            |b, index| {
                let e = ends(b, 1)?;
                b.window(e.active, 1, PAGE, BOTH)?;
                b.window(e.passive, 1, PAGE, BOTH)?;
                let at = PAGE - 4;
                let ask = e.active.fence_signal((at, 1), (at, 2), VALID[index].1);
                b.fails(ask, NoSuchAddress)
            },
        ),
        Row::each(
            ["a window without WRITE", "–", "EPERM"],
            "EACCES",
            valid,
            |b, index| {
                let (active, passive) = b.pair()?;
                b.window(active, 1, 0, READ)?;
                b.window(passive, 1, 0, READ)?;
                let ask = active.fence_signal((0, 1), (0, 2), VALID[index].1);
                b.fails(ask, AccessDenied)
            },
        ),
        Row::story(
            ["the last eight bytes of a window", "allowed", "allowed"],
            "allowed",
            |b| {
                let e = ends(b, 2)?;
                let at = 2 * PAGE - 8;
                b.gives(
                    e.active
                        .fence_signal((at, 3), (at, 4), SELF | LOCAL | REMOTE),
                    0,
                )?;
                b.becomes(e.local.load(at), 3)?;
                b.becomes(e.remote.load(at), 4)
            },
        ),
        Row::story(
            [
                "a multiple of 4, not of 8",
                "allowed",
                "eight bytes, perhaps torn",
            ],
            "eight bytes",
            |b| {
                let e = ends(b, 1)?;
                let value = 0x0807_0605_0403_0201;
                b.gives(
                    e.active
                        .fence_signal((4, value), (12, value), SELF | LOCAL | REMOTE),
                    0,
                )?;
                b.becomes(e.local.load(4), value as i64)?;
                b.becomes(e.remote.load(12), value as i64)
            },
        ),
        Row::story(
            ["an offset that the flags do not use", "–", "not looked at"],
            "not looked at",
            |b| {
                let e = ends(b, 1)?;
                b.gives(e.active.fence_signal((0, 1), (-3, 9), SELF | LOCAL), 0)?;
                b.gives(e.active.fence_signal((-3, 9), (0, 2), SELF | REMOTE), 0)?;
                b.becomes(e.local.load(0), 1)?;
                b.becomes(e.remote.load(0), 2)
            },
        ),
        Row::story(
            [
                "one of two offsets is bad",
                "an error",
                "the first store may have happened",
            ],
            "nothing is stored",
            |b| {
                let e = ends(b, 1)?;
                let bad = 16 * PAGE;
                for flags in [SELF, PEER] {
                    let first = e
                        .active
                        .fence_signal((0, 1), (bad, 2), flags | LOCAL | REMOTE);
                    b.fails(first, NoSuchAddress)?;
                    let second = e
                        .active
                        .fence_signal((bad, 1), (0, 2), flags | LOCAL | REMOTE);
                    b.fails(second, NoSuchAddress)?;
                }
                b.gives(e.local.load(0), 0)?;
                b.gives(e.remote.load(0), 0)
            },
        ),
        Row::story(
            [
                "behind own transfers, REMOTE",
                "on completion of the RMAs",
                "behind the data",
            ],
            "who sees the value sees the data",
            |b| {
                let e = ends(b, 65)?;
                for turn in 1..6 {
                    b.ok(e.local.fill(0, 64 * PAGE, turn))?;
                    b.gives(e.active.write_to(0, 64 * PAGE, 0, 0), 0)?;
                    let flag = (64 * PAGE, turn);
                    b.gives(e.active.fence_signal((0, 0), flag, SELF | REMOTE), 0)?;
                    b.becomes(e.remote.load(64 * PAGE), turn as i64)?;
                    b.holds_pattern(e.remote, 0, 64 * PAGE, turn)?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "behind own transfers, LOCAL",
                "on completion of the RMAs",
                "behind the data",
            ],
            "who sees the value sees the data",
            |b| {
                let e = ends(b, 65)?;
                b.ok(e.remote.fill(0, 64 * PAGE, 6))?;
                b.gives(e.active.read_from(0, 64 * PAGE, 0, 0), 0)?;
                let flag = (64 * PAGE, 1);
                b.gives(e.active.fence_signal(flag, (0, 0), SELF | LOCAL), 0)?;
                b.becomes(e.local.load(64 * PAGE), 1)?;
                b.holds_pattern(e.local, 0, 64 * PAGE, 6)
            },
        ),
        Row::story(
            [
                "behind the peer's transfers",
                "on completion of the RMAs",
                "behind the data",
            ],
            "who sees the value sees the data, with LOCAL and with REMOTE",
            |b| {
                let e = ends(b, 65)?;
                for (turn, flags) in [(1, LOCAL), (2, REMOTE)] {
                    b.ok(e.remote.fill(0, 64 * PAGE, turn))?;
                    b.gives(e.passive.write_to(0, 64 * PAGE, 0, 0), 0)?;
                    let flag = (64 * PAGE, turn);
                    b.gives(e.active.fence_signal(flag, flag, PEER | flags), 0)?;
                    let place = if flags == LOCAL { e.local } else { e.remote };
                    b.becomes(place.load(64 * PAGE), turn as i64)?;
                    b.holds_pattern(e.local, 0, 64 * PAGE, turn)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["a window registered again at that offset", "–", "–"],
            "the new window's memory",
            |b| {
                let e = ends(b, 1)?;
                b.ok(e.passive.unregister(0, PAGE))?;
                let other = b.memory(Side::B, 1)?;
                b.gives(e.passive.register(other, 0, PAGE, 0, BOTH, FIXED), 0)?;
                b.gives(e.active.fence_signal((0, 0), (0, 5), SELF | REMOTE), 0)?;
                b.becomes(other.load(0), 5)?;
                equal("the old memory", b.ok(e.remote.load(0))?, 0)
            },
        ),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| Ok(b.open(Side::A)?.fence_signal((0, 1), (0, 1), SELF | LOCAL)),
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let e = ends(b, 1)?;
                b.ok(e.passive.close())?;
                b.becomes(e.active.poll(0), HUP.into())?;
                Ok(e.active.fence_signal((0, 1), (0, 1), SELF | LOCAL))
            },
        ),
    ],
};
