//! Nodes: the link to each, the messages that wait for it, and why links end. A failed link is
//! only noted here; `flow/node_loss.rs` handles it at the end of the call.

pub(crate) mod down;
pub(crate) mod link;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::limits::{EXIT_TIMEOUT_NS, MAX_NODE, NODE_RING_STALL_NS};
use scif_abi::message::{Extensions, MESSAGE_BYTES, Message, NodeMessage};
use scif_abi::qp::QP_BYTES;
use scif_abi::trace::What;

use crate::base::context::Context;
use crate::base::event::Event;
use crate::base::memory::{Locality, Memory};
use crate::base::timers::Timer;
use crate::queue_pair::block::{Block, RemoteQueuePair};
use crate::queue_pair::rings::RingError;

use down::{DownReason, LostNode};
pub use link::LinkError;
use link::{Link, LinkState};

/// How many messages are received from a ring before the read index is published to the peer.
const PUBLISH_INTERVAL: usize = 32;

/// The extensions of the base protocol that this stack offers.
const OWN_EXTENSIONS: Extensions = Extensions::all();

/// The links of a node, and the nodes that it has lost.
#[derive(Default)]
pub(crate) struct Nodes {
    links: BTreeMap<NodeId, Link>,
    /// Nodes that were lost and have not come back.
    lost: BTreeMap<NodeId, LostNode>,
    /// Links that must be given up at the end of the call.
    failures: Vec<(NodeId, DownReason)>,
    /// Whether the caller polls the rings itself.
    is_polling: bool,
}

/// A batch of messages that are received from one ring in a row.
pub(crate) struct Batch {
    limit: usize,
    taken: usize,
}

impl Batch {
    /// A batch of at most one ring full.
    pub(crate) fn new(cx: &Context) -> Batch {
        Batch {
            limit: cx.config.node_ring_bytes as usize / MESSAGE_BYTES,
            taken: 0,
        }
    }
}

// How links begin and end.
impl Nodes {
    /// Makes our queue pair for `node`. Returns its bus address.
    ///
    /// # Errors
    /// `BadNode`, `NoMemory`; `WrongState`: there is a link already.
    pub(crate) fn attach(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
    ) -> Result<u64, LinkError> {
        if node == cx.config.node || node > MAX_NODE {
            return Err(LinkError::BadNode);
        }
        if self.links.contains_key(&node) {
            return Err(LinkError::WrongState);
        }
        let (bytes, offer) = (cx.config.node_ring_bytes, OWN_EXTENSIONS.to_word());
        let block =
            Block::allocate(mem, Locality::Peer(node), bytes, offer).ok_or(LinkError::NoMemory)?;
        cx.stats.pages += block.pages();
        self.links.insert(node, Link::new(block));
        cx.trace(What::Attached, node, block.exported());
        Ok(block.exported())
    }

    /// Begins to use the queue pair that the peer has published at bus address `peer_qp`.
    ///
    /// # Errors
    /// `WrongState`; `BadQueuePair`: the link is then still attached.
    pub(crate) fn connect(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
        peer_qp: u64,
    ) -> Result<(), LinkError> {
        let link = self.links.get_mut(&node).ok_or(LinkError::WrongState)?;
        if link.state != LinkState::Attached {
            return Err(LinkError::WrongState);
        }
        let Some(remote) = RemoteQueuePair::read(mem, Locality::Peer(node), peer_qp, QP_BYTES)
        else {
            cx.stats.bad_queue_pairs += 1;
            cx.trace(What::BadQueuePair, node, peer_qp);
            return Err(LinkError::BadQueuePair);
        };
        link.connect(&remote, OWN_EXTENSIONS, cx.now);
        // Messages posted before must not arrive: the peer may have restarted and use the same
        // ids.
        cx.outbox.retain(|outgoing| outgoing.node != node);
        Ok(())
    }

    /// Handles INIT: the peer is online.
    pub(crate) fn on_init(&mut self, cx: &mut Context, node: NodeId) {
        match self.links.get_mut(&node) {
            Some(link) if link.state == LinkState::Greeting => {
                link.state = LinkState::Online;
                link.is_reported = true;
                self.lost.remove(&node);
                cx.stats.links_up += 1;
                cx.trace(What::Online, node, 0);
                cx.events.push(Event::NodeUp(node));
            }
            _ => cx.stats.unexpected_messages += 1,
        }
    }

