//! Subshells in this process and background jobs. A subshell's changes of the state are undone at
//! its end.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use super::{Descriptors, Flow, Locals, Options, Run, Shell, Variable};
use crate::ast::Command;
use crate::system::{Ended, Pid, System};

/// The part of the shell's state that a subshell may change for itself only.
#[derive(Clone)]
pub(super) struct State<F> {
    variables: BTreeMap<String, Variable>,
    functions: BTreeMap<String, Rc<Command>>,
    parameters: Vec<String>,
    options: Options,
    descriptors: Descriptors<F>,
    locals: Locals,
    exit_trap: Option<String>,
    status_at_exit: Option<i32>,
    directory: String,
    loops: u32,
    option_place: (usize, usize),
    functions_deep: u32,
}

impl<S: System> Shell<S> {
    pub(super) fn save(&mut self) -> State<S::Fd> {
        self.subshells += 1;
        State {
            variables: self.variables.clone(),
            functions: self.functions.clone(),
            parameters: self.parameters.clone(),
            options: self.options,
            descriptors: self.descriptors.clone(),
            locals: self.locals.clone(),
            exit_trap: self.exit_trap.take(),
            status_at_exit: self.status_at_exit.take(),
            directory: self.system.current_dir(),
            loops: core::mem::take(&mut self.loops),
            functions_deep: self.functions_deep,
            option_place: self.option_place,
        }
    }

    /// Ends a subshell and restores the state. Only the status remains.
    pub(super) fn leave(&mut self, saved: State<S::Fd>, run: Run) -> Run {
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
        self.locals = saved.locals;
        self.exit_trap = saved.exit_trap;
        self.status_at_exit = saved.status_at_exit;
        self.loops = saved.loops;
        self.option_place = saved.option_place;
        self.functions_deep = saved.functions_deep;
        result
    }

    /// Finds out which background processes have ended.
    pub(crate) fn reap(&mut self) {
        for job in &mut self.jobs {
            for (pid, status) in &mut job.processes {
                if status.is_none() {
                    match self.system.wait(*pid, false) {
                        Ok(known) => *status = known.map(|ended| ended.status),
                        // The process cannot be waited for any more, because another thread did.
                        Err(_) => *status = Some(127),
                    }
                }
            }
        }
    }

    /// Waits for the end of a job and forgets it. The result is interrupted if any process is.
    pub(crate) fn wait_job(&mut self, index: usize) -> Ended {
        let mut job = self.jobs.remove(index);
        let running: Vec<Pid> = job
            .processes
            .iter()
            .filter(|(_, status)| status.is_none())
            .map(|(pid, _)| *pid)
            .collect();
        self.foreground(&running);
        let mut interrupted = false;
        for (pid, status) in &mut job.processes {
            if status.is_none() {
                let ended = self.wait(*pid);
                interrupted |= ended.interrupted;
                *status = Some(ended.status);
            }
        }
        self.foreground(&[]);
        Ended {
            status: job.status().unwrap_or(0),
            interrupted,
        }
    }
}
