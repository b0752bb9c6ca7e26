//! Registered memory between two nodes (or within one): transfers of every kind, alignment and
//! length with guards around what they may change, windows side by side, mappings, fences, and that
//! nothing is left in the end.
//!
//! `scif-windows [NODE [brief]]`: with `brief` a part of the matrix and less memory.
#![no_std]
#![no_main]

extern crate alloc;

mod closing;
mod fences;
mod matrix;

use alloc::string::String;
use alloc::vec;

use guest_tests::peer::{Peer, arguments};
use guest_tests::windows::{Remote, compare, difference, fill};
use guest_tests::{Suite, counter, pair, settled, text};
use matrix::Kind;
use scif::{Errno, Error, Initiator, Memory, Protection, RegisterOptions, RmaFlags, Window};

runtime::main!(main);

const PAGE: usize = hal::mem::PAGE;
/// Bytes of the memory on each side that the matrix uses.
const BYTES: usize = 2 << 20;
/// Bytes of the large transfer.
const LARGE: usize = 64 << 20;
const FIXED: u32 = 0x10;
const READ: u32 = 1;
const READ_WRITE: u32 = 3;

/// The counters that must be in the end as they were.
const COUNTERS: [&str; 7] = [
    "windows",
    "remote_windows",
    "pinned_pages",
    "mapped_pages",
    "memory_objects",
    "memory_pages",
    "jobs",
];

fn main() -> i32 {
    let mut suite = Suite::new("scif-windows");
    let brief = arguments().iter().any(|word| word == "brief");
    let peer = match Peer::from_arguments() {
        Ok(peer) => peer,
        Err(error) => {
            suite.check("peer", Err(error));
            return suite.finish();
        }
    };
    let look = || COUNTERS.map(counter);
    let before = look();
    for (name, kind) in [("registered", Kind::Registered), ("virtual", Kind::Slice)]
        .into_iter()
        .chain([("memory", Kind::Memory)])
    {
        for write in [false, true] {
            let direction = if write { "writes" } else { "reads" };
            let name = alloc::format!("{name} {direction}");
            suite.check(&name, matrix::matrix(&peer, kind, write, brief));
        }
    }
    suite.check("windows side by side", side_by_side(&peer));
    suite.check("mapping", mapping(&peer));
    suite.check("both sides add to a word", additions(&peer));
    suite.check("marks", fences::marks(&peer));
    suite.check("signals", fences::signals(&peer));
    suite.check("ordinary memory", ordinary(&peer));
    suite.check("unregister and register again", again(&peer));
    let length = if brief { LARGE / 8 } else { LARGE };
    suite.check("a large transfer", large(&peer, length));
    suite.check("writes and a close", closing::writes(&peer));
    suite.check("reads and a close", closing::reads(&peer));
    suite.check("the peer's writes and a close", closing::peer_writes(&peer));
    suite.check("the peer's reads and a close", closing::peer_reads(&peer));
    let after = settled(look, &before);
    for ((name, after), before) in COUNTERS.iter().zip(after).zip(before) {
        suite.equal(name, after, before);
    }
    peer.dismiss();
    suite.finish()
}

/// Whether a call failed with this error.
fn expect<T>(what: &str, result: scif::Result<T>, wanted: Errno) -> Result<(), String> {
    match result {
        Err(Error::Scif(errno)) if errno == wanted => Ok(()),
        Err(error) => Err(alloc::format!("{what}: {error} instead of {wanted}")),
        Ok(_) => Err(alloc::format!("{what}: success instead of {wanted}")),
    }
}

