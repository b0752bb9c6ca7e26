//! From text to syntax tree.
//!
//! One pass over the characters: words are taken apart into their parts while they are read, so
//! that an error inside `$(…)` is found, with its line, before anything runs.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;

use crate::ast::{
    AndOr, Assignment, Command, CommandKind, Connector, Item, List, OpenMode, Operation, Part,
    Pipeline, Redirect, Target, Word, is_name, is_reserved,
};

/// How deeply commands, words and substitutions may nest. Parsing recurses; a script must not be
/// able to overflow the stack.
const MAX_DEPTH: u32 = 60;

/// Always empty: what a here-document without lines reads from.
pub const NULL_PATH: &str = "/scheme/null";

/// Why a text is not a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Line where it was noticed, from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// The text ended too early: more lines could complete it.
    pub incomplete: bool,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: syntax error: {}", self.line, self.message)
    }
}

type Result<T> = core::result::Result<T, SyntaxError>;

/// Reserved words that can only end or continue something.
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

/// Where a here-document's text goes once its lines were read.
type Body = Rc<RefCell<Option<Word>>>;

struct PendingHere {
    delimiter: String,
    /// The delimiter was quoted: no expansions.
    literal: bool,
    strip_tabs: bool,
    body: Body,
    line: u32,
}

/// Which characters end the current stretch of a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    /// A plain word.
    Bare,
    /// The word of `${name-word}` outside quotes: up to `}`.
    Braces,
}

