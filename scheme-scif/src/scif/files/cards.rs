//! The file `cards`: the coprocessor cards that this node is the host of, as their drivers describe
//! them. Root writes a line `boot 1`, `reset 1` or `shutdown 1` to it.

use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::NodeId;
use syscall::error::{EBUSY, EINVAL, ENODEV, Error, Result};

use crate::scif::files::text::Table;
use crate::scif::{Fabric, News, RequestId, Scif};

/// What an administrator may want of a card.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CardCommand {
    /// Load its system and start it.
    Boot,
    /// Reset it, whatever it does.
    Reset,
    /// Ask its system to end, then reset it.
    Shutdown,
}

/// What a card does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CardState {
    /// It is reset, and its firmware is not ready.
    Resetting,
    /// Its firmware waits for a system.
    Ready,
    /// Its system was started.
    Booting,
    /// Its system has answered.
    Running,
    /// Its system was asked to end.
    Stopping,
    /// Its firmware does not get ready.
    Failed,
    /// It does not answer on the bus.
    Gone,
}

impl CardState {
    /// One word.
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

/// A card as people see it. Words are without blanks; an empty one is not known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Card {
    /// The node it is.
    pub node: NodeId,
    /// Where it is.
    pub place: String,
    /// What it is.
    pub family: &'static str,
    /// Which make of it.
    pub stepping: &'static str,
    /// Bytes of memory; 0: not known.
    pub memory_bytes: u64,
    /// What it does.
    pub state: CardState,
    /// How far its firmware is.
    pub post_code: String,
    /// Degrees Celsius, if a register tells.
    pub temperature: Option<u32>,
}

impl<F: Fabric, R: RequestId> Scif<F, R> {
    /// The cards there are, from now on.
    pub fn set_cards(&mut self, cards: Vec<Card>) {
        self.cards = cards;
    }

    /// The content of the file.
    pub(crate) fn card_table(&self) -> String {
        let mut table = Table::new([
            "node", "place", "family", "stepping", "mib", "state", "post", "celsius",
        ]);
        for card in &self.cards {
            let known = |number: Option<u64>| match number {
                Some(number) => alloc::format!("{number}"),
                None => String::new(),
            };
            let memory = known(Some(card.memory_bytes >> 20).filter(|mib| *mib > 0));
            let temperature = known(card.temperature.map(u64::from));
            table.row([
                &card.node,
                &card.place,
                &card.family,
                &card.stepping,
                &memory,
                &card.state.name(),
                &card.post_code,
                &temperature,
            ]);
        }
        table.finish()
    }

    /// Takes commands, one a line: all of them, or none.
    ///
    /// # Errors
    /// `EINVAL` when a line is not a command and a node; `ENODEV` when that is no card; `EBUSY`
    /// when it is not the moment: booting what runs, shutting down what does not.
    pub(crate) fn write_cards(&mut self, bytes: &[u8]) -> Result<usize> {
        let invalid = Error::new(EINVAL);
        let text = core::str::from_utf8(bytes).map_err(|_| invalid)?;
        let mut commands = Vec::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (word, node) = line.split_once(char::is_whitespace).ok_or(invalid)?;
            let command = match word {
                "boot" => CardCommand::Boot,
                "reset" => CardCommand::Reset,
                "shutdown" => CardCommand::Shutdown,
                _ => return Err(invalid),
            };
            let node: NodeId = node.trim().parse().map_err(|_| invalid)?;
            let card = self.cards.iter().find(|card| card.node == node);
            let state = card.ok_or(Error::new(ENODEV))?.state;
            let runs = matches!(state, CardState::Booting | CardState::Running);
            let fits = match command {
                CardCommand::Boot => !runs && state != CardState::Stopping,
                CardCommand::Reset => true,
                CardCommand::Shutdown => runs,
            };
            if !fits {
                return Err(Error::new(EBUSY));
            }
            commands.push(News::Card(node, command));
        }
        self.news.extend(commands);
        Ok(bytes.len())
    }
}
