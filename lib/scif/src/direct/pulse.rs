//! When to ask the daemon whether it still lives.
//!
//! Nothing in the mapped pages changes when the daemon dies, and with it the connection. A call
//! that waits sleeps in the daemon at last, and hears of it there. This is for calls that do not
//! wait: a transfer to or from a window, and one that finds nothing to do. Who finds nothing and
//! goes to sleep elsewhere, as in an event queue, must have been told before; who looks again and
//! again must not pay for it each time.

use core::sync::atomic::{AtomicU64, Ordering};

use platform::clock::ticks;

/// Ticks of the processor's counter between two looks of somebody who did nothing else in between,
/// at most: some ten microseconds, less than a sleep takes.
const LOOKING: u64 = 60_000;
/// Ticks after which to ask in any case: some ten milliseconds.
const PERIOD: u64 = 30_000_000;

/// What was asked and seen, by the processor's counter.
#[derive(Default)]
pub struct Pulse {
    asked: AtomicU64,
    found_nothing: AtomicU64,
}

impl Pulse {
    /// A call found nothing to do: whether the daemon is to be asked.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted_at(ticks())
    }

    /// Whether it is long ago that the daemon was asked.
    pub fn is_due(&self) -> bool {
        self.is_due_at(ticks())
    }

    fn is_wanted_at(&self, now: u64) -> bool {
        let before = self.found_nothing.swap(now, Ordering::Relaxed);
        let was_elsewhere = now.wrapping_sub(before) > LOOKING;
        (was_elsewhere && self.ask(now)) || self.is_due_at(now)
    }

    fn is_due_at(&self, now: u64) -> bool {
        now.wrapping_sub(self.asked.load(Ordering::Relaxed)) > PERIOD && self.ask(now)
    }

    fn ask(&self, now: u64) -> bool {
        self.asked.store(now, Ordering::Relaxed);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some time after the processor's start.
    const START: u64 = 1 << 40;

    #[test]
    fn who_looks_all_the_time_asks_once_in_a_period() {
        let pulse = Pulse::default();
        let looks = (START..START + 3 * PERIOD).step_by(1000);
        let asked = looks.filter(|now| pulse.is_wanted_at(*now));
        assert_eq!(asked.count(), 3);
    }

    #[test]
    fn who_did_something_else_asks() {
        let pulse = Pulse::default();
        for time in 0..5 {
            let now = START + time * (LOOKING + 1);
            assert!(pulse.is_wanted_at(now));
            assert!(!pulse.is_wanted_at(now + 1));
            pulse.found_nothing.store(now, Ordering::Relaxed);
        }
    }

    #[test]
    fn transfers_ask_once_in_a_period() {
        let pulse = Pulse::default();
        assert!(pulse.is_due_at(START) && !pulse.is_due_at(START + PERIOD));
        assert!(pulse.is_due_at(START + PERIOD + 1));
    }
}
