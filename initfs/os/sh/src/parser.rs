//! Parses text into a syntax tree.
//!
//! One pass over the characters: words are divided into their parts while they are read, so that
//! an error inside `$(…)` is found, with its line, before anything runs.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use self::here::{Body, PendingHere};
use self::words::Context;
use crate::ast::{List, Word, is_reserved};

mod grammar;
mod here;
mod words;

/// How deeply commands, words and substitutions may nest. Parsing recurses; a script must not be
/// able to overflow the stack.
const MAX_DEPTH: u32 = 60;

/// A file that is always empty, from which a here-document without lines reads.
pub const NULL_PATH: &str = "/scheme/null";

/// Why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Line where the error was found, from 1.
    pub line: u32,
    /// The error.
    pub message: String,
    /// If the text ended too early, so that more lines could complete it: what they must have.
    pub awaits: Option<Awaited>,
}

impl SyntaxError {
    /// Whether the text ended too early.
    pub fn incomplete(&self) -> bool {
        self.awaits.is_some()
    }
}

/// What a text that ended too early waits for. As long as no line has it, the longer text need not
/// be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Nothing certain: any line may complete it.
    Any,
    /// One of these reserved words.
    Words(&'static [&'static str]),
    /// This character.
    Character(char),
    /// The line that ends a here-document; the flag is set if tabs may stand before it.
    Line(String, bool),
}

impl Awaited {
    /// Whether a line may complete the text.
    pub fn may_be_in(&self, line: &str) -> bool {
        match self {
            Awaited::Any => true,
            // A backslash at the end of the line is no part of the word before it.
            Awaited::Words(words) => line
                .trim_end_matches('\\')
                .split(|c: char| c.is_whitespace() || ";&|()<>".contains(c))
                .any(|word| words.contains(&word)),
            Awaited::Character(c) => line.contains(*c),
            Awaited::Line(end, true) => line.trim_start_matches('\t') == end,
            Awaited::Line(end, false) => line == end,
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: syntax error: {}", self.line, self.message)
    }
}

type Result<T> = core::result::Result<T, SyntaxError>;

/// Reserved words that can only end or continue a command.
const CLOSING: &[&str] = &["then", "elif", "else", "fi", "do", "done", "esac", "}"];

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    /// Digits directly before `<` or `>`.
    Number(u8),
    Operator(&'static str),
    Newline,
    End,
}

impl Token {
    fn describe(&self) -> String {
        match self {
            Token::Word(word) => format!("`{word}`"),
            Token::Number(n) => format!("`{n}`"),
            Token::Operator(text) => format!("`{text}`"),
            Token::Newline => "end of line".into(),
            Token::End => "end of input".into(),
        }
    }

    fn is(&self, operator: &str) -> bool {
        matches!(self, Token::Operator(text) if *text == operator)
    }

    fn keyword(&self) -> Option<&str> {
        match self {
            Token::Word(word) => word.bare().filter(|text| is_reserved(text)),
            _ => None,
        }
    }
}

/// Longest first, so that the first match is the right one.
const OPERATORS: &[&str] = &[
    "<<<", "<<-", "&&", "||", ";;", "<<", ">>", "<&", ">&", "<>", ">|", ";", "&", "|", "(", ")",
    "<", ">",
];

/// A parser over one text. [`Parser::line`] gives one complete command line after the other, so
/// that earlier lines can run before later ones are parsed.
pub struct Parser<'a> {
    text: &'a str,
    position: usize,
    line: u32,
    depth: u32,
    peeked: Option<(Token, u32)>,
    pending: Vec<PendingHere>,
    /// Redirections waiting for their here-document, found again by the shared cell.
    bodies: Vec<Body>,
    /// Positions of `((` that begin no arithmetic. What is inside is parsed a second time then, so
    /// without this list, which is sorted, each level of nesting would double the time.
    not_arithmetic: Vec<usize>,
}

/// Parses a whole script.
pub fn parse(text: &str) -> Result<List> {
    let mut parser = Parser::new(text, 1);
    let mut list = List::default();
    while let Some(line) = parser.line()? {
        list.items.extend(line.items);
    }
    Ok(list)
}

impl<'a> Parser<'a> {
    /// Starts at the beginning of `text`, whose first line has the number `line`.
    pub fn new(text: &'a str, line: u32) -> Self {
        Parser {
            text,
            position: 0,
            line,
            depth: 0,
            peeked: None,
            pending: Vec::new(),
            bodies: Vec::new(),
            not_arithmetic: Vec::new(),
        }
    }

