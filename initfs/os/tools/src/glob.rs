//! Patterns: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a character that stands for itself.

use alloc::string::String;

/// Whether all of `text` matches. Takes at worst time proportional to pattern × text: after a
/// mismatch only the last `*` can be extended.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern_rest, mut text_rest) = (pattern, text);
    // Where to continue if the part after the last `*` fails: that part, and the text where it
    // began.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        if let Some(after) = pattern_rest.strip_prefix('*') {
            pattern_rest = after;
            retry = Some((after, text_rest));
            continue;
        }
        let mut characters = text_rest.chars();
        let next = characters.next();
        match (one(pattern_rest), next) {
            (None, None) => return true,
            (Some((element, after)), Some(c)) if element.matches(c) => {
                pattern_rest = after;
                text_rest = characters.as_str();
                continue;
            }
            _ => {}
        }
        let Some((after_star, begun)) = retry else {
            return false;
        };
        let mut characters = begun.chars();
        if characters.next().is_none() {
            return false;
        }
        pattern_rest = after_star;
        text_rest = characters.as_str();
        retry = Some((after_star, text_rest));
    }
}

/// Whether the pattern has a character with a special meaning.
pub fn is_special(pattern: &str) -> bool {
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => {
                characters.next();
            }
            '*' | '?' => return true,
            '[' if set(characters.as_str()).is_some() => return true,
            _ => {}
        }
    }
    false
}

/// Appends a pattern that matches exactly `text`.
pub fn escape(text: &str, into: &mut String) {
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '-') {
            into.push('\\');
        }
        into.push(c);
    }
}

enum Element<'a> {
    Any,
    Exactly(char),
    Set { negated: bool, members: &'a str },
}

impl Element<'_> {
    fn matches(&self, c: char) -> bool {
        match self {
            Element::Any => true,
            Element::Exactly(expected) => *expected == c,
            Element::Set { negated, members } => member(members, c) != *negated,
        }
    }
}

/// The first element of the pattern, and the rest of the pattern.
fn one(pattern: &str) -> Option<(Element<'_>, &str)> {
    let mut characters = pattern.chars();
    Some(match characters.next()? {
        '?' => (Element::Any, characters.as_str()),
        '\\' => {
            let c = characters.next().unwrap_or('\\');
            (Element::Exactly(c), characters.as_str())
        }
        '[' => match set(characters.as_str()) {
            Some((element, rest)) => (element, rest),
            None => (Element::Exactly('['), characters.as_str()),
        },
        c => (Element::Exactly(c), characters.as_str()),
    })
}

/// The set that begins after `[`, and the rest; `None` if it has no end.
fn set(pattern: &str) -> Option<(Element<'_>, &str)> {
    let negated = pattern.starts_with(['!', '^']);
    let start = usize::from(negated);
    let mut at = start;
    loop {
        let c = pattern[at..].chars().next()?;
        // A bracket in first place is a member.
        if c == ']' && at > start {
            let members = &pattern[start..at];
            return Some((Element::Set { negated, members }, &pattern[at + 1..]));
        }
        at += c.len_utf8();
        if c == '\\' {
            at += pattern[at..].chars().next()?.len_utf8();
        }
    }
}

fn member(members: &str, c: char) -> bool {
    let mut characters = members.chars();
    let plain = |characters: &mut core::str::Chars<'_>| match characters.next() {
        Some('\\') => characters.next(),
        other => other,
    };
    while let Some(low) = plain(&mut characters) {
        let mut ahead = characters.clone();
        if ahead.next() == Some('-')
            && let Some(high) = plain(&mut ahead)
        {
            characters = ahead;
            if (low..=high).contains(&c) {
                return true;
            }
        } else if low == c {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbc", true),
            ("a*c", "abbd", false),
            ("*.rs", "lib.rs", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("?", "é", true),
            ("?", "", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "dx", true),
            ("[]a]", "]", true),
            ("[a-]", "-", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("[\\]]", "]", true),
            ("[\\!a]", "!", true),
            ("a\\", "a\\", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn escaped_text_matches_only_itself() {
        for text in ["*", "a?b", "[x]", "\\", "plain", "[!a-b]"] {
            let mut pattern = String::new();
            escape(text, &mut pattern);
            assert!(matches(&pattern, text) && !is_special(&pattern), "{text}");
        }
        assert!(is_special("a*") && is_special("[a]") && !is_special("[a") && !is_special("a"));
    }

    #[test]
    fn many_stars_do_not_take_forever() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(5000)));
    }
}
