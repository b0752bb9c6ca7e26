//! Why a call failed.

use core::fmt;

use syscall::error::{EBUSY, EINVAL, ENOENT, ENOMEM, EOPNOTSUPP};
use verbs_core::types;

/// The result of a call.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a call failed. [`errno`](Error::errno) is the number that a C program gets. The result of a
/// work request is not an error but the status of its completion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// An argument is invalid, or not allowed in this state: `EINVAL`.
    Invalid,
    /// A queue is full, or a limit is reached: `ENOMEM`.
    NoMemory,
    /// Something uses the object: `EBUSY`.
    Busy,
    /// There is no such object: `ENOENT`.
    NotFound,
    /// This is not supported: `EOPNOTSUPP`.
    NotSupported,
    /// An error of SCIF or of the system: `ENODEV` if there is no driver, `EMFILE`, …
    Scif(scif::Error),
}

impl Error {
    /// The error with this number.
    pub const fn from_errno(number: i32) -> Self {
        match number {
            EINVAL => Self::Invalid,
            ENOMEM => Self::NoMemory,
            EBUSY => Self::Busy,
            ENOENT => Self::NotFound,
            EOPNOTSUPP => Self::NotSupported,
            number => Self::Scif(scif::Error::from_errno(number)),
        }
    }

    /// The error number.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Invalid => EINVAL,
            Self::NoMemory => ENOMEM,
            Self::Busy => EBUSY,
            Self::NotFound => ENOENT,
            Self::NotSupported => EOPNOTSUPP,
            Self::Scif(error) => error.errno(),
        }
    }
}

impl From<types::Error> for Error {
    #[inline]
    fn from(error: types::Error) -> Self {
        match error {
            types::Error::Invalid => Self::Invalid,
            types::Error::NoMemory => Self::NoMemory,
            types::Error::Busy => Self::Busy,
            types::Error::NotFound => Self::NotFound,
            types::Error::NotSupported => Self::NotSupported,
        }
    }
}

impl From<scif::Error> for Error {
    fn from(error: scif::Error) -> Self {
        Self::from_errno(error.errno())
    }
}

impl From<syscall::error::Error> for Error {
    fn from(error: syscall::error::Error) -> Self {
        scif::Error::from(error).into()
    }
}

impl From<libredox::error::Error> for Error {
    fn from(error: libredox::error::Error) -> Self {
        scif::Error::from(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&scif::Error::from_errno(self.errno()), f)
    }
}

impl core::error::Error for Error {}
