//! Runs the syntax tree.
//!
//! How subshells work without `fork`: `( … )` and `$( … )` run in this process, which restores
//! variables, functions, directory and descriptors afterwards. A part of a pipeline that is not a
//! plain program, and a background list, are printed as text and run by a new shell process, which
//! gets variables and functions as a script to run first. One part of a foreground pipeline may
//! run in this process, while the programs around it run already.
//!
//! Output that is captured (`$( … )`) is collected in memory: builtins append to it directly,
//! programs write into a pipe that is read to its end before they are waited for.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;

use tools::condition::{Facts, Files};

use crate::arith::Variables;
use crate::ast::{AndOr, Command, CommandKind, List, is_name};
use crate::expand::Context;
use crate::parser::{self, Parser};
use crate::system::{EPIPE, Errno, Pid, SIGINT, System};

mod commands;
mod interactive;
mod launch;
mod pipeline;
mod subshell;

/// How deeply commands and functions may be nested at run time: running recurses, and the stack
/// has 1 MiB in the image.
const MAX_DEPTH: u32 = 100;

/// Bytes of text that fit into a pipe before it is read.
const PIPE_CAPACITY: usize = 60 * 1024;

/// Number of descriptors that a script can use.
pub const DESCRIPTORS: usize = 10;

/// Status of a command that an interrupt from the keyboard ended: 128 + SIGINT.
pub const INTERRUPTED: i32 = 130;

/// Status of a part of a script that wrote where nobody reads: 128 + SIGPIPE, which ends programs.
const PIPE_BROKEN: i32 = 141;

/// The reason why execution does not continue with the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// `break`, out of this number of loops.
    Break(u32),
    /// `continue` of the loop this number of levels up.
    Continue(u32),
    /// `return` from a function or a sourced script.
    Return(i32),
    /// The shell ends.
    Exit(i32),
    /// The keyboard has interrupted a foreground command.
    Interrupt,
}

/// The status of a command, or the reason why execution stopped.
pub type Run = Result<i32, Flow>;

/// Where a descriptor leads.
pub(crate) enum Handle<F> {
    File(F),
    Capture(Rc<RefCell<Vec<u8>>>),
}

impl<F: Clone> Clone for Handle<F> {
    fn clone(&self) -> Self {
        match self {
            Handle::File(file) => Handle::File(file.clone()),
            Handle::Capture(buffer) => Handle::Capture(buffer.clone()),
        }
    }
}

pub(crate) type Descriptors<F> = [Option<Handle<F>>; DESCRIPTORS];

#[derive(Clone, Default)]
pub(crate) struct Variable {
    pub(crate) value: Option<String>,
    pub(crate) exported: bool,
    pub(crate) read_only: bool,
}

/// For each function that runs, the variables before its `local`s.
pub(crate) type Locals = Vec<Vec<(String, Option<Variable>)>>;

/// The flags of `set`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) export_all: bool,
    /// Whether commands are only parsed. A shell for a person ignores it.
    pub(crate) no_execution: bool,
    pub(crate) exit_on_error: bool,
    pub(crate) trace: bool,
    pub(crate) strict: bool,
    pub(crate) no_glob: bool,
    pub(crate) pipe_fail: bool,
    /// Whether this shell runs in the background: interrupts from the keyboard are not for it.
    pub(crate) background: bool,
}

impl Options {
    pub(crate) fn letters(&self) -> String {
        let flags = [
            (self.export_all, 'a'),
            (self.exit_on_error, 'e'),
            (self.no_glob, 'f'),
            (self.no_execution, 'n'),
            (self.strict, 'u'),
            (self.trace, 'x'),
            (self.pipe_fail, 'P'),
            (self.background, 'B'),
        ];
        flags
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, letter)| *letter)
            .collect()
    }

    pub(crate) fn set(&mut self, letter: char, on: bool) -> bool {
        match letter {
            'a' => self.export_all = on,
            'e' => self.exit_on_error = on,
            'f' => self.no_glob = on,
            'n' => self.no_execution = on,
            'u' => self.strict = on,
            'x' => self.trace = on,
            'P' => self.pipe_fail = on,
            'B' => self.background = on,
            _ => return false,
        }
        true
    }
}

