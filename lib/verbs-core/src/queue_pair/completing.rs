//! What a queue pair completes, and the places of its queues that completions hold which were not
//! polled.

use core::mem::take;

use super::{Ended, Pool, QueuePair};
use crate::completion::Slots;
use crate::objects::Objects;
use crate::types::{SendFlags, WcOpcode, WcStatus};
use crate::work::{ReceiveRequest, WorkCompletion};

/// Adds to a number that counts without end.
#[inline(always)]
fn count(number: &mut u64, more: u32) {
    *number = number.wrapping_add(u64::from(more));
}

impl QueuePair {
    /// Whether all places of the send queue are taken. As with hardware a place is free when its
    /// completion, or a later one, was polled: so a completion queue for all places suffices.
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

    /// The same for the receive queue.
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

    /// The place of a receive that has completed.
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

    /// Whether the program wants to know of a send with these flags.
    #[inline(always)]
    pub(super) fn is_wanted(&self, flags: SendFlags) -> bool {
        self.init.signal_all || flags.contains(SendFlags::SIGNALED)
    }

    /// Counts a send that is over.
    #[inline(always)]
    pub(super) fn count_send(&mut self, bytes: u32) {
        count(&mut self.traffic.sends, 1);
        count(&mut self.traffic.sent_bytes, bytes);
        self.hold_send();
    }

    /// The place of a send that is over is not free before a completion is polled.
    #[inline(always)]
    fn hold_send(&mut self) {
        self.held_sends = self.held_sends.wrapping_add(1);
        self.unsignaled = self.unsignaled.wrapping_add(1);
    }

    /// Completes a send that is over, if its program wants to know.
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

    /// Completes a receive that no message is in.
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

    /// Counts a message that is in a receive.
    #[inline]
    pub(super) fn count_receive(&mut self, bytes: u32) {
        count(&mut self.traffic.receives, 1);
        count(&mut self.traffic.received_bytes, bytes);
    }
}
