//! get_pages and put_pages, for trusted drivers.

use scif_abi::Error::{
    AccessDenied, ConnectionReset, InvalidArgument, NoSuchAddress, NotConnected,
};

use crate::ask::{HUP, PAGE, READ, WRITE};
use crate::bench::{Ask, Bench, Checked, Place, Side, equal};
use crate::table::{Row, Section};

const BOTH: u32 = READ | WRITE;

/// Registers a window of four pages at page 4 of B. Returns A's call for this range.
fn get(b: &mut Bench<'_>, offset: i64, length: i64) -> Checked<Ask> {
    let (active, passive) = b.pair()?;
    b.window(passive, 4, 4 * PAGE, BOTH)?;
    let pages = b.new_memory(Side::A);
    Ok(active.get_pages(pages, offset, length))
}

/// `scif_get_pages`, `scif_put_pages`.
pub const PAGES: Section = Section {
    title: "scif_get_pages, scif_put_pages",
    word: "pages",
    about: "Kernel-mode calls: for drivers that run as root.",
    rows: &[
        Row::story(
            [
                "pages of a window of the peer",
                "their addresses",
                "their addresses",
            ],
            "their number, the window's protection, addresses this node's CPU can use",
            |b| {
                let (active, passive) = b.pair()?;
                let memory = b.window(passive, 4, 4 * PAGE, READ)?;
                b.ok(memory.fill(0, 4 * PAGE, 3))?;
                let word = b.ok(memory.load(PAGE))?;
                let pages = b.new_memory(Side::A);
                let mut reply = b.reply(active.get_pages(pages, 5 * PAGE, 2 * PAGE))?;
                if b.place() != Place::Loopback {
                    // Memory of the own node belongs to its owner, and only the owner can map it.
                    equal("the first word", reply.extra.pop(), Some(word))?;
                }
                let wanted = alloc::vec![2, READ.into()];
                equal("pages and protection", reply.extra, wanted)?;
                b.gives(pages.put_pages(), 0)
            },
        ),
        Row::fails(["length 0", "–", "EINVAL"], InvalidArgument, |b| {
            get(b, 4 * PAGE, 0)
        }),
        Row::fails(
            ["offset not a multiple of the page size", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| get(b, 4 * PAGE + 1, PAGE),
        ),
        Row::fails(
            ["length not a multiple of the page size", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| get(b, 4 * PAGE, PAGE - 1),
        ),
        Row::fails(
            ["offset negative", "EINVAL", "EINVAL"],
            InvalidArgument,
            |b| get(b, -PAGE, PAGE),
        ),
        Row::fails(
            ["nothing is registered there", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| get(b, 0, PAGE),
        ),
        Row::fails(
            ["the range ends behind the window", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| get(b, 7 * PAGE, 2 * PAGE),
        ),
        Row::fails(
            ["in two adjacent windows", "ENXIO", "ENXIO"],
            NoSuchAddress,
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 1, 0, BOTH)?;
                b.window(passive, 1, PAGE, BOTH)?;
                let pages = b.new_memory(Side::A);
                Ok(active.get_pages(pages, 0, 2 * PAGE))
            },
        ),
        Row::fails(["not root", "–", "kernel only"], AccessDenied, |b| {
            let (active, passive) = b.connection(Side::User, Side::B)?;
            b.window(passive, 1, 0, BOTH)?;
            let pages = b.new_memory(Side::User);
            Ok(active.get_pages(pages, 0, PAGE))
        })
        .because("who has addresses of pages can reach all of them"),
        Row::fails(
            ["not connected", "ENOTCONN", "ENOTCONN"],
            NotConnected,
            |b| {
                let endpoint = b.open(Side::A)?;
                let pages = b.new_memory(Side::A);
                Ok(endpoint.get_pages(pages, 0, PAGE))
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
                let pages = b.new_memory(Side::A);
                Ok(active.get_pages(pages, 0, PAGE))
            },
        ),
        Row::fails(["put twice", "EINVAL", "EINVAL"], InvalidArgument, |b| {
            let (active, passive) = b.pair()?;
            b.window(passive, 1, 0, BOTH)?;
            let pages = b.new_memory(Side::A);
            b.ok(active.get_pages(pages, 0, PAGE))?;
            b.gives(pages.put_pages(), 0)?;
            Ok(pages.put_pages())
        }),
        Row::story(
            [
                "the owner unregisters meanwhile",
                "remain available",
                "never released / never \
                released",
            ],
            "they stay until they are put back, and then are released",
            |b| {
                let (active, passive) = b.pair()?;
                let before = b.counts()?;
                let memory = b.window(passive, 1, 0, BOTH)?;
                let pages = b.new_memory(Side::A);
                b.ok(active.get_pages(pages, 0, PAGE))?;
                b.gives(passive.unregister(0, PAGE), 0)?;
                let again = passive.register(memory, 0, PAGE, 0, BOTH, crate::ask::FIXED);
                b.fails(again, scif_abi::Error::AddressInUse)?;
                b.gives(pages.put_pages(), 0)?;
                b.settles_at(before)?;
                b.gives(again, 0)
            },
        ),
        Row::story(
            ["put after the peer has closed", "–", "allowed"],
            "allowed",
            |b| {
                let (active, passive) = b.pair()?;
                b.window(passive, 1, 0, BOTH)?;
                let pages = b.new_memory(Side::A);
                b.ok(active.get_pages(pages, 0, PAGE))?;
                b.ok(passive.close())?;
                b.becomes(active.poll(0), HUP.into())?;
                b.gives(pages.put_pages(), 0)
            },
        ),
        Row::story(
            [
                "the endpoint is closed without putting them back",
                "an error of the \
                caller",
                "asserts / –",
            ],
            "they are put back",
            |b| {
                let before = b.counts()?;
                let (active, passive) = b.pair()?;
                b.window(passive, 1, 0, BOTH)?;
                let pages = b.new_memory(Side::A);
                b.ok(active.get_pages(pages, 0, PAGE))?;
                b.ok(active.close())?;
                b.becomes(passive.poll(0), HUP.into())?;
                b.ok(passive.close())?;
                b.settles_at(before)
            },
        ),
    ],
};
