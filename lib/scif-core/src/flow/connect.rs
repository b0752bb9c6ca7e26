//! connect: the active side of a connection, from the request to its result.

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::{Locality, Memory};
use crate::base::table::Key;
use crate::connection::{Connection, Phase};
use crate::endpoint::{ConnectMode, EndpointState};
use crate::engine::Engine;
use crate::queue_pair::block::RemoteQueuePair;
use core::task::Poll;

use scif_abi::message::{Extensions, NodeMessage};
use scif_abi::qp::{ARMED_QP_BYTES, QP_BYTES};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, Port, PortId};

/// The result of a connect that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// The request was sent. (`scif_connect` with `O_NONBLOCK` reports this as `EINPROGRESS`.)
    Started,
    /// This call collected the success of an earlier non-blocking connect. The value is the local
    /// port.
    Done(Port),
}

impl Engine {
    /// `scif_connect`: starts to connect, or collects the result of a non-blocking connect.
    /// `Event::Changed` follows the end of a connect. An unbound endpoint gets an ephemeral port,
    /// which it keeps if the connect fails.
    ///
    /// # Errors
    /// In this order. `ENODEV`: no such node, or it is not online (not checked when a result is
    /// collected). `EINVAL`: port 0. Then by state: `EOPNOTSUPP` listening; `EISCONN` connected or
    /// connecting; `EINPROGRESS` connecting non-blocking; `EINVAL` disconnected. `ENOSPC`: no port
    /// is free. `ENOMEM`, also: the user or process has too many unanswered requests. When
    /// collected: `ECONNREFUSED`, `ENODEV`.
    pub fn connect(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        to: PortId,
        mode: ConnectMode,
    ) -> Result<Connect, Error> {
        let endpoint = self.endpoints.get(id)?;
        let (state, attempt) = (endpoint.state(), endpoint.attempt());
        let collectable = attempt.and_then(|attempt| attempt.collectable());
        if collectable.is_none() && !self.nodes.is_online(&self.cx, to.node()) {
            return Err(Error::NoDevice);
        }
        if to.port() == 0 {
            return Err(Error::InvalidArgument);
        }
        if let Some(result) = collectable {
            let port = endpoint.port();
            self.endpoints.end_attempt(id);
            return result.map(|()| Connect::Done(port));
        }
        match (state, attempt) {
            (EndpointState::Unbound, _) => {
                self.endpoints.bind(id, 0)?;
            }
            (EndpointState::Bound, None) => {}
            // There is a result that was not collected.
            (EndpointState::Bound, Some(_)) => return Err(Error::InProgress),
            (EndpointState::Listening, _) => return Err(Error::NotSupported),
            (EndpointState::Connecting, Some(attempt)) if attempt.is_non_blocking() => {
                return Err(Error::InProgress);
            }
            (EndpointState::Disconnected, _) => return Err(Error::InvalidArgument),
            _ => return Err(Error::IsConnected),
        }
        self.request_connection(mem, id, to, mode)?;
        Ok(Connect::Started)
    }

    fn request_connection(
        &mut self,
        mem: &mut dyn Memory,
        id: EndpointId,
        to: PortId,
        mode: ConnectMode,
    ) -> Result<(), Error> {
        let endpoint = self.endpoints.get(id)?;
        let (owner, local) = (endpoint.owner(), endpoint.port());
        let ends = Ends { local, peer: to };
        let requested = (self.connections).request(mem, &mut self.cx, id, ends, owner)?;
        let (connection, queue_pair) = requested;
        self.endpoints.connecting(id, connection, to, mode);
        let body = NodeMessage::ConnectRequest {
            connector: connection.number(),
            queue_pair,
        };
        self.cx.post(ends, body);
        Ok(())
    }

    /// Whether a connect was begun on the endpoint whose result was not collected.
    pub fn owes_connect_result(&self, id: EndpointId) -> bool {
        let endpoint = self.endpoints.get(id);
        endpoint.is_ok_and(|endpoint| endpoint.attempt().is_some())
    }

