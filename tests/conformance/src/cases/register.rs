//! register.

use scif_abi::Error::{AddressInUse, BadAddress, ConnectionReset, InvalidArgument, WouldBlock};

use crate::ask::{FIXED, HUP, PAGE, READ, WRITE};
use crate::bench::{Ask, Bench, Checked, Side, equal, holds};
use crate::call::NOWHERE;
use crate::table::{Row, Section};

/// `SCIF_MAP_KERNEL`.
const KERNEL: u32 = 0x20;
const BOTH: u32 = READ | WRITE;
/// The last page of the registered address space.
const LAST: i64 = i64::MAX - (PAGE - 1);

/// Makes a connected endpoint and two pages. Returns the call that registers one page with these
/// arguments.
fn one_page(b: &mut Bench<'_>, offset: i64, protection: u32, flags: u32) -> Checked<Ask> {
    let (active, _) = b.pair()?;
    let memory = b.memory(Side::A, 2)?;
    Ok(active.register(memory, 0, PAGE, offset, protection, flags))
}

/// Returns the call that registers a range of four pages at any offset.
fn range(b: &mut Bench<'_>, at: i64, length: i64) -> Checked<Ask> {
    let (active, _) = b.pair()?;
    let memory = b.memory(Side::A, 4)?;
    Ok(active.register(memory, at, length, 0, BOTH, 0))
}

/// With a window of four pages at page 4: returns the call that registers `pages` pages at page
/// `first`.
fn beside(b: &mut Bench<'_>, first: i64, pages: i64) -> Checked<Ask> {
    let (active, _) = b.pair()?;
    b.window(active, 4, 4 * PAGE, BOTH)?;
    let memory = b.memory(Side::A, 16)?;
    Ok(active.register(memory, 0, pages * PAGE, first * PAGE, BOTH, FIXED))
}

