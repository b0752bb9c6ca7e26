//! Here-documents. Their text stands after the line that asks for it.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;

use super::words::Parts;
use super::{Awaited, NULL_PATH, Parser, Result, SyntaxError, Token};
use crate::ast::{Command, CommandKind, List, OpenMode, Part, Target, Word};

/// The cell for a here-document's text, filled once its lines have been read.
pub(super) type Body = Rc<RefCell<Option<Word>>>;

pub(super) struct PendingHere {
    delimiter: String,
    /// Whether the delimiter was quoted, which disables expansion.
    literal: bool,
    strip_tabs: bool,
    body: Body,
    line: u32,
    /// How deeply its text is nested: as deeply as the word of a here-string in its place, which
    /// is how it is printed.
    depth: u32,
}

impl Parser<'_> {
    pub(super) fn read_here_documents(&mut self) -> Result<()> {
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
                    let message = format!(
                        "the here-document of line {} has no line `{}`",
                        here.line, here.delimiter
                    );
                    let end = Awaited::Line(here.delimiter, here.strip_tabs);
                    return Err(self.incomplete(message, end));
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
                    self.here_text(&text, first, here.depth)?
                })
            };
            *here.body.borrow_mut() = word;
        }
        Ok(())
    }

    /// Parses parameters and commands in a here-document; quotes are text there.
    pub(super) fn here_text(&self, text: &str, line: u32, depth: u32) -> Result<Word> {
        let mut inner = Parser::new(text, line);
        inner.depth = depth;
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
                            awaits: None,
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

    /// Puts the texts that were read into the redirections that wait for them, which are found by
    /// the placeholder number that `here_redirect` has left in the tree.
    pub(super) fn fill_here_documents(&mut self, mut list: List) -> List {
        let bodies = core::mem::take(&mut self.bodies);
        if !bodies.is_empty() {
            fill_list(&mut list, &bodies);
        }
        list
    }

    pub(super) fn here_redirect(&mut self, strip_tabs: bool, line: u32) -> Result<Target> {
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
            depth: self.depth + 1,
        });
        Ok(Target::HereString(Word {
            parts: [placeholder].into(),
        }))
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
        // An unquoted literal of the source never contains a line end, so only placeholders have
        // one.
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
