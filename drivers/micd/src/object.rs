//! Memory objects of this node: pages that programs map and peers reach.
//!
//! Either the system's memory, put together from physically contiguous pieces as large as there
//! are, or a client's own pages, kept as the payload of its call. Both are one range of addresses
//! in this task and a list of physical runs.

use alloc::vec::Vec;

use platform::dma::Scattered;
use platform::mem::{PAGE, Region};
use scif_core::Run;
use syscall::error::{EFAULT, Error, Result};

use crate::memory::BlockSource;

/// Pages of a client whose addresses are looked up in one step: a system call each.
const LOOKUPS_PER_STEP: usize = 512;

/// Pages of a payload that the kernel enters into our address space before we see it. What is
/// missing among them is missing at its owner's; pages behind them come when they are touched.
const PAGES_THERE: usize = 4096;

/// An object.
pub enum Object {
    /// The system's memory, being put together.
    Filling(Scattered),
    /// A client's pages and the physical addresses of the first of them.
    Lookup(Region, Vec<u64>),
    /// Complete: where it is, and its runs of physical memory in order.
    Complete(Region, Vec<PhysicalRun>),
}

/// Pages that are contiguous both in this task and in physical memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PhysicalRun {
    /// Of the first page.
    pub physical: u64,
    /// How many.
    pub pages: u32,
}

impl PhysicalRun {
    /// Bytes of it.
    pub fn bytes(self) -> usize {
        self.pages as usize * PAGE
    }
}

/// Adds pages behind the others: to the last run, if they continue it.
fn append(runs: &mut Vec<PhysicalRun>, physical: u64, pages: u32) {
    if let Some(last) = runs.last_mut()
        && last.physical + last.bytes() as u64 == physical
        && let Some(sum) = last.pages.checked_add(pages)
    {
        last.pages = sum;
        return;
    }
    runs.push(PhysicalRun { physical, pages });
}

impl Object {
    /// A client's pages.
    pub fn of_lent(lent: Region) -> Self {
        Object::Lookup(lent, Vec::new())
    }

    /// Its first byte is here.
    pub fn region(&self) -> &Region {
        match self {
            Object::Filling(scattered) => scattered.region(),
            Object::Lookup(region, _) | Object::Complete(region, _) => region,
        }
    }

    /// Does a bounded piece of the work and returns whether the object is complete.
    ///
    /// # Errors
    /// `ENOMEM`; `EFAULT` when a client's page is not there.
    pub fn step<S: BlockSource>(&mut self, source: &mut S) -> Result<bool> {
        let mut runs = Vec::new();
        match self {
            Object::Filling(scattered) => {
                if source.fill(scattered)? {
                    return Ok(false);
                }
                for piece in scattered.pieces() {
                    append(&mut runs, piece.physical, (piece.bytes / PAGE) as u32);
                }
            }
            Object::Lookup(region, found) => {
                let pages = region.len() / PAGE;
                let end = pages.min(found.len() + LOOKUPS_PER_STEP);
                for page in found.len()..end {
                    found.push(look_up(source, region, page)?);
                }
                if found.len() < pages {
                    return Ok(false);
                }
                found
                    .iter()
                    .for_each(|&physical| append(&mut runs, physical, 1));
            }
            Object::Complete(..) => return Ok(true),
        }
        *self = Object::Complete(self.region().clone(), runs);
        Ok(true)
    }
}

/// The physical address of a page of a client.
fn look_up<S: BlockSource>(source: &S, region: &Region, page: usize) -> Result<u64> {
    let offset = page * PAGE;
    let address = region.address() + offset;
    if page >= PAGES_THERE {
        // Brings the page in, and changes nothing even if its owner writes to it meanwhile.
        region.fetch_add_u32(offset, 0)?;
    }
    source.translate(address).ok_or(Error::new(EFAULT))
}

/// The runs as the engine knows them, once each has its local address.
pub fn engine_runs(runs: &[PhysicalRun], addresses: &[u64]) -> Vec<Run> {
    let pairs = runs.iter().zip(addresses);
    pairs
        .map(|(run, &address)| Run {
            address,
            pages: run.pages,
        })
        .collect()
}
