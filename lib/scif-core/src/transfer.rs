//! send, recv and poll: the data path, and the notifications it owes the peer.

use scif_abi::Error;
use scif_abi::flags::Readiness;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::{NodeId, PortId};

use crate::connect::ConnectMode;
use crate::connection::{Connection, ConnectionId, Owed, Phase};
use crate::endpoint::{Attempt, Endpoint, EndpointId, EndpointState};
use crate::engine::Engine;
use crate::memory::Memory;
use crate::ring::RingError;

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
        let endpoint = self.endpoint(id)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let connection = match (endpoint.state, endpoint.connection) {
            (EndpointState::Connected, Some(connection)) => connection,
            (EndpointState::Disconnected, _) => return Err(Error::ConnectionReset),
            _ => return Err(Error::NotConnected),
        };
        match self.put(mem, connection, bytes) {
            Ok(count) => Ok(count),
            Err(_) => {
                self.reset_connection(mem, connection);
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
        let Some(connection) = self.connections.get_mut(id.0) else {
            return Ok(0);
        };
        let Some(rings) = &mut connection.rings else {
            return Ok(0);
        };
        let count = rings.outbound.put(mem, bytes)?;
        if count > 0 {
            connection.bytes_sent += count as u64;
            connection.owed.sent = true;
            self.stats.bytes_sent += count as u64;
            self.list_owing(id);
        }
        Ok(count)
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
        let endpoint = self.endpoint(id)?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let connected = match endpoint.state {
            EndpointState::Connected => true,
            EndpointState::Disconnected => false,
            _ => return Err(Error::NotConnected),
        };
        let connection = endpoint.connection.ok_or(Error::ConnectionReset)?;
        match self.take(mem, connection, buffer) {
            Ok(0) if !connected => Err(Error::ConnectionReset),
            Ok(count) => Ok(count),
            Err(_) => {
                self.reset_connection(mem, connection);
                Err(Error::ConnectionReset)
            }
        }
    }

    fn take(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        buffer: &mut [u8],
    ) -> Result<usize, RingError> {
        let Some(connection) = self.connections.get_mut(id.0) else {
            return Ok(0);
        };
        let Some(rings) = &mut connection.rings else {
            return Ok(0);
        };
        let count = rings.inbound.take(mem, buffer)?;
        if count == 0 {
            return Ok(0);
        }
        connection.bytes_received += count as u64;
        self.stats.bytes_received += count as u64;
        // A peer that is gone may have lost or reused the memory its read index was in.
        if connection.phase == Phase::Connected {
            rings.inbound.publish(mem)?;
            connection.owed.received = true;
            self.list_owing(id);
        }
        Ok(count)
    }

    /// `scif_poll` for one endpoint, without waiting.
    pub fn poll(&mut self, mem: &mut dyn Memory, id: EndpointId) -> Readiness {
        let Ok(endpoint) = self.endpoint(id) else {
            return Readiness::NVAL;
        };
        if let Some(readiness) = poll_without_rings(endpoint) {
            return readiness;
        }
        let connected = endpoint.state == EndpointState::Connected;
        let Some(connection) = endpoint.connection else {
            return Readiness::HUP;
        };
        match self.poll_rings(mem, connection) {
            Ok(readiness) if connected => readiness,
            Ok(readiness) => readiness & Readiness::IN | Readiness::HUP,
            Err(_) => {
                self.reset_connection(mem, connection);
                Readiness::HUP
            }
        }
    }

    fn poll_rings(&mut self, mem: &dyn Memory, id: ConnectionId) -> Result<Readiness, RingError> {
        let mut readiness = Readiness::empty();
        let connection = self.connections.get_mut(id.0);
        let Some(rings) = connection.and_then(|c| c.rings.as_mut()) else {
            return Ok(readiness);
        };
        readiness.set(Readiness::IN, rings.inbound.available(mem)? > 0);
        readiness.set(Readiness::OUT, rings.outbound.room(mem)? > 0);
        Ok(readiness)
    }

    /// Remembers that a connection owes its peer a notification. One that owes both, or the same
    /// one several times, is listed once: the notification says "look", not how much, and it is
    /// sent after the last index it is about.
    fn list_owing(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id.0)
            && !connection.is_listed
        {
            connection.is_listed = true;
            self.owing.push(id);
        }
    }

    /// Sends the notifications owed, as far as the node rings have room; the others stay owed.
    pub(crate) fn send_owed(&mut self, mem: &mut dyn Memory) {
        if self.owing.is_empty() {
            return;
        }
        let mut owing = core::mem::take(&mut self.owing);
        owing.retain(|id| !self.send_owed_by(mem, *id));
        // Nothing that runs meanwhile lists a connection, but if it did it must not be lost.
        owing.append(&mut self.owing);
        self.owing = owing;
    }

    /// Sends what one connection owes; false when there was no room for all of it.
    fn send_owed_by(&mut self, mem: &mut dyn Memory, id: ConnectionId) -> bool {
        let own = self.config.node;
        let Some(connection) = self.connections.get_mut(id.0) else {
            return true;
        };
        for message in owed_messages(connection, own).into_iter().flatten() {
            let number = connection.peer.node();
            if number == own {
                self.loopback.push_back(message);
            } else if let Some(node) = self.nodes.get_mut(&number) {
                match node.send_now(mem, &message) {
                    Ok(true) => node.stuck_since = None,
                    Ok(false) => {
                        node.stuck_since.get_or_insert(self.now);
                        return false;
                    }
                    Err(_) => {
                        self.fail_link(number);
                        return true;
                    }
                }
            }
            match message.opcode.get() {
                NodeMessage::CLIENT_SENT => connection.owed.sent = false,
                _ => connection.owed.received = false,
            }
        }
        connection.owed = Owed::default();
        connection.is_listed = false;
        true
    }

    /// Ends a connection whose ring the peer has spoilt: the peer hears that we closed, the
    /// endpoint that the peer has gone. Nothing is read from the ring any more.
    pub(crate) fn reset_connection(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        self.stats.rings_reset += 1;
        let Some(connection) = self.connections.get_mut(id.0) else {
            return;
        };
        let (count, local, peer) = (self.stats.rings_reset, connection.local, connection.peer);
        // Ever more rarely: a peer must not be able to flood the log.
        if count.is_power_of_two() {
            log::warn!("port {local} to {peer}: impossible ring index, reset ({count} so far)");
        }
        connection.rings = None;
        let connected = connection.phase == Phase::Connected;
        let endpoint = connection.endpoint;
        if connected {
            self.disconnect(mem, id);
        }
        if let Some(endpoint) = endpoint {
            if let Some(endpoint) = self.endpoints.get_mut(endpoint.0) {
                endpoint.state = EndpointState::Disconnected;
            }
            self.end_answers(id);
            self.announce(endpoint);
        }
    }
}

