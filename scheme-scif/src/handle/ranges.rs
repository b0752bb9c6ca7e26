//! Ranges of pages that programs have mapped, each with a mark of its own.
//!
//! The kernel reports every mapping and every piece that is unmapped, but not which mapping a
//! piece belonged to. That does not matter here: only the number of mappings of each page counts,
//! because the owner of a collection adds only ranges whose marks go together with those of the
//! ranges that share a page with them ([`Ranges::all_are`]).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A range of pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Range<T> {
    /// Number of the first page.
    pub first: u64,
    /// The number of pages, at least one.
    pub pages: u64,
    /// The mark of the pages.
    pub mark: T,
}

impl<T> Range<T> {
    fn end(&self) -> u64 {
        self.first + self.pages
    }

    fn holds(&self, page: u64) -> bool {
        self.first <= page && page < self.end()
    }
}

/// Ranges that may overlap. Few do, so the range that holds a page is found by its start.
#[derive(Clone, Debug)]
pub struct Ranges<T> {
    /// The ranges by first page and a serial number.
    ranges: BTreeMap<(u64, u64), Range<T>>,
    next: u64,
    /// Pages of the longest range since the collection was last empty.
    longest: u64,
}

impl<T> Default for Ranges<T> {
    fn default() -> Self {
        Self {
            ranges: BTreeMap::new(),
            next: 0,
            longest: 0,
        }
    }
}

impl<T: Copy> Ranges<T> {
    /// Adds a range. The caller has checked that its end does not overflow.
    pub fn add(&mut self, first: u64, pages: u64, mark: T) {
        if pages > 0 {
            self.longest = self.longest.max(pages);
            self.next += 1;
            let range = Range { first, pages, mark };
            self.ranges.insert((first, self.next), range);
        }
    }

    /// A range that holds the page.
    fn holding(&self, page: u64) -> Option<(&(u64, u64), &Range<T>)> {
        let before = self.ranges.range(..=(page, u64::MAX)).rev();
        before
            .take_while(|((first, _), _)| page - first < self.longest)
            .find(|(_, range)| range.holds(page))
    }

    /// Takes each of `pages` pages from `first` on out once, and returns the pieces. Pages that
    /// are in no range are skipped.
    pub fn remove(&mut self, first: u64, pages: u64) -> Vec<Range<T>> {
        let end = first.saturating_add(pages);
        let mut removed = Vec::new();
        let mut page = first;
        while page < end {
            let Some((&key, &range)) = self.holding(page) else {
                let mut ahead = self.ranges.range((page, u64::MAX)..);
                page = ahead.next().map_or(end, |((first, _), _)| *first);
                continue;
            };
            self.ranges.remove(&key);
            let stop = range.end().min(end);
            self.add(range.first, page - range.first, range.mark);
            self.add(stop, range.end() - stop, range.mark);
            removed.push(Range {
                first: page,
                pages: stop - page,
                mark: range.mark,
            });
            page = stop;
        }
        if self.ranges.is_empty() {
            self.longest = 0;
        }
        removed
    }

    /// Whether every page of a range is in some range.
    pub fn covers(&self, first: u64, pages: u64) -> bool {
        let end = first.saturating_add(pages);
        let mut page = first;
        while page < end {
            match self.holding(page) {
                Some((_, range)) => page = range.end(),
                None => return false,
            }
        }
        true
    }

    /// Whether every page of `pages` pages from `first` on is in no range, or in ranges with such
    /// marks. Of the ranges that share a page one is asked, as their marks go together.
    pub fn all_are(&self, first: u64, pages: u64, is_such: impl Fn(T) -> bool) -> bool {
        let end = first.saturating_add(pages);
        let mut page = first;
        while page < end {
            page = match self.holding(page) {
                Some((_, range)) if !is_such(range.mark) => return false,
                Some((_, range)) => range.end(),
                None => {
                    let mut ahead = self.ranges.range((page, u64::MAX)..);
                    ahead.next().map_or(end, |((first, _), _)| *first)
                }
            };
        }
        true
    }

