//! Transfers of this program against windows that come and go: what was unregistered before a call
//! is never reached by it.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use guest_tests::peer::Peer;
use guest_tests::windows::Remote;
use guest_tests::{Suite, pattern, text};
use runtime::thread;
use scif::{Endpoint, Errno, Error, RmaFlags};
use scif_abi::flags::{MapFlags, Protection};

/// Bytes of a window; two of them lie behind one another in the peer's memory.
const BYTES: usize = 64 * 1024;
/// Where whichever of the two is registered.
const OFFSET: i64 = 0x40_0000;
/// Times a window comes and goes.
const ROUNDS: u64 = 40;
/// Transfers there must be in each state.
const TRANSFERS: u64 = 6;

pub fn checks(suite: &mut Suite, peer: &Peer) {
    suite.check("writes to windows that go", run(peer, true));
    suite.check("reads of windows that go", run(peer, false));
    suite.check("a call after unregister is ENXIO", after(peer));
}

/// The state that the two threads share.
struct Shared {
    remote: Remote,
    stop: AtomicBool,
    /// Windows that were registered so far; the content of number `n` is pattern `2 * n`.
    round: AtomicU64,
    /// Transfers that have succeeded, and that have failed as they should.
    done: AtomicU64,
    refused: AtomicU64,
}

fn protection() -> u32 {
    Protection::all().bits()
}

fn run(peer: &Peer, writes: bool) -> Result<(), String> {
    let remote = Remote::new(peer, 2 * BYTES)?;
    remote.endpoint.prepare().map_err(text("prepare"))?;
    let shared = Arc::new(Shared {
        remote,
        stop: AtomicBool::new(false),
        round: AtomicU64::new(0),
        done: AtomicU64::new(0),
        refused: AtomicU64::new(0),
    });
    let copier = shared.clone();
    let thread = thread::spawn(move || copy(&copier, writes)).map_err(text("a thread"))?;
    let result = come_and_go(&shared, || thread.is_finished());
    shared.stop.store(true, Ordering::Relaxed);
    thread.join().map_err(text("the thread"))??;
    result
}

/// Registers one and then the other half of the peer's memory at the same offset.
fn come_and_go(shared: &Shared, is_over: impl Fn() -> bool) -> Result<(), String> {
    let remote = &shared.remote;
    let more = |count: &AtomicU64| {
        let wanted = count.load(Ordering::Relaxed) + TRANSFERS;
        while count.load(Ordering::Relaxed) < wanted && !is_over() {
            thread::yield_now();
        }
    };
    for round in 1..=ROUNDS {
        let place = (round % 2) as usize * BYTES;
        remote.fill(place, BYTES, 2 * round)?;
        shared.round.store(round, Ordering::SeqCst);
        remote
            .register(place, BYTES, OFFSET, protection(), MapFlags::FIXED.bits())
            .map_err(text("register"))?;
        more(&shared.done);
        remote
            .unregister(OFFSET, BYTES)
            .map_err(text("unregister"))?;
        // From now on no other program touches the memory.
        remote.fill(place, BYTES, 2 * round + 1)?;
        more(&shared.refused);
        remote.compare(place, BYTES, 2 * round + 1, false)?;
        if is_over() {
            return Err("the copying has ended".into());
        }
    }
    // Nor was the other half touched while this one was registered.
    let last_but_one = ROUNDS - 1;
    let place = (last_but_one % 2) as usize * BYTES;
    remote.compare(place, BYTES, 2 * last_but_one + 1, false)
}

/// Transfers until it is stopped.
fn copy(shared: &Shared, writes: bool) -> Result<(), String> {
    let endpoint = &shared.remote.endpoint;
    let mut buffer = vec![0; BYTES];
    while !shared.stop.load(Ordering::Relaxed) {
        let first = shared.round.load(Ordering::SeqCst);
        let result = if writes {
            // The expected contents, so that reading them back is no surprise.
            endpoint.vwrite_to(&[0xee; 5000], OFFSET + 777, RmaFlags::empty())
        } else {
            endpoint.vread_from(&mut buffer, OFFSET, RmaFlags::empty())
        };
        match result {
            Ok(()) => {
                let last = shared.round.load(Ordering::SeqCst);
                let is_known = |round: u64| pattern::mismatch(2 * round, 0, &buffer).is_none();
                if !writes && !(first..=last).any(is_known) {
                    return Err(alloc::format!("what was read is none of {first} to {last}"));
                }
                shared.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::Scif(Errno::NoSuchAddress)) => {
                shared.refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(alloc::format!("the transfer failed: {error}")),
        }
        thread::yield_now();
    }
    Ok(())
}

/// The plain case, by one thread: often enough to be mapped, and then gone.
fn after(peer: &Peer) -> Result<(), String> {
    let remote = Remote::new(peer, BYTES)?;
    let endpoint: &Endpoint = &remote.endpoint;
    let mut buffer = vec![0; 100];
    for round in 0..10 {
        let offset = remote
            .register(0, BYTES, OFFSET, protection(), MapFlags::FIXED.bits())
            .map_err(text("register"))?;
        remote.fill(0, BYTES, round)?;
        for _ in 0..4 {
            let read = endpoint.vread_from(&mut buffer, offset, RmaFlags::empty());
            read.map_err(text("read"))?;
            if pattern::mismatch(round, 0, &buffer).is_some() {
                return Err("the wrong bytes".into());
            }
        }
        remote
            .unregister(offset, BYTES)
            .map_err(text("unregister"))?;
        let read = endpoint.vread_from(&mut buffer, offset, RmaFlags::empty());
        if read != Err(Error::Scif(Errno::NoSuchAddress)) {
            return Err(alloc::format!("after it has gone: {read:?}"));
        }
    }
    Ok(())
}
