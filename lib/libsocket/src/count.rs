//! Shared words through which processes that share a socket coordinate: how many there are, and
//! which of them is in the middle of a message.
//!
//! A [`Count`] is used for one socket after another. It also counts how often it was taken. A
//! process may leave for a moment and come back after the others have left; it must then not count
//! itself for the socket that has the word now.

use core::sync::atomic::{AtomicU32, Ordering};

/// Bits that hold the number of processes; the bits above hold how often the word was taken.
const BITS: u32 = 20;
const PROCESSES: u32 = (1 << BITS) - 1;

/// The number of processes that have a socket; 0 if the word is free.
#[derive(Default)]
#[repr(transparent)]
pub struct Count(AtomicU32);

/// Identifies one use of a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Turn(u32);

impl Count {
    fn update(&self, change: impl FnMut(u32) -> Option<u32>) -> Result<u32, u32> {
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, change)
    }

    /// Takes the word for one process; `false` if it is not free.
    pub fn take(&self) -> bool {
        let first = |word: u32| {
            let turn = (word >> BITS).wrapping_add(1);
            (word & PROCESSES == 0).then_some(turn << BITS | 1)
        };
        self.update(first).is_ok()
    }

    /// Counts one process more; `false` if the count is at its maximum.
    pub fn add(&self) -> bool {
        let more = |word: u32| (word & PROCESSES < PROCESSES).then(|| word + 1);
        self.update(more).is_ok()
    }

    /// Whether more than one process is counted.
    pub fn is_shared(&self) -> bool {
        self.0.load(Ordering::Acquire) & PROCESSES > 1
    }

    /// Counts one process less. Returns whether it was the last one, so that the word is free.
    pub fn leave(&self) -> bool {
        self.0.fetch_sub(1, Ordering::AcqRel) & PROCESSES == 1
    }

    /// Counts one process less unless it is the only one. It may [come back](Self::come_back) in
    /// the returned turn.
    pub fn leave_to_others(&self) -> Option<Turn> {
        let less = |word: u32| (word & PROCESSES > 1).then(|| word - 1);
        let before = self.update(less).ok()?;
        Some(Turn(before >> BITS))
    }

    /// Counts a process that [left](Self::leave_to_others) again; `false` if the others have left
    /// since, and the last one has ended the socket.
    pub fn come_back(&self, turn: Turn) -> bool {
        let again = |word: u32| {
            let (is_it, others) = (word >> BITS == turn.0, word & PROCESSES);
            (is_it && (1..PROCESSES).contains(&others)).then(|| word + 1)
        };
        self.update(again).is_ok()
    }
}

/// No process sends.
const NOBODY: u32 = 0;
/// The process that sent has become another program in the middle of a message.
const GONE: u32 = u32::MAX;

/// The process that has sent part of a message. Others wait until it has sent the rest.
#[derive(Default)]
#[repr(transparent)]
pub struct Sender(AtomicU32);

/// The current sender, as a process that wants to send finds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Holder {
    /// The process that asks.
    Own,
    /// This process, which is in the middle of a message.
    Other(u32),
    /// A process that has gone in the middle of a message.
    Gone,
}

impl Sender {
    /// Makes a process the sender, unless there is another one.
    pub fn begin(&self, process: u32) -> Holder {
        match self.replace(NOBODY, process) {
            Ok(_) => Holder::Own,
            Err(GONE) => Holder::Gone,
            Err(other) if other == process => Holder::Own,
            Err(other) => Holder::Other(other),
        }
    }

    /// Whether a process other than this one sends.
    pub fn is_another(&self, process: u32) -> bool {
        ![NOBODY, GONE, process].contains(&self.0.load(Ordering::Acquire))
    }

    /// Ends the message; only for the process that sends.
    pub fn end(&self) {
        self.0.store(NOBODY, Ordering::Release);
    }

    /// Marks the message of a process as possibly broken off, if it has begun one.
    pub fn break_off(&self, process: u32) {
        // On failure it has begun none.
        let _ = self.replace(process, GONE);
    }

    /// Undoes [`break_off`](Self::break_off) when the process has come back.
    pub fn resume(&self, process: u32) {
        // On failure it had begun no message.
        let _ = self.replace(GONE, process);
    }

    fn replace(&self, from: u32, to: u32) -> Result<u32, u32> {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        self.0.compare_exchange(from, to, success, failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_sends_at_a_time() {
        let sender = Sender::default();
        assert_eq!(sender.begin(7), Holder::Own);
        assert_eq!(sender.begin(7), Holder::Own, "it goes on");
        assert_eq!(sender.begin(8), Holder::Other(7));
        assert!(sender.is_another(8) && !sender.is_another(7));
        sender.end();
        assert!(!sender.is_another(8));
        assert_eq!(sender.begin(8), Holder::Own);
    }

    #[test]
    fn a_message_that_was_broken_off_ends_all_sending() {
        let sender = Sender::default();
        sender.break_off(7);
        assert_eq!(sender.begin(8), Holder::Own, "none was begun");
        sender.break_off(7);
        assert_eq!(sender.begin(8), Holder::Own, "it is not 7's");
        sender.break_off(8);
        assert_eq!(sender.begin(7), Holder::Gone);
        sender.resume(8);
        assert_eq!(sender.begin(7), Holder::Other(8));
    }

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
        // Another socket takes the word.
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