/// Transfers and mappings over several windows, a hole, and windows with other rights.
fn side_by_side(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    let endpoint = &remote.endpoint;
    // Adjacent windows of memory that is not; then a hole; then a read-only one beside another.
    let base = 0x40_0000;
    for (place, pages, at, protection) in [
        (0x10_0000, 3, base, READ_WRITE),
        (0, 2, base + 0x3000, READ_WRITE),
        (0x2000, 1, base + 0x6000, READ_WRITE),
        (0x3000, 1, base + 0x7000, READ),
    ] {
        let found = remote.register(place, pages * PAGE, at, protection, FIXED);
        if found != Ok(at) {
            return Err(alloc::format!("register at {at:#x}: {found:?}"));
        }
    }
    for (place, pages, at) in [(0, 1, base + 0x4000), (0, 1, base), (0, 9, base - 0x4000)] {
        let taken = remote.register(place, pages * PAGE, at, READ, FIXED);
        if taken != Err(Errno::AddressInUse.errno()) {
            return Err(alloc::format!("a taken offset: {taken:?}"));
        }
    }

    let data: alloc::vec::Vec<u8> = (0..0x4100).map(|byte| (byte * 7) as u8).collect();
    let write = endpoint.vwrite_to(&data, base + 0x100, RmaFlags::SYNC);
    write.map_err(text("over two windows"))?;
    let mut back = vec![0; data.len()];
    let read = endpoint.vread_from(&mut back, base + 0x100, RmaFlags::SYNC);
    read.map_err(text("back over two windows"))?;
    if back != data {
        return Err("other data came back".into());
    }

    // A transfer that is refused has moved nothing.
    remote.fill(0, 2 * PAGE, 77)?;
    remote.fill(0x2000, 2 * PAGE, 78)?;
    let junk = vec![0xff; 4 * PAGE];
    let hole = endpoint.vwrite_to(&junk, base + 0x3000, RmaFlags::SYNC);
    expect("into a hole", hole, Errno::NoSuchAddress)?;
    let rights = endpoint.vwrite_to(&junk[..2 * PAGE], base + 0x6000, RmaFlags::SYNC);
    expect("into a read-only window", rights, Errno::AccessDenied)?;
    let outside = endpoint.vread_from(&mut back[..2], base - 1, RmaFlags::SYNC);
    expect("before the first window", outside, Errno::NoSuchAddress)?;
    let nowhere = endpoint.vread_from(&mut back[..1], -1, RmaFlags::SYNC);
    expect("at a negative offset", nowhere, Errno::NoSuchAddress)?;
    remote.compare(0, 2 * PAGE, 77, false)?;
    remote.compare(0x2000, 2 * PAGE, 78, false)?;
    let whole = endpoint.vread_from(&mut back[..2 * PAGE], base + 0x6000, RmaFlags::SYNC);
    whole.map_err(text("reading what may be read"))?;

    let all = Protection::READ | Protection::WRITE;
    let both = endpoint.map(base, 5 * PAGE, all);
    let both = both.map_err(text("a mapping of two windows"))?;
    let mut mapped = vec![0; data.len()];
    endpoint
        .vwrite_to(&data, base + 0x100, RmaFlags::SYNC)
        .map_err(text("once more"))?;
    both.copy_out(0x100, &mut mapped).map_err(text("loads"))?;
    if mapped != data {
        return Err("the mapping shows other data".into());
    }
    let hole = endpoint.map(base + 0x3000, 4 * PAGE, all);
    expect("mapping a hole", hole, Errno::NoSuchAddress)?;
    let rights = endpoint.map(base + 0x6000, 2 * PAGE, all);
    expect("mapping a read-only window", rights, Errno::AccessDenied)?;
    let readable = endpoint.map(base + 0x6000, 2 * PAGE, Protection::READ);
    readable
        .map(|_| ())
        .map_err(text("mapping what may be read"))?;
    for (offset, length) in [(base + 1, PAGE), (base, PAGE + 1), (base, 0)] {
        let bad = endpoint.map(offset, length, all);
        expect("a bad range", bad, Errno::InvalidArgument)?;
    }

    // Whole windows only, all or nothing.
    for (offset, length, wanted) in [
        (base, PAGE, Errno::InvalidArgument),
        (base, 4 * PAGE, Errno::InvalidArgument),
        (base + 0x5000, PAGE, Errno::NoSuchAddress),
    ] {
        let found = remote.unregister(offset, length);
        if found != Err(wanted.errno()) {
            return Err(alloc::format!("unregister of {length:#x}: {found:?}"));
        }
    }
    let two = remote.unregister(base, 5 * PAGE);
    two.map_err(text("unregister of two windows"))?;
    let gone = endpoint.vread_from(&mut back[..1], base, RmaFlags::SYNC);
    expect("an unregistered window", gone, Errno::NoSuchAddress)?;
    // Mapped before, and still there.
    both.write(0, 0x1234_u16).map_err(text("a store"))?;
    both.read::<u16>(0).map(|_| ()).map_err(text("a load"))
}

