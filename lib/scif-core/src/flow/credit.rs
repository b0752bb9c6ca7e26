//! Connections with peers of the base protocol whose ring is full while somebody here has more.
//!
//! Such a peer has a ring of 4 KiB, tells of every read, however little, and its doorbell takes its
//! time. So its read index, which is in our memory, is looked at as long as we are awake, and what
//! waits goes on when half of the ring is free, or a millisecond after it told of less: each
//! message and doorbell to it is to be worth many bytes.

use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::Phase;
use crate::engine::Engine;
use alloc::vec::Vec;

/// Nanoseconds for which room of less than half a ring is left to grow.
const CREDIT_GROWTH_NS: u64 = 1_000_000;

/// Such connections.
#[derive(Default)]
pub(crate) struct CreditWaiters {
    connections: Vec<ConnectionId>,
}

impl Engine {
    /// Somebody waits for room at the peer of a connection. Does nothing where the peer tells when
    /// it is asked to.
    pub(crate) fn wait_for_credit(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && connection.phase == Phase::Connected
            && !connection.awaits_credit
            && connection.rings.as_ref().is_some_and(|r| !r.is_armable())
            && connection.peer.node() != self.cx.config.node
        {
            connection.awaits_credit = true;
            self.credit_waiters.connections.push(id);
        }
    }

    /// The peer has told of room. True: whoever waits for it is to wait a little longer.
    pub(crate) fn defers_wakeup(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> bool {
        let awaits_credit = self.connections.get(id).is_some_and(|c| c.awaits_credit);
        if !awaits_credit || self.has_credit(mem, id, true) {
            return false;
        }
        let at = self.cx.after(CREDIT_GROWTH_NS);
        self.cx.timers.set_earliest(Timer::CreditGrowth, at);
        true
    }

    /// Whether the ring of the peer has room: for anything, or for half of it.
    fn has_credit(&mut self, mem: &mut dyn Memory, id: ConnectionId, half: bool) -> bool {
        let connection = self.connections.get_mut(id);
        let Some(rings) = connection.and_then(|c| c.rings.as_mut()) else {
            // Over: who waits is to hear so.
            return true;
        };
        let least = if half { rings.peer_ring_bytes() / 2 } else { 1 };
        // What is wrong with it, whoever puts finds.
        rings.room(mem).map_or(true, |room| room >= least)
    }

    /// Whether some connection has got half of a ring.
    pub(crate) fn any_credit(&mut self, mem: &mut dyn Memory) -> bool {
        let mut at = 0;
        while let Some(id) = self.credit_waiters.connections.get(at).copied() {
            if self.has_credit(mem, id, true) {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Goes on with those that have half of a ring, or, when `is_time`, any room.
    pub(crate) fn resume_credit_waiters(&mut self, mem: &mut dyn Memory, is_time: bool) {
        if self.credit_waiters.connections.is_empty() {
            return;
        }
        let mut waiters = core::mem::take(&mut self.credit_waiters.connections);
        waiters.retain(|id| {
            if !self.has_credit(mem, *id, !is_time) {
                return true;
            }
            if let Some(connection) = self.connections.get_mut(*id) {
                connection.awaits_credit = false;
                if let Some(endpoint) = connection.endpoint {
                    self.cx.events.changed(endpoint);
                }
            }
            false
        });
        if waiters.is_empty() {
            self.cx.timers.clear(Timer::CreditGrowth);
        }
        self.credit_waiters.connections = waiters;
    }
}
