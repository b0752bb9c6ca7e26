//! Errors of the layers below as error numbers.

use syscall::error::{EBUSY, EINVAL, ENOENT, ENOMEM, ENOSPC, EOPNOTSUPP, Error, Result};
use verbs_abi::frame::Malformed;

/// Fails with this error number.
///
/// # Errors
/// Always, with this number.
pub fn fail<T>(errno: i32) -> Result<T> {
    Err(Error::new(errno))
}

/// The error number for a refusal by `verbs-core`.
pub fn refused(error: verbs_core::types::Error) -> Error {
    use verbs_core::types::Error as Refused;
    Error::new(match error {
        Refused::Invalid => EINVAL,
        Refused::NoMemory => ENOMEM,
        Refused::Busy => EBUSY,
        Refused::NotFound => ENOENT,
        Refused::NotSupported => EOPNOTSUPP,
    })
}

/// The error number for bytes that are no well-formed command.
pub fn malformed(error: Malformed) -> Error {
    Error::new(match error {
        Malformed::Invalid => EINVAL,
        Malformed::Unknown => EOPNOTSUPP,
        Malformed::TooShort => ENOSPC,
    })
}
