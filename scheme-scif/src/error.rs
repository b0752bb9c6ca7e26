//! Errors as error numbers of the system.

use syscall::error::{EWOULDBLOCK, Error, Result};

/// Converts the engine's error to the system's.
pub(crate) fn system(error: scif_abi::Error) -> Error {
    Error::new(error.errno())
}

/// The answer to a request that waits.
pub(crate) const fn would_block<T>() -> Result<T> {
    Err(Error { errno: EWOULDBLOCK })
}
