//! Processes, after `std::process`: starts programs, waits for them, ends them.
//!
//! A process is an object of the scheme `proc`, served by the process manager.

mod exec;
mod fork;
mod ids;
mod record;
mod script;
mod search;
mod stdio;

use alloc::string::String;
use alloc::vec::Vec;

use libredox::Fd;
use libredox::protocol::ProcCall;
use syscall::error::{EAGAIN, ECHILD, EINTR, ENOENT, ENOEXEC, ENOSYS, ESRCH, Error, Result};
use syscall::flag::CallFlags;

pub use self::fork::{Fork, fork};
pub use self::ids::{set_effective_ids, set_ids, set_own_ids};
pub use self::record::{meta, own_meta};
use self::search::{directory_is_no_program, find_program};
pub use self::stdio::Stdio;
pub use crate::exit_status::ExitStatus;

use crate::elf::{self, Program};
use crate::spawn::{self, Launch, ProgramFile};
use crate::{env, fd, first, fs, path, power, signals, state, sys};

/// Ends the process with the low 8 bits of `status`.
pub fn exit(status: i32) -> ! {
    leave(status);
    if first::is_first() {
        power::halt("the first program failed");
    }
    // Below the process manager the thread handle is the kernel's own: kill through it.
    loop {
        let killed = fd::write(state::thread_fd(), &usize::MAX.to_ne_bytes());
        if killed.is_err_and(|error| error.errno == ENOSYS) {
            // Another system's kernel, which has none of these calls: configure scripts start on
            // the development machine what they have just compiled.
            sys::trap();
        }
        sys::yield_now();
    }
}

/// Asks the process manager to end this process. Returns only if there is no process manager.
fn leave(status: i32) {
    let request = [ProcCall::Exit as u64, (status & 0xFF) as u64];
    loop {
        match fd::call(state::proc_fd(), &request) {
            Ok(_) => sys::yield_now(),
            Err(error) if matches!(error.errno, EINTR | EAGAIN) => sys::yield_now(),
            Err(_) => return,
        }
    }
}

/// This process's id, 0 below the process manager.
pub fn id() -> u32 {
    if state::pid() == 0
        && state::proc_fd() != sys::NO_FD
        && let Ok(meta) = meta(state::proc_fd())
    {
        state::set_pid(meta.pid as usize);
    }
    state::pid() as u32
}

/// Describes a process to start.
#[derive(Debug)]
pub struct Command {
    program: String,
    /// The name that the program gets as argument 0; `None` means the name it was requested by.
    name: Option<Vec<u8>>,
    args: Vec<Vec<u8>>,
    /// Entries `NAME=value`.
    env: Vec<Vec<u8>>,
    streams: [Stdio; 3],
    fds: Vec<(usize, usize)>,
    cwd: Option<String>,
    uid: Option<u32>,
    gid: Option<u32>,
    namespace: Option<usize>,
    /// The call that takes the process out of our group, if any.
    leaves: Option<[u64; 3]>,
    /// Signals that have their usual effect. Signal n is bit n - 1.
    usual_signals: u64,
    /// The directories to look in for the program instead of those of `PATH`.
    search: Option<String>,
}

impl Command {
    /// `program` is a path if it contains a slash; otherwise it is looked up in `PATH`.
    /// Environment, directory and streams are those of this process unless changed; no other
    /// descriptor is passed on.
    pub fn new(program: &str) -> Command {
        let mut command = Command {
            program: program.into(),
            name: None,
            args: Vec::new(),
            env: Vec::new(),
            streams: [Stdio::Inherit; 3],
            fds: Vec::new(),
            cwd: None,
            uid: None,
            gid: None,
            namespace: None,
            leaves: None,
            usual_signals: 0,
            search: None,
        };
        for (name, value) in env::vars() {
            command.env.push(entry(&name, &value));
        }
        command
    }

    /// Sets the arguments, beginning with argument 0, and the variables (`NAME=value`), which may
    /// have any bytes but zeros.
    pub fn words(&mut self, arguments: Vec<Vec<u8>>, variables: Vec<Vec<u8>>) -> &mut Self {
        let mut arguments = arguments.into_iter();
        self.name = arguments.next();
        self.args = arguments.collect();
        self.env = variables;
        self
    }

    /// Looks for the program in these directories, which are written as in `PATH`, and no others.
    /// The interpreter of a script is then also looked for in `PATH`.
    pub fn search_path(&mut self, directories: &str) -> &mut Self {
        self.search = Some(directories.into());
        self
    }

    /// Sets the program's argument 0, its own name. A script gets its path instead.
    pub fn arg0(&mut self, name: impl AsRef<str>) -> &mut Self {
        self.name = Some(name.as_ref().as_bytes().into());
        self
    }

