//! The engine: all of a node's SCIF state, the clock it is told, and the ways messages and events
//! leave.
//!
//! The calls themselves are in `listen`, `connect`, `accept`, `transfer`, `close` and `link`; what
//! peers say arrives in `dispatch`.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use scif_abi::limits;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::trace::What;
use scif_abi::{Error, NodeId, PortId};

use crate::base::config::{Config, Owner};
use crate::base::event::Event;
use crate::base::fair_queue::FairQueue;
use crate::base::ids::{BypassId, ChannelId, ConnectionId, EndpointId, RemoteWindowId, Ticket};
use crate::base::memory::Memory;
use crate::base::quota::{Quotas, Resource};
use crate::base::stats::Stats;
use crate::base::table::Table;
use crate::base::trace::Trace;
use crate::call::Call;
use crate::connection::{Connection, Ends, Phase};
use crate::endpoint::Endpoint;
use crate::endpoint::ports::PortTable;
use crate::flow::bypass::{BypassHandle, ClientHints};
use crate::flow::credit::CreditWaiters;
use crate::flow::map::OrphanedMapping;
use crate::flow::quiesce::Quiescing;
use crate::node::down::LostNode;
use crate::node::link::Node;
use crate::queue_pair::block::{Block, Locality};
use crate::rma::channel::Channel;
use crate::window::Windows;

/// A new ring takes at most this part of what is left of the budget of all rings.
const RING_SHARE: usize = 32;

/// A node's SCIF state.
pub struct Engine {
    pub(crate) config: Config,
    /// Time of the last tick (ns).
    pub(crate) now: u64,
    /// When (ns) to look for answers that peers owe us for too long; `None`: none is owed.
    pub(crate) responses_due: Option<u64>,
    /// When (ns) the first queued request may have to be forgotten; `None`: none has to.
    pub(crate) void_at: Option<u64>,
    pub(crate) endpoints: Table<EndpointId, Endpoint>,
    pub(crate) connections: Table<ConnectionId, Connection>,
    pub(crate) ports: PortTable,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    /// The caller looks at the rings of nodes by itself.
    pub(crate) is_polling: bool,
    /// Bytes of the rings of all connections.
    pub(crate) ring_bytes: usize,
    /// Deadlines of connections, earliest first.
    pub(crate) timers: BTreeSet<(u64, ConnectionId)>,
    /// Connections that have neither an endpoint nor clients, by node: what its peers owe us the
    /// last word on.
    pub(crate) half_closed: BTreeMap<NodeId, usize>,
    /// Handles of clients that work on rings themselves.
    pub(crate) bypass_handles: Table<BypassId, BypassHandle>,
    /// What is told to such clients about all connections.
    pub(crate) client_hints: ClientHints,
    /// Connections whose clients have not been told of a change of state.
    pub(crate) state_changes: Vec<ConnectionId>,
    /// Connections where a client was in the way, by when (ns) to look again.
    pub(crate) ring_retries: BTreeSet<(u64, ConnectionId)>,
    /// Connections whose peers wait for room and are told when there is more of it, or at this
    /// time (ns).
    pub(crate) credit_updates: Vec<ConnectionId>,
    pub(crate) credit_updates_at: u64,
    /// Connections whose peers of the base protocol have no room.
    pub(crate) credit_waiters: CreditWaiters,
    /// Windows that go when no client copies any more, and when (ns) to look again.
    pub(crate) quiescing: Vec<Quiescing>,
    pub(crate) quiesce_check_at: u64,
    /// When (ns) we looked at them last.
    pub(crate) quiesce_checked_at: u64,
    /// Connections that owe their peer a notification.
    pub(crate) notifications: Vec<ConnectionId>,
    /// Messages from this node to itself.
    pub(crate) loopback: VecDeque<Message>,
    /// Registered memory, own and of peers.
    pub(crate) windows: Windows,
    /// Nodes that were lost and have not come back.
    pub(crate) lost: BTreeMap<NodeId, LostNode>,
    /// Windows that are forgotten but mapped.
    pub(crate) orphaned_mappings: BTreeMap<RemoteWindowId, OrphanedMapping>,
    /// What users and processes have.
    pub(crate) quotas: Quotas,
    /// Queues of copies.
    pub(crate) channels: Table<ChannelId, Channel>,
    /// Channels that have something to submit, in the order of their turns.
    pub(crate) active: FairQueue<ChannelId>,
    /// Channels that have something to submit and for which the copy engine has no room now.
    pub(crate) full: Vec<ChannelId>,
    /// Channels with descriptors that complete later.
    pub(crate) busy: Vec<ChannelId>,
    /// Channels that are gone, which the copy engine has not been told.
    pub(crate) forgotten: Vec<ChannelId>,
    /// Waits there were; tells them apart.
    pub(crate) wait_count: u64,
    /// Calls whose result has not been taken.
    pub(crate) calls: Table<Ticket, Call>,
    /// What closed endpoints have under way: how many things each.
    pub(crate) departures: BTreeMap<EndpointId, usize>,
    /// The last cookie given out for pages.
    pub(crate) last_cookie: u64,
    /// Windows of peers whose last use has ended, which the owners have not been told.
    pub(crate) ended: Vec<RemoteWindowId>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) stats: Stats,
    pub(crate) trace: Trace,
}

