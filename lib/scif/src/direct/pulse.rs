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
        let now = ticks();
        let before = self.found_nothing.swap(now, Ordering::Relaxed);
        let was_elsewhere = now.wrapping_sub(before) > LOOKING;
        (was_elsewhere && self.ask(now)) || self.is_due_at(now)
    }

    /// Whether it is long ago that the daemon was asked.
    pub fn is_due(&self) -> bool {
        self.is_due_at(ticks())
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

    #[test]
    fn who_looks_all_the_time_asks_now_and_then() {
        let pulse = Pulse::default();
        assert!(pulse.is_wanted() && !pulse.is_due());
        let start = ticks();
        let (mut looks, mut asked) = (0_u64, 0_u64);
        while ticks().wrapping_sub(start) < 4 * PERIOD {
            looks += 1;
            asked += u64::from(pulse.is_wanted());
        }
        // At least once for each period; as often as this test was interrupted, and no more.
        assert!(asked >= 3 && asked < looks / 2, "{asked} of {looks}");
    }

    #[test]
    fn who_did_something_else_asks() {
        let pulse = Pulse::default();
        for _ in 0..3 {
            let start = ticks();
            while ticks().wrapping_sub(start) <= LOOKING {
                core::hint::spin_loop();
            }
            assert!(pulse.is_wanted());
        }
    }
}
