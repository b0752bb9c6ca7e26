//! send, recv and poll: the data path, and the notifications it owes the peer.

use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::{Connection, Notify, Phase};
use crate::endpoint::{Endpoint, EndpointState};
use crate::engine::Engine;
use crate::queue_pair::rings::{Moved, RingError};
use scif_abi::Error;
use scif_abi::flags::Readiness;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{NodeId, PortId};

/// Nanoseconds a peer that waits for room waits at most for more of it.
const CREDIT_DELAY_NS: u64 = 1_000_000;

impl Engine {
    /// `scif_send` without waiting: bytes taken, 0 when there is no room (or `bytes` is empty,
    /// which is 0 in every state). Bytes taken are in the peer's memory and stay readable whatever
    /// happens here.
    ///
    /// # Errors
    /// `ENOTCONN`: not connected. `ECONNRESET`: the peer is gone. `EBADF`: no such endpoint.
    pub fn send(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        let endpoint = self.endpoints.get(id)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let connection = match (endpoint.state(), endpoint.connection()) {
            (EndpointState::Connected, Some(connection)) => connection,
            (EndpointState::Disconnected, _) => return Err(Error::ConnectionReset),
            _ => return Err(Error::NotConnected),
        };
        match self.put(mem, connection, bytes) {
            Ok(count) => Ok(count),
            Err(_) => {
                self.reset_connection(connection);
                Err(Error::ConnectionReset)
            }
        }
    }

