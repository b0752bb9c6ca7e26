//! Messages owed to schemes because of dropped descriptors.
//!
//! The last reference to a description can go away anywhere: with a lock held, inside another
//! close (a pipe that carries a pipe that …), or in an error path. So dropping only notes what is
//! to do; `scheme::reaper` does it.

use alloc::collections::LinkedList;
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::SchemeId;

/// A message to send.
pub enum Work {
    /// The last reference to a description is gone.
    Close {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
    },
    /// A descriptor was closed, of which its scheme asked to be notified.
    Detach {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
        /// Process that closed it.
        pid: usize,
    },
}

/// The messages in their order. There may be more than contiguous memory has room for, because a
/// program that ends drops everything at once.
static QUEUE: Mutex<LinkedList<Work>> = Mutex::new(LinkedList::new());
/// Whether the queue is not empty: every system call asks, and a load is cheaper than the lock.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Notes a message.
pub fn defer(work: Work) {
    QUEUE.lock().push_back(work);
    PENDING.store(true, Ordering::Relaxed);
}

/// Whether there is a message to send.
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Takes the message that was noted first.
pub fn next() -> Option<Work> {
    let mut queue = QUEUE.lock();
    let work = queue.pop_front();
    PENDING.store(!queue.is_empty(), Ordering::Relaxed);
    work
}