    /// Begins the exit from a link, by us or by `node`: EXIT must be answered in time.
    pub(crate) fn begin_exit(&mut self, cx: &Context, node: NodeId) {
        if let Some(link) = self.links.get_mut(&node) {
            link.state = LinkState::Leaving;
            link.exit_deadline = Some(cx.after(EXIT_TIMEOUT_NS));
        }
    }

    /// Whether EXIT from `node` is valid now.
    pub(crate) fn expects_exit(&self, node: NodeId) -> bool {
        self.links.get(&node).is_some_and(|link| {
            !link.is_dismissed && matches!(link.state, LinkState::Online | LinkState::Leaving)
        })
    }

    /// Notes EXIT of the peer: nothing more is received from it, and only our answer remains to be
    /// sent.
    pub(crate) fn dismiss(&mut self, node: NodeId) {
        if let Some(link) = self.links.get_mut(&node) {
            link.is_dismissed = true;
        }
    }

    /// Ends the exit: EXIT was answered, or was not answered in time.
    pub(crate) fn end_exit(&mut self, cx: &mut Context, node: NodeId) {
        if let Some(link) = self.links.get_mut(&node) {
            // The peer may have unmapped the rings by now.
            link.end(LinkState::Left);
            cx.trace(What::Left, node, 0);
            self.report_down(cx, node, DownReason::Left);
        }
    }

    /// Keeps EXIT or EXIT_ACK back until no copy or client of ours uses the peer's memory.
    pub(crate) fn keep_exit(&mut self, node: NodeId, body: NodeMessage) {
        if let Some(link) = self.links.get_mut(&node) {
            link.exit_message = Some(body);
        }
    }

    /// The nodes for which such a message is kept back.
    pub(crate) fn kept_exits(&self) -> Vec<NodeId> {
        if self.links.values().all(|link| link.exit_message.is_none()) {
            return Vec::new();
        }
        let kept = self.links.iter();
        let kept = kept.filter(|(_, link)| link.exit_message.is_some());
        kept.map(|(node, _)| *node).collect()
    }

    /// Takes the message that is kept back.
    pub(crate) fn take_exit(&mut self, node: NodeId) -> Option<NodeMessage> {
        self.links.get_mut(&node)?.exit_message.take()
    }

    /// Removes a link: it and the memory shared with the peer are gone. `false`: there was no
    /// link.
    pub(crate) fn detach(&mut self, mem: &mut dyn Memory, cx: &mut Context, node: NodeId) -> bool {
        self.report_down(cx, node, DownReason::Gone);
        self.failures.retain(|(failed, _)| *failed != node);
        let Some(link) = self.links.remove(&node) else {
            return false;
        };
        cx.timers.clear(Timer::Link(node));
        cx.stats.messages_sent += link.messages_sent;
        cx.stats.messages_received += link.messages_received;
        cx.stats.pages -= link.block.pages();
        link.block.free(mem);
        cx.trace(What::Detached, node, 0);
        true
    }

    /// Notes that a link must be given up. From now on nothing is sent over it or received from
    /// it.
    pub(crate) fn fail(&mut self, node: NodeId, reason: DownReason) {
        if let Some(link) = self.links.get_mut(&node)
            && !link.is_over()
        {
            link.end(link.state);
            self.failures.push((node, reason));
        }
    }

    /// Notes that a link must be given up because of an error of its rings.
    fn fail_ring(&mut self, mem: &dyn Memory, node: NodeId, error: RingError) {
        if let Some(link) = self.links.get(&node) {
            self.fail(node, link.reason(mem, error));
        }
    }

    /// The next link that must be given up.
    pub(crate) fn take_failure(&mut self) -> Option<(NodeId, DownReason)> {
        (!self.failures.is_empty()).then(|| self.failures.remove(0))
    }

