//! Locks of files by `fcntl`, `lockf` and `flock`. The scheme of a file keeps its locks.
//!
//! All three share one table: a lock of a process and a lock of an open file conflict with each
//! other, as on the BSDs.

use core::ffi::{c_int, c_short};

use runtime::{Error, Result, fd};
use syscall::error::{EACCES, EBADF, EINVAL, ENOLCK, ENOSYS, EOPNOTSUPP, EOVERFLOW, ESRCH};
use syscall::flag::{CallFlags, O_RDONLY, O_WRONLY, SEEK_CUR, StdFsCallKind};

use crate::{descriptor, errno, points};

/// C's `struct flock`.
#[repr(C)]
pub struct Request {
    kind: c_short,
    whence: c_short,
    start: i64,
    length: i64,
    process: c_int,
}

/// Commands of `fcntl`: relibc's, and Linux's for locks of an open file.
const GET: usize = 5;
const SET: usize = 6;
const SET_WAITING: usize = 7;
const GET_OF_OPENING: usize = 36;
const SET_OF_OPENING: usize = 37;
const SET_OF_OPENING_WAITING: usize = 38;

/// `F_RDLCK`, `F_WRLCK`, `F_UNLCK`.
const SHARED: c_short = 0;
const EXCLUSIVE: c_short = 1;
const NONE: c_short = 2;

/// In the first argument of a request: the open file owns the lock. In the second one: the lock is
/// exclusive.
const HIGHEST: u64 = 1 << 63;
/// In the second argument: the request waits for the lock (`scheme::WAITS`).
const WAITS: u64 = 1 << 62;

/// Whether a command of `fcntl` is about locks.
pub fn is_command(command: usize) -> bool {
    matches!(
        command,
        GET | SET | SET_WAITING | GET_OF_OPENING | SET_OF_OPENING | SET_OF_OPENING_WAITING
    )
}

/// Sends one request to the scheme of a file.
fn call(
    number: usize,
    kind: StdFsCallKind,
    (start, length): (u64, u64),
    place: &mut [u64],
) -> Result<usize> {
    // SAFETY: the words are exclusively ours, and any bytes are some.
    let result = unsafe {
        fd::call_raw(
            number,
            place.as_mut_ptr().cast(),
            size_of_val(place),
            CallFlags::STD_FS | CallFlags::READ,
            &[kind as u64, start, length],
        )
    };
    result.map_err(|error| match error.errno {
        // The scheme keeps no locks.
        ENOSYS | EOPNOTSUPP => Error::new(ENOLCK),
        _ => error,
    })
}

/// The range of a lock: its first byte and its length, 0 for up to the end of the file.
fn reach(number: usize, whence: c_short, start: i64, length: i64) -> Result<(u64, u64)> {
    let from = match whence {
        0 => 0,
        1 => fd::lseek(number, 0, SEEK_CUR)? as i64,
        2 => i64::try_from(fd::fstat(number)?.st_size).map_err(|_| Error::new(EOVERFLOW))?,
        _ => return Err(Error::new(EINVAL)),
    };
    let overflow = Error::new(EOVERFLOW);
    let start = from.checked_add(start).ok_or(overflow)?;
    let end = start.checked_add(length).ok_or(overflow)?;
    // A negative length means the bytes before the start.
    let first = u64::try_from(start.min(end)).map_err(|_| Error::new(EINVAL))?;
    // No file is so long that the bit of a request that waits is needed for a length.
    match length.unsigned_abs() {
        WAITS.. => Ok((first, 0)),
        length => Ok((first, length)),
    }
}

