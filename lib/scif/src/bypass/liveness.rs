//! Daemon liveness: when a call that never sleeps asks whether the daemon still runs (a probe).
//!
//! The mapped pages do not change when the daemon dies, although the connection dies with it. A
//! call that sleeps does so in the daemon and gets an error from there. Three kinds of calls do
//! not sleep: a send that finds room, a transfer to or from a window, and a call that finds
//! nothing to move. A program that finds nothing and then sleeps elsewhere, in an event queue for
//! example, must have learned of the daemon's death before; a program that polls in a loop must
//! not pay for a probe each time. A probe takes longer than a message's round trip, so two
//! programs that poll for each other's messages would probe without end because of their probes:
//! hence [`REST`].

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hal::clock::ticks;

/// Most ticks of the processor's counter between two noted polls of a program that only polls:
/// some ten microseconds, less than a sleep takes.
const LOOKING: u64 = 60_000;
/// After a noted poll, further polls within this many ticks are not noted. A program that polls at
/// least this often is never taken for one that did something else, because two of these make a
/// [`LOOKING`].
const UNNOTED: u64 = LOOKING / 2;
/// Fewest ticks between two probes, whatever the program did in between: some milliseconds, of
/// which a probe takes a few percent at most.
const REST: u64 = 5_000_000;
/// Ticks after which a probe is due in any case: about a second, as between two heartbeats of a
/// link. Under the emulator a change of address space costs a program all translations of its
/// pages: with a period of ten milliseconds, copies of 16 MiB and more lost a third of their rate.
const PERIOD: u64 = 2_500_000_000;

/// Sends between two reads of the counter, one of which takes a twentieth of a short message's
/// round trip.
const SENDS: u32 = 8;

/// When the daemon was last probed, and when the next probe is due, in ticks of the processor's
/// counter.
#[derive(Default)]
pub struct DaemonLiveness {
    /// Sends so far. Concurrent sends may be counted as one.
    sends: AtomicU32,
    probed: AtomicU64,
    /// A probe is due after this tick: [`PERIOD`] after the last probe.
    due: AtomicU64,
    /// The tick of the last noted poll that found nothing.
    polled: AtomicU64,
    /// A poll that finds nothing is noted after this tick: [`UNNOTED`] after the last one.
    noted: AtomicU64,
}

impl DaemonLiveness {
    /// Notes that a call found nothing to move. Returns whether the caller must probe the daemon.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted_at(ticks())
    }

    /// Whether [`is_wanted`](Self::is_wanted) has to be called. Takes few instructions and notes
    /// nothing.
    #[inline]
    pub fn may_be_wanted(&self) -> bool {
        self.may_be_wanted_at(ticks())
    }

    /// Whether the last probe is longer ago than [`PERIOD`]; if so, notes a probe.
    pub fn is_due(&self) -> bool {
        self.is_due_at(ticks())
    }

    /// Whether a probe is due before this send. Bytes sent after the daemon's death are lost, so a
    /// sender that always finds room must still notice it after some sends and some time.
    #[inline]
    pub fn is_due_to_send(&self) -> bool {
        self.may_be_due_to_send() && self.is_due()
    }

    /// As [`is_due_to_send`](Self::is_due_to_send), but notes no probe: it stays true until
    /// [`is_due`](Self::is_due) is called, as several short paths may ask one after the other.
    #[inline]
    pub fn may_be_due_to_send(&self) -> bool {
        let sends = self.sends.load(Ordering::Relaxed).wrapping_add(1);
        let may_be = sends.is_multiple_of(SENDS) && ticks() > self.due.load(Ordering::Relaxed);
        if !may_be {
            self.sends.store(sends, Ordering::Relaxed);
        }
        may_be
    }

    #[inline]
    fn may_be_wanted_at(&self, now: u64) -> bool {
        now > self.noted.load(Ordering::Relaxed)
    }

    fn is_wanted_at(&self, now: u64) -> bool {
        // Concurrent polls may be counted as one.
        let polled = self.polled.load(Ordering::Relaxed);
        self.polled.store(now, Ordering::Relaxed);
        self.noted
            .store(now.wrapping_add(UNNOTED), Ordering::Relaxed);
        let was_elsewhere = now.wrapping_sub(polled) > LOOKING;
        self.is_after(if was_elsewhere { REST } else { PERIOD }, now)
    }

    fn is_due_at(&self, now: u64) -> bool {
        self.is_after(PERIOD, now)
    }

    /// Whether the last probe is longer ago than `pause`; if so, notes a probe.
    fn is_after(&self, pause: u64, now: u64) -> bool {
        let is_after = now.wrapping_sub(self.probed.load(Ordering::Relaxed)) > pause;
        if is_after {
            self.probed.store(now, Ordering::Relaxed);
            self.due.store(now.wrapping_add(PERIOD), Ordering::Relaxed);
        }
        is_after
    }
}

