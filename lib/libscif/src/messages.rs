//! `scif_send` and `scif_recv`.

use core::ffi::{c_int, c_void};

use scif::bypass::Bypass;
use scif::raw::Known;
use syscall::error::EINVAL;

use crate::system::{endpoint, fail, interruptible, is_alone};
use crate::{Result, range, table};

/// Converts a count for C: -1 on failure, with `errno`.
fn give(result: Result<usize>) -> c_int {
    match result {
        Ok(count) => count as c_int,
        Err(number) => fail(number),
    }
}

/// Checks the length of a message. `None` stands for 0, which every endpoint accepts in any state.
fn length_of(length: c_int) -> Result<Option<usize>> {
    match usize::try_from(length) {
        Ok(0) => Ok(None),
        Ok(length) => Ok(Some(length)),
        Err(_) => Err(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_send(
    epd: c_int,
    message: *mut c_void,
    length: c_int,
    flags: c_int,
) -> c_int {
    // A negative length becomes one that no call takes at once, so that its range is never used.
    // SAFETY: the caller's memory, which is only read.
    let known = Known(unsafe { range(message, length as u32 as usize) });
    let send = |bypass: &Bypass| bypass.send_at_once(known, flags as u32);
    if let Some(Some(sent)) = table::at_once_alone(epd, send) {
        return sent as c_int;
    }
    // SAFETY: as above.
    unsafe { send_otherwise(epd, message, length, flags) }
}

/// `scif_send` when the first way did not send. The second one is for a program with several
/// threads, and for memory that was not the last to be looked up. A function of its own, because it
/// needs more registers.
///
/// # Safety
/// That of [`range`].
#[inline(never)]
unsafe fn send_otherwise(epd: c_int, message: *mut c_void, length: c_int, flags: c_int) -> c_int {
    if let Ok(count @ 1..) = usize::try_from(length) {
        // SAFETY: the caller's promise.
        let message = unsafe { range(message, count) };
        let send = |bypass: &Bypass| bypass.send_at_once(message, flags as u32);
        let is_tried = is_alone() && message.readable_if_known().is_some();
        if !is_tried && let Some(Some(sent)) = table::at_once(epd, send) {
            return sent as c_int;
        }
    }
    // SAFETY: as above.
    unsafe { send_slowly(epd, message, length, flags) }
}

/// `scif_send` in all cases that do not succeed at once.
///
/// # Safety
/// That of [`range`].
#[inline(never)]
unsafe fn send_slowly(epd: c_int, message: *mut c_void, length: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let of = |length| unsafe { range(message, length) };
    give(interruptible(|| {
        if let Ok(length @ 1..) = usize::try_from(length) {
            let send = |epd, bypass: &Bypass| bypass.send(epd, of(length), flags as u32);
            if let Some(sent) = table::with_known(epd, send) {
                return sent;
            }
        }
        let epd = endpoint(epd)?;
        match length_of(length)? {
            Some(length) => table::with(epd, |bypass| bypass.send(epd, of(length), flags as u32)),
            None => Ok(0),
        }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_recv(
    epd: c_int,
    buffer: *mut c_void,
    length: c_int,
    flags: c_int,
) -> c_int {
    // A negative length as above.
    // SAFETY: the caller's memory, which it lets be written.
    let known = Known(unsafe { range(buffer, length as u32 as usize) });
    let receive = |bypass: &Bypass| bypass.recv_at_once(known, flags as u32);
    if let Some(Some(received)) = table::at_once_alone(epd, receive) {
        return received as c_int;
    }
    // SAFETY: as above.
    unsafe { receive_otherwise(epd, buffer, length, flags) }
}

/// As [`send_otherwise`], for `scif_recv`.
///
/// # Safety
/// That of [`range`].
#[inline(never)]
unsafe fn receive_otherwise(epd: c_int, buffer: *mut c_void, length: c_int, flags: c_int) -> c_int {
    if let Ok(count @ 1..) = usize::try_from(length) {
        // SAFETY: the caller's promise.
        let buffer = unsafe { range(buffer, count) };
        let receive = |bypass: &Bypass| bypass.recv_at_once(buffer, flags as u32);
        let is_tried = is_alone() && buffer.writable_if_known().is_some();
        if !is_tried && let Some(Some(received)) = table::at_once(epd, receive) {
            return received as c_int;
        }
    }
    // SAFETY: as above.
    unsafe { receive_slowly(epd, buffer, length, flags) }
}

/// `scif_recv` in all cases that do not succeed at once.
///
/// # Safety
/// That of [`range`].
#[inline(never)]
unsafe fn receive_slowly(epd: c_int, buffer: *mut c_void, length: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let of = |length| unsafe { range(buffer, length) };
    give(interruptible(|| {
        if let Ok(length @ 1..) = usize::try_from(length) {
            let receive = |epd, bypass: &Bypass| bypass.recv(epd, of(length), flags as u32);
            if let Some(received) = table::with_known(epd, receive) {
                return received;
            }
        }
        let epd = endpoint(epd)?;
        match length_of(length)? {
            Some(length) => table::with(epd, |bypass| bypass.recv(epd, of(length), flags as u32)),
            None => Ok(0),
        }
    }))
}
