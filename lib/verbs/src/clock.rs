//! The time that timers of queue pairs go by: the system's clock, asked rarely.

use hal::clock::{Clock, Rate, ticks};
use libredox::flag::CLOCK_MONOTONIC;

/// Ticks during which the last answer is good enough as long as the counter's rate is not known.
const GOOD_ENOUGH: u64 = 100_000;
/// Nanoseconds after which the rate is known well enough.
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

    /// The present time; may be a fraction of a millisecond behind.
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

    /// The next answer comes from the system: the counter may have stood still during a sleep.
    pub fn distrust(&mut self) {
        match &mut self.clock {
            Some(clock) => clock.distrust(),
            None => self.last.1 = 0,
        }
    }
}

/// The system's clock. It cannot fail: it is there on every system.
fn system() -> u64 {
    let time = libredox::call::clock_gettime(CLOCK_MONOTONIC);
    time.map_or(0, |time| {
        (time.tv_sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(time.tv_nsec as u64)
    })
}