/// A background pipeline.
pub(crate) struct Job {
    pub(crate) number: u32,
    pub(crate) text: String,
    /// Processes, with their status once it is known. The status of the last one is the job's.
    pub(crate) processes: Vec<(Pid, Option<i32>)>,
}

impl Job {
    pub(crate) fn status(&self) -> Option<i32> {
        if self.processes.iter().any(|(_, status)| status.is_none()) {
            return None;
        }
        self.processes.last().and_then(|(_, status)| *status)
    }
}

/// A shell.
pub struct Shell<S: System> {
    pub(crate) system: S,
    pub(crate) variables: BTreeMap<String, Variable>,
    pub(crate) functions: BTreeMap<String, Rc<Command>>,
    pub(crate) name: String,
    pub(crate) parameters: Vec<String>,
    pub(crate) options: Options,
    pub(crate) descriptors: Descriptors<S::Fd>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) last_background: Option<Pid>,
    pub(crate) exit_trap: Option<String>,
    /// While the `EXIT` trap runs: the status of the shell without it.
    pub(crate) status_at_exit: Option<i32>,
    pub(crate) interactive: bool,
    /// Lines a person has typed.
    pub(crate) history: Vec<String>,
    /// Status of the last command.
    pub(crate) status: i32,
    /// Number of loops around the current command, within the current function.
    pub(crate) loops: u32,
    /// Number of function calls and sourced scripts around the current command.
    pub(crate) functions_deep: u32,
    /// Variables to restore at the end of each function call (`local`).
    pub(crate) locals: Locals,
    /// The word (`OPTIND`) and the letter in it where `getopts` goes on.
    pub(crate) option_place: (usize, usize),
    pub(crate) line: u32,
    /// `$$`, which stays the same in all subshells.
    process: Pid,
    depth: u32,
    /// Number of subshells in this process around the current command.
    subshells: u32,
    /// Whether this shell has to run only one simple command. Then it may become the program, so
    /// that killing the shell's process kills the program.
    lone_command: bool,
    /// Greater than zero where a failure is a condition and does not end the shell (`set -e`).
    tested: u32,
    /// Whether a write of the current builtin has found that nobody reads.
    pub(crate) pipe_broken: bool,
    /// Status of the last command substitution in the words being expanded.
    substituted: Option<i32>,
}

impl<S: System> Shell<S> {
    /// A shell with the environment given; `name` is `$0`.
    pub fn new(mut system: S, environment: Vec<(String, String)>, name: &str) -> Self {
        let mut descriptors = Descriptors::default();
        for (number, descriptor) in (0u8..).zip(&mut descriptors) {
            *descriptor = system.inherited(number).map(Handle::File);
        }
        let mut variables = BTreeMap::new();
        for (name, value) in environment {
            if is_name(&name) {
                let value = Some(value);
                variables.insert(
                    name,
                    Variable {
                        value,
                        exported: true,
                        read_only: false,
                    },
                );
            }
        }
        let process = system.id();
        let mut shell = Shell {
            system,
            variables,
            functions: BTreeMap::new(),
            name: name.into(),
            parameters: Vec::new(),
            options: Options::default(),
            descriptors,
            jobs: Vec::new(),
            last_background: None,
            exit_trap: None,
            status_at_exit: None,
            interactive: false,
            history: Vec::new(),
            status: 0,
            loops: 0,
            functions_deep: 0,
            locals: Vec::new(),
            option_place: (1, 0),
            line: 0,
            process,
            depth: 0,
            subshells: 0,
            lone_command: false,
            tested: 0,
            pipe_broken: false,
            substituted: None,
        };
        let directory = shell.system.current_dir();
        shell.variables.entry("PWD".into()).or_default().value = Some(directory);
        // Not that of the environment, which is the parent's own. A shell that runs a part of
        // another one's script gets that one's with its other variables.
        let parent = Variable {
            value: Some(shell.system.parent().to_string()),
            ..Variable::default()
        };
        shell.variables.insert("PPID".into(), parent);
        shell.variables.entry("OPTIND".into()).or_default().value = Some("1".into());
        shell
    }

