//! Timers: deadlines, and the action of each.

use alloc::collections::BTreeMap;

/// Names a pending timer. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    deadline: u64,
    number: u64,
}

/// Pending timers in order of their deadlines; equal deadlines in order of arrival.
#[derive(Debug)]
pub struct TimerQueue<T> {
    pending: BTreeMap<TimerId, T>,
    next: u64,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TimerQueue<T> {
    /// An empty queue.
    pub const fn new() -> Self {
        TimerQueue {
            pending: BTreeMap::new(),
            next: 0,
        }
    }

    /// Adds a timer.
    pub fn add(&mut self, deadline: u64, what: T) -> TimerId {
        let id = TimerId {
            deadline,
            number: self.next,
        };
        self.next += 1;
        self.pending.insert(id, what);
        id
    }

    /// Removes a timer that has not expired.
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        self.pending.remove(&id)
    }

    /// The earliest deadline.
    pub fn next_deadline(&self) -> Option<u64> {
        self.pending.keys().next().map(|id| id.deadline)
    }

    /// Takes the earliest timer whose deadline is not after `now`.
    pub fn pop_expired(&mut self, now: u64) -> Option<T> {
        if self.next_deadline()? > now {
            return None;
        }
        self.pending.pop_first().map(|(_, what)| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_cancel() {
        let mut q = TimerQueue::new();
        let a = q.add(50, 'a');
        q.add(10, 'b');
        q.add(50, 'c');
        q.add(50, 'd');
        assert_eq!(q.next_deadline(), Some(10));
        assert_eq!(q.pop_expired(9), None);
        assert_eq!(q.pop_expired(60), Some('b'));
        assert_eq!(q.cancel(a), Some('a'));
        assert_eq!(q.cancel(a), None);
        assert_eq!(q.pop_expired(50), Some('c'));
        assert_eq!(q.pop_expired(50), Some('d'));
        assert_eq!(q.next_deadline(), None);
    }
}
