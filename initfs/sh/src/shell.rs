//! Running the tree.
//!
//! How subshells work without `fork`: `( … )` and `$( … )` run in this process, and variables,
//! functions, directory and descriptors are put back afterwards. A part of a pipeline that is not
//! a plain program, and a background list, are printed as text and run by a new shell process,
//! which gets variables and functions as a script to run first. One part of a foreground pipeline
//! may run in this process, while the programs around it run already.
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
use crate::ast::{
    AndOr, Assignment, Command, CommandKind, Connector, List, OpenMode, Part, Pipeline, Redirect,
    Target, Word, is_name, quote,
};
use crate::expand::{self, Context};
use crate::parser::{self, NULL_PATH, Parser};
use crate::pattern;
use crate::system::{EACCES, EISDIR, ENOENT, Errno, Pid, Program, System};

/// How deeply commands and functions may be nested at run time: running recurses, and the stack
/// has 1 MiB in the image.
const MAX_DEPTH: u32 = 100;

/// Text that fits into a pipe before anybody reads.
const PIPE_CAPACITY: usize = 60 * 1024;

/// Descriptor numbers a script may use.
pub const DESCRIPTORS: usize = 10;

/// Status of a command that an interrupt from the keyboard ended: 128 + SIGINT.
pub const INTERRUPTED: i32 = 130;

/// Why running does not simply go on with the next command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// `break`, out of so many loops.
    Break(u32),
    /// `continue` of the loop so many levels up.
    Continue(u32),
    /// `return` from a function or a sourced script.
    Return(i32),
    /// The shell ends.
    Exit(i32),
    /// The keyboard interrupted a foreground command.
    Interrupt,
}

/// The status of what ran, or why running stopped.
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

/// The flags of `set`.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) exit_on_error: bool,
    pub(crate) trace: bool,
    pub(crate) strict: bool,
    pub(crate) no_glob: bool,
    pub(crate) pipe_fail: bool,
    /// This shell runs in the background: an interrupt from the keyboard is not for it.
    pub(crate) background: bool,
}

impl Options {
    pub(crate) fn letters(&self) -> String {
        let flags = [
            (self.exit_on_error, 'e'),
            (self.no_glob, 'f'),
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
            'e' => self.exit_on_error = on,
            'f' => self.no_glob = on,
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
    /// Processes with their status once it is known; the last one's is the job's.
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

/// What a subshell may change without anybody noticing.
#[derive(Clone)]
struct State<F> {
    variables: BTreeMap<String, Variable>,
    functions: BTreeMap<String, Rc<Command>>,
    parameters: Vec<String>,
    options: Options,
    descriptors: Descriptors<F>,
    exit_trap: Option<String>,
    directory: String,
    loops: u32,
    functions_deep: u32,
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
    pub(crate) interactive: bool,
    /// Status of the last command.
    pub(crate) status: i32,
    /// Enclosing loops of the current function.
    pub(crate) loops: u32,
    /// Enclosing function calls and sourced scripts.
    pub(crate) functions_deep: u32,
    /// Variables to put back at the end of each function call (`local`).
    pub(crate) locals: Vec<Vec<(String, Option<Variable>)>>,
    pub(crate) line: u32,
    /// `$$`: stays the same in all subshells.
    process: Pid,
    depth: u32,
    /// Subshells in this process around the current command.
    subshells: u32,
    /// All this shell has to run is one simple command: it may become its program, so that whoever
    /// kills the shell's process kills the program.
    lone_command: bool,
    /// Greater than zero where a failure is a condition and does not end the shell (`set -e`).
    tested: u32,
    /// Status of the last command substitution in the words being expanded.
    substituted: Option<i32>,
}

/// How one command of a pipeline is run.
enum Plan {
    /// A program, started from here.
    Program,
    /// In this process.
    Inside,
    /// Printed and given to another shell.
    Shell,
}

/// A pipe whose output belongs into a buffer.
struct Drain<F> {
    reader: F,
    writer: Option<F>,
    buffer: Rc<RefCell<Vec<u8>>>,
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
            interactive: false,
            status: 0,
            loops: 0,
            functions_deep: 0,
            locals: Vec::new(),
            line: 0,
            process,
            depth: 0,
            subshells: 0,
            lone_command: false,
            tested: 0,
            substituted: None,
        };
        let directory = shell.system.current_dir();
        shell.variables.entry("PWD".into()).or_default().value = Some(directory);
        shell
    }

    /// Sets `$1`, `$2` and so on.
    pub fn set_parameters(&mut self, parameters: Vec<String>) {
        self.parameters = parameters;
    }

    /// Sets options by letter, as in `sh -ex`; false for an unknown one.
    pub fn set_options(&mut self, letters: &str) -> bool {
        letters.chars().all(|letter| self.options.set(letter, true))
    }

    /// Continues as the subshell described by the arguments after `--inside`: process id of the
    /// shell that `$$` names, last status, first line number, options, the script that brings
    /// variables and functions back, the commands, `$0` and the parameters. `None`: they are
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
        // Flow out of the prelude cannot happen: it only assigns and defines.
        let _ = self.run_text(prelude, 1);
        if !self.set_options(options) {
            return None;
        }
        self.status = status;
        self.look_for_lone_command(commands);
        Some(self.run_script(commands, line))
    }

