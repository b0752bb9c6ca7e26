//! Runs worlds of every kind for many seeds on several threads, reports progress, and sums up.

use std::io::Write;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::faults::Faults;
use crate::mads::{self, MadSettings};
use crate::st::sessions::{self, SessionSettings};
use crate::st::{self, StSettings};
use crate::trace::Failure;
use crate::verbs::{self, VerbsSettings};
use crate::world::{Settings, Spoil};
use crate::{bypass, hostile, world};

/// Steps in a world of nodes, and in one of bypass clients.
const STEPS: u64 = 3000;

/// Steps in an attack by a hostile peer.
const ATTACK_STEPS: u64 = 1500;

/// Steps in a world of management datagrams.
const DATAGRAM_STEPS: u64 = 1000;

/// Steps in the worlds of a sweep, which refuse each allocation in turn and kill the client of
/// each call in turn.
const SWEEP_STEPS: u64 = 250;

/// Steps in the worlds of a sweep in which an end of a Scheduled Transfer dies at each store in
/// turn.
const SHORT_STEPS: u64 = 150;

/// One seed in this number is swept, because a sweep takes as long as many random worlds.
const SWEEP_EVERY: u64 = 8;

/// Number of violations after which the run stops.
const MOST_VIOLATIONS: u64 = 10;

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(2);

/// The sum over many worlds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Total {
    /// Number of seeds that are done.
    pub seeds: u64,
    /// Number of worlds played.
    pub worlds: u64,
    /// Number of steps taken in them.
    pub steps: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Number of worlds in which a rule was broken.
    pub violations: u64,
}

impl Total {
    fn add(&mut self, other: &Total) {
        self.seeds += other.seeds;
        self.worlds += other.worlds;
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.violations += other.violations;
    }

    /// Counts one world that ended without failure.
    fn count(&mut self, steps: u64, faults: &Faults) {
        self.worlds += 1;
        self.steps += steps;
        self.faults.add(faults);
    }
}

/// Plays all worlds of one seed. Returns the counts and the broken rules.
pub fn play_seed(seed: u64) -> (Total, Vec<Failure>) {
    let mut total = Total::default();
    let mut failures = Vec::new();
    match world::run(Settings::new(seed, STEPS)) {
        Ok(report) => total.count(report.steps, &report.faults),
        Err(failure) => failures.push(failure),
    }
    let storm = Settings {
        is_storm: true,
        ..Settings::new(seed, STEPS)
    };
    match world::run(storm) {
        Ok(report) => total.count(report.steps, &report.faults),
        Err(failure) => failures.push(failure),
    }
    match bypass::run(seed, STEPS, None) {
        Ok(report) => total.count(report.steps, &report.faults),
        Err(failure) => failures.push(failure),
    }
    match hostile::run_hostile(seed, ATTACK_STEPS) {
        Ok(report) => total.count(ATTACK_STEPS, &report.faults),
        Err(failure) => failures.push(failure),
    }
    if let Err(failure) = play_transfers(seed, &mut total) {
        failures.push(failure);
    }
    if let Err(failure) = play_datagrams(seed, &mut total) {
        failures.push(failure);
    }
    if seed.is_multiple_of(SWEEP_EVERY)
        && let Err(failure) = sweep(seed, &mut total)
    {
        failures.push(failure);
    }
    total.seeds = 1;
    total.violations = failures.len() as u64;
    (total, failures)
}

/// Plays the worlds of Scheduled Transfers, of sessions and of RDMA verbs: one of each whose
/// programs die, and one of each with a hostile program.
///
/// # Errors The first rule that was broken.
fn play_transfers(seed: u64, total: &mut Total) -> Result<(), Failure> {
    for is_hostile in [false, true] {
        let settings = StSettings {
            steps: STEPS,
            is_hostile,
            ..StSettings::default()
        };
        let report = st::run(seed, settings)?;
        total.count(report.steps, &report.faults);
        let settings = SessionSettings {
            steps: STEPS,
            is_hostile,
            ..SessionSettings::default()
        };
        let report = sessions::run(seed, settings)?;
        total.count(report.steps, &report.faults);
        let settings = VerbsSettings {
            steps: STEPS,
            is_hostile,
            ..VerbsSettings::default()
        };
        let report = verbs::run(seed, settings)?;
        total.count(report.steps, &report.faults);
    }
    Ok(())
}

