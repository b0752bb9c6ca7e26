//! `sys/timerfd.h`: timers for which a program can wait as for files.

use alloc::sync::Arc;
use core::ffi::c_int;
use core::time::Duration;

use runtime::time::Instant;
use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EFAULT, EINVAL};
use syscall::flag::O_NONBLOCK;

use crate::files::Timespec;
use crate::own::{self, Kind};
use crate::timer::{Setting, Timer};
use crate::{descriptor, errno, time};

/// `TFD_NONBLOCK`, `TFD_CLOEXEC`.
const NONBLOCK: usize = O_NONBLOCK;
const CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;
/// `TFD_TIMER_ABSTIME`, and `TFD_TIMER_CANCEL_ON_SET`, which never happens: no clock is ever set.
const ABSOLUTE: c_int = 1;
const CANCEL_ON_SET: c_int = 2;

/// C's `struct itimerspec`.
#[repr(C)]
pub struct Times {
    interval: Timespec,
    value: Timespec,
}

impl From<Setting> for Times {
    fn from(setting: Setting) -> Self {
        Self {
            interval: Duration::from_nanos(setting.interval).into(),
            value: Duration::from_nanos(setting.next).into(),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
    let flags = flags as u32 as usize;
    if flags & !(NONBLOCK | CLOEXEC) != 0 || time::wall_time(clock).is_none() {
        return errno::fail(EINVAL);
    }
    let make = |bell| {
        let timer = Timer::new(bell, clock)?;
        timer.page().set_nonblocking(flags & NONBLOCK != 0);
        Ok(Kind::Timer(Arc::new(timer)))
    };
    errno::give(descriptor::open_own(flags & CLOEXEC != 0, make))
}

/// The timer that a descriptor means.
///
/// # Errors
/// `EINVAL`: it is another file. `EBADF`.
fn timer_of(number: c_int) -> Result<Arc<Timer>> {
    match own::kind(number) {
        Some(Kind::Timer(timer)) => Ok(timer),
        Some(_) => Err(Error::new(EINVAL)),
        None => {
            let number = descriptor::check(number)?;
            fd::fcntl(number, syscall::F_GETFD, 0).map_err(|_| Error::new(EBADF))?;
            Err(Error::new(EINVAL))
        }
    }
}

fn nanoseconds(time: &Timespec) -> Result<u64> {
    let time = time.duration().ok_or(Error::new(EINVAL))?;
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// When a timer is to expire, by the monotonic clock.
///
/// # Errors
/// `EINVAL`: there is no such clock or time.
pub fn setting_of(clock: c_int, flags: c_int, times: &Times) -> Result<Setting> {
    let interval = nanoseconds(&times.interval)?;
    let value = nanoseconds(&times.value)?;
    let is_absolute = flags & ABSOLUTE != 0;
    let next = match value {
        0 => 0,
        _ if is_absolute => {
            let now = time::wall_time(clock).ok_or(Error::new(EINVAL))?;
            let ahead = i128::from(value) - now.as_nanos() as i128;
            let next = i128::from(Instant::now().as_nanos()) + ahead;
            // The system's start stands for all times before it, and no clock shows the last time.
            next.clamp(1, u64::MAX.into()) as u64
        }
        _ => Instant::now().as_nanos().saturating_add(value),
    };
    Ok(Setting { next, interval })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_settime(
    number: c_int,
    flags: c_int,
    times: *const Times,
    former: *mut Times,
) -> c_int {
    let set = || {
        let timer = timer_of(number)?;
        // SAFETY: null or the caller's structure.
        let times = unsafe { times.as_ref() }.ok_or(Error::new(EFAULT))?;
        if flags & !(ABSOLUTE | CANCEL_ON_SET) != 0 {
            return Err(Error::new(EINVAL));
        }
        let setting = setting_of(timer.clock(), flags, times)?;
        if !former.is_null() {
            // SAFETY: the caller's place for a structure.
            unsafe { former.write(timer.left().into()) };
        }
        timer.set(&setting);
        Ok(())
    };
    errno::done(set())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn timerfd_gettime(number: c_int, times: *mut Times) -> c_int {
    let get = || {
        let timer = timer_of(number)?;
        if times.is_null() {
            return Err(Error::new(EFAULT));
        }
        // SAFETY: the caller's place for a structure.
        unsafe { times.write(timer.left().into()) };
        Ok(())
    };
    errno::done(get())
}
