//! The parts of a transfer (`struct iovec` of `sys/uio.h`).

use core::ffi::{c_int, c_void};

use runtime::{Error, Result};
use syscall::error::{EFAULT, EINVAL};

unsafe extern "C" {
    /// Whether all these bytes are readable memory; in `libscif`.
    safe fn skiff_scif_can_read(start: *const c_void, length: usize) -> bool;
}

/// One part of a transfer, C's `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Part {
    /// The first byte.
    pub start: *mut c_void,
    /// The number of bytes.
    pub length: usize,
}

impl Part {
    /// Makes the only part of a transfer.
    pub fn new(start: *mut c_void, length: usize) -> Self {
        Self { start, length }
    }
}

/// The most parts of a transfer (`IOV_MAX`).
const MOST_PARTS: usize = 1024;

/// Consecutive parts of at most this many bytes together, `PIPE_BUF`, are written by one call.
/// Then nothing that others write to a pipe comes between them, and many small parts cost few
/// calls.
const TOGETHER: usize = 4096;

/// The parts of a transfer; `EINVAL` if they are too many or too long.
///
/// # Safety
/// `parts` is null or points to that many.
pub unsafe fn parts_of<'a>(parts: *const Part, count: c_int) -> Result<&'a [Part]> {
    let count = usize::try_from(count).ok();
    let count = count.filter(|count| *count <= MOST_PARTS);
    let parts = match count.ok_or(Error::new(EINVAL))? {
        0 => &[],
        _ if parts.is_null() => return Err(Error::new(EFAULT)),
        // SAFETY: the caller's promise.
        count => unsafe { core::slice::from_raw_parts(parts, count) },
    };
    let mut lengths = parts.iter().map(|part| part.length);
    let total = lengths.try_fold(0_usize, usize::checked_add);
    match total.is_some_and(|total| isize::try_from(total).is_ok()) {
        true => Ok(parts),
        false => Err(Error::new(EINVAL)),
    }
}

/// Transfers the parts one after the other until one is transferred incompletely.
///
/// # Errors
/// Those of the first transfer.
pub fn each(parts: &[Part], mut transfer: impl FnMut(&Part) -> Result<usize>) -> Result<usize> {
    let mut moved = 0;
    for part in parts {
        match transfer(part) {
            Ok(count) => {
                moved += count;
                if count < part.length {
                    break;
                }
            }
            Err(error) if moved == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(moved)
}

/// How many parts to write together, at least one, and the number of their bytes. An unreadable
/// part is written alone, so that the write finds the error.
fn group(parts: &[Part]) -> (usize, usize) {
    let mut bytes = 0;
    let fits = |part: &&Part| match TOGETHER.checked_sub(bytes) {
        Some(room) if part.length <= room => {
            let is_there = part.length == 0 || skiff_scif_can_read(part.start, part.length);
            bytes += if is_there { part.length } else { 0 };
            is_there
        }
        _ => false,
    };
    match parts.iter().take_while(fits).count() {
        0 => (1, parts.first().map_or(0, |part| part.length)),
        count => (count, bytes),
    }
}

/// Writes the parts, small ones together, until a call writes less than it was given.
///
/// # Errors
/// Those of the first call.
///
/// # Safety
/// No other thread changes or unmaps the memory of the parts.
pub unsafe fn write_groups(
    parts: &[Part],
    mut write: impl FnMut(&Part) -> Result<usize>,
) -> Result<usize> {
    if parts.len() < 2 {
        return each(parts, write);
    }
    let mut room = [0_u8; TOGETHER];
    let mut moved = 0;
    let mut rest = parts;
    while !rest.is_empty() {
        let (count, bytes) = group(rest);
        let (together, behind) = rest.split_at(count);
        let written = match together {
            [part] => write(part),
            _ => {
                let mut filled = 0;
                for part in together.iter().filter(|part| part.length > 0) {
                    // SAFETY: `group` took what fits and can be read, and the caller's promise.
                    unsafe {
                        let place = room.as_mut_ptr().add(filled);
                        place.copy_from_nonoverlapping(part.start.cast(), part.length);
                    }
                    filled += part.length;
                }
                write(&Part::new(room.as_mut_ptr().cast(), bytes))
            }
        };
        match written {
            Ok(count) => {
                moved += count;
                if count < bytes {
                    break;
                }
            }
            Err(error) if moved == 0 => return Err(error),
            Err(_) => break,
        }
        rest = behind;
    }
    Ok(moved)
}
