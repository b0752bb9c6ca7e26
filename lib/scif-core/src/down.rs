//! Why links end, and which nodes are lost since: for log lines and the file `nodes`.

use core::fmt::{Display, Formatter};

use scif_abi::NodeId;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};

use crate::engine::Engine;
use crate::memory::Memory;
use crate::rings::RingError;

/// Why a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The peer's machine or driver went, or began anew.
    Gone,
    /// Its heart does not beat.
    Silent,
    /// The fabric cut the link.
    Cut,
    /// It is a card, and is reset.
    Reset,
    /// It left in order, or we did.
    Left,
    /// An index it stored in our queue pair cannot be. Which is which cannot be told: both, as they
    /// are.
    BadIndex {
        /// Its write index into our node ring.
        write: u32,
        /// Its read index in its own.
        read: u32,
    },
    /// Its rings are not in the memory it has: the bus address of its queue pair.
    BadAddress(u64),
    /// It does not read its messages: so many wait.
    Stuck(usize),
    /// It is alive and leaves something unanswered.
    NoAnswer,
}

impl Loss {
    /// One word, for the text files.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Gone => "gone",
            Loss::Silent => "silent",
            Loss::Cut => "cut",
            Loss::Reset => "reset",
            Loss::Left => "left",
            Loss::BadIndex { .. } => "bad-index",
            Loss::BadAddress(_) => "bad-address",
            Loss::Stuck(_) => "stuck",
            Loss::NoAnswer => "no-answer",
        }
    }
}

impl Display for Loss {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            Loss::Gone => f.write_str("its machine or its driver is gone"),
            Loss::Silent => f.write_str("it is silent"),
            Loss::Cut => f.write_str("the link is cut"),
            Loss::Reset => f.write_str("its card is reset"),
            Loss::Left => f.write_str("it has left"),
            Loss::BadIndex { write, read } => write!(
                f,
                "it stored a bad index (write {write:#x}, read {read:#x}) in the node ring"
            ),
            Loss::BadAddress(place) => {
                write!(
                    f,
                    "its queue pair at {place:#x} leads outside of its memory"
                )
            }
            Loss::NoAnswer => f.write_str("it does not answer"),
            Loss::Stuck(waiting) => write!(f, "it does not read, {waiting} messages wait"),
        }
    }
}

/// A node that was online, or broke the link before it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostNode {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub why: Loss,
    /// When, in nanoseconds of the engine's clock.
    pub since: u64,
}

impl Engine {
    /// The time as the engine was told it last.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Nodes that were lost and have not come back, ascending.
    pub fn lost_nodes(&self) -> impl Iterator<Item = LostNode> {
        self.lost.values().copied()
    }

    /// Notes why a node is lost, until it is online again.
    pub(crate) fn note_loss(&mut self, node: NodeId, why: Loss) {
        let since = self.now;
        self.lost.insert(node, LostNode { node, why, since });
    }

    /// Gives a link up because of what is wrong with its rings.
    pub(crate) fn fail_ring(&mut self, mem: &dyn Memory, number: NodeId, error: RingError) {
        let Some(node) = self.nodes.get(&number) else {
            return;
        };
        let own = node.block.address;
        let why = match error {
            RingError::BadIndex => Loss::BadIndex {
                write: mem.load_index(own + LOCAL_WRITE_OFFSET),
                read: mem.load_index(own + LOCAL_READ_OFFSET),
            },
            RingError::BadAddress => Loss::BadAddress(node.peer_queue_pair()),
            RingError::Flooded => Loss::Stuck(node.waiting_len()),
        };
        self.fail_link(number, why);
    }
}