    /// The next command line (with all the lines it extends over), or `None` at the end.
    pub fn line(&mut self) -> Result<Option<List>> {
        while *self.peek()? == Token::Newline {
            self.next()?;
        }
        if *self.peek()? == Token::End {
            return Ok(None);
        }
        let list = self.list(false)?;
        let (token, line) = self.next()?;
        match token {
            Token::Newline | Token::End => {}
            other => return Err(self.unexpected(&other, line)),
        }
        if !self.pending.is_empty() {
            self.read_here_documents()?;
        }
        Ok(Some(self.fill_here_documents(list)))
    }

    // ---- errors ------------------------------------------------------------------------------

    fn error<T>(&self, line: u32, message: impl Into<String>) -> Result<T> {
        Err(SyntaxError {
            line,
            message: message.into(),
            awaits: None,
        })
    }

    fn incomplete(&self, message: impl Into<String>, awaits: Awaited) -> SyntaxError {
        SyntaxError {
            line: self.line,
            message: message.into(),
            awaits: Some(awaits),
        }
    }

    fn unexpected(&self, token: &Token, line: u32) -> SyntaxError {
        SyntaxError {
            line,
            message: format!("unexpected {}", token.describe()),
            awaits: (*token == Token::End).then_some(Awaited::Any),
        }
    }

    /// Enters one level of nesting for the time of `parse`.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= MAX_DEPTH {
            return self.error(self.line, format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    // ---- characters --------------------------------------------------------------------------

    fn rest(&self) -> &'a str {
        &self.text[self.position..]
    }

    fn peek_char(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.peek_char()?;
        self.position += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        if found {
            self.position += text.len();
        }
        found
    }

    // ---- tokens ------------------------------------------------------------------------------

    fn peek(&mut self) -> Result<&Token> {
        if self.peeked.is_none() {
            self.peeked = Some(self.token()?);
        }
        match &self.peeked {
            Some((token, _)) => Ok(token),
            None => Err(self.incomplete("unexpected end of input", Awaited::Any)),
        }
    }

    fn peek_line(&mut self) -> Result<u32> {
        self.peek()?;
        Ok(self.peeked.as_ref().map_or(self.line, |(_, line)| *line))
    }

    fn next(&mut self) -> Result<(Token, u32)> {
        let token = match self.peeked.take() {
            Some(token) => token,
            None => self.token()?,
        };
        Ok(token)
    }

