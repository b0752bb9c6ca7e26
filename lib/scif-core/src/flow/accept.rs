//! accept: the passive side of a connection, from the queued request to the acknowledged grant.

use alloc::vec::Vec;
use core::task::Poll;

use scif_abi::limits::{BASE_REQUEST_NS, HANDSHAKE_TIMEOUT_NS};
use scif_abi::message::{Extensions, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, PortId};

use crate::base::config::Owner;
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::connection::{Ends, Phase};
use crate::endpoint::{EndpointState, Request};
use crate::engine::Engine;
use crate::queue_pair::block::RemoteQueuePair;
use crate::queue_pair::rings::Rings;

impl Engine {
    /// First half of `scif_accept`: takes the first request and grants it with a new endpoint,
    /// which is not connected yet. `owner` owns it. `Event::Changed` for the new endpoint tells
    /// when [`Engine::accept_finish`] has a result. A caller that gives up closes the new endpoint.
    ///
    /// # Errors
    /// `EAGAIN`: no request. `EINVAL`: not listening. `ENOMEM`: the request has been refused.
    pub fn accept_start(
        &mut self,
        mem: &mut dyn Memory,
        listener: EndpointId,
        owner: Owner,
    ) -> Result<EndpointId, Error> {
        let endpoint = self.endpoint(listener)?;
        if endpoint.state != EndpointState::Listening {
            return Err(Error::InvalidArgument);
        }
        let port = endpoint.port;
        // Ends: every turn takes one of at most `MAX_BACKLOG` requests.
        while let Some(request) = self.endpoint_mut(listener)?.requests.pop_front() {
            let node = request.source.node();
            let remote = self.remote_pair(mem, node, request.connector, request.queue_pair);
            let Some(remote) = remote else {
                self.stats.bad_queue_pairs += 1;
                self.trace(What::BadQueuePair, node, request.queue_pair);
                self.refuse(mem, port, &request);
                continue;
            };
            return match self.grant(mem, port, &request, &remote, owner) {
                Ok(new) => Ok(new),
                Err(error) => {
                    self.refuse(mem, port, &request);
                    Err(error)
                }
            };
        }
        Err(Error::WouldBlock)
    }

    /// Makes the accepted endpoint and its queue pair, and tells the connector.
    fn grant(
        &mut self,
        mem: &mut dyn Memory,
        port: scif_abi::Port,
        request: &Request,
        remote: &RemoteQueuePair,
        owner: Owner,
    ) -> Result<EndpointId, Error> {
        let new = self.add_endpoint(owner)?;
        let ends = Ends {
            local: port,
            peer: request.source,
        };
        let id = match self.add_connection(mem, Phase::Granted, new, ends) {
            Ok(id) => id,
            Err(error) => {
                self.remove_endpoint(new);
                return Err(error);
            }
        };
        let is_armable = self.understands(request.source.node(), Extensions::ARMED);
        let mut queue_pair = 0;
        let is_there = remote.clear_indices(mem).is_ok();
        if let Some(connection) = self.connections.get_mut(id) {
            connection.remote = request.connector;
            connection.rings = Some(Rings::new(&connection.block, remote, is_armable));
            queue_pair = connection.block.exported;
        }
        if !is_there {
            self.free_connection(mem, id);
            self.remove_endpoint(new);
            return Err(Error::NoDevice);
        }
        self.set_deadline(id, Some(self.now.saturating_add(HANDSHAKE_TIMEOUT_NS)));
        let endpoint = self.endpoint_mut(new)?;
        endpoint.state = EndpointState::Accepting;
        endpoint.port = port;
        endpoint.peer = request.source;
        endpoint.connection = Some(id);
        let body = NodeMessage::ConnectGrant {
            connector: request.connector,
            queue_pair,
            acceptor: id.number(),
        };
        self.answer(mem, port, request, body);
        Ok(new)
    }

    /// When a request of `from` that is handled now is void; `None`: never, as it is withdrawn in
    /// time. It is taken for as old as it can be: its ring may have held it for a while.
    pub(crate) fn request_is_void_at(&self, from: NodeId) -> Option<u64> {
        let since = self.nodes.get(&from)?.came_after;
        let is_withdrawn = self.understands(from, Extensions::WITHDRAW);
        (!is_withdrawn).then(|| since.saturating_add(BASE_REQUEST_NS))
    }

