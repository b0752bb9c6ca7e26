//! Reads and writes memory of the caller that may be invalid: directly where it is known to be
//! there, else through the kernel, which checks it.

use core::{mem, ptr};

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use runtime::sync::Mutex;
use scif::raw::Range;
use syscall::error::{EFAULT, EIO};
use syscall::flag::{F_DUPFD, UPPER_FDTBL_TAG};

use crate::Result;

/// A pipe from this process to itself: its reading end, then its writing end.
static PIPE: Mutex<Option<(Fd, Fd)>> = Mutex::new(None);

/// Locks the pipe until [`after_fork`].
pub fn before_fork() {
    mem::forget(PIPE.lock());
}

/// Unlocks what [`before_fork`] locked. The child makes a new pipe, as this one's contents are
/// shared with the parent.
pub fn after_fork(in_child: bool) {
    if in_child {
        // SAFETY: `before_fork` has taken the lock, and this process has one thread.
        drop(unsafe { (*PIPE.as_mut_ptr()).take() });
    }
    // SAFETY: `before_fork` has taken the lock and dropped no guard.
    unsafe { PIPE.force_unlock() };
}

/// Copies the bytes at an address.
///
/// # Errors
/// `EFAULT` if they cannot be read.
pub fn load<const N: usize>(address: usize) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    load_into(address, &mut bytes)?;
    Ok(bytes)
}

/// As [`load`], for a length known only at run time.
///
/// # Errors
/// Those of [`load`].
pub fn load_into(address: usize, bytes: &mut [u8]) -> Result<()> {
    // SAFETY: only read, by the kernel, and before this function returns.
    let range = unsafe { Range::new(address, bytes.len()) };
    range.copy_out(bytes).map_err(|error| error.errno)
}

/// Stores bytes at an address.
///
/// # Errors
/// `EFAULT` if the memory cannot be written.
pub fn store(address: usize, bytes: &[u8]) -> Result<()> {
    let number = |error: libredox::error::Error| error.errno();
    // A range must not wrap around.
    address.checked_add(bytes.len()).ok_or(EFAULT)?;
    // SAFETY: the memory is the caller's, for this function to write.
    let range = unsafe { Range::new(address, bytes.len()) };
    if range.writable().is_some() {
        let to = ptr::with_exposed_provenance_mut::<u8>(address);
        // SAFETY: looked up, and the program keeps its memory as long as the call runs.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        return Ok(());
    }
    let mut pipe = PIPE.lock();
    let (output, input) = match pipe.take() {
        Some(ends) => ends,
        None => {
            let output = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0).map_err(number)?;
            let input = Fd::new(libredox::call::dup(output.raw(), b"write").map_err(number)?);
            // The program may close or replace any of the lower descriptors.
            let up = |end: Fd| end.fcntl(F_DUPFD, UPPER_FDTBL_TAG).map_err(number);
            (Fd::new(up(output)?), Fd::new(up(input)?))
        }
    };
    // After an error, bytes may be left in the pipe, so it is not kept.
    if input.write(bytes).map_err(number)? != bytes.len() {
        return Err(EIO);
    }
    let arguments = [output.raw(), address, bytes.len(), 0, 0, 0];
    // SAFETY: the kernel checks the address; that the memory may be written is what the caller of
    // the C function says by passing it.
    let count = unsafe { runtime::sys::call(syscall::SYS_READ, arguments) };
    if count.map_err(|error| error.errno)? != bytes.len() {
        return Err(EIO);
    }
    *pipe = Some((output, input));
    Ok(())
}
