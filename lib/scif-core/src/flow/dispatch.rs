//! Dispatch of messages: all messages of a node ring or of the loopback queue pass through here.
//!
//! Only the node whose ring a message came from is certain; everything in the message is
//! untrusted. An id counts only if it names a connection with that node, in a phase in which the
//! message is valid. Everything else is counted and ignored.

use crate::base::context::Ends;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::connection::Phase;
use crate::engine::Engine;
use crate::flow::fence::StoreSide;
use scif_abi::flags::Readiness;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, PortId};

impl Engine {
    /// Handles the messages that this node has sent to itself.
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
                // Logged ever more rarely: a peer must not be able to flood the log.
                let count = self.cx.stats.unknown_messages;
                if count.is_power_of_two() {
                    log::warn!("node {from}: message ignored ({count} so far): {error}");
                }
                return;
            }
        };
        let ends = [message.destination, message.source];
        self.cx.trace_message(What::Received, from, ends, message);
        if !is_about_link(&body) && !self.nodes.is_online(&self.cx, from) {
            // Left over from before this node left, or sent by a peer that has not introduced
            // itself.
            self.cx.stats.unexpected_messages += 1;
            return;
        }
        let ends = Ends {
            local: message.destination.port(),
            peer: PortId::new(from, message.source.port()),
        };
        self.dispatch(mem, message, ends, body);
    }

    /// Calls the handler of a message, one line for each. `ends` are the ports that it is for and
    /// from; only the node of the latter is certain.
    fn dispatch(&mut self, mem: &mut dyn Memory, message: &Message, ends: Ends, body: NodeMessage) {
        use NodeMessage as M;
        let from = ends.peer.node();
        match body {
            // Links.
            M::Init => self.nodes.on_init(&mut self.cx, from),
            M::Exit => self.on_exit(mem, from),
            M::ExitAck => self.on_exit_ack(from),
            M::NodeAdd => self.on_node_add(from, message.source),
            M::NodeAddNack | M::NodeRemoveAck { .. } => self.cx.stats.unexpected_messages += 1,
            M::NodeRemove { node } => self.on_node_remove(from, node),
            M::GetNodeInfo { waiter, .. } => self.on_get_node_info(from, waiter),
            // Connections.
            M::ConnectRequest {
                connector,
                queue_pair,
            } => self.on_request(mem, ends, connector, queue_pair),
            M::ConnectWithdraw { connector } => self.on_withdraw(ends, connector),
            M::ConnectGrant {
                connector,
                queue_pair,
                acceptor,
            } => self.on_grant(mem, ends, connector, (queue_pair, acceptor)),
            M::ConnectReject { connector } => self.on_reject(mem, from, connector),
            M::WithdrawAck { connector } => self.on_withdraw_ack(mem, from, connector),
            M::ConnectGrantAck { acceptor } => self.on_grant_ack(from, acceptor),
            M::ConnectGrantNack { acceptor } => self.on_grant_nack(mem, from, acceptor),
            M::Disconnect {
                closer,
                peer,
                stored,
            } => self.on_disconnect(mem, ends, (closer, peer), stored),
            M::DisconnectAck { closer, stored, .. } => {
                self.on_disconnect_ack(mem, from, closer, stored);
            }
            M::ClientSent { peer } => self.on_client_message(mem, from, peer, Readiness::IN),
            M::ClientReceived { peer } => self.on_client_message(mem, from, peer, Readiness::OUT),
            M::Finish { peer } => self.on_finish(from, peer),
            // Windows of ours.
            M::AllocGrant {
                user_window,
                address,
                waiter,
            } => self.on_alloc_grant(mem, ends, (user_window, address), waiter),
            M::AllocReject { waiter } => self.on_alloc_reject(from, waiter),
            M::RegisterAck { owner_window, .. } => self.on_register_ack(mem, from, owner_window),
            M::RegisterNack { owner_window, .. } => self.on_register_nack(from, owner_window),
            M::UnregisterAck { owner_window, .. } => self.on_window_unused(from, owner_window),
            M::UnregisterNack {
                owner_window,
                is_offset_free,
                ..
            } => self.on_window_used(from, owner_window, is_offset_free == 1),
            M::Munmap { owner_window } => self.on_window_unused(from, owner_window),
            // Windows of the peer.
            M::AllocRequest { pages, waiter, .. } => {
                self.on_alloc_request(mem, ends, pages, waiter);
            }
            M::Register {
                peer,
                user_window,
                owner_window,
            } => self.on_register(mem, ends, peer, (user_window, owner_window)),
            M::FreeVirtual { user_window, .. } => self.on_free_virtual(mem, from, user_window),
            M::Unregister {
                user_window,
                owner_window,
            } => self.on_unregister(mem, ends, (user_window, owner_window)),
            // Fences.
            M::Mark { peer, waiter } => self.on_mark(ends, peer, waiter),
            M::MarkAck {
                requester,
                waiter,
                mark,
            } => self.on_mark_ack(from, requester, (waiter, mark)),
            M::Wait { peer, waiter, mark } => self.on_wait(ends, peer, (waiter, mark)),
            M::SignalLocal {
                peer,
                offset,
                value,
                waiter,
            } => self.on_signal(ends, peer, (StoreSide::Own, offset, value), waiter),
            M::SignalRemote {
                peer,
                offset,
                value,
                waiter,
            } => self.on_signal(ends, peer, (StoreSide::Peer, offset, value), waiter),
            M::WaitAck { requester, waiter } | M::SignalAck { requester, waiter } => {
                self.on_fence_answer(from, requester, waiter, Ok(0));
            }
            M::MarkNack { requester, waiter } | M::WaitNack { requester, waiter } => {
                self.on_fence_answer(from, requester, waiter, Err(Error::NoMemory));
            }
            M::SignalNack { requester, waiter } => {
                self.on_fence_answer(from, requester, waiter, Err(Error::NoSuchAddress));
            }
        }
    }

    /// The connection `id`, if its peer is on node `from` and it is in one of `phases`.
    pub(crate) fn connection_in(
        &mut self,
        from: NodeId,
        id: u64,
        phases: &[Phase],
    ) -> Option<ConnectionId> {
        self.connections.in_phase(&mut self.cx, from, id, phases)
    }
}

/// Whether a message is about a link, and so valid before the link is online.
fn is_about_link(body: &NodeMessage) -> bool {
    use NodeMessage as M;
    matches!(
        body,
        M::Init
            | M::Exit
            | M::ExitAck
            | M::NodeAdd
            | M::NodeAddNack
            | M::NodeRemove { .. }
            | M::NodeRemoveAck { .. }
            | M::GetNodeInfo { .. }
    )
}
