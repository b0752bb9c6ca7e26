//! Random numbers that cannot be guessed, for names that are secrets.

use core::arch::x86_64::{__cpuid, _rdrand64_step};

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDONLY};

use crate::clock::ticks;

/// The bit of `ecx` in leaf 1 of `cpuid` that says that there is `rdrand`.
const HAS_RDRAND: u32 = 1 << 30;

/// Tries of `rdrand`: Intel's documents call ten failures in a row a broken generator.
const RDRAND_TRIES: u32 = 10;

/// Readings of the counter where there is no generator.
const JITTER_READINGS: u32 = 4096;

/// 64 random bits from the processor's generator, or else from the system's (`/scheme/rand`).
/// Without either, the bits come from the jitter of the processor's counter, which a program on
/// the same machine might guess at some expense.
pub fn word() -> u64 {
    of_processor().or_else(of_system).unwrap_or_else(of_jitter)
}

fn of_processor() -> Option<u64> {
    if __cpuid(1).ecx & HAS_RDRAND == 0 {
        return None;
    }
    let found = (0..RDRAND_TRIES).find_map(|_| {
        // SAFETY: the processor has the instruction, as was asked above.
        unsafe { rdrand() }
    });
    // Some processors give the same value for ever after a sleep: all ones, or zero.
    found.filter(|word| *word != 0 && *word != u64::MAX)
}

/// # Safety
/// The processor must have the instruction `rdrand`.
#[target_feature(enable = "rdrand")]
unsafe fn rdrand() -> Option<u64> {
    let mut word = 0;
    (_rdrand64_step(&mut word) == 1).then_some(word)
}

fn of_system() -> Option<u64> {
    let file = Fd::open("/scheme/rand", O_RDONLY | O_CLOEXEC, 0).ok()?;
    let mut bytes = [0; size_of::<u64>()];
    let count = file.read(&mut bytes).ok()?;
    (count == bytes.len()).then(|| u64::from_ne_bytes(bytes))
}

fn of_jitter() -> u64 {
    let mut word = ticks();
    for _ in 0..JITTER_READINGS {
        // Each reading adds how long the multiplication before it took.
        word = mixed(word ^ ticks());
    }
    word
}

/// Mixes a word: each of its bits changes about half of the result's (the last steps of
/// SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// 64 words of which none comes twice, and each bit is set in some and clear in some.
    fn check(source: impl Fn() -> u64) {
        let words: BTreeSet<u64> = (0..64).map(|_| source()).collect();
        assert_eq!(words.len(), 64);
        assert_eq!(words.iter().fold(0, |all, word| all | word), u64::MAX);
        assert_eq!(words.iter().fold(u64::MAX, |all, word| all & word), 0);
    }

    #[test]
    fn words_differ_in_all_bits() {
        check(word);
        check(of_jitter);
    }

    #[test]
    fn the_processor_s_generator_is_used_where_there_is_one() {
        if __cpuid(1).ecx & HAS_RDRAND != 0 {
            check(|| of_processor().unwrap());
        } else {
            assert_eq!(of_processor(), None);
        }
    }
}
