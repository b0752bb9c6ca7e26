//! readfrom, writeto, vreadfrom and vwriteto: errors and rules of ranges.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use scif_abi::Error::{
    AccessDenied, BadAddress, ConnectionReset, InvalidArgument, NoSuchAddress, NotConnected,
};

use crate::ask::{HUP, PAGE, READ, RMA_SYNC, WRITE};
use crate::bench::{Ask, Bench, Checked, Ep, Mem, Side, equal};
use crate::call::{NOWHERE, NULL};
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

/// The four calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `scif_readfrom`.
    Read,
    /// `scif_writeto`.
    Write,
    /// `scif_vreadfrom`.
    VirtualRead,
    /// `scif_vwriteto`.
    VirtualWrite,
}

/// All four calls, with their names.
pub const KINDS: [(Kind, &str); 4] = [
    (Kind::Read, "readfrom"),
    (Kind::Write, "writeto"),
    (Kind::VirtualRead, "vreadfrom"),
    (Kind::VirtualWrite, "vwriteto"),
];

impl Kind {
    /// Whether the call copies data from the peer.
    pub fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::VirtualRead)
    }

    /// Whether the local side is a window.
    pub fn is_registered(self) -> bool {
        matches!(self, Kind::Read | Kind::Write)
    }

    /// The call for a range from position `local` of the memory, which is registered at 0 for the
    /// registered forms, and an offset of the peer.
    pub fn ask(self, ep: Ep, memory: Mem, local: i64, length: i64, remote: i64, flags: u32) -> Ask {
        match self {
            Kind::Read => ep.read_from(local, length, remote, flags),
            Kind::Write => ep.write_to(local, length, remote, flags),
            Kind::VirtualRead => ep.virtual_read(memory, local, length, remote, flags),
            Kind::VirtualWrite => ep.virtual_write(memory, local, length, remote, flags),
        }
    }
}

fn kinds() -> Vec<String> {
    KINDS.iter().map(|(_, name)| name.to_string()).collect()
}

fn registered() -> Vec<String> {
    kinds().into_iter().take(2).collect()
}

fn virtual_ones() -> Vec<String> {
    kinds().into_iter().skip(2).collect()
}

/// Memory at both ends of a connection from A to B, registered at 0 with all rights.
pub struct Ends {
    /// A's endpoint.
    pub active: Ep,
    /// B's endpoint.
    pub passive: Ep,
    /// A's memory.
    pub local: Mem,
    /// B's memory.
    pub remote: Mem,
}

/// Makes the connection, and memory of this number of pages at each end.
///
/// # Errors
/// The errors of the calls.
pub fn ends(b: &mut Bench<'_>, pages: u32) -> Checked<Ends> {
    let (active, passive) = b.pair()?;
    Ok(Ends {
        active,
        passive,
        local: b.window(active, pages, 0, BOTH)?,
        remote: b.window(passive, pages, 0, BOTH)?,
    })
}

/// Checks that the call of a variant fails with an error for these arguments.
fn fails(
    b: &mut Bench<'_>,
    kind: usize,
    (local, length, remote, flags): (i64, i64, i64, u32),
    error: scif_abi::Error,
) -> Checked {
    let e = ends(b, 4)?;
    b.ok(e.local.fill(0, 4 * PAGE, 1))?;
    b.ok(e.remote.fill(0, 4 * PAGE, 2))?;
    let ask = KINDS[kind]
        .0
        .ask(e.active, e.local, local, length, remote, flags);
    b.fails(ask, error)?;
    // No byte was changed.
    b.holds_pattern(e.local, 0, 4 * PAGE, 1)?;
    b.holds_pattern(e.remote, 0, 4 * PAGE, 2)
}

/// Checks the effect of protections of the local window (registered forms) and the peer's.
fn protections(b: &mut Bench<'_>, kind: usize, local: u32, remote: u32, allowed: bool) -> Checked {
    let (active, passive) = b.pair()?;
    let memory = b.window(active, 1, 0, local)?;
    b.window(passive, 1, 0, remote)?;
    let ask = KINDS[kind].0.ask(active, memory, 0, 64, 0, RMA_SYNC);
    match allowed {
        true => b.gives(ask, 0),
        false => b.fails(ask, AccessDenied),
    }
}

/// The protection that a call needs of a window, and one that it does not need.
fn needs(kind: usize, is_source: bool) -> (u32, u32) {
    match KINDS[kind].0.reads() == is_source {
        // The peer's window is the source of a read.
        true => (READ, WRITE),
        false => (WRITE, READ),
    }
}

