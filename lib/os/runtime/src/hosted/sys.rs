//! The few calls that are not about a descriptor.

use core::time::Duration;

use syscall::error::{EINVAL, Error, Result};

/// Value that stands for "no descriptor" in calls.
pub const NO_FD: usize = usize::MAX;

/// Lets other threads run.
pub fn yield_now() {
    std::thread::yield_now();
}

/// Reads a clock (`CLOCK_*`), in nanoseconds.
pub fn clock(clock: usize) -> Result<u64> {
    const NANOS_PER_SEC: u64 = 1_000_000_000;
    let clock = i32::try_from(clock).map_err(|_| Error::new(EINVAL))?;
    let time = libredox::call::clock_gettime(clock)?;
    Ok((time.tv_sec as u64) * NANOS_PER_SEC + time.tv_nsec as u64)
}

/// Sleeps for this time.
pub fn sleep(duration: Duration) {
    std::thread::sleep(duration);
}
