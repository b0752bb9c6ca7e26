//! Time-outs: a peer that is alive but does not answer loses its link.
//!
//! Each handshake has a timer of its own. Windows and calls note when they sent a request, and one
//! timer serves all of these: when it expires, late ones are ended, and it is set for the next
//! one.

use crate::base::ids::ConnectionId;
use crate::base::memory::Memory;
use crate::base::timers::Timer;
use crate::connection::Phase;
use crate::engine::Engine;
use crate::node::down::DownReason;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::limits::ANSWER_TIMEOUT_NS;
use scif_abi::trace::What;
use scif_abi::{Error, NodeId};

impl Engine {
    /// Handles a missing final acknowledgement: the peer has not sent it in time.
    fn on_final_ack_timeout(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let asked = |engine: &Engine| {
            let connection = engine.connections.get(id);
            connection.map(|connection| (connection.node(), connection.phase()))
        };
        let before = asked(self);
        let Some((node, _)) = before else {
            return;
        };
        // The acknowledgement may be in our ring, unread.
        self.drain(mem, node);
        if asked(self) == before {
            self.cx.stats.missing_answers += 1;
            log::warn!("node {node}: no final acknowledgement of a connection for too long");
            self.nodes.fail(node, DownReason::NoResponse);
        }
    }

    /// Handles the time-out of a phase.
    pub(crate) fn on_handshake_timeout(&mut self, mem: &mut dyn Memory, id: ConnectionId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        let endpoint = connection.endpoint();
        let ends = connection.ends();
        match connection.phase() {
            Phase::Requested => {
                self.cx.trace_ends(What::TimedOut, ends, 0);
                self.withdraw(id);
                if let Some(endpoint) = endpoint {
                    self.endpoints
                        .connect_failed(&mut self.cx, endpoint, Error::NoDevice);
                }
            }
            // A late acknowledgement finds no endpoint and is answered by DISCNCT.
            Phase::Granted if endpoint.is_some() => {
                self.cx.trace_ends(What::TimedOut, ends, 0);
                self.fail_grant(id, Error::NoDevice);
                self.connections.expect_final_ack(&mut self.cx, id);
            }
            Phase::Granted | Phase::Withdrawn | Phase::Closing => {
                self.cx.trace_ends(What::TimedOut, ends, 0);
                self.on_final_ack_timeout(mem, id);
            }
            _ => {}
        }
    }

    /// Ends everything that waits for late responses.
    pub(crate) fn on_response_timeout(&mut self, mem: &mut dyn Memory) {
        for node in self.late_nodes().into_keys() {
            // The response may be in our ring, unread.
            self.drain(mem, node);
        }
        for (node, question) in self.late_nodes() {
            self.cx.stats.missing_answers += 1;
            log::warn!("node {node}: no answer to {question} for too long");
            self.nodes.fail(node, DownReason::NoResponse);
        }
        // Lost nodes owe no more responses, so the timer is not set for theirs.
        self.lose_failed_nodes();
        let late = self.windows.unregistering();
        let late = late.filter(|(_, since)| self.is_late(*since));
        for (id, _) in late.collect::<Vec<_>>() {
            self.cx.stats.missing_answers += 1;
            self.count_as_used(id);
        }
        if let Some(at) = self.next_response_timeout() {
            self.cx.timers.set(Timer::Response, at);
        }
    }

    /// Whether the response to a request that was sent at time `since` (ns) is late.
    fn is_late(&self, since: u64) -> bool {
        since.saturating_add(ANSWER_TIMEOUT_NS) <= self.cx.now
    }

    /// Requests that other nodes, which are online, can answer at once: the node, the message, and
    /// when (ns) it was sent.
    fn questions(&self) -> impl Iterator<Item = (NodeId, &'static str, u64)> {
        let calls = self.calls.prompt().filter_map(|(connection, asked_at)| {
            let node = self.connections.get(connection)?.node();
            Some((node, "MARK or SIG", asked_at))
        });
        let all = self.windows.questions().chain(calls);
        all.filter(|(node, ..)| {
            *node != self.cx.config.node && self.nodes.is_online(&self.cx, *node)
        })
    }

    /// The nodes whose response is late, and the message that it answers.
    fn late_nodes(&self) -> BTreeMap<NodeId, &'static str> {
        let late = self.questions().filter(|(.., since)| self.is_late(*since));
        late.map(|(node, question, _)| (node, question)).collect()
    }

    /// When (ns) the next response becomes late.
    fn next_response_timeout(&self) -> Option<u64> {
        let questions = self.questions().map(|(.., since)| since);
        let since = questions.chain(self.windows.unregistering().map(|(_, since)| since));
        Some(since.min()?.saturating_add(ANSWER_TIMEOUT_NS))
    }
}
