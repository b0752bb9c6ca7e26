//! The scheduler as programs see it: two threads that wake each other run before a third one that
//! only counts, and that one still has its turns.
//!
//! `turns-test`, on a node with one processor. It compares what it sees with the kernel's count of
//! turns (`/scheme/sys/stat`). No check depends on how long something takes: on a slow machine a
//! turn can be over before the thread counts once, and a thread that the host holds up for a slice
//! counts as one that computes until it sleeps.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use guest_tests::Suite;
use runtime::{fs, probe, thread};
use syscall::{FUTEX_WAIT, FUTEX_WAKE};

runtime::main!(main);

/// Rounds in which the counting thread has to run.
const TURNS: u64 = 200;
/// Rounds after which it counts as starved: it has one of about 15 on a fast machine, and more on a
/// slow one.
const MOST_ROUNDS: u64 = 200_000;
/// Rounds between two looks at the kernel's count.
const ROUNDS: u64 = 64;

static STOP: AtomicBool = AtomicBool::new(false);
/// The counts of the counting thread.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The word that the main thread sleeps on. Its value never changes, so each wait sleeps.
static MAIN: AtomicU32 = AtomicU32::new(0);
/// The same of the answering thread.
static ANSWERING: AtomicU32 = AtomicU32::new(0);

fn main() -> i32 {
    let mut suite = Suite::new("turns-test");
    match watch() {
        Ok(Seen {
            rounds,
            moved,
            owed,
        }) => {
            runtime::println!(
                "turns-test: in {rounds} rounds of two wake-ups the computing thread ran in \
                 {moved}, and was owed {owed} turns"
            );
            // Without preemption the computing thread runs in each round. It may run in some
            // without being owed a turn: when the host has held up one of the others.
            suite.holds("who was woken goes first", moved <= owed + rounds / 8);
            suite.holds("who computes has its turns", moved >= TURNS);
        }
        Err(why) => suite.check("threads that wake each other", Err(why)),
    }
    suite.finish()
}

/// The counts of a time in which two threads woke each other.
struct Seen {
    rounds: u64,
    /// Rounds in which the counting thread ran.
    moved: u64,
    /// Turns of contexts that compute for which woken ones had to wait.
    owed: u64,
}

fn watch() -> Result<Seen, String> {
    let text = |error| format!("{error}");
    let answering = thread::spawn(answer).map_err(text)?;
    let counting = thread::spawn(count).map_err(text)?;
    let seen = run_until_owed().and_then(|()| see(TURNS));
    STOP.store(true, Ordering::Release);
    wake(&ANSWERING);
    answering.join().map_err(text)?;
    counting.join().map_err(text)?;
    seen
}

/// Plays rounds until the counting thread, which was woken when it started, counts as one that
/// computes.
fn run_until_owed() -> Result<(), String> {
    let first = owed()?;
    for number in 0..MOST_ROUNDS {
        round();
        if number % ROUNDS == 0 && owed()? > first {
            return Ok(());
        }
    }
    Err(format!("no turn was owed in {MOST_ROUNDS} rounds"))
}

/// Plays rounds until the counting thread ran in this number of them, or has starved.
fn see(turns: u64) -> Result<Seen, String> {
    let first = owed()?;
    let mut seen = Seen {
        rounds: 0,
        moved: 0,
        owed: 0,
    };
    let mut last = COUNT.load(Ordering::Relaxed);
    while seen.moved < turns && seen.rounds < MOST_ROUNDS {
        round();
        let count = COUNT.load(Ordering::Relaxed);
        seen.moved += u64::from(count != last);
        seen.rounds += 1;
        last = count;
    }
    seen.owed = owed()? - first;
    Ok(seen)
}

/// `turns_owed` of the kernel.
fn owed() -> Result<u64, String> {
    let stat = fs::read_to_string("/scheme/sys/stat").map_err(|error| format!("{error}"))?;
    let line = stat
        .lines()
        .find_map(|line| line.strip_prefix("turns_owed: "));
    line.and_then(|value| value.parse().ok())
        .ok_or_else(|| String::from("sys/stat has no turns_owed"))
}

/// Computes.
fn count() {
    while !STOP.load(Ordering::Acquire) {
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
}

/// Wakes the answering thread, and is woken by it.
fn round() {
    wake(&ANSWERING);
    sleep_on(&MAIN);
}

fn answer() {
    loop {
        sleep_on(&ANSWERING);
        if STOP.load(Ordering::Acquire) {
            return;
        }
        wake(&MAIN);
    }
}

fn sleep_on(word: &AtomicU32) {
    futex(word, FUTEX_WAIT, 0);
}

/// Wakes the thread that sleeps on a word; lets it run until it does.
fn wake(word: &AtomicU32) {
    while futex(word, FUTEX_WAKE, 1) != 1 {
        thread::yield_now();
    }
}

/// The call's answer: of a wake-up the number of threads that were woken.
fn futex(word: &AtomicU32, operation: usize, value: usize) -> usize {
    let address = core::ptr::from_ref(word).addr();
    probe::syscall(syscall::SYS_FUTEX, [address, operation, value, 0, 0, 0])
}
