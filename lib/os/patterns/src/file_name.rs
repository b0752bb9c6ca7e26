//! Patterns of file names: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:alpha:]]`, and `\` before a character
//! that stands for itself.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::ControlFlow;

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

/// Most bytes between the marks of a `[:…:]`, `[=…=]` or `[.….]`. The longest name is `xdigit`. The
/// limit keeps a pattern of many beginnings without an end from taking long to read.
const LONGEST_NAME: usize = 16;

/// A pattern, of which it is known where its sets are.
#[derive(Clone, Debug)]
pub struct Pattern<'a> {
    text: &'a [u8],
    rules: Rules,
    /// The places of the `[` and the `]` of each set, in order.
    sets: Vec<(usize, usize)>,
    /// With [`Rules::CASEFOLD`] what knows the cases of a character. Programs that have no such
    /// patterns are linked without its tables.
    cases: Option<Cases>,
}

/// Gives a character in lower and in upper case.
type Cases = fn(char) -> [char; 2];

impl<'a> Pattern<'a> {
    /// Reads a pattern. It is UTF-8; any other byte matches only itself. A `[` without its `]` is
    /// an ordinary character. The time is proportional to the length, unless classes (`[:…:]`)
    /// stand behind many a `[` without its `]`; then it is at worst to its square.
    pub fn new(text: &'a [u8], rules: Rules) -> Self {
        Pattern {
            cases: rules.contains(Rules::CASEFOLD).then_some(cases as Cases),
            ..Pattern::read(text, rules)
        }
    }

    /// A pattern without rules, as the shell has them.
    pub fn plain(text: &'a str) -> Self {
        Pattern::read(text.as_bytes(), Rules::empty())
    }

    fn read(text: &'a [u8], rules: Rules) -> Self {
        let mut sets = Vec::new();
        let last = text.iter().rposition(|byte| *byte == b']').unwrap_or(0);
        // No `[` before this place begins a set.
        let mut open_until = 0;
        let mut at = 0;
        while at < last {
            match text[at] {
                b'\\' if !rules.contains(Rules::NOESCAPE) => at += 2,
                b'[' if at >= open_until => match end_of_set(text, at, rules) {
                    ControlFlow::Break(end) => {
                        sets.push((at, end));
                        at = end + 1;
                    }
                    ControlFlow::Continue(place) => {
                        open_until = place;
                        at += 1;
                    }
                },
                _ => at += 1,
            }
        }
        Pattern {
            text,
            rules,
            sets,
            cases: None,
        }
    }

    /// Whether all of a text matches. Any byte in it that is not of UTF-8 counts as a character of
    /// its own. The time is at worst proportional to pattern times text.
    pub fn matches(&self, text: &[u8]) -> bool {
        let rules = self.rules;
        let (mut at, mut place) = (0, 0);
        // The place after the last star in the pattern, and the place in the text where it was
        // tried. Earlier stars need no further try: what lies between two stars has matched at its
        // first place, and with `PATHNAME` no star matches a `/`.
        let mut star: Option<(usize, usize)> = None;
        loop {
            let next = first_of(&text[place..]);
            match self.element(at) {
                None if next.is_none() => return true,
                None if rules.contains(Rules::LEADING_DIR) && text[place] == b'/' => return true,
                Some((Element::Star, length)) if !is_hidden(text, place, rules) => {
                    at += length;
                    star = Some((at, place));
                    continue;
                }
                Some((element, length)) => {
                    if let Some((character, bytes)) = next
                        && self.fits(element, character, text, place)
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

    /// Whether the pattern has special characters, so that it may match several texts.
    pub fn is_special(&self) -> bool {
        let mut elements = self.elements();
        elements.any(|(_, element)| !matches!(element, Element::Character(_)))
    }

    /// The text that a pattern without special characters matches.
    pub fn literal(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.text.len());
        for (element_text, _) in self.elements() {
            let is_escaped = element_text.len() > 1 && element_text[0] == b'\\';
            text.extend(&element_text[usize::from(is_escaped)..]);
        }
        text
    }

    /// The elements and the texts of each.
    fn elements(&self) -> impl Iterator<Item = (&'a [u8], Element<'a>)> {
        let mut at = 0;
        core::iter::from_fn(move || {
            let (element, length) = self.element(at)?;
            let text = &self.text[at..at + length];
            at += length;
            Some((text, element))
        })
    }

    /// The element that begins at a place, and its length in bytes.
    fn element(&self, at: usize) -> Option<(Element<'a>, usize)> {
        let pattern = &self.text[at..];
        let (first, bytes) = first_of(pattern)?;
        let special = match first {
            '?' => Some((Element::Any, 1)),
            '*' => Some((Element::Star, 1)),
            '[' => {
                let found = self.sets.binary_search_by_key(&at, |(begin, _)| *begin);
                found.ok().map(|index| {
                    let (begin, end) = self.sets[index];
                    let inside = &self.text[begin + 1..end];
                    (Element::Set(inside), inside.len() + 2)
                })
            }
            '\\' if !self.rules.contains(Rules::NOESCAPE) => {
                let escaped = first_of(&pattern[1..]);
                escaped.map(|(character, bytes)| (Element::Character(character), bytes + 1))
            }
            _ => None,
        };
        special.or(Some((Element::Character(first), bytes)))
    }

    /// Whether an element matches the character at a place of the text.
    fn fits(&self, element: Element<'_>, character: char, text: &[u8], place: usize) -> bool {
        let is_free = || {
            let is_slash = character == '/' && self.rules.contains(Rules::PATHNAME);
            !is_slash && !is_hidden(text, place, self.rules)
        };
        let is_same = |wanted| {
            let lower = |cases: Cases| cases(wanted)[0] == cases(character)[0];
            wanted == character || self.cases.is_some_and(lower)
        };
        match element {
            Element::Character(wanted) => is_same(wanted),
            Element::Any => is_free(),
            Element::Set(set) => is_free() && is_in(set, character, self.rules, self.cases),
            Element::Star => false,
        }
    }
}

/// Appends a pattern that matches exactly `text`, without [`Rules::NOESCAPE`].
pub fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '-') {
            into.push('\\');
        }
        into.push(c);
    }
}

