//! Single commands: simple ones, functions, loops and conditions.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use patterns::file_name::Pattern;

use super::pipeline::Plan;
use super::{DESCRIPTORS, Flow, Handle, MAX_DEPTH, PIPE_CAPACITY, Run, Shell, Variable};
use crate::arith::Variables;
use crate::ast::{Assignment, Command, CommandKind, Redirect, Target, quote};
use crate::expand;
use crate::system::System;

impl<S: System> Shell<S> {
    pub(super) fn command(&mut self, command: &Command) -> Run {
        if self.depth >= MAX_DEPTH {
            self.line = command.line;
            self.complain(&format!(
                "commands are nested deeper than {MAX_DEPTH} levels"
            ));
            return Err(Flow::Exit(2));
        }
        self.depth += 1;
        let result = self.command_inner(command);
        self.depth -= 1;
        result
    }

    pub(super) fn command_inner(&mut self, command: &Command) -> Run {
        match &command.kind {
            CommandKind::Simple { .. } => self.simple(command),
            CommandKind::Function { name, body } => {
                self.functions.insert(name.clone(), body.clone());
                Ok(0)
            }
            kind => {
                self.line = command.line;
                self.with_redirects(&command.redirects, |shell| shell.compound(kind))
            }
        }
    }

    pub(super) fn with_redirects(
        &mut self,
        redirects: &[Redirect],
        run: impl FnOnce(&mut Self) -> Run,
    ) -> Run {
        if redirects.is_empty() {
            return run(self);
        }
        let saved = self.descriptors.clone();
        let result = match self.redirect(redirects) {
            Ok(()) => run(self),
            Err(message) => {
                self.complain(&message);
                self.checked(1)
            }
        };
        // Only these descriptors are restored: `{ exec 3<file; } 2>errors` keeps descriptor 3.
        for redirect in redirects {
            let number = usize::from(redirect.fd);
            self.descriptors[number] = saved[number].clone();
        }
        result
    }

    /// Applies redirections to this shell's own descriptors.
    pub(crate) fn redirect(&mut self, redirects: &[Redirect]) -> Result<(), String> {
        for redirect in redirects {
            let handle = match &redirect.target {
                Target::File(mode, word) => {
                    let path = expand::text(word, self)?;
                    let file = self.system.open(&path, *mode);
                    Some(Handle::File(
                        file.map_err(|error| self.describe(&path, error))?,
                    ))
                }
                Target::Duplicate(_, word) => {
                    let text = expand::text(word, self)?;
                    if text == "-" {
                        None
                    } else {
                        let number = text.parse::<usize>().ok().filter(|n| *n < DESCRIPTORS);
                        let Some(number) = number else {
                            return Err(format!("`{text}` is not a descriptor (0 to 9)"));
                        };
                        let Some(handle) = self.descriptors[number].clone() else {
                            return Err(format!("descriptor {number} is not open"));
                        };
                        Some(handle)
                    }
                }
                Target::HereString(word) => {
                    let mut text = expand::text(word, self)?;
                    text.push('\n');
                    if text.len() > PIPE_CAPACITY {
                        return Err(format!(
                            "here-document of {} bytes: at most {PIPE_CAPACITY} are possible",
                            text.len()
                        ));
                    }
                    let fail = |shell: &Self, error| shell.describe("here-document", error);
                    let (reader, writer) = self.system.pipe().map_err(|error| fail(self, error))?;
                    self.system
                        .write(&writer, text.as_bytes())
                        .map_err(|error| fail(self, error))?;
                    Some(Handle::File(reader))
                }
            };
            self.descriptors[usize::from(redirect.fd)] = handle;
        }
        Ok(())
    }

