//! The doorbells of a card, which are registers.

use alloc::rc::Rc;
use core::cell::Cell;

use hal::mem::drain_writes;
use hal::mmio::Mmio;

use super::registers::{ALL_ONES, CARD_INTERRUPTS, ICR_SEND, apicicr, rdmasr};
use crate::hardware::Doorbell;

/// Interrupts the card.
pub(super) struct CardDoorbell {
    registers: Rc<dyn Mmio>,
    /// The interrupt that the card's system uses as its doorbell; `None` when no system runs
    /// there.
    number: Cell<Option<usize>>,
}

impl CardDoorbell {
    /// The doorbell of a card on which no system runs.
    pub fn new(registers: Rc<dyn Mmio>) -> Self {
        Self {
            registers,
            number: Cell::new(None),
        }
    }

    /// Sets the interrupt that the card's system uses as its doorbell; `None` when no system runs
    /// there.
    pub fn set_number(&self, number: Option<usize>) {
        self.number.set(number);
    }
}

impl Doorbell for CardDoorbell {
    fn ring(&self) {
        let Some(number) = self.number.get() else {
            return;
        };
        // Make data and indices in the card's memory visible before the interrupt that announces
        // them.
        drain_writes();
        match number.checked_sub(CARD_INTERRUPTS) {
            // Counted from 0 here; the base of 17 belongs to the card's own numbers.
            Some(number) => self.registers.write32(rdmasr(number), 0),
            None => send_interrupt(&*self.registers, number),
        }
    }
}

/// Sends one of the card interrupts of the first kind (`apicicr`).
pub(super) fn send_interrupt(registers: &dyn Mmio, number: usize) {
    let word = registers.read32(apicicr(number));
    // A card that is gone: the link's state machine will notice it.
    if word != ALL_ONES {
        registers.write32(apicicr(number), word | ICR_SEND);
    }
}
