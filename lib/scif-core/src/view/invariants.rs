//! Invariants that hold between any two calls; the simulator checks them after every step.

use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::connection::{Connection, Phase};
use crate::endpoint::{Endpoint, EndpointState};
use crate::engine::Engine;

impl Engine {
    /// Checks the engine's consistency. Takes time in proportion to the number of all objects.
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
            connection.is_none_or(|c| c.endpoint() == Some(id)),
            "a connection refers back to its endpoint",
            id,
        )?;
        let phase = connection.map(Connection::phase);
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
                .endpoint()
                .is_none_or(|e| self.endpoints.get(e).is_ok()),
            "a connection's endpoint exists",
            id,
        )?;
        let node = connection.node();
        let shown = connection.shows_transfers();
        let are_under_way = self.transfers.are_under_way(id);
        rule(
            shown.is_none_or(|shown| shown == are_under_way) || self.transfers.is_changed(id),
            "clients are shown whether transfers are under way",
            id,
        )?;
        let needs_link = matches!(
            connection.phase(),
            Phase::Requested
                | Phase::Withdrawn
                | Phase::Granted
                | Phase::Connected
                | Phase::Draining
                | Phase::Closing
        );
        rule(
            !needs_link || self.nodes.is_online(&self.cx, node),
            "connections are in use with nodes online only",
            id,
        )
    }

    fn check_counts(&self) -> Result<(), Violation> {
        let pages = self.nodes.pages() + self.windows.granted_pages();
        self.connections.check(&self.cx, pages)?;
        let endpoints = self.endpoints.iter();
        let backlog = endpoints.map(|(_, endpoint)| endpoint.backlog() as u64);
        let (backlog, bypass) = (backlog.sum(), self.bypass.len() as u64);
        let quotas = &self.cx.quotas;
        quotas.check_total(Resource::Backlog, backlog)?;
        quotas.check_total(Resource::Bypass, bypass)?;
        quotas.check_total(Resource::Endpoints, self.endpoints.len() as u64)
    }

    /// Checks windows, transfers and calls.
    fn check_memory(&self) -> Result<(), Violation> {
        self.windows.check(&self.cx)?;
        self.transfers.check(&self.cx, &self.windows)?;
        self.calls.check()?;
        let windows = self.windows.connections();
        let others = self.transfers.connections().chain(self.calls.connections());
        for id in windows.chain(others) {
            let connection = self.connections.get(id);
            rule(
                connection.is_some_and(|connection| connection.endpoint().is_some()),
                "without an endpoint there is no registered memory",
                id,
            )?;
        }
        for (id, window) in self.windows.remotes() {
            let node = window.node();
            rule(
                node == self.cx.config.node || self.nodes.state(node).is_some(),
                "windows are of nodes that are there",
                id,
            )?;
        }
        Ok(())
    }
}
