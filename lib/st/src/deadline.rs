//! Until when a call waits.

use core::time::Duration;

use libredox::flag::CLOCK_MONOTONIC;

use crate::error::{Error, Result};

/// Until when a call waits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Deadline {
    /// It does not wait: [`Error::WouldBlock`].
    Now,
    /// Until the monotonic clock shows this time: [`Error::TimedOut`].
    At(Duration),
    /// For as long as it takes.
    Never,
}

impl Deadline {
    /// So long from now on; `Never` where that is beyond the clock.
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

    /// The time that is left; none: without limit.
    ///
    /// # Errors
    /// `WouldBlock`, `TimedOut`: there is none. Those of reading the clock.
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
