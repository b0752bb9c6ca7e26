//! Regular expressions as POSIX defines them, basic and extended, rewritten for the crates `regex`
//! and `regex-automata`, whose syntax is another one.
//!
//! What is written is accepted by those crates unless it gets too large for them. Beyond POSIX
//! there are `\+`, `\?` and `\|` in basic expressions, and in both kinds `\<`, `\>`, `\b`, `\B`,
//! `\w`, `\W`, `\s`, `\S`, `\n` and `\t`. References back to an earlier part (`\1`) are refused:
//! no way to match them is known that does not take exponential time.

use alloc::format;
use alloc::string::String;
use core::fmt;

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

/// An expression in the other syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// Its text.
    pub source: String,
    /// How many parts in parentheses it has.
    pub groups: usize,
}

/// What is wrong with an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A backslash is the last character.
    Escape,
    /// `\1` to `\9`.
    BackReference,
    /// A `[` without its `]`, or a `[:`, `[=` or `[.` without its end.
    Bracket,
    /// `[:x:]` with a name that no class has.
    Class,
    /// `[=x=]` or `[.x.]` with more or less than one character.
    Collation,
    /// The end of a range comes before its beginning, or one of them is a class.
    Range,
    /// A parenthesis without the other one.
    Parenthesis,
    /// A `{` without its `}`.
    Brace,
    /// Something else than `{2}`, `{2,}` and `{2,5}`, or a number too large.
    Interval,
    /// A repetition of nothing, or of a repetition.
    Repetition,
    /// Parentheses in more than [`DEEPEST`] others.
    Depth,
}

/// Most repetitions that an interval may ask for, C's `RE_DUP_MAX`.
pub const MOST_REPETITIONS: u32 = 0x7fff;
/// Most parentheses that may be in each other. What reads the other syntax calls itself for each.
pub const DEEPEST: usize = 50;

/// The classes of characters.
const CLASSES: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Wrong::Escape => "a \\ at the end",
            Wrong::BackReference => "what refers back (\\1) is not possible",
            Wrong::Bracket => "a [ that is not closed",
            Wrong::Class => "an unknown class",
            Wrong::Collation => "[=x=] and [.x.] are of one character",
            Wrong::Range => "a range ends before it begins",
            Wrong::Parenthesis => "a parenthesis without the other one",
            Wrong::Brace => "a { that is not closed",
            Wrong::Interval => "an interval is {2}, {2,} or {2,5}",
            Wrong::Repetition => "nothing to repeat, or two repetitions in a row",
            Wrong::Depth => "too many parentheses in each other",
        })
    }
}

/// Rewrites an expression. With `by_lines` no `[^…]` contains the end of a line.
///
/// # Errors
/// What is wrong with it.
pub fn rewrite(text: &str, syntax: Syntax, by_lines: bool) -> Result<Expression, Wrong> {
    let mut rewriter = Rewriter {
        rest: text.chars().peekable(),
        is_extended: syntax == Syntax::Extended,
        by_lines,
        out: String::with_capacity(text.len()),
        groups: 0,
        depth: 0,
        is_first: true,
        begins: true,
        repeated: false,
    };
    match syntax {
        Syntax::Fixed => text.chars().for_each(|c| rewriter.push(c)),
        _ => rewriter.rewrite()?,
    }
    Ok(Expression {
        source: rewriter.out,
        groups: rewriter.groups,
    })
}

/// Rewrites an expression, character by character.
struct Rewriter<'a> {
    rest: core::iter::Peekable<core::str::Chars<'a>>,
    is_extended: bool,
    by_lines: bool,
    out: String,
    groups: usize,
    /// How many parentheses are open.
    depth: usize,
    /// Whether nothing was read since the beginning, a `(` or a `|`.
    is_first: bool,
    /// Whether nothing that can be repeated was read since then.
    begins: bool,
    /// Whether the last element was a repetition.
    repeated: bool,
}

