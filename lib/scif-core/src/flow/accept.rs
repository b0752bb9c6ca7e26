//! accept: the passive side of a connection, from the queued request to the acknowledged grant.

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::base::owner::Owner;
use crate::connection::Phase;
use crate::endpoint::requests::Request;
use crate::endpoint::{Endpoint, EndpointState};
use crate::engine::Engine;
use crate::queue_pair::block::RemoteQueuePair;
use core::task::Poll;

use scif_abi::limits::BASE_REQUEST_NS;
use scif_abi::message::{Extensions, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, Port, PortId};

impl Engine {
    /// First half of `scif_accept`: takes the first request and grants it with a new endpoint of
    /// `owner`, which is not connected yet. `Event::Changed` for the new endpoint reports when
    /// [`Engine::accept_finish`] has a result. A caller that gives up says so by
    /// [`Engine::accept_abandon`]; the next call then returns the same endpoint, with its owner.
    /// So do calls for requests that were granted [at once](Engine::grant_at_once).
    ///
    /// # Errors
    /// `EAGAIN`: no request. `EINVAL`: not listening. `ENOMEM`: the request has been refused.
    pub fn accept_start(
        &mut self,
        mem: &mut dyn Memory,
        listener: EndpointId,
        owner: Owner,
    ) -> Result<EndpointId, Error> {
        let endpoint = self.endpoints.get(listener)?;
        if endpoint.state() != EndpointState::Listening {
            return Err(Error::InvalidArgument);
        }
        let port = endpoint.port();
        if let Some(new) = self.endpoints.take_granted(listener) {
            return Ok(new);
        }
        self.grant_next(mem, (listener, port), owner)
    }

    /// Takes the first request of a listener and grants it.
    ///
    /// # Errors
    /// Those of [`accept_start`](Self::accept_start).
    fn grant_next(
        &mut self,
        mem: &mut dyn Memory,
        (listener, port): (EndpointId, Port),
        owner: Owner,
    ) -> Result<EndpointId, Error> {
        // The loop ends: every pass takes one of at most `MAX_BACKLOG` requests.
        while let Some(request) = self.endpoints.take_request(listener) {
            let node = request.source().node();
            let remote = self.remote_pair(mem, node, request.connector(), request.queue_pair());
            let Some(remote) = remote else {
                self.cx.stats.bad_queue_pairs += 1;
                self.cx
                    .trace(What::BadQueuePair, node, request.queue_pair());
                self.refuse(port, &request);
                continue;
            };
            return match self.grant(mem, port, &request, &remote, owner) {
                Ok(new) => Ok(new),
                Err(error) => {
                    self.refuse(port, &request);
                    Err(error)
                }
            };
        }
        Err(Error::WouldBlock)
    }

    /// Makes the accepted endpoint and its queue pair, and sends the grant to the connector.
    fn grant(
        &mut self,
        mem: &mut dyn Memory,
        port: Port,
        request: &Request,
        remote: &RemoteQueuePair,
        owner: Owner,
    ) -> Result<EndpointId, Error> {
        let new = self.endpoints.open(&mut self.cx, owner)?;
        let ends = Ends {
            local: port,
            peer: request.source(),
        };
        let node = ends.peer.node();
        let is_armable = self.nodes.understands(&self.cx, node, Extensions::ARMED);
        let connector = (request.connector(), remote);
        let cx = &mut self.cx;
        let granted = (self.connections).grant(mem, cx, (new, owner), ends, connector, is_armable);
        let (id, queue_pair) = granted.inspect_err(|_| {
            self.endpoints.remove(cx, new);
        })?;
        self.endpoints.accepting(new, id, ends);
        let body = NodeMessage::ConnectGrant {
            connector: request.connector(),
            queue_pair,
            acceptor: id.number(),
        };
        self.answer(port, request, body);
        Ok(new)
    }

    /// CNCT_REQ: queued or granted if an endpoint listens and there is room, else refused at once.
    pub(crate) fn on_request(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        connector: u64,
        queue_pair: u64,
    ) {
        let void_at = self.request_is_void_at(ends.peer.node());
        let request = Request::new(ends.peer, connector, queue_pair, void_at);
        if request.is_void(self.cx.now) {
            self.cx.stats.void_requests += 1;
            return;
        }
        let (endpoints, cx) = (&mut self.endpoints, &mut self.cx);
        if !endpoints.push_request(cx, ends.local, request) {
            self.refuse(ends.local, &request);
            return;
        }
        if let Some((listener, owner)) = self.endpoints.granting_listener(ends.local) {
            // A request that cannot be granted has been refused.
            if let Ok(new) = self.grant_next(mem, (listener, ends.local), owner) {
                self.endpoints.keep_granted(&mut self.cx, listener, new);
            }
        }
    }

