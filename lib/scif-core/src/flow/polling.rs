//! Looking at the rings of nodes instead of waiting for their doorbells.
//!
//! A doorbell costs its ringer an access to the device, and who is rung an interrupt and a wake-up:
//! together more than all else that a message takes. A caller that is awake anyway, or expects
//! messages soon, watches: nodes are not asked to ring, and their rings are looked at. Before it
//! sleeps it rests, and from then on doorbells tell it of messages.

use crate::base::memory::Memory;
use crate::engine::Engine;
use crate::node::link::Node;

impl Node {
    /// Whether messages may be there that no doorbell tells of.
    fn has_unpolled_messages(&mut self, mem: &mut dyn Memory) -> bool {
        // What is left of those seen already is for the next turn, not for this look.
        let looks = self.is_doorbell_suppressed && !self.has_unread && !self.is_dismissed;
        looks && self.has_messages(mem)
    }
}

impl Engine {
    /// From now on the caller polls the rings itself ([`poll_rings`](Self::poll_rings)), in every
    /// iteration, until it calls [`stop_polling`](Self::stop_polling).
    pub fn start_polling(&mut self) {
        self.is_polling = true;
    }

    /// Whether a node that was not asked to ring has put messages, or one that tells of everything
    /// has made room without having told: [`poll_rings`](Self::poll_rings) takes them.
    pub fn has_unpolled_messages(&mut self, mem: &mut dyn Memory) -> bool {
        self.nodes
            .values_mut()
            .any(|node| node.has_unpolled_messages(mem))
            || self.any_credit(mem)
    }

    /// Takes and handles the messages that no doorbell tells of, and goes on where there is room.
    pub fn poll_rings(&mut self, mem: &mut dyn Memory) {
        self.resume_credit_waiters(mem);
        let mut next = 0;
        loop {
            let mut nodes = self.nodes.range_mut(next..);
            let seen =
                nodes.find_map(|(number, node)| node.has_unpolled_messages(mem).then_some(*number));
            let Some(number) = seen else {
                return;
            };
            self.drain(mem, number);
            next = number.saturating_add(1);
        }
    }

    /// The caller is about to sleep: nodes are asked to ring when they put messages. What one has
    /// put meanwhile is work for the next turn, which [`next_deadline`](Self::next_deadline) tells.
    pub fn stop_polling(&mut self, mem: &mut dyn Memory) {
        self.is_polling = false;
        let mut next = 0;
        loop {
            let mut nodes = self.nodes.range_mut(next..);
            let Some((&number, node)) = nodes.find(|(_, node)| node.is_doorbell_suppressed) else {
                return;
            };
            node.is_doorbell_suppressed = false;
            self.enable_doorbell(mem, number);
            next = number.saturating_add(1);
        }
    }
}
