//! Messages that schemes are owed because descriptors were dropped.
//!
//! The last reference to a description can go away anywhere: with a lock held, inside another
//! close (a pipe that carries a pipe that …), or in an error path. So dropping only queues a
//! message; `scheme::reaper` sends it.

use core::sync::atomic::{AtomicBool, Ordering};

use ::syscall::schemev2::Sqe;
pub use kernel_core::queue::{Entry, Queue};
use spin::Mutex;

use super::SchemeId;

/// A message to a scheme. Requests are messages, too, so that the entry of a message in the queue
/// here can move to that of a daemon.
#[derive(Debug)]
pub enum Message {
    /// The last reference to a description is gone.
    Close {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
        /// The `Detach` messages that the description has ready while it exists. They are here
        /// because a message has room for them: a description would become twice as large.
        notices: Queue<Message>,
    },
    /// A process closed a descriptor, of which the scheme asked to be told.
    Detach {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
        /// The process that closed it.
        pid: usize,
    },
    /// A request to a daemon.
    Request(Sqe),
}

/// The messages in order. There may be more than contiguous memory has room for, because a program
/// that ends drops everything at once.
static QUEUE: Mutex<Queue<Message>> = Mutex::new(Queue::new());
/// Whether the queue is not empty. Every system call checks this, and a load is cheaper than the
/// lock.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Queues a message.
pub fn defer(message: Entry<Message>) {
    QUEUE.lock().push(message);
    PENDING.store(true, Ordering::Relaxed);
}

/// Whether there is a message to send.
pub fn is_pending() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Takes the oldest message.
pub fn next() -> Option<Entry<Message>> {
    let mut queue = QUEUE.lock();
    let message = queue.pop();
    PENDING.store(!queue.is_empty(), Ordering::Relaxed);
    message
}
