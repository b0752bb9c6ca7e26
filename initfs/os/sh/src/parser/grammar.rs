//! The grammar: lists, pipelines, commands and redirections.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Awaited, CLOSING, Parser, Result, Token};
use crate::ast::{
    AndOr, Assignment, Command, CommandKind, Connector, Item, List, OpenMode, Part, Pipeline,
    Redirect, Target, Word, is_name,
};

impl Parser<'_> {
    /// Parses commands up to a closing word or operator. With `lines`, line ends separate
    /// commands; without, the first line end ends the list.
    pub(super) fn list(&mut self, lines: bool) -> Result<List> {
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

    pub(super) fn at_list_end(&mut self) -> Result<bool> {
        let token = self.peek()?;
        Ok(match token {
            Token::Newline | Token::End | Token::Operator(")" | ";;") => true,
            Token::Word(_) => token.keyword().is_some_and(|word| CLOSING.contains(&word)),
            _ => false,
        })
    }

    pub(super) fn skip_newlines(&mut self) -> Result<()> {
        while *self.peek()? == Token::Newline {
            self.next()?;
        }
        Ok(())
    }

    /// Parses a list that must not be empty, closed by one of the words in `ends`. Returns that
    /// word.
    pub(super) fn block(
        &mut self,
        opener: &str,
        start: u32,
        ends: &'static [&'static str],
    ) -> Result<(List, usize)> {
        let list = self.list(true)?;
        let (token, line) = self.next()?;
        let found = token
            .keyword()
            .and_then(|word| ends.iter().position(|end| *end == word));
        let Some(found) = found else {
            let expected = ends.join("` or `");
            if token == Token::End {
                let message = format!("`{opener}` of line {start} has no `{expected}`");
                return Err(self.incomplete(message, Awaited::Words(ends)));
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

    pub(super) fn and_or(&mut self) -> Result<AndOr> {
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

    pub(super) fn pipeline(&mut self) -> Result<Pipeline> {
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

    pub(super) fn command(&mut self) -> Result<Command> {
        let line = self.peek_line()?;
        let kind = if self.peek()?.is("(") {
            self.next()?;
            let list = self.list(true)?;
            let (token, end) = self.next()?;
            if token == Token::End {
                let message = format!("the `(` of line {line} has no `)`");
                return Err(self.incomplete(message, Awaited::Character(')')));
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

    pub(super) fn if_command(&mut self, start: u32) -> Result<CommandKind> {
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

    pub(super) fn loop_command(&mut self, keyword: &str, start: u32) -> Result<CommandKind> {
        self.next()?;
        let (condition, _) = self.block(keyword, start, &["do"])?;
        let (body, _) = self.block("do", start, &["done"])?;
        Ok(CommandKind::Loop {
            until: keyword == "until",
            condition,
            body,
        })
    }

    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        let (token, line) = self.next()?;
        match &token {
            Token::Word(word) => match word.bare() {
                Some(name) if is_name(name) => Ok(name.to_string()),
                _ => self.error(line, format!("{} is not a valid {what}", token.describe())),
            },
            _ => Err(self.unexpected(&token, line)),
        }
    }

    pub(super) fn for_command(&mut self, start: u32) -> Result<CommandKind> {
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
                let message = format!("`for` of line {start} has no `do`");
                return Err(self.incomplete(message, Awaited::Any));
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

    pub(super) fn case_command(&mut self, start: u32) -> Result<CommandKind> {
        let unclosed = |parser: &Self| {
            let message = format!("`case` of line {start} has no `esac`");
            Err(parser.incomplete(message, Awaited::Words(&["esac"])))
        };
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

    pub(super) fn redirect(&mut self) -> Result<Option<Redirect>> {
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

    pub(super) fn simple_command(&mut self, line: u32) -> Result<Command> {
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
                // A redirection before a name begins no definition of a function.
                token
                    if token.is("(")
                        && assignments.is_empty()
                        && redirects.is_empty()
                        && words.len() == 1 =>
                {
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
