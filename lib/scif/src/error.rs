//! Errors of calls: SCIF's own by name, all others by number.

use core::fmt;

use scif_abi::error::Error as Errno;
use syscall::error::{EMFILE, ENFILE, ENOMEM};

use crate::raw;

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
    /// The error with this number.
    pub const fn from_errno(number: i32) -> Self {
        match Errno::from_errno(number) {
            Some(error) => Self::Scif(error),
            None => Self::System(number),
        }
    }

    /// The error of a system call.
    const fn of_kernel(number: i32) -> Self {
        Self::from_errno(raw::scif_number(number))
    }

    /// The error number.
    pub const fn errno(self) -> i32 {
        match self {
            Self::Scif(error) => error.errno(),
            Self::System(number) => number,
        }
    }

    /// Whether this program or the driver had no room for a connection. A server goes on after
    /// such an error: there may be room for the next connection.
    pub const fn is_shortage(self) -> bool {
        matches!(self.errno(), EMFILE | ENFILE | ENOMEM)
    }
}

impl From<Errno> for Error {
    fn from(error: Errno) -> Self {
        Self::Scif(error)
    }
}

impl From<libredox::error::Error> for Error {
    fn from(error: libredox::error::Error) -> Self {
        Self::of_kernel(error.errno())
    }
}

impl From<syscall::error::Error> for Error {
    fn from(error: syscall::error::Error) -> Self {
        Self::of_kernel(error.errno)
    }
}

/// From a result of [`raw`](crate::raw).
impl From<i32> for Error {
    fn from(number: i32) -> Self {
        Self::from_errno(number)
    }
}

/// Prints the error in words, followed by the symbol of the C headers or, without one, by the
/// number.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scif(error) => {
                let words = syscall::error::Error::new(error.errno());
                write!(f, "{words} ({error})")
            }
            Self::System(number) => {
                write!(f, "{} ({number})", syscall::error::Error::new(*number))
            }
        }
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::{EMFILE, ENFILE, ENOMEM, Errno, Error};
    use syscall::error::{ECANCELED, EINTR, ENODEV, ESRCH};

    #[test]
    fn numbers_and_errors_correspond() {
        for number in 1..200 {
            let error = Error::from_errno(number);
            assert_eq!(error.errno(), number);
            let named = Errno::ALL.iter().any(|known| known.errno() == number);
            assert_eq!(matches!(error, Error::Scif(_)), named);
        }
        assert_eq!(Error::from(Errno::NotConnected), Error::from_errno(107));
        assert_eq!(Error::from(11), Error::Scif(Errno::WouldBlock));
    }

    #[test]
    fn errors_of_system_calls_are_those_of_the_calls() {
        for (said, meant) in [(ESRCH, ENODEV), (ECANCELED, EINTR), (ENODEV, ENODEV)] {
            let said = syscall::error::Error::new(said);
            assert_eq!(Error::from(said), Error::from_errno(meant));
        }
    }

    #[test]
    fn a_server_goes_on_without_room() {
        for number in [EMFILE, ENFILE, ENOMEM] {
            assert!(Error::from_errno(number).is_shortage(), "{number}");
        }
        assert!(!Error::from_errno(ENODEV).is_shortage());
    }

    #[test]
    fn errors_say_their_names() {
        assert_eq!(
            Error::from_errno(104).to_string(),
            "Connection reset by peer (ECONNRESET)"
        );
        assert_eq!(
            Error::from_errno(24).to_string(),
            "Too many open files (24)"
        );
    }
}
