//! Links: how a node comes, is greeted, talks, leaves or is lost.

use alloc::vec::Vec;

use scif_abi::limits::{
    CLIENT_RETRY_NS, EXIT_TIMEOUT_NS, HOST_NODE, NODE_RING_RETRY_NS, NODE_RING_STALL_NS,
};
use scif_abi::message::{Extensions, MESSAGE_BYTES, Message, NodeMessage};
use scif_abi::qp::QP_BYTES;
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, PortId};

use crate::base::event::Event;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::connection::{Ends, Notifications, Phase};
use crate::endpoint::EndpointState;
use crate::engine::Engine;
use crate::node::down::DownReason;
use crate::node::link::{LinkState, Node, is_peer};
use crate::queue_pair::block::{Block, Locality, RemoteQueuePair};

/// Messages handled between two publications of the read index to the peer.
const PUBLISH_INTERVAL: usize = 32;

/// What this stack speaks beyond the base protocol.
const OWN_EXTENSIONS: Extensions = Extensions::all();

/// Why a link cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The node number is our own or above the limit.
    BadNode,
    /// No memory for the node queue pair.
    NoMemory,
    /// The calls came in the wrong order: attach twice, or link_up without attach.
    WrongState,
    /// There is no usable queue pair at that address.
    BadQueuePair,
}

impl core::fmt::Display for LinkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            LinkError::BadNode => "the node number is our own or too large",
            LinkError::NoMemory => "no memory for the node queue pair",
            LinkError::WrongState => "the link is not in the state for this step",
            LinkError::BadQueuePair => "no usable queue pair at the address the peer published",
        })
    }
}

impl core::error::Error for LinkError {}

impl Engine {
    /// First step of a link: makes this node's queue pair for `node` and returns its bus address,
    /// to be published to the peer (in the link memory).
    ///
    /// # Errors
    /// `BadNode`, `NoMemory`, `WrongState` (there is a link already; `link_down` first).
    pub fn attach(&mut self, mem: &mut dyn Memory, node: NodeId) -> Result<u64, LinkError> {
        if !is_peer(node, self.config.node) {
            return Err(LinkError::BadNode);
        }
        if self.nodes.contains_key(&node) {
            return Err(LinkError::WrongState);
        }
        let (bytes, offer) = (self.config.node_ring_bytes, OWN_EXTENSIONS.to_word());
        let block =
            Block::allocate(mem, Locality::Peer(node), bytes, offer).ok_or(LinkError::NoMemory)?;
        self.stats.pages += block.pages();
        self.nodes.insert(node, Node::new(block));
        self.trace(What::Attached, node, block.exported);
        Ok(block.exported)
    }

