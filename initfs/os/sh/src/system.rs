//! The operations that the shell needs of the system it runs on.

use alloc::string::String;
use alloc::vec::Vec;

use tools::condition::Facts;

use crate::ast::OpenMode;

/// A process id.
pub type Pid = u32;

/// An error number; 2 (ENOENT), 8 (ENOEXEC), 13 (EACCES), 21 (EISDIR) and 32 (EPIPE) have the same
/// meaning on every system here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// No such file.
pub const ENOENT: Errno = Errno(2);
/// The file is not a program.
pub const ENOEXEC: Errno = Errno(8);
/// Not allowed.
pub const EACCES: Errno = Errno(13);
/// It is a directory.
pub const EISDIR: Errno = Errno(21);
/// Nobody reads what is written.
pub const EPIPE: Errno = Errno(32);

/// A result with an error number.
pub type Result<T> = core::result::Result<T, Errno>;

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its status: 0 to 255; 128 + signal if it was killed.
    pub status: i32,
    /// Whether an interrupt killed it (SIGINT). Programs may also exit with the same status.
    pub interrupted: bool,
}

impl Ended {
    /// With the status, and the signal if one killed it.
    pub fn new(status: i32, signal: Option<i32>) -> Self {
        Ended {
            status,
            interrupted: signal == Some(SIGINT as i32),
        }
    }
}

/// The signal of an interrupt from the keyboard.
pub const SIGINT: u32 = 2;

/// A program to start.
pub struct Program<'a, F> {
    /// Its file.
    pub path: &'a str,
    /// Arguments, beginning with the name it is called by.
    pub arguments: &'a [String],
    /// The whole environment.
    pub environment: &'a [(String, String)],
    /// Descriptor numbers it begins with; numbers not listed are closed.
    pub descriptors: &'a [(u8, F)],
}

/// The system below the shell.
pub trait System {
    /// An open file; closed when the last clone is dropped.
    type Fd: Clone;

    /// Returns a descriptor that this process inherited.
    fn inherited(&mut self, number: u8) -> Option<Self::Fd>;
    /// Opens a file; new files may be read and written by all users as far as the system allows.
    fn open(&mut self, path: &str, mode: OpenMode) -> Result<Self::Fd>;
    /// Makes a pipe: the end to read from and the end to write to.
    fn pipe(&mut self) -> Result<(Self::Fd, Self::Fd)>;
    /// Reads the bytes that are there, at least one; 0 at the end.
    fn read(&mut self, fd: &Self::Fd, buffer: &mut [u8]) -> Result<usize>;
    /// Writes everything.
    fn write(&mut self, fd: &Self::Fd, bytes: &[u8]) -> Result<()>;
    /// Whether the descriptor is a terminal.
    fn is_terminal(&self, fd: &Self::Fd) -> bool;
    /// The same terminal as a file that asks for words to be completed, if it can. Reads give
    /// lines, or the text before the cursor and a tab; written text is inserted at the cursor.
    fn completer(&mut self, fd: &Self::Fd) -> Option<Self::Fd>;

    /// Starts a program.
    fn spawn(&mut self, program: &Program<'_, Self::Fd>) -> Result<Pid>;
    /// Replaces this process by the program. It returns only on failure.
    fn replace(&mut self, program: &Program<'_, Self::Fd>) -> Errno;
    /// Tells how a child ended. With `block` it waits for the end; without, it returns `None` while
    /// the child runs.
    fn wait(&mut self, pid: Pid, block: bool) -> Result<Option<Ended>>;
    /// Sends a signal: to a process, to the group whose number is negated, to the own group (0), or
    /// to all processes (-1).
    fn kill(&mut self, target: i64, signal: u32) -> Result<()>;
    /// From now on an interrupt from the keyboard ends these processes; with none, it ends no
    /// process.
    fn foreground(&mut self, pids: &[Pid]);
    /// Whether the keyboard has interrupted while there was no such process. Loops ask between
    /// their rounds; the answer is true once for each interrupt.
    fn interrupted(&mut self) -> bool;
    /// Our own process id.
    fn id(&self) -> Pid;
    /// The process id of the process that started this one.
    fn parent(&self) -> Pid;
    /// Path of the shell's own program, to start another one.
    fn shell(&self) -> String;

    /// The current directory.
    fn current_dir(&self) -> String;
    /// Changes the current directory.
    fn change_dir(&mut self, path: &str) -> Result<()>;
    /// The kind of file at a path.
    fn facts(&self, path: &str) -> Option<Facts>;
    /// The names in a directory, without `.` and `..`.
    fn names(&self, path: &str) -> Result<Vec<String>>;

    /// The time in nanoseconds, by a clock that only goes forward.
    fn now(&self) -> u64;
    /// The text for an error number.
    fn describe(&self, error: Errno) -> String;
}
