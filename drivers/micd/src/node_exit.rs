//! The exit of this node: sends EXIT to every other node, and limits the time for their
//! acknowledgements.

use scif_core::{Engine, Memory};

/// Nanoseconds that the acknowledgements may take. The kernel gives all drivers together one
/// second before it switches the machine off.
const LIMIT_NS: u64 = 700_000_000;

/// The progress of the exit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NodeExit {
    /// No exit has begun.
    #[default]
    NotBegun,
    /// EXIT is sent, or will be as soon as no copy of this node touches the peers' memory.
    Exiting {
        /// Time (ns) at which the node stops waiting for acknowledgements.
        until: u64,
    },
    /// All nodes have acknowledged, or their time is over.
    Done,
}

impl NodeExit {
    /// Sends EXIT, once. `now` as for [`Engine::tick`].
    pub fn begin(&mut self, now: u64, engine: &mut Engine, memory: &mut dyn Memory) {
        if *self == NodeExit::NotBegun {
            engine.leave(memory);
            let until = now.saturating_add(LIMIT_NS);
            *self = NodeExit::Exiting { until };
        }
    }

    /// Whether the exit has just ended: true once.
    pub fn ends(&mut self, now: u64, engine: &Engine) -> bool {
        let NodeExit::Exiting { until } = *self else {
            return false;
        };
        let ends = now >= until || !engine.is_leaving();
        if ends {
            *self = NodeExit::Done;
        }
        ends
    }

    /// The latest time at which [`ends`](Self::ends) must be called.
    pub fn deadline(&self) -> Option<u64> {
        match self {
            NodeExit::Exiting { until } => Some(*until),
            NodeExit::NotBegun | NodeExit::Done => None,
        }
    }
}
