//! Replaces the program of this process with another one.
//!
//! The new program is loaded into a new address space while this one still runs. Then the other
//! threads end, the descriptors are arranged, and closing the handle that selects the address space
//! switches to it: process id, parent, credentials and namespace stay. The handle is opened only
//! when nothing can fail any more, as an error would close it, too.

use alloc::vec::Vec;

use libredox::Fd;
use syscall::error::{EIO, Error, Result};

use super::ids::set_ids;
use super::{Command, Stdio, fork, rename};
use crate::spawn::{self, Launch};
use crate::state::{self, aux};
use crate::{fd, fdtable, path, thread};

/// The call of the process manager that kills all threads of a process but the one behind the
/// descriptor, and returns how many have not ended yet.
const END_OTHERS: u64 = 0;

/// Ends all threads of this process but the calling one, to which the descriptor belongs.
///
/// # Errors
/// Those of the process manager.
fn end_others(thread: usize) -> Result<()> {
    // As for a fork: none of them ends in the middle of a change to the runtime's data.
    let _held = fork::hold();
    while fd::call_rw(thread, &mut [], &[END_OTHERS])? > 0 {
        thread::yield_now();
    }
    Ok(())
}

impl Command {
    /// Replaces this process's program; to be called by the first thread. Returns only if that is
    /// impossible, with the reason and nothing changed (EIO: a step failed after which there was no
    /// way back, and other threads and standard streams may be gone). Descriptors that were not
    /// requested are closed, and the process's other threads end. The namespace setting of the
    /// command has no effect.
    pub fn exec(&mut self) -> Error {
        self.exec_in(state::thread_fd())
    }

    /// As [`exec`](Self::exec), for any thread. `thread`: the descriptor of the calling one, which
    /// becomes the only thread of the new program.
    pub fn exec_in(&mut self, thread: usize) -> Error {
        match self.replace(thread) {
            Ok(()) => Error::new(EIO),
            Err(error) => error,
        }
    }

    fn replace(&self, thread: usize) -> Result<()> {
        let thread = fd::check(thread)?;
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
        let launch = Launch {
            program: &found.path,
            args: self.arguments(&found.before),
            env: self.env.iter().map(Vec::as_slice).collect(),
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
        if self.uid.is_some() || self.gid.is_some() {
            set_ids(fd::check(state::proc_fd())?, self.uid, self.gid)?;
        }
        if !thread::is_alone() {
            end_others(thread)?;
            // Their numbers stay in use: some of them have descriptors, which are closed below.
            fdtable::forget_under_way();
        }

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
