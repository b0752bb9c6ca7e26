//! `fcntl`, `ioctl` and `dup`.

use core::ffi::{c_int, c_ulong};

use runtime::{Error, Result, fd};
use syscall::error::{EINVAL, ENOTTY};
use syscall::flag::O_NONBLOCK;

use crate::{descriptor, errno, locking, own, points, umad};

unsafe extern "C" {
    /// Handles the requests of `scif_ioctl.h`; in `libscif`.
    fn skiff_scif_ioctl(number: c_int, request: c_ulong, argument: usize) -> c_int;
    /// Called after the flags of a socket's file were set; in `libsocket`.
    safe fn skiff_socket_flags(number: c_int, flags: usize);
    /// The number of bytes that a socket can receive, or a negated error number; in `libsocket`.
    safe fn skiff_socket_pending(number: c_int) -> c_int;
}

const O_CLOEXEC: usize = libredox::flag::O_CLOEXEC as usize;

/// `FIONREAD`: the number of bytes that can be read from a socket, a pipe or a file.
const BYTES_TO_READ: u32 = 0x541b;
/// `TIOCGWINSZ`: rows and columns of a terminal.
const WINDOW_SIZE: u32 = 0x5413;
/// `FIONBIO`: sets `O_NONBLOCK`.
const NONBLOCKING: u32 = 0x5421;

/// `F_SETOWN`.
const SET_OWNER: usize = 8;
/// `F_GETOWN`.
const OWNER: usize = 9;
/// `F_DUPFD_CLOEXEC`.
const DUPLICATE_CLOSING: usize = 1030;
/// `FD_CLOEXEC`.
const CLOSE_ON_EXEC: usize = 0x0100_0000;
/// `FD_CLOEXEC` in programs that were compiled with other headers.
const CLOSE_ON_EXEC_ELSEWHERE: usize = 1;

fn control(number: c_int, command: c_int, argument: usize) -> Result<c_int> {
    let number = descriptor::check(number)?;
    let command = usize::try_from(command).map_err(|_| Error::new(EINVAL))?;
    match command {
        syscall::F_DUPFD | DUPLICATE_CLOSING => {
            let least = descriptor::check(argument as c_int).map_err(|_| Error::new(EINVAL))?;
            let copy = fd::fcntl(number, syscall::F_DUPFD, least)?;
            let closes = command == DUPLICATE_CLOSING;
            Ok(descriptor::duplicated(number, copy, closes))
        }
        syscall::F_GETFD => {
            fd::fcntl(number, command, 0)?;
            Ok(match descriptor::close_on_exec(number) {
                true => CLOSE_ON_EXEC as c_int,
                false => 0,
            })
        }
        syscall::F_SETFD => {
            fd::fcntl(number, command, 0)?;
            descriptor::set_close_on_exec(
                number,
                argument & (CLOSE_ON_EXEC | CLOSE_ON_EXEC_ELSEWHERE) != 0,
            );
            Ok(0)
        }
        syscall::F_GETFL => {
            let flags = fd::fcntl(number, command, 0)?;
            let flags = match own::kind(number as c_int) {
                Some(kind) if kind.is_nonblocking() => flags | O_NONBLOCK,
                Some(_) => flags & !O_NONBLOCK,
                None => flags,
            };
            Ok(flags as c_int)
        }
        syscall::F_SETFL => {
            let is_own = own::is_own(number as c_int);
            let always = if is_own { O_NONBLOCK } else { 0 };
            let mut result = fd::fcntl(number, command, argument | always)?;
            // If `dup2` has put a counter or a set there only now, its pipe could block since the
            // call above.
            if let Some(kind) = own::kind(number as c_int) {
                if !is_own {
                    result = fd::fcntl(number, command, argument | O_NONBLOCK)?;
                }
                kind.set_nonblocking(argument & O_NONBLOCK != 0);
            }
            if descriptor::is_socket(number as c_int) {
                skiff_socket_flags(number as c_int, argument);
            }
            Ok(result as c_int)
        }
        SET_OWNER => {
            fd::fcntl(number, syscall::F_GETFL, 0)?;
            descriptor::set_owner(number as c_int, argument as c_int);
            Ok(0)
        }
        OWNER => {
            fd::fcntl(number, syscall::F_GETFL, 0)?;
            Ok(descriptor::owner(number as c_int))
        }
        _ => fd::fcntl(number, command, argument).map(|value| value as c_int),
    }
}

