//! Lists, pipelines and background jobs.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use patterns::file_name::Pattern;

use super::launch::Drain;
use super::{Descriptors, Flow, Handle, Job, Run, Shell};
use crate::ast::{
    AndOr, Command, CommandKind, Connector, List, OpenMode, Part, Pipeline, Target, Word,
};
use crate::parser::NULL_PATH;
use crate::system::{Ended, Pid, System};

/// The way to run one command of a pipeline.
pub(super) enum Plan {
    /// As a program that this shell starts.
    Program,
    /// In this process.
    Inside,
    /// As text that another shell runs.
    Shell,
}

/// The state of one command of a pipeline.
enum Started<F> {
    /// A process runs it.
    Process(Pid),
    /// It must still be run in this process, with these descriptors.
    Inside(Descriptors<F>),
    /// It does not run, or has ended: its status.
    Not(i32),
}

/// Returns the processes of a pipeline.
fn pids<F>(started: &[Started<F>]) -> impl Iterator<Item = Pid> {
    started.iter().filter_map(|one| match one {
        Started::Process(pid) => Some(*pid),
        _ => None,
    })
}

impl<S: System> Shell<S> {
    pub(crate) fn list(&mut self, list: &List) -> Run {
        let mut status = 0;
        for item in &list.items {
            if self.options.no_execution && !self.interactive {
                break;
            }
            status = if item.background {
                self.background(&item.body)?
            } else {
                self.and_or(&item.body)?
            };
            self.status = status;
        }
        Ok(status)
    }

