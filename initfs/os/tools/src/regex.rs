//! Regular expressions as POSIX defines them ([`expression`]), for `grep`, `sed` and `less`. Of
//! several alternatives that match, the first one wins, not the longest.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

pub use ::regex::Regex;
use ::regex::RegexBuilder;
use patterns::expression;
pub use patterns::expression::Syntax;

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
        let rewritten = expression::rewrite(text, options.syntax, false);
        sources.push(
            rewritten
                .map_err(|wrong| format!("{text}: {wrong}"))?
                .source,
        );
    }
    let mut source = match sources.as_slice() {
        [one] => one.clone(),
        several => format!("(?:{})", several.join(")|(?:")),
    };
    if options.words {
        // A word is what has no part of a word beside it, whether it begins with one or not.
        source = format!("\\b{{start-half}}(?:{source})\\b{{end-half}}");
    }
    if options.lines {
        source = format!("^(?:{source})$");
    }
    RegexBuilder::new(&source)
        .case_insensitive(options.ignore_case)
        .build()
        .map_err(|error| format!("{}: {error}", texts.join(", ")))
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
            ("n\\>", "nin n", Some("n")),
            ("\\<i", "iin ii", Some("i")),
            ("[[=a=]-[.c.]]\\+", "dbca", Some("bca")),
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
        let words = Options {
            words: true,
            ..Options::default()
        };
        for (text, found) in [
            ("a -x b", true),
            ("a-x", false),
            ("-xy", false),
            ("-x", true),
        ] {
            assert_eq!(parse("-x", words).unwrap().is_match(text), found, "{text}");
        }
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
