//! close: every way an endpoint ends, and the last messages with the peer.
//!
//! Closing takes effect at once. Copies that had begun run on, and so do those of the peer to and
//! from the endpoint's windows, until the peer reports that it does not use these any more. Only
//! then does `scif_close` return, unless its caller cannot wait (the daemon, when a process dies).

use scif_abi::message::{Extensions, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId};

use crate::base::context::{Ends, Identity};
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::bypass::Ending;
use crate::connection::{Connection, Phase};
use crate::endpoint::EndpointState;
use crate::engine::Engine;
use crate::flow::probe::NOBODY;
use crate::node::link::LinkState;

impl Engine {
    /// `scif_close`, also for the endpoints of a process that died. It always succeeds. Endpoint
    /// and port are free at once, whatever messages the peer still has to answer. Bytes already
    /// sent stay readable for the peer; bytes not received are discarded. A listener refuses its
    /// queued requests, and closes what it has granted and nobody has taken. Copies that have begun
    /// run on: [`is_departing`](Self::is_departing) tells how long a caller has to wait for them.
    pub fn close(&mut self, mem: &mut dyn Memory, id: EndpointId) {
        let Some((endpoint, requests)) = self.endpoints.remove(&mut self.cx, id) else {
            return;
        };
        let ends = Ends {
            local: endpoint.port(),
            peer: endpoint.peer(),
        };
        self.cx
            .trace_ends(What::Closed, ends, endpoint.owner().process.into());
        for request in requests {
            self.refuse(endpoint.port(), &request);
        }
        let Some(connection) = endpoint.connection() else {
            // Of a listener, which has no connection of its own.
            for new in endpoint.into_granted() {
                self.close(mem, new);
            }
            return;
        };
        match endpoint.state() {
            EndpointState::Connecting => self.withdraw(connection),
            EndpointState::Connected => {
                self.leave_memory(mem, connection, id);
                self.connections.take_endpoint(connection);
                self.connections.state_changed(connection);
                self.disconnect(connection);
            }
            EndpointState::Disconnected | EndpointState::Accepting => {
                if endpoint.state() == EndpointState::Accepting {
                    self.connections.expect_final_ack(&mut self.cx, connection);
                }
                self.leave_memory(mem, connection, id);
                self.connections.take_endpoint(connection);
                self.connections.state_changed(connection);
                (self.connections).free_if_done(mem, &mut self.cx, connection);
            }
            _ => {}
        }
    }

    /// Whether anything of a closed endpoint is still under way: copies of its own, copies of its
    /// clients, or a window of it that the peer may read or write by a copy. Windows that the peer
    /// has mapped do not count once its copies have ended, and those of a lost node never do.
    /// [`Event::Departed`](crate::Event) reports when this becomes false.
    ///
    /// That takes as long as the copies take, and
    /// [`ANSWER_TIMEOUT_NS`](scif_abi::limits::ANSWER_TIMEOUT_NS) for a peer that does not answer.
    pub fn is_departing(&self, id: EndpointId) -> bool {
        self.cx.is_departing(id)
    }

    /// Ends an endpoint's use of registered memory: its windows are unregistered, and its calls
    /// end with `ENOTCONN`. Copies run on, and mappings stay.
    fn leave_memory(&mut self, mem: &mut dyn Memory, id: ConnectionId, endpoint: EndpointId) {
        self.end_all_calls(id, Error::NotConnected);
        self.windows.put_all_pages(id);
        if !self.quiesce(mem, Some(id), Ending::Endpoint(endpoint)) {
            self.cx.begin_departure(endpoint);
        }
        let node = self.connections.get(id).map(Connection::node);
        // A node that was lost does not report any more what it uses.
        let departs = node.is_some_and(|node| {
            let is_leaving = self.nodes.state(node) == Some(LinkState::Leaving);
            is_leaving || self.nodes.is_online(&self.cx, node)
        });
        let windows = self
            .windows
            .leave_spaces(&mut self.cx, id, endpoint, departs);
        for window in windows {
            self.cancel_window(mem, window);
        }
        self.transfers.detach(&mut self.cx, id, endpoint);
    }

