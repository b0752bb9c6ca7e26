//! Memory: physical frames, the address spaces of programs, and copies from and to programs.

mod daemons;
pub mod frame;
mod heap;
mod lists;
pub mod paging;
pub mod phys;
pub mod screen;
pub mod space;
pub mod stack;
pub mod tlb;
pub mod user;
mod user_buf;

use core::sync::atomic::{AtomicBool, Ordering};

use kernel_core::memmap::MemoryMap;

pub use lists::{list_for, zeroes};
pub use user_buf::UserBuf;

/// Bytes of a page and of a frame.
pub use kernel_core::area::PAGE as PAGE_SIZE;
/// First address above user space.
pub const USER_END: usize = 1 << 47;
/// Lowest address that the kernel chooses for a mapping (`mmap-min-addr`).
pub const MIN_ADDRESS: usize = 0x1000;

/// Builds the kernel's page tables and the frame allocator. From here on there is a heap. `used`
/// are the physical ranges of RAM that stay in use (kernel image, initfs).
///
/// # Safety
/// Called once, on the boot page tables, with a map whose free areas nobody uses.
pub unsafe fn init(map: &mut MemoryMap, used: &[(u64, u64)]) {
    // SAFETY: passed on to the caller.
    unsafe {
        paging::init(map);
        frame::init(map, used);
    }
    HEAP_WORKS.store(true, Ordering::Relaxed);
}

static HEAP_WORKS: AtomicBool = AtomicBool::new(false);

/// Whether `init` is done.
pub fn heap_works() -> bool {
    HEAP_WORKS.load(Ordering::Relaxed)
}
