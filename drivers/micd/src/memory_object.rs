//! Memory objects of this node: pages that programs map and peers reach.
//!
//! Either the system's memory, put together from physically contiguous pieces as large as there
//! are, or a program's own pages, borrowed where they are. Both are one range of addresses in this
//! task and a list of physical runs.

use alloc::vec::Vec;

use client_memory::borrow::Frames;
use hal::dma::Scattered;
use hal::mem::{PAGE, Region};
use scif_core::Run;
use syscall::error::{Error, Result};

use crate::memory::BlockSource;

/// An object.
pub enum Object {
    /// The system's memory, being put together.
    Filling(Scattered),
    /// A program's pages, being borrowed.
    Borrowing {
        /// Whether they will be written here.
        writable: bool,
    },
    /// They could not be borrowed.
    Failed(Error),
    /// There it is.
    Complete(Complete),
}

/// A complete object.
#[derive(Clone)]
pub struct Complete {
    /// Where it is.
    pub region: Region,
    /// Its runs of physical memory in order.
    pub runs: Vec<PhysicalRun>,
    /// Whether it can be written.
    pub writable: bool,
}

/// How far an object is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// There is more to do.
    More,
    /// Somebody else is at work.
    Waits,
    /// Nothing is left to do.
    Complete,
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
    /// The object, once it is complete.
    pub fn complete(&self) -> Option<&Complete> {
        match self {
            Object::Complete(complete) => Some(complete),
            _ => None,
        }
    }

    /// Does a bounded piece of the work.
    ///
    /// # Errors
    /// `ENOMEM`; those of borrowing.
    pub fn step<S: BlockSource>(&mut self, source: &mut S) -> Result<Step> {
        match self {
            Object::Filling(scattered) => {
                if source.fill(scattered)? {
                    return Ok(Step::More);
                }
                let mut runs = Vec::new();
                for piece in scattered.pieces() {
                    append(&mut runs, piece.physical, (piece.bytes / PAGE) as u32);
                }
                let region = scattered.region().clone();
                *self = Object::Complete(Complete {
                    region,
                    runs,
                    writable: true,
                });
                Ok(Step::Complete)
            }
            Object::Borrowing { .. } => Ok(Step::Waits),
            Object::Failed(error) => Err(*error),
            Object::Complete(_) => Ok(Step::Complete),
        }
    }

    /// What came of borrowing.
    pub fn borrowed(&mut self, result: Result<(Region, Vec<Frames>)>) {
        let Object::Borrowing { writable } = *self else {
            return;
        };
        *self = match result {
            Ok((region, frames)) => {
                let run = |frames: &Frames| PhysicalRun {
                    physical: frames.physical,
                    pages: frames.pages,
                };
                Object::Complete(Complete {
                    region,
                    runs: frames.iter().map(run).collect(),
                    writable,
                })
            }
            Err(error) => Object::Failed(error),
        };
    }
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
