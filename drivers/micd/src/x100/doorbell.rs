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
    /// The interrupt that the card handles as its doorbell; `None`: no system runs there.
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

    /// The interrupt that the card handles as its doorbell from now on; `None`: no system runs
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
        // Data and indices in the card's memory before the interrupt that announces them.
        drain_writes();
        match number.checked_sub(CARD_INTERRUPTS) {
            // Counted from 0 here; the base of 17 belongs to the card's own numbers.
            Some(number) => self.registers.write32(rdmasr(number), 0),
            None => send_interrupt(&*self.registers, number),
        }
    }
}

/// Sends one of the interrupts of the first kind.
pub(super) fn send_interrupt(registers: &dyn Mmio, number: usize) {
    let word = registers.read32(apicicr(number));
    // The link's state machine notices that a card is gone.
    if word != ALL_ONES {
        registers.write32(apicicr(number), word | ICR_SEND);
    }
}
