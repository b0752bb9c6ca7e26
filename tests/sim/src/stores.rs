//! Stores that are on their way from one node to another while the storing node continues.
//!
//! A bus keeps the order of the stores in each direction. A read over the bus first pushes its own
//! stores through, and its answer arrives behind the earlier stores of the other side. A doorbell
//! does not overtake the stores before it. Between these points a store may take any time.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::memory::Fabric;
use crate::rng::Rng;

/// Most stores that can be on their way in one direction.
const MOST: usize = 64;

/// One store.
struct Store {
    /// The place in the destination's memory.
    range: Range<usize>,
    bytes: Vec<u8>,
    /// The epoch of the destination that the store is for.
    epoch: u64,
}

/// All stores that are on their way.
#[derive(Default)]
pub(crate) struct Stores {
    /// The stores by sender and destination.
    queues: BTreeMap<(usize, usize), VecDeque<Store>>,
    /// Whether they arrive in any order (a canary).
    is_unordered: bool,
    /// Number of stores so far.
    count: u64,
}

impl Fabric {
    /// Makes stores to other nodes take time from now on.
    pub(crate) fn delay_stores(&mut self, is_unordered: bool) {
        let stores = Stores {
            is_unordered,
            ..Stores::default()
        };
        self.stores = Some(stores);
    }

    /// Returns the number of stores so far that took time.
    pub(crate) fn stores_delayed(&self) -> u64 {
        self.stores.as_ref().map_or(0, |stores| stores.count)
    }

    /// Sends a store on its way. Returns false if stores arrive at once.
    pub(crate) fn send_store(
        &mut self,
        from: usize,
        to: usize,
        range: &Range<usize>,
        bytes: &[u8],
    ) -> bool {
        let epoch = self.epoch(to);
        let Some(stores) = &mut self.stores else {
            return false;
        };
        stores.count += 1;
        let queue = stores.queues.entry((from, to)).or_default();
        queue.push_back(Store {
            range: range.clone(),
            bytes: bytes.to_vec(),
            epoch,
        });
        if queue.len() > MOST {
            self.land_some(from, to, MOST / 2);
        }
        true
    }

    /// Lets the first `count` stores of a direction arrive. Returns whether there were any.
    pub(crate) fn land_some(&mut self, from: usize, to: usize, count: usize) -> bool {
        let Some(stores) = &mut self.stores else {
            return false;
        };
        let is_unordered = stores.is_unordered;
        let Some(queue) = stores.queues.get_mut(&(from, to)) else {
            return false;
        };
        let count = count.min(queue.len());
        let landed: Vec<Store> = if is_unordered {
            // The later half arrives, whatever `count` is.
            queue.split_off(queue.len() / 2).into()
        } else {
            queue.drain(..count).collect()
        };
        for store in landed {
            if store.epoch == self.epoch(to) {
                self.arrive(from, to, &store.range, &store.bytes);
            }
        }
        count > 0
    }

    /// Lets all stores of a direction arrive. Returns whether there were any.
    pub(crate) fn land(&mut self, from: usize, to: usize) -> bool {
        self.land_some(from, to, usize::MAX)
    }

    /// Lets some stores of some directions arrive.
    pub(crate) fn land_random(&mut self, rng: &mut Rng) {
        if self.stores.is_none() {
            return;
        }
        let nodes = self.nodes() as u64;
        for _ in 0..nodes {
            let (from, to) = (rng.below(nodes) as usize, rng.below(nodes) as usize);
            let count = rng.size(MOST as u64) as usize;
            if rng.one_in(3) {
                self.land_some(from, to, count);
            }
        }
    }

    /// Lets all stores arrive. Returns whether there were any.
    pub(crate) fn land_all(&mut self) -> bool {
        let nodes = self.nodes();
        let mut any = false;
        for from in 0..nodes {
            for to in 0..nodes {
                any |= self.land(from, to);
            }
        }
        any
    }

    /// Lets the stores into this range of a node's memory, and all stores of the same senders,
    /// arrive, because a program has learned of them by another way.
    pub(crate) fn land_into(&mut self, to: usize, range: &Range<usize>) {
        for from in 0..self.nodes() {
            let meets =
                |store: &Store| store.range.start < range.end && range.start < store.range.end;
            let stores = self.stores.as_ref();
            let queue = stores.and_then(|stores| stores.queues.get(&(from, to)));
            if queue.is_some_and(|queue| queue.iter().any(meets)) {
                self.land(from, to);
            }
        }
    }

    /// Lets some of the stores of a node that lost power arrive, and drops the others.
    pub(crate) fn cut_stores(&mut self, from: usize, rng: &mut Rng) {
        for to in 0..self.nodes() {
            self.land_some(from, to, rng.size(MOST as u64) as usize);
            if let Some(stores) = &mut self.stores {
                stores.queues.remove(&(from, to));
            }
        }
    }
}
