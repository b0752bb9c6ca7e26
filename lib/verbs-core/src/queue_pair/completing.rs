//! Completing requests, and the places in the queues that are held by completions which were not
//! polled.

use core::mem::take;

use super::{Ended, Pool, QueuePair};
use crate::completion::Slots;
use crate::objects::Objects;
use crate::types::{SendFlags, WcOpcode, WcStatus};
use crate::work::{ReceiveRequest, WorkCompletion};

/// Adds to a counter that wraps around.
#[inline(always)]
fn count(number: &mut u64, more: u32) {
    *number = number.wrapping_add(u64::from(more));
}

impl QueuePair {
    /// Whether all places of the send queue are taken. As with hardware, a place is free once its
    /// completion, or a later one, was polled. So a completion queue with room for all places is
    /// never overrun.
    #[inline(always)]
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

    /// The number of places of the send queue that are free.
    pub(super) fn free_sends(&mut self, objects: &Objects) -> usize {
        let queue = objects.cqs.get(self.init.send_cq);
        let held = queue.map_or(0, |queue| queue.held_sends(self.number));
        self.held_sends = held + self.unsignaled;
        let taken = self.held_sends as usize + self.sends.len();
        (self.init.capacity.send_wr as usize).saturating_sub(taken)
    }

    /// Whether all places of the receive queue are taken, as
    /// [`is_send_queue_full`](Self::is_send_queue_full) has it for sends.
    #[inline(always)]
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

    /// The place of a completed receive, which stays taken until the completion is polled.
    #[inline]
    pub(super) fn receive_slot(&mut self, pool: Pool) -> Slots {
        match pool.srq {
            Some(srq) => Slots::Shared(srq),
            None => {
                self.held_receives = self.held_receives.wrapping_add(1);
                Slots::Receive
            }
        }
    }

    /// Whether a send with these flags adds a completion when it succeeds.
    #[inline(always)]
    pub(super) fn is_wanted(&self, flags: SendFlags) -> bool {
        self.init.signal_all || flags.contains(SendFlags::SIGNALED)
    }

    /// Counts a send that has succeeded.
    #[inline(always)]
    pub(super) fn count_send(&mut self, bytes: u32) {
        count(&mut self.traffic.sends, 1);
        count(&mut self.traffic.sent_bytes, bytes);
        self.hold_send();
    }

    /// Counts the place of a send that has ended: it is not free before a completion is polled.
    #[inline(always)]
    fn hold_send(&mut self) {
        self.held_sends = self.held_sends.wrapping_add(1);
        self.unsignaled = self.unsignaled.wrapping_add(1);
    }

    /// Completes a send that has ended. One that has succeeded adds a completion only if the
    /// program asked for it.
    #[inline(always)]
    pub(super) fn complete_send(
        &mut self,
        objects: &mut Objects,
        request: Ended,
        status: WcStatus,
    ) {
        match status {
            WcStatus::Success => self.count_send(request.bytes),
            _ => {
                self.traffic.errors += 1;
                self.hold_send();
            }
        }
        if status == WcStatus::Success && !self.is_wanted(request.flags) {
            return;
        }
        let completion = WorkCompletion {
            byte_len: request.bytes,
            ..WorkCompletion::new(request.id, self.number, request.opcode.into(), status)
        };
        let slots = Slots::Sends(take(&mut self.unsignaled));
        objects.complete(self.init.send_cq, completion, slots, false);
    }

    /// Completes a receive without a message.
    pub(super) fn complete_receive(
        &mut self,
        objects: &mut Objects,
        pool: Pool,
        receive: &ReceiveRequest,
        status: WcStatus,
    ) {
        self.traffic.errors += 1;
        let completion = WorkCompletion::new(receive.id, self.number, WcOpcode::Recv, status);
        let slots = self.receive_slot(pool);
        objects.complete(pool.cq, completion, slots, false);
    }

    /// Counts a message that was put into a receive.
    #[inline]
    pub(super) fn count_receive(&mut self, bytes: u32) {
        count(&mut self.traffic.receives, 1);
        count(&mut self.traffic.received_bytes, bytes);
    }
}
