//! Divides words into their parts while they are read.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Awaited, Parser, Result, SyntaxError};
use crate::ast::{List, Operation, Part, Word};

/// The kind of text that is read, which decides which characters end it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Context {
    /// A plain word.
    Bare,
    /// The word of `${name-word}` outside quotes: up to `}`.
    Braces,
}

impl Parser<'_> {
    pub(super) fn word(&mut self, context: Context) -> Result<Word> {
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
                                return Err(self.incomplete(
                                    format!("the single quote of line {start} is not closed"),
                                    Awaited::Character('\''),
                                ));
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
                        None => {
                            return Err(
                                self.incomplete("nothing follows the backslash", Awaited::Any)
                            );
                        }
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
    /// Inside braces double quotes are removed, and a `}` between two of them is text.
    pub(super) fn double_quoted(&mut self, parts: &mut Parts, end: char, start: u32) -> Result<()> {
        let mut inner = false;
        loop {
            match self.peek_char() {
                None => {
                    let message = if end == '"' {
                        format!("the double quote of line {start} is not closed")
                    } else {
                        format!("the `${{` of line {start} has no `}}`")
                    };
                    return Err(self.incomplete(message, Awaited::Character(end)));
                }
                Some(c) if c == end && !inner => {
                    self.next_char();
                    return Ok(());
                }
                Some('"') => {
                    self.next_char();
                    inner = !inner;
                }
                Some('\\') => {
                    self.next_char();
                    match self.next_char() {
                        None => {
                            return Err(
                                self.incomplete("nothing follows the backslash", Awaited::Any)
                            );
                        }
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

    /// Parses an expansion that begins with `$` or a back quote.
    pub(super) fn substitution(&mut self, parts: &mut Parts, quoted: bool) -> Result<()> {
        let line = self.line;
        if self.eat("`") {
            return self.back_quotes(parts, quoted, line);
        }
        self.next_char();
        let (position, saved) = (self.position, self.line);
        let may_be_arithmetic = self.not_arithmetic.binary_search(&position).is_err();
        if may_be_arithmetic && self.rest().starts_with("((") {
            if let Some(expression) = self.arithmetic()? {
                parts.push(Part::Arithmetic { expression, quoted });
                return Ok(());
            }
            // `$((a); (b))` is a command substitution that begins with a subshell.
            let place = self.not_arithmetic.partition_point(|of| *of < position);
            self.not_arithmetic.insert(place, position);
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
            // A lone dollar sign is text. As quoted text it cannot combine with what follows.
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

    /// Parses the commands of `$(…)` by a parser of their own that starts here.
    pub(super) fn command_substitution(&mut self, start: u32) -> Result<List> {
        let mut inner = Parser::new(self.text, self.line);
        inner.position = self.position;
        inner.depth = self.depth;
        // The text is the same, and so are its positions.
        inner.not_arithmetic = core::mem::take(&mut self.not_arithmetic);
        let unclosed = |error: SyntaxError| {
            if error.incomplete() {
                let message = format!("the `$(` of line {start} has no `)`");
                SyntaxError { message, ..error }
            } else {
                error
            }
        };
        let list = inner.list(true).map_err(unclosed)?;
        let (token, line) = inner.next()?;
        if !token.is(")") {
            let mut error = inner.unexpected(&token, line);
            if error.incomplete() {
                error.awaits = Some(Awaited::Character(')'));
            }
            return Err(unclosed(error));
        }
        let list = inner.fill_here_documents(list);
        self.position = inner.position;
        self.line = inner.line;
        self.not_arithmetic = inner.not_arithmetic;
        Ok(list)
    }

    pub(super) fn back_quotes(
        &mut self,
        parts: &mut Parts,
        quoted: bool,
        start: u32,
    ) -> Result<()> {
        let mut text = String::new();
        loop {
            match self.next_char() {
                None => {
                    let message = format!("the back quote of line {start} is not closed");
                    return Err(self.incomplete(message, Awaited::Character('`')));
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

    /// Parses `((…))` after the dollar sign; `None` if the parentheses do not close as a pair.
    pub(super) fn arithmetic(&mut self) -> Result<Option<Word>> {
        let start = self.line;
        self.position += 2;
        let mut parts = Parts::default();
        let mut open = 0u32;
        loop {
            match self.peek_char() {
                None => {
                    let message = format!("the `$((` of line {start} has no `))`");
                    return Err(self.incomplete(message, Awaited::Character(')')));
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
                // Quotes have no meaning in an expression.
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

    /// Parses an expansion after `${`.
    pub(super) fn braces(&mut self, quoted: bool, start: u32) -> Result<Part> {
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
                let message = format!("the `${{` of line {start} has no `}}`");
                return Err(self.incomplete(message, Awaited::Character('}')));
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
                let message = format!("the `${{` of line {start} has no `}}`");
                return Err(self.incomplete(message, Awaited::Character('}')));
            }
            Some(_) => return bad(self),
        };
        Ok(Part::Parameter {
            name,
            operation,
            quoted,
        })
    }

    pub(super) fn brace_word(&mut self, quoted: bool, start: u32) -> Result<Word> {
        if quoted {
            let mut parts = Parts::default();
            self.double_quoted(&mut parts, '}', start)?;
            return Ok(parts.finish());
        }
        // Nothing is no field, unlike a pair of quotes.
        if self.eat("}") {
            return Ok(Word::default());
        }
        let word = self.word(Context::Braces)?;
        if !self.eat("}") {
            let message = format!("the `${{` of line {start} has no `}}`");
            return Err(self.incomplete(message, Awaited::Character('}')));
        }
        Ok(word)
    }
}

/// Collects the parts of a word, merging neighbours of the same kind.
#[derive(Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    pub(super) fn literal(&mut self, c: char) {
        match self.0.last_mut() {
            Some(Part::Literal(text)) => text.push(c),
            _ => self.0.push(Part::Literal(c.into())),
        }
    }

    pub(super) fn quoted(&mut self, c: char) {
        self.quote();
        if let Some(Part::Quoted(text)) = self.0.last_mut() {
            text.push(c);
        }
    }

    /// Marks that there is quoted text here, even if it is empty.
    pub(super) fn quote(&mut self) {
        if !matches!(self.0.last(), Some(Part::Quoted(_))) {
            self.0.push(Part::Quoted(String::new()));
        }
    }

    pub(super) fn push(&mut self, part: Part) {
        self.0.push(part);
    }

    /// Returns the word. Empty quoted text beside a quoted expansion is dropped: the expansion
    /// already makes the word exist, and `"$@"` must be able to vanish.
    pub(super) fn finish(self) -> Word {
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
