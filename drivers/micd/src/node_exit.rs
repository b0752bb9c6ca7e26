//! The exit of this node: EXIT to every other node, and the time that their acknowledgements may
//! take.

use scif_core::{Engine, Memory};

/// Nanoseconds that the acknowledgements may take. The kernel gives all drivers together a second
/// before it switches the machine off.
const LIMIT_NS: u64 = 700_000_000;

/// The progress of the exit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum NodeExit {
    /// No exit was requested.
    #[default]
    NotBegun,
    /// EXIT is sent, or will be as soon as no copy of this node touches the peers' memory.
    Exiting {
        /// Time (ns) from which acknowledgements are not waited for any longer.
        until: u64,
    },
    /// All have acknowledged, or have had their time.
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

    /// Whether the exit has just come to its end: true once.
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

    /// When [`ends`](Self::ends) must be called at the latest.
    pub fn deadline(&self) -> Option<u64> {
        match self {
            NodeExit::Exiting { until } => Some(*until),
            NodeExit::NotBegun | NodeExit::Done => None,
        }
    }
}
