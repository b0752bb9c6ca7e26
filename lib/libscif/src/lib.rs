//! The functions of `scif.h`, for C programs of the image, over `scif::raw`.
//!
//! An `scif_epd_t` is a file descriptor. Results and errors are those that the header documents
//! (see `include/scif.h`); a failure is -1 with `errno` set. The kernel reads and writes the
//! memory at addresses that a caller passes, or checks them first. So a bad address is `EFAULT`
//! and does not end the program.
//!
//! The functions that send and receive messages also build for the development machine, for
//! benchmarks without QEMU (`host`).
#![no_std]

#[cfg(target_os = "redox")]
mod calls;
#[cfg(target_os = "redox")]
mod fork;
#[cfg(not(target_os = "redox"))]
pub mod host;
#[cfg(target_os = "redox")]
mod ioctl;
mod messages;
#[cfg_attr(not(target_os = "redox"), path = "host_system.rs")]
mod system;
#[cfg(target_os = "redox")]
pub mod table;
#[cfg(not(target_os = "redox"))]
mod table;
#[cfg(target_os = "redox")]
mod user;

use core::ffi::c_void;

use scif::raw;

/// The result of a call; the error is a positive error number.
type Result<T> = core::result::Result<T, i32>;

/// C's memory.
///
/// # Safety
/// That of [`raw::Range::new`]: C's rules for the caller, whose memory no Rust reference leads to.
unsafe fn range(address: *const c_void, bytes: usize) -> raw::Range<'static> {
    // SAFETY: the caller's promise.
    unsafe { raw::Range::new(address as usize, bytes) }
}
