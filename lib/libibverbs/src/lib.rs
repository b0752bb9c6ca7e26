//! The functions of `infiniband/verbs.h` and `rdma/rdma_cma.h`, for C programs of the image, over
//! the library `verbs`.
//!
//! Objects are structures that C sees the beginning of. Functions that give an object return null
//! with `errno`; those that give an int return the error number, unless `verbs.h` says otherwise.
#![no_std]

extern crate alloc;

mod absent;
mod address;
mod cm;
mod completion;
mod device;
mod event;
mod extended;
mod memory;
mod names;
mod place;
mod post;
mod queue_pair;
mod shared;
mod types;

use alloc::boxed::Box;
use core::ffi::c_int;
use core::ptr::null_mut;

use skiff_libc::errno;

/// The result of a call; the error is a positive error number.
type Result<T> = core::result::Result<T, i32>;

/// A result that is an object, as C has it.
fn object<T>(result: Result<T>) -> *mut T {
    match result {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(number) => none(number),
    }
}

/// No object, for this reason.
fn none<T>(number: i32) -> *mut T {
    errno::set(number);
    null_mut()
}

/// A result that is an error number, as C has it.
fn number(result: Result<()>) -> c_int {
    result.err().unwrap_or(0)
}

/// A result that is -1 on failure, with `errno`.
fn minus_one(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(number) => {
            errno::set(number);
            -1
        }
    }
}

/// The number of an error of the library.
fn errno_of(error: verbs::Error) -> i32 {
    error.errno()
}