    fn token(&mut self) -> Result<(Token, u32)> {
        loop {
            match self.peek_char() {
                Some(' ' | '\t' | '\r') => {
                    self.next_char();
                }
                Some('\\') if self.rest().starts_with("\\\n") => {
                    self.next_char();
                    self.next_char();
                    if self.rest().is_empty() {
                        return Err(
                            self.incomplete("the last line ends in a backslash", Awaited::Any)
                        );
                    }
                }
                Some('#') => {
                    while self.peek_char().is_some_and(|c| c != '\n') {
                        self.next_char();
                    }
                }
                _ => break,
            }
        }
        let line = self.line;
        let Some(c) = self.peek_char() else {
            return Ok((Token::End, line));
        };
        if c == '\n' {
            self.next_char();
            if !self.pending.is_empty() {
                self.read_here_documents()?;
            }
            return Ok((Token::Newline, line));
        }
        for operator in OPERATORS {
            if self.eat(operator) {
                return Ok((Token::Operator(operator), line));
            }
        }
        if c.is_ascii_digit() {
            let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
            if matches!(self.rest().as_bytes().get(digits), Some(b'<' | b'>')) {
                let text = &self.rest()[..digits];
                let Ok(number) = text.parse::<u8>() else {
                    return self.error(line, format!("file descriptor {text} is too large"));
                };
                self.position += digits;
                return Ok((Token::Number(number), line));
            }
        }
        let word = self.nested(|parser| parser.word(Context::Bare))?;
        Ok((Token::Word(word), line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    fn round_trip(text: &str) {
        let tree = parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let printed = tree.to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{printed:?}: {error}"));
        assert_eq!(tree, again, "{text:?} printed as {printed:?}");
    }

    #[test]
    fn printing_and_parsing_again_gives_the_same_tree() {
        for text in [
            "echo hello world",
            "a; b & c && d || ! e | f 2>&1 >&2 <in >>out 3<>both",
            "X=1 Y='a b' cmd \"$X\"$Y'${Z}' \\\\ \\$ \"a\\\"b\"",
            "if a; then b; elif c; then d & else e; fi",
            "while read x; do echo $x; done <file | wc -l",
            "until false; do break; done",
            "for i in 1 2 *.txt; do echo $i; done; for j do :; done",
            "case $x in a|b) echo 1 ;; (*) ;; esac",
            "f() { echo $1 $@ \"$@\" $#; }; f a",
            "(cd /; ls) && { a; b; }",
            "echo $(ls | wc -l) \"$(echo \"in $(echo deep)\")\" `date`",
            "echo $((1 + (2*$x) << 3)) ${#x} ${x:-a b} ${x-'q q'}",
            "echo $((1 + $\"$\" + $\"x))",
            "echo \"${x:+a \\\" b}\" ${x##*/} ${x%.*}",
            "echo ${x:-} ${x-''} \"${x:+}\" ${x#} a${x=}b",
            "echo ${x:=y} ${x?gone} \"${x%\"$y\"}\"",
            "echo \"${x-\"a } b\"} ${x-\"${y-\"}\"}\"}\"",
            "cat <<EOF\nhello $x \\$y\nEOF\necho after",
            "cat <<EOF\n${x-\"a } b\"} \"q\"\nEOF",
            "cat <<'EOF' | wc\nhello $x\n\nEOF",
            "cat <<EOF\nEOF",
            "cat <<<\"a b\"",
            "echo $((\\\"\n1))",
            "echo \"\" '' \"$x\" \"\"$x",
            "time ! sleep 1",
            "# only a comment",
            "echo a#b # comment",
            "echo a \\\n b",
        ] {
            round_trip(text);
        }
    }

    #[test]
    fn here_documents_nest_as_deeply_as_they_may_when_printed() {
        for (before, after) in [("", "\n"), ("{ ", "; }\n"), ("( x; { ", "; } )\n")] {
            let accepted = (1..=MAX_DEPTH as usize).filter(|levels| {
                let (open, close) = ("${x:-".repeat(*levels), "}".repeat(*levels));
                let text = format!("{before}cat <<E{after}{open}{close}\nE\n");
                let accepted = parse(&text).is_ok();
                if accepted {
                    round_trip(&text);
                }
                accepted
            });
            let accepted = accepted.count();
            assert!(accepted > 50 && accepted < MAX_DEPTH as usize, "{accepted}");
        }
    }

    #[test]
    fn here_documents_may_share_a_line() {
        let list = parse("cat <<A <<B; x\na\nA\nb $v\nB\ny").unwrap();
        assert_eq!(list.items.len(), 3);
        assert_eq!(
            list.items[0].body.first.to_string(),
            "cat 0<<<'a' 0<<<'b '\"${v}\""
        );
    }

    #[test]
    fn errors_name_line_and_cause() {
        let cases = [
            ("echo a\ndone", 2, "unexpected `done`", false),
            (
                "if a\nthen b\n",
                3,
                "`then` of line 1 has no `elif` or `else` or `fi`",
                true,
            ),
            (
                "echo 'a\nb",
                2,
                "the single quote of line 1 is not closed",
                true,
            ),
            ("a |", 1, "unexpected end of input", true),
            ("a | | b", 1, "unexpected `|`", false),
            ("echo $(ls", 1, "the `$(` of line 1 has no `)`", true),
            (
                "\n\nfor 1x in a; do b; done",
                3,
                "`1x` is not a valid loop variable",
                false,
            ),
            ("echo ${x", 1, "has no `}`", true),
            ("echo ${}", 1, "bad substitution `${}`", false),
            (
                "cat <<E\nabc\n",
                3,
                "the here-document of line 1 has no line `E`",
                true,
            ),
            ("a &&", 1, "unexpected end of input", true),
            ("while a; do done", 1, "no command before `done`", false),
            (")", 1, "unexpected `)`", false),
            ("echo 12>", 1, "file descriptor 12", false),
            ("a <b () c", 1, "`(`", false),
            ("echo 300>x", 1, "too large", false),
            ("echo >", 1, "unexpected end of input", true),
            (
                "case x in a) b;;",
                1,
                "`case` of line 1 has no `esac`",
                true,
            ),
        ];
        for (text, line, message, incomplete) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.message.contains(message), "{text:?}: {error}");
            assert_eq!(
                (error.line, error.incomplete()),
                (line, incomplete),
                "{text:?}: {error}"
            );
        }
    }

    #[test]
    fn deep_nesting_is_an_error_and_not_a_crash() {
        for text in [
            "(".repeat(100_000),
            "$(".repeat(100_000),
            "${x:-".repeat(100_000),
            "\"$(".repeat(100_000),
            "$((".repeat(100_000),
            "if ".repeat(100_000),
            "f()".repeat(100_000),
            "`\\`".repeat(1000),
        ] {
            assert!(parse(&text).is_err());
        }
    }

    #[test]
    fn parentheses_that_are_no_arithmetic_are_tried_once() {
        // Each level looks like arithmetic up to its last character. If the parser parsed what is
        // inside twice for each of them, this would take hours.
        let deep =
            |levels: usize| format!("echo {}x{}", "$((".repeat(levels), ") )".repeat(levels));
        let deepest = 19;
        let text = deep(deepest);
        round_trip(&vec![text.as_str(); 100].join("\n"));
        assert!(parse(&deep(deepest + 1)).is_err(), "the depth is limited");
        round_trip("echo $((a); $((1 + $((b) ) )) )");
    }

    #[test]
    fn lines_come_one_by_one() {
        let mut parser = Parser::new("echo a\nif b\nthen c\nfi; d\n)", 1);
        assert_eq!(parser.line().unwrap().unwrap().to_string(), "echo a");
        assert_eq!(
            parser.line().unwrap().unwrap().to_string(),
            "if b; then c; fi; d"
        );
        assert_eq!(parser.line().unwrap_err().line, 5);
    }

    #[test]
    fn an_unfinished_text_says_what_it_waits_for() {
        let words = |words| Some(Awaited::Words(words));
        let character = |c| Some(Awaited::Character(c));
        for (text, awaits) in [
            ("{ a\n", words(&["}"])),
            ("if a; then b\n", words(&["elif", "else", "fi"])),
            ("while a; do { b; }\n", words(&["done"])),
            ("case a in\n", words(&["esac"])),
            ("f() (a\n", character(')')),
            ("echo $(a\n", character(')')),
            ("{ echo 'a\n", character('\'')),
            ("{ echo \"a\n", character('"')),
            ("echo \"$(if a\n", words(&["then"])),
            ("{ a |\n", Some(Awaited::Any)),
            ("{ cat <<A <<-B\nA\n", Some(Awaited::Line("B".into(), true))),
            ("fi\n", None),
        ] {
            assert_eq!(parse(text).unwrap_err().awaits, awaits, "{text:?}");
        }
        let closing = Awaited::Words(&["fi", "}"]);
        for line in ["a;fi", "a) }", "fi\\"] {
            assert!(closing.may_be_in(line), "{line:?}");
        }
        assert!(!closing.may_be_in("${x} afi"));
        assert!(Awaited::Line("E".into(), true).may_be_in("\tE"));
        assert!(!Awaited::Line("E".into(), false).may_be_in("\tE"));
    }

    #[test]
    fn no_line_without_what_is_awaited_completes_a_text() {
        let alphabet = [
            "if a; then\n",
            "fi\n",
            "fi",
            "then\n",
            "{ ",
            "}\n",
            "}",
            "(",
            ")\n",
            "a",
            " ",
            "\n",
            "\n",
            ";",
            "|",
            "'",
            "\"",
            "`",
            "$(",
            "${x-",
            "$((",
            "\\\n",
            "cat <<E\n",
            "E\n",
            "E",
            "#",
            "case a in\n",
            "b) ",
            "esac\n",
            "for x in a\n",
            "do\n",
            "done\n",
        ];
        let mut seed = 1u64;
        let mut skipped = 0;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(alphabet[(seed >> 33) as usize % alphabet.len()]);
            }
            text.push('\n');
            let mut awaited = Awaited::Any;
            let mut pending = String::new();
            for line in text.lines() {
                let joined = pending.ends_with("\\\n");
                pending.push_str(line);
                pending.push('\n');
                let error = parse(&pending).err();
                let waits = !joined && !awaited.may_be_in(line);
                match error {
                    None => {
                        assert!(!waits, "{pending:?} was complete, not {awaited:?}");
                        break;
                    }
                    Some(_) if waits => skipped += 1,
                    Some(error) => match error.awaits {
                        Some(more) => awaited = more,
                        None => break,
                    },
                }
            }
        }
        assert!(skipped > 1000, "{skipped}");
    }

    #[test]
    fn any_text_gives_a_tree_or_an_error() {
        // A small generator of token soup; the alphabet is what the grammar is made of.
        let alphabet = [
            "if ", "then ", "fi ", "do ", "done ", "a", " ", "\n", ";", "&", "|", "(", ")", "{ ",
            "} ", "$", "${", "}", "'", "\"", "`", "\\", "<", ">", "<<E", "E\n", "#", "=", "case ",
            " in ", "esac ", "1", "é", "((", "))", ":-", "%", "for ", "x() ",
        ];
        let mut seed = 1u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(alphabet[(seed >> 33) as usize % alphabet.len()]);
            }
            if let Ok(tree) = parse(&text) {
                let printed = tree.to_string();
                assert_eq!(
                    parse(&printed).as_ref(),
                    Ok(&tree),
                    "{text:?} as {printed:?}"
                );
            }
        }
    }
}
