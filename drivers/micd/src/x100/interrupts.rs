//! The interrupts of a card: acknowledges them and handles what they announce.

use super::registers::{
    ALL_ONES, CAUSES, HOST_CHANNELS, MSIXPBACR, SDBIC_REQUEST, SDBIC_STATUS, SDBIC1, SICE0, SICR0,
    cause_dma, cause_doorbell,
};
use super::{STATE_DOORBELL, X100};

impl X100 {
    /// Acknowledges and handles the causes for which the card has interrupted.
    pub(super) fn serve_interrupts(&mut self) {
        let causes = self.read(SICR0);
        if causes == 0 {
            return;
        }
        if causes == ALL_ONES {
            return self.card_is_gone(SICR0);
        }
        self.write(SICR0, causes);
        if self.identity.is_first_stepping() {
            // Otherwise the pending bit stays set, and no further message is sent.
            self.write(MSIXPBACR, 1);
        } else {
            // Acknowledging the interrupts has disabled them.
            self.write(SICE0, CAUSES);
        }
        let of_channels = (0..HOST_CHANNELS).fold(0, |bits, n| bits | cause_dma(n));
        if causes & of_channels != 0 {
            self.device.dma().borrow_mut().acknowledge(causes);
        }
        if causes & cause_doorbell(STATE_DOORBELL) != 0 {
            let word = self.read(SDBIC1);
            self.write(SDBIC1, 0);
            let value = word & !(SDBIC_REQUEST | SDBIC_STATUS);
            if word == ALL_ONES {
                self.card_is_gone(SDBIC1);
            } else if value != 0 {
                self.system_ended(value);
            }
        }
    }
}
