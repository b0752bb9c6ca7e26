//! Polling rings instead of waiting for doorbells and notifications.
//!
//! A doorbell costs its sender an access to the device, and its receiver an interrupt and a
//! wake-up: together more than everything else about a message. So a driver that is awake anyway,
//! or expects messages soon, polls. It does not ask nodes to ring, and reads their rings. It also
//! reads the rings of connections for whose bytes programs wait. Before it sleeps it asks for
//! doorbells and notifications again.

use crate::base::memory::Memory;
use crate::connection::credit::Enough;
use crate::engine::Engine;

impl Engine {
    /// Begins to poll: from now on the caller polls the rings itself
    /// ([`poll_rings`](Self::poll_rings)), in every iteration, until it calls
    /// [`stop_polling`](Self::stop_polling).
    pub fn start_polling(&mut self) {
        self.nodes.start_polling();
        self.connections.start_polling();
    }

    /// Whether there is work for [`poll_rings`](Self::poll_rings): a node that was not asked to
    /// ring has put messages, a peer that was not asked to notify us has put bytes that a program
    /// waits for, or a peer of the base protocol has made room for a sender.
    pub fn has_unpolled_messages(&mut self, mem: &mut dyn Memory) -> bool {
        self.connections.any_polled(mem)
            || self.nodes.find_unpolled(mem, 0).is_some()
            || self.connections.any_credit(mem)
    }

    /// Receives and handles messages that come without a doorbell, and wakes programs where there
    /// are bytes or room.
    pub fn poll_rings(&mut self, mem: &mut dyn Memory) {
        (self.connections).resume_credit_waiters(mem, &mut self.cx, Enough::HalfRing);
        for id in self.connections.take_polled(mem, &mut self.cx) {
            self.reset_connection(id);
        }
        let mut next = 0;
        while let Some(node) = self.nodes.find_unpolled(mem, next) {
            self.drain(mem, node);
            next = node.saturating_add(1);
        }
    }

    /// Ends polling, before the caller sleeps: asks nodes to ring when they put messages, and
    /// peers to notify us of bytes that programs wait for. What came meanwhile is left to the next
    /// iteration, as [`next_deadline`](Self::next_deadline) tells.
    pub fn stop_polling(&mut self, mem: &mut dyn Memory) {
        self.connections.stop_polling(mem, &mut self.cx);
        self.nodes.stop_polling(mem);
        self.nodes.set_timers(&mut self.cx);
        self.lose_failed_nodes();
    }
}
