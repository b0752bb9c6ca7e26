//! Reads and writes memory of the caller that may be invalid: directly where it is known to be
//! there, else through the kernel, which checks it.

use scif::raw::Range;
use syscall::error::EFAULT;

use crate::Result;

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
    // SAFETY: only read, and before this function returns.
    let range = unsafe { range(address, bytes.len()) }?;
    match range.readable() {
        Some(from) => from.copy_out(bytes),
        None => range.copy_out(bytes).map_err(|error| error.errno)?,
    }
    Ok(())
}

/// Stores bytes at an address.
///
/// # Errors
/// `EFAULT` if the memory cannot be written.
pub fn store(address: usize, bytes: &[u8]) -> Result<()> {
    // SAFETY: the memory is the caller's, for this function to write.
    let range = unsafe { range(address, bytes.len()) }?;
    match range.writable() {
        Some(mut to) => to.copy_in(bytes),
        None => range.copy_in(bytes).map_err(|error| error.errno)?,
    }
    Ok(())
}

/// Checks that memory can be written, by storing what it holds. For places that nobody else uses.
///
/// # Errors
/// `EFAULT` if it cannot.
pub fn check_writable<const N: usize>(address: usize) -> Result<()> {
    store(address, &load::<N>(address)?)
}

/// The memory at an address. `EFAULT` if it would wrap around.
///
/// # Safety
/// As for [`Range::new`].
unsafe fn range<'a>(address: usize, bytes: usize) -> Result<Range<'a>> {
    address.checked_add(bytes).ok_or(EFAULT)?;
    // SAFETY: the caller's promise.
    Ok(unsafe { Range::new(address, bytes) })
}