    pub(super) fn and_or(&mut self, body: &AndOr) -> Run {
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

    /// Runs one pipeline of an and-or list. Only a failure of the last one ends a shell with `set
    /// -e`.
    pub(super) fn element(&mut self, pipeline: &Pipeline, last: bool) -> Run {
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
        // A failure inside a compound command has ended the shell already, unless it was tested
        // there: `if a; then b && c; fi`. A subshell is a command of its own.
        let compound = matches!(
            pipeline.commands.as_slice(),
            [Command {
                kind: CommandKind::Group(_)
                    | CommandKind::If { .. }
                    | CommandKind::Loop { .. }
                    | CommandKind::For { .. }
                    | CommandKind::Case { .. },
                ..
            }]
        );
        if compound || tested > 0 {
            Ok(status)
        } else {
            self.checked(status)
        }
    }

    /// Ends the shell if a status is a failure that nothing tests (`set -e`).
    pub(super) fn checked(&self, status: i32) -> Run {
        if status != 0 && self.options.exit_on_error && self.tested == 0 {
            return Err(Flow::Exit(status));
        }
        Ok(status)
    }

    /// Runs a condition. Failures inside do not end the shell.
    pub(super) fn condition(&mut self, list: &List) -> Run {
        self.tested += 1;
        let result = self.list(list);
        self.tested -= 1;
        result
    }

    pub(super) fn background(&mut self, body: &AndOr) -> Run {
        // Else a script that never waits would keep all processes that have ended.
        self.reap();
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

    pub(super) fn null(&mut self) -> Option<Handle<S::Fd>> {
        self.system
            .open(NULL_PATH, OpenMode::Read)
            .ok()
            .map(Handle::File)
    }

    /// Decides how to run a command of a pipeline, or a single one in the background.
    pub(super) fn plan(&self, command: &Command, background: bool) -> Plan {
        let CommandKind::Simple { words, .. } = &command.kind else {
            return Plan::Inside;
        };
        let Some(name) = words.first().and_then(fixed_text) else {
            return Plan::Inside;
        };
        if self.functions.contains_key(&name) || Self::is_builtin(&name) {
            return Plan::Inside;
        }
        // Opening a file may block (a connection does), and so may a substitution. In the
        // background another process must do that, and at the console a process that can be
        // interrupted.
        let opens = opens_file(command);
        if (background && (opens || command.to_string().contains("$(")))
            || (self.interactive && opens)
        {
            return Plan::Shell;
        }
        Plan::Program
    }

    /// Decides how to run the commands of a pipeline; at most one of them [inside](Plan::Inside).
    fn plans(&self, commands: &[Command], background: bool) -> Vec<Plan> {
        let mut plans: Vec<Plan> = commands
            .iter()
            .map(|command| self.plan(command, background))
            .collect();
        // Two files that wait for each other must not be opened one after the other.
        let opening = commands.iter().filter(|command| opens_file(command));
        if opening.count() > 1 {
            for (plan, command) in plans.iter_mut().zip(commands) {
                if matches!(plan, Plan::Program) && opens_file(command) {
                    *plan = Plan::Shell;
                }
            }
        }
        // One command may run in this process: the last, or another one if no output of the
        // programs behind it must be collected at the same time.
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
        plans
    }

    /// Runs a pipeline, in the background if there is a `job`.
    pub(super) fn pipeline(&mut self, commands: &[Command], job: Option<&mut Job>) -> Run {
        let mut drains = Vec::new();
        let started = self.start_all(commands, job.is_some(), &mut drains);
        match job {
            Some(job) => {
                job.processes = pids(&started).map(|pid| (pid, None)).collect();
                self.drain(drains);
                Ok(0)
            }
            None => self.finish_all(commands, started, drains),
        }
    }

    /// Starts the programs and shells of a pipeline, with pipes between its commands. The result
    /// has an entry for each command. If a pipe cannot be made, the rest is not started.
    fn start_all(
        &mut self,
        commands: &[Command],
        background: bool,
        drains: &mut Vec<Drain<S::Fd>>,
    ) -> Vec<Started<S::Fd>> {
        let plans = self.plans(commands, background);
        let mut started = Vec::new();
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
                        started.push(Started::Not(1));
                        break;
                    }
                }
            }
            let process = match plan {
                Plan::Inside => {
                    started.push(Started::Inside(descriptors));
                    continue;
                }
                Plan::Shell => {
                    let text = command.to_string();
                    self.start_shell(&text, command.line, background, &descriptors, drains)
                        .map_err(|message| {
                            self.complain(&message);
                            1
                        })
                }
                Plan::Program => self.start_command(command, descriptors, drains),
            };
            started.push(process.map_or_else(Started::Not, Started::Process));
        }
        started.resize_with(commands.len(), || Started::Not(0));
        started
    }

    /// Runs the command that runs in this process, collects the output and waits for the
    /// processes.
    fn finish_all(
        &mut self,
        commands: &[Command],
        mut started: Vec<Started<S::Fd>>,
        drains: Vec<Drain<S::Fd>>,
    ) -> Run {
        let running: Vec<Pid> = pids(&started).collect();
        self.foreground(&running);
        let mut result = Ok(());
        for (command, one) in commands.iter().zip(&mut started) {
            if let Started::Inside(descriptors) = one {
                let descriptors = core::mem::take(descriptors);
                match self.run_here(command, descriptors) {
                    Ok(status) => *one = Started::Not(status),
                    Err(flow) => result = Err(flow),
                }
            }
        }
        self.drain(drains);
        let mut statuses = Vec::new();
        let mut interrupted = false;
        for one in &started {
            statuses.push(match one {
                Started::Process(pid) => {
                    let ended = self.wait(*pid);
                    interrupted |= ended.interrupted;
                    ended.status
                }
                Started::Not(status) => *status,
                Started::Inside(_) => 0,
            });
        }
        self.foreground(&[]);
        result?;
        if interrupted {
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

    /// Runs a command in this process, with these descriptors.
    fn run_here(&mut self, command: &Command, descriptors: Descriptors<S::Fd>) -> Run {
        let saved = self.save();
        self.descriptors = descriptors;
        let run = self.command(command);
        self.leave(saved, run)
    }

    /// Lets an interrupt from the keyboard end these processes from now on.
    pub(super) fn foreground(&mut self, pids: &[Pid]) {
        if !self.options.background {
            self.system.foreground(pids);
        }
    }

    /// Waits for a process that belongs to no job.
    pub(super) fn wait(&mut self, pid: Pid) -> Ended {
        let status = match self.system.wait(pid, true) {
            Ok(Some(ended)) => return ended,
            Ok(None) => 0,
            Err(error) => {
                let message = self.describe("waiting failed", error);
                self.complain(&message);
                1
            }
        };
        Ended::new(status, None)
    }
}

/// Returns the text of a word without expansions and patterns; `None` if it has any.
fn fixed_text(word: &Word) -> Option<String> {
    let mut out = String::new();
    for part in &word.parts {
        match part {
            Part::Literal(text) if !Pattern::plain(text).is_special() && !text.starts_with('~') => {
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
