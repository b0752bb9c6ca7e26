//! The orderly end: EXIT to every node, and the time that their answers may take.

use scif_core::{Engine, Memory};

/// Nanoseconds that the answers may take. The kernel gives all drivers together a second before it
/// switches the machine off.
const PATIENCE_NS: u64 = 700_000_000;

/// How far it is.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Farewell {
    /// Nobody has asked for it.
    #[default]
    Unsaid,
    /// EXIT is said, or will be as soon as nothing of ours touches the peers' memory; at this time
    /// (ns) it is not waited for any longer.
    Said {
        /// When.
        until: u64,
    },
    /// All have answered, or have had their time.
    Over,
}

impl Farewell {
    /// Says EXIT, once. `now` as for [`Engine::tick`].
    pub fn begin(&mut self, now: u64, engine: &mut Engine, memory: &mut dyn Memory) {
        if *self == Farewell::Unsaid {
            engine.leave(memory);
            let until = now.saturating_add(PATIENCE_NS);
            *self = Farewell::Said { until };
        }
    }

    /// Whether it is over since just now: once.
    pub fn ends(&mut self, now: u64, engine: &Engine) -> bool {
        let Farewell::Said { until } = *self else {
            return false;
        };
        let ends = now >= until || !engine.is_leaving();
        if ends {
            *self = Farewell::Over;
        }
        ends
    }

    /// When to look again at the latest.
    pub fn deadline(&self) -> Option<u64> {
        match self {
            Farewell::Said { until } => Some(*until),
            Farewell::Unsaid | Farewell::Over => None,
        }
    }
}
