//! Views of an engine for people: the rows of the scheme's text files.

use scif_abi::{NodeId, Port, PortId};

use crate::config::Owner;
use crate::endpoint::{EndpointId, EndpointState};
use crate::engine::Engine;
use crate::node::LinkState;
use crate::stats::Stats;

/// A row of `nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node.
    pub node: NodeId,
    /// How far the conversation with it is; the own node counts as online.
    pub state: LinkState,
    /// Messages sent to it over the present link.
    pub messages_sent: u64,
    /// Messages received from it over the present link.
    pub messages_received: u64,
}

/// A row of `ports`: an endpoint that owns a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The port.
    pub port: Port,
    /// The endpoint that owns it.
    pub endpoint: EndpointId,
    /// What the endpoint does.
    pub state: EndpointState,
    /// Requests that wait (listeners).
    pub requests: usize,
    /// Requests that may wait (listeners).
    pub backlog: usize,
    /// Who opened the endpoint.
    pub owner: Owner,
}

/// A row of `connections`: an endpoint that has, or had, a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// Our end.
    pub local: PortId,
    /// The other end.
    pub peer: PortId,
    /// State of the endpoint.
    pub state: EndpointState,
    /// Bytes sent by it.
    pub bytes_sent: u64,
    /// Bytes received by it.
    pub bytes_received: u64,
    /// Who opened the endpoint.
    pub owner: Owner,
}

impl Engine {
    /// All nodes with a link, and the own one, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeInfo> {
        let own = NodeInfo {
            node: self.config.node,
            state: LinkState::Online,
            messages_sent: 0,
            messages_received: 0,
        };
        let info = |(number, node): (&NodeId, &crate::node::Node)| NodeInfo {
            node: *number,
            state: node.state,
            messages_sent: node.messages_sent,
            messages_received: node.messages_received,
        };
        let below = self.nodes.range(..own.node).map(info);
        below
            .chain(core::iter::once(own))
            .chain(self.nodes.range(own.node..).map(info))
    }

    /// How far the conversation with `node` is; `None` when it is not attached. After `Failed` and
    /// `Left` the driver takes the link down.
    pub fn link_state(&self, node: NodeId) -> Option<LinkState> {
        self.nodes.get(&node).map(|node| node.state)
    }

    /// All ports in use, in no particular order.
    pub fn ports(&self) -> impl Iterator<Item = PortInfo> {
        self.endpoints
            .iter()
            .filter(|(_, e)| e.owns_port)
            .map(|(id, endpoint)| PortInfo {
                port: endpoint.port,
                endpoint: EndpointId(id),
                state: endpoint.state,
                requests: endpoint.requests.len(),
                backlog: endpoint.backlog,
                owner: endpoint.owner,
            })
    }

    /// All endpoints with a connection, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> {
        self.endpoints.iter().filter_map(|(id, endpoint)| {
            let connection = self.connections.get(endpoint.connection?.0)?;
            Some(ConnectionInfo {
                endpoint: EndpointId(id),
                local: PortId::new(self.config.node, endpoint.port),
                peer: endpoint.peer,
                state: endpoint.state,
                bytes_sent: connection.bytes_sent,
                bytes_received: connection.bytes_received,
                owner: endpoint.owner,
            })
        })
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        for node in self.nodes.values() {
            stats.messages_sent += node.messages_sent;
            stats.messages_received += node.messages_received;
        }
        stats.endpoints = self.endpoints.len();
        stats.connections = self.connections.len();
        stats.connections_closing = self
            .connections
            .iter()
            .filter(|(_, c)| c.endpoint.is_none())
            .count();
        stats
    }

    /// Where an endpoint is bound (port 0 when it is not); `None` when there is no such endpoint.
    pub fn local_port(&self, id: EndpointId) -> Option<PortId> {
        let endpoint = self.endpoints.get(id.0)?;
        Some(PortId::new(self.config.node, endpoint.port))
    }

    /// The other end of a connected or disconnected endpoint.
    pub fn peer(&self, id: EndpointId) -> Option<PortId> {
        let endpoint = self.endpoints.get(id.0)?;
        matches!(
            endpoint.state,
            EndpointState::Connected | EndpointState::Disconnected
        )
        .then_some(endpoint.peer)
    }

    /// The state of an endpoint; `None` when there is no such endpoint.
    pub fn state(&self, id: EndpointId) -> Option<EndpointState> {
        self.endpoints.get(id.0).map(|endpoint| endpoint.state)
    }
}
