//! The samples of a stream of requests: the rate of each batch of completions.

use alloc::vec::Vec;

/// Completions counted since the start of a stream, cut into batches.
#[derive(Debug)]
pub struct Batches {
    /// Fewest completions of a batch.
    size: u64,
    start: u64,
    completed: u64,
    /// When the last batch ended, and the completions until then.
    mark: (u64, u64),
    /// Completions of each batch, and its time.
    batches: Vec<(u64, u64)>,
}

impl Batches {
    /// Begins at this time. Times are readings of a counter.
    pub fn new(size: u64, start: u64) -> Self {
        Self {
            size,
            start,
            completed: 0,
            mark: (start, 0),
            batches: Vec::new(),
        }
    }

    /// The number of completions so far.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Adds completions. `now` reads the time; it is called at the end of a batch only.
    pub fn add(&mut self, completions: u64, now: impl FnOnce() -> u64) {
        self.completed += completions;
        let (at, before) = self.mark;
        if self.completed - before < self.size {
            return;
        }
        let now = now();
        // The first batch makes the windows, so it is not counted.
        if before > 0 {
            self.batches.push((self.completed - before, now - at));
        }
        self.mark = (now, self.completed);
    }

    /// Completions and time of each batch. A stream that was too short for a batch that counts is
    /// one as a whole, because a rate of its few last completions would mean nothing.
    pub fn finish(mut self, now: u64) -> Vec<(u64, u64)> {
        if self.batches.is_empty() {
            self.batches.push((self.completed, now - self.start));
        }
        self.batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_batch_but_the_first_is_a_sample() {
        let mut batches = Batches::new(10, 1000);
        for (completions, now) in [(10, 1100), (4, 1110), (7, 1130), (9, 1140), (3, 1170)] {
            batches.add(completions, || now);
        }
        assert_eq!(batches.completed(), 33);
        // The completions of the end are no whole batch.
        assert_eq!(batches.finish(2000), [(11, 30), (12, 40)]);
    }

    #[test]
    fn a_short_stream_is_a_sample_as_a_whole() {
        for pieces in [&[64, 2][..], &[10, 56], &[66]] {
            let mut batches = Batches::new(64, 1000);
            for completions in pieces {
                batches.add(*completions, || 1500);
            }
            assert_eq!(batches.finish(1600), [(66, 600)], "{pieces:?}");
        }
    }
}
