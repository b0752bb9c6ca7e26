//! The functions that the C library calls for descriptors that are sockets.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};

use hal::idle_poll::Sign;
use libscif::table;
use scif::bypass::Bypass;
use scif::raw::Range;
use skiff_libc::parts::write_groups;
use syscall::error::{EINVAL, Error};
use syscall::flag::O_NONBLOCK;

use crate::messages::Received;
use crate::parts::{Part, parts_of};
use crate::sharing::{self, Outcome};
use crate::socket::{self, Socket};
use crate::{Result, closing, greetings, lingering, messages, readiness, transfer};

/// Converts a result for the C library: the value, or a negated error number.
fn give(result: Result<usize>) -> isize {
    match result {
        Ok(value) => value as isize,
        Err(error) => -(error as isize),
    }
}

/// Checks that the parts' total length fits into an `isize`.
fn check(parts: &[Part]) -> Result<()> {
    let mut bytes = parts.iter().map(|part| part.length);
    let total = bytes.try_fold(0_usize, usize::checked_add);
    let is_count = total.is_some_and(|total| isize::try_from(total).is_ok());
    is_count.then_some(()).ok_or(EINVAL)
}

/// Runs `action` on the parts one after the other, until it moves a part incompletely.
fn each(parts: &[Part], mut action: impl FnMut(Range<'_>, bool) -> Result<usize>) -> Result<usize> {
    check(parts)?;
    let mut moved = 0;
    let mut parts = parts.iter().filter(|part| part.length > 0).peekable();
    if parts.peek().is_none() {
        // SAFETY: no memory at all.
        return action(unsafe { Range::new(0, 0) }, true);
    }
    let mut is_first = true;
    for part in parts {
        // SAFETY: C's memory by C's rules: it may be read, or written, as the function says.
        let range = unsafe { Range::new(part.start as usize, part.length) };
        match action(range, is_first) {
            Ok(count) => {
                moved += count;
                if count < part.length {
                    break;
                }
            }
            Err(_) if moved > 0 => break,
            Err(error) => return Err(error),
        }
        is_first = false;
    }
    Ok(moved)
}

/// Sends parts, and small parts together: data of other threads does not come between them, and
/// many small parts cost no more than one.
///
/// # Errors
/// Those of [`transfer::send`]; `EINVAL` for too many bytes.
pub fn send(index: usize, socket: &Socket, parts: &[Part], flags: c_int) -> Result<usize> {
    if socket.transfers.is_some() {
        return messages::send(index, socket, parts, flags);
    }
    check(parts)?;
    let send = |part: &Part| {
        // SAFETY: C's memory by C's rules, which is only read.
        let range = unsafe { Range::new(part.start as usize, part.length) };
        transfer::send(index, socket, range, flags).map_err(Error::new)
    };
    if parts.is_empty() {
        return transfer::send(index, socket, Range::null(0), flags);
    }
    // SAFETY: C's memory by C's rules.
    unsafe { write_groups(parts, send) }.map_err(|error| error.errno)
}

/// Receives into parts. Waits at most for the first byte, unless `MSG_WAITALL` is set.
///
/// # Errors
/// Those of [`transfer::receive`]; `EINVAL` for too many bytes.
pub fn receive(index: usize, socket: &Socket, parts: &[Part], flags: c_int) -> Result<Received> {
    use transfer::flag::{DONTWAIT, PEEK, WAITALL};
    if socket.transfers.is_some() {
        return messages::receive(index, socket, parts, flags);
    }
    // Bytes after those for the first part cannot be peeked at.
    let parts = &parts[..if flags & PEEK != 0 {
        parts.len().min(1)
    } else {
        parts.len()
    }];
    let received = each(parts, |range, is_first| {
        let waits = is_first || flags & WAITALL != 0;
        let flags = if waits { flags } else { flags | DONTWAIT };
        transfer::receive(index, socket, range, flags)
    });
    received.map(|count| Received { count, flags: 0 })
}

/// `read` and `readv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_socket_read(number: c_int, parts: *const Part, count: usize) -> isize {
    give(socket::find(number).and_then(|(index, socket)| {
        // SAFETY: the same contract.
        let parts = unsafe { parts_of(parts, count) }?;
        receive(index, &socket, parts, 0).map(|received| received.count)
    }))
}

