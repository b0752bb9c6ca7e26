//! Calibration: measures the rates of the machine's counters with a timer of known speed, the
//! *ruler*.
//!
//! A machine may stand still at any moment, because an emulator's host runs something else or
//! firmware interrupts. So no interval is assumed. Counters and ruler are read together at both
//! ends of a window, and the ruler gives the window's length. Each reading lies between two
//! readings of the fastest counter, and the sharpest of some readings counts. A remaining error
//! shows as windows that disagree.

use alloc::vec::Vec;

/// Counters and ruler, read together.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// The time stamp counter before the others were read.
    pub before: u64,
    /// The ruler.
    pub ruler: u32,
    /// The local timer, counting up.
    pub timer: u32,
    /// The time stamp counter after the others were read.
    pub after: u64,
}

impl Reading {
    /// The time that reading took, in ticks.
    fn width(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }

    fn middle(&self) -> u64 {
        self.before + self.width() / 2
    }
}

/// A timer of known speed.
#[derive(Clone, Copy, Debug)]
pub struct Ruler {
    /// Ticks per second.
    pub frequency: u64,
    /// The bits that count.
    pub mask: u32,
}

/// The measured rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Ticks of the time stamp counter per second.
    pub tsc: u64,
    /// Ticks of the local timer per second.
    pub timer: u64,
    /// Whether two windows agreed; otherwise these rates are only the middle of the measured ones.
    pub is_sure: bool,
}

/// Windows per second: each takes 10 ms, or as long as the machine stood still.
const WINDOWS_PER_SECOND: u64 = 100;
/// Readings, of which the sharpest counts.
const TRIES: usize = 16;
/// Most windows.
const WINDOWS: usize = 24;
/// Two windows agree when their rates differ by at most one part in this many.
const PRECISION: u64 = 1000;
/// Readings after which a ruler counts as dead: longer than any window that ends.
const MAX_READINGS: u32 = 4_000_000;

/// Measures until two windows agree, at most `WINDOWS`; `None` when the ruler does not count.
pub fn measure(ruler: Ruler, mut read: impl FnMut() -> Reading) -> Option<Rates> {
    let mut found: Vec<Rates> = Vec::new();
    for _ in 0..WINDOWS {
        let Some(rates) = window(ruler, &mut read)? else {
            continue;
        };
        let agrees = |other: &&Rates| near(other.tsc, rates.tsc) && near(other.timer, rates.timer);
        if let Some(other) = found.iter().find(agrees) {
            return Some(Rates {
                tsc: other.tsc.midpoint(rates.tsc),
                timer: other.timer.midpoint(rates.timer),
                is_sure: true,
            });
        }
        found.push(rates);
    }
    found.sort_unstable_by_key(|rates| rates.tsc);
    found.get(found.len() / 2).copied()
}

/// Measures one window. `None` when the ruler stands still, `Some(None)` when the window proves
/// nothing.
fn window(ruler: Ruler, read: &mut impl FnMut() -> Reading) -> Option<Option<Rates>> {
    let elapsed = |start: &Reading, end: &Reading| {
        u64::from(end.ruler.wrapping_sub(start.ruler) & ruler.mask)
    };
    let start = sharpest(read);
    let length = ruler.frequency / WINDOWS_PER_SECOND;
    (0..MAX_READINGS).find(|_| elapsed(&start, &read()) >= length)?;
    let end = sharpest(read);
    let ruled = elapsed(&start, &end);
    let rate = |ticks: u64| {
        let rate = u128::from(ticks) * u128::from(ruler.frequency) / u128::from(ruled.max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    };
    let rates = Rates {
        tsc: rate(end.middle().saturating_sub(start.middle())),
        timer: rate(u64::from(end.timer.wrapping_sub(start.timer))),
        is_sure: false,
    };
    let is_usable = ruled > 0 && rates.tsc > 0 && rates.timer > 0;
    Some(is_usable.then_some(rates))
}

fn sharpest(read: &mut impl FnMut() -> Reading) -> Reading {
    let mut best = read();
    for _ in 1..TRIES {
        let reading = read();
        if reading.width() < best.width() {
            best = reading;
        }
    }
    best
}

fn near(a: u64, b: u64) -> bool {
    a.abs_diff(b) <= a.max(b) / PRECISION
}

#[cfg(test)]
mod tests {
    use super::*;

    const TSC: u64 = 2_500_000_000;
    const TIMER: u64 = 62_500_000;
    const ACPI: Ruler = Ruler {
        frequency: 3_579_545,
        mask: 0x00FF_FFFF,
    };
    const INTERVAL: Ruler = Ruler {
        frequency: 1_193_182,
        mask: 0xFFFF,
    };

    /// A machine that stands still at random moments.
    struct Machine {
        ns: u64,
        seed: u64,
        /// One of this number of steps is followed by a standstill, of at most this time (ns).
        still: (u64, u64),
        ruler: Ruler,
    }

    impl Machine {
        fn new(ruler: Ruler, seed: u64, still: (u64, u64)) -> Self {
            Machine {
                ns: 1_000_000_000 * seed,
                seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
                still,
                ruler,
            }
        }

        fn random(&mut self) -> u64 {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            self.seed
        }

        /// Time passes: a microsecond or so for each access, and now and then much more.
        fn step(&mut self) {
            self.ns += 500 + self.random() % 1000;
            if self.random().is_multiple_of(self.still.0) {
                self.ns += self.random() % self.still.1.max(1);
            }
        }

        fn ticks(&self, rate: u64) -> u64 {
            (u128::from(self.ns) * u128::from(rate) / 1_000_000_000) as u64
        }

        fn read(&mut self) -> Reading {
            let before = self.ticks(TSC);
            self.step();
            let ruler = self.ticks(self.ruler.frequency) as u32 & self.ruler.mask;
            self.step();
            let timer = self.ticks(TIMER) as u32;
            self.step();
            Reading {
                before,
                ruler,
                timer,
                after: self.ticks(TSC),
            }
        }
    }

    fn error(found: u64, real: u64) -> f64 {
        (found as f64 / real as f64 - 1.0).abs()
    }

    #[test]
    fn a_machine_that_stands_still_now_and_then_is_measured_well() {
        for ruler in [ACPI, INTERVAL] {
            for still in [
                (u64::MAX, 1),
                (100, 10_000_000),
                (10, 3_000_000),
                (1000, 50_000_000),
            ] {
                for seed in 1..200 {
                    let mut machine = Machine::new(ruler, seed, still);
                    let rates = measure(ruler, || machine.read()).unwrap();
                    let worst = error(rates.tsc, TSC).max(error(rates.timer, TIMER));
                    assert!(
                        worst < 0.005,
                        "{ruler:?}, {still:?}, seed {seed}: {rates:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_window_in_which_the_ruler_wrapped_is_not_believed() {
        // Longer than the interval timer's 55 ms, each time by another length.
        for seed in 1..100 {
            let mut machine = Machine::new(INTERVAL, seed, (20_000, 300_000_000));
            let rates = measure(INTERVAL, || machine.read()).unwrap();
            assert!(error(rates.tsc, TSC) < 0.005, "seed {seed}: {rates:?}");
        }
    }

    #[test]
    fn a_ruler_that_stands_still_is_noticed() {
        let still = Reading {
            before: 1,
            ruler: 7,
            timer: 1,
            after: 2,
        };
        assert_eq!(measure(ACPI, || still), None);
    }
}
