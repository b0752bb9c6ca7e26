//! The commands the shell runs itself.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::arith::Variables;
use crate::ast::{is_name, is_reserved, quote};
use crate::shell::{Flow, Handle, Run, Shell, Variable};
use crate::system::{Pid, System};

/// Name, arguments, purpose: what `help` prints.
const BUILTINS: &[(&str, &str, &str)] = &[
    (
        ".",
        "file [argument…]",
        "run a script in this shell (also: source)",
    ),
    (":", "", "do nothing"),
    ("[", "expression ]", "evaluate a condition (also: test)"),
    ("break", "[n]", "leave n loops"),
    ("cd", "[directory | -]", "change the directory"),
    (
        "command",
        "[-v] name…",
        "run without functions; -v: say what it is",
    ),
    (
        "continue",
        "[n]",
        "go on with the next round of the n-th loop",
    ),
    ("echo", "[-n] [-e] word…", "write the words"),
    ("eval", "word…", "run the words as commands"),
    (
        "exec",
        "[program…]",
        "keep redirections; with a program: run it and exit",
    ),
    ("exit", "[status]", "leave the shell"),
    ("export", "name[=value]…", "pass variables on to programs"),
    ("false", "", "fail"),
    ("help", "", "print this list"),
    ("jobs", "", "list background commands"),
    ("kill", "[-signal] pid|%job…", "send a signal"),
    (
        "local",
        "name[=value]…",
        "make variables end with the function",
    ),
    ("printf", "format argument…", "write formatted text"),
    ("pwd", "", "print the directory"),
    (
        "read",
        "[-r] [-p prompt] name…",
        "read a line into variables",
    ),
    ("readonly", "name[=value]…", "forbid changes of variables"),
    ("return", "[status]", "leave a function or sourced script"),
    (
        "set",
        "[-efux] [-o pipefail] [--] [word…]",
        "set options or $1, $2, …",
    ),
    ("shift", "[n]", "drop the first n parameters"),
    ("source", "file [argument…]", "the same as ."),
    ("test", "expression", "evaluate a condition"),
    (
        "trap",
        "command EXIT",
        "run a command at the end; `trap - EXIT`: do not",
    ),
    ("true", "", "succeed"),
    ("type", "name…", "say what a name stands for"),
    ("unset", "[-f] name…", "remove variables or functions"),
    ("wait", "[pid|%job…]", "wait for background commands"),
];

impl<S: System> Shell<S> {
    pub(crate) fn is_builtin(name: &str) -> bool {
        BUILTINS.iter().any(|(known, _, _)| *known == name)
    }

    /// Runs the builtin that the first argument names.
    pub(crate) fn builtin(&mut self, arguments: &[String]) -> Run {
        let Some((name, rest)) = arguments.split_first() else {
            return Ok(0);
        };
        let result = match name.as_str() {
            ":" | "true" => Ok(0),
            "false" => Ok(1),
            "." | "source" => return self.source(rest),
            "[" | "test" => self.condition_builtin(name, rest),
            "break" | "continue" => return self.leave_loop(name, rest),
            "cd" => self.change_directory(rest),
            "command" => return self.command_builtin(rest),
            "echo" => {
                let text = tools::echo::text(rest);
                self.write(1, &text).map(|()| 0)
            }
            "eval" => return self.run_text(&rest.join(" "), self.line),
            "exec" => return self.exec(rest),
            "exit" => return self.exit(rest),
            "export" | "readonly" => self.mark(name, rest),
            "help" => self.help(),
            "jobs" => self.list_jobs(),
            "kill" => self.kill(rest),
            "local" => self.local(rest),
            "printf" => self.printf(rest),
            "pwd" => {
                let text = self.system.current_dir() + "\n";
                self.write(1, text.as_bytes()).map(|()| 0)
            }
            "read" => self.read(rest),
            "return" => return self.return_builtin(rest),
            "set" => self.set_builtin(rest),
            "shift" => self.shift(rest),
            "trap" => self.trap(rest),
            "type" => self.describe_names(rest),
            "unset" => self.unset(rest),
            "wait" => self.wait_builtin(rest),
            _ => Err("is not a builtin".into()),
        };
        match result {
            Ok(status) => Ok(status),
            Err(message) => {
                self.complain(&format!("{name}: {message}"));
                // Conditions distinguish false (1) from wrong (2).
                Ok(if matches!(name.as_str(), "[" | "test") {
                    2
                } else {
                    1
                })
            }
        }
    }

