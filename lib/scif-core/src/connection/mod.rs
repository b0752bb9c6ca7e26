//! Connections: the pair of rings behind an endpoint, and its handshakes with the peer.
//!
//! The ids on the wire are those of connections, not of endpoints. So an endpoint can be closed,
//! or connect anew, at once, while the old connection lives on until the peer has promised not to
//! write to its pages any more. Only then are the pages freed.

pub(crate) mod clients;
pub(crate) mod credit;
pub(crate) mod handshake;
pub(crate) mod notify;
pub(crate) mod polled;
mod ring_budget;
pub(crate) mod stream;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::flags::Readiness;
use scif_abi::limits::MAX_CONNECTIONS;
use scif_abi::message::NodeMessage;
use scif_ring::Side;

use crate::base::context::{Context, Ends, Identity};
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::owner::Owner;
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::table::{Key, Table};
use crate::base::timers::Timer;
use crate::connection::notify::Notifications;
use crate::connection::polled::Polled;
use crate::connection::ring_budget::RingBudget;
use crate::queue_pair::block::Block;
use crate::queue_pair::control_page::ControlPage;
use crate::queue_pair::rings::{Queued, Rings};

/// The state of a connection towards its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CNCT_REQ sent, not answered.
    Requested,
    /// As `Requested`, but the endpoint has given it up. Ends with TERM_ACK, CNCT_REJ or CNCT_GNT.
    Withdrawn,
    /// CNCT_GNT sent; ends with CNCT_GNTACK or CNCT_GNTNACK.
    Granted,
    /// In use.
    Connected,
    /// Closed here, but clients still have the peer's memory mapped, so DISCNCT must wait.
    Draining,
    /// DISCNCT sent; ends with DISCNT_ACK.
    Closing,
    /// The link broke, and whether the peer still writes is unknown. Ends with `link_down`.
    Severed,
    /// The peer does not use our memory any more. The connection lives as long as an endpoint or
    /// client refers to it.
    Disconnected,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Our port and the peer's. The node of the latter is certain; its port is the peer's claim.
    ends: Ends,
    phase: Phase,
    /// The endpoint that has the connection, unless that was closed.
    endpoint: Option<EndpointId>,
    /// The user of that endpoint, whose budget pays for the ring.
    user: u32,
    /// The owner who requested the connection, until the peer has answered; it counts in that
    /// owner's quota.
    requested_by: Option<Owner>,
    /// The peer's id; 0 until known.
    remote: u64,
    block: Block,
    /// The rings, once both sides' memory is known.
    rings: Option<Rings>,
    notify: Notifications,
    /// Whether a sender waits for room at the peer, which is one of the base protocol.
    awaits_credit: bool,
    /// While the connection is polled for bytes, the peer's write index at the beginning.
    polled_from: Option<u32>,
    /// Bytes sent and received, if the rings were reset.
    moved: Moved,
    /// Bytes not received yet, here and by the peer, at the last
    /// [`refresh`](Connections::refresh).
    queued: Queued,
    /// The page shared with bypass clients, while there are any.
    control_page: Option<ControlPage>,
    /// Whether there have ever been clients here, or at the other end within this node: they may
    /// have had our ring mapped.
    was_shared: bool,
    /// How many bytes at the beginning of our ring the peer may have stored into, if it has
    /// reported that.
    stored: Option<u32>,
    /// The readiness that a subscriber is notified of each time, also while clients work on the
    /// rings.
    waiting: Readiness,
    /// Failed tries to lock a ring since the last one that succeeded.
    failed_locks: u32,
    /// Whether the peer knows that no more bytes are put into its ring.
    is_finished: bool,
    /// Whether no more bytes are received, because the peer or the own program has said so.
    receives_no_more: bool,
    /// Whether the peer's DISCNCT must be acknowledged once no client has the peer's memory
    /// mapped.
    owes_ack: bool,
}

/// Bytes that a connection has moved.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moved {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