/// A mapping works both ways, and outlives window, endpoint and half of itself.
fn mapping(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    let offset = remote.register(PAGE, BYTES - PAGE, 0, READ_WRITE, 0);
    let offset = offset.map_err(text("the peer's window"))?;
    let all = Protection::READ | Protection::WRITE;
    let mapped = remote.endpoint.map(offset, BYTES - PAGE, all);
    let mapped = mapped.map_err(text("mapping"))?;
    fill(&mapped, 5, 300_000, 4).map_err(text("stores"))?;
    remote.compare(PAGE + 5, 300_000, 4, false)?;
    remote.fill(PAGE + 9, 300_000, 5)?;
    if let Some(at) = compare(&mapped, 9, 300_000, 5, false).map_err(text("loads"))? {
        return Err(difference(at, 300_000));
    }
    mapped.store_release_u64(64, 99).map_err(text("store"))?;
    remote.wait_for(PAGE + 64, 99)?;

    let unregistered = remote.unregister(offset, BYTES - PAGE);
    unregistered.map_err(text("unregister with a mapping"))?;
    mapped.store_release_u64(64, 100).map_err(text("store"))?;
    remote.wait_for(PAGE + 64, 100)?;
    let Ok((first, rest)) = mapped.split(2 * PAGE) else {
        return Err("no split".into());
    };
    drop(rest);
    first.store_release_u64(PAGE, 101).map_err(text("store"))?;
    remote.wait_for(2 * PAGE, 101)?;
    remote.endpoint.close().map_err(text("close"))?;
    // The peer's end has gone too, so there is no daemon to ask; but it must not fault.
    first.store_release_u64(PAGE, 102).map_err(text("store"))?;
    first.read::<u64>(PAGE).map(|_| ()).map_err(text("load"))
}

fn additions(peer: &Peer) -> Result<(), String> {
    const TIMES: usize = 200_000;
    let remote = Remote::new(peer, PAGE)?;
    let offset = remote.register(0, PAGE, 0, READ_WRITE, 0);
    let offset = offset.map_err(text("the peer's window"))?;
    let all = Protection::READ | Protection::WRITE;
    let mapped = remote.endpoint.map(offset, PAGE, all);
    let mapped = mapped.map_err(text("mapping"))?;
    remote.start_adding(128, TIMES)?;
    for _ in 0..TIMES {
        mapped.fetch_add_u64(128, 1).map_err(text("adding"))?;
    }
    remote.added()?;
    match mapped.read::<u64>(128).map_err(text("the sum"))? {
        sum if sum == 2 * TIMES as u64 => Ok(()),
        sum => Err(alloc::format!("{sum} of {}", 2 * TIMES)),
    }
}

/// An own window and one of the peer, 1 MiB each.
fn both_windows<'a>(remote: &'a Remote, memory: &'a Memory) -> Result<(Window<'a>, i64), String> {
    let window = remote.endpoint.register(memory).map_err(text("window"))?;
    let offset = remote.register(0, memory.len(), 0, READ_WRITE, 0);
    Ok((window, offset.map_err(text("the peer's window"))?))
}

