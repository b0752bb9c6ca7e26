//! Memory that devices and peers reach by physical address.
//!
//! The kernel gives physically contiguous memory in pieces of at most 4 MiB. An allocation takes a
//! power of two of pages, because the upstream kernel never takes back the rest of other sizes,
//! and then unmaps the pages that it does not need.

use alloc::vec::Vec;

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use syscall::error::{EINVAL, ENOMEM, EOVERFLOW, Error, Result};
use syscall::flag::CallFlags;

use crate::mem::{self, PAGE, Region};

/// Bytes that [`Allocator::fill`] leaves to the rest of the system. What it allocates is for
/// clients, and the system's own programs must not run out of pages because of them.
const LEFT_TO_OTHERS: usize = 8 << 20;

/// Largest physically contiguous piece, in bytes.
pub const MAX_CONTIGUOUS: usize = 4 << 20;

/// A source of DMA memory. It holds the files that allocation needs, so that it works after the
/// daemon has given up its namespace.
pub struct Allocator {
    contiguous: Fd,
    translation: Fd,
}

/// Physically contiguous memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    region: Region,
    physical: u64,
}

/// One physical piece of scattered memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// Physical address of its first byte.
    pub physical: u64,
    /// Bytes, a power of two of at least a page.
    pub bytes: usize,
}

/// Memory of several physical pieces behind one range of addresses. [`Allocator::fill`] adds the
/// pieces one by one, so that no request waits while a large range is cleared.
#[derive(Debug)]
pub struct Scattered {
    region: Region,
    plan: Plan,
}

/// Plans the next piece: as large as the rest has room for, and as the system could give last
/// time.
#[derive(Debug)]
struct Plan {
    whole: usize,
    filled: usize,
    largest: usize,
    pieces: Vec<Piece>,
}

impl Plan {
    fn new(whole: usize) -> Self {
        Self {
            whole,
            filled: 0,
            largest: MAX_CONTIGUOUS,
            pieces: Vec::new(),
        }
    }

