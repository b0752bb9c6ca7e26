//! Data whose bytes depend on their position, so that a lost, doubled or displaced byte is
//! noticed.

/// The eight bytes at position `8 * number` of the pattern `seed`.
fn word(seed: u64, number: u64) -> [u8; 8] {
    let mixed = seed
        .wrapping_add(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 32).to_le_bytes()
}

/// Fills `buffer` with the bytes of the pattern from position `start` on.
pub fn fill(seed: u64, start: u64, buffer: &mut [u8]) {
    let mut position = start;
    let mut rest = buffer;
    while !rest.is_empty() {
        let first = (position % 8) as usize;
        let count = (8 - first).min(rest.len());
        let (piece, after) = rest.split_at_mut(count);
        piece.copy_from_slice(&word(seed, position / 8)[first..first + count]);
        position += count as u64;
        rest = after;
    }
}

/// The index of the first byte that differs from the pattern from position `start` on.
pub fn mismatch(seed: u64, start: u64, bytes: &[u8]) -> Option<u64> {
    let mut done = 0;
    while done < bytes.len() {
        let position = start + done as u64;
        let first = (position % 8) as usize;
        let count = (8 - first).min(bytes.len() - done);
        let piece = &bytes[done..done + count];
        let wanted = &word(seed, position / 8)[first..first + count];
        if piece != wanted {
            let wrong = piece
                .iter()
                .zip(wanted)
                .position(|(found, wanted)| found != wanted);
            return Some((done + wrong.unwrap_or(0)) as u64);
        }
        done += count;
    }
    None
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
