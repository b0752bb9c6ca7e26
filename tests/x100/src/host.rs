//! The host's memory, as the card reaches it by physical address.

use std::cell::Cell;
use std::rc::Rc;

use hal::dma::Scattered;
use hal::mem::{PAGE, Region};
use micd::memory_object::BlockSource;
use syscall::error::{ENOMEM, Error, Result};

/// Physical address of the first byte: in the second entry of the SMPT.
pub const BASE: u64 = 0x4_8000_0000;
/// Bytes.
pub const BYTES: usize = 96 << 20;

/// The memory. Pages are given out once.
pub struct HostRam {
    region: Region,
    next: Cell<usize>,
    /// Physical address of the first byte.
    base: u64,
}

impl HostRam {
    /// Zeroed memory at [`BASE`].
    pub fn new() -> Rc<Self> {
        Self::at(BASE)
    }

    /// Zeroed memory elsewhere.
    pub fn at(base: u64) -> Rc<Self> {
        Rc::new(Self {
            region: Region::heap(BYTES),
            next: Cell::new(PAGE),
            base,
        })
    }

    /// The bytes at a physical address; `None`: there is no memory.
    pub fn window(&self, physical: u64, bytes: usize) -> Option<Region> {
        let offset = usize::try_from(physical.checked_sub(self.base)?).ok()?;
        self.region.part(offset, bytes).ok()
    }

    /// Fresh zeroed pages.
    pub fn allocate(&self, bytes: usize) -> Option<(Region, u64)> {
        let (start, bytes) = (self.next.get(), bytes.next_multiple_of(PAGE));
        let region = self.region.part(start, bytes).ok()?;
        self.next.set(start + bytes);
        Some((region, self.base + start as u64))
    }
}

/// The memory for the driver's engine.
pub struct Source(pub Rc<HostRam>);

impl BlockSource for Source {
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)> {
        self.0.allocate(bytes)
    }

    fn reserve(&mut self, _bytes: usize) -> Result<Scattered> {
        Err(Error::new(ENOMEM))
    }

    fn fill(&mut self, _scattered: &mut Scattered) -> Result<bool> {
        Err(Error::new(ENOMEM))
    }
}
