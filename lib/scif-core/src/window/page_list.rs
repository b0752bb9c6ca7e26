//! The page list of a window on its way to the other end: a structure and tables that the user of
//! the window grants, and that the owner fills in.
//!
//! Neither side trusts the other. The user takes the structure back, copies it once, checks each
//! value and keeps chunks of its own, so the structure is free again before the window is used.
//! The owner checks the addresses that it was given before it writes.

use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::flags::Protection;
use scif_abi::limits::{MAX_WINDOW_PAGES, PAGE_BYTES};
use scif_abi::qp::QP_MAGIC;
use scif_abi::window::{TABLE_ENTRIES, WINDOW_BYTES, WindowFill, WindowRecord, tables};
use zerocopy::{FromZeros, IntoBytes};

use crate::base::memory::{BadAddress, Locality, Memory};
use crate::base::pages::{Chunks, PAGE};
use crate::window::space::range_end;

/// Bytes of one entry of a lookup array or table.
const WORD: u64 = 8;

/// The offset of the lookup arrays in the first block, behind the structure.
const LOOKUPS_OFFSET: u64 = (WINDOW_BYTES as u64).next_multiple_of(64);

/// How many pages of tables are allocated in one piece.
const PIECE_PAGES: u64 = 64;

/// How many entries of a table are read or written together.
const BATCH: usize = 32;

/// A structure granted to `locality` for a window of `pages` pages.
#[derive(Debug)]
pub(crate) struct PageListBuffer {
    locality: Locality,
    pages: u64,
    /// Local address and pages of each block: first the structure with its lookup arrays, then the
    /// tables, those for addresses before those for counts.
    blocks: Vec<(u64, u64)>,
}

/// How many pages the structure and both lookup arrays need.
fn head_pages(pages: u64) -> u64 {
    (LOOKUPS_OFFSET + 2 * tables(pages) * WORD).div_ceil(PAGE)
}

/// How many pages the structure and the tables need for a window of `pages` pages.
pub(crate) fn page_list_pages(pages: u64) -> u64 {
    head_pages(pages) + 2 * tables(pages)
}

impl PageListBuffer {
    /// Allocates the structure. `None`: no memory.
    pub(crate) fn new(
        mem: &mut dyn Memory,
        locality: Locality,
        pages: u64,
    ) -> Option<PageListBuffer> {
        let mut page_list = PageListBuffer {
            locality,
            pages,
            blocks: Vec::new(),
        };
        if page_list.allocate(mem).is_none() || page_list.write(mem).is_none() {
            page_list.free(mem);
            return None;
        }
        Some(page_list)
    }

    fn allocate(&mut self, mem: &mut dyn Memory) -> Option<()> {
        let mut left = 2 * tables(self.pages);
        let mut size = head_pages(self.pages);
        loop {
            let address = mem.allocate(size as usize * PAGE_BYTES)?;
            self.blocks.push((address, size));
            if left == 0 {
                return Some(());
            }
            size = left.min(PIECE_PAGES);
            left -= size;
        }
    }

    /// Fills in the structure and the lookup arrays.
    fn write(&self, mem: &mut dyn Memory) -> Option<()> {
        let count = tables(self.pages);
        for index in 0..2 * count {
            let table = self.locality.export(mem, self.table(index)?);
            let entry = self.address()? + LOOKUPS_OFFSET + index * WORD;
            mem.write(entry, &table.to_le_bytes());
        }
        let own = self.exported(mem)?;
        let addresses = own + LOOKUPS_OFFSET;
        let pages = u32::try_from(self.pages).ok()?;
        let record = WindowRecord::granted(pages, own, addresses, addresses + count * WORD);
        mem.write(self.address()?, record.as_bytes());
        Some(())
    }

    /// Local address of the structure.
    fn address(&self) -> Option<u64> {
        self.blocks.first().map(|(address, _)| *address)
    }

