//! send, recv and poll: the data path, and notifications of the peer.

use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::connection::Phase;
use crate::endpoint::{Endpoint, EndpointState, Endpoints};
use crate::engine::Engine;
use crate::queue_pair::rings::Moved;
use scif_abi::flags::Readiness;
use scif_abi::message::{Extensions, NodeMessage};
use scif_abi::{Error, NodeId};

impl Engine {
    /// `scif_send` without waiting. Returns the number of bytes taken: 0 if there is no room (or
    /// if `bytes` is empty, in every state). Bytes taken are in the peer's memory and stay
    /// readable whatever happens here.
    ///
    /// # Errors
    /// `ENOTCONN`: not connected. `ECONNRESET`: the peer is gone. `EBADF`: no such endpoint.
    pub fn send(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        bytes: &[u8],
    ) -> Result<usize, Error> {
        self.send_beside(mem, id, bytes, 0)
    }

    /// As [`send`](Self::send), but leaves `spare` bytes of the peer's ring free: a caller that
    /// always leaves them can send as many at any later time.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn send_beside(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        bytes: &[u8],
        spare: u32,
    ) -> Result<usize, Error> {
        self.endpoints.get(id)?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let connection = self.sending_connection(id)?;
        match (self.connections).send(mem, &mut self.cx, connection, bytes, spare) {
            Ok(count) => Ok(count),
            Err(_) => {
                self.reset_connection(connection);
                Err(Error::ConnectionReset)
            }
        }
    }

    /// How many bytes [`send`](Self::send) would take now, and the size in bytes of the peer's
    /// ring, which can never take as many at once.
    ///
    /// # Errors
    /// Those of [`send`](Self::send).
    pub fn room(&mut self, mem: &mut dyn Memory, id: EndpointId) -> Result<(u32, u32), Error> {
        let connection = self.sending_connection(id)?;
        self.connections.room(mem, connection).map_err(|_| {
            self.reset_connection(connection);
            Error::ConnectionReset
        })
    }

    /// The connection of an endpoint that may send.
    fn sending_connection(&self, id: EndpointId) -> Result<ConnectionId, Error> {
        let endpoint = self.endpoints.get(id)?;
        match (endpoint.state(), endpoint.connection()) {
            (EndpointState::Connected, Some(connection)) => Ok(connection),
            (EndpointState::Disconnected, _) => Err(Error::ConnectionReset),
            _ => Err(Error::NotConnected),
        }
    }

    /// `scif_recv` without waiting. Returns the number of bytes received: 0 if there are none (or
    /// if `buffer` is empty, in every state).
    ///
    /// # Errors
    /// `ENOTCONN`: not connected. `ECONNRESET`: the peer is gone, or sends no more, and no bytes
    /// are left. `EBADF`.
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
        let is_finished = self.connections.receives_no_more(connection);
        match (self.connections).receive(mem, &mut self.cx, connection, buffer) {
            Ok(Moved::Bytes(0)) if !connected || is_finished => Err(Error::ConnectionReset),
            Ok(Moved::Bytes(count)) => Ok(count),
            // A client has the ring locked; a timer has the call retried.
            Ok(Moved::Contended) => Ok(0),
            Err(_) => {
                self.reset_connection(connection);
                Err(Error::ConnectionReset)
            }
        }
    }

    /// Tells the peer that no more bytes come. Once it has taken those that were sent, its
    /// receives end with `ECONNRESET`, while it may still send. Bytes sent nevertheless may stay
    /// unread.
    ///
    /// # Errors
    /// `EOPNOTSUPP`: the peer's node has no message for that. `ENOTCONN`, `ECONNRESET`, `EBADF`.
    pub fn end_sending(&mut self, id: EndpointId) -> Result<(), Error> {
        let connection = self.sending_connection(id)?;
        let node = self.endpoints.get(id)?.peer().node();
        if !self.nodes.understands(&self.cx, node, Extensions::FINISH) {
            return Err(Error::NotSupported);
        }
        let identity = self.connections.identity(connection);
        if let Some(peer) = identity.filter(|_| self.connections.finish(connection)) {
            // Sent behind the bytes, which are in the peer's ring already.
            let body = NodeMessage::Finish { peer: peer.remote };
            self.cx.post(peer.ends, body);
        }
        Ok(())
    }

    /// Ends the receives of this endpoint as if the peer had sent FINISH: they return the bytes
    /// that have arrived, then `ECONNRESET`. The peer is not told, and may fill the ring.
    ///
    /// # Errors
    /// `ENOTCONN`, `ECONNRESET`, `EBADF`.
    pub fn end_receiving(&mut self, id: EndpointId) -> Result<(), Error> {
        let connection = self.sending_connection(id)?;
        self.connections.end_receiving(&mut self.cx, connection);
        Ok(())
    }

    /// `scif_poll` for one endpoint, without waiting. `Event::Changed` follows when something
    /// comes that it does not report, also while clients work on the rings.
    pub fn poll(&mut self, mem: &mut dyn Memory, id: EndpointId) -> Readiness {
        let Ok(endpoint) = self.endpoints.get(id) else {
            return Readiness::NVAL;
        };
        if let Some(readiness) = poll_without_rings(&self.endpoints, endpoint) {
            return readiness;
        }
        let connected = endpoint.state() == EndpointState::Connected;
        let Some(connection) = endpoint.connection() else {
            return Readiness::HUP;
        };
        match (self.connections).readiness(mem, &mut self.cx, connection) {
            Ok(readiness) if connected => readiness,
            Ok(readiness) => readiness & Readiness::IN | Readiness::HUP,
            Err(_) => {
                self.reset_connection(connection);
                Readiness::HUP
            }
        }
    }

    /// FINISH: the peer puts no more bytes into our ring.
    pub(crate) fn on_finish(&mut self, from: NodeId, connection: u64) {
        if let Some(id) = self.connection_in(from, connection, &[Phase::Connected]) {
            self.connections.end_receiving(&mut self.cx, id);
        }
    }

    /// CLIENT_SENT (IN) and CLIENT_RCVD (OUT) for our connection `peer`.
    pub(crate) fn on_client_message(
        &mut self,
        mem: &mut dyn Memory,
        from: NodeId,
        peer: u64,
        what: Readiness,
    ) {
        if let Some(id) = self.connection_in(from, peer, &[Phase::Connected]) {
            self.on_notification(mem, id, what);
        }
    }

    /// Handles a notification of the peer, or one that a client may have taken in our place.
    pub(crate) fn on_notification(
        &mut self,
        mem: &mut dyn Memory,
        id: ConnectionId,
        what: Readiness,
    ) {
        if (self.connections)
            .notified(mem, &mut self.cx, id, what)
            .is_err()
        {
            self.reset_connection(id);
        }
    }

    /// Ends a connection whose ring the peer, or a client, has broken: the peer sees a close, and
    /// the endpoint sees that the peer is gone. Nothing is read from the ring any more.
    pub(crate) fn reset_connection(&mut self, id: ConnectionId) {
        let Some((phase, endpoint)) = self.connections.spoil(&mut self.cx, id) else {
            return;
        };
        if phase == Phase::Connected {
            self.disconnect(id);
        }
        if let Some(endpoint) = endpoint {
            self.end_responses(id);
            self.endpoints.disconnected(&mut self.cx, endpoint);
        }
    }
}

/// The events that poll reports if the rings need not be read; `None`: they must be read.
fn poll_without_rings(endpoints: &Endpoints, endpoint: &Endpoint) -> Option<Readiness> {
    if let Some(attempt) = endpoint
        .attempt()
        .filter(|attempt| attempt.is_non_blocking())
    {
        // Until the result has been collected, there is nothing else to report.
        let ended = if attempt.result().is_some() {
            Readiness::OUT
        } else {
            Readiness::empty()
        };
        return Some(ended);
    }
    match endpoint.state() {
        EndpointState::Connected | EndpointState::Disconnected => None,
        EndpointState::Listening if endpoints.has_connector(endpoint) => Some(Readiness::IN),
        EndpointState::Listening => Some(Readiness::empty()),
        _ => Some(Readiness::ERR),
    }
}
