//! Shared memory of this node: physically contiguous memory from the kernel, and pages that
//! programs pin.
//!
//! Pages are borrowed by a thread of their own, because the last reference to the address space of
//! a program that was killed meanwhile may go with the end of the borrowing: the thread that drops
//! it waits for the daemons of the program's mappings, and this task is one of them.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use client_memory::borrow::{Borrowed, Borrower, Borrowing, Joiner, Wanted};
use hal::Result;
use hal::dma::{Allocator, Scattered};
use hal::lock::Mutex;
use hal::mem::Region;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use micd::memory_object::{self, BlockSource};
use runtime::thread;
use scheme_scif::Token;

/// The source of a node's shared memory.
pub struct MemorySource {
    allocator: Allocator,
    joiner: Joiner,
    shared: Arc<Shared>,
    /// Wakes the thread: a byte for each job.
    wake: Fd,
}

/// State that the thread and the loop share.
struct Shared {
    jobs: Mutex<Vec<Job>>,
    ended: Mutex<Vec<(Token, Result<Borrowed>)>>,
}

/// An order for the address space of a program.
enum Job {
    /// Borrow pages for an object.
    Borrow(Token, Fd, Wanted),
    /// Release it.
    Release(Fd),
}

impl MemorySource {
    /// Gives the thread a job.
    fn order(&self, job: Job) -> Result<()> {
        self.shared.jobs.lock().push(job);
        self.wake.write(&[0])?;
        Ok(())
    }
}

/// A pipe: the end to read from, with these flags, and the end to write to.
pub fn pipe(flags: i32) -> Result<(Fd, Fd)> {
    let output = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC | flags, 0)?;
    let input = Fd::new(output.dup(b"write")?);
    Ok((output, input))
}

impl MemorySource {
    /// Opens the kernel's memory sources and starts the thread; root only (`EACCES`). A byte comes
    /// out of the second result, which never waits, for each borrowing that has come to its end.
    pub fn new() -> Result<(Self, Fd)> {
        let shared = Arc::new(Shared {
            jobs: Mutex::new(Vec::new()),
            ended: Mutex::new(Vec::new()),
        });
        let (jobs, wake) = pipe(0)?;
        let (ended, tell) = pipe(O_NONBLOCK)?;
        let borrower = Borrower::new()?;
        let here = Arc::clone(&shared);
        thread::spawn(move || {
            if let Err(error) = work(&here, borrower, &jobs, &tell) {
                log::error!("no program's memory can be pinned any more: {error}");
            }
        })?;
        let source = Self {
            allocator: Allocator::new()?,
            joiner: Joiner::new()?,
            shared,
            wake,
        };
        Ok((source, ended))
    }
}

/// Borrows pages, a bounded piece for each object in turn, until the loop has gone.
fn work(shared: &Shared, mut borrower: Borrower, jobs: &Fd, tell: &Fd) -> Result<()> {
    let mut begun: VecDeque<(Token, Borrowing)> = VecDeque::new();
    let end = |token, result| {
        shared.ended.lock().push((token, result));
        tell.write(&[0]).map(|_| ())
    };
    loop {
        if begun.is_empty() && jobs.read(&mut [0; 64])? == 0 {
            return Ok(());
        }
        let new = core::mem::take(&mut *shared.jobs.lock());
        for job in new {
            match job {
                Job::Borrow(token, space, wanted) => match borrower.begin(space, wanted) {
                    Ok(borrowing) => begun.push_back((token, borrowing)),
                    Err(error) => end(token, Err(error))?,
                },
                Job::Release(space) => drop(space),
            }
        }
        let Some((token, mut borrowing)) = begun.pop_front() else {
            continue;
        };
        match borrower.step(&mut borrowing) {
            Ok(()) if borrowing.is_complete() => end(token, Ok(borrowing.finish()))?,
            Ok(()) => begun.push_back((token, borrowing)),
            Err(error) => end(token, Err(error))?,
        }
    }
}

impl BlockSource for MemorySource {
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)> {
        BlockSource::allocate(&mut self.allocator, bytes)
    }

    fn reserve(&mut self, bytes: usize) -> Result<Scattered> {
        BlockSource::reserve(&mut self.allocator, bytes)
    }

    fn fill(&mut self, scattered: &mut Scattered) -> Result<bool> {
        BlockSource::fill(&mut self.allocator, scattered)
    }

    fn join(&mut self, parts: &[Region]) -> Result<Region> {
        self.joiner.join(parts)
    }

    fn borrow(&mut self, token: Token, space: Fd, wanted: Wanted) -> Result<()> {
        self.order(Job::Borrow(token, space, wanted))
    }

    fn release(&mut self, space: Fd) {
        if let Err(error) = self.order(Job::Release(space)) {
            log::error!("a program's address space is not released: {error}");
        }
    }

    fn take_borrowed(&mut self) -> Option<memory_object::Borrowed> {
        let (token, result) = self.shared.ended.lock().pop()?;
        Some((token, result.map(Borrowed::into_region)))
    }
}
