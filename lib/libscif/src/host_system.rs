//! Functions of the system and of the C library, on the development machine.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use syscall::error::EBADF;

use crate::Result;

unsafe extern "C" {
    /// A function of this machine's C library.
    safe fn __errno_location() -> *mut c_int;
}

/// Sets `errno` and returns -1.
pub fn fail(number: c_int) -> c_int {
    // SAFETY: the thread's own word.
    unsafe { *__errno_location() = number };
    -1
}

/// Returns the calling thread's error number.
pub fn errno() -> c_int {
    // SAFETY: the thread's own word.
    unsafe { *__errno_location() }
}

/// Converts the descriptor for the system: all numbers are endpoints' here.
pub fn endpoint(epd: c_int) -> Result<usize> {
    usize::try_from(epd).map_err(|_| EBADF)
}

static IS_ALONE: AtomicBool = AtomicBool::new(false);

/// Whether the process is said never to have had a second thread.
#[inline]
pub fn is_alone() -> bool {
    IS_ALONE.load(Ordering::Relaxed)
}

/// Sets the result of [`is_alone`].
pub fn set_alone(is_alone: bool) {
    IS_ALONE.store(is_alone, Ordering::Relaxed);
}

/// Makes a call, which nobody interrupts here.
pub fn interruptible<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    call()
}