    /// Gives a link up. `false`: there is no link, or it was given up already.
    pub(crate) fn give_up(&mut self, cx: &mut Context, node: NodeId, reason: DownReason) -> bool {
        self.report_down(cx, node, reason);
        let Some(link) = self.links.get_mut(&node).filter(|link| !link.is_over()) else {
            return false;
        };
        log::warn!("node {node}: {reason}: its link is given up");
        link.end(LinkState::Failed);
        self.note_lost(cx, node, reason);
        cx.stats.links_failed += 1;
        cx.trace(What::Failed, node, 0);
        true
    }

    /// Reports that a node is no longer online, once.
    pub(crate) fn report_down(&mut self, cx: &mut Context, node: NodeId, reason: DownReason) {
        if let Some(link) = self.links.get_mut(&node)
            && core::mem::take(&mut link.is_reported)
        {
            self.note_lost(cx, node, reason);
            cx.events.push(Event::NodeDown(node));
        }
    }

    fn note_lost(&mut self, cx: &Context, node: NodeId, reason: DownReason) {
        let since = cx.now;
        let lost = LostNode {
            node,
            reason,
            since,
        };
        self.lost.insert(node, lost);
    }
}

// Messages.
impl Nodes {
    /// Puts the messages in the outbox into the rings of their nodes, or behind those that wait
    /// there for room.
    pub(crate) fn transmit(&mut self, mem: &mut dyn Memory, cx: &mut Context) {
        while let Some(outgoing) = cx.outbox.pop_front() {
            let node = outgoing.node;
            let Some(link) = self.links.get_mut(&node) else {
                continue;
            };
            if let Err(error) = link.send(mem, outgoing.message, outgoing.void_at) {
                self.fail_ring(mem, node, error);
            } else if link.waiting_len() > 0 {
                link.stuck_since.get_or_insert(cx.now);
            }
        }
    }

    /// Sends a notification if there is room at once and nothing waits. `false` when there is
    /// none.
    pub(crate) fn send_notification(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
        message: &Message,
    ) -> bool {
        let Some(link) = self.links.get_mut(&node) else {
            return true;
        };
        match link.send_now(mem, message) {
            Ok(true) => link.stuck_since = None,
            Ok(false) => {
                link.stuck_since.get_or_insert(cx.now);
                return false;
            }
            Err(error) => self.fail_ring(mem, node, error),
        }
        true
    }

    /// Removes and returns the messages that wait for room and are void at `now` (ns).
    pub(crate) fn take_void(&mut self, now: u64) -> Vec<(NodeId, Message)> {
        let links = self.links.iter_mut();
        let void = links.flat_map(|(node, link)| {
            let void = link.take_void(now).into_iter();
            void.map(|message| (*node, message))
        });
        void.collect()
    }

    /// Sends messages to a node that waited for room.
    pub(crate) fn send_waiting(&mut self, mem: &mut dyn Memory, cx: &Context, node: NodeId) {
        let Some(link) = self.links.get_mut(&node) else {
            return;
        };
        match link.send_waiting(mem) {
            Ok(true) => link.stuck_since = (link.waiting_len() > 0).then_some(cx.now),
            Ok(false) => {}
            Err(error) => return self.fail_ring(mem, node, error),
        }
        let is_said = link.is_dismissed && link.exit_message.is_none() && link.waiting_len() == 0;
        if is_said && link.state == LinkState::Leaving {
            link.end(LinkState::Left);
        }
    }

    /// Sends messages that waited for room, wherever there is room now.
    pub(crate) fn retry_full_rings(&mut self, mem: &mut dyn Memory, cx: &Context) {
        let links = self.links.iter();
        let full = links.filter(|(_, link)| link.waiting_len() > 0);
        for node in full.map(|(node, _)| *node).collect::<Vec<_>>() {
            self.send_waiting(mem, cx, node);
        }
    }

    /// Receives the next message of a batch from a node's ring.
    pub(crate) fn receive(
        &mut self,
        mem: &mut dyn Memory,
        cx: &Context,
        node: NodeId,
        batch: &mut Batch,
    ) -> Option<Message> {
        if batch.taken > 0 && batch.taken.is_multiple_of(PUBLISH_INTERVAL) {
            self.publish(mem, node);
        }
        let link = self.links.get_mut(&node)?;
        if batch.taken >= batch.limit {
            return None;
        }
        link.has_unread = false;
        // The rings of a peer that has left may be gone soon.
        if link.is_congested() || link.is_dismissed {
            return None;
        }
        match link.receive(mem, cx.now) {
            Ok(message) => {
                batch.taken += usize::from(message.is_some());
                message
            }
            Err(error) => {
                self.fail_ring(mem, node, error);
                None
            }
        }
    }