    /// Sets options by letter, as in `sh -ex`. Returns false for an unknown one.
    pub fn set_options(&mut self, letters: &str) -> bool {
        letters.chars().all(|letter| self.options.set(letter, true))
    }

    /// Continues as the subshell described by the arguments after `--inside`: process id of the
    /// shell that `$$` names, last status, first line number, options, the script that restores
    /// variables and functions, the commands, `$0` and the parameters. `None` if they are
    /// malformed.
    pub fn run_inside(&mut self, arguments: &[String]) -> Option<i32> {
        let [
            process,
            status,
            line,
            options,
            prelude,
            commands,
            name,
            parameters @ ..,
        ] = arguments
        else {
            return None;
        };
        self.process = process.parse().ok()?;
        let status = status.parse().ok()?;
        let line = line.parse().ok()?;
        self.name = name.clone();
        self.parameters = parameters.into();
        // The prelude only assigns and defines, so it cannot stop execution.
        let _ = self.run_text(prelude, 1);
        if !self.set_options(options) {
            return None;
        }
        self.status = status;
        self.look_for_lone_command(commands);
        Some(self.run_script(commands, line))
    }

    /// Finds out whether a text is only one simple command in the foreground.
    pub(crate) fn look_for_lone_command(&mut self, text: &str) {
        // A text that does not parse is reported when it is run.
        let Ok(list) = parser::parse(text) else {
            return;
        };
        let [item] = list.items.as_slice() else {
            return;
        };
        let AndOr { first, rest } = &item.body;
        let plain = !item.background && rest.is_empty() && !first.negated && !first.timed;
        self.lone_command = plain
            && matches!(
                first.commands.as_slice(),
                [Command {
                    kind: CommandKind::Simple { .. },
                    ..
                }]
            );
    }

    /// Runs a whole script and returns the status with which the shell ends.
    pub fn run_script(&mut self, text: &str, line: u32) -> i32 {
        let run = self.run_text(text, line);
        self.finish(run)
    }

    /// Ends the shell: runs the `EXIT` trap and returns the shell's own status.
    pub fn finish(&mut self, run: Run) -> i32 {
        let mut status = match run {
            Ok(status) | Err(Flow::Exit(status) | Flow::Return(status)) => status,
            Err(Flow::Interrupt) => INTERRUPTED,
            Err(Flow::Break(_) | Flow::Continue(_)) => self.status,
        };
        if let Some(trap) = self.exit_trap.take() {
            self.status = status;
            self.status_at_exit = Some(status);
            if let Err(Flow::Exit(other)) = self.run_text(&trap, 1) {
                status = other;
            }
            self.status_at_exit = None;
        }
        if run == Err(Flow::Interrupt) {
            // Whoever waits for this shell sees by the signal that it was interrupted. If it
            // cannot be sent, the status has to do.
            let _ = self.system.kill(self.system.id().into(), SIGINT);
        }
        status & 0xff
    }

    /// Runs the commands of a text, line by line.
    pub(crate) fn run_text(&mut self, text: &str, line: u32) -> Run {
        let mut parser = Parser::new(text, line);
        let mut status = 0;
        loop {
            match parser.line() {
                Ok(None) => return Ok(status),
                Ok(Some(list)) => status = self.list(&list)?,
                Err(error) => {
                    self.line = error.line;
                    self.complain(&format!("syntax error: {}", error.message));
                    self.status = 2;
                    return if self.interactive {
                        Ok(2)
                    } else {
                        Err(Flow::Exit(2))
                    };
                }
            }
        }
    }

    // ---- messages ----------------------------------------------------------------------------

