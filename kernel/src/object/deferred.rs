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
        /// What the description has ready while it exists. It is here because a message has room
        /// for it: a description would become twice as large.
        notices: Notices,
    },
    /// A process closed a descriptor, and the scheme had asked for this message.
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

/// The `Detach` messages of a description, of which each process has at most one.
#[derive(Debug)]
pub struct Notices {
    queue: Queue<Message>,
    /// The process for which the last search found none, until one is added: a process that ends
    /// may close very many descriptors of a file in which others have locks.
    absent: Option<usize>,
}

impl Notices {
    /// No messages.
    pub const fn new() -> Self {
        Self {
            queue: Queue::new(),
            absent: None,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Adds the message of a process. Returns its former one, to be dropped without a lock.
    pub fn replace(&mut self, notice: Entry<Message>) -> Option<Entry<Message>> {
        let former = match notice.value() {
            &Message::Detach { pid, .. } => self.take(pid),
            _ => None,
        };
        self.absent = None;
        self.queue.push(notice);
        former
    }

    /// Takes the message of a process.
    pub fn take(&mut self, pid: usize) -> Option<Entry<Message>> {
        if self.queue.is_empty() || self.absent == Some(pid) {
            return None;
        }
        let is_its =
            |message: &Message| matches!(message, Message::Detach { pid: of, .. } if *of == pid);
        let found = self.queue.take(is_its);
        if found.is_none() {
            self.absent = Some(pid);
        }
        found
    }
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
