//! The coprocessor cards whose host this node is, as their drivers describe them.

use alloc::string::String;

use scif_abi::NodeId;

/// A command of an administrator to a card.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CardCommand {
    /// Load its system and start it.
    Boot,
    /// Reset it in any state.
    Reset,
    /// Ask its system to shut down, then reset it.
    Shutdown,
}

/// The state of a card.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CardState {
    /// It is being reset, and its firmware is not ready.
    Resetting,
    /// Its firmware waits for a system.
    Ready,
    /// Its system was started.
    Booting,
    /// Its system has answered.
    Running,
    /// Its system was asked to shut down.
    Stopping,
    /// Its firmware does not become ready.
    Failed,
    /// It does not answer on the bus.
    Gone,
}

impl CardState {
    /// The state as one word.
    pub fn name(self) -> &'static str {
        match self {
            CardState::Resetting => "resetting",
            CardState::Ready => "ready",
            CardState::Booting => "booting",
            CardState::Running => "running",
            CardState::Stopping => "stopping",
            CardState::Failed => "failed",
            CardState::Gone => "gone",
        }
    }
}

/// A card for people to read. Words have no blanks; an empty one means that the fact is unknown.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Card {
    /// The node that the card is.
    pub node: NodeId,
    /// Its place on the bus.
    pub place: String,
    /// Its family.
    pub family: &'static str,
    /// The stepping (hardware revision).
    pub stepping: &'static str,
    /// Bytes of memory; 0 when unknown.
    pub memory_bytes: u64,
    /// Its state.
    pub state: CardState,
    /// The progress code of its firmware.
    pub post_code: String,
    /// Degrees Celsius, if a register reports them.
    pub temperature: Option<u32>,
}
