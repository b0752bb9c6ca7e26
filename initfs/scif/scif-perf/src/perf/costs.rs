//! The costs of a window, a mapping and a connection, and the throughput of pairs that work at the
//! same time.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

use hal::clock::ticks;
use runtime::thread;
use scif::{Memory, PortId, Protection, raw};

use super::latency::path_name;
use super::server::{CLOSING, touched};
use super::session::{Session, connect};
use super::wire::Wait;
use super::{Context, Failure, Result, Settings};
use crate::report::Unit;
use crate::samples::Samples;
use crate::timing;

/// Default sizes of windows, in bytes.
const WINDOWS: &[u64] = &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20];

/// Bytes in a message between pairs.
const MESSAGE: usize = 64;

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    if settings.wants("register") {
        for size in settings.sizes(WINDOWS) {
            registering(settings, size).context("register")?;
        }
    }
    for (test, end, is_copied) in [
        ("own_register", "own_unregister", false),
        ("copy_register", "copy_unregister", true),
    ] {
        if settings.wants(test) {
            for size in settings.sizes(WINDOWS) {
                registering_own(settings, [test, end], size, is_copied).context(test)?;
            }
        }
    }
    if settings.wants("map") {
        mapping(settings).context("map")?;
    }
    if settings.wants("connect") {
        connecting(settings).context("connect")?;
    }
    if settings.wants("pairs") {
        for wait in settings.waits() {
            // Polling threads that share a processor must yield to each other.
            let wait = if wait == Wait::Block {
                wait
            } else {
                Wait::Yield
            };
            for pairs in &settings.pairs {
                together(settings, *pairs, wait).context("pairs")?;
            }
        }
    }
    Ok(())
}

/// Times two steps, one after the other, repeatedly for the time budget of a repetition (at least
/// three times), and prints both times. `end` gets the result of `begin`.
fn two_steps<T>(
    settings: &Settings,
    tests: [&str; 2],
    size: u64,
    mut begin: impl FnMut() -> Result<T>,
    mut end: impl FnMut(T) -> Result,
) -> Result {
    const LEAST: usize = 3;
    let mut samples = [Samples::new(), Samples::new()];
    end(begin()?)?;
    for repetition in 1..=settings.repetitions {
        settings.repetition(tests[0], size, repetition)?;
        let (mut first, mut second) = (Vec::new(), Vec::new());
        let limit = ticks() + settings.rate.ticks(settings.budget_ns);
        while first.len() < LEAST || ticks() < limit {
            let start = ticks();
            let made = begin()?;
            let middle = ticks();
            end(made)?;
            let stop = ticks();
            first.push(settings.rate.between(start, middle));
            second.push(settings.rate.between(middle, stop));
        }
        samples[0].add(first);
        samples[1].add(second);
    }
    let [first, second] = samples;
    settings.print(tests[0], size, Unit::Nanoseconds, first);
    settings.print(tests[1], size, Unit::Nanoseconds, second);
    Ok(())
}

fn registering(settings: &Settings, size: u64) -> Result {
    let session = Session::open(settings)?;
    let memory = Memory::new(size as usize).context("memory for a window")?;
    two_steps(
        settings,
        ["register", "unregister"],
        size,
        || Ok(session.endpoint.register(&memory)?),
        |window| Ok(window.unregister()?),
    )
}

/// Measures the registration of the program's own memory: of its pages where they are or, for
/// comparison, of a copy of them in new memory from the daemon.
fn registering_own(settings: &Settings, tests: [&str; 2], size: u64, is_copied: bool) -> Result {
    let session = Session::open(settings)?;
    let endpoint = &session.endpoint;
    let memory = touched(size as usize)?;
    if !is_copied {
        let register = || Ok(endpoint.register(&memory)?);
        return two_steps(settings, tests, size, register, |window| {
            Ok(window.unregister()?)
        });
    }
    let mut content = alloc::vec![0; size as usize];
    memory.copy_out(0, &mut content)?;
    let register = || {
        let copy = Memory::new(size as usize)?;
        copy.copy_in(0, &content)?;
        let offset = raw::register(endpoint.fd(), copy.range(), 0, Protection::all().bits(), 0);
        Ok((offset.map_err(scif::Error::from)?, copy))
    };
    two_steps(settings, tests, size, register, |(offset, copy)| {
        let ended = raw::unregister(endpoint.fd(), offset, size);
        drop(copy);
        Ok(ended.map_err(scif::Error::from)?)
    })
}

