//! The global allocator: `talc` over anonymous memory. It grows in chunks, each between two pages
//! without access, so that a program that writes beyond the end of a chunk is killed.
//!
//! Memory returns to the kernel only when the process ends. Chunks are small, because the time to
//! copy an address space depends on its reserved size on the upstream kernel.

use core::alloc::Layout;

use syscall::PAGE_SIZE;
use syscall::error::Result;
use syscall::flag::MapFlags;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use crate::sync::YieldNow;
use crate::{fd, sys};

/// Smallest growth step, in bytes.
const CHUNK: usize = 128 * 1024;
/// Space for the allocator's own data in a new chunk, in bytes (its bins need about 1 KiB).
const OVERHEAD: usize = 8 * 1024;

/// Gets memory from the kernel by anonymous FMAP.
#[derive(Debug)]
struct Anonymous;

// SAFETY: `acquire` claims only memory that the kernel has just mapped for us and that nobody else
// knows of; it does not use the global allocator.
unsafe impl Source for Anonymous {
    // The allocator calls it at two places; two copies would make each program 1.4 KB longer.
    #[cold]
    #[inline(never)]
    fn acquire<B: Binning>(
        talc: &mut Talc<Self, B>,
        layout: Layout,
    ) -> core::result::Result<(), ()> {
        let wanted = layout.size().checked_add(layout.align()).ok_or(())?;
        let size = wanted.checked_add(OVERHEAD).ok_or(())?.max(CHUNK);
        let size = size.checked_next_multiple_of(PAGE_SIZE).ok_or(())?;
        let base = map_guarded(size).map_err(|_| ())?;
        // SAFETY: the range was mapped readable and writable just now and belongs to us alone.
        unsafe { talc.claim(base as *mut u8, size) }
            .map(|_| ())
            .ok_or(())
    }
}

#[global_allocator]
static HEAP: talc::TalcLock<spin::mutex::SpinMutex<(), YieldNow>, Anonymous> =
    talc::TalcLock::new(Anonymous);

/// Locks the heap as long as the result lives; meanwhile nothing may allocate or free memory.
pub(crate) fn hold() -> impl Drop {
    HEAP.lock()
}

/// Maps new zero pages at an address that the kernel chooses, between two pages without access.
/// `size` is a multiple of the page size. Returns the address of the first usable page.
pub(crate) fn map_guarded(size: usize) -> Result<usize> {
    let (_, whole) = guarded(PAGE_SIZE, size);
    // SAFETY: without MAP_FIXED nothing that exists is replaced.
    let base = unsafe { fd::mmap(sys::NO_FD, 0, whole, 0, MapFlags::MAP_PRIVATE) }? + PAGE_SIZE;
    let rights = MapFlags::PROT_READ | MapFlags::PROT_WRITE;
    // SAFETY: the pages were mapped just now, and nobody knows of them.
    let opened = unsafe { sys::call(syscall::SYS_MPROTECT, [base, size, rights.bits(), 0, 0, 0]) };
    match opened {
        Ok(_) => Ok(base),
        Err(error) => {
            let (base, whole) = guarded(base, size);
            // SAFETY: as above.
            let _ = unsafe { fd::munmap(base, whole) };
            Err(error)
        }
    }
}

/// Returns address and size of what [`map_guarded`] mapped, the guard pages included.
pub(crate) fn guarded(base: usize, size: usize) -> (usize, usize) {
    (base - PAGE_SIZE, size + 2 * PAGE_SIZE)
}
