//! The search for a sequence within a text whose length is not known, for `strstr` and its kin.
//!
//! The text is read from its start and no further than the match goes, so a match near the start
//! of a long text is found quickly. The time is proportional to the lengths, whatever is searched:
//! the method of Crochemore and Perrin ("Two-way string-matching"), which needs no memory.

use core::cmp::Ordering;

/// Returns the place of the first occurrence of a sequence in a text. The sequence has `length`
/// elements, which `wanted` gives. `reaches(n)` says whether the text has `n` elements; it is
/// asked before `at` reads one of these elements.
pub fn find<T: Ord>(
    length: usize,
    wanted: impl Fn(usize) -> T,
    mut reaches: impl FnMut(usize) -> bool,
    mut at: impl FnMut(usize) -> T,
) -> Option<usize> {
    // A sequence that is longer than the text is not looked at.
    if !reaches(length) {
        return None;
    }
    let (cut, period) = critical(length, &wanted);
    // If the part before the cut is repeated after one period, so is the whole. A try that fails
    // in this part then leaves a known beginning for the next one, or else nothing.
    let repeats =
        cut + period <= length && (0..cut).all(|place| wanted(place) == wanted(place + period));
    let step = match repeats {
        true => period,
        false => cut.max(length - cut) + 1,
    };
    let mut start = 0;
    let mut known = 0;
    loop {
        // The part behind the cut, forwards. The end of the text shows when it is reached.
        let mut place = cut.max(known);
        while place < length {
            if !reaches(start + place + 1) {
                return None;
            }
            if wanted(place) != at(start + place) {
                break;
            }
            place += 1;
        }
        if place < length {
            start += place + 1 - cut;
            known = 0;
            continue;
        }
        // The part before it, backwards.
        let differs = (known..cut)
            .rev()
            .any(|place| wanted(place) != at(start + place));
        if !differs {
            return Some(start);
        }
        start += step;
        known = if repeats { length - step } else { 0 };
    }
}

/// A place at which to cut a sequence in two so that the smallest repetition around the cut is as
/// long as the smallest period of the sequence, and the period of the part behind it.
fn critical<T: Ord>(length: usize, element: &impl Fn(usize) -> T) -> (usize, usize) {
    let forwards = greatest_end(length, element, T::cmp);
    let backwards = greatest_end(length, element, |a, b| b.cmp(a));
    // The later of the two cuts is the right one.
    if forwards.0 > backwards.0 {
        forwards
    } else {
        backwards
    }
}

/// Where the greatest of the ends of a sequence begins, in an order of its elements, and that
/// end's period.
fn greatest_end<T>(
    length: usize,
    element: &impl Fn(usize) -> T,
    order: impl Fn(&T, &T) -> Ordering,
) -> (usize, usize) {
    let (mut greatest, mut other) = (0, 1);
    // Both ends are equal in so many elements.
    let mut same = 0;
    let mut period = 1;
    while other + same < length {
        match order(&element(other + same), &element(greatest + same)) {
            Ordering::Less => {
                other += same + 1;
                same = 0;
                period = other - greatest;
            }
            Ordering::Equal => {
                same += 1;
                if same == period {
                    other += period;
                    same = 0;
                }
            }
            Ordering::Greater => {
                greatest = other;
                other += 1;
                same = 0;
                period = 1;
            }
        }
    }
    (greatest, period)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::vec::Vec;

    use super::find;

    /// The place and how many elements were compared.
    fn searched(text: &[u8], wanted: &[u8]) -> (Option<usize>, usize) {
        let compared = Cell::new(0);
        let reached = Cell::new(0);
        let found = find(
            wanted.len(),
            |place| wanted[place],
            |count| {
                reached.set(count.max(reached.get()));
                count <= text.len()
            },
            |place| {
                assert!(
                    place < reached.get(),
                    "read before it was known to be there"
                );
                compared.set(compared.get() + 1);
                text[place]
            },
        );
        if let Some(found) = found {
            assert!(
                reached.get() <= found + wanted.len(),
                "looked behind the match"
            );
        }
        (found, compared.get())
    }

    #[test]
    fn a_long_sequence_is_not_looked_at_in_a_short_text() {
        let wanted = |_| -> u8 { panic!("it was") };
        assert_eq!(find(1000, wanted, |count| count <= 999, |_| b'a'), None);
    }

    /// All texts of this length over the letters a and b.
    fn texts(length: u32) -> impl Iterator<Item = Vec<u8>> {
        (0..1_u32 << length).map(move |bits| {
            (0..length)
                .map(|bit| b'a' + (bits >> bit & 1) as u8)
                .collect()
        })
    }

    #[test]
    fn every_short_sequence_is_found_where_it_is() {
        for wanted in (0..7).flat_map(texts) {
            for text in (0..11).flat_map(texts) {
                let first = match wanted.is_empty() {
                    true => Some(0),
                    false => text.windows(wanted.len()).position(|part| part == wanted),
                };
                assert_eq!(searched(&text, &wanted).0, first, "{wanted:?} in {text:?}");
            }
        }
    }

    #[test]
    fn the_time_grows_with_the_lengths_only() {
        let mut ends = std::vec![b'a'; 1000];
        ends[999] = b'b';
        let mut begins = ends.clone();
        begins.reverse();
        let mut middle = std::vec![b'a'; 1001];
        middle[500] = b'b';
        let pairs: Vec<u8> = b"ab".repeat(500);
        let text = std::vec![b'a'; 100_000];
        let alternating: Vec<u8> = b"ab".repeat(50_000);
        for wanted in [&ends, &begins, &middle, &pairs] {
            for text in [&text, &alternating] {
                let (_, compared) = searched(text, wanted);
                assert!(compared <= 2 * text.len(), "{compared} comparisons");
            }
        }
    }
}