impl Engine {
    /// An engine without links. Loopback connections work at once. Ring sizes of `config` that are
    /// out of range are replaced by the nearest power of two in range.
    pub fn new(mut config: Config) -> Engine {
        let min = limits::MIN_RING_BYTES;
        let round = |bytes: u32, max: u32| bytes.clamp(min, max).next_power_of_two();
        config.endpoint_ring_bytes =
            round(config.endpoint_ring_bytes, limits::MAX_ENDPOINT_RING_BYTES);
        config.node_ring_bytes = round(config.node_ring_bytes, limits::MAX_RING_BYTES);
        Engine {
            config,
            now: 0,
            responses_due: None,
            void_at: None,
            endpoints: Table::new(limits::MAX_ENDPOINTS),
            connections: Table::new(limits::MAX_CONNECTIONS),
            ports: PortTable::new(),
            nodes: BTreeMap::new(),
            ring_bytes: 0,
            timers: BTreeSet::new(),
            half_closed: BTreeMap::new(),
            bypass_handles: Table::new(limits::MAX_BYPASS_HANDLES),
            client_hints: ClientHints::default(),
            state_changes: Vec::new(),
            ring_retries: BTreeSet::new(),
            is_polling: false,
            credit_updates: Vec::new(),
            credit_updates_at: 0,
            credit_waiters: CreditWaiters::default(),
            quiescing: Vec::new(),
            quiesce_check_at: 0,
            quiesce_checked_at: 0,
            notifications: Vec::new(),
            loopback: VecDeque::new(),
            windows: Windows::new(),
            lost: BTreeMap::new(),
            orphaned_mappings: BTreeMap::new(),
            quotas: Quotas::new(config.limits),
            channels: Table::new(2 * limits::MAX_CONNECTIONS),
            active: FairQueue::default(),
            full: Vec::new(),
            busy: Vec::new(),
            forgotten: Vec::new(),
            wait_count: 0,
            calls: Table::new(limits::MAX_CALLS),
            departures: BTreeMap::new(),
            last_cookie: 0,
            ended: Vec::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
            trace: Trace::default(),
        }
    }

    /// This node's number.
    pub fn node(&self) -> NodeId {
        self.config.node
    }

    /// The settings in use.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Tells the engine the time (nanoseconds of any monotonic clock) and lets time-outs happen.
    /// Call it at the start of every turn of the event loop.
    pub fn tick(&mut self, mem: &mut dyn Memory, now: u64) {
        self.now = self.now.max(now);
        while let Some((deadline, id)) = self.timers.first().copied() {
            if deadline > self.now {
                break;
            }
            self.set_deadline(id, None);
            self.on_deadline(mem, id);
        }
        self.tick_requests();
        self.tick_responses(mem);
        self.tick_links(mem);
        self.tick_clients(mem);
        self.send_credit_updates(mem);
        self.resume_credit_waiters(mem);
    }

    /// When `tick` must be called at the latest (same clock); `None`: no time-out is running.
    pub fn next_deadline(&self) -> Option<u64> {
        let connections = self.timers.first().map(|(deadline, _)| *deadline);
        connections
            .into_iter()
            .chain(self.next_link_deadline())
            .chain(self.responses_due)
            .chain(self.void_at)
            .chain(self.next_credit_check())
            .chain(self.next_client_deadline())
            .chain((!self.credit_updates.is_empty()).then_some(self.credit_updates_at))
            .min()
    }

    /// The next thing to do or know. Call it until it returns `None` after any other calls:
    /// messages within the node are handled and notifications sent here, which is how they merge.
    pub fn next_event(&mut self, mem: &mut dyn Memory) -> Option<Event> {
        if let Some(event) = self.pop_event(mem) {
            return Some(event);
        }
        self.flush(mem);
        self.pop_event(mem)
    }

