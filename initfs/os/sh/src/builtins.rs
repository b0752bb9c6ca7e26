//! The commands that the shell executes itself.

mod jobs;
mod options;
mod variables;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use tools::manual::{self, Page};

use crate::arith::Variables;
use crate::ast::{is_reserved, quote};
use crate::shell::{Flow, Run, Shell};
use crate::system::System;

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
    ("cd", "[-L | -P] [directory | -]", "change the directory"),
    (
        "command",
        "[-v | -V] name…",
        "run without functions; -v, -V: say what it is",
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
    (
        "fg",
        "[%job]",
        "wait for a background command, which ^C ends",
    ),
    (
        "getopts",
        "letters name [word…]",
        "get the next option of the script",
    ),
    ("help", "", "print this list"),
    ("history", "[count]", "print the lines that were typed"),
    ("jobs", "", "list background commands"),
    ("kill", "[-signal] pid|-group|%job…", "send a signal"),
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
        "[-aefnux] [-o pipefail] [--] [word…]",
        "set options or $1, $2, …",
    ),
    ("shift", "[n]", "drop the first n parameters"),
    ("source", "file [argument…]", "the same as ."),
    ("test", "expression", "evaluate a condition"),
    (
        "trap",
        "[command | -] EXIT",
        "run a command at the end; -: do not",
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

    pub(crate) fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTINS.iter().map(|(name, _, _)| *name)
    }

    /// Runs the builtin that the first argument names.
    pub(crate) fn builtin(&mut self, arguments: &[String]) -> Run {
        let Some((name, rest)) = arguments.split_first() else {
            return Ok(0);
        };
        // These take it for a word, or read their options themselves.
        let keeps = matches!(
            name.as_str(),
            "echo" | "[" | "test" | "set" | "cd" | "kill" | "read" | "trap" | "command"
        );
        let rest = match rest {
            [dashes, others @ ..] if dashes == "--" && !keeps => others,
            rest => rest,
        };
        self.pipe_broken = false;
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
            "fg" => return self.bring_forward(rest),
            "getopts" => self.next_option(rest),
            "help" => self.help(),
            "history" => self.show_history(rest),
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
        result.or_else(|message| self.builtin_failed(name, &message))
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
        // They make no difference, because the system knows only one path of a directory.
        let flags = rest
            .iter()
            .take_while(|word| *word == "-L" || *word == "-P");
        let rest = &rest[flags.count()..];
        let rest = match rest {
            [end, rest @ ..] if end == "--" => rest,
            rest => rest,
        };
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
                let names = names.strip_prefix(&["--".into()]).unwrap_or(names);
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
                        return self.builtin_failed("command", &message);
                    }
                }
                Ok(status)
            }
            Some((flag, names)) if flag == "-V" => self
                .describe_names(names)
                .or_else(|message| self.builtin_failed("command", &message)),
            Some((end, command)) if end == "--" => self.command_builtin(command),
            Some((name, _)) if Self::is_builtin(name) => self.builtin(rest),
            Some(_) => self.run_program(rest, &[]),
        }
    }

    fn exec(&mut self, rest: &[String]) -> Run {
        // If the shell cannot become the program, it runs the program and ends with its status.
        let status = self.run_or_become(rest, &[], true)?;
        if status == 127 && self.interactive {
            Ok(status)
        } else {
            Err(Flow::Exit(status))
        }
    }

    fn exit(&mut self, rest: &[String]) -> Run {
        let default = self.status_at_exit.unwrap_or(self.status);
        let status = self.number("exit", rest, default)?;
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

    fn help(&mut self) -> Result<i32, String> {
        let mut out = String::from("Commands of the shell:\n");
        for (name, arguments, purpose) in BUILTINS {
            let usage = format!("{name} {arguments}");
            let padding = 36usize.saturating_sub(usage.chars().count());
            out.push_str(&format!("  {usage}{:padding$} {purpose}\n", ""));
        }
        out.push_str(
            "Syntax: a | b, a && b, a || b, ! a, a &, ( … ), { …; }, if, while, until, for, case,\n\
             name() { …; }, time a, < > >> <> 2> 2>&1 <<, $x ${x:-y} $(a) $((1 + 2)) * ?\n",
        );
        out.push_str("Programs (`man NAME` and `NAME --help` say more):\n");
        out.extend(manual::PAGES.iter().map(Page::line));
        out.push_str(
            "Keys: Tab completes, ^R searches the history, ^C interrupts, ^D ends the input\n",
        );
        self.write(1, out.as_bytes()).map(|()| 0)
    }

    fn printf(&mut self, rest: &[String]) -> Result<i32, String> {
        let (format, arguments) = rest.split_first().ok_or("a format is missing")?;
        let (text, result) = tools::printf::text(format, arguments);
        self.write(1, &text)?;
        result.map(|()| 0)
    }

    fn trap(&mut self, rest: &[String]) -> Result<i32, String> {
        let rest = match rest {
            [first, others @ ..] if first == "--" => others,
            all => all,
        };
        let (command, conditions) = match rest {
            [] => {
                let text = match &self.exit_trap {
                    Some(command) => format!("trap -- {} EXIT\n", quote(command)),
                    None => String::new(),
                };
                return self.write(1, text.as_bytes()).map(|()| 0);
            }
            // Without a command, or with a number in its place, all are conditions.
            [first, others @ ..] if others.is_empty() || first.parse::<u32>().is_ok() => {
                ("-", rest)
            }
            [first, others @ ..] => (first.as_str(), others),
        };
        let mut refused = None;
        for condition in conditions {
            if matches!(condition.as_str(), "EXIT" | "0") {
                self.exit_trap = (command != "-").then(|| command.into());
            } else if command != "-" || tools::signal::number(condition).is_none() {
                refused.get_or_insert(condition);
            }
        }
        match refused {
            Some(condition) => Err(format!("`{condition}`: only EXIT can be trapped")),
            None => Ok(0),
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
}
