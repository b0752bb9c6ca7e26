//! `alarm` and `setitimer`: SIGALRM after a time. A thread of this library waits for that time,
//! and runs the program's handler or ends the program. POSIX allows it to, as any thread of the
//! process may get the signal.

use core::ffi::{c_int, c_uint, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::time::Instant;
use syscall::error::{EAGAIN, EINVAL};

use crate::handlers::Origin;
use crate::sync::{self, Shared};
use crate::timer::Setting;
use crate::{arrivals, errno, pthread};

pub const SIGALRM: c_int = 14;
/// `ITIMER_REAL`, the only timer here.
const REAL: c_int = 0;
const SECOND: u64 = 1_000_000_000;

/// A timer. All times are in nanoseconds.
pub struct Timer {
    /// The time of the monotonic clock at which it ends; `None` if it is off.
    pub end: Option<u64>,
    /// The period after which it ends again; 0 if it ends only once.
    pub interval: u64,
}

impl Timer {
    /// Not set.
    pub const OFF: Self = Self {
        end: None,
        interval: 0,
    };

    /// The time left, at least 1 if the timer is on; 0 if it is off.
    fn left(&self, now: u64) -> u64 {
        self.end.map_or(0, |end| end.saturating_sub(now).max(1))
    }

    /// How often it has ended. If it has, it is restarted with its interval, or off.
    pub fn expirations(&mut self, now: u64) -> u64 {
        let Some(end) = self.end.filter(|end| *end <= now) else {
            return 0;
        };
        let missed = now.saturating_sub(end).checked_div(self.interval);
        let count = missed.unwrap_or(0).saturating_add(1);
        self.end = missed.map(|_| end.saturating_add(count.saturating_mul(self.interval)));
        count
    }

    /// The time left, and the interval. If nobody has counted the ends, the time to the next one.
    pub fn setting(&self, now: u64) -> Setting {
        let next = self.end.map_or(0, |end| match end.checked_sub(now) {
            Some(left @ 1..) => left,
            _ => match (now - end).checked_rem(self.interval) {
                Some(over) => self.interval - over,
                None => 0,
            },
        });
        Setting {
            next,
            interval: self.interval,
        }
    }
}

/// The process's timer for SIGALRM.
pub struct Alarm {
    timer: Timer,
    /// Whether its thread was started.
    is_served: bool,
}

impl Alarm {
    const OFF: Self = Self {
        timer: Timer::OFF,
        is_served: false,
    };
}

pub static TIMER: Shared<Alarm> = Shared::new(Alarm::OFF);
/// Counts changes of the timer; its thread sleeps on this word.
static CHANGES: AtomicU32 = AtomicU32::new(0);

fn now() -> u64 {
    Instant::now().as_nanos()
}

/// Called in the child of a fork, which has no timer and no thread for one.
pub fn forked() {
    TIMER.with(|alarm| *alarm = Alarm::OFF);
}

/// The thread of the timer.
unsafe extern "C" fn serve(_unused: *mut c_void) -> *mut c_void {
    loop {
        let changes = CHANGES.load(Ordering::Acquire);
        let (ends, next) = TIMER.with(|Alarm { timer, .. }| (timer.expirations(now()), timer.end));
        // Several missed ends count as one, as pending signals do.
        if ends > 0 {
            arrivals::arrives_outside(SIGALRM, Origin::SYSTEM);
        } else {
            // Whatever ends the wait, the loop looks at the timer again.
            let _ = sync::wait(&CHANGES, changes, next);
        }
    }
}

/// Starts the timer for `value`, or stops it if that is 0, and sets its interval. Returns the time
/// that was left before, and the former interval.
///
/// # Errors
/// `EAGAIN`: the timer's thread could not be started.
fn set(value: u64, interval: u64) -> Result<(u64, u64), c_int> {
    let now = now();
    let (old, is_served) = TIMER.with(|Alarm { timer, is_served }| {
        let old = (timer.left(now), timer.interval);
        timer.end = (value > 0).then(|| now.saturating_add(value));
        timer.interval = interval;
        let was_served = *is_served;
        *is_served |= timer.end.is_some();
        (old, was_served)
    });
    CHANGES.fetch_add(1, Ordering::Release);
    if is_served {
        sync::wake(&CHANGES, 1);
    } else if value > 0 {
        // The thread is never joined.
        if pthread::start_own(serve).is_err() {
            forked();
            return Err(EAGAIN);
        }
    }
    Ok(old)
}

/// Returns the seconds that an earlier alarm had left, rounded, but at least 1 if there was one.
#[unsafe(no_mangle)]
extern "C" fn alarm(seconds: c_uint) -> c_uint {
    // `alarm` cannot report an error.
    let (left, _) = set(u64::from(seconds) * SECOND, 0).unwrap_or_default();
    let rounded = left.saturating_add(SECOND / 2) / SECOND;
    c_uint::try_from(rounded.max(u64::from(left > 0))).unwrap_or(c_uint::MAX)
}

/// C's `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Time {
    seconds: i64,
    microseconds: i64,
}

impl Time {
    fn of(nanoseconds: u64) -> Self {
        // Rounds up, so that a running timer never has 0 left.
        let microseconds = nanoseconds.div_ceil(1000);
        Self {
            seconds: (microseconds / 1_000_000) as i64,
            microseconds: (microseconds % 1_000_000) as i64,
        }
    }

    fn nanoseconds(self) -> Option<u64> {
        if !(0..1_000_000).contains(&self.microseconds) {
            return None;
        }
        let seconds = u64::try_from(self.seconds).ok()?;
        Some(
            seconds
                .saturating_mul(SECOND)
                .saturating_add(self.microseconds as u64 * 1000),
        )
    }
}

/// C's `struct itimerval`.
#[repr(C)]
struct Interval {
    interval: Time,
    value: Time,
}

impl Interval {
    fn of((left, interval): (u64, u64)) -> Self {
        Self {
            interval: Time::of(interval),
            value: Time::of(left),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setitimer(which: c_int, new: *const Interval, old: *mut Interval) -> c_int {
    if which != REAL {
        return errno::fail(EINVAL);
    }
    // SAFETY: null or the caller's structure.
    let times = match unsafe { new.as_ref() } {
        Some(new) => new.value.nanoseconds().zip(new.interval.nanoseconds()),
        // As on Linux, where null stops the timer.
        None => Some((0, 0)),
    };
    let Some((value, interval)) = times else {
        return errno::fail(EINVAL);
    };
    match set(value, interval) {
        Ok(before) => {
            if !old.is_null() {
                // SAFETY: the caller's place for the structure.
                unsafe { old.write(Interval::of(before)) };
            }
            0
        }
        Err(number) => errno::fail(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getitimer(which: c_int, place: *mut Interval) -> c_int {
    if which != REAL {
        return errno::fail(EINVAL);
    }
    let now = now();
    let times = TIMER.with(|Alarm { timer, .. }| (timer.left(now), timer.interval));
    // SAFETY: the caller's place for the structure.
    unsafe { place.write(Interval::of(times)) };
    0
}
