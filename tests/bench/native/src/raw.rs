//! The limit of round trips: two threads, each polling a word of its own and storing the other's.

use std::sync::atomic::{AtomicU64, Ordering};

use hal::clock::ticks;
use scif_perf::report::Unit;

use crate::{Settings, Test, threads};

/// A word on a cache line (and a pair of them) of its own.
#[repr(align(256))]
#[derive(Default)]
struct Word(AtomicU64);

#[derive(Default)]
struct Table {
    words: [Word; 2],
}

/// The number that ends the other thread.
const END: u64 = u64::MAX;

/// Number of round trips in a sample.
const ROUNDS: u64 = 100;

/// Returns the test of eight bytes and eight bytes back.
pub fn ping_pong() -> Test<'static> {
    let run = move |settings: &Settings| {
        let table = Table::default();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| answer(&table));
            let samples = play(&table, settings);
            match other.join() {
                Ok(true) => Ok(samples),
                Ok(false) => Err("the second thread could not be bound".into()),
                Err(_) => Err("the second thread panicked".into()),
            }
        })
    };
    Test::new("native_pingpong", 8, Unit::Nanoseconds, run)
}

/// Returns every ball until the one that ends the game. Returns whether the thread ran on its
/// core.
fn answer(table: &Table) -> bool {
    let is_bound = threads::pin(1).is_ok();
    let mut last = 0;
    while last != END {
        let ball = table.words[1].0.load(Ordering::Acquire);
        if ball != last {
            table.words[0].0.store(ball, Ordering::Release);
            last = ball;
        }
    }
    is_bound
}

fn play(table: &Table, settings: &Settings) -> Vec<f64> {
    let [own, peer] = &table.words;
    let mut next = 0;
    let mut round = || {
        next += 1;
        peer.0.store(next, Ordering::Release);
        while own.0.load(Ordering::Acquire) != next {}
    };
    // Wait until the other thread runs.
    round();
    let mut samples = Vec::new();
    let end = ticks() + settings.rate.ticks(settings.budget_ns);
    let mut last = ticks();
    while last < end {
        (0..ROUNDS).for_each(|_| round());
        let now = ticks();
        samples.push(settings.rate.between(last, now) / ROUNDS as f64);
        last = now;
    }
    peer.0.store(END, Ordering::Release);
    samples
}