/// Registering ordinary memory keeps its content, and shares it from then on.
fn ordinary(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    remote.memory(BYTES, true)?;
    remote.fill(0, BYTES, 11)?;
    let offset = remote.register(PAGE, 8 * PAGE, 0, READ_WRITE, 0);
    let offset = offset.map_err(text("the peer's window"))?;
    remote.compare(0, BYTES, 11, false)?;
    let memory = Memory::ordinary(BYTES).map_err(text("memory"))?;
    fill(&memory, 0, BYTES, 12).map_err(text("filling"))?;
    let part = PAGE..9 * PAGE;
    let window = remote
        .endpoint
        .register_with(&memory, part.clone(), RegisterOptions::new());
    let window = window.map_err(text("window"))?;
    let kept = compare(&memory, 0, BYTES, 12, false).map_err(text("comparing"))?;
    if let Some(at) = kept {
        return Err(difference(at, BYTES));
    }
    fill(&memory, PAGE, 8 * PAGE, 13).map_err(text("filling"))?;
    let written = remote
        .endpoint
        .write_to(window.all(), offset, RmaFlags::SYNC);
    written.map_err(text("write"))?;
    remote.compare(PAGE, 8 * PAGE, 13, false)?;
    // The same memory in a second window, over another endpoint.
    let (other, _end) = pair().map_err(text("another connection"))?;
    let second = other.register_with(&memory, part, RegisterOptions::new());
    second.map(|_| ()).map_err(text("a second window"))?;
    // A range of which a part is shared already stays where it is.
    let around = remote
        .endpoint
        .register_with(&memory, 0..16 * PAGE, RegisterOptions::new());
    let around = around.map_err(text("a window around"))?;
    remote.fill(PAGE, 8 * PAGE, 14)?;
    let read = remote
        .endpoint
        .read_from(window.all(), offset, RmaFlags::SYNC);
    read.map_err(text("read"))?;
    if let Some(at) = compare(&memory, PAGE, 8 * PAGE, 14, false).map_err(text("comparing"))? {
        return Err(difference(at, 8 * PAGE));
    }
    let mut two = vec![0; PAGE];
    remote.fill(0, PAGE, 15)?;
    let inside = around.part(PAGE..2 * PAGE).map_err(text("part"))?;
    remote
        .endpoint
        .write_to(inside, offset, RmaFlags::SYNC)
        .map_err(text("write from the window around"))?;
    memory.copy_out(PAGE, &mut two).map_err(text("copy"))?;
    remote.compare(PAGE, PAGE, 14, false)
}

/// The same fixed offset many times, with and without a mapping in between.
fn again(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, 16 * PAGE)?;
    let at = 0x7fff_0000_0000;
    for round in 0..50_u64 {
        let place = PAGE * (round as usize % 8);
        let found = remote.register(place, 2 * PAGE, at, READ_WRITE, FIXED);
        if found != Ok(at) {
            return Err(alloc::format!("round {round}: register gave {found:?}"));
        }
        remote.store(place + 8, round)?;
        let mut word = [0; 8];
        let read = remote
            .endpoint
            .vread_from(&mut word, at + 8, RmaFlags::SYNC);
        read.map_err(text("read"))?;
        if word != round.to_le_bytes() {
            return Err(alloc::format!("round {round}: {word:?} was read"));
        }
        let mapped = (round % 2 == 0).then(|| remote.endpoint.map(at, PAGE, Protection::READ));
        let mapped = mapped.transpose().map_err(text("mapping"))?;
        let unregistered = remote.unregister(at, 2 * PAGE);
        unregistered.map_err(text("unregister"))?;
        if mapped.is_some() {
            // The offset is taken as long as a program has it mapped.
            let taken = remote.register(place, PAGE, at, READ, FIXED);
            if taken != Err(Errno::AddressInUse.errno()) {
                return Err(alloc::format!("round {round}: mapped, but {taken:?}"));
            }
        }
        drop(mapped);
    }
    Ok(())
}

fn large(peer: &Peer, length: usize) -> Result<(), String> {
    let remote = Remote::new(peer, length)?;
    let memory = Memory::new(length).map_err(text("memory"))?;
    let (window, there) = both_windows(&remote, &memory)?;
    fill(&memory, 0, length, 31).map_err(text("filling"))?;
    let written = remote
        .endpoint
        .write_to(window.all(), there, RmaFlags::empty());
    written.map_err(text("write"))?;
    let mark = remote.endpoint.fence_mark(Initiator::Own);
    let mark = mark.map_err(text("mark"))?;
    remote.endpoint.fence_wait(mark).map_err(text("wait"))?;
    remote.compare(0, length, 31, false)?;
    remote.fill(0, length, 32)?;
    let read = remote
        .endpoint
        .read_from(window.all(), there, RmaFlags::SYNC);
    read.map_err(text("read"))?;
    match compare(&memory, 0, length, 32, false).map_err(text("comparing"))? {
        None => Ok(()),
        Some(at) => Err(difference(at, length)),
    }
}