    /// Takes one piece from `take(offset, bytes)`, which returns its physical address or `ENOMEM`.
    /// Returns whether more pieces follow.
    fn advance(&mut self, mut take: impl FnMut(usize, usize) -> Result<u64>) -> Result<bool> {
        let rest = (self.whole - self.filled) / PAGE;
        let Some(order) = rest.checked_ilog2() else {
            return Ok(false);
        };
        let mut bytes = self.largest.min(PAGE << order);
        loop {
            match take(self.filled, bytes) {
                Ok(physical) => {
                    self.pieces.push(Piece { physical, bytes });
                    self.filled += bytes;
                    return Ok(self.filled < self.whole);
                }
                Err(Error { errno: ENOMEM }) if bytes > PAGE => {
                    bytes /= 2;
                    self.largest = bytes;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Allocator {
    /// Opens the kernel's memory sources; root only.
    ///
    /// # Errors
    /// `EACCES` for callers other than root; others of opening the files.
    pub fn new() -> Result<Self> {
        let open = |path| Fd::open(path, O_CLOEXEC, 0);
        Ok(Self {
            contiguous: open("/scheme/memory/zeroed@wb?phys_contiguous")?,
            translation: open("/scheme/memory/translation")?,
        })
    }

    /// Allocates zeroed contiguous memory.
    ///
    /// # Errors
    /// `EINVAL` for zero bytes or more than [`MAX_CONTIGUOUS`], `ENOMEM`.
    pub fn allocate(&self, bytes: usize) -> Result<Buffer> {
        if bytes == 0 || bytes > MAX_CONTIGUOUS {
            return Err(Error::new(EINVAL));
        }
        let bytes = bytes.next_multiple_of(PAGE);
        let whole = bytes.next_power_of_two();
        let region = mem::map_start(self.contiguous.raw(), whole, bytes)?;
        let physical = self.translate(region.address())?;
        Ok(Buffer { region, physical })
    }

    /// Reserves room for scattered memory of any size, without pieces in it yet.
    ///
    /// # Errors
    /// `EINVAL` for zero bytes, `EOVERFLOW`, `ENOMEM`.
    pub fn reserve(&self, bytes: usize) -> Result<Scattered> {
        if bytes == 0 {
            return Err(Error::new(EINVAL));
        }
        let whole = bytes
            .checked_next_multiple_of(PAGE)
            .ok_or(Error::new(EOVERFLOW))?;
        mem::reserve(whole).map(Scattered::over)
    }

    /// Adds the next piece of zeroed memory, at most [`MAX_CONTIGUOUS`] bytes. Returns whether
    /// more pieces follow.
    ///
    /// # Errors
    /// `ENOMEM` when there is not even one page to spare.
    pub fn fill(&self, scattered: &mut Scattered) -> Result<bool> {
        let region = scattered.region.clone();
        let free = self.free_bytes()?;
        scattered.take(|offset, bytes| {
            if free.saturating_sub(LEFT_TO_OTHERS) < bytes {
                return Err(Error::new(ENOMEM));
            }
            mem::replace(&region, offset, bytes, self.contiguous.raw())?;
            self.translate(region.address() + offset)
        })
    }

    /// Bytes of free memory of the whole system, at this moment.
    fn free_bytes(&self) -> Result<usize> {
        let status = libredox::call::fstatvfs(self.contiguous.raw())?;
        Ok((status.f_bavail as usize).saturating_mul(status.f_bsize as usize))
    }

    /// The physical address behind a virtual address of this process; the page must be present.
    ///
    /// # Errors
    /// `ENOENT` when no page is present there; those of the translation's file.
    pub fn translate(&self, address: usize) -> Result<u64> {
        let mut word = address.to_ne_bytes();
        self.translation
            .call_rw(&mut word, CallFlags::empty(), &[])?;
        // The kernel answers with the page's address.
        let offset = (address % PAGE) as u64;
        Ok((usize::from_ne_bytes(word) as u64 & !(PAGE as u64 - 1)) | offset)
    }
}

impl Buffer {
    /// The memory.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Physical address of its first byte.
    pub fn physical(&self) -> u64 {
        self.physical
    }
}

impl Scattered {
    /// Scattered memory without pieces yet, over a region of whole pages.
    pub fn over(region: Region) -> Self {
        let plan = Plan::new(region.len() / PAGE * PAGE);
        Self { region, plan }
    }

    /// Adds the next piece. `place(offset, bytes)` puts memory there and returns its physical
    /// address; when it returns `ENOMEM`, it is asked for a smaller piece. Returns whether more
    /// pieces follow.
    ///
    /// # Errors
    /// Any other error of `place`, or `ENOMEM` for a single page.
    pub fn take(&mut self, place: impl FnMut(usize, usize) -> Result<u64>) -> Result<bool> {
        self.plan.advance(place)
    }

    /// The memory, one range.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Its physical pieces so far, in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.plan.pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives pieces of at most `largest` bytes while `left` lasts, one behind the other.
    fn fill(whole: usize, largest: usize, mut left: usize) -> Result<Vec<Piece>> {
        let mut plan = Plan::new(whole);
        let mut next = 0x10_0000;
        loop {
            let more = plan.advance(|offset, bytes| {
                assert!(bytes.is_power_of_two() && bytes >= PAGE && offset + bytes <= whole);
                if bytes > largest || bytes > left {
                    return Err(Error::new(ENOMEM));
                }
                left -= bytes;
                next += bytes as u64;
                Ok(next - bytes as u64)
            })?;
            if !more {
                return Ok(plan.pieces);
            }
        }
    }

    fn sizes(pieces: &[Piece]) -> Vec<usize> {
        pieces.iter().map(|piece| piece.bytes / PAGE).collect()
    }

    #[test]
    fn pieces_are_as_large_as_fits() {
        let pieces = fill(9 * MAX_CONTIGUOUS / 4 + 3 * PAGE, usize::MAX, usize::MAX).unwrap();
        assert_eq!(sizes(&pieces), [1024, 1024, 256, 2, 1]);
        assert_eq!(pieces[1].physical, pieces[0].physical + 4096 * 1024);
        assert_eq!(sizes(&fill(PAGE, usize::MAX, usize::MAX).unwrap()), [1]);
    }

    #[test]
    fn scarce_memory_gives_smaller_pieces_and_then_an_error() {
        let pieces = fill(7 * PAGE, 2 * PAGE, usize::MAX).unwrap();
        assert_eq!(sizes(&pieces), [2, 2, 2, 1]);
        assert_eq!(
            fill(7 * PAGE, PAGE, 7 * PAGE).map(|pieces| pieces.len()),
            Ok(7)
        );
        assert_eq!(fill(7 * PAGE, 4 * PAGE, 6 * PAGE), Err(Error::new(ENOMEM)));
    }
}
