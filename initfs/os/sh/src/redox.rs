//! The shell's system inside the image, over `runtime`.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use libredox::Fd;
use runtime::io::{Read as _, Write as _};
use runtime::process::{self, Command, Stdio};
use runtime::{env, fs};
use sh::ast::OpenMode;
use sh::system::{Ended, Errno, Pid, Program, Result, System};
use syscall::error::{ECONNRESET, EINTR, Error};
use tools::condition::Facts;

/// An open file of the script. Descriptors that this process inherited stay open to its end.
pub enum Open {
    /// Opened here, closed when it is dropped.
    Own(Fd),
    /// Number 0 to 9, inherited.
    Inherited(usize),
}

impl Open {
    fn raw(&self) -> usize {
        match self {
            Open::Own(fd) => fd.raw(),
            Open::Inherited(number) => *number,
        }
    }
}

/// The running image.
pub struct Redox {
    /// The console's handle that takes the processes to end on an interrupt from the keyboard.
    console: Option<Fd>,
    /// When it was last asked for an interrupt, in nanoseconds.
    asked: u64,
}

/// Time between two questions for an interrupt, in nanoseconds: each is a request to the console.
const ASK_INTERVAL: u64 = 100_000_000;

fn errno(error: Error) -> Errno {
    Errno(error.errno)
}

impl Redox {
    /// Finds out whether the console belongs to this shell. Standard input shows it, or standard
    /// error for a shell that runs a part of another one's script (`inside`), whose input may be a
    /// pipe.
    pub fn new(inside: bool) -> Self {
        let control = |number| libredox::call::dup(number, b"pgrp").ok().map(Fd::new);
        let candidates: &[usize] = if inside { &[0, 2] } else { &[0] };
        let found = candidates
            .iter()
            .copied()
            .find(|number| is_console(*number));
        let console = found.and_then(control);
        Redox { console, asked: 0 }
    }
}

/// Whether the descriptor leads to the console, by its path.
fn is_console(number: usize) -> bool {
    let mut path = [0; 64];
    match libredox::call::fpath(number, &mut path) {
        Ok(length) => {
            let path = &path[..length.min(path.len())];
            path.starts_with(b"/scheme/console") || path.starts_with(b"console:")
        }
        Err(_) => false,
    }
}

fn command(program: &Program<'_, Rc<Open>>) -> Command {
    let mut command = Command::new(program.path);
    command.args(program.arguments.iter().skip(1));
    command.env_clear();
    for (name, value) in program.environment {
        command.env(name, value);
    }
    command
        .stdin(Stdio::Closed)
        .stdout(Stdio::Closed)
        .stderr(Stdio::Closed);
    for (number, fd) in program.descriptors {
        match number {
            0 => command.stdin(fd.raw()),
            1 => command.stdout(fd.raw()),
            2 => command.stderr(fd.raw()),
            number => command.fd(usize::from(*number), fd.raw()),
        };
    }
    command
}

impl System for Redox {
    type Fd = Rc<Open>;

    fn inherited(&mut self, number: u8) -> Option<Self::Fd> {
        let number = usize::from(number);
        // Asking for the descriptor's flags fails only when it is not open.
        libredox::call::fcntl(number, syscall::F_GETFD, 0).ok()?;
        Some(Rc::new(Open::Inherited(number)))
    }

