//! The standard streams of a new process.

use libredox::Fd;

use crate::fs;

/// The target of a standard stream of a new process.
#[derive(Clone, Copy, Debug)]
pub enum Stdio {
    /// The same as the parent's stream.
    Inherit,
    /// This descriptor of the parent, which stays open here.
    Fd(usize),
    /// None: the descriptor does not exist.
    Closed,
}

impl From<usize> for Stdio {
    fn from(fd: usize) -> Self {
        Stdio::Fd(fd)
    }
}

impl From<&Fd> for Stdio {
    fn from(fd: &Fd) -> Self {
        Stdio::Fd(fd.raw())
    }
}

impl From<&fs::File> for Stdio {
    fn from(file: &fs::File) -> Self {
        Stdio::Fd(file.as_raw_fd())
    }
}
