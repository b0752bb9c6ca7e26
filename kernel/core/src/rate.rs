//! A limit on how often something is done in a second.

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Lets a number of uses through in each second of the clock.
#[derive(Debug, Default)]
pub struct Rate {
    /// The second of the last use.
    second: u64,
    /// The uses in it that were let through.
    uses: u32,
}

impl Rate {
    /// A rate of which nothing is used yet.
    pub const fn new() -> Self {
        Rate { second: 0, uses: 0 }
    }

    /// Whether a use at this time is one of the first `most` of its second.
    pub fn admits(&mut self, now_ns: u64, most: u32) -> bool {
        let second = now_ns / SECOND;
        if second != self.second {
            *self = Rate { second, uses: 0 };
        }
        let admitted = self.uses < most;
        self.uses += u32::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_so_many_uses_and_no_more() {
        let mut rate = Rate::new();
        for second in [0, 1, 5] {
            let mut at = |part: u64| rate.admits(second * SECOND + part, 2);
            let admitted = [0, SECOND / 2, SECOND / 2, SECOND - 1].map(&mut at);
            assert_eq!(admitted, [true, true, false, false]);
        }
    }
}
