//! The boot of a card's system: whether the system shall run, the image that is being loaded, the
//! boots that failed, and the pauses before a system that keeps crashing is booted again.

use super::SECOND_NS;
use super::image::Loading;

/// Boots in a row that may fail before the driver gives up.
pub(super) const MAX_FAILURES: u32 = 3;

/// A system that has run for this time, in nanoseconds, is booted again at once when it ends.
const CALM_NS: u64 = 60 * SECOND_NS;
/// The pause after the second end of a system that did not run as long; each further end doubles
/// it.
const FIRST_PAUSE_NS: u64 = SECOND_NS;
/// The longest pause.
const LONGEST_PAUSE_NS: u64 = 60 * SECOND_NS;

/// The state of a card's boots.
pub(super) struct Boot {
    /// Whether the system shall run.
    is_wanted: bool,
    loading: Option<Loading>,
    failures: u32,
    /// When the system began to run.
    started: u64,
    /// The pause after its next end.
    pause: u64,
    /// When the system may be booted again.
    not_before: u64,
}

impl Boot {
    /// No boot is under way.
    pub fn new(is_wanted: bool) -> Self {
        Self {
            is_wanted,
            loading: None,
            failures: 0,
            started: 0,
            pause: 0,
            not_before: 0,
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

    /// Forgets boots that failed and systems that ended.
    pub fn forget_failures(&mut self) {
        self.failures = 0;
        self.pause = 0;
        self.not_before = 0;
    }

    /// When the system may be booted again.
    pub fn not_before(&self) -> u64 {
        self.not_before
    }

    /// Notes that the system has begun to run.
    pub fn succeeded(&mut self, now: u64) {
        self.failures = 0;
        self.started = now;
    }

    /// Notes that the system has ended by itself. A card whose system crashes as soon as it runs
    /// would otherwise take all other nodes through its coming and going again and again.
    pub fn ended(&mut self, now: u64) {
        if now.saturating_sub(self.started) >= CALM_NS {
            self.pause = 0;
        }
        self.not_before = now.saturating_add(self.pause);
        self.pause = (2 * self.pause).clamp(FIRST_PAUSE_NS, LONGEST_PAUSE_NS);
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
