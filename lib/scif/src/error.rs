//! Why a call failed: SCIF's own errors by name, anything else by number.

use core::fmt;

use scif_abi::error::Error as Errno;

/// The result of a SCIF call.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a SCIF call failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Error {
    /// One of the errors the SCIF header lists.
    Scif(Errno),
    /// An error of the system beneath, by its number: for example `EMFILE`, or `ENODEV` when the
    /// scheme's daemon is gone.
    System(i32),
}

impl Error {
    /// The error number.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Scif(error) => error.errno(),
            Self::System(number) => number,
        }
    }
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Self {
        Self::Scif(error)
    }
}

impl From<libredox::error::Error> for Error {
    fn from(error: libredox::error::Error) -> Self {
        let number = error.errno();
        Errno::from_errno(number).map_or(Self::System(number), Self::Scif)
    }
}

impl From<syscall::error::Error> for Error {
    fn from(error: syscall::error::Error) -> Self {
        libredox::error::Error::from(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scif(error) => error.fmt(f),
            Self::System(number) => write!(f, "error {number}"),
        }
    }
}

impl core::error::Error for Error {}