    /// Notices when a text is nothing but one simple command in the foreground.
    pub(crate) fn look_for_lone_command(&mut self, text: &str) {
        // What does not parse is reported when it is run.
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

    /// Runs a whole script and gives the status the shell ends with.
    pub fn run_script(&mut self, text: &str, line: u32) -> i32 {
        let run = self.run_text(text, line);
        self.finish(run)
    }

    /// The shell's own status at its end, after the `EXIT` trap ran.
    pub fn finish(&mut self, run: Run) -> i32 {
        let mut status = match run {
            Ok(status) | Err(Flow::Exit(status) | Flow::Return(status)) => status,
            Err(Flow::Interrupt) => INTERRUPTED,
            Err(Flow::Break(_) | Flow::Continue(_)) => self.status,
        };
        if let Some(trap) = self.exit_trap.take() {
            self.status = status;
            if let Err(Flow::Exit(other)) = self.run_text(&trap, 1) {
                status = other;
            }
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
        // There is nobody left to tell when this fails.
        let _ = self.write(2, text.as_bytes());
    }

    /// Writes to a descriptor of the script.
    pub(crate) fn write(&mut self, number: u8, bytes: &[u8]) -> Result<(), String> {
        match self.descriptors.get(usize::from(number)) {
            Some(Some(Handle::File(file))) => {
                let file = file.clone();
                self.system
                    .write(&file, bytes)
                    .map_err(|error| self.system.describe(error))
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

    // ---- lists and pipelines -----------------------------------------------------------------

    pub(crate) fn list(&mut self, list: &List) -> Run {
        let mut status = 0;
        for item in &list.items {
            status = if item.background {
                self.background(&item.body)?
            } else {
                self.and_or(&item.body)?
            };
            self.status = status;
        }
        Ok(status)
    }

    fn and_or(&mut self, body: &AndOr) -> Run {
        let mut status = self.element(&body.first, body.rest.is_empty())?;
        for (index, (connector, pipeline)) in body.rest.iter().enumerate() {
            if (status == 0) != (*connector == Connector::And) {
                continue;
            }
            self.status = status;
            status = self.element(pipeline, index + 1 == body.rest.len())?;
        }
        Ok(status)
    }

    /// One pipeline of an and-or list; only the last one's failure ends a shell with `set -e`.
    fn element(&mut self, pipeline: &Pipeline, last: bool) -> Run {
        let tested = u32::from(!last || pipeline.negated);
        self.tested += tested;
        let start = self.system.now();
        let result = match pipeline.commands.as_slice() {
            [command] => self.command(command),
            commands => self.pipeline(commands, None),
        };
        self.tested -= tested;
        let mut status = result?;
        if pipeline.timed {
            let elapsed = self.system.now().saturating_sub(start);
            let text = format!("real {} s\n", tools::number::show_seconds(elapsed));
            let _ = self.write(2, text.as_bytes());
        }
        if pipeline.negated {
            status = i32::from(status == 0);
        }
        self.status = status;
        if status != 0 && self.options.exit_on_error && self.tested == 0 && tested == 0 {
            return Err(Flow::Exit(status));
        }
        Ok(status)
    }

    /// A condition: failures inside do not end the shell.
    fn condition(&mut self, list: &List) -> Run {
        self.tested += 1;
        let result = self.list(list);
        self.tested -= 1;
        result
    }

    fn background(&mut self, body: &AndOr) -> Run {
        let mut job = Job {
            number: self.jobs.iter().map(|job| job.number).max().unwrap_or(0) + 1,
            text: body.to_string(),
            processes: Vec::new(),
        };
        let plain = body.rest.is_empty() && !body.first.negated && !body.first.timed;
        if plain {
            self.pipeline(&body.first.commands, Some(&mut job))?;
        } else {
            let text = body.to_string();
            let line = body
                .first
                .commands
                .first()
                .map_or(1, |command| command.line);
            let mut descriptors = self.descriptors.clone();
            descriptors[0] = self.null();
            let mut drains = Vec::new();
            match self.start_shell(&text, line, true, &descriptors, &mut drains) {
                Ok(pid) => job.processes.push((pid, None)),
                Err(message) => {
                    self.complain(&message);
                    return Ok(1);
                }
            }
            self.drain(drains);
        }
        if let Some((pid, _)) = job.processes.last() {
            self.last_background = Some(*pid);
            if self.interactive {
                let text = format!("[{}] {pid}\n", job.number);
                let _ = self.write(2, text.as_bytes());
            }
            self.jobs.push(job);
        }
        Ok(0)
    }

    fn null(&mut self) -> Option<Handle<S::Fd>> {
        self.system
            .open(NULL_PATH, OpenMode::Read)
            .ok()
            .map(Handle::File)
    }

    /// How a command of a pipeline (or a single one in the background) is to be run.
    fn plan(&self, command: &Command, background: bool) -> Plan {
        let CommandKind::Simple { words, .. } = &command.kind else {
            return Plan::Inside;
        };
        let Some(name) = words.first().and_then(fixed_text) else {
            return Plan::Inside;
        };
        if self.functions.contains_key(&name) || Self::is_builtin(&name) {
            return Plan::Inside;
        }
        // Opening a file may block (a connection does), and so may a substitution: in the
        // background that has to happen somewhere else, and at the console where it can be
        // interrupted.
        let opens = opens_file(command);
        if (background && (opens || command.to_string().contains("$(")))
            || (self.interactive && opens)
        {
            return Plan::Shell;
        }
        Plan::Program
    }

    /// Runs a pipeline; with `job` in the background.
    fn pipeline(&mut self, commands: &[Command], job: Option<&mut Job>) -> Run {
        let background = job.is_some();
        let mut plans: Vec<Plan> = commands
            .iter()
            .map(|command| self.plan(command, background))
            .collect();
        // Two files that wait for each other must not be opened one after the other.
        if commands
            .iter()
            .filter(|command| opens_file(command))
            .count()
            > 1
        {
            for (plan, command) in plans.iter_mut().zip(commands) {
                if matches!(plan, Plan::Program) && opens_file(command) {
                    *plan = Plan::Shell;
                }
            }
        }
        // One command may run here: the last, or another one when nothing has to be collected
        // from the programs behind it at the same time.
        let captured = self.descriptors[1..=2]
            .iter()
            .any(|descriptor| matches!(descriptor, Some(Handle::Capture(_))));
        let inside = plans
            .iter()
            .rposition(|plan| matches!(plan, Plan::Inside))
            .filter(|at| !background && (at + 1 == commands.len() || !captured));
        for (index, plan) in plans.iter_mut().enumerate() {
            if matches!(plan, Plan::Inside) && Some(index) != inside {
                *plan = Plan::Shell;
            }
        }

        let mut drains = Vec::new();
        let mut pids: Vec<Option<Pid>> = Vec::new();
        let mut statuses = alloc::vec![0; commands.len()];
        let mut here = None;
        let mut previous = if background { self.null() } else { None };
        for (index, (command, plan)) in commands.iter().zip(&plans).enumerate() {
            let mut descriptors = self.descriptors.clone();
            if let Some(reader) = previous.take() {
                descriptors[0] = Some(reader);
            }
            if index + 1 < commands.len() {
                match self.system.pipe() {
                    Ok((reader, writer)) => {
                        descriptors[1] = Some(Handle::File(writer));
                        previous = Some(Handle::File(reader));
                    }
                    Err(error) => {
                        let message = self.describe("cannot make a pipe", error);
                        self.complain(&message);
                        statuses[index] = 1;
                        break;
                    }
                }
            }
            let started = match plan {
                Plan::Inside => {
                    here = Some((index, descriptors));
                    pids.push(None);
                    continue;
                }
                Plan::Shell => {
                    let text = command.to_string();
                    self.start_shell(&text, command.line, background, &descriptors, &mut drains)
                        .map_err(|message| {
                            self.complain(&message);
                            1
                        })
                }
                Plan::Program => self.start_command(command, descriptors, &mut drains),
            };
            match started {
                Ok(pid) => pids.push(Some(pid)),
                Err(status) => {
                    statuses[index] = status;
                    pids.push(None);
                }
            }
        }
        drop(previous);

        let running: Vec<Pid> = pids.iter().copied().flatten().collect();
        if let Some(job) = job {
            job.processes = running.iter().map(|pid| (*pid, None)).collect();
            self.drain(drains);
            return Ok(0);
        }
        self.foreground(&running);
        let mut result = Ok(());
        if let Some((index, descriptors)) = here {
            let saved = self.save();
            self.descriptors = descriptors;
            let run = self.command(&commands[index]);
            match self.leave(saved, run) {
                Ok(status) => statuses[index] = status,
                Err(flow) => result = Err(flow),
            }
        }
        self.drain(drains);
        for (status, pid) in statuses.iter_mut().zip(&pids) {
            if let Some(pid) = pid {
                *status = self.wait(*pid);
            }
        }
        self.foreground(&[]);
        result?;
        if !running.is_empty() && statuses.contains(&INTERRUPTED) {
            return Err(Flow::Interrupt);
        }
        let last = statuses.last().copied().unwrap_or(0);
        let failed = statuses.iter().rev().copied().find(|status| *status != 0);
        Ok(if self.options.pipe_fail {
            failed.unwrap_or(0)
        } else {
            last
        })
    }

    /// From now on an interrupt from the keyboard ends these processes.
    fn foreground(&mut self, pids: &[Pid]) {
        if !self.options.background {
            self.system.foreground(pids);
        }
    }

    /// Waits for a process that is no job.
    fn wait(&mut self, pid: Pid) -> i32 {
        match self.system.wait(pid, true) {
            Ok(status) => status.unwrap_or(0),
            Err(error) => {
                let message = self.describe("waiting failed", error);
                self.complain(&message);
                1
            }
        }
    }

    // ---- starting programs -------------------------------------------------------------------

    /// Starts a simple command as a program, with these descriptors under its redirections. The
    /// error is its status; the message was written.
    fn start_command(
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
                let value = expand::text(value, self).map_err(|message| (1, message))?;
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

    /// Starts the program that `arguments` name. The error: status and message.
    fn start(
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
        // A subshell in this process must leave the shell alive, and so must who collects output.
        if replace && self.subshells == 0 && drains.is_empty() {
            let error = self.system.replace(&program);
            return Err(fail(self, error));
        }
        self.system
            .spawn(&program)
            .map_err(|error| fail(self, error))
    }

    /// Starts another shell that runs `text`.
    fn start_shell(
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

    fn environment(&self, extra: &[(String, String)]) -> Vec<(String, String)> {
        let mut environment: BTreeMap<String, String> = self
            .variables
            .iter()
            .filter(|(_, variable)| variable.exported)
            .filter_map(|(name, variable)| Some((name.clone(), variable.value.clone()?)))
            .collect();
        environment.extend(extra.iter().cloned());
        environment.into_iter().collect()
    }

    /// The first `count` descriptors as files; captured output gets a pipe.
    fn child_descriptors(
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

    /// Reads captured output to its end. One pipe after the other: two exist only where a capture
    /// within a capture sends standard error to the outer one, and then the inner one ends first.
    fn drain(&mut self, mut drains: Vec<Drain<S::Fd>>) {
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

    /// The file a command name stands for.
    pub(crate) fn find_program(&self, name: &str) -> Result<String, Errno> {
        use tools::condition::Kind;
        let usable = |path: &str| match self.system.facts(path) {
            None => Err(ENOENT),
            Some(Facts {
                kind: Kind::Directory,
                ..
            }) => Err(EISDIR),
            Some(Facts { mode, .. }) if mode & 0o111 == 0 => Err(EACCES),
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
        for directory in path.split(':') {
            let directory = if directory.is_empty() { "." } else { directory };
            let candidate = format!("{directory}/{name}");
            if usable(&candidate).is_ok() || usable(&candidate) == Err(EACCES) {
                return Ok(candidate);
            }
        }
        Err(ENOENT)
    }

    /// `None` for a program; for a script the shell (or what its `#!` line names) and an option.
    fn interpreter(&mut self, path: &str) -> Result<Option<(String, Option<String>)>, Errno> {
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
        // Bytes that no script has: better no attempt at all than a page of errors.
        if start.contains(&0) {
            return Err(crate::system::ENOEXEC);
        }
        Ok(Some((self.system.shell(), None)))
    }

    // ---- commands ----------------------------------------------------------------------------

    fn command(&mut self, command: &Command) -> Run {
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

    fn command_inner(&mut self, command: &Command) -> Run {
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

    fn with_redirects(
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
                Ok(1)
            }
        };
        // Only these: `{ exec 3<file; } 2>errors` keeps descriptor 3.
        for redirect in redirects {
            let number = usize::from(redirect.fd);
            self.descriptors[number] = saved[number].clone();
        }
        result
    }

    /// Applies redirections to our own descriptors.
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

    fn trace(&mut self, assignments: &[(String, String)], arguments: &[String]) {
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

    fn simple(&mut self, command: &Command) -> Run {
        let CommandKind::Simple { assignments, words } = &command.kind else {
            return Ok(0);
        };
        self.line = command.line;
        self.substituted = None;
        // A program whose file has to be opened where an interrupt can reach it.
        if matches!(self.plan(command, false), Plan::Shell) {
            return self.pipeline(core::slice::from_ref(command), None);
        }
        let arguments = match expand::fields(words, self) {
            Ok(arguments) => arguments,
            Err(message) => return self.expansion_failed(&message),
        };
        let mut values = Vec::new();
        for Assignment { name, value } in assignments {
            match expand::text(value, self) {
                // Without a command each one is set at once: the next may use it.
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
        if name == "exec" && arguments.len() == 1 {
            // The redirections stay.
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

    /// Runs a program in the foreground, or with `replace` becomes it where that is possible.
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
                let status = self.wait(pid);
                self.foreground(&[]);
                if status == INTERRUPTED {
                    Err(Flow::Interrupt)
                } else {
                    Ok(status)
                }
            }
            Err((status, message)) => {
                self.complain(&message);
                Ok(status)
            }
        }
    }

    fn expansion_failed(&mut self, message: &str) -> Run {
        self.complain(message);
        self.status = 1;
        if self.interactive {
            Ok(1)
        } else {
            Err(Flow::Exit(1))
        }
    }

    /// Runs with variables that have these values only meanwhile.
    fn with_variables(
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

    fn restore(&mut self, saved: Vec<(String, Option<Variable>)>) {
        for (name, variable) in saved.into_iter().rev() {
            match variable {
                Some(variable) => self.variables.insert(name, variable),
                None => self.variables.remove(&name),
            };
        }
    }

    fn call(&mut self, body: &Command, arguments: &[String]) -> Run {
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

    fn compound(&mut self, kind: &CommandKind) -> Run {
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
                        if pattern::matches(&pattern, &text) {
                            return self.list(body);
                        }
                    }
                }
                Ok(0)
            }
        }
    }

    /// Runs a loop: `once` gives the status of one round, or `None` at the end.
    fn repeat(&mut self, mut once: impl FnMut(&mut Self) -> Result<Option<i32>, Flow>) -> Run {
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

    // ---- subshells in this process -----------------------------------------------------------

    fn save(&mut self) -> State<S::Fd> {
        self.subshells += 1;
        State {
            variables: self.variables.clone(),
            functions: self.functions.clone(),
            parameters: self.parameters.clone(),
            options: self.options,
            descriptors: self.descriptors.clone(),
            exit_trap: self.exit_trap.take(),
            directory: self.system.current_dir(),
            loops: core::mem::take(&mut self.loops),
            functions_deep: self.functions_deep,
        }
    }

    /// Ends a subshell: only its status goes out.
    fn leave(&mut self, saved: State<S::Fd>, run: Run) -> Run {
        let result = match run {
            Err(Flow::Interrupt) => Err(Flow::Interrupt),
            other => Ok(self.finish(other)),
        };
        if self.system.current_dir() != saved.directory
            && let Err(error) = self.system.change_dir(&saved.directory)
        {
            let message = self.describe(&saved.directory, error);
            self.complain(&message);
        }
        self.subshells -= 1;
        self.variables = saved.variables;
        self.functions = saved.functions;
        self.parameters = saved.parameters;
        self.options = saved.options;
        self.descriptors = saved.descriptors;
        self.exit_trap = saved.exit_trap;
        self.loops = saved.loops;
        self.functions_deep = saved.functions_deep;
        result
    }

    // ---- jobs --------------------------------------------------------------------------------

    /// Learns which background processes ended.
    pub(crate) fn reap(&mut self) {
        for job in &mut self.jobs {
            for (pid, status) in &mut job.processes {
                if status.is_none() {
                    match self.system.wait(*pid, false) {
                        Ok(known) => *status = known,
                        // It cannot be waited for any more: somebody else did.
                        Err(_) => *status = Some(127),
                    }
                }
            }
        }
    }

    /// Waits for the end of a job and forgets it.
    pub(crate) fn wait_job(&mut self, index: usize) -> i32 {
        let mut job = self.jobs.remove(index);
        let running: Vec<Pid> = job
            .processes
            .iter()
            .filter(|(_, status)| status.is_none())
            .map(|(pid, _)| *pid)
            .collect();
        self.foreground(&running);
        for (pid, status) in &mut job.processes {
            if status.is_none() {
                *status = Some(self.wait(*pid));
            }
        }
        self.foreground(&[]);
        job.status().unwrap_or(0)
    }
}

/// The text of a word without expansions and patterns.
fn fixed_text(word: &Word) -> Option<String> {
    let mut out = String::new();
    for part in &word.parts {
        match part {
            Part::Literal(text) if !pattern::is_special(text) && !text.starts_with('~') => {
                out.push_str(text);
            }
            Part::Quoted(text) => out.push_str(text),
            _ => return None,
        }
    }
    Some(out)
}

fn opens_file(command: &Command) -> bool {
    command
        .redirects
        .iter()
        .any(|redirect| matches!(redirect.target, Target::File(..)))
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
