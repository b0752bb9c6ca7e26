//! Copies between the kernel and the memory of the *current* program.
//!
//! Every function answers `EFAULT` for ranges outside user space, unmapped pages and missing
//! rights; absent lazy pages are faulted in. Nothing here ever page-faults in the kernel.

use ::syscall::error::Result;

/// Fills `bytes` from the program's memory at `addr`.
pub fn copy_in(addr: usize, bytes: &mut [u8]) -> Result<()> {
    crate::sched::current_space()?.read(addr, bytes)
}

/// Stores `bytes` in the program's memory at `addr`.
pub fn copy_out(addr: usize, bytes: &[u8]) -> Result<()> {
    crate::sched::current_space()?.write(addr, bytes)
}

/// A value every bit pattern of which is valid and that has no padding.
///
/// # Safety
/// The type must be `Copy`, valid for every bit pattern and free of uninitialised bytes.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),* $(,)?) => {
        // SAFETY: integers, arrays of integers and `repr(C)` structures of integers.
        $(unsafe impl Plain for $t {})*
    };
}
// TimeSpec has four bytes of padding at the end: copied in whole, written through `copy_out` of
// its two fields by `time::TimeSpec` users; see `PlainIn`.
plain!(u8, u16, u32, u64, usize, i32, i64, [usize; 2], [usize; 3], [usize; 4], [usize; 6]);

/// Reads one value at `addr` (any alignment).
pub fn copy_in_val<T: Plain>(addr: usize) -> Result<T> {
    let mut value = core::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: `Plain` types may hold any bytes; the slice covers exactly the value.
    let bytes = unsafe {
        core::slice::from_raw_parts_mut(value.as_mut_ptr().cast::<u8>(), size_of::<T>())
    };
    copy_in(addr, bytes)?;
    // SAFETY: zeroed first, and every bit pattern of a `Plain` type is a value.
    Ok(unsafe { value.assume_init() })
}

/// Writes one value at `addr` (any alignment).
pub fn copy_out_val<T: Plain>(addr: usize, value: &T) -> Result<()> {
    copy_out(addr, bytes_of(value))
}

/// The bytes of a plain value.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: `Plain` types have no padding, so all their bytes are initialised.
    unsafe { core::slice::from_raw_parts(core::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// The bytes of a plain value, to be filled in.
pub fn bytes_of_mut<T: Plain>(value: &mut T) -> &mut [u8] {
    // SAFETY: as above, and every bit pattern written through the slice is a value.
    unsafe { core::slice::from_raw_parts_mut(core::ptr::from_mut(value).cast(), size_of::<T>()) }
}