    fn open(&mut self, path: &str, mode: OpenMode) -> Result<Self::Fd> {
        let mut options = fs::File::options();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.write(true).create(true).truncate(true),
            OpenMode::Append => options.append(true).create(true),
            OpenMode::ReadWrite => options.read(true).write(true).create(true),
        };
        let file = options.mode(0o644).open(path).map_err(errno)?;
        Ok(Rc::new(Open::Own(Fd::new(file.into_raw_fd()))))
    }

    fn pipe(&mut self) -> Result<(Self::Fd, Self::Fd)> {
        let open = || {
            let reader = Fd::open("/scheme/pipe", libredox::flag::O_CLOEXEC, 0)?;
            let writer = Fd::new(libredox::call::dup(reader.raw(), b"write")?);
            Ok::<_, libredox::error::Error>((reader, writer))
        };
        let (reader, writer) = open().map_err(|error| Errno(error.errno()))?;
        Ok((Rc::new(Open::Own(reader)), Rc::new(Open::Own(writer))))
    }

    fn read(&mut self, fd: &Self::Fd, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match raw_file(fd.raw(), |file| file.read(buffer)) {
                Err(Error { errno: EINTR }) => {}
                // A SCIF connection has no other way to say that the peer closed it after its
                // last byte; the programs take it as the end, too.
                Err(Error { errno: ECONNRESET }) => return Ok(0),
                result => return result.map_err(errno),
            }
        }
    }

    fn write(&mut self, fd: &Self::Fd, bytes: &[u8]) -> Result<()> {
        raw_file(fd.raw(), |file| file.write_all(bytes)).map_err(errno)
    }

    fn is_terminal(&self, fd: &Self::Fd) -> bool {
        is_console(fd.raw())
    }

    fn completer(&mut self, fd: &Self::Fd) -> Option<Self::Fd> {
        let completer = libredox::call::dup(fd.raw(), b"complete").ok()?;
        Some(Rc::new(Open::Own(Fd::new(completer))))
    }

    fn spawn(&mut self, program: &Program<'_, Self::Fd>) -> Result<Pid> {
        let mut command = command(program);
        command.spawn().map(|child| child.pid()).map_err(errno)
    }

    fn replace(&mut self, program: &Program<'_, Self::Fd>) -> Errno {
        errno(command(program).exec())
    }

    fn wait(&mut self, pid: Pid, block: bool) -> Result<Option<Ended>> {
        let ended = process::wait_pid(pid, !block).map_err(errno)?;
        Ok(ended.map(|(_, status)| Ended::new(status.shell_code(), status.signal())))
    }

    fn kill(&mut self, target: i64, signal: u32) -> Result<()> {
        tools::signal::send(target, signal).map_err(errno)
    }

    fn foreground(&mut self, pids: &[Pid]) {
        let Some(console) = &self.console else { return };
        let bytes: Vec<u8> = pids
            .iter()
            .flat_map(|pid| (*pid as usize).to_ne_bytes())
            .collect();
        // Without this write an interrupt has no effect, which is no reason to fail.
        let _ = console.write(&bytes);
    }

    fn interrupted(&mut self) -> bool {
        let Some(console) = &self.console else {
            return false;
        };
        let now = runtime::time::Instant::now().as_nanos();
        if now.saturating_sub(self.asked) < ASK_INTERVAL {
            return false;
        }
        self.asked = now;
        console.read(&mut [0]).is_ok_and(|count| count > 0)
    }

    fn id(&self) -> Pid {
        process::id()
    }

    fn parent(&self) -> Pid {
        process::own_meta().ppid
    }

    fn shell(&self) -> String {
        "/scheme/initfs/bin/sh".into()
    }

    fn current_dir(&self) -> String {
        env::current_dir()
    }

    fn change_dir(&mut self, path: &str) -> Result<()> {
        env::set_current_dir(path).map_err(errno)
    }

    fn facts(&self, path: &str) -> Option<Facts> {
        Facts::of(path)
    }

    fn names(&self, path: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(errno)? {
            let entry = entry.map_err(errno)?;
            if !matches!(entry.file_name(), "." | "..") {
                names.push(entry.file_name().to_string());
            }
        }
        Ok(names)
    }

    fn now(&self) -> u64 {
        runtime::time::Instant::now().as_nanos()
    }

    fn describe(&self, error: Errno) -> String {
        Error::new(error.0).to_string()
    }
}

/// Uses a descriptor number as a file without closing it.
fn raw_file<T>(
    number: usize,
    run: impl FnOnce(&mut fs::File) -> runtime::Result<T>,
) -> runtime::Result<T> {
    let mut file = fs::File::from_raw_fd(number);
    let result = run(&mut file);
    file.into_raw_fd();
    result
}
