//! Probes of nodes that have no heartbeat.
//!
//! The mainline protocol has no message for a probe (MPSS 3 has: NODE_ALIVE, a number that
//! mainline does not know). But one of its messages is answered whatever the state of the other
//! side: DISCNCT, because the other side may have closed first. So a probe is a DISCNCT between
//! two connections that do not exist, and changes nothing.

use scif_abi::NodeId;
use scif_abi::message::NodeMessage;

use crate::base::memory::Memory;
use crate::engine::Engine;

/// An id that no connection has: ours begin with 1, and the mainline driver's are addresses.
pub(crate) const NOBODY: u64 = 0;

impl Engine {
    /// Handles what a node has sent, and then sends it a probe. Returns how many messages it has
    /// sent since [`link_up`](Self::link_up). If the node has not sent more by the next probe,
    /// some time later, it does not work any more. `None`: no probe is sent, because there is no
    /// link, or one side has left.
    pub fn probe_peer(&mut self, mem: &mut dyn Memory, node: NodeId) -> Option<u64> {
        self.drain(mem, node);
        if !self.nodes.is_greeted(node) {
            return None;
        }
        let received = self.nodes.messages_received(node);
        let question = NodeMessage::Disconnect {
            closer: NOBODY,
            peer: NOBODY,
            stored: 0,
        };
        self.cx.post_to_node(node, question);
        Some(received)
    }
}
