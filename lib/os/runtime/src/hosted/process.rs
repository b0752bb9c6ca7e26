//! Processes, over `std::process`.

use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};

use libredox::Fd;
use syscall::error::{EBADF, Error, Result};

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

/// Does nothing: the listed name of a process is that of its file here.
pub fn rename_own(_name: &str) -> Result<()> {
    Ok(())
}

/// Duplicates the descriptor of a stream.
fn duplicate(stream: usize) -> Result<OwnedFd> {
    let stream = libredox::call::dup(stream, b"")?;
    let number = i32::try_from(stream).map_err(|_| Error::new(EBADF))?;
    // SAFETY: the descriptor was made just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Describes a process to start.
#[derive(Debug)]
pub struct Command {
    command: std::process::Command,
    /// Descriptors for standard input and output; `None` for those of this process.
    streams: [Option<usize>; 2],
}

impl Command {
    /// `program` is a path if it contains a slash; otherwise it is looked up in `PATH`.
    pub fn new(program: &str) -> Command {
        let command = std::process::Command::new(program);
        Command {
            command,
            streams: [None; 2],
        }
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

    /// Sets standard input to this descriptor, which stays open here.
    pub fn stdin(&mut self, stream: &Fd) -> &mut Self {
        self.streams[0] = Some(stream.raw());
        self
    }

    /// Sets standard output to this descriptor, which stays open here.
    pub fn stdout(&mut self, stream: &Fd) -> &mut Self {
        self.streams[1] = Some(stream.raw());
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

    /// Replaces this process's program. Returns only if that is impossible.
    pub fn exec(&mut self) -> Error {
        number(self.command.env_clear().envs(env::vars()).exec())
    }

    /// Starts the process with this one's environment and directory, and with its streams unless
    /// changed.
    pub fn spawn(&mut self) -> Result<Child> {
        let [input, output] = self.streams;
        if let Some(input) = input {
            self.command.stdin(duplicate(input)?);
        }
        if let Some(output) = output {
            self.command.stdout(duplicate(output)?);
        }
        let child = self.command.env_clear().envs(env::vars()).spawn();
        child.map(|child| Child { child }).map_err(number)
    }
}

/// A started process. Dropping it neither kills it nor reaps it.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
}

impl Child {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        let status = self.child.wait().map_err(number)?;
        Ok(ExitStatus::from_raw(status.into_raw()))
    }
}
