//! Names of threads: `pthread_setname_np` and `pthread_getname_np`. The system does not show these
//! names.

use core::ffi::{c_char, c_int};

use syscall::error::{ERANGE, ESRCH};

use crate::pthread::{NAME_BYTES, Record};
use crate::{start, strings};

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setname_np(thread: *const Record, name: *const c_char) -> c_int {
    // SAFETY: the caller's thread, which was not joined, and its string.
    let (record, name) = unsafe { (thread.as_ref(), strings::bytes(name)) };
    let Some(record) = record else {
        return ESRCH;
    };
    if name.len() >= NAME_BYTES {
        return ERANGE;
    }
    record.name.with(|place| {
        *place = [0; NAME_BYTES];
        place[..name.len()].copy_from_slice(name);
    });
    0
}

/// A thread without a name has the program's, as on Linux.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_getname_np(
    thread: *const Record,
    place: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller's thread, which was not joined.
    let Some(record) = (unsafe { thread.as_ref() }) else {
        return ESRCH;
    };
    if size < NAME_BYTES {
        return ERANGE;
    }
    let mut name = record.name.with(|name| *name);
    if name[0] == 0 {
        let program = start::short_name_bytes();
        let length = program.len().min(NAME_BYTES - 1);
        name[..length].copy_from_slice(&program[..length]);
    }
    // SAFETY: the caller's place for at least so many bytes.
    unsafe { place.cast::<[u8; NAME_BYTES]>().write_unaligned(name) };
    0
}
