//! The global allocator: `talc` over anonymous memory that grows in chunks.
//!
//! Memory is never returned to the kernel before the process ends; reservations are kept small
//! because copying an address space costs time by reserved size on the upstream kernel.

use core::alloc::Layout;

use syscall::flag::MapFlags;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

use crate::sync::YieldNow;
use crate::sys;

/// Smallest growth step, in bytes.
const CHUNK: usize = 128 * 1024;
/// Room for the allocator's own bookkeeping in a fresh chunk, in bytes (its bins need about 1 KiB).
const OVERHEAD: usize = 8 * 1024;

/// Gets memory from the kernel by anonymous FMAP.
#[derive(Debug)]
struct Anonymous;

// SAFETY: `acquire` claims only memory that the kernel has just mapped for us and that nobody else
// knows of; it does not use the global allocator.
unsafe impl Source for Anonymous {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let wanted = layout.size().checked_add(layout.align()).ok_or(())?;
        let size = wanted.checked_add(OVERHEAD).ok_or(())?.max(CHUNK);
        let size = size
            .checked_next_multiple_of(syscall::PAGE_SIZE)
            .ok_or(())?;
        let base =
            map_anonymous(size, MapFlags::PROT_READ | MapFlags::PROT_WRITE).map_err(|_| ())?;
        // SAFETY: the range was mapped readable and writable just now and belongs to us alone.
        unsafe { talc.claim(base as *mut u8, size) }
            .map(|_| ())
            .ok_or(())
    }
}

#[global_allocator]
static HEAP: talc::TalcLock<spin::mutex::SpinMutex<(), YieldNow>, Anonymous> =
    talc::TalcLock::new(Anonymous);

/// Maps fresh zero pages at an address of the kernel's choice; `size` is a multiple of the page.
pub(crate) fn map_anonymous(size: usize, flags: MapFlags) -> crate::Result<usize> {
    let map = syscall::Map {
        offset: 0,
        size,
        flags: flags | MapFlags::MAP_PRIVATE,
        address: 0,
    };
    // SAFETY: without MAP_FIXED nothing that exists is replaced; `map` lives across the call.
    unsafe {
        sys::call(
            syscall::SYS_FMAP,
            [
                sys::NO_FD,
                (&raw const map) as usize,
                size_of::<syscall::Map>(),
                0,
                0,
                0,
            ],
        )
    }
}