/// What stands in a set.
enum Member {
    Character(char),
    Class(&'static str),
}

impl Rewriter<'_> {
    fn rewrite(&mut self) -> Result<(), Wrong> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => match self.rest.next().ok_or(Wrong::Escape)? {
                    c @ ('(' | ')' | '{' | '|' | '+' | '?') if !self.is_extended => {
                        self.operator(c)?;
                    }
                    '1'..='9' => return Err(Wrong::BackReference),
                    '<' => self.anchor("\\b{start}"),
                    '>' => self.anchor("\\b{end}"),
                    'b' => self.anchor("\\b"),
                    'B' => self.anchor("\\B"),
                    c @ ('w' | 'W' | 's' | 'S') => {
                        self.out.push('\\');
                        self.out.push(c);
                        self.atom();
                    }
                    'n' => self.literal('\n'),
                    't' => self.literal('\t'),
                    c => self.literal(c),
                },
                '[' => self.set()?,
                '.' => {
                    self.out.push('.');
                    self.atom();
                }
                '*' if self.begins && !self.is_extended => self.literal('*'),
                '*' => self.operator('*')?,
                '^' if self.is_extended || self.is_first => self.anchor("^"),
                '$' if self.is_extended || self.ends() => self.anchor("$"),
                c @ ('(' | ')' | '{' | '|' | '+' | '?') if self.is_extended => self.operator(c)?,
                c => self.literal(c),
            }
        }
        match self.depth {
            0 => Ok(()),
            _ => Err(Wrong::Parenthesis),
        }
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

    /// Appends a character that stands for itself.
    fn push(&mut self, c: char) {
        if c.is_ascii_punctuation() && !matches!(c, '<' | '>') {
            self.out.push('\\');
        }
        self.out.push(c);
    }

    fn literal(&mut self, c: char) {
        self.push(c);
        self.atom();
    }

    /// What was appended can be repeated.
    fn atom(&mut self) {
        (self.is_first, self.begins, self.repeated) = (false, false, false);
    }

    /// Adds an expression that matches at a place and cannot be repeated.
    fn anchor(&mut self, text: &str) {
        self.out.push_str(text);
        (self.is_first, self.repeated) = (false, false);
    }

    fn operator(&mut self, c: char) -> Result<(), Wrong> {
        match c {
            '(' | '|' => {
                self.out.push(c);
                (self.is_first, self.begins, self.repeated) = (true, true, false);
                if c == '(' {
                    self.groups += 1;
                    self.depth += 1;
                }
                if self.depth > DEEPEST {
                    return Err(Wrong::Depth);
                }
            }
            ')' => {
                self.depth = self.depth.checked_sub(1).ok_or(Wrong::Parenthesis)?;
                self.out.push(')');
                self.atom();
            }
            _ if self.begins || self.repeated => return Err(Wrong::Repetition),
            '{' => {
                self.interval()?;
                self.repeated = true;
            }
            c => {
                self.out.push(c);
                self.repeated = true;
            }
        }
        Ok(())
    }

    /// Rewrites an interval, behind its `{`.
    fn interval(&mut self) -> Result<(), Wrong> {
        let least = self.number()?.ok_or(Wrong::Interval)?;
        let mut most = Some(least);
        let is_range = self.rest.next_if_eq(&',').is_some();
        if is_range {
            most = self.number()?;
        }
        if !self.is_extended && self.rest.next().ok_or(Wrong::Brace)? != '\\' {
            return Err(Wrong::Interval);
        }
        if self.rest.next().ok_or(Wrong::Brace)? != '}' || most.is_some_and(|most| most < least) {
            return Err(Wrong::Interval);
        }
        self.out += &match most {
            None => format!("{{{least},}}"),
            Some(most) => format!("{{{least},{most}}}"),
        };
        Ok(())
    }

    /// A number of repetitions, if there is one.
    fn number(&mut self) -> Result<Option<u32>, Wrong> {
        if self.rest.peek().ok_or(Wrong::Brace)?.is_ascii_digit() {
            let mut number = 0;
            while let Some(c) = self.rest.next_if(char::is_ascii_digit) {
                number = number * 10 + u32::from(c) - u32::from('0');
                if number > MOST_REPETITIONS {
                    return Err(Wrong::Interval);
                }
            }
            return Ok(Some(number));
        }
        Ok(None)
    }

    /// Rewrites a set of characters, in which a backslash is an ordinary character.
    fn set(&mut self) -> Result<(), Wrong> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
            if self.by_lines {
                self.push('\n');
            }
        }
        let mut is_first = true;
        loop {
            if !is_first && self.rest.next_if_eq(&']').is_some() {
                break;
            }
            is_first = false;
            let begin = self.member()?;
            let is_range = {
                let mut ahead = self.rest.clone();
                ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']'))
            };
            match begin {
                Member::Class(_) if is_range => return Err(Wrong::Range),
                Member::Class(name) => self.out += &format!("[:{name}:]"),
                Member::Character(begin) => {
                    self.push(begin);
                    if is_range {
                        self.rest.next();
                        match self.member()? {
                            Member::Character(end) if end >= begin => {
                                self.out.push('-');
                                self.push(end);
                            }
                            _ => return Err(Wrong::Range),
                        }
                    }
                }
            }
        }
        self.out.push(']');
        self.atom();
        Ok(())
    }

    /// The next character or class in a set.
    fn member(&mut self) -> Result<Member, Wrong> {
        let c = self.rest.next().ok_or(Wrong::Bracket)?;
        let marks = |c: &char| matches!(c, ':' | '=' | '.');
        let Some(mark) = self.rest.next_if(|next| c == '[' && marks(next)) else {
            return Ok(Member::Character(c));
        };
        let mut name = String::new();
        loop {
            let c = self.rest.next().ok_or(Wrong::Bracket)?;
            if c == mark && self.rest.next_if_eq(&']').is_some() {
                break;
            }
            name.push(c);
        }
        if mark == ':' {
            let class = CLASSES.into_iter().find(|class| *class == name);
            return class.map(Member::Class).ok_or(Wrong::Class);
        }
        let mut characters = name.chars();
        match (characters.next(), characters.next()) {
            (Some(c), None) => Ok(Member::Character(c)),
            _ => Err(Wrong::Collation),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(syntax: Syntax, text: &str) -> Result<String, Wrong> {
        rewrite(text, syntax, false).map(|expression| expression.source)
    }

    #[test]
    fn basic_and_extended_expressions() {
        for (basic, extended, expected) in [
            ("", "", ""),
            ("ab", "ab", "ab"),
            ("a.c*", "a.c*", "a.c*"),
            ("\\(a\\|b\\)\\+", "(a|b)+", "(a|b)+"),
            (
                "a\\{2\\}b\\{2,\\}c\\{2,3\\}",
                "a{2}b{2,}c{2,3}",
                "a{2,2}b{2,}c{2,3}",
            ),
            ("(a+){2}", "\\(a\\+\\)\\{2\\}", "\\(a\\+\\)\\{2\\}"),
            ("^a$", "^a$", "^a$"),
            ("a^b$c", "a\\^b\\$c", "a\\^b\\$c"),
            ("^^", "^\\^", "^\\^"),
            ("*a", "\\*a", "\\*a"),
            ("\\(*a\\)", "(\\*a)", "(\\*a)"),
            ("^*", "^\\*", "^\\*"),
            ("\\(^a\\)", "(^a)", "(^a)"),
            ("\\(a$\\)", "(a$)", "(a$)"),
            ("\\.\\/<&~-#", "\\.\\/<&~-#", "\\.\\/<\\&\\~\\-\\#"),
            ("[]a]", "[]a]", "[\\]a]"),
            ("[^]-a]", "[^]-a]", "[^\\]-a]"),
            ("[a\\]", "[a\\]", "[a\\\\]"),
            ("[a-]", "[a-]", "[a\\-]"),
            ("[--0]", "[--0]", "[\\--0]"),
            ("[%--]", "[%--]", "[\\%-\\-]"),
            ("[a^[&&~]", "[a^[&&~]", "[a\\^\\[\\&\\&\\~]"),
            ("[[:alpha:]-]", "[[:alpha:]-]", "[[:alpha:]\\-]"),
            ("[[=a=][.-.]]", "[[=a=][.-.]]", "[a\\-]"),
            ("[[.a.]-c]", "[[.a.]-c]", "[a-c]"),
            ("\\<\\w\\>", "\\<\\w\\>", "\\b{start}\\w\\b{end}"),
            ("(?i)", "\\(\\?i\\)", "\\(\\?i\\)"),
        ] {
            assert_eq!(
                source(Syntax::Basic, basic).as_deref(),
                Ok(expected),
                "{basic}"
            );
            assert_eq!(
                source(Syntax::Extended, extended).as_deref(),
                Ok(expected),
                "{extended}"
            );
        }
        assert_eq!(source(Syntax::Fixed, "a.*[").as_deref(), Ok("a\\.\\*\\["));
        let by_lines = rewrite("([^a]|[b])()", Syntax::Extended, true).unwrap();
        assert_eq!(
            (by_lines.source.as_str(), by_lines.groups),
            ("([^\na]|[b])()", 2)
        );
    }

    #[test]
    fn what_is_wrong() {
        for (basic, extended, wrong) in [
            ("a\\", "a\\", Wrong::Escape),
            ("\\(a\\)\\1", "(a)\\1", Wrong::BackReference),
            ("[a", "[a", Wrong::Bracket),
            ("[]", "[]", Wrong::Bracket),
            ("[a-", "[a-", Wrong::Bracket),
            ("[[:alpha]", "[[:alpha]", Wrong::Bracket),
            ("[[.a", "[[.a", Wrong::Bracket),
            ("[[:nothing:]]", "[[:nothing:]]", Wrong::Class),
            ("[[::]]", "[[::]]", Wrong::Class),
            ("[[.ab.]]", "[[=ab=]]", Wrong::Collation),
            ("[b-a]", "[b-a]", Wrong::Range),
            ("[a-[:digit:]]", "[[:digit:]-a]", Wrong::Range),
            ("\\(a", "(a", Wrong::Parenthesis),
            ("a\\)", "a)", Wrong::Parenthesis),
            ("\\(a\\)\\)", "(a))", Wrong::Parenthesis),
            ("a\\{2", "a{2", Wrong::Brace),
            ("a\\{2,", "a{2,", Wrong::Brace),
            ("a\\{2\\", "a{", Wrong::Brace),
            ("a\\{\\}", "a{}", Wrong::Interval),
            ("a\\{x\\}", "a{x}", Wrong::Interval),
            ("a\\{,2\\}", "a{,2}", Wrong::Interval),
            ("a\\{2}", "a{2\\}", Wrong::Interval),
            ("a\\{3,2\\}", "a{3,2}", Wrong::Interval),
            ("a\\{32768\\}", "a{1,99999999999999999999}", Wrong::Interval),
            ("\\+", "*a", Wrong::Repetition),
            ("\\(\\{2\\}\\)", "(+)", Wrong::Repetition),
            ("a\\|\\?", "a|*", Wrong::Repetition),
            ("a**", "a+?", Wrong::Repetition),
            ("a\\{2\\}*", "a{2}{3}", Wrong::Repetition),
        ] {
            assert_eq!(source(Syntax::Basic, basic), Err(wrong), "{basic}");
            assert_eq!(source(Syntax::Extended, extended), Err(wrong), "{extended}");
        }
    }

    #[test]
    fn hostile_expressions() {
        let wrong = |text: String| source(Syntax::Extended, &text).unwrap_err();
        assert_eq!(wrong("(".repeat(1_000_000)), Wrong::Depth);
        assert_eq!(
            wrong("(".repeat(DEEPEST + 1) + &")".repeat(DEEPEST + 1)),
            Wrong::Depth
        );
        assert_eq!(wrong("[".repeat(1_000_000)), Wrong::Bracket);
        assert_eq!(wrong("[[:".repeat(1_000_000)), Wrong::Bracket);
        assert_eq!(
            wrong(String::from("a{") + &"9".repeat(1_000_000)),
            Wrong::Interval
        );
        assert_eq!(wrong("*".repeat(1_000_000)), Wrong::Repetition);
        assert!(source(Syntax::Extended, &"()".repeat(100_000)).is_ok());
        assert!(source(Syntax::Basic, &"[".repeat(100_000)).is_err());
        assert!(source(Syntax::Basic, &"$".repeat(100_000)).is_ok());
    }
}
