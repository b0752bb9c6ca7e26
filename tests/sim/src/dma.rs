//! The copy engines of simulated nodes: the CPU, or an engine that queues descriptors and executes
//! them later, out of order wherever that is allowed.

use std::collections::{BTreeMap, VecDeque};

use scif_core::{CopyEngine, CpuEngine, Descriptor, Memory, Place, SubmitError, Submitted};

use crate::rng::Rng;
use crate::world::Canary;

/// The copy engine of one node.
pub struct Copier {
    queue: Option<Queue>,
    rng: Rng,
    canary: Option<Canary>,
    max_bytes: u32,
}

/// The copies that are queued on each channel.
#[derive(Default)]
struct Queue {
    channels: BTreeMap<u64, Channel>,
}

#[derive(Default)]
struct Channel {
    /// The cookie of the last descriptor accepted.
    last: u64,
    /// The descriptors not executed yet, with their cookies.
    waiting: VecDeque<(u64, Descriptor)>,
}

impl Channel {
    /// Returns the cookie up to which all descriptors have been executed.
    fn completed(&self) -> u64 {
        self.waiting
            .front()
            .map_or(self.last, |(cookie, _)| cookie - 1)
    }
}

impl Copier {
    /// Makes an engine that copies at once or, if `queues` is set, one that queues; with this
    /// planted bug.
    pub fn new(mut rng: Rng, queues: bool, canary: Option<Canary>) -> Copier {
        Copier {
            queue: queues.then(Queue::default),
            max_bytes: 64 << rng.below(11),
            rng,
            canary,
        }
    }

    /// Executes one queued descriptor. Returns false if there is none.
    pub fn step(&mut self, mem: &mut dyn Memory) -> bool {
        let Some(queue) = &mut self.queue else {
            return false;
        };
        let mut busy = queue
            .channels
            .values_mut()
            .filter(|c| !c.waiting.is_empty());
        let count = busy.by_ref().count() as u64;
        let pick = self.rng.below(count) as usize;
        let mut busy = queue
            .channels
            .values_mut()
            .filter(|c| !c.waiting.is_empty());
        let Some(channel) = busy.nth(pick) else {
            return false;
        };
        let pick = self.rng.below(channel.waiting.len() as u64) as usize;
        let must_wait = match channel.waiting[pick].1 {
            Descriptor::Copy { fence, .. } => fence,
            Descriptor::Store { .. } => true,
        };
        let mut pick = if must_wait { 0 } else { pick };
        if self.canary == Some(Canary::HastyStore) {
            let is_store = |(_, d): &(u64, Descriptor)| matches!(d, Descriptor::Store { .. });
            pick = channel.waiting.iter().position(is_store).unwrap_or(pick);
        }
        if let Some((_, descriptor)) = channel.waiting.remove(pick) {
            // A copy on a dead bus fails without notice.
            let _ = self.execute(mem, &descriptor);
        }
        true
    }

    /// Returns whether a descriptor is queued.
    pub fn is_busy(&self) -> bool {
        let queue = self.queue.as_ref();
        queue.is_some_and(|q| q.channels.values().any(|c| !c.waiting.is_empty()))
    }

    /// Drops all descriptors that involve a node whose link goes down. They are never executed and
    /// count as complete.
    pub fn abort(&mut self, node: u16) {
        let touches = |place: &Place| matches!(place, Place::Peer(other, _) if *other == node);
        for channel in self.queue.iter_mut().flat_map(|q| q.channels.values_mut()) {
            channel.waiting.retain(|(_, descriptor)| match descriptor {
                Descriptor::Copy { from, to, .. } => !touches(from) && !touches(to),
                Descriptor::Store { to, .. } => !touches(to),
            });
        }
    }

    fn execute(
        &mut self,
        mem: &mut dyn Memory,
        descriptor: &Descriptor,
    ) -> Result<(), SubmitError> {
        let is_copy = matches!(descriptor, Descriptor::Copy { .. });
        if is_copy && self.canary == Some(Canary::SkippedCopy) && self.rng.one_in(20) {
            return Ok(());
        }
        CpuEngine.submit(mem, 0, descriptor).map(|_| ())
    }
}

impl CopyEngine for Copier {
    fn submit(
        &mut self,
        mem: &mut dyn Memory,
        channel: u64,
        descriptor: &Descriptor,
    ) -> Result<Submitted, SubmitError> {
        let Some(queue) = &mut self.queue else {
            return self.execute(mem, descriptor).map(|()| Submitted::Done);
        };
        let channel = queue.channels.entry(channel).or_default();
        if channel.waiting.is_empty() && self.rng.one_in(4) {
            channel.last += 1;
            return self.execute(mem, descriptor).map(|()| Submitted::Done);
        }
        if channel.waiting.len() >= 8 {
            return Err(SubmitError::Full);
        }
        channel.last += 1;
        channel.waiting.push_back((channel.last, *descriptor));
        Ok(Submitted::Later(channel.last))
    }

    fn completed(&mut self, _mem: &mut dyn Memory, channel: u64) -> u64 {
        let channel = self.queue.as_ref().and_then(|q| q.channels.get(&channel));
        let hasty = self.canary == Some(Canary::HastyCompletion);
        channel.map_or(0, |c| if hasty { c.last } else { c.completed() })
    }

    fn forget(&mut self, channel: u64) {
        // Queued descriptors are executed nevertheless, so that an engine that forgets them too
        // early is noticed.
        if let Some(queue) = &mut self.queue {
            queue
                .channels
                .retain(|number, c| *number != channel || !c.waiting.is_empty());
        }
    }

    fn max_bytes(&self, _from: Place, _to: Place) -> u32 {
        self.max_bytes
    }

    fn is_cpu(&self, _descriptor: &Descriptor) -> bool {
        self.queue.is_none()
    }
}
