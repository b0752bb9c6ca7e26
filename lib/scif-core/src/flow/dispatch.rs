//! Dispatch of messages: all of a node ring or of the loopback queue pass through here.
//!
//! Only the node whose ring a message came from is certain; everything in it is untrusted. An id
//! counts only if it names a connection with that node, in a phase in which the message makes
//! sense; everything else is counted and ignored.

use crate::base::context::Ends;
use crate::base::ids::{ConnectionId, RemoteWindowId, WindowId};
use crate::base::memory::Memory;
use crate::base::table::Key;
use crate::connection::Phase;
use crate::endpoint::Request;
use crate::engine::Engine;
use crate::flow::probe::NOBODY;
use crate::window::local::WindowState;
use scif_abi::flags::Readiness;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, PortId};

impl Engine {
    /// Handles the messages this node sent to itself.
    pub(crate) fn handle_loopback(&mut self, mem: &mut dyn Memory) {
        while let Some(message) = self.cx.loopback.pop_front() {
            self.cx.stats.messages_received += 1;
            self.handle(mem, self.cx.config.node, &message);
        }
    }

    /// Handles one message from `from`.
    pub(crate) fn handle(&mut self, mem: &mut dyn Memory, from: NodeId, message: &Message) {
        let body = match message.body() {
            Ok(body) => body,
            Err(error) => {
                self.cx.stats.unknown_messages += 1;
                self.cx
                    .trace(What::Ignored, from, message.opcode.get().into());
                // Ever more rarely: a peer must not be able to flood the log.
                let count = self.cx.stats.unknown_messages;
                if count.is_power_of_two() {
                    log::warn!("node {from}: message ignored ({count} so far): {error}");
                }
                return;
            }
        };
        let ends = [message.destination, message.source];
        self.cx.trace_message(What::Received, from, ends, message);
        if self.handle_link_message(mem, from, message, body) {
            return;
        }
        if !self.nodes.is_online(&self.cx, from) {
            // Left over from before we left, or a peer that has not introduced itself.
            self.cx.stats.unexpected_messages += 1;
            return;
        }
        let source = PortId::new(from, message.source.port());
        let ends = Ends {
            local: message.destination.port(),
            peer: source,
        };
        match body {
            NodeMessage::ConnectRequest {
                connector,
                queue_pair,
            } => {
                let void_at = self.request_is_void_at(from);
                let request = Request::new(source, connector, queue_pair, void_at);
                self.on_request(ends, request);
            }
            NodeMessage::ConnectWithdraw { connector } => {
                self.on_withdraw(ends, connector);
            }
            NodeMessage::ConnectGrant {
                connector,
                queue_pair,
                acceptor,
            } => {
                match self.expect(from, connector, &[Phase::Requested, Phase::Withdrawn]) {
                    Some(id) => self.on_grant(mem, id, queue_pair, acceptor),
                    // The acceptor must not wait for a connector that has gone.
                    None => self
                        .cx
                        .post(ends, NodeMessage::ConnectGrantNack { acceptor }),
                }
            }
            NodeMessage::ConnectReject { connector } => {
                self.on_refused(mem, from, connector);
            }
            NodeMessage::WithdrawAck { connector } => {
                if let Some(id) = self.expect(from, connector, &[Phase::Withdrawn]) {
                    self.connections.free(mem, &mut self.cx, id);
                }
            }
            _ => self.handle_connection_message(mem, ends, body),
        }
    }

    /// Messages about a connection that is granted or established.
    fn handle_connection_message(&mut self, mem: &mut dyn Memory, ends: Ends, body: NodeMessage) {
        let from = ends.peer.node();
        match body {
            NodeMessage::ConnectGrantAck { acceptor } => {
                if let Some(id) = self.expect(from, acceptor, &[Phase::Granted]) {
                    self.on_grant_ack(id);
                }
            }
            NodeMessage::ConnectGrantNack { acceptor } => {
                if let Some(id) = self.expect(from, acceptor, &[Phase::Granted]) {
                    self.fail_grant(id, Error::WouldBlock);
                    self.connections.free(mem, &mut self.cx, id);
                }
            }
            NodeMessage::Disconnect { closer, peer } => {
                let id = match peer {
                    NOBODY => None,
                    _ => (self.connections).with_number(&mut self.cx, from, peer),
                };
                let connection = id.and_then(|id| self.connections.get(id));
                match id.filter(|_| connection.is_some_and(|c| c.remote() == closer)) {
                    Some(id) => self.on_disconnect(mem, id),
                    // Answered in any case: the closer waits for it.
                    None => self
                        .cx
                        .post(ends, NodeMessage::DisconnectAck { closer, peer }),
                }
            }
            // The answer to a probe: it counts as a message of the node.
            NodeMessage::DisconnectAck { closer: NOBODY, .. } => {}
            NodeMessage::DisconnectAck { closer, .. } => {
                if let Some(id) = self.expect(from, closer, &[Phase::Closing]) {
                    // The peer does not write to our pages any more.
                    self.connections.end(mem, &mut self.cx, id);
                }
            }
            NodeMessage::ClientSent { peer } => {
                if let Some(id) = self.expect(from, peer, &[Phase::Connected]) {
                    self.on_notification(mem, id, Readiness::IN);
                }
            }
            NodeMessage::ClientReceived { peer } => {
                if let Some(id) = self.expect(from, peer, &[Phase::Connected]) {
                    self.on_notification(mem, id, Readiness::OUT);
                }
            }
            _ => self.handle_window_message(mem, ends, body),
        }
    }

