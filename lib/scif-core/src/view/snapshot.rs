//! Rows of the scheme's text files.

use crate::base::ids::EndpointId;
use crate::base::owner::Owner;
use crate::base::quota::{Resource, Scope};
use crate::base::stats::{Stats, Traffic};
use crate::connection::Connection;
use crate::endpoint::{Endpoint, EndpointState};
use crate::engine::Engine;
use crate::node::down::LostNode;
use crate::node::link::LinkState;
use crate::window::local::WindowInfo;
use crate::window::remote::MappingInfo;
use scif_abi::{NodeId, Port, PortId};

/// A row of `nodes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// The node.
    pub node: NodeId,
    /// The state of the link to the node; this node counts as online.
    pub state: LinkState,
    /// Messages sent to the node over the present link.
    pub messages_sent: u64,
    /// Messages received from the node over the present link.
    pub messages_received: u64,
}

/// A row of `ports`: an endpoint that owns a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The port.
    pub port: Port,
    /// The endpoint that owns it.
    pub endpoint: EndpointId,
    /// The state of the endpoint.
    pub state: EndpointState,
    /// How many requests wait (listeners).
    pub requests: usize,
    /// How many requests may wait (listeners).
    pub backlog: usize,
    /// The owner of the endpoint.
    pub owner: Owner,
}

/// A row of `connections`: an endpoint that has, or had, a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The endpoint.
    pub endpoint: EndpointId,
    /// This end.
    pub local: PortId,
    /// The other end.
    pub peer: PortId,
    /// State of the endpoint.
    pub state: EndpointState,
    /// Bytes that the endpoint has sent. Bytes that clients put into the ring themselves are
    /// counted as of the last [`Engine::refresh`].
    pub bytes_sent: u64,
    /// Bytes that the endpoint has received, counted likewise.
    pub bytes_received: u64,
    /// Bytes that the peer has sent and that have not been received, as of the last
    /// [`Engine::refresh`].
    pub bytes_unread: u64,
    /// Bytes sent that the peer has not acknowledged as received, as of the last
    /// [`Engine::refresh`].
    pub bytes_unacknowledged: u64,
    /// The owner of the endpoint.
    pub owner: Owner,
}

impl Engine {
    /// All nodes with a link, and this node, ascending.
    pub fn nodes(&self) -> impl Iterator<Item = NodeInfo> {
        let own = NodeInfo {
            node: self.cx.config.node,
            state: LinkState::Online,
            messages_sent: 0,
            messages_received: 0,
        };
        let others = |below: bool| {
            let others = self.nodes.iter();
            let others = others.filter(move |(node, ..)| (*node < own.node) == below);
            others.map(
                |(node, state, [messages_sent, messages_received])| NodeInfo {
                    node,
                    state,
                    messages_sent,
                    messages_received,
                },
            )
        };
        others(true)
            .chain(core::iter::once(own))
            .chain(others(false))
    }

    /// Nodes that were lost and have not come back, ascending.
    pub fn lost_nodes(&self) -> impl Iterator<Item = LostNode> {
        self.nodes.lost()
    }

    /// The state of the link to `node`; `None` if it is not attached. After `Failed` and `Left`
    /// the driver takes the link down.
    pub fn link_state(&self, node: NodeId) -> Option<LinkState> {
        self.nodes.state(node)
    }

    /// All ports in use, in no particular order.
    pub fn ports(&self) -> impl Iterator<Item = PortInfo> {
        self.endpoints
            .iter()
            .filter(|(_, e)| e.owns_port())
            .map(|(id, endpoint)| PortInfo {
                port: endpoint.port(),
                endpoint: id,
                state: endpoint.state(),
                requests: endpoint.queued_requests(),
                backlog: endpoint.backlog(),
                owner: endpoint.owner(),
            })
    }

    /// All endpoints with a connection, in no particular order.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> {
        self.endpoints.iter().filter_map(|(id, endpoint)| {
            let connection = self.connections.get(endpoint.connection()?)?;
            let (moved, queued) = (connection.moved(), connection.queued());
            Some(ConnectionInfo {
                endpoint: id,
                local: PortId::new(self.cx.config.node, endpoint.port()),
                peer: endpoint.peer(),
                state: endpoint.state(),
                bytes_sent: moved.sent,
                bytes_received: moved.received,
                bytes_unread: queued.here,
                bytes_unacknowledged: queued.at_peer,
                owner: endpoint.owner(),
            })
        })
    }

    /// All own windows, including those that only wait for their last use to end, in no particular
    /// order.
    pub fn windows(&self) -> impl Iterator<Item = WindowInfo> {
        let endpoint = |id| self.connections.get(id).and_then(Connection::endpoint);
        self.windows.infos(self.cx.config.node, endpoint)
    }

    /// All windows of peers that this node knows, in no particular order.
    pub fn mappings(&self) -> impl Iterator<Item = MappingInfo> {
        let user = |id| self.owner_of(id).map(|owner| owner.user);
        self.windows.mapping_infos(self.cx.config.node, user)
    }

    /// The traffic between this node and each other one, and within this node, ascending by node.
    pub fn traffic(&self) -> impl Iterator<Item = (NodeId, Traffic)> {
        self.cx
            .traffic
            .iter()
            .map(|(node, traffic)| (*node, *traffic))
    }

    /// The counters.
    pub fn stats(&self) -> Stats {
        let mut stats = self.cx.stats;
        for (_, _, [sent, received]) in self.nodes.iter() {
            stats.messages_sent += sent;
            stats.messages_received += received;
        }
        stats.endpoints = self.endpoints.len();
        stats.connections = self.connections.len();
        stats.windows = self.windows().count();
        stats.remote_windows = self.mappings().count();
        stats.pinned_pages = self.cx.quotas.total(Resource::Pages, Scope::User);
        stats.mapped_pages = self.mappings().map(|mapping| mapping.mapped_pages).sum();
        stats.jobs = self.transfers.jobs();
        stats.connections_closing = self
            .connections
            .iter()
            .filter(|(_, c)| c.endpoint().is_none())
            .count();
        stats
    }

    /// The address at which an endpoint is bound (port 0 if it is not bound); `None` if there is
    /// no such endpoint.
    pub fn local_port(&self, id: EndpointId) -> Option<PortId> {
        let endpoint = self.endpoints.get(id).ok()?;
        Some(PortId::new(self.cx.config.node, endpoint.port()))
    }

    /// The other end of a connected or disconnected endpoint.
    pub fn peer(&self, id: EndpointId) -> Option<PortId> {
        let endpoint = self.endpoints.get(id).ok()?;
        matches!(
            endpoint.state(),
            EndpointState::Connected | EndpointState::Disconnected
        )
        .then_some(endpoint.peer())
    }

    /// The state of an endpoint; `None` if there is no such endpoint.
    pub fn state(&self, id: EndpointId) -> Option<EndpointState> {
        self.endpoints.get(id).ok().map(Endpoint::state)
    }
}
