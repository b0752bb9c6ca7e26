//! Time, after `std::time`.

pub use core::time::Duration;

use syscall::flag::{CLOCK_MONOTONIC, CLOCK_REALTIME};

use crate::sys;

/// Reads a clock, in nanoseconds; 0 if it does not exist.
fn clock(clock: usize) -> u64 {
    sys::clock(clock).unwrap_or(0)
}

/// A point on the monotonic clock, which counts from the boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant {
    nanos: u64,
}

impl Instant {
    /// The current time.
    pub fn now() -> Instant {
        Instant {
            nanos: clock(CLOCK_MONOTONIC),
        }
    }

    /// Time since this point.
    pub fn elapsed(&self) -> Duration {
        Instant::now().duration_since(*self)
    }

    /// Time from `earlier` to this point; zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.nanos.saturating_sub(earlier.nanos))
    }

    /// Nanoseconds since the boot.
    pub fn as_nanos(&self) -> u64 {
        self.nanos
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Instant {
            nanos: self.nanos.saturating_add(nanos),
        }
    }
}

/// Wall-clock time since 1970, as far as the machine has it.
pub fn unix_time() -> Duration {
    Duration::from_nanos(clock(CLOCK_REALTIME))
}

/// Sleeps at least this long.
pub fn sleep(duration: Duration) {
    let end = Instant::now() + duration;
    loop {
        let left = end.duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        // After an interruption, the loop sleeps again.
        sys::sleep(left);
    }
}