    /// Messages about windows, from their owners and from their users.
    fn handle_window_message(&mut self, mem: &mut dyn Memory, ends: Ends, body: NodeMessage) {
        let from = ends.peer.node();
        match body {
            NodeMessage::AllocRequest { pages, waiter, .. } => {
                self.on_alloc_request(mem, ends, pages, waiter);
            }
            NodeMessage::Register {
                peer,
                user_window,
                owner_window,
            } => self.on_register(mem, ends, peer, user_window, owner_window),
            NodeMessage::FreeVirtual { user_window, .. } => {
                let id = RemoteWindowId::from_number(user_window);
                self.windows.take_back(mem, &mut self.cx, from, id);
            }
            NodeMessage::Unregister {
                user_window,
                owner_window,
            } => self.on_unregister(mem, ends, user_window, owner_window),
            NodeMessage::AllocGrant {
                user_window,
                address,
                waiter,
            } => self.on_alloc_grant(mem, ends, user_window, address, waiter),
            NodeMessage::AllocReject { waiter } => {
                let id = WindowId::from_number(waiter);
                self.on_register_failure(from, id, WindowState::Requested, Error::NoMemory);
            }
            NodeMessage::RegisterAck { owner_window, .. } => {
                self.on_register_ack(mem, from, WindowId::from_number(owner_window));
            }
            NodeMessage::RegisterNack { owner_window, .. } => {
                let id = WindowId::from_number(owner_window);
                self.on_register_failure(from, id, WindowState::Announced, Error::NotConnected);
            }
            NodeMessage::UnregisterAck { owner_window, .. }
            | NodeMessage::Munmap { owner_window } => {
                self.on_window_unused(from, WindowId::from_number(owner_window));
            }
            NodeMessage::UnregisterNack {
                owner_window,
                is_offset_free,
                ..
            } => {
                let id = WindowId::from_number(owner_window);
                self.on_window_used(from, id, is_offset_free == 1);
            }
            _ => {
                if !self.handle_fence_message(ends, body) {
                    self.cx.stats.unexpected_messages += 1;
                }
            }
        }
    }

    /// The connection `id` if it is one with node `from` and in one of `phases`.
    pub(crate) fn expect(
        &mut self,
        from: NodeId,
        id: u64,
        phases: &[Phase],
    ) -> Option<ConnectionId> {
        self.connections.expect(&mut self.cx, from, id, phases)
    }

    /// CNCT_REQ: queued if somebody listens and there is room, else refused at once.
    fn on_request(&mut self, ends: Ends, request: Request) {
        if request.is_void(self.cx.now) {
            self.cx.stats.void_requests += 1;
            return;
        }
        if !self
            .endpoints
            .push_request(&mut self.cx, ends.local, request)
        {
            self.refuse(ends.local, &request);
        }
    }

    /// CNCT_TERM: forgotten if it is still queued. Otherwise a grant or a refusal is on its way,
    /// and that is the answer.
    fn on_withdraw(&mut self, ends: Ends, connector: u64) {
        let node = ends.peer.node();
        if self.endpoints.withdraw_request(ends.local, node, connector) {
            self.cx.post(ends, NodeMessage::WithdrawAck { connector });
        }
    }

    /// CNCT_REJ.
    fn on_refused(&mut self, mem: &mut dyn Memory, from: NodeId, connector: u64) {
        let phases = [Phase::Requested, Phase::Withdrawn];
        if let Some(id) = self.expect(from, connector, &phases) {
            self.fail_request(id, Error::ConnectionRefused);
            self.connections.free(mem, &mut self.cx, id);
        }
    }
}
