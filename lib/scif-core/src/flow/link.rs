//! The life of a link: attach, greeting, messages, EXIT, detach.

use scif_abi::limits::HOST_NODE;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{NodeId, PortId};

use crate::base::memory::Memory;
use crate::engine::Engine;
use crate::node::down::DownReason;
use crate::node::link::LinkState;
use crate::node::{Batch, LinkError};

impl Engine {
    /// First step of a link: makes this node's queue pair for `node` and returns its bus address,
    /// which the caller publishes to the peer (in the link memory).
    ///
    /// # Errors
    /// `BadNode`, `NoMemory`, `WrongState` (there is a link already; `link_down` first).
    pub fn attach(&mut self, mem: &mut dyn Memory, node: NodeId) -> Result<u64, LinkError> {
        self.nodes.attach(mem, &mut self.cx, node)
    }

    /// Second step, after the peer has published its queue pair at bus address `peer_qp`. Checks
    /// the queue pair, sends INIT, and handles what the peer has sent already. The node is online
    /// (`Event::NodeUp`) when its INIT has arrived.
    ///
    /// # Errors
    /// `WrongState`; `BadQueuePair`: the link is then still attached, and this step may be
    /// repeated.
    pub fn link_up(
        &mut self,
        mem: &mut dyn Memory,
        node: NodeId,
        peer_qp: u64,
    ) -> Result<(), LinkError> {
        self.nodes.connect(mem, &mut self.cx, node, peer_qp)?;
        self.cx.post_to_node(node, NodeMessage::Init);
        self.drain(mem, node);
        Ok(())
    }

    /// Ends a link that is gone, *when the peer can no longer write to our memory* (it is dead, or
    /// has reported that it stopped). Resets the link's connections and frees every page that was
    /// shared with the peer. A new link to the node begins with `attach`.
    pub fn link_down(&mut self, mem: &mut dyn Memory, node: NodeId) {
        if self.nodes.detach(mem, &mut self.cx, node) {
            self.sever_node(node);
            self.free_shared_with(mem, node);
        }
    }

    /// Gives a link up for the caller, when the peer may still write to our memory: resets the
    /// link's connections and keeps its pages until `link_down`.
    pub fn link_failed(&mut self, node: NodeId, reason: DownReason) {
        self.cx.trace(What::Lost, node, 0);
        self.nodes.fail(node, reason);
        self.lose_failed_nodes();
    }

    /// Receives and handles the messages in a node's ring, because its doorbell rang. Does no harm
    /// if there are none.
    pub fn doorbell(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.cx.stats.doorbells_received += 1;
        self.drain(mem, node);
    }

    /// Does what a doorbell of the node asks for, without one: the doorbell may have been lost, or
    /// not been needed.
    pub fn poll_node(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.drain(mem, node);
    }

    /// Receives and handles the messages in a node's ring, at most one ring full at a time.
    pub(crate) fn drain(&mut self, mem: &mut dyn Memory, node: NodeId) {
        let mut batch = Batch::new(&self.cx);
        self.nodes.transmit(mem, &mut self.cx);
        while let Some(message) = self.nodes.receive(mem, &self.cx, node, &mut batch) {
            self.handle(mem, node, &message);
            // Answers that find no room end the batch.
            self.nodes.transmit(mem, &mut self.cx);
        }
        self.nodes.end_batch(mem, &self.cx, node, &batch);
        self.nodes.set_timers(&mut self.cx);
        self.lose_failed_nodes();
    }

    /// Leaves the network in order: resets all connections with other nodes, and sends EXIT to
    /// every node that was sent our INIT. `Event::NodeDown` follows for each one that was online,
    /// when it has answered or a second has passed.
    pub fn leave(&mut self, mem: &mut dyn Memory) {
        let greeted = self.nodes.iter().map(|(node, ..)| node);
        let greeted: alloc::vec::Vec<_> = greeted
            .filter(|node| self.nodes.is_greeted(*node))
            .collect();
        for node in greeted {
            self.sever_node(node);
            self.nodes.begin_exit(&self.cx, node);
            self.send_exit(mem, node, NodeMessage::Exit);
        }
        self.nodes.set_timers(&mut self.cx);
    }

    /// Whether some node has not yet got EXIT or EXIT_ACK from us, or has not answered EXIT.
    pub fn is_leaving(&self) -> bool {
        let mut states = self.nodes.iter().map(|(_, state, _)| state);
        states.any(|state| state == LinkState::Leaving)
    }