/// `fcntl` with one of these commands.
///
/// # Safety
/// C's contract: the structure can be read and written.
pub unsafe fn control(number: c_int, command: usize, request: *mut Request) -> Result<c_int> {
    let number = descriptor::check(number)?;
    let flags = fd::fcntl(number, syscall::F_GETFL, 0)?;
    // SAFETY: the caller's promise.
    let request = unsafe { request.as_mut() }.ok_or(Error::new(EINVAL))?;
    let (start, length) = reach(number, request.whence, request.start, request.length)?;
    let start = match command {
        GET_OF_OPENING.. => start | HIGHEST,
        _ => start,
    };
    let exclusive = match request.kind {
        SHARED | NONE => 0,
        EXCLUSIVE => HIGHEST,
        _ => return Err(Error::new(EINVAL)),
    };
    let wanted = (start, length | exclusive);
    match command {
        GET | GET_OF_OPENING => {
            let mut found = [0; 2];
            match call(number, StdFsCallKind::GetLock, wanted, &mut found) {
                Ok(process) => {
                    let is_exclusive = found[1] & HIGHEST != 0;
                    *request = Request {
                        kind: if is_exclusive { EXCLUSIVE } else { SHARED },
                        whence: 0,
                        start: found[0] as i64,
                        length: (found[1] & !HIGHEST) as i64,
                        // 0 stands for an open file's lock.
                        process: if process == 0 { -1 } else { process as c_int },
                    };
                }
                Err(error) if error.errno == ESRCH => request.kind = NONE,
                Err(error) => return Err(error),
            }
        }
        _ if request.kind == NONE => {
            call(number, StdFsCallKind::Unlock, (start, length), &mut [])?;
        }
        _ => {
            let right = if exclusive == 0 { O_RDONLY } else { O_WRONLY };
            if flags & right == 0 {
                return Err(Error::new(EBADF));
            }
            let waits = match command {
                SET_WAITING | SET_OF_OPENING_WAITING => WAITS,
                _ => 0,
            };
            let wanted = (wanted.0, wanted.1 | waits);
            call(number, StdFsCallKind::Lock, wanted, &mut [])?;
        }
    }
    Ok(0)
}

#[unsafe(no_mangle)]
extern "C" fn flock(number: c_int, operation: c_int) -> c_int {
    errno::done(points::interruptible(|| lock(number, operation)))
}

/// `flock`.
///
/// # Errors
/// `EBADF`, `EINTR`, `EINVAL`, `ENOLCK`, `EWOULDBLOCK`.
pub fn lock(number: c_int, operation: c_int) -> Result<()> {
    const AT_ONCE: c_int = 4;
    descriptor::check(number).and_then(|number| {
        let waits = if operation & AT_ONCE == 0 { WAITS } else { 0 };
        fd::fcntl(number, syscall::F_GETFL, 0)?;
        // `LOCK_SH`, `LOCK_EX`, `LOCK_UN`.
        let (kind, length) = match operation & !AT_ONCE {
            1 => (StdFsCallKind::Lock, waits),
            2 => (StdFsCallKind::Lock, waits | HIGHEST),
            8 => (StdFsCallKind::Unlock, 0),
            _ => return Err(Error::new(EINVAL)),
        };
        call(number, kind, (HIGHEST, length), &mut []).map(|_| ())
    })
}

#[unsafe(no_mangle)]
extern "C" fn lockf(number: c_int, operation: c_int, length: i64) -> c_int {
    // `F_ULOCK`, `F_LOCK`, `F_TLOCK`, `F_TEST`.
    let (command, kind) = match operation {
        0 => (SET, NONE),
        1 => (SET_WAITING, EXCLUSIVE),
        2 => (SET, EXCLUSIVE),
        3 => (GET, EXCLUSIVE),
        _ => return errno::fail(EINVAL),
    };
    let mut request = Request {
        kind,
        whence: 1,
        start: 0,
        length,
        process: 0,
    };
    // SAFETY: a local.
    let result = points::interruptible(|| unsafe { control(number, command, &mut request) });
    errno::done(match result {
        Ok(_) if operation == 3 && request.kind != NONE => Err(Error::new(EACCES)),
        result => result.map(|_| ()),
    })
}