    /// Bus address of the structure.
    pub(crate) fn exported(&self, mem: &dyn Memory) -> Option<u64> {
        Some(self.locality.export(mem, self.address()?))
    }

    /// Local address of table `index`. The tables of addresses come first, then those of counts.
    fn table(&self, index: u64) -> Option<u64> {
        let (piece, page) = (index / PIECE_PAGES, index % PIECE_PAGES);
        let (address, _) = self.blocks.get(1 + piece as usize)?;
        Some(address + page * PAGE)
    }

    /// The node that the structure is granted to; `own` is this node.
    pub(crate) fn node(&self, own: NodeId) -> NodeId {
        match self.locality {
            Locality::Own => own,
            Locality::Peer(node) => node,
        }
    }

    /// How many pages of shared memory it has.
    pub(crate) fn granted_pages(&self) -> usize {
        page_list_pages(self.pages) as usize
    }

    /// Whether `bytes` bytes at local address `address` are inside it.
    fn holds(&self, address: u64, bytes: usize) -> bool {
        let end = address.checked_add(bytes as u64);
        self.blocks.iter().any(|(start, pages)| {
            *start <= address && end.is_some_and(|end| end <= start + pages * PAGE)
        })
    }

    /// Frees it. The owner of the window does not write to it any more.
    pub(crate) fn free(self, mem: &mut dyn Memory) {
        for (address, pages) in self.blocks {
            mem.free(address, pages as usize * PAGE_BYTES);
        }
    }

    /// Reads what the owner wrote, each value once: offset, protection and pages of the window.
    /// `None`: it is invalid.
    pub(crate) fn read(&self, mem: &dyn Memory) -> Option<(i64, Protection, Chunks)> {
        let mut record = WindowRecord::new_zeroed();
        mem.read(self.address()?, record.as_mut_bytes());
        let count = u64::from(record.chunks.get());
        let offset = record.offset.get();
        let protection = Protection::from_bits(record.protection.get())?;
        range_end(offset, self.pages * PAGE)?;
        if count == 0 || count > self.pages || !offset.cast_unsigned().is_multiple_of(PAGE) {
            return None;
        }
        let mut chunks = Chunks::new(self.locality, 0);
        for first in (0..count).step_by(BATCH) {
            self.read_batch(mem, first, count, &mut chunks)?;
        }
        (chunks.pages() == self.pages).then_some((offset, protection, chunks))
    }

    /// Reads one batch of chunks, from number `first` on.
    fn read_batch(
        &self,
        mem: &dyn Memory,
        first: u64,
        count: u64,
        chunks: &mut Chunks,
    ) -> Option<()> {
        let (mut addresses, mut sizes) = ([0; BATCH], [0; BATCH]);
        let table = first / TABLE_ENTRIES as u64;
        let at = first % TABLE_ENTRIES as u64 * WORD;
        mem.read(self.table(table)? + at, addresses.as_mut_bytes());
        let table = tables(self.pages) + table;
        mem.read(self.table(table)? + at, sizes.as_mut_bytes());
        let batch = addresses.iter().zip(&sizes);
        for (address, size) in batch.take((count - first) as usize) {
            let (address, pages) = (u64::from_le(*address), u64::from_le(*size));
            let bytes = usize::try_from(pages.checked_mul(PAGE)?).ok()?;
            if pages > self.pages - chunks.pages() || !self.locality.reaches(mem, address, bytes) {
                return None;
            }
            chunks.push(address, pages)?;
        }
        Some(())
    }
}

/// The structure that the owner of a window may write to.
#[derive(Clone, Copy)]
struct Target<'a> {
    locality: Locality,
    /// Within the node: the granted structure, the only memory that may be written.
    granted: Option<&'a PageListBuffer>,
}

impl Target<'_> {
    fn check(self, mem: &dyn Memory, address: u64, bytes: usize) -> Result<(), BadAddress> {
        check(match self.locality {
            Locality::Own => self
                .granted
                .is_some_and(|page_list| page_list.holds(address, bytes)),
            Locality::Peer(_) => self.locality.reaches(mem, address, bytes),
        })
    }
}