impl Connection {
    /// The peer's node.
    pub(crate) fn node(&self) -> NodeId {
        self.ends.peer.node()
    }

    /// The ports of both ends.
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// The peer's id; 0 until known.
    pub(crate) fn remote(&self) -> u64 {
        self.remote
    }

    /// The state of the connection towards its peer.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The endpoint that has the connection, unless that was closed.
    pub(crate) fn endpoint(&self) -> Option<EndpointId> {
        self.endpoint
    }

    /// Bytes sent and received, as far as this engine has seen.
    pub(crate) fn moved(&self) -> Moved {
        self.rings.as_ref().map_or(self.moved, |rings| Moved {
            sent: rings.position(Side::Send),
            received: rings.position(Side::Receive),
        })
    }

    /// The report for the peer of our stores into its ring, as in
    /// [`STORED`](scif_abi::message::Extensions::STORED). Those of our clients, or before the
    /// rings were reset, are unknown.
    pub(crate) fn stored_to_report(&self) -> u64 {
        match &self.rings {
            Some(rings) if !self.was_shared => rings.position(Side::Send).saturating_add(1),
            _ => 0,
        }
    }

    /// Bytes not received yet, here and by the peer, at the last
    /// [`refresh`](Connections::refresh).
    pub(crate) fn queued(&self) -> Queued {
        self.queued
    }

    /// Whether neither the peer, nor an endpoint, nor clients need the connection.
    fn is_done(&self) -> bool {
        self.phase == Phase::Disconnected && self.endpoint.is_none() && !self.is_mapped()
    }

    /// Whether the connection has neither an endpoint nor clients, so that at most the peer's
    /// final acknowledgement is missing.
    fn is_half_closed(&self) -> bool {
        self.endpoint.is_none() && !self.is_mapped()
    }

    /// Whether clients have the rings of both ends mapped.
    fn is_mapped(&self) -> bool {
        self.control_page.is_some()
    }

    /// How many pages of shared memory the connection has.
    fn pages(&self) -> usize {
        self.block.pages() + usize::from(self.is_mapped())
    }

    fn check(&self, id: ConnectionId, cx: &Context) -> Result<(), Violation> {
        use Phase::{Closing, Connected, Disconnected, Draining, Granted, Requested, Withdrawn};
        rule(
            !self.is_done(),
            "a connection that nobody needs is freed",
            id,
        )?;
        rule(
            self.phase != Draining || self.is_mapped(),
            "only clients delay the final acknowledgement",
            id,
        )?;
        rule(
            !self.owes_ack || self.phase == Disconnected && self.is_mapped(),
            "an answer waits for clients only",
            id,
        )?;
        let timed = matches!(self.phase, Requested | Withdrawn | Granted | Closing);
        rule(
            timed || cx.timers.get(Timer::Handshake(id)).is_none(),
            "only a phase that ends by an answer has a timer",
            id,
        )?;
        rule(
            self.phase != Connected || self.rings.is_some(),
            "a connected connection has rings",
            id,
        )
    }
}

/// All connections of an engine.
pub(crate) struct Connections {
    table: Table<ConnectionId, Connection>,
    /// The bytes of the rings of all connections.
    ring_budget: RingBudget,
    /// Connections that have neither an endpoint nor clients, by node: they wait for the peer's
    /// final acknowledgement.
    half_closed: BTreeMap<NodeId, usize>,
    /// Connections whose change of state is not yet in the control page.
    state_changes: Vec<ConnectionId>,
    /// Connections that have notifications to send to their peer.
    notifications: Vec<ConnectionId>,
    /// Connections whose peers wait for room, and are notified when there is more of it.
    credit_updates: Vec<ConnectionId>,
    /// Connections with peers of the base protocol that have no room.
    credit_waiters: Vec<ConnectionId>,
    /// Connections that are polled in place of notifications of bytes.
    polled: Polled,
}

