//! Patterns of file names, for `fnmatch` and `glob`.

use bitflags::bitflags;

bitflags! {
    /// How a pattern is compared: the flags of `fnmatch`, with relibc's numbers.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Rules: i32 {
        /// `\` is an ordinary character.
        const NOESCAPE = 1;
        /// Only a `/` matches a `/`.
        const PATHNAME = 2;
        /// Only a `.` matches a `.` at the beginning of a name.
        const PERIOD = 4;
        /// Upper and lower case are the same.
        const CASEFOLD = 8;
        /// The match may end before a `/`; the rest of the text does not count.
        const LEADING_DIR = 16;
    }
}

/// One element of a pattern.
#[derive(Clone, Copy, Debug)]
enum Element<'a> {
    /// This character.
    Character(char),
    /// `?`
    Any,
    /// `*`
    Star,
    /// The inside of `[…]`.
    Set(&'a [u8]),
}

/// Whether a text matches a pattern. Both are UTF-8; any other byte matches only itself.
pub fn matches(pattern: &[u8], text: &[u8], rules: Rules) -> bool {
    let (mut at, mut place) = (0, 0);
    // The place after the last star in the pattern, and the place in the text where it was tried.
    // Earlier stars need no further try: what lies between two stars has matched at its first
    // place, and with `PATHNAME` no star matches a `/`.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let next = first_of(&text[place..]);
        match element(&pattern[at..], rules) {
            None if next.is_none() => return true,
            None if rules.contains(Rules::LEADING_DIR) && text[place] == b'/' => return true,
            Some((Element::Star, length)) if !is_hidden(text, place, rules) => {
                at += length;
                star = Some((at, place));
                continue;
            }
            Some((element, length)) => {
                if let Some((character, bytes)) = next
                    && fits(element, character, text, place, rules)
                {
                    (at, place) = (at + length, place + bytes);
                    continue;
                }
            }
            None => {}
        }
        // Lets the last star match one more character.
        let Some((behind, tried)) = star else {
            return false;
        };
        let Some((character, bytes)) = first_of(&text[tried..]) else {
            return false;
        };
        if character == '/' && rules.contains(Rules::PATHNAME) {
            return false;
        }
        star = Some((behind, tried + bytes));
        (at, place) = (behind, tried + bytes);
    }
}

/// Whether a pattern has special characters, so that it may match several texts.
pub fn is_pattern(pattern: &[u8], rules: Rules) -> bool {
    let mut rest = pattern;
    while let Some((element, length)) = element(rest, rules) {
        if !matches!(element, Element::Character(_)) {
            return true;
        }
        rest = &rest[length..];
    }
    false
}

/// The text that a pattern without special characters matches.
pub fn literal(pattern: &[u8], rules: Rules) -> alloc::vec::Vec<u8> {
    let mut text = alloc::vec::Vec::new();
    let mut rest = pattern;
    while let Some((_, length)) = element(rest, rules) {
        let is_escaped = length > 1 && rest[0] == b'\\';
        text.extend(&rest[usize::from(is_escaped)..length]);
        rest = &rest[length..];
    }
    text
}

/// Whether the character at this place begins a hidden name, which special characters do not
/// match.
fn is_hidden(text: &[u8], place: usize, rules: Rules) -> bool {
    let begins = || place == 0 || rules.contains(Rules::PATHNAME) && text[place - 1] == b'/';
    rules.contains(Rules::PERIOD) && text.get(place) == Some(&b'.') && begins()
}

fn fits(element: Element<'_>, character: char, text: &[u8], place: usize, rules: Rules) -> bool {
    let is_free = || {
        let is_slash = character == '/' && rules.contains(Rules::PATHNAME);
        !is_slash && !is_hidden(text, place, rules)
    };
    match element {
        Element::Character(wanted) => is_same(wanted, character, rules),
        Element::Any => is_free(),
        Element::Set(set) => is_free() && is_in(set, character, rules),
        Element::Star => false,
    }
}

fn is_same(one: char, other: char, rules: Rules) -> bool {
    let folds = rules.contains(Rules::CASEFOLD);
    one == other || folds && one.to_lowercase().eq(other.to_lowercase())
}

