//! Access to objects and lists that C passes, and regions that one thread of a program enters at a
//! time.

use runtime::sync::Mutex;
use syscall::error::EINVAL;

use crate::Result;

/// Returns the value that C's pointer points to.
///
/// # Errors
/// `EINVAL` if it is null.
///
/// # Safety
/// It is null or leads to a valid value, which lives as long as the reference is used.
pub unsafe fn get<'a, T>(pointer: *const T) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or(EINVAL)
}

/// As [`get`], but the value may be changed.
///
/// # Errors
/// `EINVAL` if it is null.
///
/// # Safety
/// That of [`get`], and nothing else uses the value.
pub unsafe fn get_mut<'a, T>(pointer: *mut T) -> Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or(EINVAL)
}

/// Returns C's array as a slice.
///
/// # Errors
/// `EINVAL` if the length is negative, or if it is not 0 and the pointer is null or not aligned.
///
/// # Safety
/// The pointer is null or leads to `count` valid values, which live as long as the slice is used.
pub unsafe fn list<'a, T>(pointer: *const T, count: impl TryInto<usize>) -> Result<&'a [T]> {
    let count = count.try_into().map_err(|_| EINVAL)?;
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(EINVAL);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(pointer, count) })
}

/// What a program does with an object between two calls; one thread at a time may do it.
#[derive(Default)]
pub struct Region(Mutex<()>);

impl Region {
    /// Waits until no other thread is in the region, and enters it.
    pub fn enter(&self) {
        core::mem::forget(self.0.lock());
    }

    /// Leaves the region; no effect if no thread is in it.
    pub fn leave(&self) {
        if self.0.is_locked() {
            // SAFETY: locked by `enter`, whose guard was forgotten. That this is the thread which
            // has called it is C's contract, and nothing lies behind the lock.
            unsafe { self.0.force_unlock() };
        }
    }
}