    /// An optional numeric argument.
    fn number(&mut self, name: &str, rest: &[String], default: i32) -> Result<i32, Flow> {
        match rest {
            [] => Ok(default),
            [text, ..] => match text.parse() {
                Ok(number) => Ok(number),
                Err(_) => {
                    self.complain(&format!("{name}: `{text}` is not a number"));
                    Err(Flow::Exit(2))
                }
            },
        }
    }

    fn condition_builtin(&mut self, name: &str, rest: &[String]) -> Result<i32, String> {
        let words = if name == "[" {
            match rest.split_last() {
                Some((last, words)) if last == "]" => words,
                _ => return Err("`]` is missing".into()),
            }
        } else {
            rest
        };
        tools::condition::evaluate(words, self).map(|value| i32::from(!value))
    }

    fn leave_loop(&mut self, name: &str, rest: &[String]) -> Run {
        let levels = self.number(name, rest, 1)?;
        if levels < 1 {
            self.complain(&format!("{name}: `{levels}` is not a number of loops"));
            return Ok(1);
        }
        if self.loops == 0 {
            self.complain(&format!("{name}: there is no loop here"));
            return Ok(0);
        }
        let levels = levels.unsigned_abs().min(self.loops);
        Err(if name == "break" {
            Flow::Break(levels)
        } else {
            Flow::Continue(levels)
        })
    }

    fn source(&mut self, rest: &[String]) -> Run {
        let Some((file, parameters)) = rest.split_first() else {
            self.complain(".: a file name is missing");
            return Ok(2);
        };
        let path = match self.find_program(file) {
            Ok(path) => path,
            Err(_) => file.clone(),
        };
        let text = match self.load(&path) {
            Ok(text) => text,
            Err(message) => {
                self.complain(&message);
                return if self.interactive {
                    Ok(1)
                } else {
                    Err(Flow::Exit(1))
                };
            }
        };
        let saved = (!parameters.is_empty())
            .then(|| core::mem::replace(&mut self.parameters, parameters.into()));
        self.functions_deep += 1;
        let result = self.run_text(&text, 1);
        self.functions_deep -= 1;
        if let Some(saved) = saved {
            self.parameters = saved;
        }
        match result {
            Err(Flow::Return(status)) => Ok(status),
            other => other,
        }
    }

