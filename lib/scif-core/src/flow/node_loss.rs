//! The loss of a node: the one place where links and their connections end.

use scif_abi::{Error, NodeId};

use crate::base::event::Event;
use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::connection::{Connection, Phase};
use crate::engine::Engine;
use crate::node::down::DownReason;

impl Engine {
    /// Handles the links that were noted as failed during a call. Called at its end.
    pub(crate) fn lose_failed_nodes(&mut self) {
        while let Some((node, reason)) = self.nodes.take_failure() {
            self.lose_node(node, reason);
        }
    }

    /// Gives the link of a lost node up: nothing reaches its memory any more. Ours stays as it is
    /// until [`link_down`](Self::link_down), because the peer may still write to it.
    fn lose_node(&mut self, node: NodeId, reason: DownReason) {
        if self.nodes.give_up(&mut self.cx, node, reason) {
            self.sever_node(node);
            self.windows.end_departures(&mut self.cx, node);
            self.cx.events.push(Event::LinkFailed(node));
        }
    }

    /// Ends all connections with a node, as programs see it. The pages stay until it is certain
    /// that the peer does not write to them.
    pub(crate) fn sever_node(&mut self, node: NodeId) {
        for id in self.connections.with(node) {
            self.sever_connection(id);
        }
        // Mappings and copies reach no memory now. Local windows stay until the node cannot write
        // to them.
        self.windows.forget_windows_of(node);
        let (windows, calls) = (&mut self.windows, &mut self.calls);
        (self.transfers).cancel(&mut self.cx, windows, calls, node);
        self.endpoints.drop_requests_from(node);
    }

    /// Frees what was shared with a severed node, which does not write to our memory any more.
    pub(crate) fn free_shared_with(&mut self, mem: &mut dyn Memory, node: NodeId) {
        self.windows.take_all_back(mem, &mut self.cx, node);
        for window in self.windows.registered_with(node) {
            self.end_window(window);
        }
        for id in self.connections.with(node) {
            self.connections.end(mem, &mut self.cx, id);
        }
    }

    fn sever_connection(&mut self, id: ConnectionId) {
        self.end_all_calls(id, Error::ConnectionReset);
        let endpoint = self.connections.get(id).and_then(Connection::endpoint);
        let phase = self.connections.sever(&mut self.cx, id);
        match (phase, endpoint) {
            (Some(Phase::Requested), _) => self.fail_request(id, Error::NoDevice),
            (Some(Phase::Granted), _) => self.fail_grant(id, Error::NoDevice),
            (Some(Phase::Connected), Some(endpoint)) => {
                self.endpoints.disconnected(&mut self.cx, endpoint);
            }
            _ => {}
        }
    }
}
