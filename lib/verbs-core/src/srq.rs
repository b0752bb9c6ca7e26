//! Shared receive queues.

use alloc::collections::VecDeque;

use crate::table::Id;
use crate::types::{Error, Result};
use crate::work::ReceiveRequest;

/// The part of a shared receive queue that only those of XRC domains have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xrc {
    /// The domain.
    pub domain: Id,
    /// The completion queue of its receives.
    pub cq: Id,
}

/// A receive queue that many queue pairs take from.
#[derive(Debug)]
pub struct SharedReceiveQueue {
    /// Its protection domain.
    pub pd: Id,
    /// Its XRC domain, if it has one.
    pub xrc: Option<Xrc>,
    entries: VecDeque<ReceiveRequest>,
    max_wr: u32,
    max_sge: u32,
    limit: u32,
    /// Places that are held by completions which were not polled: an upper bound.
    held: u32,
    /// Queue pairs that take from it.
    pub(crate) users: u32,
}

impl SharedReceiveQueue {
    /// An empty queue for `max_wr` receives of at most `max_sge` segments each.
    pub fn new(pd: Id, max_wr: u32, max_sge: u32, limit: u32) -> SharedReceiveQueue {
        SharedReceiveQueue {
            pd,
            xrc: None,
            entries: VecDeque::new(),
            max_wr,
            max_sge,
            limit,
            held: 0,
            users: 0,
        }
    }

    /// Whether all places are taken. `count` counts the places that are held by completions which
    /// were not polled; it is called only if the bound that is known does not suffice.
    fn is_full(&mut self, count: impl FnOnce() -> u32) -> bool {
        let free = self.max_wr.saturating_sub(self.entries.len() as u32);
        if self.held >= free {
            self.held = count();
        }
        self.held >= free
    }

    /// Posts a receive. `held` counts the places that are held by completions which were not
    /// polled.
    ///
    /// # Errors
    /// `Invalid`: too many segments. `NoMemory`: the queue is full.
    pub fn post(&mut self, request: ReceiveRequest, held: impl FnOnce() -> u32) -> Result<()> {
        if request.segments.len() > self.max_sge as usize {
            return Err(Error::Invalid);
        }
        if self.is_full(held) {
            return Err(Error::NoMemory);
        }
        self.entries.push_back(request);
        Ok(())
    }

    /// Takes the next receive. Also tells whether the queue has fallen below its limit, which is
    /// reported once.
    pub fn take(&mut self) -> Option<(ReceiveRequest, bool)> {
        let request = self.entries.pop_front()?;
        self.held += 1;
        let is_below = self.entries.len() < self.limit as usize;
        if is_below {
            self.limit = 0;
        }
        Some((request, is_below))
    }

    /// Puts back a receive that was taken and not used.
    pub fn put_back(&mut self, request: ReceiveRequest) {
        self.held = self.held.saturating_sub(1);
        self.entries.push_front(request);
    }

    /// Changes how many receives the queue can hold, its limit, or both. Returns whether a new
    /// limit is above the receives that are there, which is reported at once: the limit is then 0
    /// again, as after each report.
    ///
    /// # Errors
    /// `Invalid`, and nothing is changed: the size would be less than the receives in the queue,
    /// or the limit more than the size.
    pub fn modify(&mut self, max_wr: Option<u32>, limit: Option<u32>) -> Result<bool> {
        let (size, armed) = (max_wr.unwrap_or(self.max_wr), limit.unwrap_or(self.limit));
        if (size as usize) < self.entries.len() || armed > size {
            return Err(Error::Invalid);
        }
        let is_below = limit.is_some_and(|limit| self.entries.len() < limit as usize);
        self.max_wr = size;
        self.limit = if is_below { 0 } else { armed };
        Ok(is_below)
    }

    /// How many receives it can hold, the segments of each, and the limit.
    pub fn query(&self) -> (u32, u32, u32) {
        (self.max_wr, self.max_sge, self.limit)
    }

    /// The number of receives that can be taken.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
