//! The time for the timers of queue pairs: that of the system's clock, which is asked rarely.

use hal::clock::{Clock, Rate, ticks};
use libredox::flag::CLOCK_MONOTONIC;

/// While the rate of the counter is not known, the last answer is used for so many ticks.
const GOOD_ENOUGH: u64 = 100_000;
/// Nanoseconds after which the rate of the counter is known well enough.
const LONG_ENOUGH: u64 = 20_000_000;

/// A monotonic clock in nanoseconds.
pub struct Time {
    first: (u64, u64),
    last: (u64, u64),
    clock: Option<Clock>,
}

impl Time {
    pub fn new() -> Self {
        let now = (system(), ticks());
        Self {
            first: now,
            last: now,
            clock: None,
        }
    }

    /// The present time in nanoseconds; it may be late by a fraction of a millisecond.
    pub fn now(&mut self) -> u64 {
        if let Some(clock) = &mut self.clock {
            return clock.now(system);
        }
        let ticks = ticks();
        if ticks.wrapping_sub(self.last.1) > GOOD_ENOUGH {
            self.last = (system(), ticks);
            let passed = self.last.0.saturating_sub(self.first.0);
            if passed > LONG_ENOUGH {
                let rate = Rate::of(passed, ticks.wrapping_sub(self.first.1));
                self.clock = rate.map(|rate| Clock::new(Some(rate)));
            }
        }
        self.last.0
    }

    /// Makes the next call ask the system, because the counter may have stood still during a
    /// sleep.
    pub fn distrust(&mut self) {
        match &mut self.clock {
            Some(clock) => clock.distrust(),
            None => self.last.1 = 0,
        }
    }
}

/// The system's clock. It cannot fail, because every system has it.
fn system() -> u64 {
    let time = libredox::call::clock_gettime(CLOCK_MONOTONIC);
    time.map_or(0, |time| {
        (time.tv_sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(time.tv_nsec as u64)
    })
}
