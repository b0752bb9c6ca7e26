//! The counters of `eventfd`.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use runtime::{Error, Result};
use syscall::error::EINVAL;

use crate::bell::Bell;
use crate::shared_page::{SharedPage, check};

/// The greatest value that a counter can have.
const MOST: u64 = u64::MAX - 1;

/// The part of a counter that processes share.
pub struct State {
    value: AtomicU64,
    /// Whether a thread may wait until it can add.
    is_crowded: AtomicU32,
}

/// A counter of `eventfd`. Reads and writes are its changes.
pub struct Counter {
    page: SharedPage<State>,
    is_semaphore: bool,
}

impl Counter {
    /// Makes a counter.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(value: u64, bell: Bell, is_semaphore: bool) -> Result<Self> {
        let state = State {
            value: AtomicU64::new(value),
            is_crowded: AtomicU32::new(0),
        };
        Ok(Self {
            page: SharedPage::new(state, bell)?,
            is_semaphore,
        })
    }

    /// What counters and timers have in common.
    pub fn page(&self) -> &SharedPage<State> {
        &self.page
    }

    /// Takes the whole value, or 1 from a semaphore; `None` if the value is 0.
    fn take(&self) -> Option<u64> {
        let state = self.page.state();
        let rest = |value| match value {
            0 => None,
            value if self.is_semaphore => Some(value - 1),
            _ => Some(0),
        };
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let former = state.value.fetch_update(order.0, order.1, rest).ok()?;
        self.page.count_change();
        if state.is_crowded.swap(0, Ordering::SeqCst) != 0 {
            self.page.ring();
        }
        Some(if self.is_semaphore { 1 } else { former })
    }

    /// Adds to the value; `None` if the sum would be too great.
    fn add(&self, count: u64) -> Option<()> {
        let state = self.page.state();
        let sum = |value: u64| value.checked_add(count).filter(|sum| *sum <= MOST);
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        state.value.fetch_update(order.0, order.1, sum).ok()?;
        self.page.count_change();
        self.page.ring();
        Some(())
    }

    /// Whether the value is above 0, and whether 1 can be added. The latter is false unless the
    /// caller asks for room; if there is none then, the next read rings the bell.
    pub fn readiness(&self, asks_for_room: bool) -> (bool, bool) {
        let state = self.page.state();
        let has_room = || state.value.load(Ordering::SeqCst) < MOST;
        let has_room = asks_for_room && {
            has_room() || {
                state.is_crowded.store(1, Ordering::SeqCst);
                has_room()
            }
        };
        (state.value.load(Ordering::SeqCst) > 0, has_room)
    }
}

/// Repeats an attempt on a counter until it succeeds, or fails with `EAGAIN` if the counter is
/// non-blocking.
fn repeat<T>(counter: &Counter, attempt: impl FnMut() -> Option<T>) -> Result<T> {
    counter.page.repeat(attempt, || None)
}

/// `read` of a counter.
///
/// # Errors
/// `EAGAIN`, `EFAULT`, `EINVAL`.
///
/// # Safety
/// The caller's buffer.
pub unsafe fn read(counter: &Counter, buffer: *mut c_void, size: usize) -> Result<usize> {
    check(buffer, size)?;
    let value = repeat(counter, || counter.take())?;
    // SAFETY: the caller's buffer has room.
    unsafe { buffer.cast::<u64>().write_unaligned(value) };
    Ok(size_of::<u64>())
}

/// `write` to a counter.
///
/// # Errors
/// `EAGAIN`, `EFAULT`, `EINVAL`.
///
/// # Safety
/// The caller's bytes.
pub unsafe fn write(counter: &Counter, buffer: *const c_void, size: usize) -> Result<usize> {
    check(buffer, size)?;
    // SAFETY: the caller's bytes are as many.
    let value = unsafe { buffer.cast::<u64>().read_unaligned() };
    if value > MOST {
        return Err(Error::new(EINVAL));
    }
    let attempt = || {
        counter.add(value).or_else(|| {
            // A second attempt, because a read may have made room before the flag was set.
            let state = counter.page.state();
            state.is_crowded.store(1, Ordering::SeqCst);
            counter.add(value)
        })
    };
    repeat(counter, attempt)?;
    Ok(size_of::<u64>())
}