    fn put(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        bytes: &[u8],
    ) -> Result<usize, RingError> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(0);
        };
        let Some(rings) = &mut connection.rings else {
            return Ok(0);
        };
        match rings.put(mem, bytes)? {
            Moved::Bytes(count) => {
                connection.failed_locks = 0;
                if count == 0 {
                    self.wait_for_credit(id);
                    return Ok(0);
                }
                connection.notify.sent = connection.notify.sent.max(Notify::IfArmed);
                self.cx.stats.bytes_sent = self.cx.stats.bytes_sent.wrapping_add(count as u64);
                self.queue_notification(id);
                Ok(count)
            }
            Moved::Contended => {
                self.retry_ring(id);
                Ok(0)
            }
        }
    }

    /// `scif_recv` without waiting: bytes given, 0 when there are none (or `buffer` is empty, which
    /// is 0 in every state).
    ///
    /// # Errors
    /// `ENOTCONN`: not connected. `ECONNRESET`: the peer is gone and nothing is left. `EBADF`.
    pub fn recv(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let endpoint = self.endpoints.get(id)?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let connected = match endpoint.state() {
            EndpointState::Connected => true,
            EndpointState::Disconnected => false,
            _ => return Err(Error::NotConnected),
        };
        let connection = endpoint.connection().ok_or(Error::ConnectionReset)?;
        match self.take(mem, connection, buffer) {
            Ok(Moved::Bytes(0)) if !connected => Err(Error::ConnectionReset),
            Ok(Moved::Bytes(count)) => Ok(count),
            // A client has the ring: what is in it has not been looked at. Who waits is told.
            Ok(Moved::Contended) => Ok(0),
            Err(_) => {
                self.reset_connection(connection);
                Err(Error::ConnectionReset)
            }
        }
    }

    fn take(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        buffer: &mut [u8],
    ) -> Result<Moved, RingError> {
        let Some(connection) = self.connections.get_mut(id) else {
            return Ok(Moved::Bytes(0));
        };
        let Some(rings) = &mut connection.rings else {
            return Ok(Moved::Bytes(0));
        };
        // A peer that is gone may have lost or reused the memory its read index was in.
        let is_connected = connection.phase == Phase::Connected;
        let moved = rings.take(mem, buffer, is_connected)?;
        match moved {
            Moved::Bytes(0) => connection.failed_locks = 0,
            Moved::Bytes(count) => {
                connection.failed_locks = 0;
                self.cx.stats.bytes_received =
                    self.cx.stats.bytes_received.wrapping_add(count as u64);
                if is_connected {
                    connection.notify.received = connection.notify.received.max(Notify::IfArmed);
                    self.queue_notification(id);
                }
            }
            Moved::Contended => self.retry_ring(id),
        }
        Ok(moved)
    }

    /// `scif_poll` for one endpoint, without waiting. What it does not report will be told by
    /// `Event::Changed` when it comes, also while clients work on the rings.
    pub fn poll(&mut self, mem: &mut dyn Memory, id: EndpointId) -> Readiness {
        let Ok(endpoint) = self.endpoints.get(id) else {
            return Readiness::NVAL;
        };
        if let Some(readiness) = poll_without_rings(endpoint) {
            return readiness;
        }
        let connected = endpoint.state() == EndpointState::Connected;
        let Some(connection) = endpoint.connection() else {
            return Readiness::HUP;
        };
        match self.ring_readiness(mem, connection) {
            Ok(readiness) if connected => readiness,
            Ok(readiness) => readiness & Readiness::IN | Readiness::HUP,
            Err(_) => {
                self.reset_connection(connection);
                Readiness::HUP
            }
        }
    }

    fn ring_readiness(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
    ) -> Result<Readiness, RingError> {
        let connection = self.connections.get_mut(id);
        let Some(connection) = connection else {
            return Ok(Readiness::empty());
        };
        let Some(rings) = &mut connection.rings else {
            return Ok(Readiness::empty());
        };
        let mut found = rings.readiness(mem)?;
        if rings.is_armable() && connection.phase == Phase::Connected {
            if found[0] == Some(false) {
                found[0] = rings.arm_bytes(mem)?;
            }
            if found[1] == Some(false) {
                found[1] = rings.arm_room(mem)?;
            }
        }
        let mut readiness = Readiness::empty();
        readiness.set(Readiness::IN, found[0] == Some(true));
        readiness.set(Readiness::OUT, found[1] == Some(true));
        if found.contains(&None) {
            self.retry_ring_soon(id);
        }
        if found[1] == Some(false) {
            self.wait_for_credit(id);
        }
        Ok(readiness)
    }

    /// The peer told something, or a client may have been told in our place: whoever waits shall
    /// look, and those who subscribed want to hear more.
    pub(crate) fn on_notification(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        what: Readiness,
    ) {
        if what == Readiness::OUT && self.defers_wakeup(mem, id) {
            return;
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let endpoint = connection.endpoint;
        let is_spoilt = connection.arm(mem, what).is_err();
        if is_spoilt {
            self.reset_connection(id);
        }
        if let Some(endpoint) = endpoint {
            self.cx.events.changed(endpoint);
        }
    }

    /// Whether a notification for `number` waits for room.
    pub(crate) fn has_notifications_for(&self, number: NodeId) -> bool {
        let connections = self.notifications.iter();
        let mut connections = connections.filter_map(|id| self.connections.get(*id));
        connections.any(|c| c.phase == Phase::Connected && c.peer.node() == number)
    }

    /// Remembers that a connection owes its peer a notification. One that owes both, or the same
    /// one several times, is listed once: the notification says "look", not how much, and it is
    /// sent after the last index it is about.
    pub(crate) fn queue_notification(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id)
            && !connection.is_notification_queued
        {
            connection.is_notification_queued = true;
            self.notifications.push(id);
        }
    }

    /// Sends the notifications owed, as far as the node rings have room; the others stay owed.
    pub(crate) fn send_notifications(&mut self, mem: &mut dyn Memory) {
        if self.notifications.is_empty() {
            return;
        }
        let mut notifications = core::mem::take(&mut self.notifications);
        notifications.retain(|id| !self.send_notifications_of(mem, *id));
        // Nothing that runs meanwhile lists a connection, but if it did it must not be lost.
        notifications.append(&mut self.notifications);
        self.notifications = notifications;
    }

    /// Sends what one connection owes; false when there was no room for all of it.
    fn send_notifications_of(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> bool {
        let own = self.cx.config.node;
        let Some(connection) = self.connections.get_mut(id) else {
            return true;
        };
        connection.resolve_notifications(mem);
        for message in notification_messages(connection, own).into_iter().flatten() {
            let number = connection.peer.node();
            if number == own {
                self.cx.loopback.push_back(message);
            } else if !(self.nodes).send_notification(mem, &mut self.cx, number, &message) {
                return false;
            }
            match message.opcode.get() {
                NodeMessage::CLIENT_SENT => connection.notify.sent = Notify::No,
                _ => connection.notify.received = Notify::No,
            }
        }
        connection.is_notification_queued = false;
        let is_connected = connection.phase == Phase::Connected;
        connection.notify.sent = Notify::No;
        if connection.notify.received != Notify::IfArmed || !is_connected {
            connection.notify.received = Notify::No;
        } else if !connection.is_credit_update_due {
            // The peer waits for room, and is told when half of the ring is free, or soon: whoever
            // takes from the ring may stop in the middle.
            connection.is_credit_update_due = true;
            let at = self.cx.after(CREDIT_DELAY_NS);
            self.cx.timers.set_earliest(Timer::CreditUpdate, at);
            self.credit_updates.push(id);
        }
        true
    }

    /// Tells peers that wait of the room there is, however little.
    pub(crate) fn send_credit_updates(&mut self, mem: &mut dyn Memory) {
        let mut credit_updates = core::mem::take(&mut self.credit_updates);
        for id in credit_updates.drain(..) {
            let Some(connection) = self.connections.get_mut(id) else {
                continue;
            };
            connection.is_credit_update_due = false;
            let is_waiting = connection.notify.received == Notify::IfArmed;
            let rings = connection.rings.as_mut().filter(|_| is_waiting);
            if rings.is_some_and(|rings| rings.wants_room(mem)) {
                connection.notify.received = Notify::Always;
                self.queue_notification(id);
            } else if is_waiting {
                connection.notify.received = Notify::No;
            }
        }
        self.credit_updates = credit_updates;
    }

    /// Ends a connection whose ring the peer has spoilt: the peer hears that we closed, the
    /// endpoint that the peer has gone. Nothing is read from the ring any more.
    pub(crate) fn reset_connection(&mut self, id: ConnectionId) {
        self.cx.stats.rings_reset += 1;
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (count, local, peer) = (self.cx.stats.rings_reset, connection.local, connection.peer);
        let ends = connection.ends();
        // Ever more rarely: a peer must not be able to flood the log.
        if count.is_power_of_two() {
            log::warn!("port {local} to {peer}: impossible ring index, reset ({count} so far)");
        }
        connection.moved = connection.moved();
        connection.rings = None;
        let connected = connection.phase == Phase::Connected;
        let endpoint = connection.endpoint;
        self.cx.trace_ends(What::RingReset, ends, 0);
        self.publish_state(id);
        if connected {
            self.disconnect(id);
        }
        if let Some(endpoint) = endpoint {
            self.end_responses(id);
            self.endpoints.disconnected(&mut self.cx, endpoint);
        }
    }
}

