//! Send, receive and poll on the rings of connections, by the engine itself.

use scif_abi::flags::Readiness;
use scif_abi::limits::{CLIENT_RETRY_DOUBLINGS, CLIENT_RETRY_NS};
use scif_abi::trace::What;
use scif_ring::Side;

use crate::base::context::Context;
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::notify::Notify;
use crate::connection::{Connection, Connections, Phase};
use crate::queue_pair::rings::{Moved, RingError};

impl Connections {
    /// Puts bytes into the peer's ring, of which `spare` bytes stay free. Returns how many bytes
    /// found room.
    ///
    /// # Errors
    /// The ring is broken.
    pub(crate) fn send(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        bytes: &[u8],
        spare: u32,
    ) -> Result<usize, RingError> {
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(0);
        };
        let node = connection.node();
        let Some(rings) = &mut connection.rings else {
            return Ok(0);
        };
        match rings.put(mem, bytes, spare)? {
            Moved::Bytes(count) => {
                connection.failed_locks = 0;
                if count == 0 {
                    self.wait_for_credit(cx, id);
                    return Ok(0);
                }
                cx.count_stream(node, count as u64, 0);
                self.add_notification(id, Readiness::IN, Notify::IfArmed);
                Ok(count)
            }
            Moved::Contended => {
                self.retry_ring(cx, id);
                Ok(0)
            }
        }
    }

    /// How many bytes of the peer's ring are free, and its size in bytes; both 0 without rings.
    ///
    /// # Errors
    /// The ring is broken.
    pub(crate) fn room(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
    ) -> Result<(u32, u32), RingError> {
        let rings = self.table.get_mut(id).and_then(|c| c.rings.as_mut());
        rings.map_or(Ok((0, 0)), |rings| {
            Ok((rings.room(mem)?, rings.peer_ring_bytes()))
        })
    }

    /// The peer's write index in our ring, unchecked; `None` without rings.
    pub(crate) fn written(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> Option<u32> {
        let rings = self.table.get_mut(id)?.rings.as_mut()?;
        Some(rings.written(mem))
    }

    /// Takes bytes out of our ring.
    ///
    /// # Errors
    /// The ring is broken.
    pub(crate) fn receive(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        buffer: &mut [u8],
    ) -> Result<Moved, RingError> {
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(Moved::Bytes(0));
        };
        let node = connection.node();
        let Some(rings) = &mut connection.rings else {
            return Ok(Moved::Bytes(0));
        };
        // If the peer is gone, the memory of its read index may be lost or reused.
        let is_connected = connection.phase == Phase::Connected;
        let moved = rings.take(mem, buffer, is_connected)?;
        match moved {
            Moved::Bytes(count) => {
                connection.failed_locks = 0;
                cx.count_stream(node, 0, count as u64);
                if is_connected && count > 0 {
                    self.add_notification(id, Readiness::OUT, Notify::IfArmed);
                }
            }
            Moved::Contended => self.retry_ring(cx, id),
        }
        Ok(moved)
    }

    /// Whether there are bytes and room. Asks the peer to notify us of what is missing.
    ///
    /// # Errors
    /// The rings are broken.
    pub(crate) fn readiness(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
    ) -> Result<Readiness, RingError> {
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(Readiness::empty());
        };
        let Some(rings) = &mut connection.rings else {
            return Ok(Readiness::empty());
        };
        let mut found = rings.readiness(mem)?;
        if rings.is_armable() && connection.phase == Phase::Connected {
            if found[1] == Some(false) {
                found[1] = rings.arm_room(mem)?;
            }
            if found[0] == Some(false) {
                found[0] = self.polled.await_bytes(mem, cx, id, connection)?;
            }
        }
        let mut readiness = Readiness::empty();
        readiness.set(Readiness::IN, found[0] == Some(true));
        if connection.receives_no_more {
            readiness |= Readiness::IN | Readiness::READ_HUP;
        }
        readiness.set(Readiness::OUT, found[1] == Some(true));
        if found.contains(&None) {
            retry_ring_in(cx, id, CLIENT_RETRY_NS);
        }
        if found[1] == Some(false) {
            self.wait_for_credit(cx, id);
        }
        Ok(readiness)
    }

    /// Notes that no more bytes are put into the peer's ring. Returns whether that is new.
    pub(crate) fn finish(&mut self, id: ConnectionId) -> bool {
        let connection = self.table.get_mut(id);
        connection.is_some_and(|connection| !core::mem::replace(&mut connection.is_finished, true))
    }

    /// Notes that no more bytes come, because the peer or the own program has said so. Calls that
    /// wait for bytes are retried.
    pub(crate) fn end_receiving(&mut self, cx: &mut Context, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else {
            return;
        };
        connection.receives_no_more = true;
        if let Some(endpoint) = connection.endpoint {
            cx.events.changed(endpoint);
        }
        self.state_changed(id);
    }

    /// Whether no more bytes come.
    pub(crate) fn receives_no_more(&self, id: ConnectionId) -> bool {
        let connection = self.table.get(id);
        connection.is_some_and(|connection| connection.receives_no_more)
    }

    /// Handles a notification of the peer, or one that a client may have taken in our place: calls
    /// that wait are retried, and the peer is armed anew for subscribers.
    ///
    /// # Errors
    /// The rings are broken.
    pub(crate) fn notified(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        what: Readiness,
    ) -> Result<(), RingError> {
        if what == Readiness::OUT && self.defers_wakeup(mem, cx, id) {
            return Ok(());
        }
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(());
        };
        if let Some(endpoint) = connection.endpoint {
            cx.events.changed(endpoint);
        }
        self.arm(mem, cx, id, what)
    }

    /// Replaces the readiness that a subscriber is notified of. The peer is armed for what is new
    /// in it. If there are clients, which may have taken its notification in our place, this
    /// counts as a notification.
    ///
    /// # Errors
    /// The rings are broken.
    pub(crate) fn subscribe(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        id: ConnectionId,
        events: Readiness,
    ) -> Result<(), RingError> {
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(());
        };
        let new = events & !connection.waiting;
        connection.waiting = events;
        if connection.phase != Phase::Connected || new.is_empty() {
            return Ok(());
        }
        if connection.is_mapped() {
            return self.notified(mem, cx, id, new);
        }
        self.arm(mem, cx, id, new)
    }

    /// Makes sure that we learn of bytes (IN) and room (OUT), if they are subscribed to. (A call
    /// that waits once arms the peer itself when it finds none.)
    ///
    /// # Errors
    /// The peer's memory cannot be reached.
    fn arm(
        &mut self,
        mem: &mut dyn Memory,
        cx: &Context,
        id: ConnectionId,
        what: Readiness,
    ) -> Result<(), RingError> {
        let Some(connection) = self.table.get_mut(id) else {
            return Ok(());
        };
        let what = what & connection.waiting;
        let Some(rings) = connection.rings.as_mut().filter(|rings| rings.is_armable()) else {
            return Ok(());
        };
        if what.contains(Readiness::OUT) {
            rings.arm_room(mem)?;
        }
        if what.contains(Readiness::IN) {
            self.polled.await_bytes(mem, cx, id, connection)?;
        }
        Ok(())
    }

    /// Begins (`holds`) or ends a transfer that takes several calls.
    pub(crate) fn hold_ring(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        side: Side,
        holds: bool,
    ) {
        let connection = self.table.get_mut(id);
        if let Some(rings) = connection.and_then(|connection| connection.rings.as_mut()) {
            rings.hold(mem, side, holds);
        }
    }

    /// Schedules a retry of the endpoint's calls, because a client has locked a ring. The delay
    /// grows while the ring stays locked.
    fn retry_ring(&mut self, cx: &mut Context, id: ConnectionId) {
        if let Some(connection) = self.table.get_mut(id)
            && cx.timers.get(Timer::RingRetry(id)).is_none()
        {
            let doublings = connection.failed_locks.min(CLIENT_RETRY_DOUBLINGS);
            connection.failed_locks = connection.failed_locks.saturating_add(1);
            retry_ring_in(cx, id, CLIENT_RETRY_NS << doublings);
        }
    }

    /// Retries the endpoint's calls, because a client had locked a ring.
    pub(crate) fn on_ring_retry(&self, cx: &mut Context, id: ConnectionId) {
        if let Some(endpoint) = self.table.get(id).and_then(Connection::endpoint) {
            cx.events.changed(endpoint);
        }
    }

    /// Drops rings that the peer, or a client, has broken. Returns the phase and the endpoint of
    /// the connection.
    pub(crate) fn spoil(
        &mut self,
        cx: &mut Context,
        id: ConnectionId,
    ) -> Option<(Phase, Option<EndpointId>)> {
        cx.stats.rings_reset += 1;
        let connection = self.table.get_mut(id)?;
        let (count, ends) = (cx.stats.rings_reset, connection.ends);
        // Logged ever more rarely: a peer must not be able to flood the log.
        if count.is_power_of_two() {
            let (local, peer) = (ends.local, ends.peer);
            log::warn!("port {local} to {peer}: impossible ring index, reset ({count} so far)");
        }
        connection.moved = connection.moved();
        connection.rings = None;
        cx.trace_ends(What::RingReset, ends, 0);
        let (phase, endpoint) = (connection.phase, connection.endpoint);
        self.state_changed(id);
        Some((phase, endpoint))
    }
}

/// Schedules a retry of the endpoint's calls after `wait` ns, because clients have a ring locked
/// or are too busy with it.
fn retry_ring_in(cx: &mut Context, id: ConnectionId, wait: u64) {
    let timer = Timer::RingRetry(id);
    if cx.timers.get(timer).is_none() {
        cx.timers.set(timer, cx.after(wait));
    }
}
