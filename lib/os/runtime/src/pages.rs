//! Memory of whole pages that is unmapped when it is dropped; memory of the heap stays with the
//! process.

use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::{MAP_PRIVATE, PROT_READ, PROT_WRITE};
use syscall::TimeSpec;
use syscall::error::{EINVAL, ENOMEM, Error, Result};

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

    /// As [`Pages::new`], and every page has its memory already, so that no later access can end
    /// the process for want of it.
    ///
    /// # Errors
    /// Those of [`Pages::new`].
    pub fn present(size: usize) -> Result<Pages> {
        let mut pages = Pages::new(size)?;
        pages.bring_in(0, size)?;
        Ok(pages)
    }

    /// Gives the pages of the bytes from `start` to `end` their memory. They contain zeros, and
    /// do so afterwards.
    fn bring_in(&mut self, start: usize, end: usize) -> Result<()> {
        let first = start / syscall::PAGE_SIZE * syscall::PAGE_SIZE;
        for offset in (first..end.min(self.size)).step_by(syscall::PAGE_SIZE) {
            // SAFETY: a page of this value, and a time fits into it.
            let time = unsafe { self.start.add(offset) }.cast::<TimeSpec>();
            let clock = syscall::flag::CLOCK_MONOTONIC;
            let place = time.as_ptr() as usize;
            // Our own store to a page without memory would end the process. The kernel's store
            // returns an error, whatever it stores.
            // SAFETY: the call writes a time there, of memory that belongs to this value alone.
            let stored = unsafe { syscall::syscall2(syscall::SYS_CLOCK_GETTIME, clock, place) };
            stored.map_err(|_| Error::new(ENOMEM))?;
            // SAFETY: the page was written just now, and zero bytes are a valid time.
            unsafe { time.write_bytes(0, 1) };
        }
        Ok(())
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

/// Whole pages that other programs may have mapped, which load and store there at any time. So no
/// reference leads to them: bytes are copied in and out.
pub struct SharedPages(Pages);

impl SharedPages {
    /// Maps `size` bytes, rounded up to whole pages, which contain zeros.
    ///
    /// # Errors
    /// Those of [`Pages::new`].
    pub fn new(size: usize) -> Result<SharedPages> {
        Pages::new(size).map(SharedPages)
    }

    /// Number of bytes.
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// Address of the first byte.
    pub fn address(&self) -> usize {
        self.0.start.as_ptr() as usize
    }

    /// Gives the pages of the bytes from `start` to `end` their memory, so that no later access to
    /// them can end the process for want of it. Nobody has stored there yet.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn bring_in(&mut self, start: usize, end: usize) -> Result<()> {
        self.0.bring_in(start, end)
    }

    /// The byte at `at`, of `count` that must be within the pages.
    fn place(&self, at: usize, count: usize) -> *mut u8 {
        let end = at.checked_add(count);
        assert!(
            end.is_some_and(|end| end <= self.size()),
            "{count} bytes at {at} of {}",
            self.size()
        );
        // SAFETY: within the pages, as was checked.
        unsafe { self.0.start.as_ptr().add(at) }
    }

    /// Copies bytes out from `at` on. Panics beyond the end, as a slice does.
    pub fn read(&self, at: usize, buffer: &mut [u8]) {
        let from = self.place(at, buffer.len());
        // SAFETY: mapped, and apart from the buffer. Each byte may be old or new if a program
        // stores there meanwhile; any byte is valid.
        unsafe { core::ptr::copy_nonoverlapping(from, buffer.as_mut_ptr(), buffer.len()) };
    }

    /// Copies bytes in from `at` on. Panics beyond the end, as a slice does.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let to = self.place(at, bytes.len());
        // SAFETY: as in `read`; only this value lets this program store there.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Makes the bytes from `start` to `end` zero. Panics beyond the end, as a slice does.
    pub fn clear(&mut self, start: usize, end: usize) {
        let count = end.saturating_sub(start);
        let to = self.place(start, count);
        // SAFETY: as in `write`.
        unsafe { core::ptr::write_bytes(to, 0, count) };
    }
}
