//! Costs against the number of connections, windows, mapped pages and nodes: those of the data
//! path should not grow with them. Also the memory of a connection and of a window, on both nodes
//! together.
//!
//! Seconds pass between the measurements with few and with many, and within seconds the speed of
//! the machine changes by more than the effect to be measured. So each repetition is followed by
//! one of a yardstick, which none of these numbers can slow down: for round trips a plain ring
//! with as many bytes in mapped windows (`…_rtt_yard`), for RMA a plain copy of as many bytes
//! (`…_rma_yard`). The result is the time of a step in yardsticks.

use alloc::vec::Vec;

use scif::{Endpoint, Mapping, Memory, Protection, RmaFlags, View};

use super::costs::idle_port;
use super::latency::{Play, rounds_of, with_table};
use super::server::free_memory;
use super::session::{PAGE, Session, connect};
use super::wire::{Request, Verb, Wait};
use super::{Context, Result, Settings};
use crate::report::Unit;
use crate::samples::Samples;
use crate::timing;

/// Bytes in a message.
const MESSAGE: usize = 64;

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    if settings.wants("idle") {
        idle(settings).context("idle")?;
    }
    if settings.wants("windows") {
        windows(settings).context("windows")?;
    }
    if settings.wants("pages") {
        pages(settings).context("pages")?;
    }
    if settings.wants("nodes") {
        let online = scif::nodes()?.online.len() as u64;
        with_table(settings, MESSAGE as u64, |play| {
            round_trips(&Session::open(settings)?, play, "nodes_rtt", online)
        })
        .context("nodes")?;
    }
    Ok(())
}

/// Those of `numbers` that are at most the limit in the settings, or `default` without one.
pub fn steps(settings: &Settings, numbers: &[u64], default: u64) -> Vec<u64> {
    let max = settings.max.unwrap_or(default);
    let small = numbers.iter().copied().filter(|number| *number <= max);
    small.collect()
}

/// Measures round trips over a connection in every way of waiting of the settings, and the
/// yardstick.
fn round_trips(session: &Session<'_>, play: Play<'_>, test: &str, number: u64) -> Result {
    let settings = session.settings;
    for wait in settings.waits() {
        let rounds = rounds_of(settings, play)?;
        let mut yard = Samples::new();
        let between = || {
            yard.add(play(rounds)?);
            Ok(())
        };
        let samples = session.round_trips_between(test, wait, MESSAGE, between)?;
        print_both(settings, test, number, [samples, yard], Some(wait));
    }
    Ok(())
}

/// Prints a result and that of its yardstick.
pub fn print_both(
    settings: &Settings,
    test: &str,
    number: u64,
    [samples, yard]: [Samples; 2],
    wait: Option<Wait>,
) {
    let turns = alloc::format!("{test} {number}");
    let yardstick = alloc::format!("{test}_yard");
    for (test, samples) in [(test, samples), (&yardstick, yard)] {
        settings.print_with(test, number, Unit::Nanoseconds, samples, |line| {
            let line = line.with_text("turns", &turns);
            match wait {
                Some(wait) => line.with_text("wait", wait.name()),
                None => line,
            }
        });
    }
}

/// The free memory of both nodes before the objects to be measured were made.
struct Unused<'a, 's> {
    session: &'a Session<'s>,
    bytes: u64,
}

impl<'a, 's> Unused<'a, 's> {
    /// Fewest objects to divide by: with fewer, the granularity in which programs request memory
    /// shows.
    const LEAST: u64 = 100;

    fn now(session: &'a Session<'s>) -> Result<Self> {
        let bytes = Self::free(session)?;
        Ok(Self { session, bytes })
    }

    fn free(session: &Session<'_>) -> Result<u64> {
        Ok(free_memory()? + session.ask(&Request::new(Verb::Free, 0))?)
    }

    /// Prints how many bytes each of `number` objects occupies on both nodes together.
    fn print(&self, test: &str, number: u64) -> Result {
        if number < Self::LEAST {
            return Ok(());
        }
        let used = self.bytes.saturating_sub(Self::free(self.session)?);
        let mut samples = Samples::new();
        samples.add([used as f64 / number as f64].to_vec());
        let settings = self.session.settings;
        settings.print(test, number, Unit::Bytes, samples);
        Ok(())
    }
}

fn idle(settings: &Settings) -> Result {
    let session = Session::open(settings)?;
    let counts = steps(settings, &[1, 10, 100, 1000, 2000, 4000], 1000);
    let forget = || session.ask(&Request::new(Verb::Forget, 0)).map(|_| ());
    // Memory is measured first, because programs keep memory that their samples have once taken.
    let unused = Unused::now(&session)?;
    let mut open = Vec::new();
    for &count in &counts {
        connect_until(settings, &mut open, count)?;
        unused.print("idle_memory", count)?;
    }
    open.clear();
    forget()?;
    with_table(settings, MESSAGE as u64, |play| {
        for &count in &counts {
            connect_until(settings, &mut open, count)?;
            round_trips(&session, play, "idle_rtt", count)?;
        }
        Ok(())
    })?;
    drop(open);
    forget()
}