    /// CNCT_TERM: the request is forgotten if it is still queued. Otherwise a grant or a refusal
    /// is on its way, and that is the answer.
    pub(crate) fn on_withdraw(&mut self, ends: Ends, connector: u64) {
        let node = ends.peer.node();
        if self.endpoints.withdraw_request(ends.local, node, connector) {
            self.cx.post(ends, NodeMessage::WithdrawAck { connector });
        }
    }

    /// When a request of `from` that is handled now becomes void; `None`: never, because such a
    /// connector withdraws in time. The request counts as old as it can be: the ring may have held
    /// it for a while.
    fn request_is_void_at(&self, from: NodeId) -> Option<u64> {
        let since = self.nodes.came_after(from)?;
        let is_withdrawn = self.nodes.understands(&self.cx, from, Extensions::WITHDRAW);
        (!is_withdrawn).then(|| since.saturating_add(BASE_REQUEST_NS))
    }

    /// Answers a request with CNCT_REJ.
    pub(crate) fn refuse(&mut self, port: Port, request: &Request) {
        self.cx.stats.refused += 1;
        let body = NodeMessage::ConnectReject {
            connector: request.connector(),
        };
        self.answer(port, request, body);
    }

    /// Answers a request in time, or not at all if the connector's ring is full for so long.
    fn answer(&mut self, port: Port, request: &Request, body: NodeMessage) {
        let (local, peer) = (port, request.source());
        self.cx
            .post_until(Ends { local, peer }, body, request.void_at());
    }

    /// Drops answers that have waited for room until they became void, as if their connectors had
    /// withdrawn.
    pub(crate) fn drop_void_answers(&mut self, mem: &mut dyn Memory) {
        for (node, answer) in self.nodes.take_void(self.cx.now) {
            self.cx.stats.void_requests += 1;
            if let Ok(NodeMessage::ConnectGrant { acceptor, .. }) = answer.body() {
                self.on_grant_nack(mem, node, acceptor);
            }
        }
    }

    /// Second half of `scif_accept`: returns the peer's port id once the connector has
    /// acknowledged; `Pending` until an `Event::Changed`. After an error the new endpoint no
    /// longer exists.
    ///
    /// # Errors
    /// `EAGAIN`: the connector withdrew (an accept that waits takes the next request). `ENODEV`:
    /// its node is lost, or it did not answer. `EBADF`: no such endpoint.
    pub fn accept_finish(&mut self, new: EndpointId) -> Poll<Result<PortId, Error>> {
        let endpoint = match self.endpoints.get(new) {
            Ok(endpoint) => endpoint,
            Err(error) => return Poll::Ready(Err(error)),
        };
        match endpoint.state() {
            EndpointState::Accepting => Poll::Pending,
            // Also if the peer has closed meanwhile: the bytes that it sent can be received.
            EndpointState::Connected | EndpointState::Disconnected => {
                Poll::Ready(Ok(endpoint.peer()))
            }
            EndpointState::AcceptFailed(error) => {
                self.endpoints.remove(&mut self.cx, new);
                Poll::Ready(Err(error))
            }
            _ => Poll::Ready(Err(Error::InvalidArgument)),
        }
    }

    /// Leaves the endpoint of an accept that was given up to the listener's next accept: its
    /// connector may have returned already, and must not find its connection reset. It is closed
    /// with the listener.
    pub fn accept_abandon(&mut self, mem: &mut dyn Memory, listener: EndpointId, new: EndpointId) {
        let state = |id| self.endpoints.get(id).map(Endpoint::state);
        match (state(listener), state(new)) {
            // The connector has withdrawn.
            (_, Ok(EndpointState::AcceptFailed(_))) => {
                self.endpoints.remove(&mut self.cx, new);
            }
            (Ok(EndpointState::Listening), _) => {
                self.endpoints.keep_granted(&mut self.cx, listener, new);
            }
            _ => self.close(mem, new),
        }
    }

    /// CNCT_GNTACK for our grant `acceptor`.
    pub(crate) fn on_grant_ack(&mut self, from: NodeId, acceptor: u64) {
        let Some(id) = self.connection_in(from, acceptor, &[Phase::Granted]) else {
            return;
        };
        match self.connections.acknowledged(&mut self.cx, id) {
            Some(endpoint) => self.endpoints.connected(&mut self.cx, endpoint),
            // The accepted endpoint is closed: the connector must see a peer that closed.
            None => self.disconnect(id),
        }
    }

    /// CNCT_GNTNACK: the connector no longer wants our grant `acceptor`.
    pub(crate) fn on_grant_nack(&mut self, mem: &mut dyn Memory, from: NodeId, acceptor: u64) {
        if let Some(id) = self.connection_in(from, acceptor, &[Phase::Granted]) {
            self.fail_grant(id, Error::WouldBlock);
            self.connections.free(mem, &mut self.cx, id);
        }
    }

    /// Ends grant `id` with an error for its endpoint.
    pub(crate) fn fail_grant(&mut self, id: ConnectionId, error: Error) {
        if let Some(endpoint) = self.connections.take_endpoint(id) {
            self.endpoints.accept_failed(&mut self.cx, endpoint, error);
        }
    }
}
