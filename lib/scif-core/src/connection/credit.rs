//! Senders that wait for room at peers of the base protocol.
//!
//! Such a peer has a ring of 4 KiB, sends a notification for every read, however little, and its
//! doorbell is slow. So its read index, which is in our memory, is polled as long as the driver is
//! awake. A sender continues when half of the ring is free, or a millisecond after a notification
//! of less, so that each message and doorbell stands for many bytes.

use crate::base::context::Context;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::{Connection, Connections, Phase};

/// Nanoseconds for which a sender waits for room of less than half a ring to grow.
const CREDIT_GROWTH_NS: u64 = 1_000_000;

/// How much room in the peer's ring lets a sender continue.
#[derive(Clone, Copy)]
pub(crate) enum Enough {
    /// Half of the ring.
    HalfRing,
    /// Any: the sender has waited long enough for more.
    AnyByte,
}

impl Connections {
    /// Notes that a sender waits for room at the peer. Does nothing if the peer can be armed.
    pub(super) fn wait_for_credit(&mut self, cx: &Context, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && connection.phase == Phase::Connected
            && !connection.awaits_credit
            && connection.rings.as_ref().is_some_and(|r| !r.is_armable())
            && connection.node() != cx.config.node
        {
            connection.awaits_credit = true;
            self.credit_waiters.push(id);
        }
    }

    /// Whether a sender must wait a little longer, though the peer has notified us of room.
    pub(super) fn defers_wakeup(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
    ) -> bool {
        let connection = self.table.get_mut(id).filter(|c| c.awaits_credit);
        if connection.is_none_or(|connection| connection.has_credit(mem, Enough::HalfRing)) {
            return false;
        }
        let at = cx.after(CREDIT_GROWTH_NS);
        cx.timers.set_earliest(Timer::CreditGrowth, at);
        true
    }

    /// Whether half of the ring is free for some connection that waits.
    pub(crate) fn any_credit(&mut self, mem: &mut dyn Memory) -> bool {
        self.credit_waiters.iter().any(|id| {
            let connection = self.table.get_mut(*id);
            connection.is_none_or(|connection| connection.has_credit(mem, Enough::HalfRing))
        })
    }

    /// Wakes the senders that have enough room.
    pub(crate) fn resume_credit_waiters(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        enough: Enough,
    ) {
        if self.credit_waiters.is_empty() {
            return;
        }
        self.credit_waiters.retain(|id| {
            let Some(connection) = self.table.get_mut(*id) else {
                return false;
            };
            if !connection.has_credit(mem, enough) {
                return true;
            }
            connection.awaits_credit = false;
            if let Some(endpoint) = connection.endpoint {
                cx.events.changed(endpoint);
            }
            false
        });
        if self.credit_waiters.is_empty() {
            cx.timers.clear(Timer::CreditGrowth);
        }
    }
}

impl Connection {
    /// Whether the peer's ring has enough room.
    fn has_credit(&mut self, mem: &mut dyn Memory, enough: Enough) -> bool {
        let Some(rings) = &mut self.rings else {
            // The connection is over: the sender gets an error.
            return true;
        };
        let least = match enough {
            Enough::HalfRing => rings.peer_ring_bytes() / 2,
            Enough::AnyByte => 1,
        };
        // If the rings are broken, the sender finds that out.
        rings.room(mem).map_or(true, |room| room >= least)
    }
}