    /// The text of a script.
    pub fn load(&mut self, path: &str) -> Result<String, String> {
        let fail = |shell: &Self, error| format!("{path}: {}", shell.system.describe(error));
        let file = self.system.open(path, crate::ast::OpenMode::Read);
        let file = file.map_err(|error| fail(self, error))?;
        let mut text = Vec::new();
        let mut block = alloc::vec![0; 4096];
        loop {
            match self.system.read(&file, &mut block) {
                Ok(0) => break,
                Ok(count) => text.extend_from_slice(&block[..count]),
                Err(error) => return Err(fail(self, error)),
            }
        }
        if text.contains(&0) {
            return Err(format!("{path}: is not a script: it contains a byte 0"));
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn change_directory(&mut self, rest: &[String]) -> Result<i32, String> {
        let (target, show) = match rest {
            [] => (self.get("HOME").ok_or("HOME is not set")?, false),
            [dash] if dash == "-" => (self.get("OLDPWD").ok_or("OLDPWD is not set")?, true),
            [target] => (target.clone(), false),
            _ => return Err("more than one directory given".into()),
        };
        let old = self.system.current_dir();
        self.system
            .change_dir(&target)
            .map_err(|error| format!("{target}: {}", self.system.describe(error)))?;
        let new = self.system.current_dir();
        self.set("OLDPWD", old)?;
        self.set("PWD", new.clone())?;
        if show {
            self.write(1, format!("{new}\n").as_bytes())?;
        }
        Ok(0)
    }

    fn command_builtin(&mut self, rest: &[String]) -> Run {
        match rest.split_first() {
            None => Ok(0),
            Some((flag, names)) if flag == "-v" => {
                let mut status = 0;
                for name in names {
                    let text = if self.functions.contains_key(name)
                        || Self::is_builtin(name)
                        || is_reserved(name)
                    {
                        name.clone()
                    } else if let Ok(path) = self.find_program(name) {
                        path
                    } else {
                        status = 127;
                        continue;
                    };
                    if let Err(message) = self.write(1, format!("{text}\n").as_bytes()) {
                        self.complain(&format!("command: {message}"));
                        return Ok(1);
                    }
                }
                Ok(status)
            }
            Some((name, _)) if Self::is_builtin(name) => self.builtin(rest),
            Some(_) => self.run_program(rest, &[]),
        }
    }

    fn exec(&mut self, rest: &[String]) -> Run {
        // Where the shell cannot become the program, it runs it and ends with its status.
        let status = self.run_or_become(rest, &[], true)?;
        if status == 127 && self.interactive {
            Ok(status)
        } else {
            Err(Flow::Exit(status))
        }
    }

    fn exit(&mut self, rest: &[String]) -> Run {
        let status = self.number("exit", rest, self.status)?;
        Err(Flow::Exit(status & 0xff))
    }

    fn return_builtin(&mut self, rest: &[String]) -> Run {
        let status = self.number("return", rest, self.status)?;
        if self.functions_deep == 0 {
            self.complain("return: there is no function or sourced script here");
            return Ok(1);
        }
        Err(Flow::Return(status & 0xff))
    }

    fn mark(&mut self, command: &str, rest: &[String]) -> Result<i32, String> {
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

    fn local(&mut self, rest: &[String]) -> Result<i32, String> {
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

    fn unset(&mut self, rest: &[String]) -> Result<i32, String> {
        let functions = rest.first().is_some_and(|flag| flag == "-f");
        for name in rest
            .iter()
            .filter(|word| !matches!(word.as_str(), "-f" | "-v"))
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

    fn help(&mut self) -> Result<i32, String> {
        let mut out = String::from("Commands of the shell (programs: ls /scheme/initfs/bin):\n");
        for (name, arguments, purpose) in BUILTINS {
            let usage = format!("{name} {arguments}");
            let padding = 36usize.saturating_sub(usage.chars().count());
            out.push_str(&format!("  {usage}{:padding$} {purpose}\n", ""));
        }
        out.push_str(
            "Syntax: a | b, a && b, a || b, ! a, a &, ( … ), { …; }, if, while, until, for, case,\n\
             name() { …; }, time a, < > >> <> 2> 2>&1 <<, $x ${x:-y} $(a) $((1 + 2)) * ?\n",
        );
        self.write(1, out.as_bytes()).map(|()| 0)
    }

    fn printf(&mut self, rest: &[String]) -> Result<i32, String> {
        let (format, arguments) = rest.split_first().ok_or("a format is missing")?;
        let (text, result) = tools::printf::text(format, arguments);
        self.write(1, &text)?;
        result.map(|()| 0)
    }

    /// Reads one line without its end; `None` at the end of the input. Byte by byte, because what
    /// follows the line belongs to others who read the same file.
    pub(crate) fn read_line(&mut self) -> Result<Option<Vec<u8>>, String> {
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
                Ok(0) => return Ok((!line.is_empty()).then_some(line)),
                Ok(count) => {
                    line.extend_from_slice(&block[..count]);
                    if line.ends_with(b"\n") {
                        line.pop();
                        return Ok(Some(line));
                    }
                }
                Err(error) => return Err(self.system.describe(error)),
            }
        }
    }

    fn read(&mut self, rest: &[String]) -> Result<i32, String> {
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
        let mut end = false;
        loop {
            let Some(bytes) = self.read_line()? else {
                end = line.is_empty();
                break;
            };
            let text = String::from_utf8_lossy(&bytes).into_owned();
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
            if !continued {
                break;
            }
        }
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
            let last = index + 1 == names.len();
            let length = if last {
                rest.len() - rest.iter().rev().take_while(|c| is_space(c)).count()
            } else {
                rest.iter().position(is_separator).unwrap_or(rest.len())
            };
            let value: String = rest[..length].iter().map(|(c, _)| *c).collect();
            rest = &rest[length..];
            // White space around a separator of another kind belongs to it.
            while rest.first().is_some_and(is_space) {
                rest = &rest[1..];
            }
            if rest
                .first()
                .is_some_and(|c| is_separator(c) && !is_space(c))
            {
                rest = &rest[1..];
            }
            self.set(name, value)?;
        }
        Ok(i32::from(end))
    }

    fn set_builtin(&mut self, rest: &[String]) -> Result<i32, String> {
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
                    "errexit" => 'e',
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

    fn shift(&mut self, rest: &[String]) -> Result<i32, String> {
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

    fn trap(&mut self, rest: &[String]) -> Result<i32, String> {
        match rest {
            [] => {
                let text = match &self.exit_trap {
                    Some(command) => format!("trap -- {} EXIT\n", quote(command)),
                    None => String::new(),
                };
                self.write(1, text.as_bytes()).map(|()| 0)
            }
            [command, conditions @ ..] if !conditions.is_empty() => {
                for condition in conditions {
                    if !matches!(condition.as_str(), "EXIT" | "0") {
                        return Err(format!("`{condition}`: only EXIT can be trapped"));
                    }
                    self.exit_trap = (command != "-").then(|| command.clone());
                }
                Ok(0)
            }
            _ => Err("a command and EXIT are expected".into()),
        }
    }

    fn describe_names(&mut self, rest: &[String]) -> Result<i32, String> {
        let mut status = 0;
        for name in rest {
            let text = if is_reserved(name) {
                format!("{name} is a reserved word\n")
            } else if let Some(body) = self.functions.get(name) {
                format!("{name} is a function: {body}\n")
            } else if Self::is_builtin(name) {
                format!("{name} is a builtin\n")
            } else if let Ok(path) = self.find_program(name) {
                format!("{name} is {path}\n")
            } else {
                status = 1;
                format!("{name}: not found\n")
            };
            self.write(1, text.as_bytes())?;
        }
        Ok(status)
    }

    // ---- jobs --------------------------------------------------------------------------------

    fn list_jobs(&mut self) -> Result<i32, String> {
        self.reap();
        let mut out = String::new();
        for job in &self.jobs {
            let pid = job.processes.last().map_or(0, |(pid, _)| *pid);
            let state = match job.status() {
                None => "running".into(),
                Some(0) => "done".into(),
                Some(status) => format!("status {status}"),
            };
            out.push_str(&format!("[{}] {pid} {state}  {}\n", job.number, job.text));
        }
        self.jobs.retain(|job| job.status().is_none());
        self.write(1, out.as_bytes()).map(|()| 0)
    }

    /// Says which jobs ended, for an interactive shell before its prompt.
    pub(crate) fn report_jobs(&mut self) {
        self.reap();
        let mut out = String::new();
        for job in &self.jobs {
            match job.status() {
                None => {}
                Some(0) => out.push_str(&format!("[{}] done  {}\n", job.number, job.text)),
                Some(status) => {
                    out.push_str(&format!("[{}] status {status}  {}\n", job.number, job.text));
                }
            }
        }
        self.jobs.retain(|job| job.status().is_none());
        // The terminal may be gone; the next read finds out.
        let _ = self.write(2, out.as_bytes());
    }

    /// The job a word names: `%number` or the id of one of its processes.
    fn find_job(&self, word: &str) -> Result<Option<usize>, String> {
        if let Some(number) = word.strip_prefix('%') {
            let number: u32 = number
                .parse()
                .map_err(|_| format!("`{word}` is not a job number"))?;
            return match self.jobs.iter().position(|job| job.number == number) {
                Some(index) => Ok(Some(index)),
                None => Err(format!("{word}: there is no such job")),
            };
        }
        let pid: Pid = word
            .parse()
            .map_err(|_| format!("`{word}` is not a process id"))?;
        Ok(self
            .jobs
            .iter()
            .position(|job| job.processes.iter().any(|(id, _)| *id == pid)))
    }

    fn wait_builtin(&mut self, rest: &[String]) -> Result<i32, String> {
        let mut status = 0;
        if rest.is_empty() {
            while !self.jobs.is_empty() {
                self.wait_job(0);
            }
        }
        for word in rest {
            status = match self.find_job(word)? {
                Some(index) => self.wait_job(index),
                // Not a child of ours, or waited for already.
                None => 127,
            };
        }
        Ok(status)
    }

    fn kill(&mut self, rest: &[String]) -> Result<i32, String> {
        let mut number = 15;
        let mut words = rest;
        if let Some((flag, others)) = rest.split_first()
            && let Some(text) = flag.strip_prefix('-')
        {
            words = others;
            if text == "l" {
                let names: Vec<&str> = tools::signal::SIGNALS
                    .iter()
                    .map(|(name, _)| *name)
                    .collect();
                return self
                    .write(1, format!("{}\n", names.join(" ")).as_bytes())
                    .map(|()| 0);
            }
            let text = if text == "s" {
                let (name, others) = words.split_first().ok_or("-s needs a signal")?;
                words = others;
                name
            } else {
                text
            };
            number = tools::signal::number(text).ok_or(format!("unknown signal `{text}`"))?;
        }
        if words.is_empty() {
            return Err("a process id or %job is missing".into());
        }
        for word in words {
            let pids: Vec<Pid> = match self.find_job(word)? {
                Some(index) if word.starts_with('%') => {
                    let running = self.jobs[index].processes.iter();
                    running
                        .filter(|(_, status)| status.is_none())
                        .map(|(pid, _)| *pid)
                        .collect()
                }
                _ => word.parse().into_iter().collect(),
            };
            for pid in pids {
                self.system
                    .kill(pid, number)
                    .map_err(|error| format!("{pid}: {}", self.system.describe(error)))?;
            }
        }
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