    /// Adds an argument.
    pub fn arg(&mut self, arg: impl AsRef<str>) -> &mut Self {
        self.args.push(arg.as_ref().as_bytes().into());
        self
    }

    /// Adds arguments.
    pub fn args(&mut self, args: impl IntoIterator<Item = impl AsRef<str>>) -> &mut Self {
        for arg in args {
            self.arg(arg);
        }
        self
    }

    /// Sets a variable.
    pub fn env(&mut self, name: impl AsRef<str>, value: impl AsRef<str>) -> &mut Self {
        self.env_remove(name.as_ref());
        self.env.push(entry(name.as_ref(), value.as_ref()));
        self
    }

    /// Removes a variable.
    pub fn env_remove(&mut self, name: &str) -> &mut Self {
        let is_it = |entry: &Vec<u8>| {
            let rest = entry.strip_prefix(name.as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"="))
        };
        self.env.retain(|entry| !is_it(entry));
        self
    }

    /// Removes all variables.
    pub fn env_clear(&mut self) -> &mut Self {
        self.env.clear();
        self
    }

    /// Sets standard input: a descriptor number, a file or a [`Stdio`].
    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[0] = stream.into();
        self
    }

    /// Sets standard output.
    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[1] = stream.into();
        self
    }

    /// Sets standard error.
    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[2] = stream.into();
        self
    }

    /// Passes the descriptor `fd` of this process as number `number` of the new one.
    pub fn fd(&mut self, number: usize, fd: usize) -> &mut Self {
        self.fds.push((number, fd));
        self
    }

    /// Sets the current directory.
    pub fn current_dir(&mut self, path: &str) -> &mut Self {
        self.cwd = Some(path.into());
        self
    }

    /// Runs as this user (only root may change it).
    pub fn uid(&mut self, uid: u32) -> &mut Self {
        self.uid = Some(uid);
        self
    }

    /// Runs with this group (only root may change it).
    pub fn gid(&mut self, gid: u32) -> &mut Self {
        self.gid = Some(gid);
        self
    }

    /// Runs in the namespace behind this descriptor instead of ours.
    pub fn namespace(&mut self, fd: usize) -> &mut Self {
        self.namespace = Some(fd);
        self
    }

    /// Runs as the leader of a new process group of our session.
    pub fn own_group(&mut self) -> &mut Self {
        self.group(0)
    }

    /// Runs in a process group of our session; 0: in a new one, as its leader.
    pub fn group(&mut self, group: u32) -> &mut Self {
        // The first zero stands for the process itself.
        self.leaves = Some([ProcCall::Setpgid as u64, 0, group.into()]);
        self
    }

    /// Runs as the leader of a new session, and of its first process group.
    pub fn own_session(&mut self) -> &mut Self {
        self.leaves = Some([ProcCall::Setsid as u64, 0, 0]);
        self
    }

    /// Lets these signals have their usual effect on the program, also those that this process
    /// ignores. Signal n is bit n - 1.
    pub fn usual_signals(&mut self, signals: u64) -> &mut Self {
        self.usual_signals = signals;
        self
    }

    /// Finds the program, or the one that the first line of a script names, and reads its headers.
    fn open_program(&self) -> Result<Found> {
        let usual = env::var("PATH").unwrap_or_else(|| "/scheme/initfs/bin".into());
        let search = self.search.as_ref().unwrap_or(&usual);
        let (path, mut file) = find_program(&self.program, search)?;
        let script = match elf::read(&mut file).map_err(directory_is_no_program) {
            Err(Error { errno: ENOEXEC }) => path,
            program => {
                return program.map(|program| Found {
                    path,
                    file,
                    program,
                    before: Vec::new(),
                });
            }
        };
        let mut start = [0; script::MAX_LINE];
        let count = file.start(&mut start)?;
        let (interpreter, option) =
            script::interpreter(&start[..count]).ok_or(Error::new(ENOEXEC))?;
        // Directories of other systems' interpreters do not exist here, but programs of that name
        // may.
        let name = interpreter.rsplit('/').next().unwrap_or_default();
        let found = find_program(interpreter, search)
            .or_else(|error| match error.errno {
                ENOENT => find_program(name, search),
                _ => Err(error),
            })
            .or_else(|error| match error.errno {
                ENOENT => find_program(name, &usual),
                _ => Err(error),
            });
        let (path, mut file) = found?;
        let program = elf::read(&mut file).map_err(directory_is_no_program)?;
        let mut before = alloc::vec![String::from(interpreter)];
        before.extend(option.map(String::from));
        before.push(script);
        Ok(Found {
            path,
            file,
            program,
            before,
        })
    }

    /// Returns the arguments of the program, its name first. `before` holds those for a script's
    /// interpreter.
    fn arguments<'a>(&'a self, before: &'a [String]) -> Vec<&'a [u8]> {
        let mut arguments: Vec<_> = before.iter().map(|word| word.as_bytes()).collect();
        if arguments.is_empty() {
            arguments.push(self.name.as_deref().unwrap_or(self.program.as_bytes()));
        }
        arguments.extend(self.args.iter().map(Vec::as_slice));
        arguments
    }

    /// Starts the process. ENOENT: the program, or the one that a script's first line names, does
    /// not exist. ENOEXEC: the file is neither a static x86-64 ELF program nor a script for one
    /// (`#!` and its path). EACCES: it is a directory, or may not be run.
    pub fn spawn(&mut self) -> Result<Child> {
        self.spawn_with(|_| Ok(())).map(|(child, ())| child)
    }

    /// As [`spawn`](Self::spawn), and also returns a descriptor of the program's address space.
    /// While that is open, the program's memory stays, even after the program has ended.
    pub fn spawn_keeping_memory(&mut self) -> Result<(Child, Fd)> {
        self.spawn_with(|thread| Ok(Fd::new(fd::dup_upper(thread, b"addrspace")?)))
    }

    /// Runs `look` on the thread before it starts.
    fn spawn_with<T>(&mut self, look: impl FnOnce(usize) -> Result<T>) -> Result<(Child, T)> {
        let own = fd::check(state::proc_fd())?;
        // Checked before anything is made: a context that was never started causes messages when
        // it ends.
        let mut found = self.open_program()?;
        let cwd = match &self.cwd {
            Some(cwd) => path::canonical(cwd)?,
            None => state::current_dir(),
        };

        let process = Fd::new(fd::dup_upper(own, b"fork")?);
        let pid = meta(process.raw())?.pid;
        let child = Child { pid, status: None };
        let thread = self.prepare(process.raw(), &mut found, &cwd);
        let started = thread.and_then(|thread| {
            let seen = look(thread.raw())?;
            spawn::start(thread.raw()).map(|()| seen)
        });
        match started {
            Ok(seen) => Ok((child, seen)),
            Err(error) => {
                // The half-made process must not stay behind.
                let mut child = child;
                if child.kill().is_ok() {
                    let _ = child.wait();
                }
                Err(error)
            }
        }
    }

    /// Prepares the process. Returns its first thread, which has not started.
    fn prepare(&self, process: usize, found: &mut Found, cwd: &str) -> Result<Fd> {
        let thread = Fd::new(fd::dup_upper(process, b"thread-0")?);
        let mut fds = Vec::new();
        for (number, stream) in self.streams.iter().enumerate() {
            match stream {
                Stdio::Inherit => fds.push((number, number)),
                Stdio::Fd(fd) => fds.push((number, *fd)),
                Stdio::Closed => {}
            }
        }
        // A stream that this process does not have itself cannot be inherited.
        fds.retain(|&(number, fd)| {
            !matches!(self.streams[number], Stdio::Inherit)
                || fd::fcntl(fd, syscall::F_GETFD, 0).is_ok()
        });
        fds.extend(&self.fds);

        let launch = Launch {
            program: &found.path,
            args: self.arguments(&found.before),
            env: self.env.iter().map(Vec::as_slice).collect(),
            cwd,
            fds,
            process: Some(process),
            namespace: Some(self.namespace.unwrap_or(state::namespace_fd())),
        };
        spawn::load(thread.raw(), &found.program, &mut found.file, &launch)?;
        rename(process, &found.path)?;
        if self.uid.is_some() || self.gid.is_some() {
            set_ids(process, self.uid, self.gid)?;
        }
        if let Some(call) = self.leaves {
            fd::call(process, &call)?;
        }
        if self.usual_signals != 0 {
            signals::stop_ignoring(process, self.usual_signals)?;
        }
        Ok(thread)
    }
}

