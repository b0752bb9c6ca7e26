//! The functions of `infiniband/umad.h` and `infiniband/umad_str.h`, for C programs of the image.
//!
//! | module | what it has |
//! | --- | --- |
//! | [`device`] | the device and its port, as the class tree describes them |
//! | [`frame`] | the fields of the frames that are read and written |
//! | [`port`] | the file `umad0`: agents, sends, receives |
//! | [`names`] | the names of numbers |
//!
//! There is one device with one port (docs/mad.md), so a search finds that or nothing. Functions
//! return a negated error number, unless the header says otherwise.
#![no_std]

extern crate alloc;

mod device;
mod frame;
mod names;
mod port;

use core::ffi::c_int;
use core::sync::atomic::{AtomicI32, Ordering};

/// A result whose error is a positive error number.
type Result<T> = core::result::Result<T, c_int>;

/// The level of messages that the program has asked for.
static LEVEL: AtomicI32 = AtomicI32::new(0);

/// Converts a result as most functions return it.
fn negated(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| -error)
}

/// Prints a message if the program has asked for this level.
fn note(level: c_int, text: impl FnOnce() -> alloc::string::String) {
    if LEVEL.load(Ordering::Relaxed) >= level {
        warn(&text());
    }
}

/// Prints a message.
fn warn(text: &str) {
    runtime::eprintln!("ibwarn: [{}] {text}", runtime::process::id());
}

#[unsafe(no_mangle)]
extern "C" fn umad_init() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn umad_done() -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn umad_debug(level: c_int) -> c_int {
    if level >= 0 {
        LEVEL.store(level, Ordering::Relaxed);
    }
    LEVEL.load(Ordering::Relaxed)
}
