//! Endpoints as byte streams for programs with the standard library: `Read`, `Write`, `AsFd`, and
//! errors as `std::io::Error`.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use scif_abi::error::Error as Errno;
use scif_abi::flags::SendFlags;

use crate::endpoint::{Endpoint, Listener};
use crate::error::Error;

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        std::io::Error::from_raw_os_error(error.errno())
    }
}

/// For code that reads by this trait the end of the stream, [`Errno::ConnectionReset`], reads as 0
/// bytes, as for sockets. `endpoint.read(…)` itself is [`Endpoint::read`], which reports it as an
/// error.
impl Read for &Endpoint {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match Endpoint::read(self, buffer) {
            Err(Error::Scif(Errno::ConnectionReset)) => Ok(0),
            result => Ok(result?),
        }
    }
}

/// A write returns when its bytes are in the peer's memory, so `flush` has nothing to do.
impl Write for &Endpoint {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(self.send(bytes, SendFlags::BLOCK)?)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Read for Endpoint {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Read::read(&mut &*self, buffer)
    }
}

impl Write for Endpoint {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor().as_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.as_endpoint().as_fd()
    }
}

impl AsRawFd for Endpoint {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
