//! The few things the shell asks of the system it runs on.

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

/// A result with an error number.
pub type Result<T> = core::result::Result<T, Errno>;

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

    /// A descriptor this process was started with.
    fn inherited(&mut self, number: u8) -> Option<Self::Fd>;
    /// Opens a file; new files may be read and written by all users as far as the system allows.
    fn open(&mut self, path: &str, mode: OpenMode) -> Result<Self::Fd>;
    /// A new pipe: the end to read and the end to write.
    fn pipe(&mut self) -> Result<(Self::Fd, Self::Fd)>;
    /// Reads what is there, at least one byte; 0 at the end.
    fn read(&mut self, fd: &Self::Fd, buffer: &mut [u8]) -> Result<usize>;
    /// Writes everything.
    fn write(&mut self, fd: &Self::Fd, bytes: &[u8]) -> Result<()>;
    /// Does a person sit at the other end?
    fn is_terminal(&self, fd: &Self::Fd) -> bool;
    /// The same terminal as a file that asks for words to be completed, if it can: reads deliver
    /// lines, or the text before the cursor and a tab; what is written is inserted there.
    fn completer(&mut self, fd: &Self::Fd) -> Option<Self::Fd>;

    /// Starts a program.
    fn spawn(&mut self, program: &Program<'_, Self::Fd>) -> Result<Pid>;
    /// Turns this process into the program; returns only when that fails.
    fn replace(&mut self, program: &Program<'_, Self::Fd>) -> Errno;
    /// The status of a child that ended (0 to 255; 128 + signal when it was killed). With `block`
    /// waits for the end, without gives `None` while it runs.
    fn wait(&mut self, pid: Pid, block: bool) -> Result<Option<i32>>;
    /// Sends a signal.
    fn kill(&mut self, pid: Pid, signal: u32) -> Result<()>;
    /// From now on an interrupt from the keyboard ends these processes (none: nothing).
    fn foreground(&mut self, pids: &[Pid]);
    /// Did the keyboard interrupt while there was no such process? Asked between the rounds of a
    /// loop; the answer is true once per interrupt.
    fn interrupted(&mut self) -> bool;
    /// Our own process id.
    fn id(&self) -> Pid;
    /// File of the shell's own program, to start another one.
    fn shell(&self) -> String;

    /// The current directory.
    fn current_dir(&self) -> String;
    /// Changes the current directory.
    fn change_dir(&mut self, path: &str) -> Result<()>;
    /// The kind of file at a path.
    fn facts(&self, path: &str) -> Option<Facts>;
    /// The names in a directory, without `.` and `..`.
    fn names(&self, path: &str) -> Result<Vec<String>>;

    /// Nanoseconds of a clock that only goes forward.
    fn now(&self) -> u64;
    /// The text for an error number.
    fn describe(&self, error: Errno) -> String;
}
