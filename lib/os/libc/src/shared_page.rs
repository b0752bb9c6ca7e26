//! What processes share of a counter of `eventfd` or a timer of `timerfd_create`.
//!
//! The state lies in memory that a parent and its child share after `fork`, so both have one
//! counter or timer. Only atomic operations change it, so a process that is killed leaves it
//! consistent.

use alloc::vec::Vec;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use hal::event::Queue;
use hal::idle_poll::Watched;
use runtime::{Error, Result, fd, sys};
use syscall::error::{EAGAIN, EFAULT, EINTR, EINVAL};
use syscall::flag::{EventFlags, MapFlags};

use crate::bell::Bell;

/// What the page holds.
struct Contents<T> {
    state: T,
    /// Counts what is done with the state.
    changes: AtomicU64,
    /// Whether reads and writes fail with `EAGAIN` instead of waiting. In Linux this is a flag of
    /// the open file, so all processes share it.
    is_nonblocking: AtomicU32,
}

/// A state of atomic numbers that processes share, and the bell for threads that wait.
pub struct SharedPage<T> {
    page: *mut Contents<T>,
    bell: Bell,
}

// SAFETY: only shared references to the page are given out, and it is unmapped when nobody has the
// state any more.
unsafe impl<T: Send + Sync> Send for SharedPage<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for SharedPage<T> {}

impl<T: Send + Sync> SharedPage<T> {
    /// Shares a state.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(state: T, bell: Bell) -> Result<Self> {
        const { assert!(size_of::<Contents<T>>() <= syscall::PAGE_SIZE) };
        let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
        // SAFETY: new memory.
        let place = unsafe { fd::mmap(sys::NO_FD, 0, syscall::PAGE_SIZE, 0, flags)? };
        let page = place as *mut Contents<T>;
        let contents = Contents {
            state,
            changes: AtomicU64::new(0),
            is_nonblocking: AtomicU32::new(0),
        };
        // SAFETY: a page of new memory, which has room, as checked above.
        unsafe { page.write(contents) };
        Ok(Self { page, bell })
    }

    fn contents(&self) -> &Contents<T> {
        // SAFETY: written in `new`, and mapped as long as `self` is there.
        unsafe { &*self.page }
    }

    /// The state.
    pub fn state(&self) -> &T {
        &self.contents().state
    }

    /// The descriptor to which event queues subscribe for changes.
    pub fn watched(&self) -> usize {
        self.bell.reader()
    }

    /// Wakes all who wait for a change.
    pub fn ring(&self) {
        self.bell.ring();
    }

    /// Counts a change.
    pub fn count_change(&self) {
        self.contents().changes.fetch_add(1, Ordering::SeqCst);
    }

    /// A number that changes with every change.
    pub fn changes(&self) -> u64 {
        self.contents().changes.load(Ordering::SeqCst)
    }

    /// The word of that number.
    pub fn word(&self) -> Watched {
        Watched::counter(&self.contents().changes, self.changes())
    }

    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        self.contents().is_nonblocking.load(Ordering::SeqCst) != 0
    }

    /// Sets or clears `O_NONBLOCK`.
    pub fn set_nonblocking(&self, set: bool) {
        let flag = &self.contents().is_nonblocking;
        flag.store(set.into(), Ordering::SeqCst);
    }

    /// Repeats an attempt until it succeeds. Between attempts it waits for the bell, at most for
    /// the time that `patience` gives, or fails with `EAGAIN` if the descriptor is non-blocking. It
    /// does not use the program's descriptor, at whose number another thread may have put another
    /// file.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    pub fn repeat<R>(
        &self,
        mut attempt: impl FnMut() -> Option<R>,
        patience: impl Fn() -> Option<Duration>,
    ) -> Result<R> {
        if let Some(result) = attempt() {
            return Ok(result);
        }
        if self.is_nonblocking() {
            return Err(Error::new(EAGAIN));
        }
        let mut queue: Queue<()> = Queue::new()?;
        queue.subscribe(self.watched(), EventFlags::EVENT_READ, ())?;
        let mut events = Vec::new();
        loop {
            // After subscribing, so that nothing that happens in between is missed.
            if let Some(result) = attempt() {
                return Ok(result);
            }
            queue.wait(patience(), &mut events)?;
            if queue.was_interrupted() {
                // The caller finds out why, and may come again.
                return Err(Error::new(EINTR));
            }
        }
    }
}

impl<T> Drop for SharedPage<T> {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody has the state any more. Other processes may have the
        // page, so what it holds is not dropped.
        let _ = unsafe { libredox::call::munmap(self.page.cast(), syscall::PAGE_SIZE) };
    }
}

/// Checks that a buffer can hold the number that is read or written.
///
/// # Errors
/// `EFAULT`, `EINVAL`.
pub fn check(buffer: *const c_void, size: usize) -> Result<()> {
    match size < size_of::<u64>() {
        true => Err(Error::new(EINVAL)),
        false if buffer.is_null() => Err(Error::new(EFAULT)),
        false => Ok(()),
    }
}