fn mapping(settings: &Settings) -> Result {
    let session = Session::open(settings)?;
    let sizes = settings.sizes(WINDOWS);
    let largest = sizes.iter().copied().max().unwrap_or(4096);
    let remote = session.borrow(largest)?;
    let rights = Protection::READ | Protection::WRITE;
    for size in sizes {
        let map = || Ok(session.endpoint.map(remote, size as usize, rights)?);
        two_steps(settings, ["map", "unmap"], size, map, |mapping| {
            drop(mapping);
            Ok(())
        })?;
    }
    session.release()
}

/// The server's port whose connections stay unused.
pub fn idle_port(settings: &Settings) -> PortId {
    PortId::new(settings.server.node(), settings.server.port() + 1)
}

/// Measures connecting and closing. The server closes its end at once, as in the tests of TCP.
fn connecting(settings: &Settings) -> Result {
    let to = PortId::new(settings.server.node(), settings.server.port() + CLOSING);
    connect(to)?.close()?;
    two_steps(
        settings,
        ["connect", "close"],
        1,
        || Ok(scif::connect(to)?),
        |endpoint| Ok(endpoint.close()?),
    )?;
    let mut samples = Samples::new();
    for repetition in 1..=settings.repetitions {
        settings.repetition("connect_close", 1, repetition)?;
        let both = || -> Result { Ok(scif::connect(to)?.close()?) };
        let times = timing::durations(settings.rate, settings.budget_ns, both)?;
        samples.add(times);
    }
    settings.print("connect_close", 1, Unit::Nanoseconds, samples);
    Ok(())
}

/// The barrier at which the threads of a test start together.
struct Start {
    ready: AtomicU64,
    go: AtomicU64,
}

/// Measures round trips of a number of pairs at the same time, in round trips per second of all
/// pairs together.
fn together(settings: &Settings, pairs: u64, wait: Wait) -> Result {
    const WARM_UP: u64 = 20;
    let session = Session::open(settings)?;
    let message = [0x5a; MESSAGE];
    let warm = session.echo(wait, &message, WARM_UP)?;
    let one = warm.iter().sum::<f64>() / WARM_UP as f64;
    let rounds = (settings.rounds(one) / pairs).max(WARM_UP);
    drop(session);
    let mut samples = Samples::new();
    for repetition in 1..=settings.repetitions {
        settings.repetition("pairs", pairs, repetition)?;
        let nanoseconds = one_run(settings, pairs, wait, rounds)?;
        samples.add([(pairs * rounds) as f64 * 1e9 / nanoseconds].to_vec());
    }
    settings.print_with("pairs", pairs, Unit::PerSecond, samples, |line| {
        line.with_text("path", path_name(settings))
            .with_text("wait", wait.name())
    });
    Ok(())
}

/// Runs all pairs once. Returns the nanoseconds from their common start to the end of the last.
fn one_run(settings: &Settings, pairs: u64, wait: Wait, rounds: u64) -> Result<f64> {
    let start = Arc::new(Start {
        ready: AtomicU64::new(0),
        go: AtomicU64::new(0),
    });
    let mut threads = Vec::new();
    for _ in 0..pairs {
        let (start, own) = (start.clone(), settings.clone());
        let run = move || -> Result {
            let session = Session::open(&own);
            start.ready.fetch_add(1, Ordering::AcqRel);
            let session = session?;
            while start.go.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
            session.echo(wait, &[0x5a; MESSAGE], rounds).map(|_| ())
        };
        threads.push(thread::spawn(run).context("a thread")?);
    }
    while start.ready.load(Ordering::Acquire) < pairs {
        thread::yield_now();
    }
    let begin = ticks();
    start.go.store(1, Ordering::Release);
    for thread in threads {
        let result = thread
            .join()
            .map_err(|error| Failure::from(alloc::format!("{error}")))?;
        result?;
    }
    Ok(settings.rate.between(begin, ticks()))
}
