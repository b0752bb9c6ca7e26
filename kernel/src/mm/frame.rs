//! Physical memory in counted 4 KiB frames.

use alloc::vec::Vec;

/// One reference to a frame of RAM. Clone counts one up, drop one down; the last drop frees.
#[derive(Debug)]
pub struct FrameRef {
    number: u32,
}

/// How much memory there is.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Frames the allocator manages.
    pub total: usize,
    /// Frames nobody uses.
    pub free: usize,
}

impl FrameRef {
    /// Physical address of the frame.
    pub fn phys(&self) -> usize {
        self.number as usize * super::PAGE_SIZE
    }

    /// Copies bytes out of the frame. Panics when `offset + bytes.len()` exceeds the frame.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let _ = (offset, bytes);
        unfilled()
    }

    /// Copies bytes into the frame. Panics when `offset + bytes.len()` exceeds the frame.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let _ = (offset, bytes);
        unfilled()
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        unfilled()
    }
}

/// A frame full of zeros, or `None` when memory is used up.
pub fn alloc_zeroed() -> Option<FrameRef> {
    unfilled()
}

/// `pages` physically contiguous zeroed frames in ascending order.
pub fn alloc_contiguous(pages: usize) -> Option<Vec<FrameRef>> {
    let _ = pages;
    unfilled()
}

/// Whether the allocator manages this physical address (so it must not be mapped as device).
pub fn is_ram(phys: usize) -> bool {
    let _ = phys;
    unfilled()
}

/// Totals for `sys` and `fstatvfs` of `memory`.
pub fn stats() -> Stats {
    unfilled()
}

fn unfilled() -> ! {
    panic!("not filled yet")
}
