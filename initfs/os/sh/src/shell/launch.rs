//! Starts programs and further shells, and collects their output.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use tools::condition::{Facts, Kind};

use super::{DESCRIPTORS, Descriptors, Handle, Shell};
use crate::arith::Variables;
use crate::ast::{Assignment, Command, CommandKind, OpenMode, quote};
use crate::expand;
use crate::system::{EACCES, EISDIR, ENOENT, ENOEXEC, Errno, Pid, Program, System};

/// A pipe whose output is read into a buffer.
pub(super) struct Drain<F> {
    reader: F,
    writer: Option<F>,
    buffer: Rc<RefCell<Vec<u8>>>,
}

impl<S: System> Shell<S> {
    /// Starts a simple command as a program, with these descriptors below its redirections. The
    /// error is its status; the message has been printed.
    pub(super) fn start_command(
        &mut self,
        command: &Command,
        descriptors: Descriptors<S::Fd>,
        drains: &mut Vec<Drain<S::Fd>>,
    ) -> Result<Pid, i32> {
        let CommandKind::Simple { assignments, words } = &command.kind else {
            return Err(1);
        };
        self.line = command.line;
        let saved = core::mem::replace(&mut self.descriptors, descriptors);
        let result = (|| {
            let arguments = expand::fields(words, self).map_err(|message| (1, message))?;
            self.redirect(&command.redirects)
                .map_err(|message| (1, message))?;
            let mut extra = Vec::new();
            for Assignment { name, value } in assignments {
                let value = expand::value(value, self).map_err(|message| (1, message))?;
                extra.push((name.clone(), value));
            }
            self.trace(&extra, &arguments);
            let descriptors = self.descriptors.clone();
            self.start(&arguments, &extra, &descriptors, drains, false)
        })();
        let result = result.map_err(|(status, message)| {
            self.complain(&message);
            status
        });
        self.descriptors = saved;
        result
    }

    /// Starts the program that `arguments` name. The error is the status and the message.
    pub(super) fn start(
        &mut self,
        arguments: &[String],
        extra: &[(String, String)],
        descriptors: &Descriptors<S::Fd>,
        drains: &mut Vec<Drain<S::Fd>>,
        replace: bool,
    ) -> Result<Pid, (i32, String)> {
        let Some(name) = arguments.first() else {
            return Err((0, String::new()));
        };
        let fail = |shell: &Self, error: Errno| {
            let status = if error == ENOENT { 127 } else { 126 };
            if error == ENOENT && !name.contains('/') {
                return (status, format!("{name}: not found"));
            }
            (status, shell.describe(name, error))
        };
        let path = self.find_program(name).map_err(|error| fail(self, error))?;
        let mut arguments = arguments.to_vec();
        let path = match self.interpreter(&path).map_err(|error| fail(self, error))? {
            None => path,
            Some((program, option)) => {
                let mut all = Vec::from([program.clone()]);
                all.extend(option);
                all.push(path);
                all.extend(arguments.drain(1..));
                arguments = all;
                program
            }
        };
        let open = self
            .child_descriptors(descriptors, 3, drains)
            .map_err(|error| (1, self.describe("cannot make a pipe", error)))?;
        let environment = self.environment(extra);
        let program = Program {
            path: &path,
            arguments: &arguments,
            environment: &environment,
            descriptors: &open,
        };
        // A subshell in this process must not replace the shell, and neither must a command whose
        // output is collected.
        if replace && self.subshells == 0 && drains.is_empty() {
            let error = self.system.replace(&program);
            return Err(fail(self, error));
        }
        self.system
            .spawn(&program)
            .map_err(|error| fail(self, error))
    }

    /// Starts another shell that runs `text`.
    pub(super) fn start_shell(
        &mut self,
        text: &str,
        line: u32,
        background: bool,
        descriptors: &Descriptors<S::Fd>,
        drains: &mut Vec<Drain<S::Fd>>,
    ) -> Result<Pid, String> {
        let path = self.system.shell();
        let mut options = self.options;
        options.background |= background;
        let mut prelude = String::new();
        for (name, variable) in &self.variables {
            if let Some(value) = &variable.value
                && !variable.exported
            {
                prelude.push_str(&format!("{name}={}\n", quote(value)));
            }
            if variable.read_only {
                prelude.push_str(&format!("readonly {name}\n"));
            }
        }
        for (name, body) in &self.functions {
            prelude.push_str(&format!("{name}() {body}\n"));
        }
        let mut arguments = Vec::from([
            path.clone(),
            "--inside".into(),
            self.process.to_string(),
            self.status.to_string(),
            line.to_string(),
            options.letters(),
            prelude,
            text.into(),
            self.name.clone(),
        ]);
        arguments.extend_from_slice(&self.parameters);
        let open = self
            .child_descriptors(descriptors, DESCRIPTORS, drains)
            .map_err(|error| self.describe("cannot make a pipe", error))?;
        let environment = self.environment(&[]);
        let program = Program {
            path: &path,
            arguments: &arguments,
            environment: &environment,
            descriptors: &open,
        };
        self.system
            .spawn(&program)
            .map_err(|error| self.describe(&path, error))
    }