/// `scif_register`.
pub const REGISTER: Section = Section {
    title: "scif_register",
    word: "register",
    about: "The checks in their order: arguments, state, the limit, the offset. \
        The peer can use the window as soon as the call has returned.",
    rows: &[
        Row::gives(["FIXED, offset 0", "the offset", "the offset"], 0, |b| {
            one_page(b, 0, BOTH, FIXED)
        }),
        Row::gives(
            [
                "FIXED, any multiple of the page size",
                "the offset",
                "the offset",
            ],
            0x1234_5000,
            |b| one_page(b, 0x1234_5000, BOTH, FIXED),
        ),
        Row::gives(
            ["FIXED, above 2^62", "the offset", "EADDRINUSE / the offset"],
            0x5000_0000_0000_0000,
            |b| one_page(b, 0x5000_0000_0000_0000, BOTH, FIXED),
        )
        .because("the documents know no such bound"),
        Row::gives(
            ["FIXED, the last page but one", "the offset", "the offset"],
            LAST - PAGE,
            |b| one_page(b, LAST - PAGE, BOTH, FIXED),
        ),
        Row::fails(
            ["FIXED, the last page", "–", "EINVAL: offset + len wraps"],
            InvalidArgument,
            |b| one_page(b, LAST, BOTH, FIXED),
        )
        .because("its end is no offset"),
        Row::fails(
            ["FIXED, beyond the last page", "–", "EINVAL"],
            InvalidArgument,
            |b| {
                let (active, _) = b.pair()?;
                let memory = b.memory(Side::A, 2)?;
                Ok(active.register(memory, 0, 2 * PAGE, LAST, BOTH, FIXED))
            },
        ),
        Row::fails(
            [
                "FIXED, offset not a multiple of the page size",
                "EINVAL",
                "EINVAL",
            ],
            InvalidArgument,
            |b| one_page(b, 0x1001, BOTH, FIXED),
        ),
        Row::fails(
            ["FIXED, offset half a page", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| one_page(b, PAGE / 2, BOTH, FIXED),
        ),
        Row::fails(
            ["FIXED, offset negative", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| one_page(b, -PAGE, BOTH, FIXED),
        ),
        Row::story(
            [
                "not FIXED",
                "a multiple of the page size",
                "from 2^62 up / below 2^63 down",
            ],
            "an offset above 2^61 where nothing is, a multiple of the page size",
            |b| {
                let (active, _) = b.pair()?;
                let mut taken = alloc::vec::Vec::new();
                for pages in [1, 3, 1, 7, 2] {
                    let memory = b.memory(Side::A, pages)?;
                    let length = i64::from(pages) * PAGE;
                    let at = b.ok(active.register(memory, 0, length, 0, BOTH, 0))?;
                    holds(at >= 1 << 61 && at % PAGE == 0, "a bad offset")?;
                    let apart =
                        |(other, bytes): &(i64, i64)| at + length <= *other || other + bytes <= at;
                    holds(taken.iter().all(apart), "windows overlap")?;
                    taken.push((at, length));
                }
                Ok(())
            },
        )
        .because("far from the offsets programs choose, which are small or virtual addresses"),
        Row::story(
            [
                "not FIXED, next to a FIXED one at an offset it had chosen",
                "does not \
                replace",
                "may collide",
            ],
            "finds another place",
            |b| {
                let (active, _) = b.pair()?;
                let memory = b.memory(Side::A, 1)?;
                let at = b.ok(active.register(memory, 0, PAGE, 0, BOTH, 0))?;
                b.ok(active.unregister(at, PAGE))?;
                b.gives(active.register(memory, 0, PAGE, at, BOTH, FIXED), at)?;
                let next = b.ok(active.register(memory, 0, PAGE, 0, BOTH, 0))?;
                holds(next != at, "it lies on the fixed one")
            },
        ),
        Row::story(
            [
                "not FIXED, an offset given",
                "a suggestion",
                "ignored, not validated",
            ],
            "ignored, not validated unless it is negative",
            |b| {
                let (active, _) = b.pair()?;
                let memory = b.memory(Side::A, 1)?;
                for hint in [PAGE, 12_345, i64::MAX] {
                    let at = b.ok(active.register(memory, 0, PAGE, hint, BOTH, 0))?;
                    holds(at % PAGE == 0 && at > 0, "a bad offset")?;
                }
                Ok(())
            },
        ),
        Row::fails(
            ["not FIXED, offset negative", "EINVAL", "ignored"],
            InvalidArgument,
            |b| one_page(b, -PAGE, BOTH, 0),
        )
        .because("the documents name it among the errors, with or without FIXED"),
        Row::succeeds(["only READ", "the offset", "the offset"], |b| {
            one_page(b, 0, READ, 0)
        }),
        Row::succeeds(["only WRITE", "the offset", "the offset"], |b| {
            one_page(b, 0, WRITE, 0)
        }),
        Row::fails(
            ["no protection bit", "EINVAL: \"one or more\"", "accepted"],
            InvalidArgument,
            |b| one_page(b, 0, 0, 0),
        )
        .because("such a window is of no use"),
        Row::fails(
            ["an unknown protection bit", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| one_page(b, 0, BOTH | 4, 0),
        ),
        Row::fails(
            ["an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| one_page(b, 0, BOTH, 0x100),
        ),
        Row::fails(
            ["FIXED and an unknown flag", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| one_page(b, 0, BOTH, FIXED | 1),
        ),
        Row::fails(
            [
                "the flag of the older driver's limit, 0x40",
                "–",
                "internal / EINVAL",
            ],
            InvalidArgument,
            |b| one_page(b, 0, BOTH, 0x40),
        ),
        Row::fails(
            ["SCIF_MAP_KERNEL", "EINVAL from user mode", "EINVAL"],
            InvalidArgument,
            |b| one_page(b, 0, BOTH, KERNEL),
        ),
        Row::fails(["length 0", "EINVAL", "EINVAL"], InvalidArgument, |b| {
            range(b, 0, 0)
        }),
        Row::fails(
            ["length not a multiple of the page size", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| range(b, 0, PAGE + 1),
        ),
        Row::fails(
            ["length half a page", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| range(b, 0, PAGE / 2),
        ),
        Row::fails(
            [
                "address not a multiple of the page size",
                "EINVAL",
                "EINVAL",
            ],
            InvalidArgument,
            |b| range(b, 8, PAGE),
        ),
        Row::fails(
            ["nothing is mapped at the address", "EFAULT", "EFAULT"],
            BadAddress,
            |b| {
                let (active, _) = b.pair()?;
                let side = Side::A;
                let nowhere = crate::bench::Mem {
                    side,
                    slot: NOWHERE,
                };
                Ok(active.register(nowhere, 0, PAGE, 0, BOTH, 0))
            },
        ),
        Row::fails(
            [
                "a bad argument, not connected",
                "–",
                "EINVAL: arguments first",
            ],
            InvalidArgument,
            |b| {
                let endpoint = b.open(Side::A)?;
                let memory = b.memory(Side::A, 1)?;
                Ok(endpoint.register(memory, 0, PAGE, 0, 0, 0))
            },
        ),
        Row::fails(
            ["the peer has closed", "ECONNRESET", "ECONNRESET"],
            ConnectionReset,
            |b| {
                let (active, passive) = b.pair()?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                let memory = b.memory(Side::A, 1)?;
                Ok(active.register(memory, 0, PAGE, 0, BOTH, 0))
            },
        ),
        Row::fails(
            [
                "FIXED, the range of another window",
                "EADDRINUSE",
                "EADDRINUSE",
            ],
            AddressInUse,
            |b| beside(b, 4, 4),
        ),
        Row::fails(
            [
                "FIXED, overlaps the start of another",
                "EADDRINUSE",
                "EADDRINUSE / ENODEV after \
                10 s",
            ],
            AddressInUse,
            |b| beside(b, 2, 3),
        ),
        Row::fails(
            [
                "FIXED, overlaps the end of another",
                "EADDRINUSE",
                "EADDRINUSE",
            ],
            AddressInUse,
            |b| beside(b, 7, 2),
        ),
        Row::fails(
            ["FIXED, inside another", "EADDRINUSE", "EADDRINUSE"],
            AddressInUse,
            |b| beside(b, 5, 1),
        ),
        Row::fails(
            [
                "FIXED, around another",
                "EADDRINUSE",
                "EADDRINUSE / ENODEV after 10 s",
            ],
            AddressInUse,
            |b| beside(b, 0, 16),
        ),
        Row::gives(
            ["FIXED, right before another", "the offset", "the offset"],
            0,
            |b| beside(b, 0, 4),
        ),
        Row::gives(
            ["FIXED, right behind another", "the offset", "the offset"],
            8 * PAGE,
            |b| beside(b, 8, 4),
        ),
        Row::story(
            ["the same offset on another endpoint", "–", "unrelated"],
            "unrelated, also at the two ends of one connection",
            |b| {
                let (active, passive) = b.pair()?;
                let (other, _) = b.pair()?;
                for endpoint in [active, passive, other] {
                    b.window(endpoint, 2, 0, BOTH)?;
                }
                Ok(())
            },
        ),
        Row::story(
            [
                "the same pages twice",
                "\"may be represented by multiple windows\"",
                "allowed",
            ],
            "two windows of the same bytes",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(active, 2, 0, BOTH)?;
                b.ok(active.register(memory, 0, 2 * PAGE, 0x10_0000, READ, FIXED))?;
                b.ok(memory.fill(0, 2 * PAGE, 3))?;
                let copy = b.memory(Side::B, 2)?;
                b.ok(passive.virtual_read(copy, 0, 2 * PAGE, 0x10_0000, 0))?;
                b.holds_pattern(copy, 0, 2 * PAGE, 3)?;
                b.ok(copy.fill(0, PAGE, 4))?;
                b.ok(passive.virtual_write(copy, 0, PAGE, 0, 0))?;
                b.ok(passive.virtual_read(copy, PAGE, PAGE, 0x10_0000, 0))?;
                b.holds_pattern(copy, PAGE, PAGE, 4)
            },
        ),
        Row::story(
            ["the address and its content", "–", "kept"],
            "both are kept; what is stored later is seen through the window",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.memory(Side::A, 5)?;
                b.ok(memory.fill(0, 5 * PAGE, 9))?;
                b.ok(active.register(memory, PAGE, 3 * PAGE, 0, BOTH, FIXED))?;
                b.holds_pattern(memory, 0, 5 * PAGE, 9)?;
                b.ok(memory.store(PAGE + 16, 0x0123_4567_89ab_cdef))?;
                let copy = b.memory(Side::B, 1)?;
                b.ok(passive.virtual_read(copy, 0, PAGE, 0, 0))?;
                b.gives(copy.load(16), 0x0123_4567_89ab_cdef)?;
                b.gives(copy.check_from(32, PAGE - 32, 9, PAGE + 32), -1)
            },
        ),
        Row::story(
            [
                "the memory is unmapped later",
                "no effect on the window",
                "the window keeps its \
                pages",
            ],
            "the window keeps its pages and their content",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(active, 3, 0, BOTH)?;
                b.ok(memory.fill(0, 3 * PAGE, 6))?;
                b.ok(memory.free())?;
                let other = b.memory(Side::A, 3)?;
                b.ok(other.fill(0, 3 * PAGE, 7))?;
                let copy = b.memory(Side::B, 3)?;
                b.ok(passive.virtual_read(copy, 0, 3 * PAGE, 0, 0))?;
                b.holds_pattern(copy, 0, 3 * PAGE, 6)
            },
        ),
        Row::story(
            [
                "told by send, used by the peer at once",
                "–",
                "visible without delay",
            ],
            "visible without delay",
            |b| {
                let (active, passive) = b.pair()?;
                let copy = b.memory(Side::B, 1)?;
                for turn in 0..10 {
                    let memory = b.window(active, 1, turn * PAGE, BOTH)?;
                    b.ok(memory.fill(0, PAGE, turn as u64))?;
                    b.gives(active.send(1, 1), 1)?;
                    b.gives(passive.recv(1, 1), 1)?;
                    b.ok(passive.virtual_read(copy, 0, PAGE, turn * PAGE, 0))?;
                    b.holds_pattern(copy, 0, PAGE, turn as u64)?;
                }
                Ok(())
            },
        ),
        Row::story(
            ["by a user who is not root", "–", "allowed"],
            "allowed, within the limit",
            |b| {
                let (active, passive) = b.connection(Side::User, Side::B)?;
                let memory = b.window(active, 2, 0, BOTH)?;
                b.ok(memory.fill(0, 2 * PAGE, 1))?;
                let copy = b.memory(Side::B, 2)?;
                b.ok(passive.virtual_read(copy, 0, 2 * PAGE, 0, 0))?;
                b.holds_pattern(copy, 0, 2 * PAGE, 1)
            },
        ),
        Row::story(
            ["many small windows", "–", "–"],
            "256 windows of a page, each with its own bytes",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.memory(Side::A, 256)?;
                b.ok(memory.fill(0, 256 * PAGE, 2))?;
                for page in 0..256 {
                    let at = page * PAGE;
                    // Every other page is out of order.
                    let from = if page % 2 == 0 {
                        at
                    } else {
                        255 * PAGE - at + PAGE
                    };
                    b.gives(active.register(memory, from, PAGE, at, READ, FIXED), at)?;
                }
                let copy = b.memory(Side::B, 256)?;
                b.ok(passive.virtual_read(copy, 0, 256 * PAGE, 0, 0))?;
                for page in 0..256 {
                    let at = page * PAGE;
                    let from = if page % 2 == 0 {
                        at
                    } else {
                        255 * PAGE - at + PAGE
                    };
                    b.gives(copy.check_from(at, PAGE, 2, from), -1)?;
                }
                Ok(())
            },
        ),
        Row::elsewhere(
            ["the limit on windows is reached", "ENOMEM", "ENOMEM"],
            "ENOMEM; possible again when the last use of a window has ended",
            &[(
                "lib/scif-core/src/tests/registering.rs",
                "windows_are_limited",
            )],
        )
        .because("the limit is per user and per process, and can be set in the file `limits`"),
        Row::story(
            [
                "the limit on pinned pages is reached",
                "EAGAIN",
                "off: ENOMEM / EAGAIN",
            ],
            "EAGAIN; possible again when a window is gone",
            |b| {
                let (active, _) = b.pair()?;
                let memory = b.memory(Side::A, 8)?;
                b.limit_pinned(Side::A, 5)?;
                b.gives(active.register(memory, 0, 4 * PAGE, 0, BOTH, FIXED), 0)?;
                let more = active.register(memory, 4 * PAGE, 2 * PAGE, 8 * PAGE, BOTH, FIXED);
                b.fails(more, WouldBlock)?;
                b.gives(
                    active.register(memory, 0, PAGE, 4 * PAGE, BOTH, FIXED),
                    4 * PAGE,
                )?;
                b.fails(more, WouldBlock)?;
                b.ok(active.unregister(0, 4 * PAGE))?;
                b.gives(more, 8 * PAGE)
            },
        )
        .because("the limit is per user, root included, and can be set in the file `limits`"),
        Row::story(
            ["the limit and another user", "–", "per process"],
            "each user has pages of its own",
            |b| {
                let (active, _) = b.pair()?;
                let (users, _) = b.connection(Side::User, Side::B)?;
                let memory = b.memory(Side::A, 6)?;
                let theirs = b.memory(Side::User, 4)?;
                b.limit_pinned(Side::A, 4)?;
                b.gives(active.register(memory, 0, 4 * PAGE, 0, BOTH, FIXED), 0)?;
                b.gives(users.register(theirs, 0, 4 * PAGE, 0, BOTH, FIXED), 0)?;
                b.fails(
                    active.register(memory, 4 * PAGE, PAGE, 0, BOTH, 0),
                    WouldBlock,
                )
            },
        ),
        Row::story(
            ["the limit and the state", "–", "the state first"],
            "an endpoint that is not connected is told so first",
            |b| {
                let memory = b.memory(Side::A, 1)?;
                let endpoint = b.open(Side::A)?;
                b.limit_pinned(Side::A, 0)?;
                let ask = endpoint.register(memory, 0, PAGE, 0, BOTH, 0);
                b.fails(ask, scif_abi::Error::NotConnected)
            },
        ),
        Row::elsewhere(
            [
                "the peer closes",
                "the windows are released",
                "stay until the own close",
            ],
            "window and pages are free, though the own endpoint is open",
            &[(
                "lib/scif-core/src/tests/lifetimes.rs",
                "a_peer_that_closes_releases_the_windows_of_both_ends",
            )],
        ),
        Row::story(
            [
                "the owner closes, nobody uses the window",
                "released",
                "released",
            ],
            "window and pages are free",
            |b| {
                let (active, passive) = b.pair()?;
                let (idle, _) = b.pair()?;
                let before = b.counts()?[0];
                b.window(active, 64, 0, BOTH)?;
                b.ok(active.close())?;
                b.becomes(passive.poll(0), HUP.into())?;
                b.ok(passive.close())?;
                let after = b.counts()?[0];
                equal("windows", after.windows, before.windows)?;
                equal("pages", after.pinned_pages, before.pinned_pages)?;
                b.gives(idle.send(1, 1), 1)
            },
        ),
    ],
};
