//! `sort`: the order of lines.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// How keys are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// By the number at the beginning.
    pub numeric: bool,
    /// In reverse order.
    pub reverse: bool,
    /// Upper and lower case are the same.
    pub fold: bool,
}

impl Comparison {
    /// Sets the option of a letter. Returns false if there is none.
    pub fn set(&mut self, letter: char) -> bool {
        match letter {
            'n' => self.numeric = true,
            'r' => self.reverse = true,
            'f' => self.fold = true,
            _ => return false,
        }
        true
    }
}

/// A part of lines to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// First field, from 1.
    first: usize,
    /// Last field, included.
    last: usize,
    /// Its own comparison; `None` for the comparison of all keys.
    comparison: Option<Comparison>,
}

impl Key {
    /// Parses `2`, `2,3`, `2n`, `2,2nr`; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut comparison = Comparison::default();
        let mut part = |text: &str| {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            let (number, letters) = text.split_at(digits);
            let known = letters.chars().all(|letter| comparison.set(letter));
            number
                .parse::<usize>()
                .ok()
                .filter(|number| *number > 0 && known)
        };
        let (first, last) = match text.split_once(',') {
            Some((first, last)) => (part(first)?, part(last)?),
            None => (part(text)?, usize::MAX),
        };
        Some(Key {
            first,
            last,
            comparison: (comparison != Comparison::default()).then_some(comparison),
        })
    }
}

/// The key that decides the order.
#[derive(Clone, Debug, Default)]
pub struct Sorting {
    /// The comparison of all keys without one of their own.
    pub comparison: Comparison,
    /// The separator of fields; `None` if they begin where blanks begin.
    pub separator: Option<u8>,
    /// The keys, most significant first; none for whole lines.
    pub keys: Vec<Key>,
    /// Whether only the first of equal lines is kept.
    pub unique: bool,
}

impl Sorting {
    /// Sorts lines without their ends.
    pub fn sort(&self, lines: &mut Vec<Vec<u8>>) {
        if self.unique {
            lines.sort_by(|a, b| self.compare_keys(a, b));
            lines.dedup_by(|a, b| self.compare_keys(a, b).is_eq());
            return;
        }
        lines.sort_by(|a, b| {
            // If the keys are equal, the whole line decides.
            let whole = if self.comparison.reverse {
                b.cmp(a)
            } else {
                a.cmp(b)
            };
            self.compare_keys(a, b).then(whole)
        });
    }

    fn compare_keys(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.keys.is_empty() {
            return compare(a, b, self.comparison);
        }
        let orders = self.keys.iter().map(|key| {
            let comparison = key.comparison.unwrap_or(self.comparison);
            compare(self.part(a, key), self.part(b, key), comparison)
        });
        orders.fold(Ordering::Equal, Ordering::then)
    }

    fn part<'a>(&self, line: &'a [u8], key: &Key) -> &'a [u8] {
        let mut starts = Vec::from([0]);
        for (index, byte) in line.iter().enumerate() {
            let begins = match self.separator {
                Some(separator) => *byte == separator,
                // Blanks before a field belong to it.
                None => is_blank(*byte) && index > 0 && !is_blank(line[index - 1]),
            };
            if begins {
                starts.push(index + usize::from(self.separator.is_some()));
            }
        }
        let start = starts.get(key.first - 1).copied().unwrap_or(line.len());
        let end = match starts.get(key.last) {
            Some(next) => next - usize::from(self.separator.is_some()),
            None => line.len(),
        };
        line.get(start..end).unwrap_or(&[])
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn compare(a: &[u8], b: &[u8], comparison: Comparison) -> Ordering {
    let order = if comparison.numeric {
        compare_numbers(a, b)
    } else if comparison.fold {
        let upper = |byte: &u8| byte.to_ascii_uppercase();
        a.iter().map(upper).cmp(b.iter().map(upper))
    } else {
        a.cmp(b)
    };
    if comparison.reverse {
        order.reverse()
    } else {
        order
    }
}

/// A number as text: its sign, the digits before the point and those behind it.
fn number(text: &[u8]) -> (bool, &[u8], &[u8]) {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    let text = &text[blanks..];
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let zeros = text.iter().take_while(|byte| **byte == b'0').count();
    let text = &text[zeros..];
    let (whole, rest) = text.split_at(digits(text));
    let fraction = rest.strip_prefix(b".").unwrap_or(&[]);
    let mut fraction = &fraction[..digits(fraction)];
    while let Some(shorter) = fraction.strip_suffix(b"0") {
        fraction = shorter;
    }
    let zero = whole.is_empty() && fraction.is_empty();
    (negative && !zero, whole, fraction)
}

/// Compares numbers of any length by value. Text that is no number counts as 0.
fn compare_numbers(a: &[u8], b: &[u8]) -> Ordering {
    let (a_negative, a, a_fraction) = number(a);
    let (b_negative, b, b_fraction) = number(b);
    let size = a
        .len()
        .cmp(&b.len())
        .then(a.cmp(b))
        .then(a_fraction.cmp(b_fraction));
    match (a_negative, b_negative) {
        (false, false) => size,
        (true, true) => size.reverse(),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn sorted(sorting: &Sorting, text: &str) -> String {
        let mut lines: Vec<Vec<u8>> = text.split('|').map(|line| line.into()).collect();
        sorting.sort(&mut lines);
        String::from_utf8(lines.join(&b'|')).unwrap()
    }

    fn comparison(letters: &str) -> Sorting {
        let mut sorting = Sorting::default();
        assert!(letters.chars().all(|letter| sorting.comparison.set(letter)));
        sorting
    }

    #[test]
    fn comparisons() {
        assert_eq!(sorted(&comparison(""), "b|a|B|10|9"), "10|9|B|a|b");
        assert_eq!(sorted(&comparison("r"), "b|a|c"), "c|b|a");
        assert_eq!(sorted(&comparison("f"), "b|C|A|a"), "A|a|b|C");
        assert_eq!(
            sorted(&comparison("n"), "10|9|-1|x|1.5|1.25|-10|007|0"),
            "-10|-1|0|x|1.25|1.5|007|9|10"
        );
        assert_eq!(sorted(&comparison("nr"), "1|3|2"), "3|2|1");
        let unique = Sorting {
            unique: true,
            ..comparison("f")
        };
        assert_eq!(sorted(&unique, "b|A|a|B|b"), "A|b");
    }

    #[test]
    fn keys() {
        let by = |separator: Option<u8>, keys: &[&str]| Sorting {
            separator,
            keys: keys.iter().map(|key| Key::parse(key).unwrap()).collect(),
            ..Sorting::default()
        };
        assert_eq!(sorted(&by(None, &["2n"]), "a 10|b 9|c 8"), "c 8|b 9|a 10");
        assert_eq!(
            sorted(&by(Some(b':'), &["2,2"]), "a:y:1|b:x:2"),
            "b:x:2|a:y:1"
        );
        assert_eq!(
            sorted(&by(Some(b':'), &["1,1", "2,2nr"]), "b:1|a:1|a:10|a:9"),
            "a:10|a:9|a:1|b:1"
        );
        // A missing field is empty.
        assert_eq!(sorted(&by(Some(b':'), &["3"]), "a:b:c|d"), "d|a:b:c");
        for bad in ["", "0", "x", "1,", "1x", "1,0"] {
            assert_eq!(Key::parse(bad), None, "{bad}");
        }
    }
}