    fn pop_event(&mut self, mem: &mut dyn Memory) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            match event {
                Event::Changed(id) => match self.endpoints.get_mut(id) {
                    Some(endpoint) => endpoint.is_announced = false,
                    None => continue,
                },
                Event::Ring(node) => match self.nodes.get_mut(&node) {
                    Some(node) if node.owes_doorbell => {
                        node.owes_doorbell = false;
                        if !node.must_ring(mem, self.now) {
                            self.stats.doorbells_saved += 1;
                            continue;
                        }
                        self.stats.doorbells_rung += 1;
                    }
                    _ => continue,
                },
                Event::Departed(_)
                | Event::NodeUp(_)
                | Event::NodeDown(_)
                | Event::LinkFailed(_)
                | Event::Unpin(_) => {}
            }
            return Some(event);
        }
        None
    }

    /// Handles what this node told itself, sends owed notifications, asks for doorbells.
    fn flush(&mut self, mem: &mut dyn Memory) {
        loop {
            self.send_pending_replies(mem);
            self.handle_loopback(mem);
            self.send_notifications(mem);
            if self.loopback.is_empty() && self.ended.is_empty() {
                break;
            }
        }
        self.publish_states(mem);
        self.send_waiting_exits(mem);
        for (number, node) in &self.nodes {
            if node.owes_doorbell {
                self.events.push_back(Event::Ring(*number));
            }
        }
    }

    // Shared by the flows.

    pub(crate) fn endpoint(&self, id: EndpointId) -> Result<&Endpoint, Error> {
        self.endpoints.get(id).ok_or(Error::BadDescriptor)
    }

    pub(crate) fn endpoint_mut(&mut self, id: EndpointId) -> Result<&mut Endpoint, Error> {
        self.endpoints.get_mut(id).ok_or(Error::BadDescriptor)
    }

    /// Adds an endpoint, within the limits.
    pub(crate) fn add_endpoint(&mut self, owner: Owner) -> Result<EndpointId, Error> {
        // An endpoint that is shut down leaves a file, whatever the limit of those is. Who has too
        // many of them gets no endpoint to make another of.
        self.quotas.check(owner, Resource::Files, 0)?;
        self.quotas.charge(owner, Resource::Endpoints, 1)?;
        match self.endpoints.insert(Endpoint::new(owner)) {
            Some(id) => Ok(id),
            None => {
                self.quotas.discharge(owner, Resource::Endpoints, 1);
                Err(Error::NoMemory)
            }
        }
    }

    /// Removes an endpoint and frees its port.
    pub(crate) fn remove_endpoint(&mut self, id: EndpointId) -> Option<Endpoint> {
        let endpoint = self.endpoints.remove(id)?;
        if endpoint.owns_port {
            self.ports.release(endpoint.port);
        }
        let (owner, backlog) = (endpoint.owner, endpoint.backlog as u64);
        self.quotas.discharge(owner, Resource::Endpoints, 1);
        self.quotas.discharge(owner, Resource::Backlog, backlog);
        Some(endpoint)
    }

    /// Queues a `Changed` event, unless one is queued.
    pub(crate) fn announce(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.endpoints.get_mut(id)
            && !endpoint.is_announced
        {
            endpoint.is_announced = true;
            self.events.push_back(Event::Changed(id));
        }
    }

    /// How the other side's memory is reached when it is on `node`.
    pub(crate) fn locality(&self, node: NodeId) -> Locality {
        Locality::to(node, self.config.node)
    }

    /// Whether `node` is online; the own node always is.
    pub(crate) fn is_online(&self, node: NodeId) -> bool {
        node == self.config.node
            || self
                .nodes
                .get(&node)
                .is_some_and(|n| n.state == crate::node::link::LinkState::Online)
    }

    /// Makes a connection of `endpoint` with a queue pair of its own.
    pub(crate) fn add_connection(
        &mut self,
        mem: &mut dyn Memory,
        phase: Phase,
        endpoint: EndpointId,
        ends: Ends,
    ) -> Result<ConnectionId, Error> {
        if self.connections.is_full() || self.has_too_many_half_closed(ends.peer.node()) {
            return Err(Error::NoMemory);
        }
        let (locality, most) = (self.locality(ends.peer.node()), self.next_ring_bytes());
        let block = Block::allocate_at_most(mem, locality, most).ok_or(Error::NoMemory)?;
        let ring_bytes = block.ring_bytes;
        let connection = Connection::new(phase, endpoint, ends, block);
        match self.connections.insert(connection) {
            Some(id) => {
                self.stats.pages += block.pages();
                self.ring_bytes += ring_bytes as usize;
                Ok(id)
            }
            None => {
                block.free(mem);
                Err(Error::NoMemory)
            }
        }
    }

    /// Bytes of the ring of the next connection.
    fn next_ring_bytes(&self) -> u32 {
        let budget = self.config.ring_budget_bytes;
        ring_share(
            budget.saturating_sub(self.ring_bytes),
            self.config.endpoint_ring_bytes,
        )
    }

    /// Whether a node owes us the last word on so many connections that it gets no more.
    fn has_too_many_half_closed(&self, node: NodeId) -> bool {
        let half_closed = self.half_closed.get(&node).copied().unwrap_or(0);
        half_closed >= limits::MAX_UNANSWERED
    }

    /// A connection loses its endpoint, if it has one.
    pub(crate) fn take_endpoint(&mut self, id: ConnectionId) -> Option<EndpointId> {
        let connection = self.connections.get_mut(id)?;
        let endpoint = connection.endpoint.take()?;
        // While clients have it mapped, it waits for them and not for the peer.
        if !connection.is_mapped() {
            self.count_half_closed(id);
        }
        Some(endpoint)
    }

    /// From now on only the peer's last word on a connection is missing.
    pub(crate) fn count_half_closed(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get(id) {
            *self.half_closed.entry(connection.peer.node()).or_default() += 1;
        }
    }

    /// Frees a connection and its pages. The peer does not write to them any more.
    pub(crate) fn free_connection(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        self.set_deadline(id, None);
        if let Some(connection) = self.connections.remove(id) {
            if connection.endpoint.is_none()
                && !connection.is_mapped()
                && let Some(count) = self.half_closed.get_mut(&connection.peer.node())
            {
                *count = count.saturating_sub(1);
            }
            self.stats.pages -= connection.block.pages();
            self.ring_bytes -= connection.block.ring_bytes as usize;
            if let Some(owner) = connection.requested_by {
                self.quotas.discharge(owner, Resource::Connects, 1);
            }
            connection.block.free(mem);
        }
    }

    /// Sets or clears the time-out of a connection's phase.
    pub(crate) fn set_deadline(&mut self, id: ConnectionId, deadline: Option<u64>) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if let Some(old) = connection.deadline.take() {
            self.timers.remove(&(old, id));
        }
        connection.deadline = deadline;
        if let Some(new) = deadline {
            self.timers.insert((new, id));
        }
    }

    /// Sends `body` from our port to the peer's.
    pub(crate) fn post(&mut self, mem: &mut dyn Memory, ends: Ends, body: NodeMessage) {
        let from = PortId::new(self.config.node, ends.local);
        self.post_by(mem, ends.peer.node(), Message::new(from, ends.peer, body));
    }

    /// Sends a message by the link to `number`, at once or when its ring has room.
    pub(crate) fn post_by(&mut self, mem: &mut dyn Memory, number: NodeId, message: Message) {
        let ends = [message.source, message.destination];
        self.trace_message(What::Sent, number, ends, &message);
        if number == self.config.node {
            self.loopback.push_back(message);
            return;
        }
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        if let Err(error) = node.send(mem, message) {
            self.fail_ring(mem, number, error);
        } else if node.waiting_len() > 0 {
            node.stuck_since.get_or_insert(self.now);
        }
    }

    /// Sends `body` to the other side of a connection.
    pub(crate) fn post_peer(&mut self, mem: &mut dyn Memory, id: ConnectionId, body: NodeMessage) {
        if let Some(connection) = self.connections.get(id) {
            let ends = Ends {
                local: connection.local,
                peer: connection.peer,
            };
            self.post(mem, ends, body);
        }
    }
}