    /// Ends a batch of messages: gives their room back, and asks for a doorbell when more come.
    pub(crate) fn end_batch(
        &mut self,
        mem: &mut dyn Memory,
        cx: &Context,
        node: NodeId,
        batch: &Batch,
    ) {
        let Some(link) = self.links.get_mut(&node) else {
            return;
        };
        if !link.is_dismissed && link.is_usable() {
            link.has_unread = batch.taken == batch.limit || link.is_congested();
            if batch.taken > 0 {
                self.publish(mem, node);
            }
            self.enable_doorbell(mem, node);
        }
        self.send_waiting(mem, cx, node);
    }

    /// Gives the room of handled messages back.
    pub(crate) fn publish(&mut self, mem: &mut dyn Memory, node: NodeId) {
        let link = self.links.get_mut(&node);
        if let Some(Err(error)) = link.map(|link| link.publish(mem)) {
            self.fail_ring(mem, node, error);
        }
    }

    /// Asks a node, whose ring was found empty, to ring when it has put messages.
    fn enable_doorbell(&mut self, mem: &mut dyn Memory, node: NodeId) {
        let link = self.links.get_mut(&node);
        let Some(link) = link.filter(|link| !link.has_unread) else {
            return;
        };
        if self.is_polling {
            link.is_doorbell_suppressed = true;
            return;
        }
        match link.enable_doorbell(mem) {
            // They are received in the next iteration.
            Ok(more) => link.has_unread = more,
            Err(error) => self.fail_ring(mem, node, error),
        }
    }
}

// Doorbells, polling and timers.
impl Nodes {
    /// Whether the doorbell of a node must be rung, now that its `Event::Ring` is taken.
    pub(crate) fn take_doorbell(
        &mut self,
        mem: &mut dyn Memory,
        cx: &mut Context,
        node: NodeId,
    ) -> bool {
        let link = self.links.get_mut(&node);
        let Some(link) = link.filter(|link| link.owes_doorbell) else {
            return false;
        };
        link.owes_doorbell = false;
        let rings = link.must_ring(mem, cx.now);
        if rings {
            cx.stats.doorbells_rung += 1;
        } else {
            cx.stats.doorbells_saved += 1;
        }
        rings
    }

    /// Begins to poll: from now on the caller polls the rings.
    pub(crate) fn start_polling(&mut self) {
        self.is_polling = true;
    }

    /// Ends polling: asks for doorbells again.
    pub(crate) fn stop_polling(&mut self, mem: &mut dyn Memory) {
        self.is_polling = false;
        let suppressed = self.links.iter_mut().filter_map(|(node, link)| {
            core::mem::take(&mut link.is_doorbell_suppressed).then_some(*node)
        });
        for node in suppressed.collect::<Vec<_>>() {
            self.enable_doorbell(mem, node);
        }
    }

    /// The first node, from `from` on, that has put messages without a doorbell.
    pub(crate) fn find_unpolled(&mut self, mem: &mut dyn Memory, from: NodeId) -> Option<NodeId> {
        let mut links = self.links.range_mut(from..);
        links.find_map(|(node, link)| link.has_unpolled_messages(mem).then_some(*node))
    }

    /// Handles a link's timer: retries a full ring, notices a stuck one. `true`: EXIT was not
    /// answered in time. `is_waited_for` says that notifications wait for room in the ring, too.
    pub(crate) fn on_timer(
        &mut self,
        mem: &mut dyn Memory,
        cx: &Context,
        node: NodeId,
        is_waited_for: bool,
    ) -> bool {
        self.send_waiting(mem, cx, node);
        let Some(link) = self.links.get_mut(&node) else {
            return false;
        };
        link.timer = None;
        if link.waiting_len() == 0 && !is_waited_for {
            link.stuck_since = None;
        }
        let stuck_since = link.stuck_since;
        if stuck_since.is_some_and(|since| cx.now - since > NODE_RING_STALL_NS) {
            let waiting = link.waiting_len();
            self.fail(node, DownReason::Stuck(waiting));
            return false;
        }
        link.exit_deadline.is_some_and(|at| at <= cx.now)
    }