impl Connection {
    /// Asks the peer to tell us of bytes (IN) and room (OUT), as far as somebody has subscribed to
    /// them. (Who waits once asks when it has found none.)
    ///
    /// # Errors
    /// The peer's memory is not there.
    pub(crate) fn arm(&mut self, mem: &mut dyn Memory, what: Readiness) -> Result<(), RingError> {
        let Some(rings) = self.rings.as_mut().filter(|rings| rings.is_armable()) else {
            return Ok(());
        };
        let what = what & self.waiting;
        if what.contains(Readiness::IN) {
            rings.arm_bytes(mem)?;
        }
        if what.contains(Readiness::OUT) {
            rings.arm_room(mem)?;
        }
        Ok(())
    }

    /// Decides for everything that has changed whether the peer is told.
    fn resolve_notifications(&mut self, mem: &mut dyn Memory) {
        let Some(rings) = &mut self.rings else {
            return;
        };
        let is_armable = rings.is_armable();
        let decide = |asks: bool| if asks { Notify::Always } else { Notify::No };
        if self.notify.sent == Notify::IfArmed {
            self.notify.sent = decide(!is_armable || rings.wants_bytes(mem));
        }
        if self.notify.received == Notify::IfArmed
            && !rings.is_credit_small(mem, self.block.ring_bytes() / 2)
        {
            self.notify.received = decide(!is_armable || rings.wants_room(mem));
        }
    }
}

/// The messages for what a connection owes its peer; none unless it is connected.
fn notification_messages(connection: &Connection, own: NodeId) -> [Option<Message>; 2] {
    if connection.phase != Phase::Connected {
        return [None, None];
    }
    let from = PortId::new(own, connection.local);
    let peer = connection.remote;
    let message = |body| Message::new(from, connection.peer, body);
    [
        (connection.notify.sent == Notify::Always)
            .then(|| message(NodeMessage::ClientSent { peer })),
        (connection.notify.received == Notify::Always)
            .then(|| message(NodeMessage::ClientReceived { peer })),
    ]
}

/// What poll reports when the rings need not be looked at; `None` when they do.
fn poll_without_rings(endpoint: &Endpoint) -> Option<Readiness> {
    if let Some(attempt) = endpoint
        .attempt()
        .filter(|attempt| attempt.is_non_blocking())
    {
        // Until the result has been collected, this is all there is to report.
        let ended = if attempt.result().is_some() {
            Readiness::OUT
        } else {
            Readiness::empty()
        };
        return Some(ended);
    }
    match endpoint.state() {
        EndpointState::Connected | EndpointState::Disconnected => None,
        EndpointState::Listening if endpoint.requests()[0] == 0 => Some(Readiness::empty()),
        EndpointState::Listening => Some(Readiness::IN),
        _ => Some(Readiness::ERR),
    }
}
