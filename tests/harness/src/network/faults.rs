//! Faults that a fabric injects into doorbells: it loses some, rings some twice, and delays others,
//! by a seeded generator, so that a run can be repeated as far as its nodes allow.

use std::time::Duration;

/// The faults of a link's doorbells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Doorbells that are lost: the first number of each of the second number.
    pub lose: (u32, u32),
    /// Doorbells that ring once more, a little later: the same.
    pub double: (u32, u32),
    /// The greatest delay of each, in milliseconds.
    pub late_ms: u32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            lose: (0, 1),
            double: (0, 1),
            late_ms: 0,
        }
    }
}

impl Faults {
    /// Reads the words `lose=<n>/<m>`, `double=<n>/<m>` and `late_ms=<n>`, each of which may be
    /// missing.
    pub fn parse(words: &[&str]) -> Result<Self, String> {
        let mut faults = Self::default();
        for word in words {
            let wrong = || format!("'{word}' is not lose=n/m, double=n/m or late_ms=n");
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            match name {
                "lose" => faults.lose = share(value).ok_or_else(wrong)?,
                "double" => faults.double = share(value).ok_or_else(wrong)?,
                "late_ms" => faults.late_ms = value.parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        Ok(faults)
    }
}

/// `n/m`, at most 1.
fn share(text: &str) -> Option<(u32, u32)> {
    let (part, whole) = text.split_once('/')?;
    let (part, whole) = (part.parse().ok()?, whole.parse().ok()?);
    (whole > 0 && part <= whole).then_some((part, whole))
}

/// Decides what becomes of each doorbell.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// The generator number `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) % u64::from(limit.max(1))) as u32
    }

    fn says(&mut self, (part, whole): (u32, u32)) -> bool {
        self.below(whole) < part
    }

    /// The delays after which a doorbell that rings now arrives: none if it is lost, two if it is
    /// doubled.
    pub fn throw(&mut self, faults: &Faults) -> Vec<Duration> {
        if self.says(faults.lose) {
            return Vec::new();
        }
        let rings = if self.says(faults.double) { 2 } else { 1 };
        let late_us = faults.late_ms.saturating_mul(1000);
        let delay = |_| Duration::from_micros(self.below(late_us.saturating_add(1)).into());
        (0..rings).map(delay).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_faults_every_doorbell_is_heard_at_once() {
        let mut dice = Dice::new(1);
        for _ in 0..100 {
            assert_eq!(dice.throw(&Faults::default()), [Duration::ZERO]);
        }
    }

    #[test]
    fn shares_are_about_what_was_asked_for() {
        let faults = Faults::parse(&["lose=1/4", "double=1/2", "late_ms=20"]).unwrap();
        let mut dice = Dice::new(7);
        let (mut lost, mut doubled, mut latest) = (0, 0, Duration::ZERO);
        for _ in 0..10_000 {
            let rings = dice.throw(&faults);
            lost += u32::from(rings.is_empty());
            doubled += u32::from(rings.len() == 2);
            latest = latest.max(rings.into_iter().max().unwrap_or_default());
        }
        assert!((2200..2800).contains(&lost), "{lost} of 10000 lost");
        assert!((3400..4100).contains(&doubled), "{doubled} of 7500 doubled");
        let limit = Duration::from_millis(20);
        assert!(latest <= limit && latest > limit / 2, "{latest:?}");
    }
}