    /// Whether messages of a node are left in its ring from an earlier batch.
    pub(crate) fn has_unread(&self, node: NodeId) -> bool {
        self.links.get(&node).is_some_and(|link| link.has_unread)
    }

    /// Ends a round of messages: queues `Event::Ring` for the nodes for which messages were put,
    /// and starts or stops the timers of links.
    pub(crate) fn end_round(&mut self, cx: &mut Context) {
        for (node, link) in &mut self.links {
            if link.owes_doorbell {
                cx.events.push(Event::Ring(*node));
            }
            link.set_timer(cx, *node);
        }
    }

    /// Starts or stops the timers of links.
    pub(crate) fn set_timers(&mut self, cx: &mut Context) {
        for (node, link) in &mut self.links {
            link.set_timer(cx, *node);
        }
    }
}

// Views.
impl Nodes {
    /// The state of the link to a node; `None` without a link.
    pub(crate) fn state(&self, node: NodeId) -> Option<LinkState> {
        self.links.get(&node).map(|link| link.state)
    }

    /// Whether a node is online; this node always is.
    pub(crate) fn is_online(&self, cx: &Context, node: NodeId) -> bool {
        node == cx.config.node || self.state(node) == Some(LinkState::Online)
    }

    /// Whether messages can be sent to a node: its link is in state greeting or online.
    pub(crate) fn is_greeted(&self, node: NodeId) -> bool {
        matches!(
            self.state(node),
            Some(LinkState::Greeting | LinkState::Online)
        )
    }

    /// Whether both this node and `node` have an extension.
    pub(crate) fn understands(&self, cx: &Context, node: NodeId, extension: Extensions) -> bool {
        let link = self.links.get(&node);
        node == cx.config.node || link.is_some_and(|link| link.extensions.contains(extension))
    }

    /// When (ns) the ring of a node was read before the messages that are received now.
    pub(crate) fn came_after(&self, node: NodeId) -> Option<u64> {
        self.links.get(&node).map(|link| link.came_after)
    }

    /// How many messages were received over the present link to a node.
    pub(crate) fn messages_received(&self, node: NodeId) -> u64 {
        self.links
            .get(&node)
            .map_or(0, |link| link.messages_received)
    }

    /// All nodes with a link, ascending: the state, and the messages sent and received.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, LinkState, [u64; 2])> {
        self.links.iter().map(|(node, link)| {
            let messages = [link.messages_sent, link.messages_received];
            (*node, link.state, messages)
        })
    }

    /// Nodes that were lost and have not come back, ascending.
    pub(crate) fn lost(&self) -> impl Iterator<Item = LostNode> {
        self.lost.values().copied()
    }

    /// How many pages the queue pairs of all links have.
    pub(crate) fn pages(&self) -> usize {
        self.links.values().map(|link| link.block.pages()).sum()
    }
}

impl Link {
    /// Starts or stops the timer of `node`'s link.
    fn set_timer(&mut self, cx: &mut Context, node: NodeId) {
        let at = self.expires_at(cx.now, self.timer);
        if at == self.timer {
            return;
        }
        self.timer = at;
        match at {
            Some(at) => cx.timers.set(Timer::Link(node), at),
            None => cx.timers.clear(Timer::Link(node)),
        }
    }

    /// When the link's timer must expire; it now runs until `running`.
    fn expires_at(&self, now: u64, running: Option<u64>) -> Option<u64> {
        let unread = (self.has_unread && !self.is_congested()).then_some(now);
        let retry = self.retry_after().map(|wait| {
            let at = now.saturating_add(wait);
            running
                .filter(|running| *running > now)
                .map_or(at, |running| at.min(running))
        });
        unread
            .into_iter()
            .chain(retry)
            .chain(self.exit_deadline)
            .min()
    }
}
