//! The resets of a card: the last one, and those that are due.

/// The last reset, and whether there was one.
#[derive(Default)]
pub(super) struct Resets {
    /// Whether registers may be read, as the card was not reset in the last second.
    has_ended: bool,
    /// Whether it was reset since this driver started, long enough ago, or is kept from the bus for
    /// good.
    was_reset: bool,
    /// Whether the log says, since the last reset, that its memory is still mapped.
    mapping_is_logged: bool,
}

impl Resets {
    /// The card was reset just now.
    pub fn begin(&mut self) {
        (self.has_ended, self.mapping_is_logged) = (false, false);
    }

    /// The last reset was long enough ago.
    pub fn end(&mut self) {
        (self.has_ended, self.was_reset) = (true, true);
    }

    /// Whether registers may be read.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The card is kept from the bus for good, which is as good as a reset.
    pub fn make_needless(&mut self) {
        self.was_reset = true;
    }

    /// Whether nothing that ran on the card before this driver writes to the host's memory.
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Whether it is still to be logged, once after each reset, that its memory is mapped.
    pub fn log_mapping(&mut self) -> bool {
        !core::mem::replace(&mut self.mapping_is_logged, true)
    }
}
