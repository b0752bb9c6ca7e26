//! Traits of the standard library, for programs that have it: a connection lends its descriptor,
//! and errors become `std::io::Error`. Headers and puts are not a stream of bytes, so nothing here
//! is `Read` or `Write`; the endpoint below is, until a handshake begins on it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::connection::Connection;
use crate::error::Error;

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.errno())
    }
}

/// The descriptor of the [endpoint](Connection::endpoint) below.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.endpoint().as_fd()
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