/// The messages for what a connection owes its peer; none unless it is connected.
fn owed_messages(connection: &Connection, own: NodeId) -> [Option<Message>; 2] {
    if connection.phase != Phase::Connected {
        return [None, None];
    }
    let from = PortId::new(own, connection.local);
    let peer = connection.remote;
    let message = |body| Message::new(from, connection.peer, body);
    [
        connection
            .owed
            .sent
            .then(|| message(NodeMessage::ClientSent { peer })),
        connection
            .owed
            .received
            .then(|| message(NodeMessage::ClientReceived { peer })),
    ]
}

/// What poll reports when the rings need not be looked at; `None` when they do.
fn poll_without_rings(endpoint: &Endpoint) -> Option<Readiness> {
    if let Some(Attempt {
        mode: ConnectMode::NonBlocking,
        result,
    }) = &endpoint.attempt
    {
        // Until the result has been collected, this is all there is to report.
        let ended = if result.is_some() {
            Readiness::OUT
        } else {
            Readiness::empty()
        };
        return Some(ended);
    }
    match endpoint.state {
        EndpointState::Connected | EndpointState::Disconnected => None,
        EndpointState::Listening if endpoint.requests.is_empty() => Some(Readiness::empty()),
        EndpointState::Listening => Some(Readiness::IN),
        _ => Some(Readiness::ERR),
    }
}