/// Adds unused connections until there are `count`.
fn connect_until(settings: &Settings, open: &mut Vec<Endpoint>, count: u64) -> Result {
    while (open.len() as u64) < count {
        settings.progress("connecting", open.len() as u64, 1);
        open.push(connect(idle_port(settings)).context("one more connection")?);
    }
    Ok(())
}

/// Transfers of one page from the peer, and their yardstick: a copy from a mapped page.
struct Transfers<'a, 's> {
    session: &'a Session<'s>,
    memory: &'a Memory,
    mapped: &'a View,
}

impl Transfers<'_, '_> {
    fn measure(&self, test: &str, number: u64, remote: i64) -> Result {
        let (session, settings) = (self.session, self.session.settings);
        let window = session.endpoint.register(self.memory)?;
        let read = || -> Result {
            let part = window.part(0..PAGE)?;
            Ok(session.endpoint.read_from(part, remote, RmaFlags::SYNC)?)
        };
        // From their second use on the library has both windows mapped.
        read()?;
        read()?;
        let mut page = alloc::vec![0; PAGE];
        let mut copy = || -> Result { Ok(self.mapped.copy_out(0, &mut page)?) };
        let (mut samples, mut yard) = (Samples::new(), Samples::new());
        let (rate, budget) = (settings.rate, settings.budget_ns);
        for repetition in 1..=settings.repetitions {
            settings.repetition(test, number, repetition)?;
            samples.add(timing::durations(rate, budget, read)?);
            yard.add(timing::durations(rate, budget, &mut copy)?);
        }
        print_both(settings, test, number, [samples, yard], None);
        Ok(window.unregister()?)
    }
}

/// Has the server register windows until there are `count`. Returns the offset of the last one.
fn register_until(session: &Session<'_>, count: u64) -> Result<i64> {
    session.settings.progress("registering", count, 1);
    let more = Request {
        count,
        ..Request::new(Verb::Multiply, 0)
    };
    session.ask(&more).map(|last| last as i64)
}

/// Measures the memory of windows, in a session without samples of times.
fn window_memory(settings: &Settings, numbers: &[u64]) -> Result {
    let session = Session::open(settings)?;
    session.borrow(PAGE as u64)?;
    let unused = Unused::now(&session)?;
    for &count in numbers {
        register_until(&session, count)?;
        unused.print("window_memory", count)?;
    }
    session.release()
}

fn windows(settings: &Settings) -> Result {
    let numbers = steps(settings, &[1, 10, 100, 1000, 10_000, 100_000], 10_000);
    window_memory(settings, &numbers)?;
    let session = Session::open(settings)?;
    let memory = Memory::new(PAGE)?;
    let first = session.borrow(PAGE as u64)?;
    let mapped = session.endpoint.map(first, PAGE, Protection::READ)?;
    let transfers = Transfers {
        session: &session,
        memory: &memory,
        mapped: &mapped,
    };
    with_table(settings, MESSAGE as u64, |play| {
        for count in numbers {
            let last = register_until(&session, count)?;
            transfers.measure("windows_rma", count, last)?;
            round_trips(&session, play, "windows_rtt", count)?;
        }
        Ok(())
    })?;
    drop(mapped);
    session.release()
}

fn pages(settings: &Settings) -> Result {
    /// Pages of one mapping; the same pages are mapped repeatedly.
    const WINDOW_PAGES: u64 = 4096;
    let session = Session::open(settings)?;
    let memory = Memory::new(PAGE)?;
    let remote = session.borrow(WINDOW_PAGES * PAGE as u64)?;
    let rights = Protection::READ | Protection::WRITE;
    let first = session.endpoint.map(remote, PAGE, rights)?;
    let transfers = Transfers {
        session: &session,
        memory: &memory,
        mapped: &first,
    };
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut mapped = 1;
    with_table(settings, MESSAGE as u64, |play| {
        for count in steps(settings, &[1, 16, 256, 4096, 16_384, 65_536], 65_536) {
            while mapped < count {
                let now = WINDOW_PAGES.min(count - mapped);
                let mapping = session.endpoint.map(remote, now as usize * PAGE, rights);
                mappings.push(mapping.context("one more mapping")?);
                mapped += now;
            }
            transfers.measure("pages_rma", count, remote)?;
            round_trips(&session, play, "pages_rtt", count)?;
        }
        Ok(())
    })?;
    drop(mappings);
    drop(first);
    session.release()
}
