//! The newest bytes of a stream, for readers that begin late or fall behind.

/// The last `N` bytes of a stream, and the count of all its bytes.
pub struct History<const N: usize> {
    bytes: [u8; N],
    written: u64,
}

impl<const N: usize> Default for History<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> History<N> {
    /// An empty history.
    pub const fn new() -> Self {
        History {
            bytes: [0; N],
            written: 0,
        }
    }

    /// The number of bytes that were ever written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Adds bytes and drops the oldest.
    pub fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.bytes.get_mut((self.written % N as u64) as usize) {
                *place = *byte;
            }
            self.written += 1;
        }
    }

    /// Copies what follows the first `from` bytes of the stream, or the oldest bytes kept if those
    /// are gone. Sets `from` behind the last copied byte and returns the number of bytes copied.
    pub fn read(&self, from: &mut u64, out: &mut [u8]) -> usize {
        *from = (*from).clamp(self.written.saturating_sub(N as u64), self.written);
        let mut count = 0;
        for place in out {
            if *from == self.written {
                break;
            }
            *place = self
                .bytes
                .get((*from % N as u64) as usize)
                .copied()
                .unwrap_or(0);
            *from += 1;
            count += 1;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(history: &History<8>, from: &mut u64, most: usize) -> std::vec::Vec<u8> {
        let mut out = vec![0; most];
        let count = history.read(from, &mut out);
        out.truncate(count);
        out
    }

    #[test]
    fn readers_get_everything_in_order() {
        let mut history = History::new();
        let mut from = 0;
        assert_eq!(read(&history, &mut from, 8), b"");
        history.write(b"abcde");
        assert_eq!(read(&history, &mut from, 2), b"ab");
        history.write(b"fghij");
        assert_eq!(read(&history, &mut from, 8), b"cdefghij");
        assert_eq!(read(&history, &mut from, 8), b"");
        assert_eq!((from, history.written()), (10, 10));
    }

    #[test]
    fn readers_that_fall_behind_miss_the_oldest() {
        let mut history = History::new();
        let mut from = 0;
        history.write(b"0123456789");
        assert_eq!(read(&history, &mut from, 3), b"234");
        history.write(b"abcdefghijkl");
        assert_eq!(read(&history, &mut from, 9), b"efghijkl");
        // A place that nothing was written to yet.
        from = 99;
        assert_eq!(read(&history, &mut from, 9), b"");
        assert_eq!(from, 22);
    }
}
