//! Traits of the standard library, for programs that have it: sources of events lend their
//! descriptors, and errors become `std::io::Error`. Connections are `scif::Endpoint`, which is
//! `Read` and `Write`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::error::Error;
use crate::events::Events;
use crate::objects::{CompletionChannel, Context};

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.errno())
    }
}

/// Readable while there are events.
impl<T> AsFd for Events<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        client_memory::descriptor::lend(self.reader())
    }
}

/// Readable while there are completion events that no thread was told of.
impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw().as_fd()
    }
}

impl AsRawFd for CompletionChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

/// Readable while there are asynchronous events.
impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.raw().events().as_fd()
    }
}

impl AsRawFd for Context {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
