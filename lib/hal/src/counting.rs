//! Counters for tests: drained stores, which are always counted, and allocations, which are
//! counted by an allocator that a test program declares:
//!
//! ```
//! #[global_allocator]
//! static HEAP: hal::testing::counting::Heap = hal::testing::counting::Heap;
//! ```

#[allow(unused_extern_crates, reason = "the crate's own tests have it already")]
extern crate std;

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

std::thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static DRAINS: Cell<u64> = const { Cell::new(0) };
}

/// The system's heap, which counts what each thread takes from it.
pub struct Heap;

/// How often this thread has allocated or reallocated memory.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// How often this thread has called [`drain_writes`](crate::mem::drain_writes).
pub fn drains() -> u64 {
    DRAINS.with(Cell::get)
}

pub(crate) fn count_drain() {
    // See `count`.
    let _ = DRAINS.try_with(|count| count.set(count.get() + 1));
}

fn count() {
    // A thread that is ending has no counter any more, and nobody reads it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.realloc(block, layout, bytes) }
    }
}
