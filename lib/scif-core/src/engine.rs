//! The engine: all parts of a node's SCIF state, put together.
//!
//! The calls are in `flow/`, as is the handling of peers' messages (`flow/dispatch.rs`); the
//! driver's loop is in `run.rs`.

use crate::base::config::{Config, Owner};
use crate::base::context::{Context, Ends, Identity};
use crate::base::ids::{BypassId, ConnectionId, EndpointId};
use crate::base::memory::Memory;
use crate::base::quota::{Resource, Scope};
use crate::base::table::Table;
use crate::base::timers::Timer;
use crate::base::trace::Tracer;
use crate::call::Calls;
use crate::connection::{Connection, Phase};
use crate::endpoint::Endpoints;
use crate::flow::bypass::{BypassHandle, ClientHints};
use crate::flow::credit::CreditWaiters;
use crate::flow::quiesce::Quiescing;
use crate::node::Nodes;
use crate::queue_pair::block::Block;
use crate::rma::Transfers;
use crate::window::Windows;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::limits;
use scif_abi::message::NodeMessage;
use scif_abi::trace::What;
use scif_abi::{Error, NodeId};

/// A new ring takes at most this part of what is left of the budget of all rings.
const RING_SHARE: usize = 32;

/// A node's SCIF state.
pub struct Engine {
    pub(crate) cx: Context,
    pub(crate) endpoints: Endpoints,
    pub(crate) connections: Table<ConnectionId, Connection>,
    pub(crate) nodes: Nodes,
    /// Bytes of the rings of all connections.
    pub(crate) ring_bytes: usize,
    /// Connections that have neither an endpoint nor clients, by node: what its peers owe us the
    /// last word on.
    pub(crate) half_closed: BTreeMap<NodeId, usize>,
    /// Handles of clients that work on rings themselves.
    pub(crate) bypass_handles: Table<BypassId, BypassHandle>,
    /// What is told to such clients about all connections.
    pub(crate) client_hints: ClientHints,
    /// Connections whose clients have not been told of a change of state.
    pub(crate) state_changes: Vec<ConnectionId>,
    /// Connections whose peers wait for room and are told when there is more of it.
    pub(crate) credit_updates: Vec<ConnectionId>,
    /// Connections whose peers of the base protocol have no room.
    pub(crate) credit_waiters: CreditWaiters,
    /// Windows that go when no client copies any more, and when (ns) to look again.
    pub(crate) quiescing: Vec<Quiescing>,
    /// When (ns) we looked at them last.
    pub(crate) quiesce_checked_at: u64,
    /// Connections that owe their peer a notification.
    pub(crate) notifications: Vec<ConnectionId>,
    /// Registered memory, own and of peers.
    pub(crate) windows: Windows,
    /// Copies and fences.
    pub(crate) transfers: Transfers,
    /// Calls whose result has not been taken.
    pub(crate) calls: Calls,
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
            cx: Context::new(config),
            endpoints: Endpoints::new(),
            connections: Table::new(limits::MAX_CONNECTIONS),
            nodes: Nodes::default(),
            ring_bytes: 0,
            half_closed: BTreeMap::new(),
            bypass_handles: Table::new(limits::MAX_BYPASS_HANDLES),
            client_hints: ClientHints::default(),
            state_changes: Vec::new(),
            credit_updates: Vec::new(),
            credit_waiters: CreditWaiters::default(),
            quiescing: Vec::new(),
            quiesce_checked_at: 0,
            notifications: Vec::new(),
            windows: Windows::new(),
            transfers: Transfers::new(),
            calls: Calls::new(),
        }
    }

    /// This node's number.
    pub fn node(&self) -> NodeId {
        self.cx.config.node
    }

    /// The settings in use.
    pub fn config(&self) -> &Config {
        &self.cx.config
    }

    /// From now on what happens is recorded there.
    pub fn set_tracer(&mut self, tracer: Box<dyn Tracer>) {
        self.cx.set_tracer(tracer);
    }

    /// Records what the engine's user knows of: `value` as [`What`] says.
    pub fn trace(&mut self, what: What, node: NodeId, value: u64) {
        self.cx.trace(what, node, value);
    }

    /// The time as the engine was told it last.
    pub fn now(&self) -> u64 {
        self.cx.now
    }

    /// The limit of a resource.
    pub fn limit(&self, resource: Resource, scope: Scope) -> u64 {
        self.cx.quotas.limits.get(resource, scope)
    }

    /// Changes a limit. Whoever has more keeps it, and gets no more.
    pub fn set_limit(&mut self, resource: Resource, scope: Scope, value: u64) {
        self.cx.quotas.limits.set(resource, scope, value);
    }

    /// How much a user, or a process, has.
    pub fn used(&self, resource: Resource, scope: Scope, number: u32) -> u64 {
        self.cx.quotas.used(resource, scope, number)
    }

    /// Counts what is kept by somebody else.
    ///
    /// # Errors
    /// The resource's: too many.
    pub fn charge(&mut self, owner: Owner, resource: Resource, amount: u64) -> Result<(), Error> {
        self.cx.quotas.charge(owner, resource, amount)
    }

    /// Counts what is kept by somebody else and is there already, or must be had in any case.
    pub fn charge_anyway(&mut self, owner: Owner, resource: Resource, amount: u64) {
        self.cx.quotas.add(owner, resource, amount);
    }

    /// What was counted before has gone.
    pub fn discharge(&mut self, owner: Owner, resource: Resource, amount: u64) {
        self.cx.quotas.discharge(owner, resource, amount);
    }

    // Shared by the flows.

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
        let (locality, most) = (self.cx.locality(ends.peer.node()), self.next_ring_bytes());
        let block = Block::allocate_at_most(mem, locality, most).ok_or(Error::NoMemory)?;
        let ring_bytes = block.ring_bytes();
        let connection = Connection::new(phase, endpoint, ends, block);
        match self.connections.insert(connection) {
            Some(id) => {
                self.cx.stats.pages += block.pages();
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
        let budget = self.cx.config.ring_budget_bytes;
        ring_share(
            budget.saturating_sub(self.ring_bytes),
            self.cx.config.endpoint_ring_bytes,
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
            self.cx.stats.pages -= connection.block.pages();
            self.ring_bytes -= connection.block.ring_bytes() as usize;
            if let Some(owner) = connection.requested_by {
                self.cx.quotas.discharge(owner, Resource::Connects, 1);
            }
            connection.block.free(mem);
        }
    }

    /// Sets or clears the time-out of a connection's phase.
    pub(crate) fn set_deadline(&mut self, id: ConnectionId, deadline: Option<u64>) {
        match deadline {
            Some(at) if self.connections.get(id).is_some() => {
                self.cx.timers.set(Timer::Handshake(id), at);
            }
            _ => self.cx.timers.clear(Timer::Handshake(id)),
        }
    }

    /// What a connection is called.
    pub(crate) fn identity(&self, id: ConnectionId) -> Option<Identity> {
        let connection = self.connections.get(id)?;
        Some(Identity {
            id,
            remote: connection.remote,
            ends: connection.ends(),
        })
    }

    /// Sends `body` to the other side of a connection.
    pub(crate) fn post_peer(&mut self, id: ConnectionId, body: NodeMessage) {
        if let Some(connection) = self.connections.get(id) {
            let ends = Ends {
                local: connection.local,
                peer: connection.peer,
            };
            self.cx.post(ends, body);
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
