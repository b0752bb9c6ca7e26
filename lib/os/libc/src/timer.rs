//! The timers of `timerfd_create`.
//!
//! Nothing counts the expirations: a read works them out from the times. No timer of the system
//! runs; a thread that waits for the descriptor sleeps no longer than until the next expiration.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use runtime::Result;
use runtime::time::Instant;

use crate::bell::Bell;
use crate::shared_page::{SharedPage, check};

/// The part of a timer that processes share. Times are nanoseconds of the monotonic clock.
pub struct State {
    /// The next expiration that was not read; 0 if the timer is not set.
    next: AtomicU64,
    /// The time between two expirations; 0 if there is only one.
    interval: AtomicU64,
}

/// A timer of `timerfd_create`. Reads and settings are its changes.
pub struct Timer {
    page: SharedPage<State>,
    /// The clock whose times the program gives.
    clock: i32,
}

/// When a timer expires: the first time and the time between two, in nanoseconds.
pub struct Setting {
    /// 0: never.
    pub next: u64,
    /// 0: only once.
    pub interval: u64,
}

impl Timer {
    /// Makes a timer that is not set.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(bell: Bell, clock: i32) -> Result<Self> {
        let state = State {
            next: AtomicU64::new(0),
            interval: AtomicU64::new(0),
        };
        let page = SharedPage::new(state, bell)?;
        Ok(Self { page, clock })
    }

    /// What counters and timers have in common.
    pub fn page(&self) -> &SharedPage<State> {
        &self.page
    }

    /// The clock whose times the program gives.
    pub fn clock(&self) -> i32 {
        self.clock
    }

    /// The next expiration on the monotonic clock, if the timer is set. It may be over.
    fn next(&self) -> Option<u64> {
        match self.page.state().next.load(Ordering::SeqCst) {
            0 => None,
            next => Some(next),
        }
    }

    /// How long it is until the next expiration; nothing if that is over.
    pub fn until_next(&self) -> Option<Duration> {
        let next = self.next()?;
        Some(Duration::from_nanos(next.saturating_sub(now())))
    }

    /// Whether an expiration is over that was not read.
    pub fn has_expired(&self) -> bool {
        self.next().is_some_and(|next| next <= now())
    }

    /// The time that is left, and the interval.
    pub fn left(&self) -> Setting {
        let interval = self.page.state().interval.load(Ordering::SeqCst);
        let (now, next) = (now(), self.next());
        let left = next.map_or(0, |next| match next.checked_sub(now) {
            Some(left @ 1..) => left,
            // The next one after those that nobody has read.
            _ if interval > 0 => interval - (now - next) % interval,
            _ => 0,
        });
        Setting {
            next: left,
            interval,
        }
    }

    /// Sets the timer, which forgets the expirations that were not read.
    pub fn set(&self, setting: &Setting) {
        let state = self.page.state();
        // Not set meanwhile, so that no read takes a time with another one's interval.
        state.next.store(0, Ordering::SeqCst);
        state.interval.store(setting.interval, Ordering::SeqCst);
        state.next.store(setting.next, Ordering::SeqCst);
        self.page.count_change();
        self.page.ring();
    }

    /// Takes the expirations that were not read; `None` if there are none.
    fn take(&self) -> Option<u64> {
        let state = self.page.state();
        let mut count = 0;
        let after = |next: u64| {
            let over = now().checked_sub(next).filter(|_| next > 0)?;
            let interval = state.interval.load(Ordering::SeqCst);
            // Without an interval the timer is not set any more.
            let passed = over.checked_div(interval);
            count = passed.map_or(1, |passed| passed + 1);
            Some(passed.map_or(0, |_| next.saturating_add(count.saturating_mul(interval))))
        };
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        state.next.fetch_update(order.0, order.1, after).ok()?;
        self.page.count_change();
        Some(count)
    }
}

fn now() -> u64 {
    Instant::now().as_nanos()
}

/// `read` of a timer: the number of expirations since the last read.
///
/// # Errors
/// `EAGAIN`, `EFAULT`, `EINVAL`.
///
/// # Safety
/// The caller's buffer.
pub unsafe fn read(timer: &Timer, buffer: *mut c_void, size: usize) -> Result<usize> {
    check(buffer, size)?;
    let count = timer.page.repeat(|| timer.take(), || timer.until_next())?;
    // SAFETY: the caller's buffer has room.
    unsafe { buffer.cast::<u64>().write_unaligned(count) };
    Ok(size_of::<u64>())
}
