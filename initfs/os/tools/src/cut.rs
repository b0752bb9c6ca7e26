//! `cut`: parts of lines.

use alloc::vec::Vec;

/// The unit that a list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Characters.
    Characters,
    /// Fields, between separators; lines without one are left out, or printed whole.
    Fields {
        /// The character between fields.
        separator: char,
        /// Whether lines without the separator are left out.
        only: bool,
    },
}

/// Numbers from 1, as ranges with both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List(Vec<(usize, usize)>);

impl List {
    /// Parses `1,3-5,7-,-2`; `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok().filter(|number| *number > 0);
        let range = |text: &str| {
            Some(match text.split_once('-') {
                None => (number(text)?, number(text)?),
                Some(("", "")) => return None,
                Some((first, "")) => (number(first)?, usize::MAX),
                Some(("", last)) => (1, number(last)?),
                Some((first, last)) => (number(first)?, number(last)?),
            })
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let ranges = ranges?;
        ranges
            .iter()
            .all(|(first, last)| first <= last)
            .then_some(Self(ranges))
    }

    fn has(&self, number: usize) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
    }
}

/// The selected parts of a line, which is given without its end; `None` if the line is left out.
pub fn line(line: &[u8], list: &List, unit: Unit) -> Option<Vec<u8>> {
    match unit {
        Unit::Bytes => {
            let bytes = (1..).zip(line).filter(|(number, _)| list.has(*number));
            Some(bytes.map(|(_, byte)| *byte).collect())
        }
        Unit::Characters => {
            let mut out = Vec::new();
            let mut number = 0;
            for byte in line {
                // The bytes within a character belong to its first one.
                if byte & 0xc0 != 0x80 {
                    number += 1;
                }
                if list.has(number) {
                    out.push(*byte);
                }
            }
            Some(out)
        }
        Unit::Fields { separator, only } => {
            let mut bytes = [0; 4];
            let separator = separator.encode_utf8(&mut bytes).as_bytes();
            let fields = split(line, separator);
            if fields.len() == 1 {
                return (!only).then(|| line.into());
            }
            let wanted = (1..).zip(fields).filter(|(number, _)| list.has(*number));
            let wanted: Vec<&[u8]> = wanted.map(|(_, field)| field).collect();
            Some(wanted.join(separator))
        }
    }
}

/// Splits at each separator.
fn split<'a>(mut line: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut fields = Vec::new();
    while let Some(at) = line
        .windows(separator.len())
        .position(|window| window == separator)
    {
        fields.push(&line[..at]);
        line = &line[at + separator.len()..];
    }
    fields.push(line);
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str, list: &str, unit: Unit) -> Option<alloc::string::String> {
        let bytes = line(text.as_bytes(), &List::parse(list).unwrap(), unit)?;
        Some(alloc::string::String::from_utf8_lossy(&bytes).into())
    }

    #[test]
    fn lists() {
        for bad in ["", "0", "3-2", "a", "1,,2", "-", "1-2-3"] {
            assert_eq!(List::parse(bad), None, "{bad}");
        }
        let list = List::parse("2,4-5,8-").unwrap();
        let had: Vec<usize> = (1..10).filter(|number| list.has(*number)).collect();
        assert_eq!(had, [2, 4, 5, 8, 9]);
    }

    #[test]
    fn parts() {
        assert_eq!(cut("abcdef", "1,3-4", Unit::Bytes).as_deref(), Some("acd"));
        assert_eq!(cut("aéöz", "2-3", Unit::Characters).as_deref(), Some("éö"));
        let fields = |separator, only| Unit::Fields { separator, only };
        // The parts come in the order of the line.
        assert_eq!(
            cut("a:b:c", "3,1", fields(':', false)).as_deref(),
            Some("a:c")
        );
        assert_eq!(
            cut("a→b→c", "2-", fields('→', false)).as_deref(),
            Some("b→c")
        );
        assert_eq!(cut("a::c", "2", fields(':', false)).as_deref(), Some(""));
        assert_eq!(
            cut("none", "2", fields(':', false)).as_deref(),
            Some("none")
        );
        assert_eq!(cut("none", "2", fields(':', true)), None);
    }
}