/// The errors of the four RMA calls.
pub const ERRORS: Section = Section {
    title: "scif_readfrom, scif_writeto, scif_vreadfrom, scif_vwriteto",
    word: "rma",
    about: "The order of the checks: state, flags, length, ranges, protections, the caller's \
        memory. All is checked before the first byte moves.",
    rows: &[
        Row::each(["length 0", "–", "EINVAL"], "EINVAL", kinds, |b, kind| {
            fails(b, kind, (0, 0, 0, 0), InvalidArgument)
        }),
        Row::each(
            ["an unknown flag", "EINVAL", "EINVAL"],
            "EINVAL",
            kinds,
            |b, kind| fails(b, kind, (0, 64, 0, 16), InvalidArgument),
        ),
        Row::each(
            ["known flags and an unknown one", "EINVAL", "accepted"],
            "EINVAL",
            kinds,
            |b, kind| fails(b, kind, (0, 64, 0, RMA_SYNC | 0x100), InvalidArgument),
        )
        .because("the documents: \"rma_flags is invalid\""),
        Row::each(
            ["the peer's range begins where nothing is", "ENXIO", "ENXIO"],
            "ENXIO",
            kinds,
            |b, kind| fails(b, kind, (0, 64, 64 * PAGE, 0), NoSuchAddress),
        ),
        Row::each(
            [
                "the peer's range ends a byte behind the window",
                "ENXIO",
                "ENXIO",
            ],
            "ENXIO",
            kinds,
            |b, kind| fails(b, kind, (0, 64, 4 * PAGE - 63, 0), NoSuchAddress),
        ),
        Row::each(
            ["the peer's offset is negative", "ENXIO", "ENXIO"],
            "ENXIO",
            kinds,
            |b, kind| fails(b, kind, (0, 64, -64, 0), NoSuchAddress),
        ),
        Row::each(
            ["the peer's range wraps", "ENXIO", "EINVAL / ENXIO"],
            "ENXIO",
            kinds,
            |b, kind| fails(b, kind, (0, 64, i64::MAX - 3, 0), NoSuchAddress),
        )
        .because("such offsets are invalid, and the documents say ENXIO for those"),
        Row::each(
            ["the local range begins where nothing is", "ENXIO", "ENXIO"],
            "ENXIO",
            registered,
            |b, kind| fails(b, kind, (64 * PAGE, 64, 0, 0), NoSuchAddress),
        ),
        Row::each(
            [
                "the local range ends a byte behind the window",
                "ENXIO",
                "ENXIO",
            ],
            "ENXIO",
            registered,
            |b, kind| fails(b, kind, (4 * PAGE - 63, 64, 0, 0), NoSuchAddress),
        ),
        Row::each(
            ["the local offset is negative", "ENXIO", "ENXIO"],
            "ENXIO",
            registered,
            |b, kind| fails(b, kind, (-64, 64, 0, 0), NoSuchAddress),
        ),
        Row::each(
            ["the local range wraps", "ENXIO", "EINVAL / ENXIO"],
            "ENXIO",
            registered,
            |b, kind| fails(b, kind, (i64::MAX - 3, 64, 0, 0), NoSuchAddress),
        ),
        Row::each(["the whole window", "0", "0"], "0", kinds, |b, kind| {
            let e = ends(b, 4)?;
            let ask = KINDS[kind].0.ask(e.active, e.local, 0, 4 * PAGE, 0, 0);
            b.gives(ask, 0)
        }),
        Row::each(
            ["the last byte of the window", "0", "0"],
            "0",
            kinds,
            |b, kind| {
                let e = ends(b, 4)?;
                let last = 4 * PAGE - 1;
                b.gives(KINDS[kind].0.ask(e.active, e.local, last, 1, last, 0), 0)
            },
        ),
        Row::each(
            [
                "the peer's window has the protection it needs, and no other",
                "0",
                "0",
            ],
            "0: READ of the source, WRITE of the destination",
            kinds,
            |b, kind| protections(b, kind, BOTH, needs(kind, true).0, true),
        ),
        Row::each(
            [
                "the peer's window lacks the protection it needs",
                "EACCES",
                "EPERM",
            ],
            "EACCES",
            kinds,
            |b, kind| protections(b, kind, BOTH, needs(kind, true).1, false),
        )
        .because("EACCES wherever a protection forbids something: the documents' word"),
        Row::each(
            [
                "the local window has the protection it needs, and no other",
                "0",
                "0",
            ],
            "0",
            registered,
            |b, kind| protections(b, kind, needs(kind, false).0, BOTH, true),
        ),
        Row::each(
            [
                "the local window lacks the protection it needs",
                "EACCES",
                "EPERM",
            ],
            "EACCES",
            registered,
            |b, kind| protections(b, kind, needs(kind, false).1, BOTH, false),
        ),
        Row::each(
            ["adjacent windows of the peer", "allowed", "allowed"],
            "the boundary is not seen",
            kinds,
            |b, kind| adjacent(b, KINDS[kind].0, false),
        ),
        Row::each(
            ["adjacent local windows", "allowed", "allowed"],
            "the boundary is not seen",
            registered,
            |b, kind| adjacent(b, KINDS[kind].0, true),
        ),
        Row::each(
            [
                "windows of the peer with a hole between them",
                "ENXIO",
                "ENXIO",
            ],
            "ENXIO, and not a byte is touched",
            kinds,
            |b, kind| {
                let (active, passive) = b.pair()?;
                let local = b.window(active, 4, 0, BOTH)?;
                let remote = b.window(passive, 1, 0, BOTH)?;
                b.window(passive, 1, 2 * PAGE, BOTH)?;
                b.ok(local.fill(0, 4 * PAGE, 1))?;
                b.ok(remote.fill(0, PAGE, 2))?;
                let ask = KINDS[kind].0.ask(active, local, 0, 3 * PAGE, 0, RMA_SYNC);
                b.fails(ask, NoSuchAddress)?;
                b.holds_pattern(local, 0, 4 * PAGE, 1)?;
                b.holds_pattern(remote, 0, PAGE, 2)
            },
        ),
        Row::each(
            [
                "adjacent windows of the peer, the second without the right",
                "EACCES",
                "EPERM",
            ],
            "EACCES, and not a byte is touched",
            kinds,
            |b, kind| {
                let (active, passive) = b.pair()?;
                let local = b.window(active, 2, 0, BOTH)?;
                let remote = b.window(passive, 1, 0, BOTH)?;
                b.window(passive, 1, PAGE, needs(kind, true).1)?;
                b.ok(local.fill(0, 2 * PAGE, 1))?;
                b.ok(remote.fill(0, PAGE, 2))?;
                let ask = KINDS[kind].0.ask(active, local, 0, 2 * PAGE, 0, RMA_SYNC);
                b.fails(ask, AccessDenied)?;
                b.holds_pattern(local, 0, 2 * PAGE, 1)?;
                b.holds_pattern(remote, 0, PAGE, 2)
            },
        ),
        Row::each(
            ["the caller's address is 0", "EFAULT", "taken as offset 0"],
            "EFAULT",
            virtual_ones,
            |b, kind| nowhere(b, KINDS[kind + 2].0, NULL),
        )
        .because("offset 0 of the own windows is not what anybody means"),
        Row::each(
            [
                "nothing is mapped at the caller's address",
                "EFAULT",
                "EFAULT",
            ],
            "EFAULT",
            virtual_ones,
            |b, kind| nowhere(b, KINDS[kind + 2].0, NOWHERE),
        ),
        Row::each(
            ["the same, not connected", "ENOTCONN", "–"],
            "ENOTCONN",
            virtual_ones,
            |b, kind| {
                let endpoint = b.open(Side::A)?;
                let ask = KINDS[kind + 2].0.ask(endpoint, NOTHING, 0, 64, 0, 0x80);
                b.fails(ask, NotConnected)
            },
        )
        .because(MEMORY_LAST),
        Row::each(
            ["the same, with an unknown flag", "EINVAL", "–"],
            "EINVAL",
            virtual_ones,
            |b, kind| {
                let e = ends(b, 1)?;
                let ask = KINDS[kind + 2].0.ask(e.active, NOTHING, 0, 64, -8, 0x80);
                b.fails(ask, InvalidArgument)
            },
        ),
        Row::each(
            [
                "the same, and nothing is registered at the peer's offset",
                "ENXIO",
                "–",
            ],
            "ENXIO",
            virtual_ones,
            |b, kind| {
                let e = ends(b, 1)?;
                for length in [64, 20 * PAGE] {
                    let ask = KINDS[kind + 2].0.ask(e.active, NOTHING, 0, length, -8, 0);
                    b.fails(ask, NoSuchAddress)?;
                }
                Ok(())
            },
        ),
        Row::each(
            ["the same, and the peer has closed", "ECONNRESET", "–"],
            "ECONNRESET",
            virtual_ones,
            |b, kind| {
                let e = ends(b, 1)?;
                b.ok(e.passive.close())?;
                b.becomes(e.active.poll(0), HUP.into())?;
                let ask = KINDS[kind + 2].0.ask(e.active, NOTHING, 0, 64, 0, 0);
                b.fails(ask, ConnectionReset)
            },
        ),
        Row::each(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            "ENOTCONN",
            kinds,
            |b, kind| {
                let endpoint = b.open(Side::A)?;
                let memory = b.memory(Side::A, 1)?;
                let ask = KINDS[kind].0.ask(endpoint, memory, 0, 64, 0, 0);
                b.fails(ask, NotConnected)
            },
        ),
        Row::each(
            [
                "an unknown flag, not connected",
                "–",
                "ENOTCONN: the state first",
            ],
            "ENOTCONN",
            kinds,
            |b, kind| {
                let endpoint = b.open(Side::A)?;
                let memory = b.memory(Side::A, 1)?;
                let ask = KINDS[kind].0.ask(endpoint, memory, 0, 64, 0, 0x80);
                b.fails(ask, NotConnected)
            },
        ),
        Row::each(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            "ECONNRESET",
            kinds,
            |b, kind| {
                let e = ends(b, 1)?;
                b.ok(e.passive.close())?;
                b.becomes(e.active.poll(0), HUP.into())?;
                let ask = KINDS[kind].0.ask(e.active, e.local, 0, 64, 0, 0);
                b.fails(ask, ConnectionReset)
            },
        ),
        Row::each(
            ["the node is lost", "ENODEV or ECONNRESET", "ECONNRESET"],
            "ECONNRESET",
            kinds,
            |b, kind| {
                let e = ends(b, 1)?;
                b.lose_node()?;
                let ask = KINDS[kind].0.ask(e.active, e.local, 0, 64, 0, 0);
                let result = b.call(ask)?.result;
                equal("the call", result, Err(ConnectionReset.into()))
            },
        )
        .because(
            "the documents list both. The loss of a node resets its connections, and that is what \
             every later call on such an endpoint says, also when the node has come back; \
             ENODEV is what a connect to the node gives",
        )
        .only(crate::bench::Place::SIM),
    ],
};

