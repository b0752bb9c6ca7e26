//! Copies of wide strings.

use super::{Wide, wcslen, wcsnlen};

#[unsafe(no_mangle)]
unsafe extern "C" fn wcscpy(to: *mut Wide, from: *const Wide) -> *mut Wide {
    // SAFETY: the caller's string and place, the zero included.
    unsafe { to.copy_from_nonoverlapping(from, wcslen(from) + 1) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsncpy(to: *mut Wide, from: *const Wide, count: usize) -> *mut Wide {
    // SAFETY: the caller's string and place for `count` characters.
    unsafe {
        let length = wcsnlen(from, count);
        to.copy_from_nonoverlapping(from, length);
        to.add(length).write_bytes(0, count - length);
    }
    to
}

/// As `wcscpy`, but returns the end of the copy.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcpcpy(to: *mut Wide, from: *const Wide) -> *mut Wide {
    // SAFETY: the same contract.
    unsafe { wcscpy(to, from).add(wcslen(from)) }
}

/// As `wcsncpy`, but returns the place of the first zero that it has stored, or the end.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcpncpy(to: *mut Wide, from: *const Wide, count: usize) -> *mut Wide {
    // SAFETY: the same contract.
    unsafe { wcsncpy(to, from, count).add(wcsnlen(from, count)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcscat(to: *mut Wide, from: *const Wide) -> *mut Wide {
    // SAFETY: the caller's strings, with room behind the first.
    unsafe { wcscpy(to.add(wcslen(to)), from) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcsncat(to: *mut Wide, from: *const Wide, count: usize) -> *mut Wide {
    // SAFETY: the caller's strings, with room behind the first.
    unsafe {
        let (end, length) = (to.add(wcslen(to)), wcsnlen(from, count));
        end.copy_from_nonoverlapping(from, length);
        end.add(length).write(0);
    }
    to
}
