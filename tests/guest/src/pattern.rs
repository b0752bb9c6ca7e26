//! Data that tells its position, so that a byte lost, doubled or displaced is seen at once.

/// Bytes that are made at a time.
const WORD: u64 = 8;

/// The eight bytes at position `8 * number` of the stream number `seed`.
fn word(seed: u64, number: u64) -> [u8; WORD as usize] {
    let mixed = (seed ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).to_le_bytes()
}

/// Cuts `length` bytes from position `start` on into the words they lie in: number of the word,
/// first byte in it, and bytes.
fn words(start: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let mut at = start;
    let end = start + length as u64;
    core::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (number, first) = (at / WORD, at % WORD);
        let count = (WORD - first).min(end - at);
        at += count;
        Some((number, first as usize, count as usize))
    })
}

/// Fills `buffer` with the bytes from position `start` on.
pub fn fill(seed: u64, start: u64, buffer: &mut [u8]) {
    let mut rest = buffer;
    for (number, first, count) in words(start, rest.len()) {
        let (piece, after) = core::mem::take(&mut rest).split_at_mut(count);
        piece.copy_from_slice(&word(seed, number)[first..first + count]);
        rest = after;
    }
}

/// The position of the first byte of `bytes` that is not what belongs at `start` and after it.
pub fn mismatch(seed: u64, start: u64, bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes;
    for (number, first, count) in words(start, bytes.len()) {
        let (piece, after) = rest.split_at(count);
        let expected = &word(seed, number)[first..first + count];
        if piece != expected {
            let wrong = piece
                .iter()
                .zip(expected)
                .position(|(found, expected)| found != expected);
            return Some(number * WORD + (first + wrong.unwrap_or(0)) as u64);
        }
        rest = after;
    }
    None
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
