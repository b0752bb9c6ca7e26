//! Reads and writes of files of the `scif:` scheme. The library of SCIF makes them: it can move
//! bytes by the connection's rings, without a request. And where the kernel does not end the
//! requests of dead processes, no request with data may wait in the driver.

use core::ffi::{c_int, c_void};

use runtime::{Error, Result};
use syscall::error::{EAGAIN, EBADF, EINTR, ENOTTY};

use crate::descriptor;

unsafe extern "C" {
    /// Reads a file of the scheme: the count, or a negated error number. In `libscif`.
    fn skiff_scif_read(number: c_int, buffer: *mut c_void, size: usize) -> isize;
    /// Reads what has arrived at an endpoint without waiting, with the results of
    /// `skiff_scif_read`.
    fn skiff_scif_read_now(number: c_int, buffer: *mut c_void, size: usize) -> isize;
    /// Writes to a file of the scheme, with the results of `skiff_scif_read`.
    fn skiff_scif_write(number: c_int, buffer: *const c_void, size: usize) -> isize;
}

/// Converts the result of a function of a library above this one.
pub fn of_library(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::new(-result as c_int))
}

/// Reads. `None`: the number means another file, which the kernel has to read.
///
/// # Safety
/// That of [`read_raw`](crate::files::read_raw).
pub unsafe fn read(number: c_int, buffer: *mut c_void, size: usize) -> Option<Result<usize>> {
    // SAFETY: the caller's promise.
    transfer(number, size, || unsafe {
        skiff_scif_read(number, buffer, size)
    })
}

/// Reads what has arrived. `None`: the number means another file, or one that is no endpoint.
///
/// # Safety
/// That of [`read_raw`](crate::files::read_raw).
pub unsafe fn read_now(number: c_int, buffer: *mut c_void, size: usize) -> Option<Result<usize>> {
    // SAFETY: the caller's promise.
    let read = transfer(number, size, || unsafe {
        skiff_scif_read_now(number, buffer, size)
    });
    read.filter(|read| !matches!(read, Err(Error { errno: ENOTTY })))
}

/// Writes. `None` as for [`read`].
///
/// # Safety
/// Nobody changes the memory meanwhile.
pub unsafe fn write(number: c_int, bytes: *const c_void, size: usize) -> Option<Result<usize>> {
    // SAFETY: the caller's promise.
    transfer(number, size, || unsafe {
        skiff_scif_write(number, bytes, size)
    })
}

fn transfer(number: c_int, size: usize, transfer: impl FnOnce() -> isize) -> Option<Result<usize>> {
    if size == 0 {
        return None;
    }
    let former = match descriptor::scif_turn(number) {
        Ok(turn) => turn?,
        Err(error) => return Some(Err(error)),
    };
    let result = of_library(transfer());
    if let Err(Error {
        errno: EINTR | ENOTTY | EAGAIN,
    }) = result
    {
        match descriptor::turn(number as usize) {
            Ok(turn) if turn == former => {}
            // Another thread has closed the file. What the number means now is not the caller's.
            Ok(turn) if descriptor::was_closed(former, turn) => {
                return Some(Err(Error::new(EBADF)));
            }
            // Another thread has put another file there by `dup2`, before this call or during it.
            Ok(_) => return None,
            Err(error) => return Some(Err(error)),
        }
    }
    Some(result)
}
