//! `tr`: characters for characters.

use alloc::string::String;
use alloc::vec::Vec;

/// A character by its number, or a byte that is no part of one: [`BYTE`] and the byte.
type Symbol = u32;

/// Above the numbers of all characters.
const BYTE: Symbol = 0x11_0000;

/// A replacement of characters.
#[derive(Debug)]
pub struct Translation {
    from: Vec<Symbol>,
    to: Vec<Symbol>,
    complement: bool,
    delete: bool,
    /// The characters of which several in a row become one.
    squeezed: Option<Vec<Symbol>>,
    last: Option<Symbol>,
    /// Whether the text is bytes and not characters, as a set has a byte above ASCII (`\377`).
    of_bytes: bool,
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
        let of_bytes = from.iter().chain(&to).any(|symbol| *symbol >= BYTE);
        Ok(Self {
            of_bytes,
            from,
            to: if delete { Vec::new() } else { to },
            complement,
            delete,
            squeezed,
            last: None,
        })
    }

    /// Translates the next piece of text, which has whole characters. What is no text stays as it
    /// is.
    pub fn apply(&mut self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        if self.of_bytes {
            text.iter().for_each(|byte| self.push(raw(*byte), &mut out));
            return out;
        }
        for chunk in text.utf8_chunks() {
            for c in chunk.valid().chars() {
                self.push(c.into(), &mut out);
            }
            for byte in chunk.invalid() {
                self.push(raw(*byte), &mut out);
            }
        }
        out
    }

    /// Translates a character.
    fn push(&mut self, symbol: Symbol, out: &mut Vec<u8>) {
        let place = match self.from.iter().position(|known| *known == symbol) {
            None if self.complement => Some(usize::MAX),
            Some(_) if self.complement => None,
            place => place,
        };
        let symbol = match place {
            Some(_) if self.delete => return,
            // A second set that is too short goes on with its last character.
            Some(place) => *self.to.get(place).or(self.to.last()).unwrap_or(&symbol),
            None => symbol,
        };
        let squeezes = match &self.squeezed {
            // With -c alone the other characters are squeezed.
            Some(set) => {
                set.contains(&symbol) != (self.complement && self.to.is_empty() && !self.delete)
            }
            None => false,
        };
        if squeezes && self.last == Some(symbol) {
            return;
        }
        self.last = Some(symbol);
        match char::from_u32(symbol) {
            Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            None => out.push(symbol as u8),
        }
    }
}

/// A byte that need not be text.
fn raw(byte: u8) -> Symbol {
    match byte {
        0..128 => byte.into(),
        byte => BYTE + Symbol::from(byte),
    }
}

/// The members of a set, in order.
fn set(text: &str) -> Option<Vec<Symbol>> {
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
                // Between ASCII and a byte above it there are no characters.
                match first < BYTE && last >= BYTE {
                    true => members.extend((first..128).chain(raw(128)..=last)),
                    false => members.extend(first..=last),
                }
            }
            None => members.push(first),
        }
    }
    Some(members)
}

/// A character, which may be written with a backslash, and the rest of the text.
fn member(text: &str) -> Option<(Symbol, &str)> {
    let mut characters = text.chars();
    let first = characters.next()?;
    if first != '\\' {
        return Some((first.into(), characters.as_str()));
    }
    let rest = characters.as_str();
    let digits = rest
        .bytes()
        .take(3)
        .take_while(|b| (b'0'..b'8').contains(b));
    let digits = digits.count();
    if digits > 0 {
        let byte = u8::from_str_radix(&rest[..digits], 8).ok()?;
        return Some((raw(byte), &rest[digits..]));
    }
    let Some(second) = characters.next() else {
        return Some(('\\'.into(), rest));
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
    Some((c.into(), characters.as_str()))
}

fn class(name: &str) -> Option<Vec<Symbol>> {
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
    Some(
        (0..128u8)
            .filter(|byte| is(&char::from(*byte)))
            .map(raw)
            .collect(),
    )
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
        let out: Vec<u8> = pieces
            .flat_map(|piece| translation.apply(piece.as_bytes()))
            .collect();
        Ok(String::from_utf8(out).unwrap())
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
    fn bytes_that_are_no_text() {
        /// Flags, sets, input and output.
        type Case<'a> = (&'a str, &'a [&'a str], &'a [u8], &'a [u8]);
        let cases: &[Case<'_>] = &[
            ("", &["\\0", "\\377"], b"a\0b", b"a\xffb"),
            ("d", &["\\r"], b"\xff\r\n\x80", b"\xff\n\x80"),
            ("d", &["\\177-\\377"], "aä\u{7f}b".as_bytes(), b"ab"),
            ("", &["\\303\\244", "ae"], "ä".as_bytes(), b"ae"),
            ("", &["ä", "x"], b"\xc3\xa4\xc3", b"x\xc3"),
        ];
        for (flags, sets, text, expected) in cases {
            let words: Vec<String> = sets.iter().map(|set| String::from(*set)).collect();
            let delete = *flags == "d";
            let mut translation = Translation::new(false, delete, false, &words).unwrap();
            assert_eq!(translation.apply(text), *expected, "{sets:?}");
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
