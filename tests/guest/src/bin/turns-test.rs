//! The scheduler as programs see it: a woken thread runs before one that only counts, and that one
//! still has its turns.
//!
//! `turns-test`, on a node with one processor. It compares what it sees with the kernel's counts
//! (`/scheme/sys/stat`). No check depends on how long something takes: on a slow machine a turn can
//! be over before the thread counts once, and a thread that the host holds up has used its turn,
//! which the kernel counts.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use guest_tests::{Suite, kernel_count};
use runtime::{probe, thread};
use syscall::{FUTEX_WAIT, FUTEX_WAKE};

runtime::main!(main);

/// Turns that the counting thread has to have.
const TURNS: u64 = 200;
/// Rounds after which it counts as starved: it has one of about 15 on a fast machine, and more on a
/// slow one.
const MOST_ROUNDS: u64 = 100_000;
/// Rounds between two looks at the kernel's count.
const ROUNDS: u64 = 64;
/// Wake-ups by the counting thread, beside those that a turn it is owed may have held up.
const WAKE_UPS: u64 = 1000;
/// As many are not played: a turn is owed all the time.
const MOST_WAKE_UPS: u64 = 20_000;
/// Counts before each of these wake-ups: they take much longer than the woken thread does, so that
/// no turn is owed to the counting thread unless the host has held up another one.
const COUNTS: u64 = 5000;

static STOP: AtomicBool = AtomicBool::new(false);
/// The counts of the counting thread.
static COUNT: AtomicU64 = AtomicU64::new(0);
/// The last wake-up that the main thread asked of the counting thread.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// The last wake-up after which the counting thread has gone on.
static WENT_ON: AtomicU64 = AtomicU64::new(0);
/// The word that the main thread sleeps on. Its value never changes, so each wait sleeps.
static MAIN: AtomicU32 = AtomicU32::new(0);
/// The same of the answering thread.
static ANSWERING: AtomicU32 = AtomicU32::new(0);

fn main() -> i32 {
    let mut suite = Suite::new("turns-test");
    let threads = watch(&mut suite);
    suite.check("threads", threads);
    suite.finish()
}

/// Starts the threads, and checks what they see.
fn watch(suite: &mut Suite) -> Result<(), String> {
    let text = |error| format!("{error}");
    let answering = thread::spawn(answer).map_err(text)?;
    let counting = thread::spawn(count).map_err(text)?;
    suite.check(
        "who computes has its turns",
        run_until_owed().and_then(|()| share()),
    );
    suite.check("who is woken interrupts who computes", interrupt());
    STOP.store(true, Ordering::Release);
    wake(&ANSWERING);
    answering.join().map_err(text)?;
    counting.join().map_err(text)
}

/// Plays rounds until the counting thread, which was woken when it started, counts as one that
/// computes.
fn run_until_owed() -> Result<(), String> {
    let first = kernel_count("turns_owed")?;
    for number in 0..MOST_ROUNDS {
        round();
        if number % ROUNDS == 0 && kernel_count("turns_owed")? > first {
            return Ok(());
        }
    }
    Err(format!("no turn was owed in {MOST_ROUNDS} rounds"))
}

/// Plays rounds until the counting thread was owed its turns and ran in as many rounds. On a slow
/// machine it does not count in each turn.
fn share() -> Result<(), String> {
    let first = kernel_count("turns_owed")?;
    let (mut rounds, mut moved, mut owed) = (0, 0, 0);
    let mut last = COUNT.load(Ordering::Relaxed);
    while (moved < TURNS || owed < TURNS) && rounds < MOST_ROUNDS {
        for _ in 0..ROUNDS {
            round();
            let count = COUNT.load(Ordering::Relaxed);
            moved += u64::from(count != last);
            last = count;
        }
        rounds += ROUNDS;
        owed = kernel_count("turns_owed")? - first;
    }
    let seen = format!(
        "in {rounds} rounds of two wake-ups the computing thread ran in {moved}, and was owed \
         {owed} turns"
    );
    runtime::println!("turns-test: {seen}");
    match moved >= TURNS && owed >= TURNS {
        true => Ok(()),
        false => Err(seen),
    }
}

/// Has the counting thread wake the main one. It goes on before the main thread has run only while
/// it is owed a turn, which holds up one wake-up: the next one is not asked for before that turn is
/// over.
fn interrupt() -> Result<(), String> {
    let first = kernel_count("turns_due")?;
    // A turn that became due before that may hold up this one.
    is_late();
    let (mut wake_ups, mut late, mut due) = (0, 0, 0);
    while wake_ups < due + WAKE_UPS && late <= due && wake_ups < MOST_WAKE_UPS {
        let was_late = is_late();
        wake_ups += 1;
        late += u64::from(was_late);
        if was_late || wake_ups % ROUNDS == 0 {
            due = kernel_count("turns_due")? - first;
        }
    }
    let seen = format!(
        "after {late} of {wake_ups} wake-ups the computing thread went on first, and {due} turns \
         became due to it"
    );
    runtime::println!("turns-test: {seen}");
    match late <= due && wake_ups >= due + WAKE_UPS {
        true => Ok(()),
        false => Err(seen),
    }
}

/// Sleeps until the counting thread wakes this one; whether that one has gone on before.
fn is_late() -> bool {
    let asked = ASKED.fetch_add(1, Ordering::AcqRel) + 1;
    sleep_on(&MAIN);
    WENT_ON.load(Ordering::Acquire) == asked
}

/// Computes, and wakes the main thread when that asks for it.
fn count() {
    let mut woken = 0;
    while !STOP.load(Ordering::Acquire) {
        COUNT.fetch_add(1, Ordering::Relaxed);
        let asked = ASKED.load(Ordering::Acquire);
        if asked == woken {
            continue;
        }
        for _ in 0..COUNTS {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
        // Until the main thread sleeps. A thread that yields is no longer one that computes.
        while futex(&MAIN, FUTEX_WAKE, 1) != 1 {
            core::hint::spin_loop();
        }
        WENT_ON.store(asked, Ordering::Release);
        woken = asked;
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
