//! Why links end, and which nodes have been lost: for log lines and the file `nodes`.

use core::fmt::{Display, Formatter};

use scif_abi::NodeId;

/// Why a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// The peer's machine or driver has gone, or began anew.
    Gone,
    /// The peer's heart does not beat.
    Silent,
    /// The fabric cut the link.
    Cut,
    /// The peer is a card, and is being reset.
    Reset,
    /// The peer left in order, or this node did.
    Left,
    /// The peer stored an impossible index in our queue pair. Which of the two is wrong is
    /// unknown, so both are given.
    BadIndex {
        /// The peer's write index into our node ring.
        write: u32,
        /// The peer's read index in its own ring.
        read: u32,
    },
    /// The peer's rings are not in its memory. The value is the bus address of its queue pair.
    BadAddress(u64),
    /// The peer does not read its messages. The value is how many of them wait.
    Stuck(usize),
    /// The peer is alive and leaves a message unanswered.
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

/// A node that was online and is lost, or that broke the link before it was online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostNode {
    /// The node.
    pub node: NodeId,
    /// Why it is lost.
    pub reason: DownReason,
    /// Since when, in nanoseconds of the engine's clock.
    pub since: u64,
}