/// A parser over one text. [`Parser::line`] gives one complete command line after the other, so that
/// earlier lines can run before later ones are looked at.
pub struct Parser<'a> {
    text: &'a str,
    position: usize,
    line: u32,
    depth: u32,
    peeked: Option<(Token, u32)>,
    pending: Vec<PendingHere>,
    /// Redirections waiting for their here-document, found again by the shared cell.
    bodies: Vec<Body>,
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

    /// Line number of the text not yet read.
    pub fn current_line(&self) -> u32 {
        self.line
    }

    // ---- errors ------------------------------------------------------------------------------

    fn error<T>(&self, line: u32, message: impl Into<String>) -> Result<T> {
        Err(SyntaxError {
            line,
            message: message.into(),
            incomplete: false,
        })
    }

    fn incomplete(&self, message: impl Into<String>) -> SyntaxError {
        SyntaxError {
            line: self.line,
            message: message.into(),
            incomplete: true,
        }
    }

    fn unexpected(&self, token: &Token, line: u32) -> SyntaxError {
        SyntaxError {
            line,
            message: format!("unexpected {}", token.describe()),
            incomplete: *token == Token::End,
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
            None => Err(self.incomplete("unexpected end of input")),
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
                        return Err(self.incomplete("the last line ends in a backslash"));
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

    // ---- words -------------------------------------------------------------------------------

    fn word(&mut self, context: Context) -> Result<Word> {
        let mut parts = Parts::default();
        while let Some(c) = self.peek_char() {
            match (context, c) {
                (Context::Bare, ' ' | '\t' | '\r' | '\n') => break,
                (Context::Bare, ';' | '&' | '|' | '<' | '>' | '(' | ')') => break,
                (Context::Braces, '}') => break,
                _ => {}
            }
            match c {
                '\'' => {
                    let start = self.line;
                    self.next_char();
                    parts.quote();
                    loop {
                        match self.next_char() {
                            None => {
                                return Err(self.incomplete(format!(
                                    "the single quote of line {start} is not closed"
                                )));
                            }
                            Some('\'') => break,
                            Some(c) => parts.quoted(c),
                        }
                    }
                }
                '"' => {
                    let start = self.line;
                    self.next_char();
                    parts.quote();
                    self.double_quoted(&mut parts, '"', start)?;
                }
                '\\' => {
                    self.next_char();
                    match self.next_char() {
                        None => return Err(self.incomplete("nothing follows the backslash")),
                        Some('\n') => {}
                        Some(c) => parts.quoted(c),
                    }
                }
                '$' | '`' => self.substitution(&mut parts, false)?,
                c => {
                    self.next_char();
                    parts.literal(c);
                }
            }
        }
        Ok(parts.finish())
    }

    /// Reads up to the closing `end` (`"`, or `}` inside braces) with the rules of double quotes.
    fn double_quoted(&mut self, parts: &mut Parts, end: char, start: u32) -> Result<()> {
        loop {
            match self.peek_char() {
                None => {
                    return Err(self.incomplete(if end == '"' {
                        format!("the double quote of line {start} is not closed")
                    } else {
                        format!("the `${{` of line {start} has no `}}`")
                    }));
                }
                Some(c) if c == end => {
                    self.next_char();
                    return Ok(());
                }
                Some('\\') => {
                    self.next_char();
                    match self.next_char() {
                        None => return Err(self.incomplete("nothing follows the backslash")),
                        Some('\n') => {}
                        Some(c) if matches!(c, '$' | '`' | '"' | '\\') || c == end => {
                            parts.quoted(c);
                        }
                        Some(c) => {
                            parts.quoted('\\');
                            parts.quoted(c);
                        }
                    }
                }
                Some('$' | '`') => self.substitution(parts, true)?,
                Some(c) => {
                    self.next_char();
                    parts.quoted(c);
                }
            }
        }
    }

    /// Something that begins with `$` or a back quote.
    fn substitution(&mut self, parts: &mut Parts, quoted: bool) -> Result<()> {
        let line = self.line;
        if self.eat("`") {
            return self.back_quotes(parts, quoted, line);
        }
        self.next_char();
        if self.rest().starts_with("((") {
            let (position, saved) = (self.position, self.line);
            if let Some(expression) = self.arithmetic()? {
                parts.push(Part::Arithmetic { expression, quoted });
                return Ok(());
            }
            // `$((a); (b))` is a command substitution that begins with a subshell.
            (self.position, self.line) = (position, saved);
        }
        if self.eat("(") {
            let body = self.nested(|parser| parser.command_substitution(line))?;
            parts.push(Part::Command { body, quoted });
            return Ok(());
        }
        if self.eat("{") {
            let part = self.nested(|parser| parser.braces(quoted, line))?;
            parts.push(part);
            return Ok(());
        }
        let rest = self.rest();
        let length = match rest.bytes().next() {
            Some(b) if b == b'_' || b.is_ascii_alphabetic() => rest
                .bytes()
                .take_while(|b| *b == b'_' || b.is_ascii_alphanumeric())
                .count(),
            Some(b) if b.is_ascii_digit() || b"?$!#@*-".contains(&b) => 1,
            _ => 0,
        };
        if length == 0 {
            // A lone dollar sign is text; as quoted text it cannot meet what follows.
            parts.quoted('$');
        } else {
            self.position += length;
            let name = rest[..length].into();
            parts.push(Part::Parameter {
                name,
                operation: Operation::Value,
                quoted,
            });
        }
        Ok(())
    }

    /// The commands of `$(…)`, read by a parser of their own that starts here.
    fn command_substitution(&mut self, start: u32) -> Result<List> {
        let mut inner = Parser::new(self.text, self.line);
        inner.position = self.position;
        inner.depth = self.depth;
        let unclosed = |error: SyntaxError| {
            if error.incomplete {
                let message = format!("the `$(` of line {start} has no `)`");
                SyntaxError { message, ..error }
            } else {
                error
            }
        };
        let list = inner.list(true).map_err(unclosed)?;
        let (token, line) = inner.next()?;
        if !token.is(")") {
            return Err(unclosed(inner.unexpected(&token, line)));
        }
        let list = inner.fill_here_documents(list);
        self.position = inner.position;
        self.line = inner.line;
        Ok(list)
    }

    fn back_quotes(&mut self, parts: &mut Parts, quoted: bool, start: u32) -> Result<()> {
        let mut text = String::new();
        loop {
            match self.next_char() {
                None => {
                    return Err(
                        self.incomplete(format!("the back quote of line {start} is not closed"))
                    );
                }
                Some('`') => break,
                Some('\\') => match self.next_char() {
                    Some(c) if matches!(c, '`' | '\\' | '$') || (quoted && c == '"') => {
                        text.push(c);
                    }
                    Some(c) => {
                        text.push('\\');
                        text.push(c);
                    }
                    None => {}
                },
                Some(c) => text.push(c),
            }
        }
        let depth = self.depth;
        let body = self.nested(|_| {
            let mut inner = Parser::new(&text, start);
            inner.depth = depth + 1;
            let mut list = List::default();
            while let Some(line) = inner.line()? {
                list.items.extend(line.items);
            }
            Ok(list)
        })?;
        parts.push(Part::Command { body, quoted });
        Ok(())
    }

    /// `((…))` after the dollar sign; `None` when the parentheses do not close as a pair.
    fn arithmetic(&mut self) -> Result<Option<Word>> {
        let start = self.line;
        self.position += 2;
        let mut parts = Parts::default();
        let mut open = 0u32;
        loop {
            match self.peek_char() {
                None => {
                    return Err(self.incomplete(format!("the `$((` of line {start} has no `))`")));
                }
                Some('(') => {
                    open += 1;
                    self.next_char();
                    parts.literal('(');
                }
                Some(')') if open > 0 => {
                    open -= 1;
                    self.next_char();
                    parts.literal(')');
                }
                Some(')') => {
                    return Ok(self.eat("))").then(|| parts.finish()));
                }
                Some('$' | '`') => {
                    self.nested(|parser| parser.substitution(&mut parts, true))?;
                }
                // Quotes mean nothing in an expression.
                Some('"') => {
                    self.next_char();
                }
                Some('\\') if self.rest().starts_with("\\\n") => {
                    self.next_char();
                    self.next_char();
                }
                Some(c) => {
                    self.next_char();
                    parts.literal(c);
                }
            }
        }
    }

    /// After `${`.
    fn braces(&mut self, quoted: bool, start: u32) -> Result<Part> {
        let bad = |parser: &Self| {
            let shown: String = parser
                .rest()
                .chars()
                .take_while(|c| *c != '\n')
                .take(20)
                .collect();
            parser.error(start, format!("bad substitution `${{{shown}`"))
        };
        let parameter = |rest: &str| match rest.bytes().next() {
            Some(b) if b == b'_' || b.is_ascii_alphabetic() => rest
                .bytes()
                .take_while(|b| *b == b'_' || b.is_ascii_alphanumeric())
                .count(),
            Some(b) if b.is_ascii_digit() => rest.bytes().take_while(u8::is_ascii_digit).count(),
            Some(b) if b"?$!#@*-".contains(&b) => 1,
            _ => 0,
        };
        if let Some(rest) = self.rest().strip_prefix('#')
            && parameter(rest) > 0
            && rest[parameter(rest)..].starts_with('}')
        {
            let name = rest[..parameter(rest)].into();
            self.position += 2 + parameter(rest);
            return Ok(Part::Parameter {
                name,
                operation: Operation::Length,
                quoted,
            });
        }
        let length = parameter(self.rest());
        if length == 0 {
            if self.rest().is_empty() {
                return Err(self.incomplete(format!("the `${{` of line {start} has no `}}`")));
            }
            return bad(self);
        }
        let name: String = self.rest()[..length].into();
        self.position += length;
        if self.eat("}") {
            return Ok(Part::Parameter {
                name,
                operation: Operation::Value,
                quoted,
            });
        }
        let colon = self.eat(":");
        let operator = self.next_char();
        let operation = match operator {
            Some('#' | '%') if !colon => {
                let longest = self.eat(if operator == Some('#') { "#" } else { "%" });
                let word = self.brace_word(false, start)?;
                if operator == Some('#') {
                    Operation::RemovePrefix(longest, word)
                } else {
                    Operation::RemoveSuffix(longest, word)
                }
            }
            Some('-') => Operation::Default(colon, self.brace_word(quoted, start)?),
            Some('=') => Operation::Assign(colon, self.brace_word(quoted, start)?),
            Some('?') => Operation::Error(colon, self.brace_word(quoted, start)?),
            Some('+') => Operation::Alternative(colon, self.brace_word(quoted, start)?),
            None => {
                return Err(self.incomplete(format!("the `${{` of line {start} has no `}}`")));
            }
            Some(_) => return bad(self),
        };
        Ok(Part::Parameter {
            name,
            operation,
            quoted,
        })
    }

    fn brace_word(&mut self, quoted: bool, start: u32) -> Result<Word> {
        if quoted {
            let mut parts = Parts::default();
            self.double_quoted(&mut parts, '}', start)?;
            return Ok(parts.finish());
        }
        let word = self.word(Context::Braces)?;
        if !self.eat("}") {
            return Err(self.incomplete(format!("the `${{` of line {start} has no `}}`")));
        }
        Ok(word)
    }

    // ---- here-documents ----------------------------------------------------------------------

    fn read_here_documents(&mut self) -> Result<()> {
        for here in core::mem::take(&mut self.pending) {
            let mut text = String::new();
            let first = self.line;
            loop {
                let rest = self.rest();
                let (line, length) = match rest.find('\n') {
                    Some(end) => (&rest[..end], end + 1),
                    None => (rest, rest.len()),
                };
                if length == 0 {
                    return Err(self.incomplete(format!(
                        "the here-document of line {} has no line `{}`",
                        here.line, here.delimiter
                    )));
                }
                self.position += length;
                self.line += 1;
                let line = if here.strip_tabs {
                    line.trim_start_matches('\t')
                } else {
                    line
                };
                if line == here.delimiter {
                    break;
                }
                text.push_str(line);
                text.push('\n');
            }
            let word = if text.is_empty() {
                None
            } else {
                text.pop();
                Some(if here.literal {
                    Word::quoted(&text)
                } else {
                    self.here_text(&text, first)?
                })
            };
            *here.body.borrow_mut() = word;
        }
        Ok(())
    }

    /// Parameters and commands in a here-document; quotes are text there.
    fn here_text(&self, text: &str, line: u32) -> Result<Word> {
        let mut inner = Parser::new(text, line);
        inner.depth = self.depth;
        let mut parts = Parts::default();
        parts.quote();
        while let Some(c) = inner.peek_char() {
            match c {
                '\\' => {
                    inner.next_char();
                    match inner.next_char() {
                        Some('\n') => {}
                        Some(c) if matches!(c, '$' | '`' | '\\') => parts.quoted(c),
                        Some(c) => {
                            parts.quoted('\\');
                            parts.quoted(c);
                        }
                        None => parts.quoted('\\'),
                    }
                }
                '$' | '`' => {
                    inner
                        .substitution(&mut parts, true)
                        .map_err(|error| SyntaxError {
                            incomplete: false,
                            ..error
                        })?;
                }
                c => {
                    inner.next_char();
                    parts.quoted(c);
                }
            }
        }
        Ok(parts.finish())
    }

    /// Puts the texts that were read into the redirections that wait for them. They are found by
    /// the placeholder number `here_redirect` left in the tree.
    fn fill_here_documents(&mut self, mut list: List) -> List {
        let bodies = core::mem::take(&mut self.bodies);
        if !bodies.is_empty() {
            fill_list(&mut list, &bodies);
        }
        list
    }

    fn here_redirect(&mut self, strip_tabs: bool, line: u32) -> Result<Target> {
        let (token, token_line) = self.next()?;
        let Token::Word(word) = token else {
            return Err(self.unexpected(&token, token_line));
        };
        let mut delimiter = String::new();
        let mut literal = false;
        for part in &word.parts {
            match part {
                Part::Literal(text) => delimiter.push_str(text),
                Part::Quoted(text) => {
                    literal = true;
                    delimiter.push_str(text);
                }
                _ => {
                    return self.error(line, "the end mark of a here-document must be plain text");
                }
            }
        }
        let body = Body::default();
        let placeholder = Part::Literal(format!("\n{}", self.bodies.len()));
        self.bodies.push(body.clone());
        self.pending.push(PendingHere {
            delimiter,
            literal,
            strip_tabs,
            body,
            line,
        });
        Ok(Target::HereString(Word {
            parts: [placeholder].into(),
        }))
    }

    // ---- grammar -----------------------------------------------------------------------------

    /// Commands up to a closing word or operator. `lines`: line ends separate commands;
    /// without, the first one ends the list.
    fn list(&mut self, lines: bool) -> Result<List> {
        let mut list = List::default();
        loop {
            if lines {
                self.skip_newlines()?;
            }
            if self.at_list_end()? {
                return Ok(list);
            }
            let body = self.and_or()?;
            let background = self.peek()?.is("&");
            list.items.push(Item { body, background });
            match self.peek()? {
                Token::Operator(";" | "&") => {
                    self.next()?;
                }
                Token::Newline if lines => {}
                _ => return Ok(list),
            }
        }
    }

    fn at_list_end(&mut self) -> Result<bool> {
        let token = self.peek()?;
        Ok(match token {
            Token::Newline | Token::End | Token::Operator(")" | ";;") => true,
            Token::Word(_) => token.keyword().is_some_and(|word| CLOSING.contains(&word)),
            _ => false,
        })
    }

    fn skip_newlines(&mut self) -> Result<()> {
        while *self.peek()? == Token::Newline {
            self.next()?;
        }
        Ok(())
    }

    /// A list that must not be empty, closed by one of the words in `ends`; gives that word.
    fn block(&mut self, opener: &str, start: u32, ends: &[&'static str]) -> Result<(List, usize)> {
        let list = self.list(true)?;
        let (token, line) = self.next()?;
        let found = token
            .keyword()
            .and_then(|word| ends.iter().position(|end| *end == word));
        let Some(found) = found else {
            let expected = ends.join("` or `");
            if token == Token::End {
                return Err(
                    self.incomplete(format!("`{opener}` of line {start} has no `{expected}`"))
                );
            }
            let what = token.describe();
            return self.error(
                line,
                format!("unexpected {what}: `{opener}` of line {start} expects `{expected}`"),
            );
        };
        if list.items.is_empty() {
            return self.error(line, format!("no command before `{}`", ends[found]));
        }
        Ok((list, found))
    }

    fn and_or(&mut self) -> Result<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            let connector = match self.peek()? {
                Token::Operator("&&") => Connector::And,
                Token::Operator("||") => Connector::Or,
                _ => return Ok(AndOr { first, rest }),
            };
            self.next()?;
            self.skip_newlines()?;
            rest.push((connector, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Result<Pipeline> {
        let mut negated = false;
        let mut timed = false;
        loop {
            match self.peek()?.keyword() {
                Some("!") => negated = !negated,
                Some("time") => timed = true,
                _ => break,
            }
            self.next()?;
        }
        let mut commands = Vec::from([self.nested(Self::command)?]);
        while self.peek()?.is("|") {
            self.next()?;
            self.skip_newlines()?;
            commands.push(self.nested(Self::command)?);
        }
        Ok(Pipeline {
            negated,
            timed,
            commands,
        })
    }

    fn command(&mut self) -> Result<Command> {
        let line = self.peek_line()?;
        let kind = if self.peek()?.is("(") {
            self.next()?;
            let list = self.list(true)?;
            let (token, end) = self.next()?;
            if token == Token::End {
                return Err(self.incomplete(format!("the `(` of line {line} has no `)`")));
            }
            if !token.is(")") {
                return Err(self.unexpected(&token, end));
            }
            if list.items.is_empty() {
                return self.error(end, "no command between `(` and `)`");
            }
            CommandKind::Subshell(list)
        } else {
            match self.peek()?.keyword() {
                Some("if") => self.if_command(line)?,
                Some("while") => self.loop_command("while", line)?,
                Some("until") => self.loop_command("until", line)?,
                Some("for") => self.for_command(line)?,
                Some("case") => self.case_command(line)?,
                Some("{") => {
                    self.next()?;
                    CommandKind::Group(self.block("{", line, &["}"])?.0)
                }
                Some(word) if CLOSING.contains(&word) => {
                    let token = self.peek()?.clone();
                    return Err(self.unexpected(&token, line));
                }
                _ => return self.simple_command(line),
            }
        };
        let mut redirects = Vec::new();
        while let Some(redirect) = self.redirect()? {
            redirects.push(redirect);
        }
        Ok(Command {
            kind,
            redirects,
            line,
        })
    }

    fn if_command(&mut self, start: u32) -> Result<CommandKind> {
        self.next()?;
        let mut arms = Vec::new();
        let mut otherwise = None;
        loop {
            let (condition, _) = self.block("if", start, &["then"])?;
            let (body, end) = self.block("then", start, &["elif", "else", "fi"])?;
            arms.push((condition, body));
            match end {
                0 => {}
                1 => {
                    otherwise = Some(self.block("else", start, &["fi"])?.0);
                    break;
                }
                _ => break,
            }
        }
        Ok(CommandKind::If { arms, otherwise })
    }

    fn loop_command(&mut self, keyword: &str, start: u32) -> Result<CommandKind> {
        self.next()?;
        let (condition, _) = self.block(keyword, start, &["do"])?;
        let (body, _) = self.block("do", start, &["done"])?;
        Ok(CommandKind::Loop {
            until: keyword == "until",
            condition,
            body,
        })
    }

    fn name(&mut self, what: &str) -> Result<String> {
        let (token, line) = self.next()?;
        match &token {
            Token::Word(word) => match word.bare() {
                Some(name) if is_name(name) => Ok(name.to_string()),
                _ => self.error(line, format!("{} is not a valid {what}", token.describe())),
            },
            _ => Err(self.unexpected(&token, line)),
        }
    }

    fn for_command(&mut self, start: u32) -> Result<CommandKind> {
        self.next()?;
        let name = self.name("loop variable")?;
        let mut words = None;
        // Line ends may stand before `in`.
        self.skip_newlines()?;
        if self.peek()?.keyword() == Some("in") {
            self.next()?;
            let mut list = Vec::new();
            while let Token::Word(_) = self.peek()? {
                if let (Token::Word(word), _) = self.next()? {
                    list.push(word);
                }
            }
            words = Some(list);
        }
        if self.peek()?.is(";") {
            self.next()?;
        }
        self.skip_newlines()?;
        let (token, line) = self.next()?;
        if token.keyword() != Some("do") {
            if token == Token::End {
                return Err(self.incomplete(format!("`for` of line {start} has no `do`")));
            }
            let what = token.describe();
            return self.error(
                line,
                format!("unexpected {what}: `for` of line {start} expects `do`"),
            );
        }
        let (body, _) = self.block("do", start, &["done"])?;
        Ok(CommandKind::For { name, words, body })
    }

    fn case_command(&mut self, start: u32) -> Result<CommandKind> {
        let unclosed =
            |parser: &Self| Err(parser.incomplete(format!("`case` of line {start} has no `esac`")));
        self.next()?;
        let (token, line) = self.next()?;
        let Token::Word(word) = token else {
            return Err(self.unexpected(&token, line));
        };
        self.skip_newlines()?;
        let (token, line) = self.next()?;
        if token.keyword() != Some("in") {
            return Err(self.unexpected(&token, line));
        }
        let mut arms = Vec::new();
        loop {
            self.skip_newlines()?;
            match self.peek()? {
                Token::End => return unclosed(self),
                token if token.keyword() == Some("esac") => {
                    self.next()?;
                    return Ok(CommandKind::Case { word, arms });
                }
                token if token.is("(") => {
                    self.next()?;
                }
                _ => {}
            }
            let mut patterns = Vec::new();
            loop {
                let (token, line) = self.next()?;
                let Token::Word(pattern) = token else {
                    return Err(self.unexpected(&token, line));
                };
                patterns.push(pattern);
                let (token, line) = self.next()?;
                if token.is(")") {
                    break;
                }
                if !token.is("|") {
                    return Err(self.unexpected(&token, line));
                }
            }
            let body = self.list(true)?;
            arms.push((patterns, body));
            match self.peek()? {
                Token::End => return unclosed(self),
                token if token.is(";;") => {
                    self.next()?;
                }
                token if token.keyword() == Some("esac") => {}
                _ => {
                    let (token, line) = self.next()?;
                    return Err(self.unexpected(&token, line));
                }
            }
        }
    }

    fn redirect(&mut self) -> Result<Option<Redirect>> {
        let fd = match self.peek()? {
            Token::Number(fd) => {
                let fd = *fd;
                self.next()?;
                Some(fd)
            }
            Token::Operator(
                "<" | ">" | ">>" | "<&" | ">&" | "<>" | "<<" | "<<-" | "<<<" | ">|",
            ) => None,
            _ => return Ok(None),
        };
        let (token, line) = self.next()?;
        let Token::Operator(operator) = token else {
            return Err(self.unexpected(&token, line));
        };
        let fd = fd.unwrap_or(if operator.starts_with('<') { 0 } else { 1 });
        if fd > 9 {
            return self.error(line, format!("file descriptor {fd} is not one of 0 to 9"));
        }
        if operator == "<<" || operator == "<<-" {
            let target = self.here_redirect(operator == "<<-", line)?;
            return Ok(Some(Redirect { fd, target }));
        }
        let (token, line) = self.next()?;
        let Token::Word(word) = token else {
            return Err(self.unexpected(&token, line));
        };
        let target = match operator {
            "<" => Target::File(OpenMode::Read, word),
            ">" | ">|" => Target::File(OpenMode::Write, word),
            ">>" => Target::File(OpenMode::Append, word),
            "<>" => Target::File(OpenMode::ReadWrite, word),
            "<&" => Target::Duplicate(true, word),
            ">&" => Target::Duplicate(false, word),
            _ => Target::HereString(word),
        };
        Ok(Some(Redirect { fd, target }))
    }

    fn simple_command(&mut self, line: u32) -> Result<Command> {
        let mut assignments = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut redirects = Vec::new();
        loop {
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                continue;
            }
            match self.peek()? {
                Token::Word(_) => {
                    let (token, _) = self.next()?;
                    let Token::Word(word) = token else { continue };
                    match as_assignment(&word) {
                        Some(assignment) if words.is_empty() => assignments.push(assignment),
                        _ => words.push(word),
                    }
                }
                token if token.is("(") && assignments.is_empty() && words.len() == 1 => {
                    let (_, line) = self.next()?;
                    let (token, end) = self.next()?;
                    if !token.is(")") {
                        return Err(self.unexpected(&token, end));
                    }
                    let name = match words[0].bare() {
                        Some(name) if is_name(name) => name.to_string(),
                        _ => {
                            let message = format!("`{}` is not a valid function name", words[0]);
                            return self.error(line, message);
                        }
                    };
                    self.skip_newlines()?;
                    let body = Rc::new(self.nested(Self::command)?);
                    let kind = CommandKind::Function { name, body };
                    return Ok(Command {
                        kind,
                        redirects,
                        line,
                    });
                }
                _ => break,
            }
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            let (token, line) = self.next()?;
            return Err(self.unexpected(&token, line));
        }
        Ok(Command {
            kind: CommandKind::Simple { assignments, words },
            redirects,
            line,
        })
    }
}

/// `NAME=value`, when the word has that form.
fn as_assignment(word: &Word) -> Option<Assignment> {
    let (Part::Literal(first), others) = word.parts.split_first()? else {
        return None;
    };
    let (name, value) = first.split_once('=')?;
    if !is_name(name) {
        return None;
    }
    let mut parts = Vec::new();
    if !value.is_empty() {
        parts.push(Part::Literal(value.into()));
    }
    parts.extend_from_slice(others);
    if parts.is_empty() {
        parts.push(Part::Quoted(String::new()));
    }
    Some(Assignment {
        name: name.into(),
        value: Word { parts },
    })
}

/// Collects the parts of a word, merging neighbours of the same kind.
#[derive(Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn literal(&mut self, c: char) {
        match self.0.last_mut() {
            Some(Part::Literal(text)) => text.push(c),
            _ => self.0.push(Part::Literal(c.into())),
        }
    }

    fn quoted(&mut self, c: char) {
        self.quote();
        if let Some(Part::Quoted(text)) = self.0.last_mut() {
            text.push(c);
        }
    }

    /// Marks that something is quoted here, be it empty.
    fn quote(&mut self) {
        if !matches!(self.0.last(), Some(Part::Quoted(_))) {
            self.0.push(Part::Quoted(String::new()));
        }
    }

    fn push(&mut self, part: Part) {
        self.0.push(part);
    }

    /// The word. An empty quoted text is dropped where a quoted expansion stands beside it: that
    /// already makes the word exist, and `"$@"` must be able to vanish.
    fn finish(self) -> Word {
        let mut parts = self.0;
        let expansion = parts.iter().any(|part| {
            matches!(
                part,
                Part::Parameter { quoted: true, .. }
                    | Part::Command { quoted: true, .. }
                    | Part::Arithmetic { quoted: true, .. }
            )
        });
        if expansion {
            parts.retain(|part| !matches!(part, Part::Quoted(text) if text.is_empty()));
        }
        if parts.is_empty() {
            parts.push(Part::Quoted(String::new()));
        }
        Word { parts }
    }
}

fn fill_list(list: &mut List, bodies: &[Body]) {
    for item in &mut list.items {
        let pipelines = item.body.rest.iter_mut().map(|(_, pipeline)| pipeline);
        for pipeline in core::iter::once(&mut item.body.first).chain(pipelines) {
            for command in &mut pipeline.commands {
                fill_command(command, bodies);
            }
        }
    }
}

fn fill_command(command: &mut Command, bodies: &[Body]) {
    for redirect in &mut command.redirects {
        let Target::HereString(word) = &redirect.target else {
            continue;
        };
        // A line end never stands in an unquoted literal of the source: only placeholders have one.
        let number = word.bare().and_then(|text| text.strip_prefix('\n'));
        let Some(number) = number.and_then(|text| text.parse::<usize>().ok()) else {
            continue;
        };
        let body = bodies.get(number).and_then(|body| body.borrow_mut().take());
        let empty = || {
            let path = Word {
                parts: [Part::Literal(NULL_PATH.into())].into(),
            };
            Target::File(OpenMode::Read, path)
        };
        redirect.target = body.map_or_else(empty, Target::HereString);
    }
    match &mut command.kind {
        CommandKind::Simple { .. } => {}
        CommandKind::If { arms, otherwise } => {
            for (condition, body) in arms {
                fill_list(condition, bodies);
                fill_list(body, bodies);
            }
            if let Some(body) = otherwise {
                fill_list(body, bodies);
            }
        }
        CommandKind::Loop {
            condition, body, ..
        } => {
            fill_list(condition, bodies);
            fill_list(body, bodies);
        }
        CommandKind::For { body, .. } => fill_list(body, bodies),
        CommandKind::Case { arms, .. } => {
            for (_, body) in arms {
                fill_list(body, bodies);
            }
        }
        CommandKind::Group(list) | CommandKind::Subshell(list) => fill_list(list, bodies),
        CommandKind::Function { body, .. } => {
            if let Some(body) = Rc::get_mut(body) {
                fill_command(body, bodies);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            "echo $((1 + (2*$x) << 3)) ${#x} ${x:-a b} ${x-'q q'} \"${x:+a \\\" b}\" ${x##*/} ${x%.*}",
            "echo ${x:=y} ${x?gone} \"${x%\"$y\"}\"",
            "cat <<EOF\nhello $x \\$y\nEOF\necho after",
            "cat <<'EOF' | wc\nhello $x\n\nEOF",
            "cat <<EOF\nEOF",
            "cat <<<\"a b\"",
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
                (error.line, error.incomplete),
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