    pub(super) fn trace(&mut self, assignments: &[(String, String)], arguments: &[String]) {
        if !self.options.trace {
            return;
        }
        let plain = |text: &str| {
            !text.is_empty()
                && text
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"_-./:=,+@%".contains(&b))
        };
        let show = |text: &String| {
            if plain(text) {
                text.clone()
            } else {
                quote(text)
            }
        };
        let mut words: Vec<String> = assignments
            .iter()
            .map(|(name, value)| format!("{name}={}", show(value)))
            .collect();
        words.extend(arguments.iter().map(show));
        let _ = self.write(2, format!("+ {}\n", words.join(" ")).as_bytes());
    }

    pub(super) fn simple(&mut self, command: &Command) -> Run {
        let CommandKind::Simple { assignments, words } = &command.kind else {
            return Ok(0);
        };
        self.line = command.line;
        self.substituted = None;
        // The file of the program has to be opened where an interrupt can reach it.
        if matches!(self.plan(command, false), Plan::Shell) {
            return self.pipeline(core::slice::from_ref(command), None);
        }
        let arguments = match expand::fields(words, self) {
            Ok(arguments) => arguments,
            Err(message) => return self.expansion_failed(&message),
        };
        let mut values = Vec::new();
        for Assignment { name, value } in assignments {
            match expand::value(value, self) {
                // Without a command each assignment is made at once, since the next one may use
                // it.
                Ok(value) if arguments.is_empty() => {
                    if let Err(message) = self.set(name, value.clone()) {
                        return self.expansion_failed(&message);
                    }
                    values.push((name.clone(), value));
                }
                Ok(value) => values.push((name.clone(), value)),
                Err(message) => return self.expansion_failed(&message),
            }
        }
        self.trace(&values, &arguments);
        let Some(name) = arguments.first() else {
            let status = self.substituted.take().unwrap_or(0);
            return self.with_redirects(&command.redirects, |_| Ok(status));
        };
        if is_bare_exec(&arguments) {
            // The redirections remain in effect.
            return match self.redirect(&command.redirects) {
                Ok(()) => Ok(0),
                Err(message) => {
                    self.complain(&message);
                    Ok(1)
                }
            };
        }
        if let Some(body) = self.functions.get(name).cloned() {
            return self.with_redirects(&command.redirects, |shell| {
                shell.with_variables(values, |shell| shell.call(&body, &arguments[1..]))
            });
        }
        if Self::is_builtin(name) {
            return self.with_redirects(&command.redirects, |shell| {
                shell.with_variables(values, |shell| shell.builtin(&arguments))
            });
        }
        self.with_redirects(&command.redirects, |shell| {
            shell.run_program(&arguments, &values)
        })
    }

    /// Runs a program in the foreground.
    pub(crate) fn run_program(&mut self, arguments: &[String], extra: &[(String, String)]) -> Run {
        let replace = self.lone_command && self.depth == 1 && self.exit_trap.is_none();
        self.run_or_become(arguments, extra, replace)
    }

    /// Runs a program in the foreground, or with `replace` becomes it if that is possible.
    pub(crate) fn run_or_become(
        &mut self,
        arguments: &[String],
        extra: &[(String, String)],
        replace: bool,
    ) -> Run {
        let mut drains = Vec::new();
        let descriptors = self.descriptors.clone();
        match self.start(arguments, extra, &descriptors, &mut drains, replace) {
            Ok(pid) => {
                self.foreground(&[pid]);
                self.drain(drains);
                let ended = self.wait(pid);
                self.foreground(&[]);
                if ended.interrupted {
                    Err(Flow::Interrupt)
                } else {
                    Ok(ended.status)
                }
            }
            Err((status, message)) => {
                self.complain(&message);
                Ok(status)
            }
        }
    }

    pub(super) fn expansion_failed(&mut self, message: &str) -> Run {
        self.complain(message);
        self.status = 1;
        if self.interactive {
            Ok(1)
        } else {
            Err(Flow::Exit(1))
        }
    }

    /// Runs `run` with variables that have these values only during the call.
    pub(super) fn with_variables(
        &mut self,
        values: Vec<(String, String)>,
        run: impl FnOnce(&mut Self) -> Run,
    ) -> Run {
        let mut saved = Vec::new();
        for (name, value) in values {
            saved.push((name.clone(), self.variables.get(&name).cloned()));
            if let Err(message) = self.set(&name, value) {
                self.restore(saved);
                return self.expansion_failed(&message);
            }
            self.variables.entry(name).or_default().exported = true;
        }
        let result = run(self);
        self.restore(saved);
        result
    }

    pub(super) fn restore(&mut self, saved: Vec<(String, Option<Variable>)>) {
        for (name, variable) in saved.into_iter().rev() {
            match variable {
                Some(variable) => self.variables.insert(name, variable),
                None => self.variables.remove(&name),
            };
        }
    }

    pub(super) fn call(&mut self, body: &Command, arguments: &[String]) -> Run {
        let parameters = core::mem::replace(&mut self.parameters, arguments.into());
        let loops = core::mem::take(&mut self.loops);
        self.functions_deep += 1;
        self.locals.push(Vec::new());
        let result = self.command(body);
        let locals = self.locals.pop().unwrap_or_default();
        self.restore(locals);
        self.functions_deep -= 1;
        self.loops = loops;
        self.parameters = parameters;
        match result {
            Err(Flow::Return(status)) => Ok(status),
            other => other,
        }
    }

    pub(super) fn compound(&mut self, kind: &CommandKind) -> Run {
        match kind {
            CommandKind::Simple { .. } | CommandKind::Function { .. } => Ok(0),
            CommandKind::Group(list) => self.list(list),
            CommandKind::Subshell(list) => {
                let saved = self.save();
                let run = self.list(list);
                self.leave(saved, run)
            }
            CommandKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.condition(condition)? == 0 {
                        return self.list(body);
                    }
                }
                match otherwise {
                    Some(body) => self.list(body),
                    None => Ok(0),
                }
            }
            CommandKind::Loop {
                until,
                condition,
                body,
            } => self.repeat(|shell| {
                let go = (shell.condition(condition)? == 0) != *until;
                Ok(if go { Some(shell.list(body)?) } else { None })
            }),
            CommandKind::For { name, words, body } => {
                let values = match words {
                    None => self.parameters.clone(),
                    Some(words) => match expand::fields(words, self) {
                        Ok(values) => values,
                        Err(message) => return self.expansion_failed(&message),
                    },
                };
                let mut values = values.into_iter();
                self.repeat(|shell| {
                    let Some(value) = values.next() else {
                        return Ok(None);
                    };
                    if let Err(message) = shell.set(name, value) {
                        return shell.expansion_failed(&message).map(|_| None);
                    }
                    shell.list(body).map(Some)
                })
            }
            CommandKind::Case { word, arms } => {
                let text = match expand::text(word, self) {
                    Ok(text) => text,
                    Err(message) => return self.expansion_failed(&message),
                };
                for (patterns, body) in arms {
                    for pattern in patterns {
                        let pattern = match expand::pattern(pattern, self) {
                            Ok(pattern) => pattern,
                            Err(message) => return self.expansion_failed(&message),
                        };
                        if Pattern::plain(&pattern).matches(text.as_bytes()) {
                            return self.list(body);
                        }
                    }
                }
                Ok(0)
            }
        }
    }

    /// Runs a loop. `once` returns the status of one round, or `None` at the end.
    pub(super) fn repeat(
        &mut self,
        mut once: impl FnMut(&mut Self) -> Result<Option<i32>, Flow>,
    ) -> Run {
        self.loops += 1;
        let mut status = 0;
        let result = loop {
            // A shell that runs a script is ended from outside.
            if self.interactive && self.system.interrupted() {
                break Err(Flow::Interrupt);
            }
            match once(self) {
                Ok(Some(last)) => status = last,
                Ok(None) => break Ok(status),
                Err(Flow::Break(1)) => break Ok(0),
                Err(Flow::Continue(1)) => {}
                Err(Flow::Break(levels)) => break Err(Flow::Break(levels - 1)),
                Err(Flow::Continue(levels)) => break Err(Flow::Continue(levels - 1)),
                Err(flow) => break Err(flow),
            }
        };
        self.loops -= 1;
        result
    }
}

/// Whether these words are `exec` without a program, perhaps behind `command`.
fn is_bare_exec(words: &[String]) -> bool {
    match words {
        [command, rest @ ..] if command == "command" => is_bare_exec(rest),
        [exec] => exec == "exec",
        [exec, dashes] => exec == "exec" && dashes == "--",
        _ => false,
    }
}
