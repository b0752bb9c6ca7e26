//! Memory of this process by address, as C names it.

use core::marker::PhantomData;
use core::ptr::NonNull;

use libredox::call::Call;
use syscall::error::{EFAULT, EINVAL, Error, Result};
use syscall::flag::CallFlags;

use crate::pages::{Readable, Writable};
use crate::reachable;
use hal::mem::PAGE;

unsafe extern "C" {
    fn redox_read_v1(fd: usize, bytes: *mut u8, count: usize) -> usize;
    fn redox_write_v1(fd: usize, bytes: *const u8, count: usize) -> usize;
}

/// Memory of this process by address, for calls that name memory the way C does. Perhaps nothing
/// is mapped there: the calls find that out.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    address: usize,
    bytes: usize,
    memory: PhantomData<&'a ()>,
}

impl<'a> Range<'a> {
    /// `bytes` bytes at `address`.
    ///
    /// # Safety
    /// What is mapped there, now and as long as the value is used, is memory that may change at
    /// any time: no reference leads there.
    pub const unsafe fn new(address: usize, bytes: usize) -> Self {
        Self {
            address,
            bytes,
            memory: PhantomData,
        }
    }

    /// The bytes of a slice, which nothing else uses as long as the value exists.
    pub fn of(slice: &'a mut [u8]) -> Self {
        Self {
            address: slice.as_mut_ptr().expose_provenance(),
            bytes: slice.len(),
            memory: PhantomData,
        }
    }

    /// A range in which no byte can be mapped, for testing how calls refuse it.
    pub const fn absent(bytes: usize) -> Self {
        Self {
            address: 1 << 47,
            bytes,
            memory: PhantomData,
        }
    }

    /// `bytes` bytes at address 0, where nothing is ever mapped: what C programs pass as `NULL`.
    pub const fn null(bytes: usize) -> Self {
        Self {
            address: 0,
            bytes,
            memory: PhantomData,
        }
    }

    /// The first address.
    pub const fn address(self) -> usize {
        self.address
    }

    /// Length in bytes.
    #[inline]
    pub const fn bytes(self) -> usize {
        self.bytes
    }

    /// The part `offset .. offset + bytes`.
    ///
    /// # Errors
    /// `EFAULT` when the part is not inside.
    #[inline(always)]
    pub fn part(self, offset: usize, bytes: usize) -> Result<Self> {
        let end = offset.checked_add(bytes);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(Error::new(EFAULT));
        }
        Ok(Self {
            address: self.address + offset,
            bytes,
            memory: self.memory,
        })
    }

    /// The whole pages that hold the range, and the range's offset in them. `None` when the range
    /// is empty or exceeds the address space. The caller must not change the bytes beside the
    /// range.
    pub fn around(self) -> Option<(Self, usize)> {
        let start = self.address - self.address % PAGE;
        let end = self.address.checked_add(self.bytes)?;
        let end = end.checked_next_multiple_of(PAGE)?;
        let pages = Self {
            address: start,
            bytes: end - start,
            memory: self.memory,
        };
        (self.bytes > 0).then_some((pages, self.address - start))
    }

    /// The range for copies made in this process, if all of it is memory that can be read. Device
    /// memory does not count.
    #[inline(always)]
    pub fn readable(self) -> Option<Readable<'a>> {
        let start = NonNull::new(self.address as *mut u8)?;
        let is_there = reachable::is_there(self.address, self.bytes, false);
        // SAFETY: looked up just now, and the program keeps its memory as long as the call runs.
        is_there.then(|| unsafe { Readable::new(start, self.bytes) })
    }

    /// As [`readable`](Self::readable), by a look at the range that was looked up last. `None` says
    /// nothing.
    #[inline(always)]
    pub fn readable_if_known(self) -> Option<Readable<'a>> {
        let start = NonNull::new(self.address as *mut u8)?;
        let is_known = reachable::is_known(self.address, self.bytes, false);
        // SAFETY: looked up, and not unmapped since, as whoever unmaps memory reports that; the
        // program keeps its memory as long as the call runs.
        is_known.then(|| unsafe { Readable::new(start, self.bytes) })
    }

    /// As [`writable`](Self::writable), by a look at the range that was looked up last. `None` says
    /// nothing.
    #[inline(always)]
    pub fn writable_if_known(self) -> Option<Writable<'a>> {
        let start = NonNull::new(self.address as *mut u8)?;
        let is_known = reachable::is_known(self.address, self.bytes, true);
        // SAFETY: as above.
        is_known.then(|| unsafe { Writable::new(start, self.bytes) })
    }

    /// [`readable`](Self::readable) for memory that can be read and written.
    #[inline(always)]
    pub fn writable(self) -> Option<Writable<'a>> {
        let start = NonNull::new(self.address as *mut u8)?;
        let is_there = reachable::is_there(self.address, self.bytes, true);
        // SAFETY: as above.
        is_there.then(|| unsafe { Writable::new(start, self.bytes) })
    }

    /// Checks that the range is whole pages, at least one.
    ///
    /// # Errors
    /// `EINVAL`.
    pub fn check_pages(self) -> Result<()> {
        let whole = self.address.is_multiple_of(PAGE) && self.bytes.is_multiple_of(PAGE);
        if !whole || self.bytes == 0 {
            return Err(Error::new(EINVAL));
        }
        Ok(())
    }
}

