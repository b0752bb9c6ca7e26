//! Round trips and registration while a thread computes: on no node, on the own node, or on the
//! server's.
//!
//! Besides the median of each repetition there is a result of its slowest calls (the test `…_p99`
//! or `…_p90`): a program that competes for the processor waits long now and then, and a median
//! would not show it.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicBool, Ordering};

use hal::clock::ticks;
use runtime::thread::{self, JoinHandle};
use runtime::time::{Duration, sleep};
use scif::Memory;

use super::latency::path_name;
use super::session::Session;
use super::wire::{Request, Verb, Wait};
use super::{Context, Result, Settings};
use crate::report::{Line, Unit};
use crate::samples::{Samples, percentile};

/// The tests: what is measured, and where a thread computes meanwhile.
const TESTS: &[(&str, Work, Place)] = &[
    ("echo_idle", Work::Echo, Place::Nowhere),
    ("echo_own", Work::Echo, Place::Own),
    ("echo_peer", Work::Echo, Place::Peer),
    ("register_idle", Work::Register, Place::Nowhere),
    ("register_own", Work::Register, Place::Own),
    ("register_peer", Work::Register, Place::Peer),
];

#[derive(Clone, Copy, PartialEq)]
enum Work {
    /// Round trips of messages.
    Echo,
    /// Registering a window of the given size.
    Register,
}

/// Where a thread computes meanwhile.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// On no node.
    Nowhere,
    /// On the node that measures.
    Own,
    /// On the server's node.
    Peer,
}

/// The percentile for round trips, of which a repetition has hundreds or more.
pub const TAIL: usize = 99;

/// Default sizes of a message and of a window, in bytes.
const MESSAGE: u64 = 64;
const WINDOW: u64 = 64 * 4096;
/// How long a thread computes before the measurement begins: several time slices of any kernel.
const SETTLING: Duration = Duration::from_millis(20);

/// Runs the tests of this module that the settings name.
pub fn run(settings: &Settings) -> Result {
    for &(test, work, place) in TESTS {
        if !settings.wants(test) {
            continue;
        }
        let size = if work == Work::Echo { MESSAGE } else { WINDOW };
        for size in settings.sizes(&[size]) {
            match work {
                Work::Echo => echo(settings, test, place, size),
                Work::Register => register(settings, test, place, size),
            }
            .context(test)?;
        }
    }
    Ok(())
}

/// A thread that computes until this is dropped.
pub struct Spinner {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start() -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        // Arithmetic without pause instructions: at each of them QEMU's emulator leaves its loop
        // to take a lock that its timers and doorbells need.
        let spin = move || {
            let mut number = 0_u64;
            while !seen.load(Ordering::Relaxed) {
                for _ in 0..1000 {
                    number = black_box(number.wrapping_mul(3).wrapping_add(1));
                }
            }
        };
        Ok(Self {
            stop,
            thread: Some(thread::spawn(spin).context("a thread")?),
        })
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread returns nothing, and cannot panic.
            let _ = thread.join();
        }
    }
}

/// A connection by which a thread on either node can be made to compute.
pub struct Asking<'a>(Session<'a>);

impl<'a> Asking<'a> {
    /// Makes a connection of its own, so that its requests do not disturb the one that is
    /// measured.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn open(settings: &'a Settings) -> Result<Self> {
        Session::open(settings).map(Self)
    }

    /// Runs `work` while a thread computes at `place`.
    ///
    /// # Errors
    /// The errors of `work`. No thread can be started.
    pub fn beside<T>(&self, place: Place, work: impl FnOnce() -> Result<T>) -> Result<T> {
        beside(&self.0, place, work)
    }
}

/// Runs `work` while a thread computes at `place`; `session` asks the server for a thread on its
/// node.
fn beside<T>(session: &Session<'_>, place: Place, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let own = (place == Place::Own).then(Spinner::start).transpose()?;
    let ask = |count| {
        let request = Request {
            count,
            ..Request::new(Verb::Spin, 0)
        };
        match place {
            Place::Peer => session.ask(&request).map(drop),
            _ => Ok(()),
        }
    };
    ask(1)?;
    sleep(SETTLING);
    let result = work();
    drop(own);
    ask(0)?;
    result
}

/// The medians of repetitions, and another percentile of each.
pub struct Spread {
    all: Samples,
    tail: Samples,
    /// The other percentile.
    percent: usize,
}

impl Spread {
    /// Without repetitions yet, and with this percentile.
    pub fn new(percent: usize) -> Self {
        Self {
            all: Samples::new(),
            tail: Samples::new(),
            percent,
        }
    }

    /// Adds a repetition.
    pub fn add(&mut self, mut repetition: Vec<f64>) {
        repetition.sort_unstable_by(f64::total_cmp);
        let tail = percentile(&repetition, self.percent);
        self.tail.add(tail.into_iter().collect());
        self.all.add(repetition);
    }

    /// Prints a line for the medians and one for the percentile.
    pub fn print(self, settings: &Settings, test: &str, size: u64, keys: impl Fn(Line) -> Line) {
        let tail = format!("{test}_p{}", self.percent);
        settings.print_with(test, size, Unit::Nanoseconds, self.all, &keys);
        settings.print_with(&tail, size, Unit::Nanoseconds, self.tail, &keys);
    }
}

fn echo(settings: &Settings, test: &str, place: Place, size: u64) -> Result {
    let wait = match settings.waits().contains(&Wait::Block) && settings.waits().len() == 1 {
        true => Wait::Block,
        false => Wait::Usual,
    };
    // Another connection than that of the echoes asks for the thread.
    let (session, asking) = (Session::open(settings)?, Asking::open(settings)?);
    let message = alloc::vec![0x5a; size as usize];
    const WARM_UP: u64 = 20;
    let warm = session.echo(wait, &message, WARM_UP)?;
    let rounds = settings.rounds(warm.iter().sum::<f64>() / WARM_UP as f64);
    let mut spread = Spread::new(TAIL);
    for repetition in 1..=settings.repetitions {
        settings.repetition(test, size, repetition)?;
        spread.add(asking.beside(place, || session.echo(wait, &message, rounds))?);
    }
    spread.print(settings, test, size, |line| {
        line.with_text("path", path_name(settings))
            .with_text("wait", wait.name())
    });
    Ok(())
}

fn register(settings: &Settings, test: &str, place: Place, size: u64) -> Result {
    /// A repetition has some hundred windows at most, so a higher percentile would be one sample.
    const TAIL: usize = 90;
    /// Fewest windows in a repetition, for that percentile.
    const LEAST: usize = 10;
    let session = Session::open(settings)?;
    let memory = Memory::new(size as usize).context("memory for a window")?;
    let mut spread = Spread::new(TAIL);
    for repetition in 1..=settings.repetitions {
        settings.repetition(test, size, repetition)?;
        spread.add(beside(&session, place, || {
            let mut times = Vec::new();
            let limit = ticks() + settings.rate.ticks(settings.budget_ns);
            while times.len() < LEAST || ticks() < limit {
                let start = ticks();
                let window = session.endpoint.register(&memory)?;
                times.push(settings.rate.between(start, ticks()));
                window.unregister()?;
            }
            Ok(times)
        })?);
    }
    spread.print(settings, test, size, |line| line);
    Ok(())
}
