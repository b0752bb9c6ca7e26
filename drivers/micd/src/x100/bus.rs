//! A card's right to write to the host's memory: bus mastering, in the PCI command register.

use super::slot::Slot;

/// Whether the card is a bus master.
#[derive(Default)]
pub(super) struct BusState {
    is_master: bool,
    /// Whether the last change failed, which was logged.
    is_stuck: bool,
}

impl BusState {
    /// Whether the card may write to the host's memory, and send interrupts.
    pub fn is_master(&self) -> bool {
        self.is_master
    }

    /// Allows the card with this name to write to the host's memory, or forbids it.
    pub fn set_master(&mut self, slot: &mut dyn Slot, name: &str, is_master: bool) {
        if is_master == self.is_master {
            return;
        }
        let changed = slot.set_bus_master(is_master);
        if let Err(error) = changed
            && !self.is_stuck
        {
            let word = if is_master { "off" } else { "on" };
            log::error!("{name}: the PCI command register: bus mastering stays {word}: {error}");
        }
        self.is_stuck = changed.is_err();
        if changed.is_ok() {
            self.is_master = is_master;
        }
    }
}