/// Makes a scheme call with memory of this process as payload, which the scheme may read and
/// write.
///
/// # Errors
/// Those of the scheme, and `EFAULT` when the range cannot be accessed.
pub fn call(fd: usize, payload: Range<'_>, metadata: &[u64]) -> Result<usize> {
    // SAFETY: the kernel checks the addresses; that the memory may change is what a range is.
    Ok(unsafe {
        fd.raw_call(
            payload.address as *mut u8,
            payload.bytes,
            CallFlags::READ | CallFlags::WRITE,
            metadata,
        )?
    })
}

/// Writes memory of this process to a file.
///
/// # Errors
/// Those of `write`; `EFAULT` when the range cannot be read.
pub fn write(fd: usize, data: Range<'_>) -> Result<usize> {
    // SAFETY: the kernel checks the addresses and reads only.
    let raw = unsafe { redox_write_v1(fd, data.address as *const u8, data.bytes) };
    Ok(libredox::error::Error::demux(raw)?)
}

/// Reads a file into memory of this process.
///
/// # Errors
/// Those of `read`; `EFAULT` when the range cannot be written.
pub fn read(fd: usize, to: Range<'_>) -> Result<usize> {
    // SAFETY: the kernel checks the addresses; that the memory may change is what a range is.
    let raw = unsafe { redox_read_v1(fd, to.address as *mut u8, to.bytes) };
    Ok(libredox::error::Error::demux(raw)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(address: usize, bytes: usize) -> Range<'static> {
        // SAFETY: nothing is accessed by these tests.
        unsafe { Range::new(address, bytes) }
    }

    #[test]
    fn the_pages_around_a_range_hold_it() {
        let around = |address, bytes| {
            let (whole, offset) = pages(address, bytes).around()?;
            Some((whole.address(), whole.bytes(), offset))
        };
        assert_eq!(around(0x1000, 0x1000), Some((0x1000, 0x1000, 0)));
        assert_eq!(around(0x1fff, 2), Some((0x1000, 0x2000, 0xfff)));
        assert_eq!(around(0x1001, 0xfff), Some((0x1000, 0x1000, 1)));
        assert_eq!(around(0x1001, 0), None);
        assert_eq!(around(usize::MAX - 1, 1), None);
        assert_eq!(around(usize::MAX, 2), None);
    }

    #[test]
    fn parts_stay_inside() {
        let range = pages(0x1000, 0x1000);
        assert_eq!(range.part(0x10, 0xff0).unwrap().address(), 0x1010);
        assert!(range.part(0x10, 0xff1).is_err());
        assert!(range.part(usize::MAX, 2).is_err());
    }
}