/// Whether the character at this place begins a hidden name, which special characters do not
/// match.
fn is_hidden(text: &[u8], place: usize, rules: Rules) -> bool {
    let begins = || place == 0 || rules.contains(Rules::PATHNAME) && text[place - 1] == b'/';
    rules.contains(Rules::PERIOD) && text.get(place) == Some(&b'.') && begins()
}

/// A character in lower and in upper case; itself where that takes several characters.
fn cases(character: char) -> [char; 2] {
    let only = |cases: &mut dyn Iterator<Item = char>| match (cases.next(), cases.next()) {
        (Some(case), None) => case,
        _ => character,
    };
    [
        only(&mut character.to_lowercase()),
        only(&mut character.to_uppercase()),
    ]
}

/// The first character of a text, and its length in bytes.
fn first_of(text: &[u8]) -> Option<(char, usize)> {
    let first = *text.first()?;
    if first.is_ascii() {
        return Some((first.into(), 1));
    }
    // No more than a character: all of the text would be looked through.
    let chunk = text[..text.len().min(4)].utf8_chunks().next()?;
    match chunk.valid().chars().next() {
        Some(character) => Some((character, character.len_utf8())),
        // A number that no character of a text has.
        None => Some((char::from_u32(0x10_FF00 | u32::from(first))?, 1)),
    }
}

/// The place of the `]` that ends the set whose `[` is at a place. If there is none, a place before
/// which no other `[` has one either: what was passed on the way there is read the same from each
/// of them.
fn end_of_set(pattern: &[u8], open: usize, rules: Rules) -> ControlFlow<usize, usize> {
    let mut at = open + 1;
    if matches!(pattern.get(at), Some(b'!' | b'^')) {
        at += 1;
    }
    let begin = at;
    let mut first_class = None;
    loop {
        match pattern.get(at) {
            Some(b']') if at > begin => return ControlFlow::Break(at),
            None => break,
            Some(b'/') if rules.contains(Rules::PATHNAME) => break,
            Some(b'[') => match end_of_class(pattern, at) {
                Some(end) => {
                    first_class.get_or_insert(at);
                    at = end + 1;
                }
                None => at += 1,
            },
            Some(b'\\') if !rules.contains(Rules::NOESCAPE) => at += 2,
            Some(_) => at += 1,
        }
    }
    ControlFlow::Continue(first_class.unwrap_or(at))
}

/// The place of the last byte of a `[:…:]`, `[=…=]` or `[.….]` that begins here.
fn end_of_class(pattern: &[u8], at: usize) -> Option<usize> {
    let mark = *pattern.get(at + 1)?;
    if !matches!(mark, b':' | b'=' | b'.') {
        return None;
    }
    let inside = pattern.get(at + 2..)?;
    let inside = &inside[..inside.len().min(LONGEST_NAME + 2)];
    let length = inside.windows(2).position(|pair| pair == [mark, b']'])?;
    Some(at + 2 + length + 1)
}

