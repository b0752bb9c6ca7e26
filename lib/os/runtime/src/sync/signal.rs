//! A signal to wait for, on a futex. Programs with the standard library use its condition
//! variables instead.

use core::sync::atomic::{AtomicU32, Ordering};

use syscall::error::EINTR;
use syscall::{FUTEX_WAIT, FUTEX_WAKE, SYS_FUTEX, TimeSpec};

use crate::sys;
use crate::time::Instant;

/// An event that happens once; threads sleep until it does.
#[derive(Default)]
pub struct Signal(AtomicU32);

impl Signal {
    /// Makes a signal that is not set.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Sets it and wakes all waiting threads, to which all earlier writes of this thread are
    /// visible.
    pub fn set(&self) {
        self.0.store(1, Ordering::Release);
        // SAFETY: the word is alive; waking needs nothing else, and having no thread to wake is no
        // error.
        let _ = unsafe { self.futex(FUTEX_WAKE, usize::MAX >> 1, 0) };
    }

    /// Whether it is set.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != 0
    }

    /// Sleeps until it is set.
    pub fn wait(&self) {
        while !self.is_set() {
            // SAFETY: the word is alive as long as `self`; an answer other than 0 (it changed, an
            // interruption) just leads to another look.
            let _ = unsafe { self.futex(FUTEX_WAIT, 0, 0) };
        }
    }

    /// Sleeps until it is set.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn wait_once(&self) -> syscall::Result<()> {
        while !self.is_set() {
            // SAFETY: as in `wait`.
            match unsafe { self.futex(FUTEX_WAIT, 0, 0) } {
                Err(error) if error.errno == EINTR => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Sleeps until it is set or the deadline has passed. Returns whether it is set.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        let time = TimeSpec {
            tv_sec: (deadline.as_nanos() / 1_000_000_000) as _,
            tv_nsec: (deadline.as_nanos() % 1_000_000_000) as _,
        };
        while !self.is_set() && Instant::now() < deadline {
            // SAFETY: as in `wait`; the time lives across the call.
            let _ = unsafe { self.futex(FUTEX_WAIT, 0, &raw const time as usize) };
        }
        self.is_set()
    }

    /// # Safety
    /// `time` must be 0 or the address of a `TimeSpec` that lives across the call.
    unsafe fn futex(&self, operation: usize, value: usize, time: usize) -> syscall::Result<usize> {
        let word = self.0.as_ptr() as usize;
        // SAFETY: the word is alive as long as `self`, the caller vouches for the time.
        unsafe { sys::call(SYS_FUTEX, [word, operation, value, time, 0, 0]) }
    }
}
