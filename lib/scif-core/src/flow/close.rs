//! close: every way an endpoint ends, and the last words with the peer.

use scif_abi::Error;
use scif_abi::limits::ANSWER_TIMEOUT_NS;
use scif_abi::message::{Extensions, NodeMessage};
use scif_abi::trace::What;

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::connection::{Connection, Notifications, Phase};
use crate::endpoint::EndpointState;
use crate::engine::Engine;
use crate::flow::quiesce::Ending;
use crate::node::down::DownReason;

impl Engine {
    /// `scif_close`, also for the endpoints of a process that died. Always succeeds; endpoint and
    /// port are free at once, whatever still has to be settled with the peer. Bytes already sent
    /// stay readable for the peer, bytes not received are thrown away. A listener refuses its
    /// queued requests. Copies that have begun run on: [`is_departing`](Self::is_departing) tells
    /// who has to wait for them.
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
            return;
        };
        match endpoint.state() {
            EndpointState::Connecting => self.withdraw(connection),
            EndpointState::Connected => {
                self.leave_memory(mem, connection, id);
                self.detach(connection);
                self.publish_state(connection);
                self.disconnect(connection);
            }
            EndpointState::Disconnected | EndpointState::Accepting => {
                if endpoint.state() == EndpointState::Accepting {
                    self.expect_final_ack(connection);
                }
                self.leave_memory(mem, connection, id);
                self.detach(connection);
                self.publish_state(connection);
                self.free_if_done(mem, connection);
            }
            _ => {}
        }
    }

    /// Ends everything an endpoint has to do with registered memory: its windows are unregistered,
    /// its calls end with `ENOTCONN`. Copies run on, and mappings stay.
    fn leave_memory(&mut self, mem: &mut dyn Memory, id: ConnectionId, endpoint: EndpointId) {
        self.end_all_calls(id, Error::NotConnected);
        self.windows.put_all_pages(id);
        if !self.quiesce(mem, Some(id), Ending::Endpoint(endpoint)) {
            self.cx.begin_departure(endpoint);
        }
        self.cancel_all_windows(mem, id, endpoint);
        self.transfers.detach(&mut self.cx, id, endpoint);
    }

    /// The endpoint of a connection is gone.
    fn detach(&mut self, id: ConnectionId) {
        self.take_endpoint(id);
    }

    /// Says DISCNCT, or will as soon as no client has the peer's memory mapped. From then on we do
    /// not touch that memory; the pages are kept until the peer has said that it does not touch
    /// ours.
    pub(crate) fn disconnect(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.notify = Notifications::default();
        if connection.is_mapped() {
            connection.phase = Phase::Draining;
            return;
        }
        connection.phase = Phase::Closing;
        let (peer, node) = (connection.remote, connection.peer.node());
        // A node without bypass clients has nothing to wait for.
        if !self.nodes.understands(&self.cx, node, Extensions::ARMED) {
            self.expect_final_ack(id);
        }
        self.post_peer(
            id,
            NodeMessage::Disconnect {
                closer: id.number(),
                peer,
            },
        );
    }

    /// DISCNCT arrived for our connection `id`: the peer has stopped. Acknowledged as soon as
    /// nobody here can touch its memory.
    pub(crate) fn on_disconnect(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (ends, remote) = (connection.ends(), connection.remote);
        let phase = connection.phase;
        let is_mapped = connection.is_mapped();
        connection.owes_ack = is_mapped;
        match phase {
            Phase::Connected | Phase::Draining => {
                connection.phase = Phase::Disconnected;
                connection.notify = Notifications::default();
                let endpoint = connection.endpoint;
                self.end_responses(id);
                // As the documents want it: the windows of both ends are released.
                self.cancel_windows(mem, id);
                self.publish_state(id);
                if let Some(endpoint) = endpoint {
                    self.endpoints.disconnected(&mut self.cx, endpoint);
                }
                self.free_if_done(mem, id);
            }
            // A connector that closes what it has not acknowledged: as if it had withdrawn.
            Phase::Granted => {
                self.cx.stats.unexpected_messages += 1;
                self.fail_grant(id, Error::WouldBlock);
                self.free_connection(mem, id);
            }
            // Both sides closed at once: our own DISCNCT will be acknowledged too.
            Phase::Closing => {}
            _ => self.cx.stats.unexpected_messages += 1,
        }
        if !is_mapped {
            self.acknowledge(ends, remote, id);
        }
    }

    /// Says DISCNT_ACK for connection `id` of ours, which may be gone.
    fn acknowledge(&mut self, ends: Ends, closer: u64, id: ConnectionId) {
        let body = NodeMessage::DisconnectAck {
            closer,
            peer: id.number(),
        };
        self.cx.post(ends, body);
    }

    /// No client has the peer's memory mapped any more: says what had to wait for that.
    pub(crate) fn on_unmapped(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let (ends, remote) = (connection.ends(), connection.remote);
        let owes_ack = core::mem::take(&mut connection.owes_ack);
        if connection.phase == Phase::Draining {
            self.disconnect(id);
        }
        self.free_if_done(mem, id);
        if owes_ack {
            self.acknowledge(ends, remote, id);
        }
    }

    /// DISCNT_ACK arrived for our DISCNCT: nobody writes to our pages any more.
    pub(crate) fn on_disconnect_ack(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        self.set_deadline(id, None);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.phase = Phase::Disconnected;
            self.free_if_done(mem, id);
        }
    }

    /// Frees a connection that neither the peer nor an endpoint needs.
    pub(crate) fn free_if_done(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let done = self.connections.get(id).is_some_and(Connection::is_done);
        if done {
            self.free_connection(mem, id);
        }
    }

    /// The peer's driver can give its last word on a connection at once, and is to.
    pub(crate) fn expect_final_ack(&mut self, id: ConnectionId) {
        let due = self.cx.after(ANSWER_TIMEOUT_NS);
        self.set_deadline(id, Some(due));
    }

    /// A connection nobody here needs any more has not got the last word of its peer.
    fn on_final_ack_timeout(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let asked = |engine: &Engine| {
            let connection = engine.connections.get(id);
            connection.map(|connection| (connection.peer.node(), connection.phase))
        };
        let before = asked(self);
        let Some((node, _)) = before else {
            return;
        };
        // Perhaps it is we who have not looked.
        self.drain(mem, node);
        if asked(self) == before {
            self.cx.stats.missing_answers += 1;
            log::warn!("node {node}: no last word on a connection for too long");
            self.nodes.fail(node, DownReason::NoResponse);
        }
    }

    /// A phase took too long.
    pub(crate) fn on_handshake_timeout(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let endpoint = connection.endpoint;
        let ends = connection.ends();
        match connection.phase {
            Phase::Requested => {
                self.cx.trace_ends(What::TimedOut, ends, 0);
                self.withdraw(id);
                if let Some(endpoint) = endpoint {
                    self.endpoints
                        .connect_failed(&mut self.cx, endpoint, Error::NoDevice);
                }
            }
            // A late acknowledgement finds no endpoint and is answered by DISCNCT.
            Phase::Granted if endpoint.is_some() => {
                self.cx.trace_ends(What::TimedOut, ends, 0);
                self.fail_grant(id, Error::NoDevice);
                self.expect_final_ack(id);
            }
            Phase::Granted | Phase::Withdrawn | Phase::Closing => {
                self.cx.trace_ends(What::TimedOut, ends, 0);
                self.on_final_ack_timeout(mem, id);
            }
            _ => {}
        }
    }
}
