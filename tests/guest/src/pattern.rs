//! Data that tells its position, so that a byte lost, doubled or displaced is seen at once.

/// The byte at position `index` of the stream number `seed`.
pub fn byte(seed: u64, index: u64) -> u8 {
    // One multiplication per 8 bytes; the top bits are the well mixed ones.
    let word = (seed ^ (index >> 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word >> (8 * (index & 7))) as u8 ^ (word >> 56) as u8
}

/// Fills `buffer` with the bytes from position `start` on.
pub fn fill(seed: u64, start: u64, buffer: &mut [u8]) {
    for (index, place) in (start..).zip(buffer) {
        *place = byte(seed, index);
    }
}

/// The position of the first byte of `bytes` that is not what belongs at `start` and after it.
pub fn mismatch(seed: u64, start: u64, bytes: &[u8]) -> Option<u64> {
    (start..)
        .zip(bytes)
        .find(|&(index, &found)| found != byte(seed, index))
        .map(|(index, _)| index)
}

/// A small generator of arbitrary numbers (xorshift), for sizes of pieces.
pub struct Random(u64);

impl Random {
    /// The generator number `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 1 to `limit`.
    pub fn up_to(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        1 + (self.0 >> 11) % limit.max(1)
    }
}
