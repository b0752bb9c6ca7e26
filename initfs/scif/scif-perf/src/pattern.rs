//! Test data of benchmarks: bytes that do not repeat, and a checksum that shows that they have
//! arrived.

/// A checksum that detects changed, swapped and missing bytes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Sum(u64);

impl Sum {
    /// Adds the bytes of a piece. Up to seven bytes at its end count as a word.
    pub fn add(&mut self, bytes: &[u8]) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            let length = piece.len() as u64;
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_add(length);
            self.0 = mixed.wrapping_mul(FACTOR).rotate_left(23);
        }
    }

    /// The sum.
    pub fn value(self) -> u64 {
        self.0
    }
}

/// The checksum of one piece.
pub fn sum(bytes: &[u8]) -> u64 {
    let mut sum = Sum::default();
    sum.add(bytes);
    sum.value()
}

/// Fills a buffer with bytes that depend on the seed and do not repeat.
pub fn fill(bytes: &mut [u8], seed: u64) {
    let mut word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for piece in bytes.chunks_mut(8) {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_noticed() {
        let mut bytes = [0; 101];
        fill(&mut bytes, 7);
        let right = sum(&bytes);
        for index in 0..bytes.len() {
            bytes[index] ^= 1;
            assert_ne!(sum(&bytes), right, "byte {index}");
            bytes[index] ^= 1;
        }
        let (first, second) = bytes.split_at_mut(8);
        first.swap_with_slice(&mut second[..8]);
        assert_ne!(sum(&bytes), right);
        assert_ne!(sum(&[0; 8]), sum(&[0; 16]));
        assert_ne!(sum(&[0; 3]), sum(&[0; 4]));
        assert_ne!(sum(&[]), sum(&[0]));
    }

    #[test]
    fn patterns_do_not_repeat() {
        let (mut one, mut other) = ([0; 4096], [0; 4096]);
        fill(&mut one, 1);
        fill(&mut other, 2);
        assert_ne!(one, other);
        let words = one.as_chunks::<8>().0;
        let mut sorted = words.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), words.len());
        fill(&mut other, 1);
        assert_eq!(one, other);
    }
}
