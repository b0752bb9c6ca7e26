//! The errors of SCIF calls and their numbers.
//!
//! The list is the union of the "Errors" paragraphs of the SCIF header (`scif.h`) for the calls
//! that exist, plus the values that only the scheme itself needs (`EBADF`, `ENOENT`, ...). The
//! numbers are the ones that Linux and Redox share. Code passes [`Error`] around; only the
//! outermost layer turns it into a number, with [`Error::errno`].

use core::fmt;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $symbol:literal;)*) => {
        /// Why a SCIF call failed. `errno()` is the number that a program sees.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        pub enum Error { $($(#[$doc])* $name = $number,)* }

        impl Error {
            /// All errors, in ascending order of their numbers.
            pub const ALL: &'static [Error] = &[$(Error::$name,)*];

            /// The symbol of the C headers, for messages and tables.
            pub const fn symbol(self) -> &'static str {
                match self { $(Error::$name => $symbol,)* }
            }

            /// The error with this number, if it is one of SCIF's.
            pub const fn from_errno(number: i32) -> Option<Error> {
                match number { $($number => Some(Error::$name),)* _ => None }
            }
        }
    };
}

errors! {
    /// The second half of an accept found no such handle.
    NoEntry = 2, "ENOENT";
    /// A wait was interrupted; for accept also: the listener was closed meanwhile.
    Interrupted = 4, "EINTR";
    /// No such window or address in a registered address space.
    NoSuchAddress = 6, "ENXIO";
    /// Not an endpoint descriptor.
    BadDescriptor = 9, "EBADF";
    /// Nothing to accept now, or a limit on locked memory was reached.
    WouldBlock = 11, "EAGAIN";
    /// Memory, or a limit on endpoints, is exhausted.
    NoMemory = 12, "ENOMEM";
    /// A privileged port, or a call for root only, without being root; or a window does not allow
    /// the access.
    AccessDenied = 13, "EACCES";
    /// A buffer address is wrong.
    BadAddress = 14, "EFAULT";
    /// A mapping would need more than one contiguous run of the peer's pages.
    CrossesRuns = 18, "EXDEV";
    /// The destination node does not exist or is not online.
    NoDevice = 19, "ENODEV";
    /// An argument, or the state of the endpoint, does not allow the call.
    InvalidArgument = 22, "EINVAL";
    /// A descriptor of something that is not an endpoint.
    NotAnEndpoint = 25, "ENOTTY";
    /// No port is free.
    NoSpace = 28, "ENOSPC";
    /// A listening endpoint cannot be connected.
    NotSupported = 95, "EOPNOTSUPP";
    /// A fixed window would overlap a registered one.
    AddressInUse = 98, "EADDRINUSE";
    /// The peer closed or died, and everything it sent has been read.
    ConnectionReset = 104, "ECONNRESET";
    /// The endpoint is already connected, connecting or listening.
    IsConnected = 106, "EISCONN";
    /// The endpoint is not connected.
    NotConnected = 107, "ENOTCONN";
    /// No endpoint listens there, the backlog is full, or the listener closed.
    ConnectionRefused = 111, "ECONNREFUSED";
    /// A non-blocking connect is under way.
    InProgress = 115, "EINPROGRESS";
}

impl Error {
    /// The positive error number (`errno`) that a program sees.
    pub const fn errno(self) -> i32 {
        self as i32
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

impl core::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn numbers_are_unique_and_round_trip() {
        for pair in Error::ALL.windows(2) {
            assert!(
                pair[0].errno() < pair[1].errno(),
                "{} and {}",
                pair[0],
                pair[1]
            );
        }
        for error in Error::ALL {
            assert_eq!(Error::from_errno(error.errno()), Some(*error));
        }
        assert_eq!(Error::from_errno(0), None);
        assert_eq!(Error::from_errno(-22), None);
    }
}
