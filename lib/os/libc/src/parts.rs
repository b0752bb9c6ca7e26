//! The parts of a transfer (`sys/uio.h`).

use core::ffi::{c_int, c_void};

use runtime::{Error, Result};
use syscall::error::{EFAULT, EINVAL};

unsafe extern "C" {
    /// Whether all of these bytes are memory that can be read; in `libscif`.
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
    /// Memory as the one part of a transfer.
    pub fn new(start: *mut c_void, length: usize) -> Self {
        Self { start, length }
    }
}

/// Most parts of a transfer (`IOV_MAX`).
const MOST_PARTS: usize = 1024;

/// Parts that follow each other are written by one call when they have no more bytes than this,
/// `PIPE_BUF`. Nothing that others write to a pipe comes between them then, and many small parts
/// cost few calls.
const TOGETHER: usize = 4096;

/// The parts of a transfer, which are not too many nor too long.
///
/// # Safety
/// `parts` is null or leads to that many.
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

/// Moves the parts one after the other until one is moved in part.
///
/// # Errors
/// That of the first transfer.
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

/// The number of parts that are written together, at least one, and of their bytes. One that cannot
/// be read is written alone: whoever writes it finds the error.
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

/// Writes the parts, small ones together, until less is written than was given.
///
/// # Errors
/// That of the first call.
///
/// # Safety
/// The memory of the parts stays what it is.
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
