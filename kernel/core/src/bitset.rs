//! A set of small numbers that finds its smallest and its largest member with a few loads.
//!
//! Level 0 has one bit for each number. On each level above, a bit says whether a word of 64 bits
//! below has any. The caller provides the words, so that the set can exist before there is a heap.

/// Most levels: 64^6 is more than numbers of 32 bits need.
const MAX_LEVELS: usize = 6;

/// The set.
#[derive(Debug)]
pub struct BitSet<'a> {
    words: &'a mut [u64],
    /// Index in `words` at which each level begins.
    starts: [usize; MAX_LEVELS],
    levels: usize,
}

/// Words of each level of a set for numbers below `bound`, from level 0 up to the level with one
/// word.
fn level_words(bound: usize) -> impl Iterator<Item = usize> {
    let words = |below: usize| below.div_ceil(64).max(1);
    core::iter::successors(Some(words(bound)), move |&below| {
        (below > 1).then(|| words(below))
    })
}

/// Words that a set for numbers below `bound` needs.
pub fn words_for(bound: usize) -> usize {
    level_words(bound).sum()
}

impl<'a> BitSet<'a> {
    /// An empty set for numbers below `bound`; `words` are as many as [`words_for`] returns for
    /// that bound.
    pub fn new(words: &'a mut [u64], bound: usize) -> Self {
        words.fill(0);
        let mut starts = [0; MAX_LEVELS];
        let mut levels = 0;
        let mut end = 0;
        for count in level_words(bound) {
            starts[levels] = end;
            end += count;
            levels += 1;
        }
        assert!(end <= words.len(), "a set for {bound} needs {end} words");
        BitSet {
            words,
            starts,
            levels,
        }
    }

    /// Adds a number.
    pub fn insert(&mut self, mut number: usize) {
        for start in &self.starts[..self.levels] {
            let word = &mut self.words[start + number / 64];
            let was_empty = *word == 0;
            *word |= 1 << (number % 64);
            if !was_empty {
                return;
            }
            number /= 64;
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, mut number: usize) {
        for start in &self.starts[..self.levels] {
            let word = &mut self.words[start + number / 64];
            *word &= !(1 << (number % 64));
            if *word != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// The smallest member.
    pub fn first(&self) -> Option<usize> {
        self.descend(|word| word.trailing_zeros())
    }

    /// The largest member.
    pub fn last(&self) -> Option<usize> {
        self.descend(|word| 63 - word.leading_zeros())
    }

    /// Follows the bit that `pick` chooses in each word, none of which is 0.
    fn descend(&self, pick: impl Fn(u64) -> u32) -> Option<usize> {
        let mut at = 0;
        for start in self.starts[..self.levels].iter().rev() {
            let word = self.words[start + at];
            if word == 0 {
                return None;
            }
            at = at * 64 + pick(word) as usize;
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_an_ordered_set() {
        for bound in [1, 63, 64, 65, 4096, 4097, 300_000] {
            let mut words = vec![u64::MAX; words_for(bound)];
            let mut set = BitSet::new(&mut words, bound);
            let mut model = BTreeSet::new();
            let mut seed = 99u64;
            for _ in 0..5000 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let number = (seed >> 33) as usize % bound;
                match seed >> 20 & 1 {
                    0 => {
                        set.insert(number);
                        model.insert(number);
                    }
                    _ => {
                        set.remove(number);
                        model.remove(&number);
                    }
                }
                assert_eq!(set.first(), model.first().copied());
                assert_eq!(set.last(), model.last().copied());
            }
            for number in model {
                set.remove(number);
            }
            assert_eq!((set.first(), set.last()), (None, None));
        }
    }

    #[test]
    fn words_grow_by_a_64th() {
        assert_eq!(words_for(0), 1);
        assert_eq!(words_for(64), 1);
        assert_eq!(words_for(65), 2 + 1);
        assert_eq!(words_for(1 << 20), (1 << 14) + (1 << 8) + 4 + 1);
    }
}
