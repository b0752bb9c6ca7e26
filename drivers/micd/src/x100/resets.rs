//! The resets of a card: the last one, and whether the card is safe.

/// The last reset, and whether there was one.
#[derive(Default)]
pub(super) struct Resets {
    /// Whether registers may be read: the card was not reset during the last second.
    has_ended: bool,
    /// Whether the card was reset since this driver started, long enough ago, or is kept off the
    /// bus for good.
    was_reset: bool,
    /// Whether it was logged, since the last reset, that the card's memory is still mapped.
    mapping_is_logged: bool,
}

impl Resets {
    /// Records that the card is being reset.
    pub fn begin(&mut self) {
        (self.has_ended, self.mapping_is_logged) = (false, false);
    }

    /// Records that the last reset was long enough ago.
    pub fn end(&mut self) {
        (self.has_ended, self.was_reset) = (true, true);
    }

    /// Whether registers may be read.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that the card is kept off the bus for good, which is as good as a reset.
    pub fn make_needless(&mut self) {
        self.was_reset = true;
    }

    /// Whether nothing that ran on the card before this driver writes to the host's memory.
    pub fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Whether to log that the card's memory is mapped: true once after each reset.
    pub fn log_mapping(&mut self) -> bool {
        !core::mem::replace(&mut self.mapping_is_logged, true)
    }
}