/// `write` and `writev`.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_socket_write(number: c_int, parts: *const Part, count: usize) -> isize {
    give(socket::find(number).and_then(|(index, socket)| {
        // SAFETY: the same contract.
        let parts = unsafe { parts_of(parts, count) }?;
        send(index, &socket, parts, 0)
    }))
}

/// `poll`. Returns the events that a socket is ready for, or a negated error number.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_readiness(number: c_int, events: c_int) -> c_int {
    let look = |(index, socket): (_, alloc::sync::Arc<Socket>)| {
        readiness::readiness(index, &socket, events)
    };
    socket::find(number)
        .and_then(look)
        .unwrap_or_else(|error| -error)
}

/// `poll`. Returns where the arrival of bytes at a stream socket, or of connection requests, will
/// be visible. A check after this call finds those that arrived before it.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_sign(number: c_int) -> Sign {
    match socket::find(number) {
        Ok((index, socket)) if socket.transfers.is_none() => table::with(index, Bypass::sign),
        _ => Sign::Event,
    }
}

/// `poll`. Stores the descriptors that have to be watched for reading besides the socket's own, at
/// most `most`, and returns their number.
///
/// # Safety
/// C's contract: `places` has room for `most` numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_socket_watched(number: c_int, places: *mut c_int, most: usize) -> usize {
    // SAFETY: the caller's promise.
    let places = unsafe { core::slice::from_raw_parts_mut(places, most) };
    let watched = socket::find(number).map_or(Vec::new(), |(_, socket)| {
        let mut watched = greetings::descriptors(&socket);
        // Without a free descriptor, the program has none for its event queue either.
        watched.extend(socket.settled().ok().flatten());
        watched
    });
    let pairs = places.iter_mut().zip(watched);
    pairs
        .map(|(place, descriptor)| *place = descriptor as c_int)
        .count()
}

/// `ioctl` with `FIONREAD`. Returns the bytes that can be received, or a negated error number.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_pending(number: c_int) -> c_int {
    let pending =
        socket::find(number).and_then(|(index, socket)| transfer::pending(index, &socket));
    give(pending) as c_int
}

/// Whether a descriptor is a stream socket. All calls that move its data are in this library, and
/// the C library is informed of them.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_is_stream(number: c_int) -> bool {
    socket::find(number).is_ok_and(|(_, socket)| socket.transfers.is_none())
}

/// Called when `fcntl` has set the flags of the file.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_flags(number: c_int, flags: usize) {
    if let Ok((_, socket)) = socket::find(number) {
        socket.set_nonblocking(flags & O_NONBLOCK != 0);
    }
}

/// `dup` and its kin. Makes `copy` a descriptor of the same socket; `false` if it fails.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_duplicated(number: c_int, copy: c_int) -> bool {
    let (Ok((_, socket)), Ok(index)) = (socket::find(number), usize::try_from(copy)) else {
        return false;
    };
    let former = socket::insert(index, socket);
    if let Some(former) = former {
        closing::let_go(&former);
    }
    true
}

/// `fork`, before memory is copied. Returns 0 or an error number.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_before_fork() -> c_int {
    sharing::before_fork().err().unwrap_or(0)
}

/// `fork`, afterwards, in both processes; `result` is that of the fork.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_after_fork(result: c_int) {
    let outcome = match result {
        0 => Outcome::Child,
        ..0 => Outcome::Failed,
        _ => Outcome::Parent,
    };
    // SAFETY: the C library calls the two in turn.
    unsafe { sharing::after_fork(outcome) };
}

/// Runs a function of the C library that replaces the process's program, or returns on failure.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_socket_exec(
    replace: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    // The threads that send unsent bytes end with the program.
    lingering::finish();
    let left = sharing::before_exec();
    // SAFETY: the caller's promise.
    unsafe { replace(argument) };
    sharing::exec_failed(left);
}

/// Called when the process is about to end.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_exit() {
    closing::close_all();
}

/// `close` and its kin, before the descriptor is closed. Returns whether it was a socket's.
#[unsafe(no_mangle)]
extern "C" fn skiff_socket_forget(number: c_int) -> bool {
    usize::try_from(number).is_ok_and(closing::close)
}