#[cfg(test)]
impl DaemonLiveness {
    /// Makes a probe due.
    pub fn expire(&self) {
        self.probed.store(0, Ordering::Relaxed);
        self.due.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some time after the processor's start.
    const START: u64 = 1 << 40;

    #[test]
    fn a_polling_program_probes_once_in_a_period() {
        let liveness = DaemonLiveness::default();
        let looks = (START..START + 3 * PERIOD).step_by(LOOKING as usize);
        let asked = looks.filter(|now| liveness.is_wanted_at(*now));
        assert_eq!(asked.count(), 3);
    }

    #[test]
    fn the_short_look_never_hides_a_probe() {
        // Programs that poll and now and then sleep, all by the short look first.
        let liveness = DaemonLiveness::default();
        let mut now = START;
        let (mut slept, mut probes) = (0, 0);
        for turn in 0..40_000_u64 {
            let pause = [7, UNNOTED, LOOKING + 1, 90, REST + 1, PERIOD / 50]
                [(turn * turn % 13 % 6) as usize];
            now += pause;
            let wanted = liveness.may_be_wanted_at(now) && liveness.is_wanted_at(now);
            // A program that did something else for this long queries the driver.
            assert!(wanted || pause <= REST, "at turn {turn}");
            slept += u32::from(pause > REST);
            probes += u32::from(wanted);
        }
        assert!(
            slept > 5000 && probes < 2 * slept,
            "{slept}, {probes} probes"
        );
    }

    #[test]
    fn a_program_that_only_polls_is_rarely_noted_and_probes_once_in_a_period() {
        for step in [1000, UNNOTED / 3 * 2, UNNOTED, UNNOTED + 1, LOOKING] {
            let liveness = DaemonLiveness::default();
            let (mut noted, mut probes) = (0, 0);
            for now in (START..START + 3 * PERIOD).step_by(step as usize) {
                let may_be = liveness.may_be_wanted_at(now);
                noted += u64::from(may_be);
                probes += u32::from(may_be && liveness.is_wanted_at(now));
            }
            assert_eq!(probes, 3, "polls {step} ticks apart");
            assert!(
                noted <= 3 * PERIOD / UNNOTED + 1,
                "{noted} of polls {step} apart"
            );
        }
    }

    #[test]
    fn a_program_that_did_other_work_probes() {
        let liveness = DaemonLiveness::default();
        for time in 0..5 {
            let now = START + time * (REST + 1);
            assert!(liveness.is_wanted_at(now));
            assert!(!liveness.is_wanted_at(now + LOOKING + 1));
        }
    }

    #[test]
    fn a_probe_is_no_reason_for_a_probe() {
        // The time between two polls is that of a probe, of this program or of its peer.
        let liveness = DaemonLiveness::default();
        let looks = (START..START + 3 * PERIOD).step_by(2 * LOOKING as usize);
        let asked = looks.filter(|now| liveness.is_wanted_at(*now)).count() as u64;
        assert!(asked <= 3 * PERIOD / REST, "asked {asked} times");
    }

    #[test]
    fn most_sends_do_not_read_the_counter() {
        let liveness = DaemonLiveness::default();
        let due = (0..3 * SENDS).map(|_| liveness.is_due_to_send());
        // The counter is far beyond a period at its first read; the second one comes too soon.
        assert_eq!(due.filter(|due| *due).count(), 1);
    }

    #[test]
    fn a_probe_stays_due_until_it_is_made() {
        let liveness = DaemonLiveness::default();
        assert!(!(1..SENDS).any(|_| liveness.may_be_due_to_send()));
        assert!((0..3).all(|_| liveness.may_be_due_to_send()));
        assert!(liveness.is_due());
        assert!(!(0..3 * SENDS).any(|_| liveness.may_be_due_to_send()));
    }

    #[test]
    fn transfers_probe_once_in_a_period() {
        let liveness = DaemonLiveness::default();
        assert!(liveness.is_due_at(START) && !liveness.is_due_at(START + PERIOD));
        assert!(liveness.is_due_at(START + PERIOD + 1));
    }
}
