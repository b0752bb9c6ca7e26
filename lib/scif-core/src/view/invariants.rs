//! What must hold between any two calls; the simulator asks after every step.

use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::timers::Timer;
use crate::connection::{Connection, Phase};
use crate::endpoint::{Endpoint, EndpointState};
use crate::engine::Engine;
impl Engine {
    /// Checks the engine's own consistency. Costs time in the number of all objects.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn check_invariants(&self) -> Result<(), Violation> {
        self.endpoints.check()?;
        for (id, endpoint) in self.endpoints.iter() {
            self.check_endpoint(id, endpoint)?;
        }
        for (id, connection) in self.connections.iter() {
            self.check_connection(id, connection)?;
        }
        for node in self.endpoints.requesting_nodes() {
            rule(
                self.nodes.is_online(&self.cx, node),
                "requests are from nodes online",
                u64::from(node),
            )?;
        }
        self.check_counts()?;
        self.check_memory()
    }

    fn check_endpoint(&self, id: EndpointId, endpoint: &Endpoint) -> Result<(), Violation> {
        let connection = endpoint.connection().and_then(|c| self.connections.get(c));
        rule(
            endpoint.connection().is_some() == connection.is_some(),
            "an endpoint's connection exists",
            id,
        )?;
        rule(
            connection.is_none_or(|c| c.endpoint == Some(id)),
            "a connection refers back to its endpoint",
            id,
        )?;
        let phase = connection.map(|c| c.phase);
        let fits = match endpoint.state() {
            EndpointState::Unbound | EndpointState::Bound | EndpointState::Listening => {
                phase.is_none()
            }
            EndpointState::AcceptFailed(_) => phase.is_none(),
            EndpointState::Connecting => phase == Some(Phase::Requested),
            EndpointState::Accepting => phase == Some(Phase::Granted),
            EndpointState::Connected => phase == Some(Phase::Connected),
            EndpointState::Disconnected => {
                matches!(
                    phase,
                    Some(Phase::Disconnected | Phase::Severed | Phase::Closing | Phase::Draining)
                )
            }
        };
        rule(fits, "endpoint state and connection phase fit", id)
    }

    fn check_connection(&self, id: ConnectionId, connection: &Connection) -> Result<(), Violation> {
        rule(
            connection
                .endpoint
                .is_none_or(|e| self.endpoints.get(e).is_ok()),
            "a connection's endpoint exists",
            id,
        )?;
        let node = connection.peer.node();
        let needs_link = matches!(
            connection.phase,
            Phase::Requested
                | Phase::Withdrawn
                | Phase::Granted
                | Phase::Connected
                | Phase::Draining
                | Phase::Closing
        );
        rule(
            !needs_link || self.nodes.is_online(&self.cx, node),
            "only a node online has a say",
            id,
        )?;
        rule(
            !connection.is_done(),
            "a connection that nobody needs is freed",
            id,
        )?;
        rule(
            connection.phase != Phase::Draining || connection.is_mapped(),
            "only clients delay the last word",
            id,
        )?;
        rule(
            !connection.owes_ack
                || connection.phase == Phase::Disconnected && connection.is_mapped(),
            "an answer waits for clients only",
            id,
        )?;
        let timed = matches!(
            connection.phase,
            Phase::Requested | Phase::Withdrawn | Phase::Granted | Phase::Closing
        );
        rule(
            timed || self.cx.timers.get(Timer::Handshake(id)).is_none(),
            "only a phase that ends by an answer has a timer",
            id,
        )?;
        rule(
            connection.phase != Phase::Connected || connection.rings.is_some(),
            "a connected connection has rings",
            id,
        )
    }

    fn check_counts(&self) -> Result<(), Violation> {
        let links = self.nodes.pages();
        let pages = |c: &Connection| c.block.pages() + usize::from(c.is_mapped());
        let connections: usize = self.connections.iter().map(|(_, c)| pages(c)).sum();
        let rings = self.connections.iter().map(|(_, c)| c.block.ring_bytes());
        rule(
            self.ring_bytes == rings.map(|bytes| bytes as usize).sum::<usize>(),
            "the bytes of rings are those of connections",
            self.ring_bytes as u64,
        )?;
        rule(
            self.cx.stats.pages == links + connections + self.windows.granted_pages(),
            "pages are those of links, connections and loans",
            self.cx.stats.pages as u64,
        )?;
        for id in self.cx.timers.handshakes() {
            let exists = self.connections.get(id).is_some();
            rule(exists, "each handshake's timer has a connection", id)?;
        }
        let half_closed = self
            .connections
            .iter()
            .filter(|(_, c)| c.endpoint.is_none() && !c.is_mapped());
        rule(
            half_closed.count() == self.half_closed.values().sum::<usize>(),
            "connections without endpoint and clients are counted",
            self.connections.len() as u64,
        )?;
        let requested = self
            .connections
            .iter()
            .filter(|(_, c)| c.requested_by.is_some());
        let requested = requested.count() as u64;
        let backlog = self
            .endpoints
            .iter()
            .map(|(_, endpoint)| endpoint.requests()[1] as u64);
        let backlog = backlog.sum();
        self.cx.quotas.check_total(Resource::Connects, requested)?;
        self.cx.quotas.check_total(Resource::Backlog, backlog)?;
        self.cx
            .quotas
            .check_total(Resource::Bypass, self.bypass_handles.len() as u64)?;
        self.cx
            .quotas
            .check_total(Resource::Endpoints, self.endpoints.len() as u64)
    }
}
