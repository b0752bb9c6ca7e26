//! The processor's time stamp counter, for measuring short times: reading it needs no system call.
//!
//! The counter's rate is not known beforehand, and its value is no time of day: [`Rate`] measures
//! it against a clock.

/// The counter's present value. 0 on processors without one, which [`Rate::measure`] reports.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: reading the time stamp counter, which every x86-64 processor has, touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter's present value. 0 on processors without one, which [`Rate::measure`] reports.
#[cfg(not(target_arch = "x86_64"))]
pub fn ticks() -> u64 {
    0
}

/// How fast the counter counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    nanoseconds_per_tick: f64,
}

/// Nanoseconds for which the counter is compared with the clock. An error of one microsecond at
/// either end is a fifty-thousandth of that.
const MEASURE_NS: u64 = 50_000_000;

impl Rate {
    /// Compares the counter with `clock`, a monotonic clock in nanoseconds, for a twentieth of a
    /// second. `None` when one of the two stands still.
    pub fn measure(clock: impl FnMut() -> u64) -> Option<Self> {
        /// More readings than any clock that moves needs.
        const MAX_READINGS: u32 = 100_000_000;
        Self::measure_within(MAX_READINGS, clock)
    }

    /// As [`measure`](Self::measure). `None` also when the clock needs more readings.
    fn measure_within(readings: u32, mut clock: impl FnMut() -> u64) -> Option<Self> {
        let (start, first) = (clock(), ticks());
        for _ in 0..readings {
            let elapsed = clock().saturating_sub(start);
            if elapsed >= MEASURE_NS {
                return Self::of(elapsed, ticks().saturating_sub(first));
            }
        }
        None
    }

    /// The rate of a counter that counted `ticks` in `nanoseconds`; `None` when one of
    /// the two is 0.
    pub fn of(nanoseconds: u64, ticks: u64) -> Option<Self> {
        (nanoseconds > 0 && ticks > 0).then(|| Self {
            nanoseconds_per_tick: nanoseconds as f64 / ticks as f64,
        })
    }

    /// Nanoseconds of a number of ticks.
    pub fn nanoseconds(self, ticks: u64) -> f64 {
        ticks as f64 * self.nanoseconds_per_tick
    }

    /// Nanoseconds between two values of the counter, 0 when `end` is the earlier one.
    pub fn between(self, start: u64, end: u64) -> f64 {
        self.nanoseconds(end.saturating_sub(start))
    }

    /// Ticks of a number of nanoseconds.
    pub fn ticks(self, nanoseconds: u64) -> u64 {
        (nanoseconds as f64 / self.nanoseconds_per_tick) as u64
    }
}

/// Nanoseconds for which a [`Clock`] relies on the counter alone.
const TRUST_NS: u64 = 10_000_000;

/// A monotonic clock in nanoseconds. It asks the system's clock only now and then, and counts on
/// with the time stamp counter in between.
pub struct Clock {
    rate: Option<Rate>,
    /// The values of the system's clock and the counter at one time.
    asked: (u64, u64),
    /// Ticks for which the counter is trusted.
    trust: u64,
    /// Nanoseconds for each tick, times 2^32.
    scale: u64,
    last: u64,
}

impl Clock {
    /// A clock that uses the counter at this rate. Without a rate, every reading asks the system.
    pub fn new(rate: Option<Rate>) -> Self {
        Self {
            rate,
            asked: (0, 0),
            trust: 0,
            scale: rate.map_or(0, |rate| {
                (rate.nanoseconds_per_tick * (1u64 << 32) as f64) as u64
            }),
            last: 0,
        }
    }

    /// The present time. Calls `system` for it when the counter alone cannot be trusted.
    pub fn now(&mut self, system: impl FnOnce() -> u64) -> u64 {
        let ticks = ticks();
        let passed = ticks.wrapping_sub(self.asked.1);
        let now = if passed < self.trust {
            self.asked.0 + ((u128::from(passed) * u128::from(self.scale)) >> 32) as u64
        } else {
            let now = system();
            self.asked = (now, ticks);
            self.trust = self.rate.map_or(0, |rate| rate.ticks(TRUST_NS));
            now
        };
        self.last = self.last.max(now);
        self.last
    }

    /// Makes the next [`now`](Self::now) ask the system. Call it after a sleep, during which the
    /// counter may have stood still.
    pub fn distrust(&mut self) {
        self.trust = 0;
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_rate_converts_both_ways() {
        let rate = Rate::of(50, 100).unwrap();
        assert_eq!(rate.nanoseconds(100), 50.0);
        assert_eq!(rate.ticks(50), 100);
        assert_eq!([rate.between(3, 7), rate.between(7, 3)], [2.0, 0.0]);
        assert_eq!([Rate::of(0, 1), Rate::of(1, 0)], [None, None]);
    }

    #[test]
    fn a_clock_asks_when_it_must_and_never_goes_back() {
        let start = std::time::Instant::now();
        let system = || start.elapsed().as_nanos() as u64;
        let rate = Rate::measure(system);
        let mut clock = Clock::new(rate);
        // A thread that does not run between the two loads has to ask: one pair in time must do.
        let pair = (0..100).find_map(|_| {
            clock.distrust();
            let first = clock.now(system);
            let mut asked = false;
            let second = clock.now(|| {
                asked = true;
                first
            });
            (!asked).then_some((first, second))
        });
        let (first, second) = pair.expect("it asks each time");
        assert!((first..first + TRUST_NS).contains(&second));
        clock.distrust();
        // The system's clock is behind.
        assert_eq!(clock.now(|| first - 1), second);
        clock.distrust();
        assert_eq!(clock.now(|| second + 5), second + 5);
        let mut always = Clock::new(None);
        assert_eq!(
            [always.now(|| 3), always.now(|| 7), always.now(|| 5)],
            [3, 7, 7]
        );
    }

    #[test]
    fn a_rate_needs_a_clock_that_moves() {
        let moving = |step: u64| {
            let mut now = 0;
            move || {
                now += step;
                now
            }
        };
        let measured = Rate::measure_within(10, moving(MEASURE_NS / 10));
        // The counter was read at both ends.
        assert!(measured.is_some_and(|rate| rate.nanoseconds_per_tick > 0.0));
        assert_eq!(Rate::measure_within(10, moving(MEASURE_NS / 10 - 1)), None);
        assert_eq!(Rate::measure_within(10, || 7), None);
    }
}
