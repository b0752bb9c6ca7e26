//! The places of a queue pair's queues, which completions hold that were not polled.

use super::{Pool, QueuePair};
use crate::completion::Slots;
use crate::objects::Objects;

impl QueuePair {
    /// Whether all places of the send queue are taken. As with hardware a place is free when its
    /// completion, or a later one, was polled: so a completion queue for all places suffices.
    pub(super) fn is_send_queue_full(&mut self, objects: &Objects) -> bool {
        let free = self
            .init
            .capacity
            .send_wr
            .saturating_sub(self.sends.len() as u32);
        if self.held_sends >= free {
            let queue = objects.cqs.get(self.init.send_cq);
            let held = queue.map_or(0, |queue| queue.held_sends(self.number));
            self.held_sends = held + self.unsignaled;
        }
        self.held_sends >= free
    }

    /// The same for the receive queue.
    pub(super) fn is_receive_queue_full(&mut self, objects: &Objects) -> bool {
        let free = self
            .init
            .capacity
            .recv_wr
            .saturating_sub(self.queued().1 as u32);
        if self.held_receives >= free {
            let queue = objects.cqs.get(self.init.recv_cq);
            self.held_receives = queue.map_or(0, |queue| queue.held_receives(self.number));
        }
        self.held_receives >= free
    }

    /// The place of a receive that has completed.
    pub(super) fn receive_slot(&mut self, pool: Pool) -> Slots {
        match pool.srq {
            Some(srq) => Slots::Shared(srq),
            None => {
                self.held_receives += 1;
                Slots::Receive
            }
        }
    }
}
