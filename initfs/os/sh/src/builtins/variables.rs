//! Builtins that set variables, parameters and options.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::arith::Variables;
use crate::ast::{is_name, quote};
use crate::shell::{Handle, Shell, Variable};
use crate::system::System;

impl<S: System> Shell<S> {
    pub(super) fn mark(&mut self, command: &str, rest: &[String]) -> Result<i32, String> {
        let read_only = command == "readonly";
        if rest.is_empty() || rest == ["-p"] {
            let mut out = String::new();
            for (name, variable) in &self.variables {
                if if read_only {
                    variable.read_only
                } else {
                    variable.exported
                } {
                    let value = variable.value.as_deref().map(quote);
                    let value = value.map_or(String::new(), |value| format!("={value}"));
                    out.push_str(&format!("{command} {name}{value}\n"));
                }
            }
            return self.write(1, out.as_bytes()).map(|()| 0);
        }
        for word in rest {
            let (name, value) = split_assignment(word)?;
            if let Some(value) = value {
                self.set(name, value)?;
            }
            let variable = self.variables.entry(name.into()).or_default();
            if read_only {
                variable.read_only = true;
            } else {
                variable.exported = true;
            }
        }
        Ok(0)
    }

    pub(super) fn local(&mut self, rest: &[String]) -> Result<i32, String> {
        for word in rest {
            let (name, value) = split_assignment(word)?;
            let old = self.variables.get(name).cloned();
            let Some(frame) = self.locals.last_mut() else {
                return Err("there is no function here".into());
            };
            let exported = old.as_ref().is_some_and(|old| old.exported);
            frame.push((name.into(), old));
            let variable = Variable {
                value: value.or(Some(String::new())),
                exported,
                read_only: false,
            };
            self.variables.insert(name.into(), variable);
        }
        Ok(0)
    }

    pub(super) fn unset(&mut self, rest: &[String]) -> Result<i32, String> {
        let functions = rest.first().is_some_and(|flag| flag == "-f");
        for name in rest
            .iter()
            .filter(|word| !matches!(word.as_str(), "-f" | "-v" | "--"))
        {
            if functions {
                self.functions.remove(name);
            } else if self
                .variables
                .get(name)
                .is_some_and(|variable| variable.read_only)
            {
                return Err(format!("{name}: is read-only"));
            } else {
                self.variables.remove(name);
            }
        }
        Ok(0)
    }

    /// Reads one line without its end; `None` at the end of the input.
    pub(crate) fn read_line(&mut self) -> Result<Option<Vec<u8>>, String> {
        let (line, ended) = self.read_to_line_end()?;
        Ok((ended || !line.is_empty()).then_some(line))
    }

    /// Reads the rest of a line, without its end, and tells whether it has one: the last line of
    /// the input may not. It reads byte by byte, because the bytes after the line belong to other
    /// readers of the same file.
    fn read_to_line_end(&mut self) -> Result<(Vec<u8>, bool), String> {
        let file = match &self.descriptors[0] {
            Some(Handle::File(file)) => file.clone(),
            _ => return Err("standard input is not open".into()),
        };
        let mut line = Vec::new();
        let terminal = self.system.is_terminal(&file);
        let mut block = [0; 1024];
        loop {
            // A terminal gives one line at a time.
            let room = if terminal { block.len() } else { 1 };
            match self.system.read(&file, &mut block[..room]) {
                Ok(0) => return Ok((line, false)),
                Ok(count) => {
                    line.extend_from_slice(&block[..count]);
                    if line.ends_with(b"\n") {
                        line.pop();
                        return Ok((line, true));
                    }
                }
                Err(error) => return Err(self.system.describe(error)),
            }
        }
    }

