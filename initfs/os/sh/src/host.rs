//! The shell's system on the development machine, over std. It is only for tests: operations that
//! std cannot do without unsafe code (descriptors above 2 in children) are missing.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use sh::ast::OpenMode;
use sh::system::{Ended, Errno, Pid, Program, Result, System};
use tools::condition::{Facts, Kind, rights};

/// The development machine.
pub struct Host {
    children: HashMap<Pid, Child>,
    start: Instant,
}

impl Default for Host {
    fn default() -> Self {
        Host {
            children: HashMap::new(),
            start: Instant::now(),
        }
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(5))
}

/// Translates the image's path of an empty file to that of this machine.
fn translate(path: &str) -> &str {
    if path == sh::parser::NULL_PATH {
        "/dev/null"
    } else {
        path
    }
}

fn command(program: &Program<'_, Rc<File>>) -> Command {
    let mut command = Command::new(program.path);
    command.args(program.arguments.iter().skip(1));
    command.env_clear().envs(
        program
            .environment
            .iter()
            .map(|(name, value)| (name, value)),
    );
    let stream = |number: u8| {
        let file = program
            .descriptors
            .iter()
            .find(|(known, _)| *known == number);
        match file.map(|(_, file)| file.try_clone()) {
            Some(Ok(file)) => Stdio::from(file),
            _ => Stdio::null(),
        }
    };
    command.stdin(stream(0)).stdout(stream(1)).stderr(stream(2));
    command
}

impl System for Host {
    type Fd = Rc<File>;

    fn inherited(&mut self, number: u8) -> Option<Self::Fd> {
        let owned: io::Result<OwnedFd> = match number {
            0 => io::stdin().as_fd().try_clone_to_owned(),
            1 => io::stdout().as_fd().try_clone_to_owned(),
            2 => io::stderr().as_fd().try_clone_to_owned(),
            _ => return None,
        };
        owned.ok().map(|fd| Rc::new(File::from(fd)))
    }

    fn open(&mut self, path: &str, mode: OpenMode) -> Result<Self::Fd> {
        let mut options = OpenOptions::new();
        match mode {
            OpenMode::Read => options.read(true),
            OpenMode::Write => options.write(true).create(true).truncate(true),
            OpenMode::Append => options.append(true).create(true),
            OpenMode::ReadWrite => options.read(true).write(true).create(true).truncate(false),
        };
        options
            .open(translate(path))
            .map(Rc::new)
            .map_err(|error| errno(&error))
    }

    fn pipe(&mut self) -> Result<(Self::Fd, Self::Fd)> {
        let (reader, writer) = io::pipe().map_err(|error| errno(&error))?;
        let file = |fd: OwnedFd| Rc::new(File::from(fd));
        Ok((file(reader.into()), file(writer.into())))
    }

    fn read(&mut self, fd: &Self::Fd, buffer: &mut [u8]) -> Result<usize> {
        (&**fd).read(buffer).map_err(|error| errno(&error))
    }

    fn write(&mut self, fd: &Self::Fd, bytes: &[u8]) -> Result<()> {
        (&**fd).write_all(bytes).map_err(|error| errno(&error))
    }

    fn is_terminal(&self, fd: &Self::Fd) -> bool {
        fd.is_terminal()
    }

    fn completer(&mut self, _: &Self::Fd) -> Option<Self::Fd> {
        None
    }

    fn spawn(&mut self, program: &Program<'_, Self::Fd>) -> Result<Pid> {
        let mut command = command(program);
        let child = command.spawn().map_err(|error| errno(&error))?;
        let pid = child.id();
        self.children.insert(pid, child);
        Ok(pid)
    }

    fn replace(&mut self, program: &Program<'_, Self::Fd>) -> Errno {
        errno(&command(program).exec())
    }

    fn wait(&mut self, pid: Pid, block: bool) -> Result<Option<Ended>> {
        let child = self.children.get_mut(&pid).ok_or(Errno(10))?;
        let status = if block {
            child.wait().map(Some)
        } else {
            child.try_wait()
        };
        let Some(status) = status.map_err(|error| errno(&error))? else {
            return Ok(None);
        };
        self.children.remove(&pid);
        let code = status.code();
        let code = code.unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        Ok(Some(Ended::new(code, status.signal())))
    }

    fn kill(&mut self, target: i64, signal: u32) -> Result<()> {
        // The system shell's own `kill`: a bare machine has no program of that name.
        let command = format!("kill -s {signal} -- {target}");
        match Command::new("/bin/sh")
            .args(["-c", &command])
            .stderr(Stdio::null())
            .status()
        {
            Ok(status) if status.success() => Ok(()),
            _ => Err(Errno(3)),
        }
    }

    fn foreground(&mut self, _: &[Pid]) {}

    fn interrupted(&mut self) -> bool {
        false
    }

    fn id(&self) -> Pid {
        std::process::id()
    }

    fn parent(&self) -> Pid {
        std::os::unix::process::parent_id()
    }

    fn shell(&self) -> String {
        std::env::current_exe()
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }

    fn current_dir(&self) -> String {
        std::env::current_dir()
            .map(|path| path.display().to_string())
            .unwrap_or_default()
    }

    fn change_dir(&mut self, path: &str) -> Result<()> {
        std::env::set_current_dir(path).map_err(|error| errno(&error))
    }

    fn facts(&self, path: &str) -> Option<Facts> {
        let data = std::fs::metadata(translate(path)).ok()?;
        // The directory of this process belongs to its user.
        let own = std::fs::metadata("/proc/self").ok()?;
        let kind = match data.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_fifo() => Kind::Pipe,
            _ => Kind::Other,
        };
        let modified =
            data.mtime().unsigned_abs() * 1_000_000_000 + data.mtime_nsec().unsigned_abs();
        Some(Facts {
            kind,
            size: data.len(),
            rights: rights(
                data.mode(),
                data.is_dir(),
                (data.uid(), data.gid()),
                (own.uid(), own.gid()),
            ),
            modified,
        })
    }

    fn names(&self, path: &str) -> Result<Vec<String>> {
        let entries = std::fs::read_dir(path).map_err(|error| errno(&error))?;
        Ok(entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into())
            .collect())
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn describe(&self, error: Errno) -> String {
        let text = io::Error::from_raw_os_error(error.0).to_string();
        text.split(" (os error").next().unwrap_or(&text).into()
    }
}
