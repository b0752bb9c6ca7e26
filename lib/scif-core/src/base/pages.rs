//! Pinned memory as the driver describes it, and the table of a window's physically contiguous
//! chunks, in which windows and transfers look up an offset.

use alloc::vec::Vec;

use scif_abi::limits::PAGE_BYTES;

use crate::base::memory::{Locality, Place};

/// Bytes of a page, as a number of the registered address space.
pub(crate) const PAGE: u64 = PAGE_BYTES as u64;

/// Whether an address is the first of a page.
pub(crate) fn is_page(address: u64) -> bool {
    address.is_multiple_of(PAGE)
}

/// Consecutive pinned pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Local address of the first page, a multiple of the page size.
    pub address: u64,
    /// The number of pages, at least 1. They are contiguous for peers and copy engines as well.
    pub pages: u32,
}

/// The driver's name for memory it has pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PinId(pub u64);

/// Pinned pages that the driver provides for one use: a window or one transfer. When the use is
/// over, the engine reports [`Event::Unpin`](crate::Event::Unpin); until then the pages stay
/// pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The name to report when the pages are no longer used.
    pub pin: PinId,
    /// The pages, in the order of the range they back.
    pub runs: Vec<Run>,
    /// Whether a window of these pages counts for the limit of its user. Pages pinned by a
    /// kernel-mode client do not count.
    pub is_charged: bool,
}

/// Physically contiguous pages of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chunk {
    /// The number of the first page, counted from the start of the window.
    first: u64,
    /// The local or bus address of the first page.
    address: u64,
}

/// All pages of a window, as chunks. Neighbouring runs are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    locality: Locality,
    chunks: Vec<Chunk>,
    pages: u64,
}

impl Chunks {
    /// An empty table for the memory at `locality`, with room for `chunks` runs.
    pub(crate) fn new(locality: Locality, chunks: usize) -> Chunks {
        Chunks {
            locality,
            chunks: Vec::with_capacity(chunks),
            pages: 0,
        }
    }

    /// The table for own pages; `None` when a run is empty, unaligned or beyond the last address.
    pub(crate) fn own(runs: &[Run]) -> Option<Chunks> {
        let mut chunks = Chunks::new(Locality::Own, runs.len());
        for run in runs {
            chunks.push(run.address, u64::from(run.pages))?;
        }
        (chunks.pages > 0).then_some(chunks)
    }

    /// Adds `pages` pages at `address`; `None` if that is impossible.
    pub(crate) fn push(&mut self, address: u64, pages: u64) -> Option<()> {
        let bytes = pages.checked_mul(PAGE).filter(|bytes| *bytes > 0)?;
        address.checked_add(bytes)?;
        if !address.is_multiple_of(PAGE) {
            return None;
        }
        let continues = self
            .chunks
            .last()
            .is_some_and(|last| last.address + (self.pages - last.first) * PAGE == address);
        if !continues {
            let first = self.pages;
            self.chunks.push(Chunk { first, address });
        }
        self.pages = self.pages.checked_add(pages)?;
        Some(())
    }

    /// Number of pages.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    /// Number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.pages * PAGE
    }

    /// Number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Address and pages of each chunk.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.chunks.iter().skip(1).map(|chunk| chunk.first);
        let ends = ends.chain(core::iter::once(self.pages));
        self.chunks
            .iter()
            .zip(ends)
            .map(|(chunk, end)| (chunk.address, end - chunk.first))
    }

    /// Index of the chunk that holds byte `at`, by binary search.
    pub(crate) fn find(&self, at: u64) -> usize {
        let page = at / PAGE;
        self.chunks
            .partition_point(|chunk| chunk.first <= page)
            .saturating_sub(1)
    }

    /// The place of byte `at`, which is in chunk `index`, and the number of bytes from there to
    /// the end of that chunk; `None` if the byte is not in that chunk.
    pub(crate) fn run(&self, index: usize, at: u64) -> Option<(Place, u64)> {
        let chunk = self.chunks.get(index)?;
        let end = self.chunks.get(index + 1).map_or(self.pages, |c| c.first) * PAGE;
        let into = at.checked_sub(chunk.first * PAGE)?;
        let rest = end.checked_sub(at).filter(|rest| *rest > 0)?;
        Some((self.locality.place(chunk.address + into), rest))
    }

    /// As `run`, but looks up the chunk; `None` beyond the end.
    pub(crate) fn place(&self, at: u64) -> Option<(Place, u64)> {
        self.run(self.find(at), at)
    }

    /// The pieces of `length` bytes from byte `at` on: the place and the number of bytes of each.
    /// `None` if some of the bytes are beyond the end.
    pub(crate) fn pieces(&self, at: u64, length: u64) -> Option<Vec<(Place, u64)>> {
        let end = at.checked_add(length).filter(|end| *end <= self.bytes())?;
        let mut pieces = Vec::new();
        let (mut at, mut index) = (at, self.find(at));
        while at < end {
            let (place, rest) = self.run(index, at)?;
            let bytes = rest.min(end - at);
            pieces.push((place, bytes));
            at += bytes;
            index += 1;
        }
        Some(pieces)
    }
}