/// Whether a set contains a character.
fn is_in(set: &[u8], character: char, rules: Rules, cases: Option<Cases>) -> bool {
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
            found |= is_of_class(&rest[2..end - 1], character, cases.is_some());
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
        if let Some(cases) = cases {
            found |= cases(character)
                .iter()
                .any(|case| (from..=to).contains(case));
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

fn is_of_class(name: &[u8], character: char, folds: bool) -> bool {
    let is_letter =
        |is_case: bool| is_case || folds && (character.is_lowercase() || character.is_uppercase());
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
    use alloc::string::ToString;

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
            ("*a*b*", "xxaxxbxx", none, true),
            ("*a*b*", "xxbxxaxx", none, false),
            ("*[!€]b", "a€b", none, false),
            ("[", "[", none, true),
            ("[!a", "[!a", none, true),
            ("[\\!a]", "!", none, true),
            ("[a\\-c]", "b", none, false),
            ("[a\\-c]", "-", none, true),
            ("a\\", "a\\", none, true),
            ("[[:alpha:]]", "ä", none, true),
            ("[[:alpha:]]", "7", none, false),
            ("[![:alpha:]]", "7", none, true),
            ("[[:alpha:]-]", "-", none, true),
            ("[[:nothing:]]", "n", none, false),
            // What is no class: its characters, and a `]` behind.
            ("[[:alpha]", ":", none, true),
            ("[[:aaaaaaaaaaaaaaaaaaaaaaa:]]", ":]", none, true),
            // A `[` without its end, and behind it one that has one inside a class of the first.
            ("[[.].]", "[..]", none, true),
            ("[x[/]", "/", none, true),
            ("[x[/]", "[x[/]", path, true),
            ("a", "a/b", Rules::LEADING_DIR, true),
            ("a*", "ab/c/d", Rules::LEADING_DIR.union(path), true),
            ("b", "a/b", Rules::LEADING_DIR, false),
        ];
        for (pattern, text, rules, held) in cases {
            let found = Pattern::new(pattern.as_bytes(), *rules).matches(text.as_bytes());
            assert_eq!(found, *held, "{pattern} and {text} by {rules:?}");
        }
        let matches = |pattern, text| Pattern::new(pattern, none).matches(text);
        assert!(matches(b"a?b", b"a\xffb") && !matches(b"a\xfeb", b"a\xffb"));
        assert!(matches(b"a\xffb", b"a\xffb") && matches(b"?\xff", b"\xc3\xa4\xff"));
    }

    #[test]
    fn a_pattern_without_special_characters_is_a_text() {
        let none = Rules::empty();
        let is_special = |text: &str, rules| Pattern::new(text.as_bytes(), rules).is_special();
        assert!(is_special("a*", none) && is_special("[a]", none) && is_special("?", none));
        assert!(!is_special("a\\*b[", none) && is_special("a\\*b", Rules::NOESCAPE));
        assert!(!is_special("[a", none) && !is_special("a", none) && !is_special("", none));
        assert!(is_special("[/]", none) && !is_special("[/]", Rules::PATHNAME));
        let literal = |text| Pattern::plain(text).literal();
        assert_eq!(literal("a\\*b[\\\\"), b"a*b[\\");
        assert_eq!(literal("a\\"), b"a\\");
        assert_eq!(literal("ä\\ö"), "äö".as_bytes());
    }

    #[test]
    fn escaped_text_matches_only_itself() {
        for text in ["*", "a?b", "[x]", "\\", "plain", "[!a-b]", "[[:alpha:]]"] {
            let mut escaped = String::new();
            escape(text, &mut escaped);
            let pattern = Pattern::plain(&escaped);
            assert!(pattern.matches(text.as_bytes()) && !pattern.is_special());
            assert_eq!(pattern.literal(), text.as_bytes());
        }
    }

    /// Each of these would take hours if it took more than pattern times text.
    #[test]
    fn hostile_patterns_do_not_take_forever() {
        let holds = |pattern: String, text: &str| Pattern::plain(&pattern).matches(text.as_bytes());
        let many = "a".repeat(5000);
        assert!(!holds("*a".repeat(1000) + "b", &many));
        assert!(holds("*".repeat(1_000_000), &many));
        assert!(!holds("*b".into(), &"ä".repeat(300_000)));
        // Sets without an end: none, one that is escaped, and inside a class that has none.
        assert!(holds("[".repeat(1_000_000), &"[".repeat(1_000_000)));
        assert!(holds(
            "[".repeat(1_000_000) + "\\]",
            &("[".repeat(1_000_000) + "]")
        ));
        assert!(!holds(
            "*".to_string() + &"[".repeat(500) + "\\]",
            &"[".repeat(3000)
        ));
        assert!(holds(
            "[[:".repeat(300_000) + "\\]",
            &("[[:".repeat(300_000) + "]")
        ));
        assert!(!Pattern::plain(&"[!".repeat(300_000)).is_special());
        // One set that holds all, and many small ones.
        assert!(holds("[".to_string() + &"[:".repeat(300_000) + "x]", ":"));
        assert!(holds("[a-z]".repeat(100_000), &"k".repeat(100_000)));
    }
}