impl Connections {
    pub(crate) fn new() -> Connections {
        Connections {
            table: Table::new(MAX_CONNECTIONS),
            ring_budget: RingBudget::default(),
            half_closed: BTreeMap::new(),
            state_changes: Vec::new(),
            notifications: Vec::new(),
            credit_updates: Vec::new(),
            credit_waiters: Vec::new(),
            polled: Polled::default(),
        }
    }

    /// The connection with this id.
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.table.get(id)
    }

    /// All connections, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.table.iter()
    }

    /// Number of connections.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Number of connections that only wait for the peer's final acknowledgement.
    #[cfg(test)]
    pub(crate) fn half_closed(&self) -> usize {
        self.half_closed.values().sum()
    }

    /// What identifies a connection.
    pub(crate) fn identity(&self, id: ConnectionId) -> Option<Identity> {
        self.table.get(id).map(|connection| Identity {
            id,
            remote: connection.remote,
            ends: connection.ends,
        })
    }

    /// Queues the message `body` to the other side of a connection.
    pub(crate) fn post(&self, cx: &mut Context, id: ConnectionId, body: NodeMessage) {
        if let Some(connection) = self.table.get(id) {
            cx.post(connection.ends, body);
        }
    }

    /// All connections with a node.
    pub(crate) fn with(&self, node: NodeId) -> Vec<ConnectionId> {
        let with_node = self.table.iter().filter(|(_, c)| c.node() == node);
        with_node.map(|(id, _)| id).collect()
    }

    /// The connection with the number `id`, if it exists and its peer is on node `from`.
    pub(crate) fn with_number(
        &self,
        cx: &mut Context,
        from: NodeId,
        id: u64,
    ) -> Option<ConnectionId> {
        let id = ConnectionId::from_number(id);
        let is_its = self.table.get(id).is_some_and(|c| c.node() == from);
        cx.stats.stale_ids += u64::from(!is_its);
        is_its.then_some(id)
    }

    /// The connection with the number `id`, if its peer is on node `from` and it is in one of
    /// `phases`.
    pub(crate) fn in_phase(
        &self,
        cx: &mut Context,
        from: NodeId,
        id: u64,
        phases: &[Phase],
    ) -> Option<ConnectionId> {
        let id = self.with_number(cx, from, id)?;
        let phase = self.table.get(id)?.phase;
        if phases.contains(&phase) {
            return Some(id);
        }
        // Notifications and answers may cross a close: they are late, and not a mistake of the
        // peer.
        cx.stats.stale_ids += 1;
        None
    }

    /// Checks what must hold between any two calls of the engine; `pages` is the shared memory of
    /// links and page lists.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self, cx: &Context, pages: usize) -> Result<(), Violation> {
        for (id, connection) in self.table.iter() {
            connection.check(id, cx)?;
        }
        self.polled.check(&self.table)?;
        let all = || self.table.iter().map(|(_, connection)| connection);
        let rings = || all().map(|c| (c.user, c.block.ring_bytes()));
        rule(
            self.ring_budget.is_of(rings()),
            "the bytes of each user's rings are those of connections",
            rings().count() as u64,
        )?;
        rule(
            cx.stats.pages == pages + all().map(Connection::pages).sum::<usize>(),
            "pages are those of links, connections and page lists",
            cx.stats.pages as u64,
        )?;
        rule(
            cx.stats.ring_pages == all().map(|c| c.block.ring_pages()).sum::<usize>(),
            "pages of rings are those of connections",
            cx.stats.ring_pages as u64,
        )?;
        for id in cx.timers.handshakes() {
            let exists = self.table.get(id).is_some();
            rule(exists, "each handshake's timer has a connection", id)?;
        }
        let half_closed = all().filter(|c| c.is_half_closed()).count();
        rule(
            half_closed == self.half_closed.values().sum::<usize>(),
            "connections without endpoint and clients are counted",
            self.table.len() as u64,
        )?;
        let requested = all().filter(|c| c.requested_by.is_some()).count();
        cx.quotas.check_total(Resource::Connects, requested as u64)
    }
}