/// An entry of the environment.
fn entry(name: &str, value: &str) -> Vec<u8> {
    alloc::format!("{name}={value}").into_bytes()
}

/// A program that was found, and its headers.
struct Found {
    /// The absolute path of its file.
    path: String,
    file: ProgramFile,
    program: Program,
    /// Arguments for a script's interpreter: its name, its option and the script.
    before: Vec<String>,
}

/// Sets the name under which a process is listed: the last part of `path`, at most 32 bytes.
pub fn rename(process: usize, path: &str) -> Result<()> {
    let name = path.rsplit('/').next().unwrap_or(path).as_bytes();
    let mut payload = [0; 32];
    let length = name.len().min(payload.len());
    payload[..length].copy_from_slice(&name[..length]);
    fd::call_rw(process, &mut payload, &[ProcCall::Rename as u64]).map(|_| ())
}

/// Sets the name under which this process is listed.
pub fn rename_own(name: &str) -> Result<()> {
    rename(fd::check(state::proc_fd())?, name)
}

/// Sends a signal to all processes of a group.
pub fn kill_group(group: u32, signal: u32) -> Result<()> {
    let target = -i64::from(group);
    let words = [ProcCall::Kill as u64, target as u64, u64::from(signal)];
    fd::call(state::proc_fd(), &words).map(|_| ())
}

