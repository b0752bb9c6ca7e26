//! Messages that schemes are owed because descriptors were dropped.
//!
//! The last reference to a description can go away anywhere: with a lock held, inside another
//! close (a pipe that carries a pipe that …), or in an error path. So dropping only queues a
//! message; `scheme::reaper` sends it.

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
    /// A descriptor was closed whose scheme asked for a notice of that.
    Detach {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
        /// The process that closed it.
        pid: usize,
    },
}

/// The messages in order. There may be more than contiguous memory has room for, because a program
/// that ends drops everything at once.
static QUEUE: Mutex<LinkedList<Work>> = Mutex::new(LinkedList::new());
/// Whether the queue is not empty. Every system call checks this, and a load is cheaper than the
/// lock.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Queues a message.
pub fn defer(work: Work) {
    QUEUE.lock().push_back(work);
    PENDING.store(true, Ordering::Relaxed);
}

/// Whether there is a message to send.
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Takes the oldest message.
pub fn next() -> Option<Work> {
    let mut queue = QUEUE.lock();
    let work = queue.pop_front();
    PENDING.store(!queue.is_empty(), Ordering::Relaxed);
    work
}
