//! `tr`: characters for characters.

use alloc::string::String;
use alloc::vec::Vec;

/// A replacement of characters.
#[derive(Debug)]
pub struct Translation {
    from: Vec<char>,
    to: Vec<char>,
    complement: bool,
    delete: bool,
    /// The characters of which several in a row become one.
    squeezed: Option<Vec<char>>,
    last: Option<char>,
}

impl Translation {
    /// A translation by the options `-c`, `-d`, `-s` and the sets.
    ///
    /// # Errors
    /// The error, as text for people.
    pub fn new(
        complement: bool,
        delete: bool,
        squeeze: bool,
        sets: &[String],
    ) -> Result<Self, &'static str> {
        let (from, to) = match sets {
            [from] if delete && !squeeze || squeeze && !delete => (from, None),
            [from, to] if delete == squeeze || !delete => (from, Some(to)),
            [_] => return Err("two sets are needed"),
            _ => return Err("too many or too few sets"),
        };
        let from = set(from).ok_or("a range goes the wrong way, or a class is unknown")?;
        let to = match to {
            Some(to) => set(to).ok_or("a range goes the wrong way, or a class is unknown")?,
            None => Vec::new(),
        };
        if !delete && sets.len() == 2 && to.is_empty() {
            return Err("the second set must not be empty");
        }
        let squeezed = squeeze.then(|| {
            if to.is_empty() {
                from.clone()
            } else {
                to.clone()
            }
        });
        Ok(Self {
            from,
            to: if delete { Vec::new() } else { to },
            complement,
            delete,
            squeezed,
            last: None,
        })
    }

    /// Translates the next piece of text.
    pub fn apply(&mut self, text: &str) -> String {
        let mut out = String::new();
        for c in text.chars() {
            let place = match self.from.iter().position(|known| *known == c) {
                None if self.complement => Some(usize::MAX),
                Some(_) if self.complement => None,
                place => place,
            };
            let c = match place {
                Some(_) if self.delete => continue,
                // A second set that is too short goes on with its last character.
                Some(place) => self.to.get(place).or(self.to.last()).copied().unwrap_or(c),
                None => c,
            };
            let squeezes = match &self.squeezed {
                // With -c alone the other characters are squeezed.
                Some(set) => {
                    set.contains(&c) != (self.complement && self.to.is_empty() && !self.delete)
                }
                None => false,
            };
            if squeezes && self.last == Some(c) {
                continue;
            }
            self.last = Some(c);
            out.push(c);
        }
        out
    }
}

/// The members of a set, in order.
fn set(text: &str) -> Option<Vec<char>> {
    let mut members = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("[:")
            && let Some((name, after)) = after.split_once(":]")
        {
            members.extend(class(name)?);
            rest = after;
            continue;
        }
        let (first, after) = member(rest)?;
        rest = after;
        match rest.strip_prefix('-').filter(|end| !end.is_empty()) {
            Some(end) => {
                let (last, after) = member(end)?;
                rest = after;
                if last < first {
                    return None;
                }
                members.extend(first..=last);
            }
            None => members.push(first),
        }
    }
    Some(members)
}

/// A character, which may be written with a backslash, and the rest of the text.
fn member(text: &str) -> Option<(char, &str)> {
    let mut characters = text.chars();
    let first = characters.next()?;
    if first != '\\' {
        return Some((first, characters.as_str()));
    }
    let rest = characters.as_str();
    let digits = rest
        .bytes()
        .take(3)
        .take_while(|b| (b'0'..b'8').contains(b));
    let digits = digits.count();
    if digits > 0 {
        let number = u32::from_str_radix(&rest[..digits], 8).ok()?;
        return Some((char::from_u32(number)?, &rest[digits..]));
    }
    let Some(second) = characters.next() else {
        return Some(('\\', rest));
    };
    let c = match second {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        other => other,
    };
    Some((c, characters.as_str()))
}

fn class(name: &str) -> Option<Vec<char>> {
    let is: fn(&char) -> bool = match name {
        "alnum" => char::is_ascii_alphanumeric,
        "alpha" => char::is_ascii_alphabetic,
        "blank" => |c| matches!(c, ' ' | '\t'),
        "cntrl" => char::is_ascii_control,
        "digit" => char::is_ascii_digit,
        "graph" => char::is_ascii_graphic,
        "lower" => char::is_ascii_lowercase,
        "print" => |c| *c == ' ' || c.is_ascii_graphic(),
        "punct" => char::is_ascii_punctuation,
        "space" => |c| c.is_ascii_whitespace() || *c == '\u{b}',
        "upper" => char::is_ascii_uppercase,
        "xdigit" => char::is_ascii_hexdigit,
        _ => return None,
    };
    Some((0..128u8).map(char::from).filter(is).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tr(flags: &str, sets: &[&str], text: &str) -> Result<String, &'static str> {
        let sets: Vec<String> = sets.iter().map(|set| String::from(*set)).collect();
        let has = |flag| flags.contains(flag);
        let mut translation = Translation::new(has('c'), has('d'), has('s'), &sets)?;
        // Any division into pieces is the same.
        let pieces = text.split_inclusive(char::is_whitespace);
        Ok(pieces.map(|piece| translation.apply(piece)).collect())
    }

    #[test]
    fn as_people_use_it() {
        let cases: &[(&str, &[&str], &str, &str)] = &[
            ("", &["a-z", "A-Z"], "héllo z", "HéLLO Z"),
            ("", &["[:lower:]", "[:upper:]"], "abc", "ABC"),
            ("", &["abc", "x"], "aabbccd", "xxxxxxd"),
            ("", &["\\n", " "], "a\nb\n", "a b "),
            ("", &["\\101-C", "x-z"], "ABCD", "xyzD"),
            ("", &["a-", "b+"], "a-a", "b+b"),
            ("d", &["0-9"], "a1b22", "ab"),
            ("cd", &["0-9\\n"], "a1b22\n", "122\n"),
            ("s", &[" "], "a   b  c", "a b c"),
            ("s", &["a-z", "A"], "abc d", "A A"),
            ("cs", &["a-z", "\\n"], "one, two  3three", "one\ntwo\nthree"),
            ("ds", &["x", " "], "a x x b", "a b"),
            ("cs", &["a-z"], "aab  cc..", "aab cc."),
        ];
        for (flags, sets, text, expected) in cases {
            assert_eq!(
                tr(flags, sets, text).as_deref(),
                Ok(*expected),
                "{sets:?} {text}"
            );
        }
    }

    #[test]
    fn what_is_wrong() {
        for (flags, sets) in [
            ("", &["a"][..]),
            ("", &[]),
            ("d", &["a", "b"]),
            ("", &["z-a", "x"]),
            ("", &["[:nothing:]", "x"]),
            ("", &["a", ""]),
            ("", &["a", "b", "c"]),
        ] {
            assert!(tr(flags, sets, "").is_err(), "{flags} {sets:?}");
        }
    }
}
