//! Error numbers of SCIF, of sockets and of `st.h`; they are those of Linux.

use core::fmt;

use scif_abi::Error;

/// An error number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

macro_rules! errors {
    ($($symbol:ident = $number:literal,)*) => {
        $(#[allow(missing_docs, reason = "the names of errno.h")]
        pub const $symbol: Errno = Errno($number);)*

        impl Errno {
            const fn symbol(self) -> Option<&'static str> {
                match self.0 { $($number => Some(stringify!($symbol)),)* _ => None }
            }
        }
    };
}

errors! {
    EPERM = 1,
    ENOENT = 2,
    EINTR = 4,
    EIO = 5,
    ENXIO = 6,
    EBADF = 9,
    EAGAIN = 11,
    ENOMEM = 12,
    EACCES = 13,
    EFAULT = 14,
    EBUSY = 16,
    EXDEV = 18,
    ENODEV = 19,
    EINVAL = 22,
    ENOTTY = 25,
    ENOSPC = 28,
    EPIPE = 32,
    EPROTO = 71,
    EBADMSG = 74,
    ENOTSOCK = 88,
    EPROTOTYPE = 91,
    ENOPROTOOPT = 92,
    EOPNOTSUPP = 95,
    EADDRINUSE = 98,
    EADDRNOTAVAIL = 99,
    ECONNRESET = 104,
    EISCONN = 106,
    ENOTCONN = 107,
    ETIMEDOUT = 110,
    ECONNREFUSED = 111,
    EHOSTUNREACH = 113,
    EINPROGRESS = 115,
}

impl From<Error> for Errno {
    fn from(error: Error) -> Errno {
        Errno(error.errno())
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.symbol() {
            Some(symbol) => f.write_str(symbol),
            None => write!(f, "error {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
