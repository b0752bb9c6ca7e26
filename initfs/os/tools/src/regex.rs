//! Regular expressions as POSIX defines them, basic and extended, for `grep` and `sed`. They are
//! rewritten for a library that has another syntax, where the first of several alternatives that
//! match wins, not the longest. References back to an earlier part (`\1`) are not supported.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use ::regex::Regex;
use ::regex::RegexBuilder;

/// The classes of characters.
const CLASSES: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

/// How a text is to be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// Basic: `\(a\)`, `a\{2\}`, `*`; `+`, `?` and `|` are themselves unless behind `\`.
    #[default]
    Basic,
    /// Extended: `(a|b)+`, `a{2}`.
    Extended,
    /// No character means anything else than itself.
    Fixed,
}

/// The options of an expression.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How the text is read.
    pub syntax: Syntax,
    /// Upper and lower case are the same.
    pub ignore_case: bool,
    /// Only whole words.
    pub words: bool,
    /// Only whole lines.
    pub lines: bool,
}

/// Reads an expression.
///
/// # Errors
/// The error, as text for people.
pub fn parse(text: &str, options: Options) -> Result<Regex, String> {
    parse_any(&[text], options)
}

/// Parses expressions of which at least one has to match.
///
/// # Errors
/// The error in one of them, as text for people.
pub fn parse_any(texts: &[&str], options: Options) -> Result<Regex, String> {
    let mut sources = Vec::with_capacity(texts.len());
    for text in texts {
        sources.push(match options.syntax {
            Syntax::Fixed => ::regex::escape(text),
            syntax => Rewriter::new(text, syntax == Syntax::Extended).rewrite()?,
        });
    }
    let mut source = match sources.as_slice() {
        [one] => one.clone(),
        several => format!("(?:{})", several.join(")|(?:")),
    };
    if options.words {
        source = format!("\\b(?:{source})\\b");
    }
    if options.lines {
        source = format!("^(?:{source})$");
    }
    RegexBuilder::new(&source)
        .case_insensitive(options.ignore_case)
        .build()
        .map_err(|error| format!("{}: {error}", texts.join(", ")))
}

/// Rewrites an expression, character by character.
struct Rewriter<'a> {
    text: &'a str,
    rest: core::iter::Peekable<core::str::Chars<'a>>,
    extended: bool,
    out: String,
    /// Whether nothing that can be repeated was read since the beginning, a `(` or a `|`.
    begins: bool,
    /// Whether the last element was a repetition.
    repeated: bool,
}

impl<'a> Rewriter<'a> {
    fn new(text: &'a str, extended: bool) -> Self {
        Rewriter {
            text,
            rest: text.chars().peekable(),
            extended,
            out: String::new(),
            begins: true,
            repeated: false,
        }
    }

    fn wrong(&self, what: &str) -> String {
        format!("{}: {what}", self.text)
    }

