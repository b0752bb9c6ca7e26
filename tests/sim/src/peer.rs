//! A scripted peer: a node without an engine, for which a test chooses every message and store.

use std::cell::RefCell;
use std::rc::Rc;

use scif_abi::message::{Message, NodeMessage};
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, QueuePair};
use scif_abi::{NodeId, PortId};
use scif_core::Memory;
use zerocopy::{FromZeros, IntoBytes};

use crate::memory::{Fabric, NodeMemory};

/// Bytes in every ring of such a peer, and of the node under test.
pub const RING_BYTES: u32 = 4096;

/// Distance in bytes from a queue pair structure to its ring, in the blocks of real engines as in
/// this peer's.
const RING_OFFSET: u64 = 4096;

/// A scripted peer and its link to the node under test.
pub struct ScriptedPeer {
    /// The peer's memory.
    pub memory: NodeMemory,
    /// The memory of all nodes.
    pub fabric: Rc<RefCell<Fabric>>,
    node: NodeId,
    other: NodeId,
    /// The local address of the peer's node queue pair.
    node_qp: u64,
    /// The bus address of the other node's queue pair for this link.
    pub other_qp: u64,
    write: u32,
    read: u32,
}

impl ScriptedPeer {
    /// Makes the peer `node`, which will talk to `other`.
    pub fn new(fabric: &Rc<RefCell<Fabric>>, node: NodeId, other: NodeId) -> ScriptedPeer {
        ScriptedPeer {
            memory: NodeMemory::new(fabric, usize::from(node)),
            fabric: Rc::clone(fabric),
            node,
            other,
            node_qp: 0,
            other_qp: 0,
            write: 0,
            read: 0,
        }
    }

    /// Allocates a block with a queue pair structure that `change` adjusts. Returns the local and
    /// the bus address of the structure.
    pub fn make_queue_pair(&mut self, change: impl FnOnce(&mut QueuePair)) -> Option<(u64, u64)> {
        let local = self
            .memory
            .allocate(RING_OFFSET as usize + RING_BYTES as usize)?;
        let exported = self.memory.export(self.other, local);
        let mut structure = QueuePair::new(exported, exported + RING_OFFSET, RING_BYTES, 0);
        change(&mut structure);
        self.memory.write(local, structure.as_bytes());
        Some((local, exported))
    }

    /// Starts a link with a new node queue pair; the other node's is at `other_qp`. Returns the
    /// bus address of the new queue pair.
    pub fn begin(&mut self, other_qp: u64, extensions: u32) -> u64 {
        let pair = self.make_queue_pair(|structure| structure.extensions = extensions.into());
        let (local, exported) = pair.unwrap_or_default();
        (self.node_qp, self.other_qp, self.write, self.read) = (local, other_qp, 0, 0);
        let (from, to) = (usize::from(self.other), usize::from(self.node));
        self.fabric.borrow_mut().set_reach(from, to, true);
        exported
    }

    /// Returns the position of the next message in the other node's ring.
    pub fn written(&self) -> u32 {
        self.write
    }

    /// Stores to the other node's memory, whatever the pages are used for.
    pub fn scribble(&mut self, address: u64, bytes: &[u8]) {
        self.fabric
            .borrow_mut()
            .scribble(usize::from(self.other), address, bytes);
    }

    /// Puts a message into the other node's ring.
    pub fn send(&mut self, message: &Message) {
        for byte in message.as_bytes() {
            let at = self.other_qp + RING_OFFSET + u64::from(self.write);
            self.scribble(at, &[*byte]);
            self.write = (self.write + 1) % RING_BYTES;
        }
        let write = self.write;
        self.scribble(self.other_qp + LOCAL_WRITE_OFFSET, &write.to_le_bytes());
    }

    /// Sends a message from port `from` of this node to port `to` of the other one.
    pub fn say(&mut self, from: u16, to: u16, body: NodeMessage) {
        let (source, destination) = (PortId::new(self.node, from), PortId::new(self.other, to));
        self.send(&Message::new(source, destination, body));
    }

    /// Takes all messages out of the peer's own ring.
    pub fn receive(&mut self) -> Vec<Message> {
        self.receive_some(usize::MAX)
    }

    /// Takes at most `most` messages out of the peer's own ring.
    pub fn receive_some(&mut self, most: usize) -> Vec<Message> {
        let write = self.memory.load_index(self.node_qp + LOCAL_WRITE_OFFSET);
        let mut messages = Vec::new();
        while self.read != write && messages.len() < most {
            let mut message = Message::new_zeroed();
            for byte in message.as_mut_bytes() {
                let at = self.node_qp + RING_OFFSET + u64::from(self.read);
                self.memory.read(at, std::slice::from_mut(byte));
                self.read = (self.read + 1) % RING_BYTES;
            }
            messages.push(message);
        }
        let read = self.read;
        self.scribble(self.other_qp + LOCAL_READ_OFFSET, &read.to_le_bytes());
        messages
    }
}
