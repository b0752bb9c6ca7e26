//! The timers of `timerfd_create`.
//!
//! As with the counters of `eventfd`, what is set lies in memory that a parent and its child share
//! after `fork`, and only atomic operations change it. Nothing counts the expirations: a read
//! works them out from the times. No timer of the system runs; a thread that waits for the
//! descriptor sleeps no longer than until the next expiration.

use alloc::vec::Vec;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use hal::event::Queue;
use runtime::time::Instant;
use runtime::{Error, Result, fd, sys};
use syscall::error::{EAGAIN, EFAULT, EINTR, EINVAL};
use syscall::flag::{EventFlags, MapFlags};

use crate::bell::Bell;

/// The part of a timer that processes share. Times are nanoseconds of the monotonic clock.
struct Page {
    /// The next expiration that was not read; 0 if the timer is not set.
    next: AtomicU64,
    /// The time between two expirations; 0 if there is only one.
    interval: AtomicU64,
    /// Counts reads and settings.
    changes: AtomicU64,
    /// `O_NONBLOCK`, which all processes share, as it is a flag of the open file.
    is_nonblocking: AtomicU32,
}

/// A timer of `timerfd_create`.
pub struct Timer {
    page: *mut Page,
    bell: Bell,
    /// The clock whose times the program gives.
    clock: i32,
}

// SAFETY: the page is only used by atomic operations, and unmapped when nobody has the timer.
unsafe impl Send for Timer {}
// SAFETY: as above.
unsafe impl Sync for Timer {}

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
        let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
        // SAFETY: new memory.
        let place = unsafe { fd::mmap(sys::NO_FD, 0, syscall::PAGE_SIZE, 0, flags)? };
        let page = place as *mut Page;
        Ok(Self { page, bell, clock })
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as the timer is there. All zero, as it begins, is a valid one.
        unsafe { &*self.page }
    }

    /// The clock whose times the program gives.
    pub fn clock(&self) -> i32 {
        self.clock
    }

    /// The descriptor to which event queues subscribe for settings of the timer.
    pub fn watched(&self) -> usize {
        self.bell.reader()
    }

    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        self.page().is_nonblocking.load(Ordering::SeqCst) != 0
    }

    /// Sets or clears `O_NONBLOCK`.
    pub fn set_nonblocking(&self, set: bool) {
        let flag = &self.page().is_nonblocking;
        flag.store(set.into(), Ordering::SeqCst);
    }

    /// A number that changes with every read and setting.
    pub fn changes(&self) -> u64 {
        self.page().changes.load(Ordering::SeqCst)
    }

    /// The next expiration on the monotonic clock, if the timer is set. It may be over.
    fn next(&self) -> Option<u64> {
        match self.page().next.load(Ordering::SeqCst) {
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
        let interval = self.page().interval.load(Ordering::SeqCst);
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
        let page = self.page();
        // Not set meanwhile, so that no read takes a time with another one's interval.
        page.next.store(0, Ordering::SeqCst);
        page.interval.store(setting.interval, Ordering::SeqCst);
        page.next.store(setting.next, Ordering::SeqCst);
        page.changes.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Takes the expirations that were not read; `None` if there are none.
    fn take(&self) -> Option<u64> {
        let page = self.page();
        let mut count = 0;
        let after = |next: u64| {
            let over = now().checked_sub(next).filter(|_| next > 0)?;
            let interval = page.interval.load(Ordering::SeqCst);
            // Without an interval the timer is not set any more.
            let passed = over.checked_div(interval);
            count = passed.map_or(1, |passed| passed + 1);
            Some(passed.map_or(0, |_| next.saturating_add(count.saturating_mul(interval))))
        };
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        page.next.fetch_update(order.0, order.1, after).ok()?;
        page.changes.fetch_add(1, Ordering::SeqCst);
        Some(count)
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody has the timer any more.
        let _ = unsafe { libredox::call::munmap(self.page.cast(), syscall::PAGE_SIZE) };
    }
}

fn now() -> u64 {
    Instant::now().as_nanos()
}

/// Waits for an expiration that was not read, and takes all of them.
fn wait(timer: &Timer) -> Result<u64> {
    if let Some(count) = timer.take() {
        return Ok(count);
    }
    if timer.is_nonblocking() {
        return Err(Error::new(EAGAIN));
    }
    let mut queue: Queue<()> = Queue::new()?;
    queue.subscribe(timer.watched(), EventFlags::EVENT_READ, ())?;
    let mut events = Vec::new();
    loop {
        // After subscribing, so that no setting in between is missed.
        if let Some(count) = timer.take() {
            return Ok(count);
        }
        queue.wait(timer.until_next(), &mut events)?;
        if queue.was_interrupted() {
            // The caller finds out why, and may come again.
            return Err(Error::new(EINTR));
        }
    }
}

/// `read` of a timer: the number of expirations since the last read.
///
/// # Errors
/// `EAGAIN`, `EFAULT`, `EINVAL`.
///
/// # Safety
/// The caller's buffer.
pub unsafe fn read(timer: &Timer, buffer: *mut c_void, size: usize) -> Result<usize> {
    if size < size_of::<u64>() {
        return Err(Error::new(EINVAL));
    }
    if buffer.is_null() {
        return Err(Error::new(EFAULT));
    }
    let count = wait(timer)?;
    // SAFETY: the caller's buffer has room.
    unsafe { buffer.cast::<u64>().write_unaligned(count) };
    Ok(size_of::<u64>())
}
