//! Why links end, and which nodes are lost since: for log lines and the file `nodes`.

use core::fmt::{Display, Formatter};

use scif_abi::NodeId;

/// Why a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
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
    /// It stored an impossible index in our queue pair. Which of the two is unknown, so both are
    /// here.
    BadIndex {
        /// Its write index into our node ring.
        write: u32,
        /// Its read index in its own.
        read: u32,
    },
    /// Its rings are not in the memory it has: the bus address of its queue pair.
    BadAddress(u64),
    /// It does not read its messages: this number of them waits.
    Stuck(usize),
    /// It is alive and leaves something unanswered.
    NoResponse,
}

impl DownReason {
    /// One word, for the text files.
    pub fn name(self) -> &'static str {
        match self {
            DownReason::Gone => "gone",
            DownReason::Silent => "silent",
            DownReason::Cut => "cut",
            DownReason::Reset => "reset",
            DownReason::Left => "left",
            DownReason::BadIndex { .. } => "bad-index",
            DownReason::BadAddress(_) => "bad-address",
            DownReason::Stuck(_) => "stuck",
            DownReason::NoResponse => "no-answer",
        }
    }
}

impl Display for DownReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        match self {
            DownReason::Gone => f.write_str("its machine or its driver is gone"),
            DownReason::Silent => f.write_str("it is silent"),
            DownReason::Cut => f.write_str("the link is cut"),
            DownReason::Reset => f.write_str("its card is reset"),
            DownReason::Left => f.write_str("it has left"),
            DownReason::BadIndex { write, read } => write!(
                f,
                "it stored a bad index (write {write:#x}, read {read:#x}) in the node ring"
            ),
            DownReason::BadAddress(place) => {
                write!(
                    f,
                    "its queue pair at {place:#x} leads outside of its memory"
                )
            }
            DownReason::NoResponse => f.write_str("it does not answer"),
            DownReason::Stuck(waiting) => write!(f, "it does not read, {waiting} messages wait"),
        }
    }
}

/// A node that was online, or broke the link before it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostNode {
    /// The node.
    pub node: NodeId,
    /// Why.
    pub reason: DownReason,
    /// When, in nanoseconds of the engine's clock.
    pub since: u64,
}
