//! What grows with the number of connections, windows, mapped pages and nodes: nothing of the data
//! path should.

use alloc::vec::Vec;

use scif::{Mapping, Memory, Protection, RmaFlags};
use scif_perf::report::Unit;
use scif_perf::samples::Samples;
use scif_perf::timing;

use super::costs::idle_port;
use super::session::{PAGE, Session, connect};
use super::wire::{Request, Verb};
use super::{Context, Result, Settings};

/// Bytes of the messages.
const MESSAGE: usize = 64;

/// Runs the tests of this module that are asked for.
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
        round_trips(&Session::open(settings)?, "nodes_rtt", online).context("nodes")?;
    }
    Ok(())
}

/// These numbers up to the limit the user sets, or this one.
fn steps(settings: &Settings, numbers: &[u64], default: u64) -> Vec<u64> {
    let max = settings.max.unwrap_or(default);
    let small = numbers.iter().copied().filter(|number| *number <= max);
    small.collect()
}

/// Round trips over a connection, in every way of waiting that is asked for.
fn round_trips(session: &Session<'_>, test: &str, number: u64) -> Result {
    for wait in session.settings.waits() {
        let samples = session.round_trips(test, wait, MESSAGE)?;
        let unit = Unit::Nanoseconds;
        let settings = session.settings;
        settings.print_with(test, number, unit, samples, |line| {
            line.with_text("wait", wait.name())
        });
    }
    Ok(())
}

fn idle(settings: &Settings) -> Result {
    let session = Session::open(settings)?;
    let mut open = Vec::new();
    for count in steps(settings, &[1, 10, 100, 1000, 2000, 4000], 1000) {
        while (open.len() as u64) < count {
            settings.progress("connecting", open.len() as u64, 1);
            open.push(connect(idle_port(settings)).context("one more connection")?);
        }
        round_trips(&session, "idle_rtt", count)?;
    }
    drop(open);
    session.ask(&Request::new(Verb::Forget, 0)).map(|_| ())
}

/// Transfers of one page from the peer.
struct Transfers<'a, 's> {
    session: &'a Session<'s>,
    memory: &'a Memory,
}

impl Transfers<'_, '_> {
    fn measure(&self, test: &str, number: u64, remote: i64) -> Result {
        let (session, settings) = (self.session, self.session.settings);
        let window = session.endpoint.register(self.memory)?;
        let read = || -> Result {
            let part = window.part(0..PAGE)?;
            Ok(session.endpoint.read_from(part, remote, RmaFlags::SYNC)?)
        };
        let mut samples = Samples::new();
        for repetition in 1..=settings.repetitions {
            settings.progress(test, number, repetition);
            samples.add(timing::durations(settings.rate, settings.budget_ns, read)?);
        }
        settings.print(test, number, Unit::Nanoseconds, samples);
        Ok(window.unregister()?)
    }
}

fn windows(settings: &Settings) -> Result {
    let session = Session::open(settings)?;
    let memory = Memory::new(PAGE)?;
    session.borrow(PAGE as u64)?;
    let transfers = Transfers {
        session: &session,
        memory: &memory,
    };
    let numbers = steps(settings, &[1, 10, 100, 1000, 10_000, 100_000], 10_000);
    for count in numbers {
        settings.progress("registering", count, 1);
        let more = Request {
            count,
            ..Request::new(Verb::Multiply, 0)
        };
        let last = session.ask(&more)? as i64;
        transfers.measure("windows_rma", count, last)?;
        round_trips(&session, "windows_rtt", count)?;
    }
    session.release()
}

fn pages(settings: &Settings) -> Result {
    /// Pages that are mapped at a time, again and again.
    const WINDOW_PAGES: u64 = 4096;
    let session = Session::open(settings)?;
    let memory = Memory::new(PAGE)?;
    let remote = session.borrow(WINDOW_PAGES * PAGE as u64)?;
    let transfers = Transfers {
        session: &session,
        memory: &memory,
    };
    let mut mappings: Vec<Mapping> = Vec::new();
    let mut mapped = 0;
    let rights = Protection::READ | Protection::WRITE;
    for count in steps(settings, &[1, 16, 256, 4096, 16_384, 65_536], 65_536) {
        while mapped < count {
            let now = WINDOW_PAGES.min(count - mapped);
            let mapping = session.endpoint.map(remote, now as usize * PAGE, rights);
            mappings.push(mapping.context("one more mapping")?);
            mapped += now;
        }
        transfers.measure("pages_rma", count, remote)?;
        round_trips(&session, "pages_rtt", count)?;
    }
    drop(mappings);
    session.release()
}