    /// Writes a message of the shell itself.
    pub(crate) fn complain(&mut self, message: &str) {
        let text = if self.interactive || self.line == 0 {
            format!("{}: {message}\n", self.name)
        } else {
            format!("{}: line {}: {message}\n", self.name, self.line)
        };
        // An error of this write cannot be reported.
        let _ = self.write(2, text.as_bytes());
    }

    /// Reports that a builtin failed and returns its status. If nobody reads what it writes, this
    /// part of the script ends without a message, as a program does: a loop would go on for ever.
    pub(crate) fn builtin_failed(&mut self, name: &str, message: &str) -> Run {
        if self.pipe_broken && (self.subshells > 0 || !self.interactive) {
            return Err(Flow::Exit(PIPE_BROKEN));
        }
        self.complain(&format!("{name}: {message}"));
        // Conditions distinguish false (1) from wrong (2).
        Ok(if matches!(name, "[" | "test") { 2 } else { 1 })
    }

    /// Writes to a descriptor of the script.
    pub(crate) fn write(&mut self, number: u8, bytes: &[u8]) -> Result<(), String> {
        match self.descriptors.get(usize::from(number)) {
            Some(Some(Handle::File(file))) => {
                let file = file.clone();
                self.system.write(&file, bytes).map_err(|error| {
                    self.pipe_broken |= error == EPIPE;
                    self.system.describe(error)
                })
            }
            Some(Some(Handle::Capture(buffer))) => {
                buffer.borrow_mut().extend_from_slice(bytes);
                Ok(())
            }
            _ => Err(format!("descriptor {number} is not open")),
        }
    }

    fn describe(&self, what: &str, error: Errno) -> String {
        format!("{what}: {}", self.system.describe(error))
    }
}

impl<S: System> Variables for Shell<S> {
    fn get(&self, name: &str) -> Option<String> {
        self.variables.get(name)?.value.clone()
    }

    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let variable = self.variables.entry(name.into()).or_default();
        if variable.read_only {
            return Err(format!("{name}: is read-only"));
        }
        variable.value = Some(value);
        variable.exported |= self.options.export_all;
        Ok(())
    }
}

impl<S: System> Context for Shell<S> {
    fn special(&self, name: char) -> Option<String> {
        match name {
            '?' => Some(self.status.to_string()),
            '$' => Some(self.process.to_string()),
            '!' => self.last_background.map(|pid| pid.to_string()),
            '#' => Some(self.parameters.len().to_string()),
            '-' => Some(self.options.letters()),
            '0' => Some(self.name.clone()),
            _ => None,
        }
    }

    fn positional(&self) -> Vec<String> {
        self.parameters.clone()
    }

    fn substitute(&mut self, body: &List) -> Result<String, String> {
        let buffer = Rc::new(RefCell::new(Vec::new()));
        let saved = self.save();
        self.descriptors[1] = Some(Handle::Capture(buffer.clone()));
        let run = self.list(body);
        let status = self.leave(saved, run);
        self.substituted = Some(status.unwrap_or(INTERRUPTED));
        self.status = status.unwrap_or(INTERRUPTED);
        if status.is_err() {
            return Err("interrupted".into());
        }
        let mut text = String::from_utf8_lossy(&buffer.borrow()).into_owned();
        text.truncate(text.trim_end_matches('\n').len());
        text.retain(|c| c != '\0');
        Ok(text)
    }

    fn names(&mut self, directory: &str) -> Option<Vec<String>> {
        let directory = if directory.is_empty() { "." } else { directory };
        self.system.names(directory).ok()
    }

    fn exists(&mut self, path: &str) -> bool {
        self.system.facts(path).is_some()
    }

    fn strict(&self) -> bool {
        self.options.strict
    }

    fn globbing(&self) -> bool {
        !self.options.no_glob
    }
}

impl<S: System> Files for Shell<S> {
    fn facts(&self, path: &str) -> Option<Facts> {
        self.system.facts(path)
    }

    fn is_terminal(&self, fd: u8) -> bool {
        match self.descriptors.get(usize::from(fd)) {
            Some(Some(Handle::File(file))) => self.system.is_terminal(file),
            _ => false,
        }
    }
}