    pub(super) fn environment(&self, extra: &[(String, String)]) -> Vec<(String, String)> {
        let mut environment: BTreeMap<String, String> = self
            .variables
            .iter()
            .filter(|(_, variable)| variable.exported)
            .filter_map(|(name, variable)| Some((name.clone(), variable.value.clone()?)))
            .collect();
        environment.extend(extra.iter().cloned());
        environment.into_iter().collect()
    }

    /// Returns the first `count` descriptors as files. Captured output gets a pipe.
    pub(super) fn child_descriptors(
        &mut self,
        descriptors: &Descriptors<S::Fd>,
        count: usize,
        drains: &mut Vec<Drain<S::Fd>>,
    ) -> Result<Vec<(u8, S::Fd)>, Errno> {
        let mut open = Vec::new();
        for (number, handle) in (0u8..).zip(&descriptors[..count]) {
            match handle {
                None => {}
                Some(Handle::File(file)) => open.push((number, file.clone())),
                Some(Handle::Capture(buffer)) => {
                    let known = drains
                        .iter()
                        .find(|drain| Rc::ptr_eq(&drain.buffer, buffer));
                    let writer = match known.and_then(|drain| drain.writer.clone()) {
                        Some(writer) => writer,
                        None => {
                            let (reader, writer) = self.system.pipe()?;
                            drains.push(Drain {
                                reader,
                                writer: Some(writer.clone()),
                                buffer: buffer.clone(),
                            });
                            writer
                        }
                    };
                    open.push((number, writer));
                }
            }
        }
        Ok(open)
    }

    /// Reads captured output to its end, one pipe after the other. There are two only if a capture
    /// within a capture sends standard error to the outer one; then the inner one ends first.
    pub(super) fn drain(&mut self, mut drains: Vec<Drain<S::Fd>>) {
        for drain in &mut drains {
            drain.writer = None;
        }
        let mut block = alloc::vec![0; 4096];
        for drain in drains.iter().rev() {
            loop {
                match self.system.read(&drain.reader, &mut block) {
                    Ok(0) => break,
                    Ok(count) => drain.buffer.borrow_mut().extend_from_slice(&block[..count]),
                    Err(error) => {
                        let message = self.describe("reading captured output failed", error);
                        self.complain(&message);
                        break;
                    }
                }
            }
        }
    }

    /// Finds the file of a command by its name. A file without permission is found only if no
    /// directory has one with it: scripts need none.
    pub(crate) fn find_program(&self, name: &str) -> Result<String, Errno> {
        let usable = |path: &str| match self.system.facts(path) {
            None => Err(ENOENT),
            Some(Facts {
                kind: Kind::Directory,
                ..
            }) => Err(EISDIR),
            Some(Facts { rights, .. }) if rights & 1 == 0 => Err(EACCES),
            Some(_) => Ok(()),
        };
        if name.contains('/') {
            // A script needs no permission to be run: it is only read.
            return match usable(name) {
                Ok(()) | Err(EACCES) => Ok(name.into()),
                Err(error) => Err(error),
            };
        }
        let path = self.get("PATH").unwrap_or_default();
        let mut second = Err(ENOENT);
        for directory in path.split(':') {
            let directory = if directory.is_empty() { "." } else { directory };
            let candidate = format!("{directory}/{name}");
            match usable(&candidate) {
                Ok(()) => return Ok(candidate),
                Err(EACCES) if second.is_err() => second = Ok(candidate),
                Err(_) => {}
            }
        }
        second
    }

    /// Finds the interpreter of a script: the program and the option of its `#!` line, or the
    /// shell. Returns `None` for a program.
    pub(super) fn interpreter(
        &mut self,
        path: &str,
    ) -> Result<Option<(String, Option<String>)>, Errno> {
        let file = self.system.open(path, OpenMode::Read)?;
        let mut start = alloc::vec![0; 256];
        let mut length = 0;
        while length < start.len() {
            match self.system.read(&file, &mut start[length..])? {
                0 => break,
                count => length += count,
            }
            if length >= 4 && !start.starts_with(b"#!") {
                break;
            }
        }
        let start = &start[..length];
        if start.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or(start);
        if let Some(words) = line.strip_prefix(b"#!") {
            let words = String::from_utf8_lossy(words);
            let words = words.trim();
            let (program, option) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
            if self.system.facts(program).is_some() {
                let option = option.trim();
                let option = (!option.is_empty()).then(|| option.to_string());
                return Ok(Some((program.into(), option)));
            }
        }
        // No script has such bytes. Running them would only print a page of errors.
        if start.contains(&0) {
            return Err(ENOEXEC);
        }
        Ok(Some((self.system.shell(), None)))
    }
}
