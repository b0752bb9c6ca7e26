//! `poll` and `select`, for descriptors of any kind.

use alloc::vec::Vec;
use core::ffi::{c_int, c_short, c_ulong, c_void};
use core::time::Duration;

use runtime::{Error, Result, fd};
use syscall::error::{EBADF, EINVAL};

use crate::files::Timespec;
use crate::time::Timeval;
use crate::watch::{self, ERR, Entry, HUP, IN, NVAL, OUT, limit_of};
use crate::{arrivals, epoll, errno, own, points};

/// Waits until an entry is ready, at most for `limit`; returns how many are.
fn wait(entries: &mut [Entry], limit: Option<Duration>) -> Result<usize> {
    if entries
        .iter()
        .any(|entry| own::set_of(entry.number).is_some())
    {
        return epoll::wait_among(entries, limit);
    }
    let ready = |entries: &mut [Entry]| match watch::count(entries) {
        0 => None,
        ready => Some(ready),
    };
    Ok(watch::watch(entries, limit, ready)?.unwrap_or(0))
}

unsafe fn entries_of<'a>(entries: *mut Entry, count: c_ulong) -> Result<&'a mut [Entry]> {
    match usize::try_from(count) {
        Ok(0) => Ok(&mut []),
        Ok(count) if count <= 65_536 => {
            // SAFETY: the caller passed that many.
            Ok(unsafe { core::slice::from_raw_parts_mut(entries, count) })
        }
        _ => Err(Error::new(EINVAL)),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn poll(entries: *mut Entry, count: c_ulong, milliseconds: c_int) -> c_int {
    // SAFETY: the same contract.
    let entries = unsafe { entries_of(entries, count) };
    errno::small(
        entries.and_then(|entries| {
            points::ended_by_handlers(|| wait(entries, limit_of(milliseconds)))
        }),
    )
}

/// Runs a wait while the calling thread blocks the signals of a mask and no others, unless the mask
/// is null.
///
/// # Safety
/// The mask is null or the caller's.
unsafe fn blocking<T>(mask: *const u64, mut wait: impl FnMut() -> Result<T>) -> Result<T> {
    // SAFETY: the caller's promise.
    let mask = unsafe { mask.as_ref() };
    points::ended_by_handlers(|| match mask {
        Some(mask) => arrivals::blocking(*mask, &mut wait),
        None => wait(),
    })
}

/// The limit of a wait: `None` if there is none.
///
/// # Errors
/// `EINVAL`: it is no time.
///
/// # Safety
/// The limit is null or the caller's.
unsafe fn limit_at(limit: *const Timespec) -> Result<Option<Duration>> {
    // SAFETY: the caller's promise.
    match unsafe { limit.as_ref() }.map(Timespec::duration) {
        Some(None) => Err(Error::new(EINVAL)),
        Some(limit) => Ok(limit),
        None => Ok(None),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    entries: *mut Entry,
    count: c_ulong,
    limit: *const Timespec,
    mask: *const u64,
) -> c_int {
    // SAFETY: the caller's entries; the limit and the mask are null or the caller's.
    let ready = unsafe {
        limit_at(limit).and_then(|limit| {
            let entries = entries_of(entries, count)?;
            blocking(mask, || wait(entries, limit))
        })
    };
    errno::small(ready)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    set: c_int,
    places: *mut c_void,
    count: c_int,
    milliseconds: c_int,
    mask: *const u64,
) -> c_int {
    let limit = limit_of(milliseconds);
    // SAFETY: the same contract.
    errno::small(unsafe { blocking(mask, || epoll::wait(set, places.cast(), count, limit)) })
}

/// As `epoll_pwait`, with a limit in nanoseconds.
#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait2(
    set: c_int,
    places: *mut c_void,
    count: c_int,
    limit: *const Timespec,
    mask: *const u64,
) -> c_int {
    // SAFETY: the same contract.
    let ready = unsafe {
        limit_at(limit)
            .and_then(|limit| blocking(mask, || epoll::wait(set, places.cast(), count, limit)))
    };
    errno::small(ready)
}

/// A part of C's `fd_set`: 64 descriptors. A program may have memory for no more parts than the
/// count of descriptors has.
type Set = u64;

#[unsafe(no_mangle)]
unsafe extern "C" fn select(
    count: c_int,
    readable: *mut Set,
    writable: *mut Set,
    exceptional: *mut Set,
    limit: *mut Timeval,
) -> c_int {
    // SAFETY: null or the caller's structure.
    let limit = unsafe { limit.as_ref() }.map(Timeval::duration);
    // SAFETY: the same contract.
    let ready = points::ended_by_handlers(|| unsafe {
        select_within(count, readable, writable, exceptional, limit)
    });
    errno::small(ready)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    count: c_int,
    readable: *mut Set,
    writable: *mut Set,
    exceptional: *mut Set,
    limit: *const Timespec,
    mask: *const u64,
) -> c_int {
    // SAFETY: null or the caller's structure.
    let limit = unsafe { limit.as_ref() }.map(Timespec::duration);
    // SAFETY: the same contract.
    let ready = unsafe {
        blocking(mask, || {
            select_within(count, readable, writable, exceptional, limit)
        })
    };
    errno::small(ready)
}

/// `select` with a limit: `None` is no limit, `Some(None)` an invalid one.
///
/// # Safety
/// Each set is null, or has the parts for `count` descriptors.
unsafe fn select_within(
    count: c_int,
    readable: *mut Set,
    writable: *mut Set,
    exceptional: *mut Set,
    limit: Option<Option<Duration>>,
) -> Result<usize> {
    /// A set has no more; as on Linux, a program may pass a greater count all the same.
    const LIMIT: usize = 1024;
    let count = usize::try_from(count).map_err(|_| Error::new(EINVAL))?;
    let count = count.min(LIMIT);
    let limit = match limit {
        Some(None) => return Err(Error::new(EINVAL)),
        Some(limit) => limit,
        None => None,
    };
    // SAFETY: a set that is not null has the parts for all these descriptors.
    let wanted = |set: *mut Set, number: usize| unsafe {
        !set.is_null() && set.add(number / 64).read_unaligned() >> (number % 64) & 1 == 1
    };
    let mut entries = Vec::new();
    for number in 0..count {
        let mut events = 0;
        events |= if wanted(readable, number) { IN } else { 0 };
        events |= if wanted(writable, number) { OUT } else { 0 };
        if events != 0 {
            entries.push(Entry::new(number as c_int, events));
        } else if wanted(exceptional, number) {
            // No file has exceptions, so this descriptor only has to be open. A wait would find
            // that out, but use up the mark of a handler that has run, and the wait below would
            // sleep on.
            fd::fcntl(number, syscall::F_GETFD, 0)?;
        }
    }
    wait(&mut entries, limit)?;
    if entries.iter().any(|entry| entry.revents & NVAL != 0) {
        return Err(Error::new(EBADF));
    }
    let mut ready = 0;
    // An error or a hang-up makes both directions ready, as a read or a write then fails at once.
    let mut fill = |set: *mut Set, event: c_short| {
        if set.is_null() {
            return;
        }
        let mut parts = [0; LIMIT / 64];
        for entry in entries.iter().filter(|entry| entry.events & event != 0) {
            if entry.revents & (event | ERR | HUP) != 0 {
                parts[entry.number as usize / 64] |= 1 << (entry.number % 64);
                ready += 1;
            }
        }
        for (at, part) in parts.iter().enumerate().take(count.div_ceil(64)) {
            // SAFETY: one of the parts that the caller's set has.
            unsafe { set.add(at).write_unaligned(*part) };
        }
    };
    fill(readable, IN);
    fill(writable, OUT);
    fill(exceptional, 0);
    Ok(ready)
}
