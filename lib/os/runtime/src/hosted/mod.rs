//! The part that differs with a standard library: on a Redox installation, where relibc and `std`
//! give a program its start, its heap and its threads.
//!
//! The modules have the names and functions of those they stand for, as far as programs of a Redox
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

/// The error number behind an error of `std`; EIO for those that have none.
fn number(error: std::io::Error) -> Error {
    Error::new(error.raw_os_error().unwrap_or(EIO))
}
