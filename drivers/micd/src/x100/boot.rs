//! The boot of a card's system: whether the system shall run, the image that is being loaded, and
//! the boots that failed.

use super::image::Loading;

/// Boots in a row that may fail before the driver gives up.
pub(super) const MAX_FAILURES: u32 = 3;

/// The state of a card's boots.
pub(super) struct Boot {
    /// Whether the system shall run.
    is_wanted: bool,
    loading: Option<Loading>,
    failures: u32,
}

impl Boot {
    /// No boot is under way.
    pub fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            loading: None,
            failures: 0,
        }
    }

    /// Whether the system shall run.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Sets whether the system shall run.
    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// Sets the image that is being loaded.
    pub fn load(&mut self, loading: Loading) {
        self.loading = Some(loading);
    }

    /// Takes the image that is being loaded; [`load`](Self::load) puts it back.
    pub fn take_loading(&mut self) -> Option<Loading> {
        self.loading.take()
    }

    /// Resets the count of failed boots.
    pub fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// Counts a failed boot. Returns whether there were too many; then the system shall not run
    /// any more.
    pub fn failed(&mut self) -> bool {
        self.failures += 1;
        let is_over = self.failures >= MAX_FAILURES;
        self.is_wanted &= !is_over;
        is_over
    }
}
