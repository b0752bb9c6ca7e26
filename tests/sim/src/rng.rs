//! The simulator's only source of randomness: splitmix64.

/// A stream of numbers determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

/// One round of splitmix64: a well-mixed number for each input.
pub fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        let result = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        result
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A size: mostly small, sometimes large, never above `max`.
    pub fn size(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(u64::BITS - max.leading_zeros()) + 1);
        self.below((1 << bits).min(max) + 1)
    }
}
