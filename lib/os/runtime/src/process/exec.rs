//! Replaces the program of this process with another one.
//!
//! The new program is loaded into a new address space while this one still runs. Then the
//! descriptors are arranged, and closing the handle that selects the address space switches to it:
//! process id, parent, credentials and namespace stay. The handle is opened only when nothing can
//! fail any more, as an error would close it, too.

use alloc::vec::Vec;

use libredox::Fd;
use syscall::error::{EIO, Error, Result};

use super::{Command, Stdio, rename};
use crate::spawn::{self, Launch};
use crate::state::{self, aux};
use crate::{fd, fdtable, path};

impl Command {
    /// Replaces this process's program. Returns only if that is impossible, with the reason and
    /// nothing changed (EIO: a step failed after which there was no way back, and standard streams
    /// may be gone). Descriptors that were not requested are closed. Must not be called while the
    /// process has more than one thread. User, group and namespace settings of the command have no
    /// effect.
    pub fn exec(&mut self) -> Error {
        match self.replace() {
            Ok(()) => Error::new(EIO),
            Err(error) => error,
        }
    }

    fn replace(&self) -> Result<()> {
        let thread = fd::check(state::thread_fd())?;
        let mut found = self.open_program()?;
        let cwd = match &self.cwd {
            Some(cwd) => path::canonical(cwd)?,
            None => state::current_dir(),
        };
        let own = [
            (aux::PROC_FD, state::proc_fd()),
            (aux::THREAD_FD, thread),
            (aux::NAMESPACE_FD, state::namespace_fd()),
            (aux::FILETABLE_FD, state::filetable_fd()),
        ];
        let env: Vec<alloc::string::String> = self
            .env
            .iter()
            .map(|(name, value)| alloc::format!("{name}={value}"))
            .collect();
        let launch = Launch {
            program: &found.path,
            args: self.arguments(&found.before),
            env: env.iter().map(|entry| entry.as_bytes()).collect(),
            cwd: &cwd,
            ..Launch::default()
        };
        let mut auxiliary = spawn::elf_auxiliary(&found.program);
        auxiliary.extend(own);

        let space = spawn::empty_space(thread)?;
        spawn::load_segments(space.raw(), &found.program, &mut found.file)?;
        let stack = spawn::load_stack(space.raw(), &launch, &auxiliary)?;
        let entry = found.program.entry;

        // Copies of the streams first: their numbers may overlap with the target numbers.
        let mut streams: Vec<(usize, Fd)> = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            let source = match stream {
                Stdio::Inherit if fd::fcntl(number, syscall::F_GETFD, 0).is_ok() => number,
                Stdio::Fd(source) => *source,
                _ => continue,
            };
            streams.push((number, Fd::new(fd::dup_upper(source, b"")?)));
        }
        for (number, source) in &self.fds {
            streams.push((*number, Fd::new(fd::dup_upper(*source, b"")?)));
        }
        // The name is only for display; if the process manager refuses it, the exec continues.
        let _ = rename(state::proc_fd(), &found.path);
        drop(found);

        for (number, source) in &streams {
            fd::dup2(source.raw(), *number, b"").map_err(|_| Error::new(EIO))?;
        }
        let numbers: Vec<usize> = streams.iter().map(|(number, _)| *number).collect();
        drop(streams);
        let selection = spawn::select_space(thread, space.raw(), stack, entry);
        let selection = selection.map_err(|_| Error::new(EIO))?;
        drop(space);
        for number in fdtable::used() {
            let kept = number == selection.raw()
                || numbers.contains(&number)
                || own.iter().any(|(_, fd)| *fd == number);
            if !kept {
                // Some numbers are reserved without being open.
                let _ = fd::close(number);
            }
        }
        // The next instruction after this is the new program's first one.
        selection.close()?;
        Ok(())
    }
}
