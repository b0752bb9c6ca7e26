//! Endpoints as byte streams for generic code: the traits of `embedded-io`.

use embedded_io::{ErrorKind, ErrorType, Read, ReadReady, Write, WriteReady};
use scif_abi::error::Error as Errno;
use scif_abi::flags::{Readiness, SendFlags};

use crate::endpoint::Endpoint;
use crate::error::{Error, Result};

impl embedded_io::Error for Error {
    fn kind(&self) -> ErrorKind {
        let Self::Scif(error) = self else {
            return ErrorKind::Other;
        };
        match error {
            Errno::NoEntry | Errno::NoDevice => ErrorKind::NotFound,
            Errno::Interrupted => ErrorKind::Interrupted,
            Errno::NoMemory => ErrorKind::OutOfMemory,
            Errno::AccessDenied => ErrorKind::PermissionDenied,
            Errno::InvalidArgument | Errno::NoSuchAddress | Errno::BadAddress => {
                ErrorKind::InvalidInput
            }
            Errno::NotSupported => ErrorKind::Unsupported,
            Errno::AddressInUse => ErrorKind::AddrInUse,
            Errno::ConnectionReset => ErrorKind::ConnectionReset,
            Errno::ConnectionRefused => ErrorKind::ConnectionRefused,
            Errno::NotConnected => ErrorKind::NotConnected,
            _ => ErrorKind::Other,
        }
    }
}

impl ErrorType for Endpoint {
    type Error = Error;
}

/// Here the end of the stream, [`Errno::ConnectionReset`], reads as 0 bytes, as generic code
/// expects.
impl Read for Endpoint {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match Endpoint::read(self, buffer) {
            Err(Error::Scif(Errno::ConnectionReset)) => Ok(0),
            result => result,
        }
    }
}

impl ReadReady for Endpoint {
    fn read_ready(&mut self) -> Result<bool> {
        let wanted = Readiness::IN | Readiness::HUP;
        Ok(self.readiness(wanted)?.intersects(wanted))
    }
}

/// A write returns when its bytes are in the peer's memory, so `flush` has nothing to do.
impl Write for Endpoint {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.send(bytes, SendFlags::BLOCK)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl WriteReady for Endpoint {
    fn write_ready(&mut self) -> Result<bool> {
        let wanted = Readiness::OUT | Readiness::HUP;
        Ok(self.readiness(wanted)?.intersects(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use embedded_io::Error as _;

    #[test]
    fn kinds_are_those_of_the_numbers() {
        let kind = |number| Error::from_errno(number).kind();
        assert_eq!(kind(104), ErrorKind::ConnectionReset);
        assert_eq!(kind(111), ErrorKind::ConnectionRefused);
        assert_eq!(kind(98), ErrorKind::AddrInUse);
        assert_eq!(kind(13), ErrorKind::PermissionDenied);
        assert_eq!(kind(24), ErrorKind::Other);
    }
}
