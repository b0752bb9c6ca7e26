//! `sys/eventfd.h`: counters for which a program can wait as for files.

use alloc::sync::Arc;
use core::ffi::{c_int, c_uint};

use runtime::{Error, Result};
use syscall::error::{EBADF, EINVAL};
use syscall::flag::O_NONBLOCK;

use crate::counter::Counter;
use crate::own::Kind;
use crate::{descriptor, errno, files};

/// EFD_SEMAPHORE, EFD_NONBLOCK and EFD_CLOEXEC.
const SEMAPHORE: usize = 1;
const NONBLOCK: usize = O_NONBLOCK;
const CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;

#[unsafe(no_mangle)]
extern "C" fn eventfd(value: c_uint, flags: c_int) -> c_int {
    let flags = flags as u32 as usize;
    if flags & !(SEMAPHORE | NONBLOCK | CLOEXEC) != 0 {
        return errno::fail(EINVAL);
    }
    let make = |bell| {
        let counter = Counter::new(value.into(), bell, flags & SEMAPHORE != 0)?;
        counter.page().set_nonblocking(flags & NONBLOCK != 0);
        Ok(Kind::Counter(Arc::new(counter)))
    };
    errno::give(descriptor::open_own(flags & CLOEXEC != 0, make))
}

/// Returns 0 if a whole value was moved.
fn moved(result: Result<usize>) -> c_int {
    errno::done(result.and_then(|count| match count == size_of::<u64>() {
        true => Ok(()),
        false => Err(Error::new(EBADF)),
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn eventfd_read(number: c_int, place: *mut u64) -> c_int {
    // SAFETY: the caller's place for a number.
    moved(unsafe { files::read_raw(number, place.cast(), size_of::<u64>()) })
}

#[unsafe(no_mangle)]
extern "C" fn eventfd_write(number: c_int, value: u64) -> c_int {
    // SAFETY: these are the bytes of a number.
    moved(unsafe { files::write_raw(number, (&raw const value).cast(), size_of::<u64>()) })
}