    /// Sends DISCNCT, now or as soon as no client has the peer's memory mapped. From then on we do
    /// not use that memory. Our pages are kept until the peer has reported that it does not use
    /// them.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        if !self.connections.disconnect(id) {
            return;
        }
        let Some(peer) = self.connections.identity(id) else {
            return;
        };
        let node = peer.ends.peer.node();
        let stored = self.stored_to_report(id, node);
        // A node without bypass clients can answer at once.
        if !self.nodes.understands(&self.cx, node, Extensions::ARMED) {
            self.connections.expect_final_ack(&mut self.cx, id);
        }
        let body = NodeMessage::Disconnect {
            closer: id.number(),
            peer: peer.remote,
            stored,
        };
        self.cx.post(peer.ends, body);
    }

    /// The report for a node of our stores into its ring of a connection, which are over; 0 if the
    /// node does not understand it.
    fn stored_to_report(&self, id: ConnectionId, node: NodeId) -> u64 {
        match self.nodes.understands(&self.cx, node, Extensions::STORED) {
            true => (self.connections.get(id)).map_or(0, Connection::stored_to_report),
            false => 0,
        }
    }

    /// Notes the peer's report of its stores into our ring of a connection, which are over.
    fn note_stored(&mut self, id: ConnectionId, node: NodeId, stored: u64) {
        if (self.nodes).understands(&self.cx, node, Extensions::STORED) {
            self.connections.note_stored(id, stored);
        }
    }

    /// DISCNCT of `closer` for our connection `peer`. Answered in any case, because the closer
    /// waits for the answer, and at once if there is no such connection.
    pub(crate) fn on_disconnect(
        &mut self,
        mem: &mut dyn Memory,
        ends: Ends,
        (closer, peer): (u64, u64),
        stored: u64,
    ) {
        let id = match peer {
            NOBODY => None,
            _ => (self.connections).with_number(&mut self.cx, ends.peer.node(), peer),
        };
        let connection = id.and_then(|id| self.connections.get(id));
        match id.filter(|_| connection.is_some_and(|c| c.remote() == closer)) {
            Some(id) => {
                self.note_stored(id, ends.peer.node(), stored);
                self.end_by_peer(mem, id);
            }
            None => {
                let body = NodeMessage::DisconnectAck {
                    closer,
                    peer,
                    stored: 0,
                };
                self.cx.post(ends, body);
            }
        }
    }

    /// Ends a connection that the peer has ended. It is acknowledged as soon as no client here can
    /// use the peer's memory.
    fn end_by_peer(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let peer = self.connections.identity(id);
        let before = self.connections.disconnected_by_peer(id);
        let (Some(peer), Some((phase, is_answered))) = (peer, before) else {
            return;
        };
        let stored = self.stored_to_report(id, peer.ends.peer.node());
        match phase {
            Phase::Connected | Phase::Draining => {
                let endpoint = self.connections.get(id).and_then(Connection::endpoint);
                self.end_responses(id);
                // As the documents ask for, the windows of both ends are released.
                for window in self.windows.not_ending(id) {
                    self.cancel_window(mem, window);
                }
                self.connections.state_changed(id);
                if let Some(endpoint) = endpoint {
                    self.endpoints.disconnected(&mut self.cx, endpoint);
                }
                self.connections.free_if_done(mem, &mut self.cx, id);
            }
            // A connector that closes before it has acknowledged counts as one that withdrew.
            Phase::Granted => {
                self.cx.stats.unexpected_messages += 1;
                self.fail_grant(id, Error::WouldBlock);
                self.connections.free(mem, &mut self.cx, id);
            }
            // Both sides closed at once: our own DISCNCT will be acknowledged too.
            Phase::Closing => {}
            _ => self.cx.stats.unexpected_messages += 1,
        }
        if is_answered {
            self.acknowledge(peer, stored);
        }
    }

    /// DISCNT_ACK for our connection `closer`: the peer does not write to its pages any more.
    pub(crate) fn on_disconnect_ack(
        &mut self,
        mem: &mut dyn Memory,
        from: NodeId,
        closer: u64,
        stored: u64,
    ) {
        // This is the answer to a probe, which only counts as a message of the node.
        if closer == NOBODY {
            return;
        }
        if let Some(id) = self.connection_in(from, closer, &[Phase::Closing]) {
            self.note_stored(id, from, stored);
            self.connections.end(mem, &mut self.cx, id);
        }
    }

    /// Sends DISCNT_ACK for a connection of ours, which may be gone.
    fn acknowledge(&mut self, connection: Identity, stored: u64) {
        let body = NodeMessage::DisconnectAck {
            closer: connection.remote,
            peer: connection.id.number(),
            stored,
        };
        self.cx.post(connection.ends, body);
    }

    /// Sends DISCNCT or DISCNT_ACK, if it had to wait for the last client that had the peer's
    /// memory mapped.
    pub(crate) fn on_unmapped(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let connection = self.connections.identity(id);
        let owes_ack = self.connections.take_owed_ack(id);
        if self.connections.get(id).map(Connection::phase) == Some(Phase::Draining) {
            self.disconnect(id);
        }
        self.connections.free_if_done(mem, &mut self.cx, id);
        if let Some(connection) = connection.filter(|_| owes_ack) {
            // Clients have had the peer's ring mapped.
            self.acknowledge(connection, 0);
        }
    }
}
