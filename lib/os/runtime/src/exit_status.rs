//! How a process ended, as its parent learns it.

use core::fmt;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitStatus {
    raw: i32,
}

impl ExitStatus {
    /// Decodes the word that waiting for a process returns.
    pub fn from_raw(raw: i32) -> Self {
        ExitStatus { raw }
    }

    /// The word that waiting for a process returns.
    pub fn into_raw(self) -> i32 {
        self.raw
    }

    /// The exit status, if the process ended by itself.
    pub fn code(&self) -> Option<i32> {
        (self.raw & 0x7F == 0).then_some(self.raw >> 8 & 0xFF)
    }

    /// The signal that killed the process, if one did.
    pub fn signal(&self) -> Option<i32> {
        (self.raw & 0x7F != 0).then_some(self.raw & 0x7F)
    }

    /// Whether it ended with status 0.
    pub fn success(&self) -> bool {
        self.raw == 0
    }

    /// The shell's number for it: the exit status, or 128 plus the signal.
    pub fn shell_code(&self) -> i32 {
        self.code().unwrap_or(128 + (self.raw & 0x7F))
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code(), self.signal()) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, signal) => write!(f, "killed by signal {}", signal.unwrap_or(0)),
        }
    }
}
