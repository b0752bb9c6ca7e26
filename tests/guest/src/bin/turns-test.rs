//! The scheduler as programs see it: two threads that wake each other run before a third one that
//! only counts, and that one still has its turns.
//!
//! `turns-test`, on a node with one processor. It compares what it sees with the kernel's count of
//! turns (`/scheme/sys/stat`). No check depends on how long something takes: on a slow machine a
//! turn can be over before the thread counts once, so turns alone are no proof that it computed.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use guest_tests::Suite;
use runtime::time::{Duration, sleep};
use runtime::{fs, probe, thread};
use syscall::{FUTEX_WAIT, FUTEX_WAKE};

runtime::main!(main);

/// Rounds in which the counting thread has to run.
const TURNS: u64 = 200;
/// Rounds after which it counts as starved: far more than it takes.
const MOST_ROUNDS: u64 = 500_000;
/// Rounds between two looks at the kernel's count.
const ROUNDS: u64 = 64;
/// Time in which a thread that is about to sleep does so.
const PAUSE: Duration = Duration::from_millis(1);

static STOP: AtomicBool = AtomicBool::new(false);
/// The counts of the counting thread.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// Odd: it is the turn of the thread that answers.
static TOKEN: AtomicU32 = AtomicU32::new(0);

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
            // A turn may fall between two looks at the kernel's count.
            let some = owed / 10 + 2;
            suite.holds("who was woken goes first", moved <= owed + some);
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
    let seen = settle().and_then(|()| see(TURNS));
    STOP.store(true, Ordering::Release);
    TOKEN.fetch_add(1, Ordering::Release);
    futex(FUTEX_WAKE, 1);
    answering.join().map_err(text)?;
    counting.join().map_err(text)?;
    seen
}

/// Plays rounds until the counting thread, which was woken when it started, counts as one that
/// computes.
fn settle() -> Result<(), String> {
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
    let mut look = |seen: &mut Seen| {
        let count = COUNT.load(Ordering::Relaxed);
        seen.moved += u64::from(count != last);
        last = count;
    };
    while seen.moved < turns && seen.rounds < MOST_ROUNDS {
        let moved = seen.moved;
        let both_slept = round();
        look(&mut seen);
        seen.rounds += 1;
        if !both_slept {
            // The round does not count. Both sleep now.
            sleep(PAUSE);
            look(&mut seen);
            seen.moved = moved;
        }
    }
    seen.owed = owed()? - first;
    look(&mut seen);
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

/// Wakes the answering thread, and is woken by it. `false`: one of them did not sleep. If one ran
/// for so long that it counts as one that computes, each wake-up that it gives interrupts it, and
/// it has its answer before it sleeps.
fn round() -> bool {
    let token = TOKEN.fetch_add(1, Ordering::Release) + 1;
    let has_woken = futex(FUTEX_WAKE, 1) == 1;
    let mut was_woken = false;
    while TOKEN.load(Ordering::Acquire) == token {
        was_woken |= futex(FUTEX_WAIT, token) == 0;
    }
    has_woken && was_woken
}

fn answer() {
    while !STOP.load(Ordering::Acquire) {
        let token = TOKEN.load(Ordering::Acquire);
        match token % 2 {
            0 => {
                futex(FUTEX_WAIT, token);
            }
            _ => {
                TOKEN.fetch_add(1, Ordering::Release);
                futex(FUTEX_WAKE, 1);
            }
        }
    }
}

/// The call's answer: of a wake-up the number of threads that were woken, of a wait 0 if the thread
/// slept.
fn futex(operation: usize, value: u32) -> usize {
    let address = (&raw const TOKEN).addr();
    probe::syscall(
        syscall::SYS_FUTEX,
        [address, operation, value as usize, 0, 0, 0],
    )
}
