//! The transfer queue: the blocking reads or writes of one endpoint, in their order.
//!
//! Blocking transfers take turns: the one at the front moves its bytes until it is done, and the
//! others wait behind it, so two programs' large writes never mix. The queue remembers how many
//! bytes the front has moved, because each retry of a kept request runs its handler from the
//! start: bytes that are already in the ring must not be sent a second time.

use alloc::collections::VecDeque;

/// The waiting transfers of one direction; `R` names a request.
#[derive(Debug)]
pub struct TransferQueue<R> {
    waiting: VecDeque<R>,
    /// Bytes that the front request has moved.
    moved: usize,
}

impl<R> Default for TransferQueue<R> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
            moved: 0,
        }
    }
}

impl<R: Copy + Eq> TransferQueue<R> {
    /// Whether no transfer waits.
    pub fn is_free(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the request waits in front.
    pub fn is_front(&self, request: R) -> bool {
        self.waiting.front() == Some(&request)
    }

    /// Returns the bytes that the request has moved, if it is at the front; otherwise the request
    /// enters the queue. A request that finds the queue empty moves bytes without entering it:
    /// most are done at once.
    pub fn enter(&mut self, request: R) -> Option<usize> {
        match self.waiting.front() {
            None => Some(0),
            Some(front) if *front == request => Some(self.moved),
            Some(_) => {
                if !self.waiting.contains(&request) {
                    self.waiting.push_back(request);
                }
                None
            }
        }
    }

    /// Records that the request at the front has to wait and has moved `moved` bytes so far.
    pub fn wait(&mut self, request: R, moved: usize) {
        if self.waiting.is_empty() {
            self.waiting.push_back(request);
        }
        self.moved = moved;
    }

    /// Takes the request out of the queue. Returns the bytes that it has moved, and whether it is
    /// now another request's turn.
    pub fn leave(&mut self, request: R) -> (usize, bool) {
        if !self.is_front(request) {
            self.waiting.retain(|waiting| *waiting != request);
            return (0, false);
        }
        self.waiting.pop_front();
        (core::mem::take(&mut self.moved), !self.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_take_turns_and_keep_their_count() {
        let mut queue = TransferQueue::default();
        assert!(queue.is_free());
        assert_eq!(queue.enter(1), Some(0));
        assert!(queue.is_free());
        queue.wait(1, 40);
        assert_eq!(queue.enter(2), None);
        assert_eq!(queue.enter(3), None);
        assert_eq!(queue.enter(1), Some(40));
        assert_eq!(queue.leave(2), (0, false));
        assert_eq!(queue.leave(1), (40, true));
        assert_eq!(queue.enter(3), Some(0));
        assert_eq!(queue.leave(3), (0, false));
        assert!(queue.is_free());
        assert_eq!(queue.leave(9), (0, false));
    }
}
