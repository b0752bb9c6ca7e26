//! The file `cards`: the coprocessor cards whose host this node is, as their drivers describe
//! them. Root writes a line `boot 1`, `reset 1` or `shutdown 1` to it.

use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::NodeId;
use syscall::error::{EBUSY, EINVAL, ENODEV, Error, Result};

use crate::card::{CardCommand, CardState};
use crate::ids::RequestId;
use crate::node_memory::NodeMemory;
use crate::scif::files::text::Table;
use crate::scif::{NodeEvent, Scif};

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// The content of the file.
    pub(in crate::scif) fn card_table(&self) -> String {
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

    /// Takes commands, one per line: all of them, or none.
    ///
    /// # Errors
    /// `EINVAL` when a line is not a command and a node; `ENODEV` when the node is no card;
    /// `EBUSY` when the card's state does not allow the command: booting a running card, shutting
    /// down a stopped one.
    pub(in crate::scif) fn write_cards(&mut self, bytes: &[u8]) -> Result<usize> {
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
            commands.push(NodeEvent::Card(node, command));
        }
        self.node_events.extend(commands);
        Ok(bytes.len())
    }
}