/// Sets or clears `O_NONBLOCK` of a descriptor.
fn set_nonblocking(number: c_int, set: bool) -> Result<c_int> {
    let flags = control(number, syscall::F_GETFL as c_int, 0)? as u32 as usize;
    let flag = if set { O_NONBLOCK } else { 0 };
    control(
        number,
        syscall::F_SETFL as c_int,
        flags & !O_NONBLOCK | flag,
    )
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(number: c_int, command: c_int, mut arguments: ...) -> c_int {
    if usize::try_from(command).is_ok_and(locking::is_command) {
        // SAFETY: C's contract: these commands take a pointer to a structure.
        let request = unsafe { arguments.arg::<*mut _>() };
        return errno::give(points::interruptible(|| {
            // SAFETY: as above.
            unsafe { locking::control(number, command as usize, request) }
        }));
    }
    // SAFETY: commands without an argument do not look at what is read here, which lies in the
    // register save area in any case. Flags are an `int`, whose upper half is undefined.
    let argument = unsafe { arguments.arg::<u32>() };
    errno::give(control(number, command, argument as usize))
}

/// The number of bytes between the position and the end of a file, or in a pipe.
fn bytes_to_read(number: c_int) -> Result<c_int> {
    const KIND: u16 = 0o170_000;
    const FIFO: u16 = 0o010_000;
    const FILE: u16 = 0o100_000;
    let index = descriptor::check(number)?;
    let stat = fd::fstat(index)?;
    let bytes = match stat.st_mode & KIND {
        FIFO => stat.st_size,
        FILE => {
            let position = fd::lseek(index, 0, syscall::SEEK_CUR)?;
            stat.st_size.saturating_sub(position as u64)
        }
        _ => return Err(Error::new(ENOTTY)),
    };
    Ok(c_int::try_from(bytes).unwrap_or(c_int::MAX))
}

/// C's `struct winsize`.
#[repr(C)]
struct Window {
    rows: u16,
    columns: u16,
    /// The width and height in pixels, which are unknown.
    pixels: [u16; 2],
}

/// The size of a terminal.
fn window(number: c_int) -> Result<Window> {
    let number = descriptor::check(number)?;
    fd::fcntl(number, syscall::F_GETFL, 0)?;
    let no_terminal = |_| Error::new(ENOTTY);
    let size = fd::dup(number, b"winsize").map_err(no_terminal)?;
    let mut bytes = [0; 4];
    let result = fd::read(size, &mut bytes);
    fd::close(size)?;
    match result {
        Ok(4) => Ok(Window {
            rows: u16::from_ne_bytes([bytes[0], bytes[1]]),
            columns: u16::from_ne_bytes([bytes[2], bytes[3]]),
            pixels: [0; 2],
        }),
        _ => Err(Error::new(ENOTTY)),
    }
}

/// Handles the requests of SCIF, of management datagrams and of terminals, and those for all
/// files.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(number: c_int, request: c_ulong, mut arguments: ...) -> c_int {
    match (request as u32, descriptor::is_socket(number)) {
        (NONBLOCKING, _) => {
            // SAFETY: the caller's number.
            let set = unsafe { *arguments.arg::<*const c_int>() } != 0;
            return errno::give(set_nonblocking(number, set));
        }
        (BYTES_TO_READ, true) => {
            let bytes = skiff_socket_pending(number);
            if bytes < 0 {
                return errno::fail(-bytes);
            }
            // SAFETY: the caller's place for a number.
            unsafe { *arguments.arg::<*mut c_int>() = bytes };
            return 0;
        }
        _ if umad::is_request(number, request) => {
            // SAFETY: the caller's structure, whose length is in the number of the request; the
            // one without does not look at what is read here.
            return errno::give(unsafe { umad::ioctl(number, request, arguments.arg::<usize>()) });
        }
        _ => {}
    }
    match descriptor::is_scif(number) {
        // SAFETY: every request of SCIF takes one argument, a number or a pointer.
        Ok(true) => unsafe { skiff_scif_ioctl(number, request, arguments.arg::<usize>()) },
        Ok(false) if request as u32 == BYTES_TO_READ => match bytes_to_read(number) {
            Ok(bytes) => {
                // SAFETY: the caller's place for a number.
                unsafe { *arguments.arg::<*mut c_int>() = bytes };
                0
            }
            Err(error) => errno::fail(error.errno),
        },
        Ok(false) if request as u32 == WINDOW_SIZE => errno::done(window(number).map(|window| {
            // SAFETY: the caller's place for the structure.
            unsafe { arguments.arg::<*mut Window>().write(window) };
        })),
        Ok(false) => match fd::fcntl(number as usize, syscall::F_GETFD, 0) {
            Ok(_) => errno::fail(ENOTTY),
            Err(error) => errno::fail(error.errno),
        },
        Err(error) => errno::fail(error.errno),
    }
}

#[unsafe(no_mangle)]
extern "C" fn dup(number: c_int) -> c_int {
    let copy = descriptor::check(number).and_then(|number| fd::dup(number, b""));
    errno::give(copy.map(|copy| descriptor::duplicated(number as usize, copy, false)))
}

#[unsafe(no_mangle)]
extern "C" fn dup2(number: c_int, new: c_int) -> c_int {
    let copy = || {
        let (number, new) = (descriptor::check(number)?, descriptor::check(new)?);
        if number == new {
            fd::fcntl(number, syscall::F_GETFD, 0)?;
            return Ok(new as c_int);
        }
        // In one step, so that no other thread finds the number free. Calls that other threads
        // make on a socket that was there use a descriptor of the socket's own.
        descriptor::replaced(number, new, || fd::dup2(number, new, b""))
    };
    errno::give(copy())
}

/// As `dup2`, but not for the descriptor's own number; sets close-on-exec of the copy.
#[unsafe(no_mangle)]
extern "C" fn dup3(number: c_int, new: c_int, flags: c_int) -> c_int {
    let flags = flags as u32 as usize;
    if number == new || flags & !O_CLOEXEC != 0 {
        return errno::fail(EINVAL);
    }
    let copy = dup2(number, new);
    if copy >= 0 {
        descriptor::set_close_on_exec(copy as usize, flags & O_CLOEXEC != 0);
    }
    copy
}
