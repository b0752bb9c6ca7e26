//! Times for programs: clocks by number, and `TimeSpec`.

use ::syscall::{
    data::TimeSpec,
    error::{EINVAL, Error, Result},
    flag::{CLOCK_MONOTONIC, CLOCK_REALTIME},
};

use super::{now_ns, realtime_ns};

/// Nanoseconds of a second.
pub const NANOS_PER_SEC: u128 = 1_000_000_000;

/// The time of a clock, in nanoseconds; `EINVAL` for a clock that does not exist.
pub fn read(clock: usize) -> Result<u128> {
    match clock {
        CLOCK_REALTIME => Ok(realtime_ns()),
        CLOCK_MONOTONIC => Ok(u128::from(now_ns())),
        _ => Err(Error::new(EINVAL)),
    }
}

/// A time as nanoseconds; times before the epoch count as the epoch.
pub fn to_nanos(time: &TimeSpec) -> u128 {
    let seconds = u128::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u128::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NANOS_PER_SEC).saturating_add(nanos)
}

/// The bytes of the `TimeSpec` for a time in nanoseconds, padding zero.
pub fn bytes(nanos: u128) -> [u8; size_of::<TimeSpec>()] {
    // Divisions of 64 bits suffice for some centuries and are much shorter.
    let (seconds, rest) = match u64::try_from(nanos) {
        Ok(nanos) => {
            let second = NANOS_PER_SEC as u64;
            ((nanos / second) as i64, nanos % second)
        }
        Err(_) => {
            let seconds = i64::try_from(nanos / NANOS_PER_SEC).unwrap_or(i64::MAX);
            (seconds, (nanos % NANOS_PER_SEC) as u64)
        }
    };
    let mut bytes = [0; size_of::<TimeSpec>()];
    let words = [seconds as u64, rest].map(u64::to_ne_bytes);
    for (place, byte) in bytes.iter_mut().zip(words.as_flattened()) {
        *place = *byte;
    }
    bytes
}
