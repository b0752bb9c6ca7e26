//! The word by which processes that share a socket count themselves.
//!
//! A word is used for one socket after another. It counts how often it was taken as well, so that a
//! process which left for a moment, and found nobody left when it came back, does not count itself
//! for the socket that has the word now.

use core::sync::atomic::{AtomicU32, Ordering};

/// Bits that hold the number of processes; those above hold how often the word was taken.
const BITS: u32 = 20;
const PROCESSES: u32 = (1 << BITS) - 1;

/// Processes that have a socket; none: the word is free.
#[derive(Default)]
#[repr(transparent)]
pub struct Count(AtomicU32);

/// Which use of a word it was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn(u32);

impl Count {
    fn update(&self, change: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    /// Takes it for one process; `false`: it is not free.
    pub fn take(&self) -> bool {
        let first = |word: u32| {
            let turn = (word >> BITS).wrapping_add(1);
            (word & PROCESSES == 0).then_some(turn << BITS | 1)
        };
        self.update(first).is_ok()
    }

    /// Counts a process more; `false`: there are as many as can be counted.
    pub fn add(&self) -> bool {
        let more = |word: u32| (word & PROCESSES < PROCESSES).then(|| word + 1);
        self.update(more).is_ok()
    }

    /// Whether it counts more than one process.
    pub fn is_shared(&self) -> bool {
        self.0.load(Ordering::Acquire) & PROCESSES > 1
    }

    /// Counts a process less; whether it was the last one, so that the word is free.
    pub fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & PROCESSES == 1
    }

    /// Counts a process less unless it is the only one. It may [come back](Self::come_back) in the
    /// turn that is returned.
    pub fn leave_to_others(&self) -> Option<Turn> {
        let less = |word: u32| (word & PROCESSES > 1).then(|| word - 1);
        let before = self.update(less).ok()?;
        Some(Turn(before >> BITS))
    }

    /// Counts a process again that [left](Self::leave_to_others); `false`: the others have left
    /// since, and the last one has ended what they had.
    pub fn come_back(&self, turn: Turn) -> bool {
        let again = |word: u32| {
            let (is_it, others) = (word >> BITS == turn.0, word & PROCESSES);
            (is_it && (1..PROCESSES).contains(&others)).then(|| word + 1)
        };
        self.update(again).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_process_frees_the_word() {
        let count = Count::default();
        assert!(count.take() && !count.take());
        assert!(!count.is_shared());
        assert!(count.add());
        assert!(count.is_shared());
        assert!(!count.leave() && !count.is_shared() && count.leave());
        assert!(count.take());
    }

    #[test]
    fn a_process_that_left_to_others_comes_back() {
        let count = Count::default();
        assert!(count.take());
        assert_eq!(count.leave_to_others(), None, "it is the only one");
        assert!(count.add());
        let turn = count.leave_to_others().unwrap();
        assert!(count.come_back(turn));
        assert!(!count.leave() && count.leave());
    }

    #[test]
    fn nobody_comes_back_to_a_word_that_was_freed_or_taken_again() {
        let count = Count::default();
        assert!(count.take() && count.add());
        let turn = count.leave_to_others().unwrap();
        assert!(count.leave());
        assert!(!count.come_back(turn));
        // Another socket's.
        assert!(count.take());
        assert!(!count.come_back(turn));
        assert!(count.leave(), "it has one process");
    }

    #[test]
    fn turns_wrap_around_without_touching_the_number() {
        let count = Count::default();
        for _ in 0..=1 << (u32::BITS - BITS) {
            assert!(count.take() && count.leave());
        }
    }

    #[test]
    fn no_more_are_counted_than_there_are_bits_for() {
        let count = Count(AtomicU32::new(PROCESSES));
        assert!(!count.add() && !count.leave());
        assert!(count.add());
    }
}
