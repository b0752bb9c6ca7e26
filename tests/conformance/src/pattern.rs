//! Data that tells its position, so that a byte lost, doubled or displaced is seen at once.

/// The byte at a position of the pattern `seed`.
pub fn byte(seed: u64, position: u64) -> u8 {
    let mixed = (seed.wrapping_add(position >> 3)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> (8 * (position & 7))) as u8 ^ (mixed >> 32) as u8
}

/// Fills `buffer` with the bytes from `start` on.
pub fn fill(seed: u64, start: u64, buffer: &mut [u8]) {
    for (slot, position) in buffer.iter_mut().zip(start..) {
        *slot = byte(seed, position);
    }
}

/// The index of the first byte that is not what belongs at `start` and after it.
pub fn mismatch(seed: u64, start: u64, bytes: &[u8]) -> Option<u64> {
    let wrong = bytes
        .iter()
        .zip(start..)
        .position(|(found, position)| *found != byte(seed, position));
    wrong.map(|index| index as u64)
}

#[cfg(test)]
mod tests {
    use super::{fill, mismatch};

    #[test]
    fn a_displaced_or_changed_byte_is_seen() {
        let mut bytes = [0; 300];
        fill(5, 1000, &mut bytes);
        assert_eq!(mismatch(5, 1000, &bytes), None);
        assert!(mismatch(5, 1001, &bytes).is_some());
        assert!(mismatch(6, 1000, &bytes).is_some());
        bytes[299] ^= 1;
        assert_eq!(mismatch(5, 1000, &bytes), Some(299));
    }
}
