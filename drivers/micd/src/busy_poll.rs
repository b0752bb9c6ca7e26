//! How long the driver looks for messages before it sleeps.
//!
//! A sleeper costs its peer a doorbell, and this node an interrupt and a wake-up, which take longer
//! than the message itself. So when messages come shortly one after the other, the driver looks for
//! the next one a while, as kernels do before they halt a processor. It looks only while nobody
//! else wants the processor, and only while that pays: what was looked for in vain is looked for
//! again ever more seldom, so that a node at rest sleeps.

use hal::clock::Rate;

/// Longest look, in nanoseconds: about what an answer takes when both sides have to wake a program
/// for it, under the emulator.
const LOOK_NS: u64 = 500_000;

/// A sleep that a message ended within this time, in nanoseconds, would perhaps have been worth a
/// look: those who sleep take longer to answer.
const SHORT_SLEEP_NS: u64 = 2 * LOOK_NS;

/// When giving the processor away takes this long, in nanoseconds, somebody else has used it.
const OTHERS_NS: u64 = 15_000;

/// Looks between two times at which others get the processor.
const LOOKS: u32 = 50;

/// Most short sleeps after which it is looked again, when it was in vain so often.
const MAX_DOUBT: u32 = 64;

/// Clock and processor.
pub trait Time {
    /// The present time, in ticks.
    fn ticks(&self) -> u64;
    /// Lets other programs run.
    fn yield_now(&self);
}

/// The driver's patience. Times are in ticks.
pub struct Patience {
    look: u64,
    short_sleep: u64,
    others: u64,
    /// Short sleeps before the next look; 0: the next time counts.
    doubt: u32,
    /// What `doubt` was set to after the last look in vain.
    last_doubt: u32,
    asleep_since: u64,
}

impl Patience {
    /// With a counter of this rate; without one it always sleeps.
    pub fn new(rate: Option<Rate>) -> Self {
        let ticks = |nanoseconds| rate.map_or(0, |rate| rate.ticks(nanoseconds));
        Self {
            look: ticks(LOOK_NS),
            short_sleep: ticks(SHORT_SLEEP_NS),
            others: ticks(OTHERS_NS),
            doubt: 1,
            last_doubt: 0,
            asleep_since: 0,
        }
    }

    /// Looks, if that may pay: whether `sees` saw something. Otherwise it is time to sleep.
    pub fn look(&mut self, time: &impl Time, mut sees: impl FnMut() -> bool) -> bool {
        if self.doubt > 0 {
            return false;
        }
        let end = time.ticks().saturating_add(self.look);
        loop {
            if (0..LOOKS).any(|_| sees()) {
                self.last_doubt = 0;
                return true;
            }
            let before = time.ticks();
            if before >= end {
                self.last_doubt = (2 * self.last_doubt).clamp(1, MAX_DOUBT);
                self.doubt = self.last_doubt;
                return false;
            }
            time.yield_now();
            if time.ticks().saturating_sub(before) >= self.others {
                return false;
            }
        }
    }

    /// The driver goes to sleep.
    pub fn sleeps(&mut self, time: &impl Time) {
        self.asleep_since = time.ticks();
    }

    /// It woke up; `by_message`: a doorbell woke it.
    pub fn woke(&mut self, time: &impl Time, by_message: bool) {
        let slept = time.ticks().saturating_sub(self.asleep_since);
        if by_message && slept < self.short_sleep {
            self.doubt = self.doubt.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::cell::Cell;

    use super::*;

    /// Each look at the clock takes a microsecond.
    struct Fake {
        now: Cell<u64>,
        yields: Cell<u64>,
        /// How long others run when they may.
        others: u64,
    }

    const MICROSECOND: u64 = 1000;

    impl Time for Fake {
        fn ticks(&self) -> u64 {
            self.now.set(self.now.get() + MICROSECOND);
            self.now.get()
        }

        fn yield_now(&self) {
            self.yields.set(self.yields.get() + 1);
            self.now.set(self.now.get() + self.others);
        }
    }

    fn fake(others: u64) -> Fake {
        Fake {
            now: Cell::new(0),
            yields: Cell::new(0),
            others,
        }
    }

    /// A tick is a nanosecond.
    fn patience() -> Patience {
        Patience::new(Rate::of(1, 1))
    }

    fn sleep(patience: &mut Patience, time: &Fake, nanoseconds: u64) {
        patience.sleeps(time);
        time.now.set(time.now.get() + nanoseconds);
        patience.woke(time, true);
    }

    #[test]
    fn it_looks_after_a_short_sleep_and_not_before() {
        let (mut patience, time) = (patience(), fake(0));
        assert!(!patience.look(&time, || panic!("looked")));
        sleep(&mut patience, &time, 2 * SHORT_SLEEP_NS);
        assert!(!patience.look(&time, || panic!("looked")));
        sleep(&mut patience, &time, SHORT_SLEEP_NS / 2);
        let mut looks = 0;
        assert!(patience.look(&time, || {
            looks += 1;
            looks == 3 * LOOKS
        }));
        assert_eq!(time.yields.get(), 2);
        // It paid: the next look needs no sleep.
        assert!(patience.look(&time, || true));
    }

    #[test]
    fn looks_in_vain_get_rare_and_end() {
        let (mut patience, time) = (patience(), fake(0));
        let mut sleeps = 0;
        let mut before_looks = Vec::new();
        while before_looks.len() < 9 {
            sleep(&mut patience, &time, 1);
            sleeps += 1;
            let mut looked = false;
            let start = time.now.get();
            assert!(!patience.look(&time, || {
                looked = true;
                false
            }));
            if looked {
                assert!(time.now.get() - start < LOOK_NS + 10 * MICROSECOND);
                before_looks.push(core::mem::take(&mut sleeps));
            }
        }
        assert_eq!(before_looks, [1, 1, 2, 4, 8, 16, 32, 64, 64]);
    }

    #[test]
    fn others_come_first() {
        let (mut patience, time) = (patience(), fake(OTHERS_NS));
        sleep(&mut patience, &time, 1);
        let mut looks = 0;
        assert!(!patience.look(&time, || {
            looks += 1;
            false
        }));
        assert_eq!((looks, time.yields.get()), (LOOKS, 1));
    }
}