/// Plays the worlds of management datagrams: one over a good wire, and one with faults.
///
/// # Errors The first rule that was broken.
fn play_datagrams(seed: u64, total: &mut Total) -> Result<(), Failure> {
    for is_calm in [true, false] {
        let settings = MadSettings {
            steps: DATAGRAM_STEPS,
            is_calm,
            bug: None,
        };
        let report = mads::run(seed, settings)?;
        total.count(report.steps, &report.faults);
    }
    Ok(())
}

/// Plays small worlds again and again, each with another single fault. First each allocation is
/// refused in turn, then the client of each call is killed. A program of a transfer or of verbs
/// dies at each store in turn, and a session's connection is cut at each store in turn.
///
/// # Errors The first rule that was broken.
pub fn sweep(seed: u64, total: &mut Total) -> Result<(), Failure> {
    let settings = |spoil| Settings {
        spoil: Some(spoil),
        ..Settings::new(seed, SWEEP_STEPS)
    };
    // No allocation has the number 0.
    let whole = world::run(settings(Spoil::Allocation(0)))?;
    let allocations = (1..=whole.allocations).map(Spoil::Allocation);
    for spoil in allocations.chain((1..=whole.calls).map(Spoil::Call)) {
        let report = world::run(settings(spoil))?;
        total.count(report.steps, &report.faults);
    }
    st::sweep(seed, SHORT_STEPS, |report| {
        total.count(report.steps, &report.faults);
    })?;
    sessions::sweep(seed, SHORT_STEPS, |report| {
        total.count(report.steps, &report.faults);
    })?;
    verbs::sweep(seed, SHORT_STEPS, |report| {
        total.count(report.steps, &report.faults);
    })
}

/// Plays all seeds on `threads` threads. Passes the counts to `progress` and failures to `failed`.
pub fn play_all(
    seeds: Range<u64>,
    threads: usize,
    progress: impl Fn(&Total, Duration) + Sync,
    failed: impl Fn(&Failure) + Sync,
) -> Total {
    let next = AtomicU64::new(seeds.start);
    let stop = AtomicBool::new(false);
    let sum = Mutex::new((Total::default(), Instant::now()));
    let begun = Instant::now();
    let work = || {
        while !stop.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let (total, failures) = play_seed(seed);
            failures.iter().for_each(&failed);
            let Ok(mut sum) = sum.lock() else { return };
            sum.0.add(&total);
            if sum.0.violations >= MOST_VIOLATIONS {
                stop.store(true, Ordering::Relaxed);
            }
            if sum.1.elapsed() >= PROGRESS {
                sum.1 = Instant::now();
                progress(&sum.0, begun.elapsed());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(work);
        }
    });
    sum.into_inner().unwrap_or_else(|held| held.into_inner()).0
}

/// Prints the progress line, for a terminal or a log.
pub fn show_progress(seeds: u64, total: &Total, elapsed: Duration) {
    let rate = total.steps as f64 / elapsed.as_secs_f64();
    let mut out = std::io::stderr().lock();
    let Total {
        worlds,
        steps,
        violations,
        ..
    } = total;
    let (done, faults) = (total.seeds, total.faults.total());
    // A failure to print only means that no one reads the progress any more, so the run goes on.
    let _ = writeln!(
        out,
        "sim: {done} of {seeds} seeds, {worlds} worlds, {steps} steps, {faults} faults, \
         {violations} violations, {rate:.0} steps/s"
    );
}
