//! The kernel's heap (`alloc`): not filled yet.

use core::alloc::{GlobalAlloc, Layout};

struct Heap;

// SAFETY: not filled yet; every allocation fails.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, _layout: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, _ptr: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static HEAP: Heap = Heap;