/// Bytes of a new ring when `left` bytes of the budget of all rings are left: a power of two, at
/// most `max` and at least a page or, if that is less, `max`.
fn ring_share(left: usize, max: u32) -> u32 {
    let least = max.min(limits::PAGE_BYTES as u32);
    match (left / RING_SHARE).checked_ilog2() {
        Some(order) => 1_u32.checked_shl(order).unwrap_or(max).clamp(least, max),
        None => least,
    }
}

#[cfg(test)]
mod tests {
    use super::ring_share;

    #[test]
    fn rings_share_what_is_left_and_thousands_fit() {
        const MAX: u32 = 1 << 18;
        const BUDGET: usize = 1 << 25;
        assert_eq!(ring_share(usize::MAX, MAX), MAX);
        assert_eq!(ring_share(usize::MAX, 64), 64);
        assert_eq!(ring_share(0, 64), 64);
        assert_eq!(ring_share(0, MAX), 4096);
        let mut used = 0;
        let mut last = MAX;
        let mut largest = 0;
        for _ in 0..4000 {
            let ring = ring_share(BUDGET.saturating_sub(used), MAX);
            assert!(ring <= last && ring.is_power_of_two() && ring >= 4096);
            largest += usize::from(ring == MAX);
            used += ring as usize;
            last = ring;
        }
        assert_eq!(last, 4096);
        assert!(largest >= 64, "{largest}");
        assert!(used <= BUDGET + 4000 * 4096, "{used}");
    }
}
