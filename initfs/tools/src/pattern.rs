//! Basic regular expressions for `grep`: literals, `.`, `[…]`, `[^…]`, `*`, `^` at the beginning,
//! `$` at the end, and `\` before a character that is meant literally. Lines are bytes.

use alloc::vec::Vec;

/// What one place of a pattern accepts.
#[derive(Debug)]
enum Atom {
    Byte(u8),
    Any,
    /// The members, as ranges with both ends included; `true`: all other bytes instead.
    Set(Vec<(u8, u8)>, bool),
}

impl Atom {
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Atom::Byte(wanted) => byte == *wanted,
            Atom::Any => true,
            Atom::Set(ranges, others) => {
                ranges
                    .iter()
                    .any(|(low, high)| (*low..=*high).contains(&byte))
                    != *others
            }
        }
    }
}

/// A pattern, read once.
#[derive(Debug)]
pub struct Pattern {
    /// Each atom, and whether it may repeat any number of times.
    parts: Vec<(Atom, bool)>,
    from_start: bool,
    to_end: bool,
}

impl Pattern {
    /// A pattern in which no character has a special meaning.
    pub fn fixed(text: &[u8]) -> Self {
        let parts = text.iter().map(|byte| (Atom::Byte(*byte), false)).collect();
        Self {
            parts,
            from_start: false,
            to_end: false,
        }
    }

    /// Reads a basic regular expression; `None` when a `[` is never closed or `\` ends it.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (from_start, text) = match text.strip_prefix(b"^") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let escaped = text.ends_with(b"\\$") && !text.ends_with(b"\\\\$");
        let (to_end, mut rest) = match text.strip_suffix(b"$") {
            Some(rest) if !escaped => (true, rest),
            _ => (false, text),
        };
        let mut parts: Vec<(Atom, bool)> = Vec::new();
        while let Some((first, tail)) = rest.split_first() {
            rest = tail;
            let atom = match first {
                // A star with nothing before it is itself.
                b'*' => match parts.last_mut() {
                    Some((_, repeats)) => {
                        *repeats = true;
                        continue;
                    }
                    None => Atom::Byte(b'*'),
                },
                b'.' => Atom::Any,
                b'\\' => {
                    let (byte, tail) = rest.split_first()?;
                    rest = tail;
                    Atom::Byte(*byte)
                }
                b'[' => {
                    let (set, tail) = parse_set(rest)?;
                    rest = tail;
                    set
                }
                byte => Atom::Byte(*byte),
            };
            parts.push((atom, false));
        }
        Some(Self {
            parts,
            from_start,
            to_end,
        })
    }

    /// Whether the pattern matches somewhere in the line, which comes without its line feed.
    pub fn matches(&self, line: &[u8]) -> bool {
        let starts = if self.from_start { 0 } else { line.len() };
        (0..=starts).any(|start| self.here(&self.parts, line.get(start..).unwrap_or(&[])))
    }

    fn here(&self, parts: &[(Atom, bool)], line: &[u8]) -> bool {
        let Some(((atom, repeats), rest)) = parts.split_first() else {
            return !self.to_end || line.is_empty();
        };
        if !repeats {
            return line
                .split_first()
                .is_some_and(|(byte, tail)| atom.accepts(*byte) && self.here(rest, tail));
        }
        let most = line.iter().take_while(|byte| atom.accepts(**byte)).count();
        (0..=most).any(|count| self.here(rest, line.get(count..).unwrap_or(&[])))
    }
}

/// Reads a set up to its `]`, which stands for itself in the first place.
fn parse_set(text: &[u8]) -> Option<(Atom, &[u8])> {
    let (others, mut rest) = match text.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut ranges = Vec::new();
    loop {
        let (low, tail) = rest.split_first()?;
        if *low == b']' && !ranges.is_empty() {
            return Some((Atom::Set(ranges, others), tail));
        }
        match tail {
            [b'-', high, tail @ ..] if *high != b']' => {
                ranges.push((*low, *high));
                rest = tail;
            }
            _ => {
                ranges.push((*low, *low));
                rest = tail;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_any_grep() {
        for (pattern, line, wanted) in [
            ("card", "1     card  online", true),
            ("^1 ", "1     card  online", true),
            ("^1 ", "0 1 ", false),
            ("", "", true),
            ("^$", "", true),
            ("^$", "x", false),
            ("a.c", "xabcx", true),
            ("ab*c$", "ac", true),
            ("ab*c$", "abbbc", true),
            ("ab*c$", "abbbcd", false),
            ("[0-9][0-9]*", "port 2050", true),
            ("^[^0-9]*$", "port 2050", false),
            ("[]x]", "]", true),
            ("a\\.b", "axb", false),
            ("a\\.b", "a.b", true),
            ("5\\$", "5$", true),
            ("*", "a*b", true),
            (".*.*.*z", "aaaaaaaaaaaaaaaa", false),
        ] {
            let parsed = Pattern::parse(pattern.as_bytes()).unwrap();
            assert_eq!(
                parsed.matches(line.as_bytes()),
                wanted,
                "{pattern} in {line}"
            );
        }
        assert!(Pattern::parse(b"[a").is_none());
        assert!(Pattern::parse(b"a\\").is_none());
        assert!(Pattern::fixed(b"a.c").matches(b"xa.cx"));
        assert!(!Pattern::fixed(b"a.c").matches(b"abc"));
    }
}
