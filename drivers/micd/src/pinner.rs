//! The source of this node's shared memory: physically contiguous memory from the kernel, and
//! pages that programs pin, which a separate thread borrows.

use alloc::sync::Arc;

use client_memory::borrow::{Borrowed, Joiner, Wanted};
use client_memory::borrow_thread::{self, Orders};
use hal::Result;
use hal::dma::{Allocator, Scattered};
use hal::mem::Region;
use libredox::Fd;
use micd::memory_object::{self, BlockSource};
use runtime::thread;
use scheme_scif::Token;

/// The source of a node's shared memory.
pub struct MemorySource {
    allocator: Allocator,
    joiner: Joiner,
    orders: Orders<Token>,
}

impl MemorySource {
    /// Opens the kernel's memory sources and starts the thread; root only (`EACCES`). The second
    /// result is a pipe that never waits; it holds a byte for each borrowing that has ended.
    pub fn new() -> Result<(Self, Fd)> {
        let (orders, work, ended) = borrow_thread::prepare()?;
        thread::spawn(move || {
            if let Err(error) = work.run() {
                log::error!("no program's memory can be pinned any more: {error}");
            }
        })?;
        let source = Self {
            allocator: Allocator::new()?,
            joiner: Joiner::new()?,
            orders,
        };
        Ok((source, ended))
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

    fn borrow(
        &mut self,
        token: Token,
        process: usize,
        space: Arc<Fd>,
        wanted: Wanted,
    ) -> Result<()> {
        self.orders.borrow(token, process, space, wanted)
    }

    fn cancel(&mut self, token: Token) {
        self.orders.cancel(token);
    }

    fn release(&mut self, space: Arc<Fd>) {
        self.orders.release(space);
    }

    fn take_borrowed(&mut self) -> Option<memory_object::Borrowed> {
        let (token, result) = self.orders.take_ended()?;
        Some((token, result.map(Borrowed::into_region)))
    }
}
