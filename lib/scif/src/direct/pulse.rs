//! When to ask the daemon whether it still lives.
//!
//! Nothing in the mapped pages changes when the daemon dies, and with it the connection. A call
//! that waits sleeps in the daemon at last, and hears of it there. This is for calls that do not
//! wait: a send for which there is room, a transfer to or from a window, and one that finds nothing
//! to do. Who finds nothing and
//! goes to sleep elsewhere, as in an event queue, should have been told before; who looks again and
//! again must not pay for it each time. Asking takes longer than a message's way there and back, so
//! two programs that wait for each other would ask for ever because they had asked: hence the rest.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use platform::clock::ticks;

/// Ticks of the processor's counter between two looks of somebody who did nothing else in between,
/// at most: some ten microseconds, less than a sleep takes.
const LOOKING: u64 = 60_000;
/// Ticks after asking in which it is not done again, however long the program was elsewhere: some
/// milliseconds, of which asking takes a few percent at most.
const REST: u64 = 5_000_000;
/// Ticks after which to ask in any case: about a second, as between two beats of a link's heart.
/// Under the emulator each change of address space costs a program that copies much all
/// translations of its pages: when it was ten milliseconds, copies of 16 MiB and more lost a third
/// of their rate.
const PERIOD: u64 = 2_500_000_000;

/// Sends between two looks at the counter, which takes a twentieth of a short message's way there
/// and back.
const SENDS: u32 = 8;

/// What was asked and seen, by the processor's counter.
#[derive(Default)]
pub struct Pulse {
    /// Sends so far. Threads may lose some of each other's.
    sends: AtomicU32,
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

    /// Whether to ask before this send: what is sent to a daemon that died is lost, so it must come
    /// out after some sends, and some time, however often there is room.
    #[inline]
    pub fn is_due_to_send(&self) -> bool {
        let sends = self.sends.load(Ordering::Relaxed).wrapping_add(1);
        self.sends.store(sends, Ordering::Relaxed);
        sends.is_multiple_of(SENDS) && self.is_due()
    }

    fn is_wanted_at(&self, now: u64) -> bool {
        let before = self.found_nothing.swap(now, Ordering::Relaxed);
        let was_elsewhere = now.wrapping_sub(before) > LOOKING;
        self.is_after(if was_elsewhere { REST } else { PERIOD }, now)
    }

    fn is_due_at(&self, now: u64) -> bool {
        self.is_after(PERIOD, now)
    }

    /// Whether it was asked so long ago; if so, it is asked now.
    fn is_after(&self, pause: u64, now: u64) -> bool {
        let is_after = now.wrapping_sub(self.asked.load(Ordering::Relaxed)) > pause;
        if is_after {
            self.asked.store(now, Ordering::Relaxed);
        }
        is_after
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
        let looks = (START..START + 3 * PERIOD).step_by(LOOKING as usize);
        let asked = looks.filter(|now| pulse.is_wanted_at(*now));
        assert_eq!(asked.count(), 3);
    }

    #[test]
    fn who_did_something_else_asks() {
        let pulse = Pulse::default();
        for time in 0..5 {
            let now = START + time * (REST + 1);
            assert!(pulse.is_wanted_at(now));
            assert!(!pulse.is_wanted_at(now + LOOKING + 1));
        }
    }

    #[test]
    fn asking_is_no_reason_to_ask() {
        // Each look comes as much later as asking takes, or waiting for somebody who asks.
        let pulse = Pulse::default();
        let looks = (START..START + 3 * PERIOD).step_by(2 * LOOKING as usize);
        let asked = looks.filter(|now| pulse.is_wanted_at(*now)).count() as u64;
        assert!(asked <= 3 * PERIOD / REST, "asked {asked} times");
    }

    #[test]
    fn some_sends_do_not_look_at_the_time() {
        let pulse = Pulse::default();
        let due = (0..3 * SENDS).map(|_| pulse.is_due_to_send());
        // Long after the start of the processor it is due at the first look, and never again soon.
        assert_eq!(due.filter(|due| *due).count(), 1);
    }

    #[test]
    fn transfers_ask_once_in_a_period() {
        let pulse = Pulse::default();
        assert!(pulse.is_due_at(START) && !pulse.is_due_at(START + PERIOD));
        assert!(pulse.is_due_at(START + PERIOD + 1));
    }
}
