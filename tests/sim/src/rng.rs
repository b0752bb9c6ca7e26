//! The simulator's only source of randomness: splitmix64.

/// A stream of numbers determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// Returns a well-mixed number for each input: one round of splitmix64.
pub fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Starts the stream of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        let result = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        result
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// Returns true in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns a size of at most `max` that is mostly small and sometimes large.
    pub fn size(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(u64::BITS - max.leading_zeros()) + 1);
        self.below((1 << bits).min(max) + 1)
    }
}
