//! Why a call is refused, by the names of the errors on Linux.

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `EINVAL`: a value or a length is not possible.
    Invalid,
    /// `EIO`: there is no such agent.
    Io,
    /// `EAGAIN`: there is nothing now.
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
