//! A stream of copies that another thread or node reads, and nothing else: the upper bound for a
//! stream of messages. Messages pass through slots in one piece of memory. The writer announces
//! each message; the reader frees the slots, a quarter of them at a time.
//!
//! The reader loads one word of each cache line, so each line crosses to it by the fewest loads.

use core::sync::atomic::{AtomicU64, Ordering};

use hal::mem::Region;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Reads of a word before giving up, which take a few seconds.
const MAX_LOOKS: u32 = 2_000_000_000;

/// Memory that both sides can reach.
pub trait SlotMemory {
    /// Copies bytes in, by the fastest routine; `None` if they do not fit inside.
    fn put(&self, offset: usize, bytes: &[u8]) -> Option<()>;

    /// Loads a word; `None` if it is not inside.
    fn word(&self, offset: usize) -> Option<u64>;
}

impl SlotMemory for Region {
    #[inline]
    fn put(&self, offset: usize, bytes: &[u8]) -> Option<()> {
        self.write_bytes(offset, bytes).ok()
    }

    #[inline]
    fn word(&self, offset: usize) -> Option<u64> {
        self.read(offset).ok()
    }
}

/// The slots for messages, as one side sees them.
pub struct Slots<'a, M> {
    /// The memory of the slots, which begin at its start.
    pub memory: &'a M,
    /// Bytes in a message.
    pub bytes: usize,
    /// Number of slots.
    pub count: u64,
    /// Number of messages that were written, stored by the writer.
    pub written: &'a AtomicU64,
    /// Number of messages whose slots are free again, stored by the reader.
    pub freed: &'a AtomicU64,
}

/// The reason why a stream ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The slots are not inside their memory.
    Outside,
    /// The other side makes no progress.
    Alone,
}

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Outside => "the slots are not inside their memory",
            Self::Alone => "the other side stands still",
        })
    }
}

impl core::error::Error for Stopped {}

/// Waits until a word has reached a number.
fn reach(word: &AtomicU64, number: u64) -> Result<(), Stopped> {
    for _ in 0..MAX_LOOKS {
        if word.load(Ordering::Acquire) >= number {
            return Ok(());
        }
    }
    Err(Stopped::Alone)
}

impl<M: SlotMemory> Slots<'_, M> {
    fn place(&self, number: u64) -> usize {
        (number % self.count) as usize * self.bytes
    }

    /// Writes `message` once for each number from `first` up to `end`, which is not included.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn write(&self, message: &[u8], first: u64, end: u64) -> Result<(), Stopped> {
        for number in first..end {
            reach(self.freed, (number + 1).saturating_sub(self.count))?;
            let put = self.memory.put(self.place(number), message);
            put.ok_or(Stopped::Outside)?;
            self.written.store(number + 1, Ordering::Release);
        }
        Ok(())
    }

    /// Reads the messages with the numbers below `end`. Returns the checksum of the words that it
    /// loaded of the last one, which is that of [`sum`].
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn read(&self, end: u64) -> Result<u64, Stopped> {
        let step = (self.count / 4).max(1);
        let mut sum = 0;
        for number in 0..end {
            reach(self.written, number + 1)?;
            let place = self.place(number);
            sum = 0;
            for line in (0..self.bytes).step_by(LINE) {
                let word = self.memory.word(place + line);
                sum = add(sum, word.ok_or(Stopped::Outside)?);
            }
            if (number + 1) % step == 0 || number + 1 == end {
                self.freed.store(number + 1, Ordering::Release);
            }
        }
        Ok(sum)
    }

    /// Waits until the messages with the numbers below `end` have been read.
    ///
    /// # Errors
    /// See [`Stopped`].
    pub fn finish(&self, end: u64) -> Result<(), Stopped> {
        reach(self.freed, end)
    }
}

fn add(sum: u64, word: u64) -> u64 {
    sum.rotate_left(1) ^ word
}

/// The checksum of a message: of the first word of each cache line.
pub fn sum(message: &[u8]) -> u64 {
    let first = |line: &[u8]| {
        line.first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word))
    };
    message.chunks(LINE).map(first).fold(0, add)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// Memory of words.
    struct Words(Vec<AtomicU64>);

    impl SlotMemory for Words {
        fn put(&self, offset: usize, bytes: &[u8]) -> Option<()> {
            let words = self.0.get(offset / 8..(offset + bytes.len()) / 8)?;
            for (word, bytes) in words.iter().zip(bytes.as_chunks().0) {
                word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
            }
            Some(())
        }

        fn word(&self, offset: usize) -> Option<u64> {
            Some(self.0.get(offset / 8)?.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn every_message_is_read_through_few_slots() {
        const MESSAGES: u64 = 1000;
        const BYTES: usize = 256;
        let (written, freed) = (AtomicU64::new(0), AtomicU64::new(0));
        let memory = Words((0..8 * BYTES / 8).map(|_| AtomicU64::new(0)).collect());
        let slots = |count| Slots {
            memory: &memory,
            bytes: BYTES,
            count,
            written: &written,
            freed: &freed,
        };
        for count in [1, 2, 8] {
            written.store(0, Ordering::Relaxed);
            freed.store(0, Ordering::Relaxed);
            let mut message = vec![0; BYTES];
            crate::pattern::fill(&mut message, count);
            let got = std::thread::scope(|scope| {
                let reader = scope.spawn(|| slots(count).read(MESSAGES));
                slots(count).write(&message, 0, MESSAGES).unwrap();
                slots(count).finish(MESSAGES).unwrap();
                reader.join().unwrap()
            });
            assert_eq!(got, Ok(sum(&message)));
        }
        written.store(9, Ordering::Relaxed);
        assert_eq!(slots(9).read(9), Err(Stopped::Outside));
    }
}