    /// A request is queued that is void from `at` on.
    pub(crate) fn note_void(&mut self, at: Option<u64>) {
        self.void_at = self.void_at.into_iter().chain(at).min();
    }

    /// Forgets requests whose connectors may have given up, without a word to them.
    pub(crate) fn tick_requests(&mut self) {
        let now = self.now;
        if self.void_at.is_none_or(|at| at > now) {
            return;
        }
        let listeners: Vec<EndpointId> = self.ports.listeners().map(|(_, id)| id).collect();
        let (mut next, mut count) = (None, 0);
        for listener in listeners {
            let Some(endpoint) = self.endpoints.get_mut(listener) else {
                continue;
            };
            let before = endpoint.requests.len();
            endpoint.requests.retain(|request| !request.is_void(now));
            count += before - endpoint.requests.len();
            let left = endpoint.requests.iter().filter_map(|r| r.void_at);
            next = left.chain(next).min();
        }
        self.void_at = next;
        self.stats.void_requests += count as u64;
    }

    /// Answers a request with CNCT_REJ.
    pub(crate) fn refuse(&mut self, mem: &mut dyn Memory, port: scif_abi::Port, request: &Request) {
        self.stats.refused += 1;
        let body = NodeMessage::ConnectReject {
            connector: request.connector,
        };
        self.answer(mem, port, request, body);
    }

    /// Answers a request: in time, or not at all if the connector's ring is full for so long.
    fn answer(
        &mut self,
        mem: &mut dyn Memory,
        port: scif_abi::Port,
        request: &Request,
        body: NodeMessage,
    ) {
        let (local, peer) = (port, request.source);
        self.post(mem, Ends { local, peer }, body);
        if let Some((node, at)) = self.nodes.get_mut(&peer.node()).zip(request.void_at) {
            node.limit_last(at);
        }
    }

    /// Forgets answers to a node that have waited for room until they are void: as if their
    /// connectors had withdrawn.
    pub(crate) fn drop_void_answers(&mut self, mem: &mut dyn Memory, number: NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        for answer in node.take_void(now) {
            self.stats.void_requests += 1;
            if let Ok(NodeMessage::ConnectGrant { acceptor, .. }) = answer.body()
                && let Some(id) = self.expect(number, acceptor, &[Phase::Granted])
            {
                self.fail_grant(id, Error::WouldBlock);
                self.free_connection(mem, id);
            }
        }
    }

    /// Second half of `scif_accept`: the peer's port id once the connector has acknowledged;
    /// `Pending` until `Event::Changed` says otherwise. On an error the new endpoint no longer
    /// exists.
    ///
    /// # Errors
    /// `EAGAIN`: the connector withdrew (an accept that waits takes the next request). `ENODEV`:
    /// its node is lost, or it did not answer. `EBADF`: no such endpoint.
    pub fn accept_finish(&mut self, new: EndpointId) -> Poll<Result<PortId, Error>> {
        let endpoint = match self.endpoint(new) {
            Ok(endpoint) => endpoint,
            Err(error) => return Poll::Ready(Err(error)),
        };
        match endpoint.state {
            EndpointState::Accepting => Poll::Pending,
            // Also when it was closed by the peer meanwhile: what the peer sent can be received.
            EndpointState::Connected | EndpointState::Disconnected => {
                Poll::Ready(Ok(endpoint.peer))
            }
            EndpointState::AcceptFailed(error) => {
                self.remove_endpoint(new);
                Poll::Ready(Err(error))
            }
            _ => Poll::Ready(Err(Error::InvalidArgument)),
        }
    }

    /// CNCT_GNTACK arrived for our grant `id`.
    pub(crate) fn on_grant_ack(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        self.set_deadline(id, None);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        match connection.endpoint {
            Some(endpoint) => {
                connection.phase = Phase::Connected;
                self.stats.accepted += 1;
                if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
                    endpoint.state = EndpointState::Connected;
                }
                self.announce(endpoint);
            }
            // Whoever accepted has gone meanwhile: the connector shall see a peer that closed.
            None => self.disconnect(mem, id),
        }
    }

    /// Tells whoever accepts that nothing comes of grant `id`.
    pub(crate) fn fail_grant(&mut self, id: ConnectionId, error: Error) {
        let Some(endpoint) = self.take_endpoint(id) else {
            return;
        };
        if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
            endpoint.state = EndpointState::AcceptFailed(error);
            endpoint.connection = None;
        }
        self.announce(endpoint);
    }
}
