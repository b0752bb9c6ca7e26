//! `errno`, its messages, and the conversion of results to C's return values.

use alloc::format;
use core::ffi::{c_char, c_int};

use runtime::{Error, Result};

use crate::sync::Shared;
use crate::tls;

/// The address of the calling thread's error number.
#[unsafe(no_mangle)]
extern "C" fn __errno_location() -> *mut c_int {
    // SAFETY: a thread's control block is there as long as the thread; only the address is taken.
    unsafe { &raw mut (*tls::control()).errno }
}

/// relibc's name for `__errno_location`.
#[unsafe(no_mangle)]
extern "C" fn __errno() -> *mut c_int {
    __errno_location()
}

/// The calling thread's error number.
pub fn get() -> c_int {
    // SAFETY: the thread's own word.
    unsafe { *__errno_location() }
}

/// Sets the calling thread's error number.
pub fn set(number: c_int) {
    // SAFETY: the thread's own word.
    unsafe { *__errno_location() = number };
}

/// The value by which a C function reports a failure.
pub trait Failure {
    /// The value that means failure.
    const FAILURE: Self;
}

macro_rules! minus_one {
    ($($type:ty),*) => { $(impl Failure for $type { const FAILURE: $type = -1; })* };
}
minus_one!(i32, i64, isize);

/// Sets `errno` and returns -1.
pub fn fail<T: Failure>(number: c_int) -> T {
    set(number);
    T::FAILURE
}

/// Converts a result for C: the value, or -1 with `errno` set.
pub fn give<T: Failure>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => fail(error.errno),
    }
}

/// As [`give`], for results without a value.
pub fn done(result: Result<()>) -> c_int {
    give(result.map(|()| 0))
}

/// As [`give`], for results of system calls that always fit into a C `int`.
pub fn small(result: Result<usize>) -> c_int {
    give(result.map(|value| value as c_int))
}

/// The message of an error number.
pub fn message(number: c_int) -> alloc::string::String {
    match number {
        0 => "Success".into(),
        // The system's list of messages has gaps and an end.
        number => match Error::new(number).text() {
            "" | "Unknown Error" | "Unknown error" => format!("Unknown error {number}"),
            text => text.into(),
        },
    }
}

pub(crate) static MESSAGE: Shared<[u8; 64]> = Shared::new([0; 64]);

/// The text is in memory that the next call overwrites, as C allows.
#[unsafe(no_mangle)]
extern "C" fn strerror(number: c_int) -> *mut c_char {
    let text = message(number);
    MESSAGE.with(|buffer| {
        let length = text.len().min(buffer.len() - 1);
        buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
        buffer[length] = 0;
        buffer.as_mut_ptr().cast()
    })
}

/// POSIX's function: returns 0, or `ERANGE` if the text was cut.
///
/// # Safety
/// `buffer` is valid for `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn strerror_r(number: c_int, buffer: *mut c_char, size: usize) -> c_int {
    let text = message(number);
    if size == 0 {
        return syscall::ERANGE;
    }
    let length = text.len().min(size - 1);
    // SAFETY: `length + 1 <= size` bytes of the caller's buffer.
    unsafe {
        buffer
            .cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), length);
        *buffer.add(length) = 0;
    }
    if length < text.len() {
        syscall::ERANGE
    } else {
        0
    }
}