/// Checks a transfer over the boundary of two windows, one of which has its pages in another
/// order.
fn adjacent(b: &mut Bench<'_>, kind: Kind, local: bool) -> Checked {
    let (active, passive) = b.pair()?;
    let (split, whole) = match local {
        true => (active, passive),
        false => (passive, active),
    };
    let one = b.memory(split.side, 4)?;
    // Offsets 0 and 1 are pages 2 and 3 of the memory, offsets 2 and 3 are pages 0 and 1.
    b.ok(split.register(one, 2 * PAGE, 2 * PAGE, 0, BOTH, crate::ask::FIXED))?;
    b.ok(split.register(one, 0, 2 * PAGE, 2 * PAGE, BOTH, crate::ask::FIXED))?;
    let other = b.window(whole, 4, 0, BOTH)?;
    let (start, length) = (PAGE + 100, 2 * PAGE);
    let from_split = kind.reads() != local;
    let (source, target) = match from_split {
        true => (one, other),
        false => (other, one),
    };
    b.ok(source.fill(0, 4 * PAGE, 1))?;
    b.ok(target.fill(0, 4 * PAGE, 2))?;
    // In the virtual forms the other side is plain memory.
    let ask = kind.ask(active, other, start, length, start, RMA_SYNC);
    b.ok(ask)?;
    let (first, second) = (2 * PAGE - start, length - (2 * PAGE - start));
    let [a, c] = [2 * PAGE + start, 0];
    match from_split {
        true => {
            b.gives(target.check_from(start, first, 1, a), -1)?;
            b.gives(target.check_from(2 * PAGE, second, 1, c), -1)?;
            b.holds_pattern(target, 0, start, 2)?;
            let end = start + length;
            b.gives(target.check_from(end, 4 * PAGE - end, 2, end), -1)
        }
        false => {
            b.gives(target.check_from(a, first, 1, start), -1)?;
            b.gives(target.check_from(c, second, 1, 2 * PAGE), -1)?;
            b.gives(target.check_from(second, 2 * PAGE - second, 2, second), -1)?;
            b.gives(target.check_from(2 * PAGE, start, 2, 2 * PAGE), -1)
        }
    }
}

/// Memory that is not there.
const NOTHING: Mem = Mem {
    side: Side::A,
    slot: NOWHERE,
};

/// Why memory is looked at last.
const MEMORY_LAST: &str = "what is wrong with the call itself tells the caller more";

/// Checks a v* call with an address where nothing is mapped.
fn nowhere(b: &mut Bench<'_>, kind: Kind, slot: u32) -> Checked {
    let e = ends(b, 1)?;
    let side = Side::A;
    b.fails(
        kind.ask(e.active, Mem { side, slot }, 0, PAGE, 0, 0),
        BadAddress,
    )
}
