//! Stores that are on their way from one node to another while the node behind them goes on.
//!
//! A bus keeps the order of the stores of each direction. A read over the bus first pushes
//! its own stores through, and with the answer come the other side's that were made before; a
//! doorbell does not overtake the stores in front of it. Between these points a store may take as
//! long as it likes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::memory::Fabric;
use crate::rng::Rng;

/// Stores that may be on their way in one direction.
const MOST: usize = 64;

/// One store.
struct Store {
    /// Where in the memory of its destination.
    range: Range<usize>,
    bytes: Vec<u8>,
    /// The epoch of the destination it is for.
    epoch: u64,
}

/// All that is on its way.
#[derive(Default)]
pub(crate) struct Stores {
    /// By sender and destination.
    queues: BTreeMap<(usize, usize), VecDeque<Store>>,
    /// They arrive in any order (a canary).
    is_unordered: bool,
    /// The number of stores so far.
    count: u64,
}

impl Fabric {
    /// From now on stores to other nodes take time.
    pub(crate) fn delay_stores(&mut self, is_unordered: bool) {
        let stores = Stores {
            is_unordered,
            ..Stores::default()
        };
        self.stores = Some(stores);
    }

    /// Stores that took time so far.
    pub(crate) fn stores_delayed(&self) -> u64 {
        self.stores.as_ref().map_or(0, |stores| stores.count)
    }

    /// Sends a store on its way; false when stores arrive at once.
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

    /// The first stores of a direction arrive; whether there were any.
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
            // The later half, whoever pushes.
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

    /// All stores of a direction arrive; whether there were any.
    pub(crate) fn land(&mut self, from: usize, to: usize) -> bool {
        self.land_some(from, to, usize::MAX)
    }

    /// Some stores of some directions arrive.
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

    /// All stores arrive; whether there were any.
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

    /// Stores into this range of a node's memory, and all in front of them, arrive: somebody knows
    /// of them by other ways.
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

    /// A node has lost its power: some of its stores still arrive, the others never.
    pub(crate) fn cut_stores(&mut self, from: usize, rng: &mut Rng) {
        for to in 0..self.nodes() {
            self.land_some(from, to, rng.size(MOST as u64) as usize);
            if let Some(stores) = &mut self.stores {
                stores.queues.remove(&(from, to));
            }
        }
    }
}