    pub(super) fn read(&mut self, rest: &[String]) -> Result<i32, String> {
        let mut raw = false;
        let mut names = rest;
        while let Some((first, others)) = names.split_first() {
            match first.as_str() {
                "-r" => names = others,
                "-p" => {
                    let (prompt, others) = others.split_first().ok_or("-p needs a prompt")?;
                    self.write(2, prompt.as_bytes())?;
                    names = others;
                    continue;
                }
                "--" => {
                    names = others;
                    break;
                }
                flag if flag.starts_with('-') && flag.len() > 1 => {
                    return Err(format!("unknown option `{flag}`"));
                }
                _ => break,
            }
            raw = true;
        }
        if let Some(bad) = names.iter().find(|name| !is_name(name)) {
            return Err(format!("`{bad}` is not a valid variable name"));
        }
        let mut line: Vec<(char, bool)> = Vec::new();
        let ended = loop {
            let (bytes, ended) = self.read_to_line_end()?;
            let mut text = String::from_utf8_lossy(&bytes).into_owned();
            // No variable can have it.
            text.retain(|c| c != '\0');
            let mut continued = false;
            let mut characters = text.chars();
            while let Some(c) = characters.next() {
                if c == '\\' && !raw {
                    match characters.next() {
                        Some(c) => line.push((c, true)),
                        None => continued = true,
                    }
                } else {
                    line.push((c, false));
                }
            }
            if !continued || !ended {
                break ended;
            }
        };
        let separators = self.get("IFS").unwrap_or_else(|| " \t\n".into());
        let is_space =
            |&(c, quoted): &(char, bool)| !quoted && separators.contains(c) && c.is_whitespace();
        let is_separator = |&(c, quoted): &(char, bool)| !quoted && separators.contains(c);
        let mut rest = line.as_slice();
        let default = ["REPLY".to_string()];
        let names = if names.is_empty() { &default } else { names };
        for (index, name) in names.iter().enumerate() {
            while rest.first().is_some_and(is_space) {
                rest = &rest[1..];
            }
            let mut value = &rest[..rest.iter().position(is_separator).unwrap_or(rest.len())];
            let mut behind = &rest[value.len()..];
            // White space around a separator of another kind belongs to it.
            while behind.first().is_some_and(is_space) {
                behind = &behind[1..];
            }
            if behind
                .first()
                .is_some_and(|c| is_separator(c) && !is_space(c))
            {
                behind = &behind[1..];
            }
            while behind.first().is_some_and(is_space) {
                behind = &behind[1..];
            }
            // The last variable takes all other fields as they are, but not the separator behind
            // the only one.
            if index + 1 == names.len() && !behind.is_empty() {
                let spaces = rest.iter().rev().take_while(|c| is_space(c)).count();
                value = &rest[..rest.len() - spaces];
            }
            rest = behind;
            let value = value.iter().map(|(c, _)| *c).collect();
            self.set(name, value)?;
        }
        Ok(i32::from(!ended))
    }

    pub(super) fn set_builtin(&mut self, rest: &[String]) -> Result<i32, String> {
        if rest.is_empty() {
            let mut out = String::new();
            for (name, variable) in &self.variables {
                if let Some(value) = &variable.value {
                    out.push_str(&format!("{name}={}\n", quote(value)));
                }
            }
            return self.write(1, out.as_bytes()).map(|()| 0);
        }
        let mut words = rest;
        while let Some((word, others)) = words.split_first() {
            if word == "--" {
                self.parameters = others.into();
                return Ok(0);
            }
            let Some(sign) = word.chars().next().filter(|c| matches!(c, '-' | '+')) else {
                self.parameters = words.into();
                return Ok(0);
            };
            words = others;
            let on = sign == '-';
            for letter in word.chars().skip(1) {
                if letter != 'o' {
                    if matches!(letter, 'P' | 'B') || !self.options.set(letter, on) {
                        return Err(format!("unknown option `{sign}{letter}`"));
                    }
                    continue;
                }
                let (name, others) = words.split_first().ok_or("-o needs a name")?;
                words = others;
                let letter = match name.as_str() {
                    "allexport" => 'a',
                    "errexit" => 'e',
                    "noexec" => 'n',
                    "noglob" => 'f',
                    "nounset" => 'u',
                    "xtrace" => 'x',
                    "pipefail" => 'P',
                    _ => return Err(format!("unknown option `{name}`")),
                };
                self.options.set(letter, on);
            }
        }
        Ok(0)
    }

    pub(super) fn shift(&mut self, rest: &[String]) -> Result<i32, String> {
        let count = match rest {
            [] => 1,
            [text, ..] => text
                .parse()
                .map_err(|_| format!("`{text}` is not a number"))?,
        };
        if count > self.parameters.len() {
            return Err(format!(
                "there are only {} parameters",
                self.parameters.len()
            ));
        }
        self.parameters.drain(..count);
        Ok(0)
    }
}

/// `name` or `name=value`.
fn split_assignment(word: &str) -> Result<(&str, Option<String>), String> {
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value.to_string())),
        None => (word, None),
    };
    if !is_name(name) {
        return Err(format!("`{name}` is not a valid variable name"));
    }
    Ok((name, value))
}
