//! The modules that differ with a standard library: on a Redox installation, relibc and `std` give
//! a program its start, heap and threads.
//!
//! The modules have the names and functions of those they replace, as far as programs of a Redox
//! installation need them. Descriptors go through relibc's `redox_*` symbols, because relibc keeps
//! its own record of their numbers; everything else is `std`.

pub mod fd;
pub mod path;
pub mod process;
#[doc(hidden)]
pub mod start;
pub mod sys;
pub mod thread;

use syscall::error::{EIO, Error};

/// Returns the error number behind an error of `std`; EIO if it has none.
fn number(error: std::io::Error) -> Error {
    Error::new(error.raw_os_error().unwrap_or(EIO))
}
