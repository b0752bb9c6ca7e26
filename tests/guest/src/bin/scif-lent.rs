//! `scif-lent`: pages of a peer's window that are elsewhere, too, when the program has unmapped it.
//! The peer must not use them for something else before the last of these mappings has ended.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::String;

use client_memory::mappings::own_space;
use guest_tests::{Suite, counter, pair, settled, text};
use libredox::Fd;
use runtime::probe::syscall;
use runtime::thread::{self, JoinHandle};
use scif::{Endpoint, Memory, SendFlags, Window};
use syscall::Map;
use syscall::error::{Error, Result as Answer};
use syscall::flag::{ADDRSPACE_OP_MMAP, MapFlags, MremapFlags};
use syscall::number::{SYS_FMAP, SYS_FUNMAP, SYS_MREMAP, SYS_READ};

runtime::main!(main);

const PAGE: usize = hal::mem::PAGE;
/// Text file: one line for each window.
const WINDOWS: &str = "/scheme/scif/windows";
/// Where the page is in a space in which nothing runs.
const THERE: usize = 0x40_0000;

fn main() -> i32 {
    let mut suite = Suite::new("scif-lent");
    suite.check("at another address", lent(alias));
    suite.check("in another space", lent(other_space));
    suite.check("in the driver, as a request's buffer", lent(request));
    suite.finish()
}

/// What has the page besides the program's mapping.
enum Loan {
    Alias(usize),
    Space(Fd),
    Request(Box<(JoinHandle<Answer<usize>>, Endpoint)>),
}

impl Loan {
    fn end(self) -> Result<(), String> {
        match self {
            Loan::Alias(address) => unmap(address),
            Loan::Space(space) => {
                drop(space);
                Ok(())
            }
            Loan::Request(request) => {
                let (thread, writer) = *request;
                let sent = writer.send(b"end", SendFlags::BLOCK);
                sent.map_err(text("send"))?;
                match thread.join() {
                    Ok(Ok(3)) => Ok(()),
                    // The page was there to the end, or this would be a fault.
                    other => Err(alloc::format!("the read gave {other:?}")),
                }
            }
        }
    }
}

fn shared() -> MapFlags {
    MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED
}

/// A page that the program has mapped, at a second address.
fn alias(page: usize) -> Result<Loan, String> {
    let flags = shared().bits() | MremapFlags::KEEP_OLD.bits();
    let found = Error::demux(syscall(SYS_MREMAP, [page, PAGE, 0, PAGE, flags, 0]));
    found.map(Loan::Alias).map_err(text("alias"))
}

fn other_space(page: usize) -> Result<Loan, String> {
    let own = own_space().map_err(text("space"))?;
    let space = Fd::new(own.dup(b"empty").map_err(text("empty"))?);
    let flags = (shared() | MapFlags::MAP_FIXED_NOREPLACE).bits();
    let words = [ADDRSPACE_OP_MMAP, own.raw(), page, THERE, PAGE, flags];
    let bytes = words.map(usize::to_ne_bytes);
    space.write(bytes.as_flattened()).map_err(text("lend"))?;
    Ok(Loan::Space(space))
}

/// A read into the page that waits in the driver.
fn request(page: usize) -> Result<Loan, String> {
    let (stream, writer) = pair().map_err(text("pair"))?;
    let before = counter("waiting")?;
    let thread =
        thread::spawn(move || Error::demux(syscall(SYS_READ, [stream.fd(), page, PAGE, 0, 0, 0])));
    let thread = thread.map_err(text("thread"))?;
    match settled(|| counter("waiting"), &Ok(before + 1)) {
        Ok(waiting) if waiting == before + 1 => {}
        other => return Err(alloc::format!("{other:?} requests wait, {before} before")),
    }
    Ok(Loan::Request(Box::new((thread, writer))))
}

fn unmap(address: usize) -> Result<(), String> {
    let unmapped = Error::demux(syscall(SYS_FUNMAP, [address, PAGE, 0, 0, 0, 0]));
    unmapped.map(|_| ()).map_err(text("unmap"))
}

/// Lines of windows that are unregistered and still in use: of a connection within the node each
/// end has one.
fn used() -> usize {
    let windows = runtime::fs::read_to_string(WINDOWS);
    windows.map_or(0, |all| all.matches(" used").count())
}

/// Maps a window of a peer that has one page.
fn map(client: &Endpoint, window: &Window<'_>) -> Result<usize, String> {
    let map = Map {
        offset: window.offset() as usize,
        size: PAGE,
        flags: shared(),
        address: 0,
    };
    let (at, length) = (&raw const map as usize, size_of::<Map>());
    let mapped = Error::demux(syscall(SYS_FMAP, [client.fd(), at, length, 0, 0, 0]));
    mapped.map_err(text("map"))
}

/// Maps a window of a peer, lends its page, and unmaps it; then the peer unregisters.
fn lent(lend: fn(usize) -> Result<Loan, String>) -> Result<(), String> {
    let before = used();
    let (client, server) = pair().map_err(text("pair"))?;
    let memory = Memory::new(PAGE).map_err(text("memory"))?;
    let window = || server.register(&memory).map_err(text("register"));
    let end = |window: Window<'_>| window.unregister().map_err(text("unregister"));
    let first = window()?;
    let page = map(&client, &first)?;
    let loan = lend(page)?;
    unmap(page)?;
    end(first)?;
    let lent = settled(used, &(before + 2));
    // What the two ends tell each other keeps its order: when a second window has gone, the first
    // one would have, too.
    let second = window()?;
    unmap(map(&client, &second)?)?;
    end(second)?;
    let later = settled(used, &(before + 2));
    loan.end()?;
    if (lent, later) != (before + 2, before + 2) {
        return Err(alloc::format!(
            "{lent}, then {later} lines of used windows, {before} before"
        ));
    }
    match settled(used, &before) {
        after if after == before => Ok(()),
        after => Err(alloc::format!("{after} lines stay, {before} before")),
    }
}
