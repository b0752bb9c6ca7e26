//! Memory objects of this node: pages that programs map and peers reach.
//!
//! An object is either memory of the system, put together from the largest physically contiguous
//! pieces that are free, or a program's own pages, borrowed where they are. Both are one range of
//! addresses in this task and a list of physical runs.

use alloc::sync::Arc;
use alloc::vec::Vec;

use client_memory::borrow::{Frames, Wanted};
use hal::dma::{Allocator, Scattered};
use hal::mem::{PAGE, Region};
use libredox::Fd;
use scheme_scif::Token;
use scif_core::Run;
use syscall::error::{EOPNOTSUPP, Error, Result};

/// The source of blocks of shared memory.
pub trait BlockSource {
    /// Zeroed, page-aligned, physically contiguous memory and its physical address; `None` when
    /// none is left.
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)>;

    /// Reserves a range for memory that is put together from pieces.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn reserve(&mut self, bytes: usize) -> Result<Scattered>;

    /// Adds the next piece. Returns whether more pieces follow.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn fill(&mut self, scattered: &mut Scattered) -> Result<bool>;

    /// Joins parts of this task's address space into one range. The parts are whole pages of
    /// device memory.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when this source cannot do it; `ENOMEM`.
    fn join(&mut self, parts: &[Region]) -> Result<Region> {
        let _ = parts;
        Err(Error::new(EOPNOTSUPP))
    }

    /// Begins to borrow pages of the program behind `space` for an object. Processes take turns.
    /// [`take_borrowed`](Self::take_borrowed) returns the result.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when this source has no programs.
    fn borrow(
        &mut self,
        token: Token,
        process: usize,
        space: Arc<Fd>,
        wanted: Wanted,
    ) -> Result<()> {
        let _ = (token, process, space, wanted);
        Err(Error::new(EOPNOTSUPP))
    }

    /// Gives up a borrowing that has not ended.
    fn cancel(&mut self, token: Token) {
        let _ = token;
    }

    /// Drops a reference to a program's address space.
    fn release(&mut self, space: Arc<Fd>) {
        drop(space);
    }

    /// Takes the next borrowing that has ended: pages as memory of this task, and their frames.
    fn take_borrowed(&mut self) -> Option<Borrowed> {
        None
    }
}

/// The result of borrowing pages for an object: memory of this task, and its frames.
pub type Borrowed = (Token, Result<(Region, Vec<Frames>)>);

impl BlockSource for Allocator {
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)> {
        let buffer = Allocator::allocate(self, bytes).ok()?;
        Some((buffer.region().clone(), buffer.physical()))
    }

    fn reserve(&mut self, bytes: usize) -> Result<Scattered> {
        Allocator::reserve(self, bytes)
    }

    fn fill(&mut self, scattered: &mut Scattered) -> Result<bool> {
        Allocator::fill(self, scattered)
    }
}

/// A memory object, complete or under construction.
pub enum MemoryObject {
    /// The system's memory, being put together.
    Filling(Scattered),
    /// A program's pages, being borrowed.
    Borrowing {
        /// Whether this task needs to write them.
        writable: bool,
    },
    /// The pages could not be borrowed.
    Failed(Error),
    /// All its memory is there.
    Complete(Complete),
}

/// A complete object.
#[derive(Clone)]
pub struct Complete {
    /// The object's memory in this task.
    pub region: Region,
    /// Its runs of physical memory, in order.
    pub runs: Vec<PhysicalRun>,
    /// Whether it can be written.
    pub writable: bool,
}

/// The progress of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BuildStep {
    /// More work is left.
    More,
    /// Another thread is at work.
    Pending,
    /// No work is left.
    Complete,
}

/// Pages that are contiguous both in this task and in physical memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PhysicalRun {
    /// Physical address of the first page.
    pub physical: u64,
    /// The number of pages.
    pub pages: u32,
}

impl PhysicalRun {
    /// The length in bytes.
    pub fn bytes(self) -> usize {
        self.pages as usize * PAGE
    }
}

/// Appends pages: to the last run, if they continue it.
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

impl MemoryObject {
    /// The object, once it is complete.
    pub fn complete(&self) -> Option<&Complete> {
        match self {
            MemoryObject::Complete(complete) => Some(complete),
            _ => None,
        }
    }

    /// Does a bounded part of the work.
    ///
    /// # Errors
    /// `ENOMEM`; those of borrowing.
    pub fn step<S: BlockSource>(&mut self, source: &mut S) -> Result<BuildStep> {
        match self {
            MemoryObject::Filling(scattered) => {
                if source.fill(scattered)? {
                    return Ok(BuildStep::More);
                }
                let mut runs = Vec::new();
                for piece in scattered.pieces() {
                    append(&mut runs, piece.physical, (piece.bytes / PAGE) as u32);
                }
                let region = scattered.region().clone();
                *self = MemoryObject::Complete(Complete {
                    region,
                    runs,
                    writable: true,
                });
                Ok(BuildStep::Complete)
            }
            MemoryObject::Borrowing { .. } => Ok(BuildStep::Pending),
            MemoryObject::Failed(error) => Err(*error),
            MemoryObject::Complete(_) => Ok(BuildStep::Complete),
        }
    }

    /// Takes the result of borrowing.
    pub fn borrowed(&mut self, result: Result<(Region, Vec<Frames>)>) {
        let MemoryObject::Borrowing { writable } = *self else {
            return;
        };
        *self = match result {
            Ok((region, frames)) => {
                let run = |frames: &Frames| PhysicalRun {
                    physical: frames.physical,
                    pages: frames.pages,
                };
                MemoryObject::Complete(Complete {
                    region,
                    runs: frames.iter().map(run).collect(),
                    writable,
                })
            }
            Err(error) => MemoryObject::Failed(error),
        };
    }
}

/// The runs for the engine, each with its local address.
pub fn engine_runs(runs: &[PhysicalRun], addresses: &[u64]) -> Vec<Run> {
    let pairs = runs.iter().zip(addresses);
    pairs
        .map(|(run, &address)| Run {
            address,
            pages: run.pages,
        })
        .collect()
}
