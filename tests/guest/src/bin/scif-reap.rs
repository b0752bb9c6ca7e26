//! Programs that are killed while they have memory registered, windows mapped and transfers under
//! way: within the time it takes, every page, window and object is back. Memory that there is not
//! enough of is refused and leaves nothing either.
//!
//! `scif-reap`, on one node, as root (it changes the limit on registered pages for a moment).
#![no_std]
#![no_main]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::{Suite, counter, pair, peer, settled, text};
use runtime::process::Command;
use runtime::{fs, thread};
use scif::{Errno, Error, Initiator, Memory, Protection, RmaFlags};

runtime::main!(main);

/// The counters that must be the same before and after.
const COUNTERS: [&str; 11] = [
    "handles",
    "waiting",
    "memory_objects",
    "memory_pages",
    "endpoints",
    "connections",
    "windows",
    "remote_windows",
    "pinned_pages",
    "mapped_pages",
    "jobs",
];

/// Bytes of memory at each end of the victim's connection.
const BYTES: usize = 8 << 20;

/// More pages than any machine of the tests has: 16 GiB.
const TOO_MANY: usize = 16 << 30;

const LIMITS: &str = "/scheme/scif/limits";

fn main() -> i32 {
    if peer::arguments().first().map(String::as_str) == Some("victim") {
        return victim().map_or(1, |()| 0);
    }
    let mut suite = Suite::new("scif-reap");
    let before = state();
    for mebibytes in [1, 3, 20, 40] {
        let name = alloc::format!("killed after {mebibytes} MiB");
        suite.check(&name, kill(mebibytes << 20));
        suite.equal("what is left", settled(state, &before), before.clone());
    }
    suite.check("too much memory", too_much());
    suite.equal("what is left of it", settled(state, &before), before);
    suite.finish()
}

fn state() -> Result<Vec<u64>, String> {
    COUNTERS.into_iter().map(counter).collect()
}

/// Uses everything there is, for ever: registering, mapping, transfers of all kinds, fences.
fn victim() -> scif::Result<()> {
    let (near, far) = pair()?;
    let (mine, theirs) = (Memory::new(BYTES)?, Memory::new(BYTES)?);
    let remote = far.register(&theirs)?;
    let local = near.register(&mine)?;
    let mapping = near.map(remote.offset(), BYTES / 2, Protection::all())?;
    let mut buffer = alloc::vec![0_u8; BYTES / 2];
    loop {
        near.write_to(local.all(), remote.offset(), RmaFlags::SYNC)?;
        near.write_to(local.all(), remote.offset(), RmaFlags::empty())?;
        near.vread_from(&mut buffer, remote.offset(), RmaFlags::SYNC)?;
        mapping.write::<u64>(0, 1)?;
        near.vwrite_to(&buffer, remote.offset(), RmaFlags::empty())?;
        far.fence_wait(far.fence_mark(Initiator::Peer)?)?;
        near.register(&theirs)?.unregister()?;
    }
}

/// Kills a victim once it has moved this number of bytes.
fn kill(bytes: u64) -> Result<(), String> {
    let start = counter("rma_bytes_cpu")?;
    let mut child = Command::new("scif-reap")
        .arg("victim")
        .spawn()
        .map_err(text("starting"))?;
    while counter("rma_bytes_cpu")? < start + bytes {
        if let Some(status) = child.try_wait().map_err(text("waiting"))? {
            return Err(alloc::format!("the victim ended by itself: {status:?}"));
        }
        thread::yield_now();
    }
    child.kill().map_err(text("killing"))?;
    let status = child.wait().map_err(text("waiting"))?;
    match status.signal() {
        Some(_) => Ok(()),
        None => Err(alloc::format!("the victim ended by itself: {status:?}")),
    }
}

/// More than the limit is EAGAIN; more than there is, ENOMEM, found after much of it was taken.
fn too_much() -> Result<(), String> {
    let refused = |expected: Errno| match Memory::new(TOO_MANY).map_err(Error::from) {
        Err(Error::Scif(errno)) if errno == expected => Ok(()),
        other => Err(alloc::format!(
            "{:?} instead of {expected:?}",
            other.map(drop)
        )),
    };
    refused(Errno::WouldBlock)?;
    let old = fs::read_to_string(LIMITS).map_err(text("reading limits"))?;
    let line = alloc::format!("pinned_pages_per_user {}\n", u64::MAX);
    fs::write(LIMITS, line.as_bytes()).map_err(text("raising the limit"))?;
    let result = refused(Errno::NoMemory);
    fs::write(LIMITS, old.as_bytes()).map_err(text("restoring the limit"))?;
    result
}
