//! Messages of this tool: failures with an exit status, and progress lines with their time.

use std::time::Instant;

/// The failure of a command, and its exit status.
#[derive(Debug)]
pub struct Failure {
    /// The fault, with its value, and what to do about it. Empty: already printed.
    pub message: String,
    /// Exit status of the tool, never 0.
    pub status: u8,
}

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// Exit statuses above those a guest script can be expected to use (timeout(1) has 124, too).
pub mod status {
    /// All scripts ended with 0, but a console reports a panic or an exception of a program, or an
    /// address of the kernel.
    pub const BAD_REPORT: u8 = 122;
    /// A node ended without its script's status, or otherwise than by powering off.
    pub const NO_END_MARKER: u8 = 123;
    /// The hard time limit passed: a script was at work, or a node had not powered off.
    pub const TIMEOUT: u8 = 124;
    /// A kernel panicked.
    pub const KERNEL_PANIC: u8 = 125;
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self { message, status: 1 }
    }
}

impl From<&str> for Failure {
    fn from(message: &str) -> Self {
        Self::from(message.to_string())
    }
}

impl Failure {
    /// A failure whose explanation was printed where it happened.
    pub fn silent(status: u8) -> Self {
        Self {
            message: String::new(),
            status,
        }
    }
}

/// Adds what was being done, and to what, to an error of the standard library.
pub trait Context<T> {
    /// `doing` completes the sentence "cannot …".
    fn context(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: std::fmt::Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| format!("cannot {}: {error}", doing()).into())
    }
}

/// Prints the start of a piece of work and, when finished, how long it took.
pub struct TimedStep {
    what: String,
    start: Instant,
}

impl TimedStep {
    /// Announces the work on standard error, so that a program's own output stays clean.
    pub fn start(what: impl Into<String>) -> Self {
        let what = what.into();
        eprintln!("==> {what}");
        Self {
            what,
            start: Instant::now(),
        }
    }

    /// Says that it is finished; quick work (under two seconds) needs no second line.
    pub fn done(self) {
        let seconds = self.start.elapsed().as_secs_f64();
        if seconds >= 2.0 {
            eprintln!("    {} took {seconds:.1} s", self.what);
        }
    }
}
