//! The counters of `eventfd`.
//!
//! The value lies in memory that a parent and its child share after `fork`, so both have one
//! counter. Only atomic operations change it, so a process that is killed leaves it consistent.

use alloc::vec::Vec;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hal::event::Queue;
use hal::idle_poll::Watched;
use runtime::{Error, Result, fd, sys};
use syscall::error::{EAGAIN, EFAULT, EINTR, EINVAL};
use syscall::flag::{EventFlags, MapFlags};

use crate::bell::Bell;

/// The greatest value that a counter can have.
const MOST: u64 = u64::MAX - 1;

/// The part of a counter that processes share.
struct Page {
    value: AtomicU64,
    /// Counts reads and writes.
    changes: AtomicU64,
    /// Whether a thread may wait until it can add.
    is_crowded: AtomicU32,
    /// Whether reads and writes fail with `EAGAIN` instead of waiting. In Linux this is a flag of
    /// the open file, so all processes share it.
    is_nonblocking: AtomicU32,
}

/// A counter of `eventfd`.
pub struct Counter {
    page: *mut Page,
    bell: Bell,
    is_semaphore: bool,
}

// SAFETY: the page is only used by atomic operations, and unmapped when nobody has the counter.
unsafe impl Send for Counter {}
// SAFETY: as above.
unsafe impl Sync for Counter {}

impl Counter {
    /// Makes a counter.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn new(value: u64, bell: Bell, is_semaphore: bool) -> Result<Self> {
        let flags = MapFlags::PROT_READ | MapFlags::PROT_WRITE | MapFlags::MAP_SHARED;
        // SAFETY: new memory.
        let place = unsafe { fd::mmap(sys::NO_FD, 0, syscall::PAGE_SIZE, 0, flags)? };
        let counter = Self {
            page: place as *mut Page,
            bell,
            is_semaphore,
        };
        counter.page().value.store(value, Ordering::SeqCst);
        Ok(counter)
    }

    /// The descriptor to which event queues subscribe for changes of the counter.
    pub fn watched(&self) -> usize {
        self.bell.reader()
    }

    /// The word that changes with every read and write.
    pub fn word(&self) -> Watched {
        Watched::counter(&self.page().changes, self.changes())
    }

    /// Whether the program has set `O_NONBLOCK`.
    pub fn is_nonblocking(&self) -> bool {
        self.page().is_nonblocking.load(Ordering::SeqCst) != 0
    }

    /// Sets or clears `O_NONBLOCK`.
    pub fn set_nonblocking(&self, set: bool) {
        self.page()
            .is_nonblocking
            .store(set.into(), Ordering::SeqCst);
    }

    fn page(&self) -> &Page {
        // SAFETY: mapped as long as the counter is there. All zero, as it begins, is a valid one.
        unsafe { &*self.page }
    }

    /// Takes the whole value, or 1 from a semaphore; `None` if the value is 0.
    fn take(&self) -> Option<u64> {
        let page = self.page();
        let rest = |value| match value {
            0 => None,
            value if self.is_semaphore => Some(value - 1),
            _ => Some(0),
        };
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        let former = page.value.fetch_update(order.0, order.1, rest).ok()?;
        page.changes.fetch_add(1, Ordering::SeqCst);
        if page.is_crowded.swap(0, Ordering::SeqCst) != 0 {
            self.bell.ring();
        }
        Some(if self.is_semaphore { 1 } else { former })
    }

    /// Adds to the value; `None` if the sum would be too great.
    fn add(&self, count: u64) -> Option<()> {
        let page = self.page();
        let sum = |value: u64| value.checked_add(count).filter(|sum| *sum <= MOST);
        let order = (Ordering::SeqCst, Ordering::SeqCst);
        page.value.fetch_update(order.0, order.1, sum).ok()?;
        page.changes.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
        Some(())
    }

    /// Whether the value is above 0, and whether 1 can be added. The latter is false unless the
    /// caller asks for room; if there is none then, the next read rings the bell.
    pub fn readiness(&self, asks_for_room: bool) -> (bool, bool) {
        let page = self.page();
        let has_room = || page.value.load(Ordering::SeqCst) < MOST;
        let has_room = asks_for_room && {
            has_room() || {
                page.is_crowded.store(1, Ordering::SeqCst);
                has_room()
            }
        };
        (page.value.load(Ordering::SeqCst) > 0, has_room)
    }

    /// A number that changes with every read and write.
    pub fn changes(&self) -> u64 {
        self.page().changes.load(Ordering::SeqCst)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nobody has the counter any more.
        let _ = unsafe { libredox::call::munmap(self.page.cast(), syscall::PAGE_SIZE) };
    }
}

/// Repeats an attempt on a counter until it succeeds. Between attempts it waits for a change, or
/// fails with `EAGAIN` if the counter is non-blocking. It does not use the descriptor, at whose
/// number another thread may have put another file.
fn repeat<T>(counter: &Counter, mut attempt: impl FnMut() -> Option<T>) -> Result<T> {
    if let Some(result) = attempt() {
        return Ok(result);
    }
    if counter.is_nonblocking() {
        return Err(Error::new(EAGAIN));
    }
    let mut queue: Queue<()> = Queue::new()?;
    queue.subscribe(counter.watched(), EventFlags::EVENT_READ, ())?;
    let mut events = Vec::new();
    loop {
        // After subscribing, so that nothing that happens in between is missed.
        if let Some(result) = attempt() {
            return Ok(result);
        }
        queue.wait(None, &mut events)?;
        if queue.was_interrupted() {
            // The caller finds out why, and may come again.
            return Err(Error::new(EINTR));
        }
    }
}

/// Checks that a buffer can hold the value of a counter.
fn check(buffer: *const c_void, size: usize) -> Result<()> {
    match size < size_of::<u64>() {
        true => Err(Error::new(EINVAL)),
        false if buffer.is_null() => Err(Error::new(EFAULT)),
        false => Ok(()),
    }
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
            counter.page().is_crowded.store(1, Ordering::SeqCst);
            counter.add(value)
        })
    };
    repeat(counter, attempt)?;
    Ok(size_of::<u64>())
}
