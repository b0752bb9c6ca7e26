//! The functions of `infiniband/verbs.h` and `rdma/rdma_cma.h` for C programs of the image,
//! implemented by the library `verbs`.
//!
//! Objects are structures; C knows only their first fields. Functions that return an object return
//! null on failure and set `errno`. Functions that return an int return the error number, unless
//! `verbs.h` says otherwise.
#![no_std]

extern crate alloc;

mod absent;
mod address;
mod cm;
mod completion;
mod device;
mod domain;
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

/// Converts a result into an object for C: null on failure, with `errno`.
fn object<T>(result: Result<T>) -> *mut T {
    match result {
        Ok(value) => Box::into_raw(Box::new(value)),
        Err(number) => none(number),
    }
}

/// Returns no object, and sets `errno`.
fn none<T>(number: i32) -> *mut T {
    errno::set(number);
    null_mut()
}

/// Converts a result into an error number for C: 0 on success.
fn number(result: Result<()>) -> c_int {
    result.err().unwrap_or(0)
}

/// Converts a result into 0, or -1 on failure, with `errno`.
fn minus_one(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(number) => {
            errno::set(number);
            -1
        }
    }
}

/// Returns the error number of an error of `verbs`.
fn errno_of(error: verbs::Error) -> i32 {
    error.errno()
}
