//! Until when a call waits.

use core::time::Duration;

use libredox::flag::CLOCK_MONOTONIC;

use crate::error::{Error, Result};

/// How long a call waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deadline {
    /// It does not wait, and fails with [`Error::WouldBlock`].
    Now,
    /// Until the monotonic clock shows this time; then it fails with [`Error::TimedOut`].
    At(Duration),
    /// Without limit.
    Never,
}

impl Deadline {
    /// This time from now on; `Never` if the clock cannot show that.
    ///
    /// # Errors
    /// Those of reading the clock.
    pub fn after(time: Duration) -> Result<Self> {
        Ok(now()?.checked_add(time).map_or(Self::Never, Self::At))
    }

    /// A deadline this number of milliseconds from now on.
    ///
    /// # Errors
    /// Those of reading the clock.
    pub fn after_ms(milliseconds: u64) -> Result<Self> {
        Self::after(Duration::from_millis(milliseconds))
    }

    /// The time that is left; `None`: without limit.
    ///
    /// # Errors
    /// `WouldBlock`, `TimedOut`: no time is left. Those of reading the clock.
    pub fn left(self) -> Result<Option<Duration>> {
        match self {
            Self::Now => Err(Error::WouldBlock),
            Self::Never => Ok(None),
            Self::At(end) => match end.checked_sub(now()?) {
                None | Some(Duration::ZERO) => Err(Error::TimedOut),
                left => Ok(left),
            },
        }
    }
}

/// Monotonic time.
pub fn now() -> Result<Duration> {
    let time = libredox::call::clock_gettime(CLOCK_MONOTONIC)?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
