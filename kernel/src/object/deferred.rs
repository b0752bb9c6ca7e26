//! Messages owed to schemes because of dropped descriptors.
//!
//! The last reference to a description can go away anywhere: with a lock held, inside another
//! close (a pipe that carries a pipe that …), or in an error path. So dropping only notes what is
//! to do; `scheme::reaper` does it.

use alloc::collections::VecDeque;

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
    /// A descriptor was closed whose scheme wants to know.
    Detach {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
        /// Process that closed it.
        pid: usize,
    },
}

static QUEUE: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());

/// Notes a message.
pub fn defer(work: Work) {
    QUEUE.lock().push_back(work);
}

/// Takes the message that was noted first.
pub fn next() -> Option<Work> {
    QUEUE.lock().pop_front()
}
