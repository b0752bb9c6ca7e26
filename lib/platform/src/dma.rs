//! Memory that devices and peers reach by physical address.
//!
//! The kernel gives physically contiguous memory in pieces of at most 4 MiB. Pieces are rounded
//! to a power of two pages: the upstream kernel never takes back the rest of other sizes.

use alloc::vec::Vec;

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use syscall::error::{EINVAL, EOVERFLOW, Error, Result};
use syscall::flag::CallFlags;

use crate::mem::{self, PAGE, Region};

/// Largest physically contiguous piece, in bytes.
pub const MAX_CONTIGUOUS: usize = 4 << 20;

/// A source of DMA memory; holds what allocation needs, so that it works after the daemon gave
/// up its names.
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

/// Virtually contiguous memory of several physical pieces.
#[derive(Clone, Debug)]
pub struct Scattered {
    region: Region,
    pieces: Vec<Piece>,
}

/// One physical piece of a [`Scattered`] buffer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Piece {
    /// Physical address of its first byte.
    pub physical: u64,
    /// Bytes.
    pub bytes: usize,
}

impl Allocator {
    /// Opens the kernel's memory sources; root only (`EACCES`).
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
        let whole = bytes.div_ceil(PAGE).next_power_of_two() * PAGE;
        let region = mem::map_private(self.contiguous.raw(), whole)?;
        let physical = self.translate(region.address())?;
        Ok(Buffer { region, physical })
    }

    /// Allocates zeroed memory of any size from contiguous pieces.
    pub fn allocate_scattered(&self, bytes: usize) -> Result<Scattered> {
        let whole = bytes
            .checked_next_multiple_of(PAGE)
            .ok_or(Error::new(EOVERFLOW))?;
        let region = mem::map_anonymous(whole)?;
        let mut pieces = Vec::new();
        let mut offset = 0;
        while offset < whole {
            let pages = (whole - offset).min(MAX_CONTIGUOUS) / PAGE;
            // The largest power of two that fits.
            let bytes = (1 << pages.ilog2()) * PAGE;
            mem::replace(&region, offset, bytes, self.contiguous.raw())?;
            let physical = self.translate(region.address() + offset)?;
            pieces.push(Piece { physical, bytes });
            offset += bytes;
        }
        Ok(Scattered { region, pieces })
    }

    /// The physical address behind a virtual address of this process; the page must be present.
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
    /// The memory.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Its physical pieces in order.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }
}
