//! Processes, over `std::process`.

use std::os::unix::process::{CommandExt, ExitStatusExt};

use syscall::error::Result;

use super::number;
use crate::env;
pub use crate::exit_status::ExitStatus;

/// This process's id.
pub fn id() -> u32 {
    std::process::id()
}

/// Ends the process with the low 8 bits of `status`.
pub fn exit(status: i32) -> ! {
    std::process::exit(status & 0xFF)
}

/// Sends a signal to a process.
pub fn kill(pid: u32, signal: u32) -> Result<()> {
    Ok(libredox::call::kill(pid as usize, signal)?)
}

/// A process to be started.
#[derive(Debug)]
pub struct Command {
    command: std::process::Command,
}

impl Command {
    /// `program` with a slash is a path, else it is looked up in `PATH`.
    pub fn new(program: &str) -> Command {
        let command = std::process::Command::new(program);
        Command { command }
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<str>) -> &mut Self {
        self.command.arg(arg.as_ref());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<str>>) -> &mut Self {
        for arg in args {
            self.arg(arg);
        }
        self
    }

    /// Runs as this user (only root may change it).
    pub fn uid(&mut self, uid: u32) -> &mut Self {
        self.command.uid(uid);
        self
    }

    /// Runs with this group (only root may change it).
    pub fn gid(&mut self, gid: u32) -> &mut Self {
        self.command.gid(gid);
        self
    }

    /// Starts the process, with this one's environment, directory and streams.
    pub fn spawn(&mut self) -> Result<Child> {
        let child = self.command.env_clear().envs(env::vars()).spawn();
        child.map(|child| Child { child }).map_err(number)
    }
}

/// A started process. Dropping it neither kills nor reaps.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
}

impl Child {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().map_err(number)?;
        Ok(ExitStatus::from_raw(status.into_raw()))
    }
}