/// The first character of a text, and its length in bytes.
fn first_of(text: &[u8]) -> Option<(char, usize)> {
    let chunk = text.utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(character) => Some((character, character.len_utf8())),
        // A number that no character of a text has.
        None => Some((char::from_u32(0x10_FF00 | u32::from(text[0]))?, 1)),
    }
}

/// The first element of a pattern, and its length in bytes.
fn element(pattern: &[u8], rules: Rules) -> Option<(Element<'_>, usize)> {
    let (first, bytes) = first_of(pattern)?;
    let special = match first {
        '?' => Some((Element::Any, 1)),
        '*' => Some((Element::Star, 1)),
        '[' => end_of_set(pattern, rules).map(|end| (Element::Set(&pattern[1..end]), end + 1)),
        '\\' if !rules.contains(Rules::NOESCAPE) => {
            let escaped = first_of(&pattern[1..]);
            escaped.map(|(character, bytes)| (Element::Character(character), bytes + 1))
        }
        _ => None,
    };
    special.or(Some((Element::Character(first), bytes)))
}

/// The place of the `]` that ends a set. `None` if there is none, so that the `[` matches itself.
fn end_of_set(pattern: &[u8], rules: Rules) -> Option<usize> {
    let mut at = 1;
    if matches!(pattern.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    let begin = at;
    loop {
        match *pattern.get(at)? {
            b']' if at > begin => return Some(at),
            b'/' if rules.contains(Rules::PATHNAME) => return None,
            b'[' => at = end_of_class(pattern, at).unwrap_or(at) + 1,
            b'\\' if !rules.contains(Rules::NOESCAPE) => at += 2,
            _ => at += 1,
        }
    }
}

/// The place of the last byte of a `[:…:]`, `[=…=]` or `[.….]` that begins here.
fn end_of_class(pattern: &[u8], at: usize) -> Option<usize> {
    let mark = *pattern.get(at + 1)?;
    if !matches!(mark, b':' | b'=' | b'.') {
        return None;
    }
    let inside = pattern.get(at + 2..)?;
    let length = inside.windows(2).position(|pair| pair == [mark, b']'])?;
    Some(at + 2 + length + 1)
}

/// Whether a set contains a character.
fn is_in(set: &[u8], character: char, rules: Rules) -> bool {
    let (is_not, mut rest) = match set {
        [b'!' | b'^', rest @ ..] => (true, rest),
        _ => (false, set),
    };
    let mut found = false;
    while !rest.is_empty() {
        if rest[0] == b'['
            && rest.get(1) == Some(&b':')
            && let Some(end) = end_of_class(rest, 0)
        {
            found |= is_of_class(&rest[2..end - 1], character, rules);
            rest = &rest[end + 1..];
            continue;
        }
        let Some((from, bytes)) = member(rest, rules) else {
            break;
        };
        rest = &rest[bytes..];
        let mut to = from;
        if let [b'-', behind @ ..] = rest
            && let Some((end, bytes)) = member(behind, rules)
        {
            to = end;
            rest = &behind[bytes..];
        }
        found |= (from..=to).contains(&character);
        if rules.contains(Rules::CASEFOLD) {
            let mut cases = character.to_lowercase().chain(character.to_uppercase());
            found |= cases.any(|case| (from..=to).contains(&case));
        }
    }
    found != is_not
}

/// The first character inside a set, and the length in bytes of its text there.
fn member(set: &[u8], rules: Rules) -> Option<(char, usize)> {
    match set {
        [b'[', b'=' | b'.', inside @ ..] => match end_of_class(set, 0) {
            Some(end) => first_of(inside).map(|(character, _)| (character, end + 1)),
            None => Some(('[', 1)),
        },
        [b'\\', behind @ ..] if !rules.contains(Rules::NOESCAPE) => match first_of(behind) {
            Some((character, bytes)) => Some((character, bytes + 1)),
            None => Some(('\\', 1)),
        },
        _ => first_of(set),
    }
}

fn is_of_class(name: &[u8], character: char, rules: Rules) -> bool {
    let is_letter = |is_case: bool| {
        let folds = rules.contains(Rules::CASEFOLD);
        is_case || folds && (character.is_lowercase() || character.is_uppercase())
    };
    match name {
        b"alnum" => character.is_alphanumeric(),
        b"alpha" => character.is_alphabetic(),
        b"blank" => matches!(character, ' ' | '\t'),
        b"cntrl" => character.is_control(),
        b"digit" => character.is_ascii_digit(),
        b"graph" => !character.is_control() && !character.is_whitespace(),
        b"lower" => is_letter(character.is_lowercase()),
        b"print" => !character.is_control(),
        b"punct" => {
            !character.is_alphanumeric() && !character.is_control() && !character.is_whitespace()
        }
        b"space" => character.is_whitespace(),
        b"upper" => is_letter(character.is_uppercase()),
        b"xdigit" => character.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_posix_says() {
        let none = Rules::empty();
        let path = Rules::PATHNAME;
        let hidden = Rules::PERIOD;
        let both = path.union(hidden);
        let cases: &[(&str, &str, Rules, bool)] = &[
            ("", "", none, true),
            ("", "a", none, false),
            ("*", "", none, true),
            ("*", "a/b", none, true),
            ("*", "a/b", path, false),
            ("*/*", "a/b", path, true),
            ("*/b", "a/c/b", path, false),
            ("*/b", "a/c/b", none, true),
            ("a*b*c", "aXbYbZc", none, true),
            ("a*b*c", "aXbYbZd", none, false),
            ("*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", none, false),
            ("?", "ä", none, true),
            ("??", "ä", none, false),
            ("*.c", ".c", none, true),
            ("*.c", ".c", hidden, false),
            ("?c", ".c", hidden, false),
            ("[.]c", ".c", hidden, false),
            (".*", ".c", hidden, true),
            ("a/*", "a/.c", hidden, true),
            ("a/*", "a/.c", both, false),
            ("a/.*", "a/.c", both, true),
            ("a\\*", "a*", none, true),
            ("a\\*", "ab", none, false),
            ("a\\*", "a\\b", Rules::NOESCAPE, true),
            ("\\", "\\", none, true),
            ("[abc]", "b", none, true),
            ("[a-c]x", "bx", none, true),
            ("[!a-c]", "b", none, false),
            ("[^a-c]", "d", none, true),
            ("[]a]", "]", none, true),
            ("[!]a]", "]", none, false),
            ("[a", "[a", none, true),
            ("[a-]", "-", none, true),
            ("[--0]", ".", none, true),
            ("[[:digit:]x]", "7", none, true),
            ("[[:digit:]x]", "x", none, true),
            ("[[:upper:]]", "a", none, false),
            ("[[:upper:]]", "a", Rules::CASEFOLD, true),
            ("[[=a=]b]", "a", none, true),
            ("[[.-.]b]", "-", none, true),
            ("[a/b]", "/", none, true),
            ("a[/]b", "a/b", path, false),
            ("a[/]b", "a[/]b", path, true),
            ("[\\]]", "]", none, true),
            ("ABC", "abc", Rules::CASEFOLD, true),
            ("[A-C]", "b", Rules::CASEFOLD, true),
            ("a", "a/b", Rules::LEADING_DIR, true),
            ("a*", "ab/c/d", Rules::LEADING_DIR.union(path), true),
            ("b", "a/b", Rules::LEADING_DIR, false),
        ];
        for (pattern, text, rules, held) in cases {
            let found = matches(pattern.as_bytes(), text.as_bytes(), *rules);
            assert_eq!(found, *held, "{pattern} and {text} by {rules:?}");
        }
        assert!(matches(b"a?b", b"a\xffb", none) && !matches(b"a\xfeb", b"a\xffb", none));
    }

    #[test]
    fn a_pattern_without_special_characters_is_a_text() {
        let none = Rules::empty();
        assert!(is_pattern(b"a*", none) && is_pattern(b"[a]", none) && is_pattern(b"?", none));
        assert!(!is_pattern(b"a\\*b[", none) && is_pattern(b"a\\*b", Rules::NOESCAPE));
        assert_eq!(literal(b"a\\*b[\\\\", none), b"a*b[\\");
        assert_eq!(literal(b"a\\", none), b"a\\");
        assert_eq!(literal("ä\\ö".as_bytes(), none), "äö".as_bytes());
    }
}