    /// All ranges, in order of their first pages.
    pub fn iter(&self) -> impl Iterator<Item = &Range<T>> {
        self.ranges.values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T: Copy> Ranges<T> {
        /// Pages of all ranges; a page counts once for each range that holds it.
        fn pages(&self) -> u64 {
            self.iter().map(|range| range.pages).sum()
        }
    }

    #[test]
    fn removing_pieces_leaves_the_rest() {
        let mut ranges = Ranges::default();
        ranges.add(10, 10, 'a');
        assert!(ranges.covers(10, 10) && !ranges.covers(9, 2) && !ranges.covers(19, 2));
        let removed = ranges.remove(13, 4);
        let piece = |first, pages, mark| Range { first, pages, mark };
        assert_eq!(removed, [piece(13, 4, 'a')]);
        assert!(ranges.covers(10, 3) && ranges.covers(17, 3) && !ranges.covers(12, 2));
        assert_eq!(ranges.pages(), 6);
        assert_eq!(ranges.remove(0, 15), [piece(10, 3, 'a')]);
        assert_eq!(ranges.remove(0, u64::MAX), [piece(17, 3, 'a')]);
        assert_eq!(ranges.pages(), 0);
        assert!(ranges.covers(5, 0) && !ranges.covers(5, 1));
    }

    #[test]
    fn marks_are_found_wherever_a_range_shares_a_page() {
        let mut ranges = Ranges::default();
        ranges.add(10, 2, 'a');
        ranges.add(10, 4, 'a');
        ranges.add(20, 5, 'b');
        let are = |first, pages, mark| ranges.all_are(first, pages, |other| other == mark);
        assert!(are(0, 10, 'c') && are(14, 6, 'c') && are(25, u64::MAX, 'c'));
        assert!(are(0, 20, 'a') && are(13, 7, 'a') && are(24, 100, 'b'));
        assert!(!are(13, 8, 'a') && !are(24, 1, 'a') && !are(0, 11, 'b') && !are(13, 1, 'b'));
    }

    #[test]
    fn pages_mapped_twice_stay_until_both_are_gone() {
        let mut ranges = Ranges::default();
        ranges.add(0, 10, ());
        ranges.add(5, 10, ());
        // A piece of the first and then the whole second one, whichever the pages are taken from.
        ranges.remove(5, 5);
        assert!(ranges.covers(0, 15));
        ranges.remove(5, 10);
        assert!(ranges.covers(0, 5) && !ranges.covers(5, 1));
        assert_eq!(ranges.pages(), 5);
    }

    #[test]
    fn counts_are_those_of_a_plain_array() {
        // Random mappings and unmappings against an array of counts, as the kernel has them.
        let mut state = 12345_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut ranges = Ranges::default();
            let mut counts = [0_u32; 32];
            let mut mapped: Vec<(u64, u64)> = Vec::new();
            for _ in 0..40 {
                if random(2) == 0 || mapped.is_empty() {
                    let first = random(32);
                    let pages = 1 + random(32 - first);
                    mapped.push((first, pages));
                    ranges.add(first, pages, ());
                    (first..first + pages).for_each(|page| counts[page as usize] += 1);
                } else {
                    // One piece of one mapping goes, and splits it.
                    let (first, pages) = mapped.swap_remove(random(mapped.len() as u64) as usize);
                    let start = first + random(pages);
                    let count = 1 + random(first + pages - start);
                    mapped.push((first, start - first));
                    mapped.push((start + count, first + pages - start - count));
                    mapped.retain(|&(_, pages)| pages > 0);
                    let removed: u64 = ranges.remove(start, count).iter().map(|r| r.pages).sum();
                    assert_eq!(removed, count);
                    (start..start + count).for_each(|page| counts[page as usize] -= 1);
                }
                for page in 0..32 {
                    assert_eq!(ranges.covers(page, 1), counts[page as usize] > 0);
                }
                assert_eq!(
                    ranges.pages(),
                    counts.iter().copied().map(u64::from).sum::<u64>()
                );
            }
        }
    }
}
