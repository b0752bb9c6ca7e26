//! Memory of whole pages that is unmapped when it is dropped; memory of the heap stays with the
//! process.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::{MAP_PRIVATE, PROT_READ, PROT_WRITE};
use syscall::error::{EINVAL, Error, Result};

/// Whole pages, which contain zeros at first.
pub struct Pages {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Pages {}
// SAFETY: shared references only read it.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `size` bytes, rounded up to whole pages.
    ///
    /// # Errors
    /// `EINVAL` for 0 or too many bytes; `ENOMEM`.
    pub fn new(size: usize) -> Result<Pages> {
        let rounded = size.checked_next_multiple_of(syscall::PAGE_SIZE);
        let size = rounded.filter(|&size| size > 0).ok_or(Error::new(EINVAL))?;
        // SAFETY: without an address nothing that exists is replaced.
        let start = unsafe {
            mmap(MmapArgs {
                addr: core::ptr::null_mut(),
                length: size,
                prot: PROT_READ | PROT_WRITE,
                flags: MAP_PRIVATE,
                fd: usize::MAX,
                offset: 0,
            })?
        };
        let start = NonNull::new(start.cast()).ok_or(Error::new(EINVAL))?;
        Ok(Pages { start, size })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nobody else refers to it.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.size) };
        if let Err(error) = unmapped {
            log::warn!("{} bytes stay mapped: {error}", self.size);
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: these bytes are mapped, and only this value leads to them.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.size) }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.size) }
    }
}
