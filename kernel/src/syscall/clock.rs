//! Clocks and sleeping.

use ::syscall::{
    data::TimeSpec,
    error::{EINTR, EINVAL, Error, Result},
    flag::{CLOCK_MONOTONIC, CLOCK_REALTIME},
};

use crate::mm::UserBuf;
use crate::{
    sched::{WaitError, WaitQueue},
    time,
};

const NANOS_PER_SEC: u128 = 1_000_000_000;

/// What a clock shows, in nanoseconds; `EINVAL` for one that does not exist.
pub fn now(clock: usize) -> Result<u128> {
    match clock {
        CLOCK_REALTIME => Ok(time::realtime_ns()),
        CLOCK_MONOTONIC => Ok(u128::from(time::now_ns())),
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
pub fn spec_bytes(nanos: u128) -> [u8; size_of::<TimeSpec>()] {
    // Divisions of 64 bits, the rule for some centuries, are much shorter.
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

pub fn gettime(clock: usize, buf: UserBuf) -> Result<usize> {
    buf.write_all(&spec_bytes(now(clock)?)).map(|()| 0)
}

pub fn nanosleep(request: UserBuf, remaining: Option<UserBuf>) -> Result<usize> {
    let mut time = TimeSpec::default();
    request.read_exact(&mut time)?;
    if time.tv_sec < 0 || !(0..NANOS_PER_SEC as i32).contains(&time.tv_nsec) {
        return Err(Error::new(EINVAL));
    }
    let end = u128::from(time::now_ns()).saturating_add(to_nanos(&time));
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    let ended = WaitQueue::new().wait(Some(end), || (time::now_ns() >= end).then_some(()));
    if let Some(remaining) = remaining {
        let left = end.saturating_sub(time::now_ns());
        remaining.write_all(&spec_bytes(u128::from(left)))?;
    }
    match ended {
        Ok(()) | Err(WaitError::TimedOut) => Ok(0),
        Err(WaitError::Interrupted) => Err(Error::new(EINTR)),
    }
}