/// Writes a window's page list to the structure at bus address `address`. Within the node this
/// must be in `granted`.
///
/// # Errors
/// The granted structure cannot be used.
pub(crate) fn fill(
    mem: &mut dyn Memory,
    locality: Locality,
    granted: Option<&PageListBuffer>,
    address: u64,
    fill: &WindowFill,
    chunks: &Chunks,
) -> Result<(), BadAddress> {
    let mut record = WindowRecord::new_zeroed();
    let target = Target { locality, granted };
    target.check(mem, address, WINDOW_BYTES)?;
    locality.read(mem, address, record.as_mut_bytes())?;
    check(record.magic.get() == QP_MAGIC)?;
    check(u64::try_from(record.pages.get()) == Ok(chunks.pages()))?;
    let (addresses, counts) = (record.addresses.address.get(), record.counts.address.get());
    let mut batch = Batch::default();
    for (index, (address, pages)) in chunks.iter().enumerate() {
        if batch.is_full(index) {
            batch.write(mem, target, addresses, counts)?;
            batch.restart(index);
        }
        batch.push(locality.export(mem, address), pages);
    }
    batch.write(mem, target, addresses, counts)?;
    for (offset, bytes) in fill.stores() {
        locality.write(mem, address + offset, &bytes)?;
    }
    Ok(())
}

fn check(holds: bool) -> Result<(), BadAddress> {
    if holds { Ok(()) } else { Err(BadAddress) }
}

/// Neighbouring entries of one table of each kind, to be written together.
#[derive(Default)]
struct Batch {
    /// The number of the first entry.
    first: usize,
    len: usize,
    addresses: [[u8; 8]; BATCH],
    counts: [[u8; 8]; BATCH],
}

impl Batch {
    /// Whether entry `index` belongs to the next batch. Tables hold whole batches.
    fn is_full(&self, index: usize) -> bool {
        index - self.first == BATCH
    }

    fn restart(&mut self, first: usize) {
        (self.first, self.len) = (first, 0);
    }

    fn push(&mut self, address: u64, pages: u64) {
        let slots = self
            .addresses
            .get_mut(self.len)
            .zip(self.counts.get_mut(self.len));
        if let Some((to, count)) = slots {
            (*to, *count) = (address.to_le_bytes(), pages.to_le_bytes());
            self.len += 1;
        }
    }

    fn write(
        &self,
        mem: &mut dyn Memory,
        target: Target<'_>,
        addresses: u64,
        counts: u64,
    ) -> Result<(), BadAddress> {
        for (lookup, words) in [(addresses, &self.addresses), (counts, &self.counts)] {
            let bytes = words.as_bytes().get(..self.len * WORD as usize);
            let bytes = bytes.ok_or(BadAddress)?;
            let table = lookup_table(mem, target, lookup, self.first / TABLE_ENTRIES)?;
            let at = table.checked_add((self.first % TABLE_ENTRIES) as u64 * WORD);
            let at = at.ok_or(BadAddress)?;
            target.check(mem, at, bytes.len())?;
            target.locality.write(mem, at, bytes)?;
        }
        Ok(())
    }
}

/// The bus address of table `index`, from the lookup array at bus address `lookup`.
fn lookup_table(
    mem: &dyn Memory,
    target: Target<'_>,
    lookup: u64,
    index: usize,
) -> Result<u64, BadAddress> {
    let mut word = [0; WORD as usize];
    let entry = lookup.checked_add(index as u64 * WORD).ok_or(BadAddress)?;
    target.check(mem, entry, word.len())?;
    target.locality.read(mem, entry, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Whether a window may have `pages` pages.
pub(crate) fn is_size_allowed(pages: u64) -> bool {
    (1..=MAX_WINDOW_PAGES).contains(&pages)
}