/// A started process. Dropping it neither kills it nor reaps it.
#[derive(Debug)]
pub struct Child {
    pid: u32,
    status: Option<ExitStatus>,
}

impl Child {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The process id, as `std` calls it.
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Waits until the process has ended, and keeps its status for later calls.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        match wait_pid(self.pid, false)? {
            Some((_, status)) => {
                self.status = Some(status);
                Ok(status)
            }
            None => Err(Error::new(ECHILD)),
        }
    }

    /// Returns the status if the process has ended; does not wait.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = wait_pid(self.pid, true)?.map(|(_, status)| status);
        }
        Ok(self.status)
    }

    /// Kills the process (signal 9).
    pub fn kill(&mut self) -> Result<()> {
        match self.status {
            Some(_) => Ok(()),
            None => kill(self.pid, 9),
        }
    }
}

/// Sends a signal to a process; 0 only checks that the process is there. A signal ends a process
/// that neither catches nor ignores it ([`signals`](crate::signals)).
pub fn kill(pid: u32, signal: u32) -> Result<()> {
    fd::call(
        state::proc_fd(),
        &[ProcCall::Kill as u64, u64::from(pid), u64::from(signal)],
    )
    .map(|_| ())
}

/// Whether a process has ended, even if its parent has not collected its status yet: until then
/// signals can still be sent to it.
pub fn has_ended(pid: u32) -> bool {
    match kill(pid, 0) {
        Err(Error { errno: ESRCH }) => true,
        _ => fs::read_to_string("/scheme/proc/ps").is_ok_and(|list| is_dead_in(&list, pid)),
    }
}

/// Whether the manager's list, whose first line names the columns, says that a process has ended.
fn is_dead_in(list: &str, pid: u32) -> bool {
    let mut lines = list.lines();
    let names = lines.next().unwrap_or_default();
    let Some(column) = names.split_whitespace().position(|name| name == "status") else {
        return false;
    };
    let mut columns = lines.map(str::split_whitespace);
    columns.any(|mut line| {
        let is_it = line.next().and_then(|number| number.parse().ok()) == Some(pid);
        is_it && column.checked_sub(1).and_then(|rest| line.nth(rest)) == Some("dead")
    })
}

/// Waits for the child `pid`, or for any child if it is 0. Returns `None` if `poll` is set and no
/// such child has ended yet. ECHILD: there is no such child.
pub fn wait_pid(pid: u32, poll: bool) -> Result<Option<(u32, ExitStatus)>> {
    loop {
        match wait_pid_once(pid, poll) {
            Err(Error { errno: EINTR }) => {}
            result => return result,
        }
    }
}

/// As [`wait_pid`], and is not restarted when interrupted (EINTR).
pub fn wait_pid_once(pid: u32, poll: bool) -> Result<Option<(u32, ExitStatus)>> {
    wait_once(ProcCall::Waitpid, pid, poll)
}

/// As [`wait_pid_once`], for any child in this process group; 0 is the own group.
pub fn wait_group_once(group: u32, poll: bool) -> Result<Option<(u32, ExitStatus)>> {
    wait_once(ProcCall::Waitpgid, group, poll)
}

fn wait_once(call: ProcCall, target: u32, poll: bool) -> Result<Option<(u32, ExitStatus)>> {
    let process = fd::check(state::proc_fd()).map_err(|_| Error::new(ECHILD))?;
    let metadata = [call as u64, u64::from(target), u64::from(poll)];
    let mut status = [0_usize];
    // SAFETY: the payload is one live word of our own.
    let result = unsafe {
        fd::call_raw(
            process,
            status.as_mut_ptr().cast(),
            size_of::<usize>(),
            CallFlags::READ,
            &metadata,
        )
    };
    Ok(match result? {
        0 => None,
        pid => Some((pid as u32, ExitStatus::from_raw(status[0] as i32))),
    })
}

/// Waits for any child.
pub fn wait_any(poll: bool) -> Result<Option<(u32, ExitStatus)>> {
    wait_pid(0, poll)
}