    /// Takes the result of a blocking connect, once: the local port on success. `Pending` until an
    /// `Event::Changed`. After a failure the endpoint is bound and can connect again.
    pub fn connect_result(&mut self, id: EndpointId) -> Poll<Result<Port, Error>> {
        let endpoint = match self.endpoints.get(id) {
            Ok(endpoint) => endpoint,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Some(attempt) = endpoint.attempt() else {
            // The connect was cancelled, or never begun.
            return Poll::Ready(Err(Error::Interrupted));
        };
        let Some(result) = attempt.result() else {
            return Poll::Pending;
        };
        let port = endpoint.port();
        self.endpoints.end_attempt(id);
        Poll::Ready(result.map(|()| port))
    }

    /// Gives up a connect that is under way, because the waiting caller was interrupted. The
    /// endpoint is bound again, and may connect again at once. Does nothing if no connect is under
    /// way.
    pub fn connect_cancel(&mut self, id: EndpointId) {
        let Ok(endpoint) = self.endpoints.get(id) else {
            return;
        };
        if endpoint.state() != EndpointState::Connecting {
            return;
        }
        if let Some(connection) = endpoint.connection() {
            self.withdraw(connection);
        }
        self.endpoints.end_attempt(id);
    }

    /// Withdraws a request. Its endpoint is bound again. The connection waits for the peer's
    /// answer, whatever it is, because the peer may write to its pages until then.
    pub(crate) fn withdraw(&mut self, id: ConnectionId) {
        if !self.connections.withdraw(&mut self.cx, id) {
            return;
        }
        if let Some(endpoint) = self.connections.take_endpoint(id) {
            self.endpoints.withdrawn(endpoint);
        }
        let node = self.connections.get(id).map(Connection::node);
        if node.is_some_and(|node| (self.nodes).understands(&self.cx, node, Extensions::WITHDRAW)) {
            self.connections.expect_final_ack(&mut self.cx, id);
            let connector = id.number();
            let body = NodeMessage::ConnectWithdraw { connector };
            self.connections.post(&mut self.cx, id, body);
        }
    }

    /// Ends a request without a connection: it was refused, withdrawn in time, or timed out.
    pub(crate) fn fail_request(&mut self, id: ConnectionId, error: Error) {
        if let Some(endpoint) = self.connections.take_endpoint(id) {
            self.endpoints.connect_failed(&mut self.cx, endpoint, error);
        }
    }

    /// CNCT_GNT for our request `connector`, with the acceptor's id and the bus address of its
    /// queue pair.
    pub(crate) fn on_grant(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        connector: u64,
        (queue_pair, acceptor): (u64, u64),
    ) {
        let phases = [Phase::Requested, Phase::Withdrawn];
        let id = self.connection_in(ends.peer.node(), connector, &phases);
        let connection = id.and_then(|id| Some((id, self.connections.get(id)?)));
        let Some((id, connection)) = connection else {
            // The acceptor must not wait for a connector that has gone.
            let body = NodeMessage::ConnectGrantNack { acceptor };
            return self.cx.post(ends, body);
        };
        let (node, endpoint) = (connection.node(), connection.endpoint());
        let wanted = connection.phase() == Phase::Requested;
        let is_armable = self.nodes.understands(&self.cx, node, Extensions::ARMED);
        let remote = match wanted {
            true => self.remote_pair(mem, node, acceptor, queue_pair),
            false => None,
        };
        let (Some(remote), Some(endpoint)) = (remote, endpoint) else {
            if wanted {
                self.cx.stats.bad_queue_pairs += 1;
                self.cx.trace(What::BadQueuePair, node, queue_pair);
                self.fail_request(id, Error::NoDevice);
            }
            let body = NodeMessage::ConnectGrantNack { acceptor };
            self.connections.post(&mut self.cx, id, body);
            // The acceptor has written its two zeros; this message keeps it from doing more.
            self.connections.free(mem, &mut self.cx, id);
            return;
        };
        let cx = &mut self.cx;
        (self.connections).establish(cx, id, acceptor, &remote, is_armable);
        self.endpoints.connected(cx, endpoint);
        // Sent only now that we count as connected: a peer that closes as soon as it has the
        // acknowledgement must find us.
        let body = NodeMessage::ConnectGrantAck { acceptor };
        self.connections.post(cx, id, body);
    }

    /// CNCT_REJ: the request is refused.
    pub(crate) fn on_reject(&mut self, mem: &mut dyn Memory, from: NodeId, connector: u64) {
        let phases = [Phase::Requested, Phase::Withdrawn];
        if let Some(id) = self.connection_in(from, connector, &phases) {
            self.fail_request(id, Error::ConnectionRefused);
            self.connections.free(mem, &mut self.cx, id);
        }
    }

    /// TERM_ACK: the request was withdrawn in time.
    pub(crate) fn on_withdraw_ack(&mut self, mem: &mut dyn Memory, from: NodeId, connector: u64) {
        if let Some(id) = self.connection_in(from, connector, &[Phase::Withdrawn]) {
            self.connections.free(mem, &mut self.cx, id);
        }
    }

    /// The other side's half of a connection with `node`, from its id there and the bus address
    /// that it gave for its queue pair. `None`: there is no usable queue pair.
    pub(crate) fn remote_pair(
        &self,
        mem: &dyn Memory,
        node: NodeId,
        id: u64,
        address: u64,
    ) -> Option<RemoteQueuePair> {
        if node == self.cx.config.node {
            let id = ConnectionId::from_number(id);
            return self.connections.queue_pair_at(id, address);
        }
        let bytes = queue_pair_bytes(self.nodes.understands(&self.cx, node, Extensions::ARMED));
        RemoteQueuePair::read(mem, Locality::Peer(node), address, bytes)
    }
}

/// The size in bytes of the other side's queue pair structure with the words behind it.
fn queue_pair_bytes(is_armable: bool) -> usize {
    if is_armable { ARMED_QP_BYTES } else { QP_BYTES }
}
