//! The boot of a card's system: whether it is wanted, the image on its way into the card, and the
//! boots that failed.

use super::image::Loading;

/// Boots in a row that may fail.
pub(super) const MAX_FAILURES: u32 = 3;

/// The boot that is wanted or under way.
pub(super) struct Boot {
    /// Whether the system shall run.
    is_wanted: bool,
    loading: Option<Loading>,
    failures: u32,
}

impl Boot {
    /// Nothing is under way.
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

    /// Whether the system shall run from now on.
    pub fn set_wanted(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
    }

    /// The image that is loaded from now on.
    pub fn load(&mut self, loading: Loading) {
        self.loading = Some(loading);
    }

    /// The image that is being loaded, and is no longer; [`load`](Self::load) goes on with it.
    pub fn take_loading(&mut self) -> Option<Loading> {
        self.loading.take()
    }

    /// The boots that failed until now do not count any more.
    pub fn forget_failures(&mut self) {
        self.failures = 0;
    }

    /// A boot came to nothing. Whether there were too many: then the system shall not run.
    pub fn failed(&mut self) -> bool {
        self.failures += 1;
        let is_over = self.failures >= MAX_FAILURES;
        self.is_wanted &= !is_over;
        is_over
    }
}
