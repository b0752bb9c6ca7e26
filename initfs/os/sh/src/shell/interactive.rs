//! The interactive shell: prompts, history and completion.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tools::condition::Kind;

use super::{Handle, Shell};
use crate::arith::Variables;
use crate::ast::RESERVED;
use crate::complete::{self, Names};
use crate::system::System;

/// Number of lines that are remembered.
const HISTORY: usize = 500;
/// Most names that are shown to choose from.
const MAX_CHOICES: usize = 200;
/// Columns of a list of names.
const WIDTH: usize = 79;

impl<S: System> Shell<S> {
    /// Remembers a line for `history`.
    pub(crate) fn remember(&mut self, line: &str) {
        let line = line.trim();
        if line.is_empty() || self.history.last().is_some_and(|last| last == line) {
            return;
        }
        if self.history.len() >= HISTORY {
            self.history.remove(0);
        }
        self.history.push(line.into());
    }

    /// Reads a line; words are completed while it is typed.
    pub(crate) fn read_typed_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let completer = match &self.descriptors[0] {
            Some(Handle::File(file)) if self.interactive => {
                let file = file.clone();
                self.system.completer(&file)
            }
            _ => None,
        };
        let Some(completer) = completer else {
            return self.read_line();
        };
        let mut line = Vec::new();
        let mut block = [0; 1024];
        loop {
            match self.system.read(&completer, &mut block) {
                Ok(0) => return Ok((!line.is_empty()).then_some(line)),
                Ok(count) => line.extend_from_slice(&block[..count]),
                Err(error) => return Err(self.system.describe(error)),
            }
            match line.pop() {
                Some(b'\n') => return Ok(Some(line)),
                Some(b'\t') => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    line.clear();
                    let completion = complete::complete(&text, self);
                    // If the terminal has gone, the next read finds out.
                    let _ = self.write(2, list(&completion.choices).as_bytes());
                    let _ = self.system.write(&completer, completion.insert.as_bytes());
                }
                // The line continues.
                Some(byte) => line.push(byte),
                None => {}
            }
        }
    }

    pub(crate) fn show_history(&mut self, rest: &[String]) -> Result<i32, String> {
        let count = match rest {
            [] => HISTORY,
            [count] => count
                .parse()
                .map_err(|_| format!("`{count}` is not a number"))?,
            _ => return Err("one number is expected".into()),
        };
        let skipped = self.history.len().saturating_sub(count);
        let lines = self.history.iter().enumerate().skip(skipped);
        let out: String = lines
            .map(|(index, line)| format!("{:5}  {line}\n", index + 1))
            .collect();
        self.write(1, out.as_bytes()).map(|()| 0)
    }
}

impl<S: System> Names for Shell<S> {
    fn commands(&self) -> Vec<String> {
        let mut names: Vec<String> = Self::builtin_names().map(String::from).collect();
        names.extend(RESERVED.iter().map(|word| String::from(*word)));
        names.extend(self.functions.keys().cloned());
        for directory in self.get("PATH").unwrap_or_default().split(':') {
            names.extend(self.system.names(directory).unwrap_or_default());
        }
        names
    }

    fn variables(&self) -> Vec<String> {
        self.variables.keys().cloned().collect()
    }

    fn files(&mut self, directory: &str) -> Vec<(String, bool)> {
        let names = self.system.names(directory).unwrap_or_default().into_iter();
        names
            .map(|name| {
                let facts = self.system.facts(&format!("{directory}/{name}"));
                let is_directory = facts.is_some_and(|facts| facts.kind == Kind::Directory);
                (name, is_directory)
            })
            .collect()
    }

    fn home(&self) -> Option<String> {
        self.get("HOME")
    }
}

/// Names in columns.
fn list(names: &[String]) -> String {
    let shown = &names[..names.len().min(MAX_CHOICES)];
    let width = shown.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0) + 2;
    let columns = (WIDTH / width).max(1);
    let mut out = String::new();
    for row in shown.chunks(columns) {
        let row: String = row.iter().map(|name| format!("{name:width$}")).collect();
        out.push_str(row.trim_end());
        out.push('\n');
    }
    if shown.len() < names.len() {
        out.push_str(&format!("and {} more\n", names.len() - shown.len()));
    }
    out
}
