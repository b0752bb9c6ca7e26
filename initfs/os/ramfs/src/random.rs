//! Pseudo-random numbers. They are not for secrets: there is no source of true randomness.

/// The generator xoshiro256**, by Blackman and Vigna (public domain).
pub struct Generator {
    state: [u64; 4],
}

impl Generator {
    /// A generator whose sequence the seed determines.
    pub fn new(seed: u64) -> Self {
        // splitmix64 spreads the seed; its outputs are never all zero.
        let mut next = seed;
        let state = core::array::from_fn(|_| {
            next = next.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = next;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Generator { state }
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        let state = &mut self.state;
        let result = state[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = state[1] << 17;
        state[2] ^= state[0];
        state[3] ^= state[1];
        state[1] ^= state[2];
        state[0] ^= state[3];
        state[2] ^= shifted;
        state[3] = state[3].rotate_left(45);
        result
    }

    /// Fills a buffer.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_determines_the_sequence_and_bytes_are_spread() {
        let (mut a, mut b, mut c) = (Generator::new(1), Generator::new(1), Generator::new(2));
        assert_eq!(a.number(), b.number());
        assert_ne!(a.number(), c.number());
        let mut bytes = [0; 65_537];
        a.fill(&mut bytes);
        let mut counts = [0u32; 256];
        bytes
            .iter()
            .for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(counts.iter().all(|count| (150..380).contains(count)));
    }
}