    /// Second step: the peer has published its queue pair at bus address `peer_qp`. Checks it,
    /// sends INIT, and handles what the peer has sent already. The node is online (`Event::NodeUp`)
    /// when its INIT has arrived.
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
        let link = self.nodes.get_mut(&node).ok_or(LinkError::WrongState)?;
        if link.state != LinkState::Attached {
            return Err(LinkError::WrongState);
        }
        let Some(remote) = RemoteQueuePair::read(mem, Locality::Peer(node), peer_qp, QP_BYTES)
        else {
            self.stats.bad_queue_pairs += 1;
            self.trace(What::BadQueuePair, node, peer_qp);
            return Err(LinkError::BadQueuePair);
        };
        link.connect(&remote, OWN_EXTENSIONS, self.now);
        self.post(mem, node_ends(node), NodeMessage::Init);
        self.drain(mem, node);
        Ok(())
    }

    /// The link is gone *and the peer can no longer write to our memory* (it is dead, or has said
    /// that it stopped). Resets its connections and frees every page that was shared with it. A new
    /// link to the node begins with `attach`.
    pub fn link_down(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.report_down(node, DownReason::Gone);
        let Some(link) = self.nodes.remove(&node) else {
            return;
        };
        self.stats.messages_sent += link.messages_sent;
        self.stats.messages_received += link.messages_received;
        self.stats.pages -= link.block.pages();
        link.block.free(mem);
        self.trace(What::Detached, node, 0);
        self.cut(mem, node, Phase::Disconnected);
    }

    /// The caller gives the link up, but the peer may still write to our memory: resets the link's
    /// connections and keeps its pages until `link_down`.
    pub fn link_failed(&mut self, node: NodeId, reason: DownReason) {
        self.trace(What::Lost, node, 0);
        self.fail_link(node, reason);
    }

    /// The node's doorbell rang: takes and handles the messages in its ring. Does no harm when
    /// there are none.
    pub fn doorbell(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.stats.doorbells_received += 1;
        self.poll_node(mem, node);
    }

    /// Does what a doorbell of the node asks for, without one: it may have got lost, or not been
    /// needed.
    pub fn poll_node(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.drain(mem, node);
    }

    /// Leaves the network in order: resets all connections with other nodes and tells every node
    /// (EXIT) that has heard our INIT. `Event::NodeDown` for each that was online when it has
    /// answered or a second has passed.
    pub fn leave(&mut self, mem: &mut dyn Memory) {
        let greeted = |(number, node): (&NodeId, &Node)| {
            matches!(node.state, LinkState::Greeting | LinkState::Online).then_some(*number)
        };
        let numbers: Vec<NodeId> = self.nodes.iter().filter_map(greeted).collect();
        let deadline = self.now.saturating_add(EXIT_TIMEOUT_NS);
        for number in numbers {
            self.cut(mem, number, Phase::Severed);
            if let Some(node) = self.nodes.get_mut(&number) {
                node.state = LinkState::Leaving;
                node.exit_deadline = Some(deadline);
            }
            self.send_exit(mem, number, NodeMessage::Exit);
        }
    }

    /// Whether a node has not yet had EXIT or EXIT_ACK from us, or has not answered the former.
    pub fn is_leaving(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|node| node.state == LinkState::Leaving)
    }

    /// Says EXIT or EXIT_ACK: from then on the peer's memory is not touched any more, so what the
    /// copy engine has begun must have ended, and clients must have let go of the peer's rings.
    fn send_exit(&mut self, mem: &mut dyn Memory, number: NodeId, body: NodeMessage) {
        if !self.is_touched(mem, number) {
            self.post(mem, node_ends(number), body);
        } else if let Some(node) = self.nodes.get_mut(&number) {
            node.exit_message = Some(body);
        }
    }

    /// Whether anything of ours may touch the memory of a node.
    fn is_touched(&self, mem: &dyn Memory, number: NodeId) -> bool {
        self.is_copying(number) || self.is_touched_by_clients(mem, number)
    }

    /// Says what had to wait for the copy engine, or for clients.
    pub(crate) fn send_waiting_exits(&mut self, mem: &mut dyn Memory) {
        let waiting = |(number, node): (&NodeId, &Node)| {
            let is_done = node.exit_message.is_some() && !self.is_touched(mem, *number);
            is_done.then_some(*number)
        };
        let numbers: Vec<NodeId> = self.nodes.iter().filter_map(waiting).collect();
        for number in numbers {
            let node = self.nodes.get_mut(&number);
            if let Some(body) = node.and_then(|node| node.exit_message.take()) {
                self.post(mem, node_ends(number), body);
                self.send_waiting(mem, number);
            }
        }
    }

    /// `scif_get_node_ids`: the nodes online, ascending, the own one included.
    pub fn online_nodes(&self) -> impl Iterator<Item = NodeId> {
        let own = self.config.node;
        let online =
            |(number, node): (&NodeId, &Node)| (node.state == LinkState::Online).then_some(*number);
        let below = self.nodes.range(..own).filter_map(online);
        below
            .chain(core::iter::once(own))
            .chain(self.nodes.range(own..).filter_map(online))
    }

    /// Takes and handles the messages in a node's ring, at most one ring full at a time.
    pub(crate) fn drain(&mut self, mem: &mut dyn Memory, number: NodeId) {
        let budget = self.config.node_ring_bytes as usize / MESSAGE_BYTES;
        let now = self.now;
        let mut handled = 0;
        while handled < budget {
            let Some(node) = self.nodes.get_mut(&number) else {
                return;
            };
            node.has_unread = false;
            if node.is_congested() {
                break;
            }
            if node.is_dismissed {
                // Its rings may be gone soon: not even the read index is stored any more.
                break;
            }
            let message = match node.receive(mem, now) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return self.fail_ring(mem, number, error),
            };
            self.handle(mem, number, &message);
            handled += 1;
            if handled.is_multiple_of(PUBLISH_INTERVAL) && !self.publish(mem, number) {
                return;
            }
        }
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        if node.is_dismissed {
            return self.send_waiting(mem, number);
        }
        node.has_unread = handled == budget || node.is_congested();
        if handled > 0 && !self.publish(mem, number) {
            return;
        }
        self.enable_doorbell(mem, number);
        self.send_waiting(mem, number);
    }

    /// The ring of a node was found empty: the next doorbell shall tell of more.
    pub(crate) fn enable_doorbell(&mut self, mem: &mut dyn Memory, number: NodeId) {
        let node = self.nodes.get_mut(&number);
        let Some(node) = node.filter(|node| !node.has_unread) else {
            return;
        };
        if self.is_polling {
            node.is_doorbell_suppressed = true;
            return;
        }
        match node.enable_doorbell(mem) {
            // Taken by the next turn.
            Ok(more) => node.has_unread = more,
            Err(error) => self.fail_ring(mem, number, error),
        }
    }

    /// Gives the room of handled messages back; false when the link failed.
    fn publish(&mut self, mem: &mut dyn Memory, number: NodeId) -> bool {
        let Some(node) = self.nodes.get_mut(&number) else {
            return false;
        };
        if let Err(error) = node.publish(mem) {
            self.fail_ring(mem, number, error);
            return false;
        }
        true
    }

    /// Sends messages that waited for room.
    fn send_waiting(&mut self, mem: &mut dyn Memory, number: NodeId) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        match node.send_waiting(mem) {
            Ok(true) => node.stuck_since = (node.waiting_len() > 0).then_some(now),
            Ok(false) => {}
            Err(error) => return self.fail_ring(mem, number, error),
        }
        let is_said = node.is_dismissed && node.exit_message.is_none() && node.waiting_len() == 0;
        if is_said && node.state == LinkState::Leaving {
            node.end(LinkState::Left);
        }
    }

    /// Retries full rings, notices stuck ones, ends leaving that is not answered.
    pub(crate) fn tick_links(&mut self, mem: &mut dyn Memory) {
        let numbers: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.needs_tick())
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            self.drop_void_answers(mem, number);
            self.send_waiting(mem, number);
            let notifications = self.has_notifications_for(number);
            let Some(node) = self.nodes.get_mut(&number) else {
                continue;
            };
            if node.waiting_len() == 0 && !notifications {
                node.stuck_since = None;
            }
            if node
                .stuck_since
                .is_some_and(|since| self.now - since > NODE_RING_STALL_NS)
            {
                let waiting = node.waiting_len();
                self.fail_link(number, DownReason::Stuck(waiting));
                continue;
            }
            if node
                .exit_deadline
                .is_some_and(|deadline| deadline <= self.now)
            {
                self.on_left(number);
                continue;
            }
            if node.has_unread {
                self.drain(mem, number);
            }
        }
    }

    /// Whether a notification for `number` waits for room.
    fn has_notifications_for(&self, number: NodeId) -> bool {
        let connections = self
            .notifications
            .iter()
            .filter_map(|id| self.connections.get(*id));
        connections
            .into_iter()
            .any(|c| c.phase == Phase::Connected && c.peer.node() == number)
    }

    /// When links need the next tick.
    pub(crate) fn next_link_deadline(&self) -> Option<u64> {
        let now = self.now;
        self.nodes
            .values()
            .flat_map(|node| {
                let unread = (node.has_unread && !node.is_congested()).then_some(now);
                let retry = node
                    .stuck_since
                    .map(|_| now.saturating_add(NODE_RING_RETRY_NS));
                // Nobody tells when a client's copy has ended.
                let exit_message = node
                    .exit_message
                    .map(|_| now.saturating_add(CLIENT_RETRY_NS));
                [unread, retry, exit_message, node.exit_deadline]
            })
            .flatten()
            .min()
    }

    /// Messages about nodes rather than connections; false when `body` is none of them.
    pub(crate) fn handle_link_message(
        &mut self,
        mem: &mut dyn Memory,
        from: NodeId,
        message: &Message,
        body: NodeMessage,
    ) -> bool {
        match body {
            NodeMessage::Init => self.on_init(from),
            NodeMessage::Exit => self.on_exit(mem, from),
            NodeMessage::ExitAck => {
                if self
                    .nodes
                    .get(&from)
                    .is_some_and(|n| n.state == LinkState::Leaving)
                {
                    self.on_left(from);
                }
            }
            // Every pair of nodes has a link of its own here, so nobody need be introduced.
            NodeMessage::NodeAdd => {
                let own = PortId::new(self.config.node, 0);
                let answer = Message::new(own, message.source, NodeMessage::NodeAddNack);
                self.post_by(mem, from, answer);
            }
            NodeMessage::NodeAddNack | NodeMessage::NodeRemoveAck { .. } => {
                self.stats.unexpected_messages += 1;
            }
            NodeMessage::NodeRemove { node } => self.on_node_remove(mem, from, node),
            NodeMessage::GetNodeInfo { waiter, .. } => self.on_get_node_info(mem, from, waiter),
            _ => return false,
        }
        true
    }

    fn on_init(&mut self, from: NodeId) {
        match self.nodes.get_mut(&from) {
            Some(node) if node.state == LinkState::Greeting => {
                node.state = LinkState::Online;
                node.is_reported = true;
                self.lost.remove(&from);
                self.stats.links_up += 1;
                self.trace(What::Online, from, 0);
                self.events.push_back(Event::NodeUp(from));
            }
            _ => self.stats.unexpected_messages += 1,
        }
    }

    /// The peer leaves: it has stopped touching our memory.
    fn on_exit(&mut self, mem: &mut dyn Memory, from: NodeId) {
        let deadline = self.now.saturating_add(EXIT_TIMEOUT_NS);
        let Some(node) = self.nodes.get_mut(&from) else {
            return;
        };
        if node.is_dismissed || !matches!(node.state, LinkState::Online | LinkState::Leaving) {
            self.stats.unexpected_messages += 1;
            return;
        }
        node.state = LinkState::Leaving;
        node.exit_deadline = Some(deadline);
        self.report_down(from, DownReason::Left);
        self.cut(mem, from, Phase::Disconnected);
        // The last store into the peer's memory but the answer itself, after which it may free it.
        if self.publish(mem, from) {
            self.send_exit(mem, from, NodeMessage::ExitAck);
        }
        if let Some(node) = self.nodes.get_mut(&from) {
            node.is_dismissed = true;
        }
    }

    /// Our leaving has been answered, or has not been for too long.
    fn on_left(&mut self, from: NodeId) {
        if let Some(node) = self.nodes.get_mut(&from) {
            // The peer may have unmapped the rings by now.
            node.end(LinkState::Left);
            self.trace(What::Left, from, 0);
            self.report_down(from, DownReason::Left);
        }
    }

    /// The host has lost a node. That says nothing about our own link to it, which does not pass
    /// through the host and notices its end by itself. Only the host may say so.
    fn on_node_remove(&mut self, mem: &mut dyn Memory, from: NodeId, lost: u64) {
        if from != HOST_NODE {
            self.stats.unexpected_messages += 1;
            return;
        }
        self.post(
            mem,
            node_ends(from),
            NodeMessage::NodeRemoveAck { node: lost },
        );
    }

    /// A card asks the host which nodes there are.
    fn on_get_node_info(&mut self, mem: &mut dyn Memory, from: NodeId, waiter: u64) {
        if self.config.node != HOST_NODE {
            // An answer to a question this stack does not ask: it sees the nodes itself.
            self.stats.unexpected_messages += 1;
            return;
        }
        let total = self.online_nodes().count() as u64;
        let highest = self
            .nodes
            .keys()
            .next_back()
            .copied()
            .unwrap_or(self.config.node);
        let body = NodeMessage::GetNodeInfo {
            max_node: u64::from(highest),
            total,
            waiter,
        };
        self.post(mem, node_ends(from), body);
    }

    /// Gives a link up because of what the peer did.
    pub(crate) fn fail_link(&mut self, number: NodeId, reason: DownReason) {
        self.report_down(number, reason);
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        if matches!(node.state, LinkState::Failed | LinkState::Left) {
            return;
        }
        log::warn!("node {number}: {reason}: its link is given up");
        node.end(LinkState::Failed);
        self.note_down(number, reason);
        self.stats.links_failed += 1;
        self.trace(What::Failed, number, 0);
        self.sever(number);
        self.events.push_back(Event::LinkFailed(number));
    }

    /// Reports that a node is no longer online, once.
    fn report_down(&mut self, number: NodeId, reason: DownReason) {
        if let Some(node) = self.nodes.get_mut(&number)
            && core::mem::take(&mut node.is_reported)
        {
            self.note_down(number, reason);
            self.events.push_back(Event::NodeDown(number));
        }
    }

    /// Ends all connections with a node in `phase`, and frees those nobody needs.
    fn cut(&mut self, mem: &mut dyn Memory, number: NodeId, phase: Phase) {
        let ids = self.sever(number);
        if phase != Phase::Disconnected {
            return;
        }
        self.free_page_lists_of(mem, number);
        self.end_windows_with(number);
        for id in ids {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.phase = phase;
                self.free_if_done(mem, id);
            }
        }
    }

    /// Ends all connections with a node as far as programs see it. The pages stay until it is
    /// certain that the peer does not write to them. Returns the connections.
    fn sever(&mut self, number: NodeId) -> Vec<ConnectionId> {
        let with_node = self
            .connections
            .iter()
            .filter(|(_, c)| c.peer.node() == number);
        let ids: Vec<ConnectionId> = with_node.map(|(id, _)| id).collect();
        for id in &ids {
            self.sever_connection(*id);
        }
        // Mappings and copies lead nowhere now. Own windows stay until nobody can write to them.
        self.forget_windows_of(number);
        self.cancel_channels(number);
        let listeners: Vec<_> = self.ports.listeners().map(|(_, id)| id).collect();
        for listener in listeners {
            if let Some(endpoint) = self.endpoints.get_mut(listener) {
                endpoint
                    .requests
                    .retain(|request| request.source.node() != number);
            }
        }
        ids
    }

    fn sever_connection(&mut self, id: ConnectionId) {
        self.set_deadline(id, None);
        self.end_all_calls(id, Error::ConnectionReset);
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let phase = connection.phase;
        if phase != Phase::Disconnected {
            connection.phase = Phase::Severed;
        }
        connection.notify = Notifications::default();
        connection.owes_ack = false;
        let endpoint = connection.endpoint;
        self.publish_state(id);
        match (phase, endpoint) {
            (Phase::Requested, _) => self.fail_request(id, Error::NoDevice),
            (Phase::Granted, _) => self.fail_grant(id, Error::NoDevice),
            (Phase::Connected, Some(endpoint)) => {
                if let Some(endpoint) = self.endpoints.get_mut(endpoint) {
                    endpoint.state = EndpointState::Disconnected;
                }
                self.announce(endpoint);
            }
            _ => {}
        }
    }
}

/// The ends of a message about nodes: no ports.
pub(crate) fn node_ends(node: NodeId) -> Ends {
    Ends {
        local: 0,
        peer: PortId::new(node, 0),
    }
}