    /// Sends EXIT or EXIT_ACK. If copies or clients use the peer's memory, keeps it back until
    /// they do not. After it the peer's memory is not used any more.
    fn send_exit(&mut self, mem: &mut dyn Memory, node: NodeId, body: NodeMessage) {
        if self.is_touched(mem, node) {
            self.nodes.keep_exit(node, body);
        } else {
            self.cx.post_to_node(node, body);
        }
    }

    /// Whether copies or clients of ours may use the memory of a node.
    fn is_touched(&self, mem: &dyn Memory, node: NodeId) -> bool {
        self.transfers.is_copying(node) || self.is_touched_by_clients(mem, node)
    }

    /// Sends EXIT and EXIT_ACK messages that had to wait for the copy engine or for clients.
    pub(crate) fn send_kept_exits(&mut self, mem: &mut dyn Memory) {
        for node in self.nodes.kept_exits() {
            if !self.is_touched(mem, node)
                && let Some(body) = self.nodes.take_exit(node)
            {
                self.cx.post_to_node(node, body);
                self.nodes.transmit(mem, &mut self.cx);
                self.nodes.send_waiting(mem, &self.cx, node);
            }
        }
    }

    /// `scif_get_node_ids`: the nodes online, ascending, including this one.
    pub fn online_nodes(&self) -> impl Iterator<Item = NodeId> {
        let own = self.cx.config.node;
        let online = |wanted: bool| {
            let nodes = self
                .nodes
                .iter()
                .filter(move |(node, ..)| (*node < own) == wanted);
            let online = nodes.filter(|(_, state, _)| *state == LinkState::Online);
            online.map(|(node, ..)| node)
        };
        online(true)
            .chain(core::iter::once(own))
            .chain(online(false))
    }

    /// Handles a link's timer.
    pub(crate) fn on_link_timer(&mut self, mem: &mut dyn Memory, node: NodeId) {
        let is_waited_for = self.connections.has_notifications_for(node);
        if self.nodes.on_timer(mem, &self.cx, node, is_waited_for) {
            self.nodes.end_exit(&mut self.cx, node);
        } else if self.nodes.has_unread(node) {
            self.drain(mem, node);
        }
    }

    /// NODE_ADD. Every pair of nodes has a link of its own here, so no node needs to be introduced
    /// to another.
    pub(crate) fn on_node_add(&mut self, from: NodeId, introduced: PortId) {
        let own = PortId::new(self.cx.config.node, 0);
        let answer = Message::new(own, introduced, NodeMessage::NodeAddNack);
        self.cx.post_message(from, answer);
    }

    /// EXIT_ACK: the peer does not use our memory any more.
    pub(crate) fn on_exit_ack(&mut self, from: NodeId) {
        if self.nodes.state(from) == Some(LinkState::Leaving) {
            self.nodes.end_exit(&mut self.cx, from);
        }
    }

    /// EXIT: the peer leaves, and does not use our memory any more.
    pub(crate) fn on_exit(&mut self, mem: &mut dyn Memory, from: NodeId) {
        if !self.nodes.expects_exit(from) {
            self.cx.stats.unexpected_messages += 1;
            return;
        }
        self.nodes.begin_exit(&self.cx, from);
        self.nodes.report_down(&mut self.cx, from, DownReason::Left);
        self.sever_node(from);
        self.free_shared_with(mem, from);
        // The last store into the peer's memory but the answer itself, after which the peer may
        // free it.
        self.nodes.publish(mem, from);
        self.send_exit(mem, from, NodeMessage::ExitAck);
        self.nodes.dismiss(from);
    }

    /// NODE_REMOVE: the host has lost a node. That tells nothing about our own link to that node,
    /// which does not pass through the host and notices its end by itself. Only the host may send
    /// it.
    pub(crate) fn on_node_remove(&mut self, from: NodeId, lost: u64) {
        if from != HOST_NODE {
            self.cx.stats.unexpected_messages += 1;
            return;
        }
        let body = NodeMessage::NodeRemoveAck { node: lost };
        self.cx.post_to_node(from, body);
    }

    /// GET_NODE_INFO: a card asks the host which nodes there are.
    pub(crate) fn on_get_node_info(&mut self, from: NodeId, waiter: u64) {
        let own = self.cx.config.node;
        if own != HOST_NODE {
            // An answer to a message that this stack does not send.
            self.cx.stats.unexpected_messages += 1;
            return;
        }
        let total = self.online_nodes().count() as u64;
        let highest = self.nodes.iter().last().map_or(own, |(node, ..)| node);
        let body = NodeMessage::GetNodeInfo {
            max_node: u64::from(highest),
            total,
            waiter,
        };
        self.cx.post_to_node(from, body);
    }
}
