//! `fcntl` and `ioctl`.

use core::ffi::{c_int, c_ulong};

use runtime::{Error, Result, fd};
use syscall::error::{EINVAL, ENOTTY};

use crate::{descriptor, errno};

unsafe extern "C" {
    /// The requests of `scif_ioctl.h`, in `libscif`.
    fn skiff_scif_ioctl(number: c_int, request: c_ulong, argument: usize) -> c_int;
}

/// `F_DUPFD_CLOEXEC`.
const DUPLICATE_CLOSING: usize = 1030;
/// `FD_CLOEXEC`.
const CLOSE_ON_EXEC: usize = 1;

fn control(number: c_int, command: c_int, argument: usize) -> Result<c_int> {
    let number = descriptor::check(number)?;
    let command = usize::try_from(command).map_err(|_| Error::new(EINVAL))?;
    match command {
        syscall::F_DUPFD | DUPLICATE_CLOSING => {
            // Numbers from `argument` on: those below it are kept in use meanwhile.
            descriptor::check(argument as c_int).map_err(|_| Error::new(EINVAL))?;
            let mut held = alloc::vec::Vec::new();
            let copy = loop {
                match fd::dup(number, b"") {
                    Ok(copy) if copy < argument => held.push(copy),
                    result => break result,
                }
            };
            for copy in held {
                fd::close(copy)?;
            }
            Ok(descriptor::opened(copy?, command == DUPLICATE_CLOSING))
        }
        syscall::F_GETFD => {
            fd::fcntl(number, command, 0)?;
            Ok(descriptor::close_on_exec(number).into())
        }
        syscall::F_SETFD => {
            fd::fcntl(number, command, 0)?;
            descriptor::set_close_on_exec(number, argument & CLOSE_ON_EXEC != 0);
            Ok(0)
        }
        _ => fd::fcntl(number, command, argument).map(|value| value as c_int),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(number: c_int, command: c_int, mut arguments: ...) -> c_int {
    // SAFETY: commands without an argument do not look at what is read here, which lies in the
    // register save area in any case. Flags are an `int`, whose upper half is undefined.
    let argument = unsafe { arguments.arg::<u32>() };
    errno::give(control(number, command, argument as usize))
}

/// Only SCIF's requests exist.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(number: c_int, request: c_ulong, mut arguments: ...) -> c_int {
    match descriptor::is_scif(number) {
        // SAFETY: every request of SCIF takes one argument, a number or a pointer.
        Ok(true) => unsafe { skiff_scif_ioctl(number, request, arguments.arg::<usize>()) },
        Ok(false) => match fd::fcntl(number as usize, syscall::F_GETFD, 0) {
            Ok(_) => errno::fail(ENOTTY),
            Err(error) => errno::fail(error.errno),
        },
        Err(error) => errno::fail(error.errno),
    }
}
