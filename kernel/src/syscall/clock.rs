//! Clocks and sleeping.

use ::syscall::{
    data::TimeSpec,
    error::{EINTR, EINVAL, Error, Result},
};

use crate::mm::UserBuf;
use crate::{
    sched::{WaitError, WaitQueue},
    time::{
        self,
        spec::{self, NANOS_PER_SEC},
    },
};

pub fn gettime(clock: usize, buf: UserBuf) -> Result<usize> {
    buf.write_all(&spec::bytes(spec::read(clock)?)).map(|()| 0)
}

pub fn nanosleep(request: UserBuf, remaining: Option<UserBuf>) -> Result<usize> {
    let mut time = TimeSpec::default();
    request.read_exact(&mut time)?;
    if time.tv_sec < 0 || !(0..NANOS_PER_SEC as i32).contains(&time.tv_nsec) {
        return Err(Error::new(EINVAL));
    }
    let end = u128::from(time::now_ns()).saturating_add(spec::to_nanos(&time));
    let end = u64::try_from(end).unwrap_or(u64::MAX);
    let ended = WaitQueue::new().wait(Some(end), || (time::now_ns() >= end).then_some(()));
    if let Some(remaining) = remaining {
        let left = end.saturating_sub(time::now_ns());
        remaining.write_all(&spec::bytes(u128::from(left)))?;
    }
    match ended {
        Ok(()) | Err(WaitError::TimedOut) => Ok(0),
        Err(WaitError::Interrupted) => Err(Error::new(EINTR)),
    }
}
