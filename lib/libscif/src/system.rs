//! Functions of the system and of the C library.

use core::ffi::c_int;

use skiff_libc::descriptor;
use syscall::error::{EBADF, ENOTTY};

use crate::Result;

pub use runtime::thread::is_alone;
pub use skiff_libc::errno::fail;
pub use skiff_libc::points::interruptible;

/// Converts a descriptor for the system, for a call that uses it as an endpoint.
///
/// # Errors
/// `EBADF` if it does not exist, `ENOTTY` if it is not one of the `scif:` scheme; `EINTR`,
/// `ENOMEM`: that is not known yet.
pub fn endpoint(epd: c_int) -> Result<usize> {
    checked(epd, descriptor::is_scif(epd))
}

/// As [`endpoint`], for a call that also plain files have.
pub fn file(epd: c_int) -> Result<usize> {
    checked(epd, descriptor::is_scif_file(epd))
}

fn checked(epd: c_int, is_scif: runtime::Result<bool>) -> Result<usize> {
    match is_scif {
        Ok(true) => Ok(epd as usize),
        Ok(false) if libredox::call::fcntl(epd as usize, syscall::F_GETFD, 0).is_ok() => {
            Err(ENOTTY)
        }
        Ok(false) => Err(EBADF),
        Err(error) => Err(error.errno),
    }
}