    fn rewrite(mut self) -> Result<String, String> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => match self.rest.next() {
                    None => return Err(self.wrong("a \\ at the end")),
                    Some(c @ ('(' | ')' | '{' | '|' | '+' | '?')) if !self.extended => {
                        self.operator(c)?;
                    }
                    Some('1'..='9') => {
                        return Err(self.wrong("what refers back (\\1) is not possible"));
                    }
                    Some('<' | '>' | 'b') => self.anchor("\\b"),
                    Some(c @ ('w' | 'W' | 's' | 'S' | 'B')) => {
                        self.out.push('\\');
                        self.atom(&c.to_string());
                    }
                    Some('n') => self.atom("\n"),
                    Some('t') => self.atom("\t"),
                    Some(c) => self.literal(c),
                },
                '[' => self.set()?,
                '.' => self.atom("."),
                '*' if self.begins && !self.extended => self.literal('*'),
                '*' => self.operator('*')?,
                '^' if self.extended || self.begins => self.anchor("^"),
                '$' if self.extended || self.ends() => self.anchor("$"),
                c @ ('(' | ')' | '{' | '|' | '+' | '?') if self.extended => self.operator(c)?,
                c => self.literal(c),
            }
        }
        Ok(self.out)
    }

    /// Whether this is the end of a basic expression, or of a part or alternative of one.
    fn ends(&self) -> bool {
        let mut rest = self.rest.clone();
        match rest.next() {
            None => true,
            Some('\\') => matches!(rest.next(), Some(')' | '|')),
            Some(_) => false,
        }
    }

    fn literal(&mut self, c: char) {
        let text = ::regex::escape(c.encode_utf8(&mut [0; 4]));
        self.atom(&text);
    }

    fn atom(&mut self, text: &str) {
        self.out.push_str(text);
        (self.begins, self.repeated) = (false, false);
    }

    /// Adds an expression that matches at a place and cannot be repeated.
    fn anchor(&mut self, text: &str) {
        self.out.push_str(text);
        self.repeated = false;
    }

    fn operator(&mut self, c: char) -> Result<(), String> {
        match c {
            '(' => {
                // Here a question mark has a meaning for the library that POSIX does not have.
                self.out.push('(');
                (self.begins, self.repeated) = (true, false);
            }
            '|' => {
                self.out.push('|');
                (self.begins, self.repeated) = (true, false);
            }
            ')' => self.atom(")"),
            _ if self.begins => return Err(self.wrong("nothing to repeat")),
            _ if self.repeated => return Err(self.wrong("two repetitions in a row")),
            '{' => {
                self.out.push('{');
                loop {
                    match self.rest.next() {
                        Some(c @ ('0'..='9' | ',')) => self.out.push(c),
                        Some('\\') if !self.extended && self.rest.next() == Some('}') => break,
                        Some('}') if self.extended => break,
                        _ => return Err(self.wrong("an interval is {2}, {2,} or {2,5}")),
                    }
                }
                self.out.push('}');
                self.repeated = true;
            }
            c => {
                self.out.push(c);
                self.repeated = true;
            }
        }
        Ok(())
    }

    /// Rewrites a set of characters, in which a backslash is an ordinary character.
    fn set(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            let Some(c) = self.rest.next() else {
                return Err(self.wrong("a [ that is not closed"));
            };
            match c {
                ']' if !first => break,
                '[' if self.rest.peek() == Some(&':') => self.class()?,
                // Between two others it keeps its meaning.
                '-' => self.out.push('-'),
                '[' | ']' | '^' | '\\' | '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                c => self.out.push(c),
            }
            if first && c == '-' {
                self.out.pop();
                self.out.push_str("\\-");
            }
            if c == '-' && self.rest.peek() == Some(&']') && !first {
                self.out.pop();
                self.out.push_str("\\-");
            }
            first = false;
        }
        self.atom("]");
        Ok(())
    }

    /// A class such as `[:alpha:]`.
    fn class(&mut self) -> Result<(), String> {
        let mut name = String::from("[");
        while !name.ends_with(":]") || name.len() < 4 {
            match self.rest.next() {
                Some(c) => name.push(c),
                None => return Err(self.wrong("a [: that is not closed")),
            }
        }
        if !CLASSES.contains(&name.trim_matches(['[', ']', ':'])) {
            return Err(self.wrong("an unknown class"));
        }
        self.out.push_str(&name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(syntax: Syntax, expression: &str, text: &'a str) -> Option<&'a str> {
        let options = Options {
            syntax,
            ..Options::default()
        };
        let regex = parse(expression, options).unwrap_or_else(|error| panic!("{error}"));
        regex.find(text).map(|found| found.as_str())
    }

    #[test]
    fn basic() {
        for (expression, text, expected) in [
            ("b.d", "a bad b", Some("bad")),
            ("ab*c", "xabbbc", Some("abbbc")),
            ("*a", "b*a", Some("*a")),
            ("\\(*a\\)", "b*a", Some("*a")),
            ("^a", "ba", None),
            ("a^b$c", "a^b$c", Some("a^b$c")),
            ("^*", "*", Some("*")),
            ("a+b?", "a+b?", Some("a+b?")),
            ("a\\+", "baaa", Some("aaa")),
            ("\\(ab\\)\\{2\\}", "abab", Some("abab")),
            ("a{2}", "a{2}", Some("a{2}")),
            ("a\\|b", "cb", Some("b")),
            ("\\(a$\\|b\\)", "ab", Some("b")),
            ("[]x]*y", "x]y", Some("x]y")),
            ("[^]]*", "ab]", Some("ab")),
            ("[a\\]", "\\", Some("\\")),
            ("[a-c-]*", "b-c", Some("b-c")),
            ("[-a]*", "-a", Some("-a")),
            ("[[:digit:]_]*$", "a1_2", Some("1_2")),
            ("[&&~]*", "&~", Some("&~")),
            ("\\.\\*", "a.*", Some(".*")),
            ("\\<in\\>", "inner in", Some("in")),
            ("ä.ö", "äüö", Some("äüö")),
        ] {
            assert_eq!(
                found(Syntax::Basic, expression, text),
                expected,
                "{expression}"
            );
        }
    }

    #[test]
    fn extended_and_fixed() {
        for (expression, text, expected) in [
            ("(a|b)+c?", "xababc", Some("ababc")),
            ("a{2,}", "aaaa", Some("aaaa")),
            ("^(a|b$)", "b", Some("b")),
            ("\\(x\\)", "(x)", Some("(x)")),
            ("[(]", "(", Some("(")),
        ] {
            assert_eq!(
                found(Syntax::Extended, expression, text),
                expected,
                "{expression}"
            );
        }
        assert_eq!(found(Syntax::Fixed, "a.*[", "a.*["), Some("a.*["));
    }

    #[test]
    fn options() {
        let with = |change: fn(&mut Options), text: &str| {
            let mut options = Options::default();
            change(&mut options);
            parse("ab*", options).unwrap().is_match(text)
        };
        assert!(with(|options| options.ignore_case = true, "xAB"));
        assert!(with(|options| options.words = true, "x abb y"));
        assert!(!with(|options| options.words = true, "xabb"));
        assert!(with(|options| options.lines = true, "abb"));
        assert!(!with(|options| options.lines = true, "abbc"));
    }

    #[test]
    fn several() {
        let matches = |lines, text: &str| {
            let options = Options {
                lines,
                ..Options::default()
            };
            let regex = parse_any(&["a|b", "c*"], options);
            regex
                .unwrap_or_else(|error| panic!("{error}"))
                .is_match(text)
        };
        assert!(matches(true, "a|b") && matches(true, "cc") && matches(false, "x"));
        assert!(!matches(true, "a") && !matches(true, "a|bcc"));
    }

    #[test]
    fn what_is_wrong() {
        for (syntax, expression) in [
            (Syntax::Basic, "a\\"),
            (Syntax::Basic, "[a"),
            (Syntax::Basic, "[[:alpha]"),
            (Syntax::Basic, "\\(a"),
            (Syntax::Basic, "\\(a\\)\\1"),
            (Syntax::Basic, "a\\{x\\}"),
            (Syntax::Extended, "(a"),
            (Syntax::Extended, "*a"),
            (Syntax::Extended, "(?i)a"),
            (Syntax::Extended, "a+?"),
            (Syntax::Extended, "a{2"),
            (Syntax::Basic, "[[:nothing:]]"),
        ] {
            let options = Options {
                syntax,
                ..Options::default()
            };
            assert!(parse(expression, options).is_err(), "{expression}");
        }
    }
}
