//! Memory that devices and peers reach by physical address.
//!
//! The kernel gives physically contiguous memory in pieces of at most 4 MiB. Pieces are rounded
//! to a power of two pages: the upstream kernel never takes back the rest of other sizes.

use libredox::Fd;
use libredox::flag::O_CLOEXEC;
use syscall::error::{EINVAL, Error, Result};
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
