//! The parts of a transfer, as C's `readv`, `writev` and `sendmsg` name them.

pub use skiff_libc::parts::Part;
use syscall::error::{EFAULT, EMSGSIZE};

use crate::Result;

/// Most parts of a transfer (`IOV_MAX`).
const MOST_PARTS: usize = 1024;

/// Returns the parts that a C program names.
///
/// # Safety
/// C's contract: there are `count` parts.
pub unsafe fn parts_of<'a>(parts: *const Part, count: usize) -> Result<&'a [Part]> {
    match count {
        0 => Ok(&[]),
        _ if parts.is_null() => Err(EFAULT),
        1..=MOST_PARTS => {
            // SAFETY: the caller's promise.
            Ok(unsafe { core::slice::from_raw_parts(parts, count) })
        }
        _ => Err(EMSGSIZE),
    }
}
