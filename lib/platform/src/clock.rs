//! The processor's time stamp counter, for measuring short times: reading it needs no system call.
//!
//! Its rate is not known beforehand, and it says nothing about the time of day: [`Rate`] compares
//! it with a clock that does.

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

/// Nanoseconds over which the counter is compared with the clock: errors of a microsecond on
/// either end are a fifty-thousandth.
const MEASURE_NS: u64 = 50_000_000;

impl Rate {
    /// Compares the counter with `clock`, a monotonic clock in nanoseconds, for a twentieth of a
    /// second. `None` when one of the two stands still.
    pub fn measure(mut clock: impl FnMut() -> u64) -> Option<Self> {
        /// More readings than any clock that moves needs.
        const MAX_READINGS: u32 = 100_000_000;
        let (start, first) = (clock(), ticks());
        for _ in 0..MAX_READINGS {
            let elapsed = clock().saturating_sub(start);
            if elapsed >= MEASURE_NS {
                let count = ticks().checked_sub(first).filter(|count| *count > 0)?;
                return Some(Self {
                    nanoseconds_per_tick: elapsed as f64 / count as f64,
                });
            }
        }
        None
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_clocks() {
        let start = std::time::Instant::now();
        let rate = Rate::measure(|| start.elapsed().as_nanos() as u64).unwrap();
        let one = rate.nanoseconds(rate.ticks(1_000_000));
        assert!((999_000.0..1_001_000.0).contains(&one), "{one}");
        assert_eq!(rate.between(5, 3), 0.0);
        assert!(ticks() > 0);
    }

    #[test]
    fn a_clock_that_jumps_is_believed_and_one_that_stands_is_not() {
        let mut now = 0;
        let rate = Rate::measure(|| {
            now += MEASURE_NS;
            now
        });
        assert!(rate.is_some());
    }
}
