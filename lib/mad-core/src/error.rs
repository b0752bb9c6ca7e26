//! Why a call is refused: the errors have their names on Linux.

/// Why a call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `EINVAL`: a value or a length is not possible.
    Invalid,
    /// `EIO`: there is no such agent.
    Io,
    /// `EAGAIN`: nothing is there now.
    WouldBlock,
    /// `ENOMEM`: a limit is reached.
    NoMemory,
    /// `ENOSPC`: the buffer is shorter than the message, whose length was stored.
    NoSpace,
    /// `ENOTTY`: the request is unknown.
    Unknown,
}

/// The result of a call.
pub type Result<T> = core::result::Result<T, Error>;
