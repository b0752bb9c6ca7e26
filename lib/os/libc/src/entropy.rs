//! Random bytes that nobody can predict: `getentropy`, `getrandom`, and `arc4random` with its kin.

use core::ffi::{c_int, c_uint, c_void};

use syscall::error::{EFAULT, EINVAL, EIO};

use crate::errno;

/// The most bytes of a `getentropy`.
const MOST: usize = 256;

/// Fills a caller's buffer with random bytes.
///
/// # Safety
/// `place` is valid for `size` bytes.
unsafe fn fill(place: *mut c_void, size: usize) {
    // SAFETY: the caller's promise.
    let bytes = unsafe { core::slice::from_raw_parts_mut(place.cast::<u8>(), size) };
    for part in bytes.chunks_mut(size_of::<u64>()) {
        let word = hal::random::word().to_ne_bytes();
        part.copy_from_slice(&word[..part.len()]);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getentropy(place: *mut c_void, size: usize) -> c_int {
    if size > MOST {
        return errno::fail(EIO);
    }
    if size > 0 {
        if place.is_null() {
            return errno::fail(EFAULT);
        }
        // SAFETY: the caller's range.
        unsafe { fill(place, size) };
    }
    0
}

/// The flags have no effect, as the generator never blocks.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(place: *mut c_void, size: usize, flags: c_uint) -> isize {
    /// `GRND_NONBLOCK`, `GRND_RANDOM` and `GRND_INSECURE`.
    const FLAGS: c_uint = 7;
    if flags & !FLAGS != 0 {
        return errno::fail(EINVAL);
    }
    if size > 0 {
        if place.is_null() {
            return errno::fail(EFAULT);
        }
        // SAFETY: the caller's range.
        unsafe { fill(place, size) };
    }
    size as isize
}

#[unsafe(no_mangle)]
extern "C" fn arc4random() -> c_uint {
    hal::random::word() as c_uint
}

#[unsafe(no_mangle)]
unsafe extern "C" fn arc4random_buf(place: *mut c_void, size: usize) {
    if size > 0 {
        // SAFETY: the caller's range.
        unsafe { fill(place, size) };
    }
}

/// Returns a number below a limit, all equally likely; 0 for the limits 0 and 1.
#[unsafe(no_mangle)]
extern "C" fn arc4random_uniform(limit: c_uint) -> c_uint {
    if limit < 2 {
        return 0;
    }
    // Numbers below this surplus of the 2^32 would make small results more likely.
    let surplus = limit.wrapping_neg() % limit;
    loop {
        let number = arc4random();
        if number >= surplus {
            return number % limit;
        }
    }
}
