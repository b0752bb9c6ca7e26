//! Completion queues: completions in order, and arming, which asks for one event.

use crate::queue::Queue;
use crate::table::Id;
use crate::types::WcStatus;
use crate::work::WorkCompletion;

/// The places in a queue of requests that become free when a completion is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// In the send queue of its queue pair: its own, and those of unsignaled sends before it.
    Sends(u32),
    /// One in the receive queue of its queue pair.
    Receive,
    /// One in a shared receive queue.
    Shared(Id),
}

/// The completions that raise an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    No,
    /// A receive whose message was marked as solicited, or an error.
    Solicited,
    Any,
}

/// The result of adding a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It was added.
    Quietly,
    /// It was added, and the program is to be notified.
    Notify,
    /// It is lost: the queue was full, and is unusable from now on.
    Overrun,
    /// It is lost, because the queue is unusable.
    Lost,
}

/// A completion queue.
#[derive(Debug)]
pub struct CompletionQueue {
    entries: Queue<(WorkCompletion, Slots)>,
    size: usize,
    armed: Armed,
    is_broken: bool,
    /// Completions that have been added since it was made.
    added: u64,
    /// Queue pairs that complete here; one that sends and receives here counts twice.
    pub(crate) users: u32,
}

impl CompletionQueue {
    /// An empty queue for `size` completions.
    pub fn new(size: usize) -> CompletionQueue {
        CompletionQueue {
            entries: Queue::new(),
            size,
            armed: Armed::No,
            is_broken: false,
            added: 0,
            users: 0,
        }
    }

    /// Adds a completion. `is_solicited`: the sender has marked the message.
    #[inline(always)]
    pub fn add(&mut self, completion: WorkCompletion, slots: Slots, is_solicited: bool) -> Added {
        if self.is_broken {
            return Added::Lost;
        }
        if self.entries.len() >= self.size {
            self.is_broken = true;
            return Added::Overrun;
        }
        let counts = is_solicited || completion.status != WcStatus::Success;
        self.entries.push_back((completion, slots));
        self.added = self.added.wrapping_add(1);
        match self.armed {
            Armed::Any => {}
            Armed::Solicited if counts => {}
            _ => return Added::Quietly,
        }
        self.armed = Armed::No;
        Added::Notify
    }

    /// Takes the next completion.
    #[inline]
    pub fn poll(&mut self) -> Option<WorkCompletion> {
        self.entries.pop_front().map(|(completion, _)| completion)
    }

    /// The places in the send queue of a queue pair that are held by completions here.
    pub fn held_sends(&self, qp: u32) -> u32 {
        let entries = self.entries.iter().filter(|(of, _)| of.qp == qp);
        let slots = entries.map(|(_, slots)| match slots {
            Slots::Sends(count) => *count,
            Slots::Receive | Slots::Shared(_) => 0,
        });
        slots.sum()
    }

    /// The places in the receive queue of a queue pair that are held by completions here.
    pub fn held_receives(&self, qp: u32) -> u32 {
        let is_its =
            |(of, slots): &&(WorkCompletion, Slots)| of.qp == qp && *slots == Slots::Receive;
        self.entries.iter().filter(is_its).count() as u32
    }

    /// The places in a shared receive queue that are held by completions here.
    pub fn held_shared(&self, srq: Id) -> u32 {
        let is_its = |(_, slots): &&(WorkCompletion, Slots)| *slots == Slots::Shared(srq);
        self.entries.iter().filter(is_its).count() as u32
    }

    /// Asks for one notification, at the next completion or at the next one that is solicited or
    /// an error. The first kind prevails over the second. Completions that are there already do
    /// not count.
    pub fn arm(&mut self, solicited_only: bool) {
        match solicited_only {
            true if self.armed == Armed::Any => {}
            true => self.armed = Armed::Solicited,
            false => self.armed = Armed::Any,
        }
    }

    /// Changes the size, if the completions that are there fit. Returns whether they do.
    pub fn resize(&mut self, size: usize) -> bool {
        let fits = self.entries.len() <= size;
        if fits {
            self.size = size;
        }
        fits
    }

    /// Removes the completions of a queue pair.
    pub fn purge(&mut self, qp: u32) {
        self.entries.retain(|(completion, _)| completion.qp != qp);
    }

    /// Completions that have been added since it was made.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// The number of completions that can be polled.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::{Added, CompletionQueue, Slots};
    use crate::types::{WcOpcode, WcStatus};
    use crate::work::WorkCompletion;

    fn completion(id: u64, status: WcStatus) -> WorkCompletion {
        WorkCompletion::new(id, 7, WcOpcode::Recv, status)
    }

    #[test]
    fn arming_tells_once() {
        let (good, bad) = (WcStatus::Success, WcStatus::WrFlushErr);
        let mut queue = CompletionQueue::new(16);
        assert_eq!(
            queue.add(completion(0, good), Slots::Receive, true),
            Added::Quietly
        );
        queue.arm(true);
        assert_eq!(
            queue.add(completion(1, good), Slots::Receive, false),
            Added::Quietly
        );
        assert_eq!(
            queue.add(completion(2, good), Slots::Receive, true),
            Added::Notify
        );
        assert_eq!(
            queue.add(completion(3, good), Slots::Receive, true),
            Added::Quietly
        );
        queue.arm(true);
        assert_eq!(
            queue.add(completion(4, bad), Slots::Receive, false),
            Added::Notify
        );
        // The wider wish holds, in either order.
        for order in [[true, false], [false, true]] {
            for solicited in order {
                queue.arm(solicited);
            }
            assert_eq!(
                queue.add(completion(5, good), Slots::Receive, false),
                Added::Notify
            );
        }
        for id in [0, 1, 2, 3, 4, 5, 5] {
            assert_eq!(queue.poll().map(|completion| completion.id), Some(id));
        }
        assert_eq!(queue.poll(), None);
    }

    #[test]
    fn an_overrun_breaks_the_queue_once() {
        let mut queue = CompletionQueue::new(1);
        let good = WcStatus::Success;
        assert_eq!(
            queue.add(completion(0, good), Slots::Receive, false),
            Added::Quietly
        );
        assert!(!queue.resize(0));
        assert_eq!(
            queue.add(completion(1, good), Slots::Receive, false),
            Added::Overrun
        );
        assert_eq!(
            queue.add(completion(2, good), Slots::Receive, false),
            Added::Lost
        );
        assert_eq!(queue.poll().map(|completion| completion.id), Some(0));
        assert_eq!(
            queue.add(completion(3, good), Slots::Receive, false),
            Added::Lost
        );
        assert!(queue.is_empty());
    }
}
