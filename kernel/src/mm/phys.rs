//! Access to physical memory through the kernel's map of it.
//!
//! All RAM and everything below 4 GiB is mapped at `BASE`. Ordinary memory there is write back,
//! the rest of the first 4 GiB uncached.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::PAGE_SIZE;

/// The address at which physical address 0 is mapped.
pub const BASE: usize = 0xFFFF_8000_0000_0000;

/// First physical address that is not mapped; the boot page tables map 4 GiB.
static LIMIT: AtomicUsize = AtomicUsize::new(1 << 32);

/// First physical address that is not mapped.
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Sets `limit` after more was mapped.
pub(super) fn set_limit(end: usize) {
    LIMIT.store(end, Ordering::Relaxed);
}

/// Whether `[phys, phys + len)` is mapped.
pub fn is_mapped(phys: usize, len: usize) -> bool {
    phys.checked_add(len).is_some_and(|end| end <= limit())
}

/// Kernel address of a mapped physical address. Panics when it is not mapped.
pub fn pointer<T>(phys: usize) -> *mut T {
    assert!(
        is_mapped(phys, size_of::<T>()),
        "physical address {phys:#x} is not mapped"
    );
    (BASE + phys) as *mut T
}

/// The bytes of a physical range, `None` when it is not all mapped.
///
/// # Safety
/// The range must be memory (not device registers) that nobody writes while the slice lives.
pub unsafe fn bytes(phys: usize, len: usize) -> Option<&'static [u8]> {
    // SAFETY: mapped for ever; the caller vouches for the contents.
    is_mapped(phys, len)
        .then(|| unsafe { core::slice::from_raw_parts((BASE + phys) as *const u8, len) })
}

/// The aligned word of memory at a physical address, to which others may store meanwhile. Panics
/// when it is not mapped or not aligned.
pub fn word(phys: usize) -> u32 {
    let word = pointer::<AtomicU32>(phys);
    assert!(word.is_aligned(), "physical address {phys:#x} is no word's");
    // SAFETY: mapped for ever and aligned; an atomic integer may change at any time.
    unsafe { (*word).load(Ordering::Acquire) }
}

/// Fills one frame with zeros.
pub fn zero_frame(phys: usize) {
    debug_assert!(phys.is_multiple_of(PAGE_SIZE));
    let words = pointer::<[u64; PAGE_SIZE / 8]>(phys).cast::<u64>();
    for i in 0..PAGE_SIZE / 8 {
        // SAFETY: within one mapped frame; volatile because a program may share it. Plain word
        // stores are the fastest way under an emulator as well.
        unsafe { words.add(i).write_volatile(0) };
    }
}

/// Copies one frame.
pub fn copy_frame(to: usize, from: usize) {
    let to = pointer::<[u64; PAGE_SIZE / 8]>(to).cast::<u64>();
    let from = pointer::<[u64; PAGE_SIZE / 8]>(from).cast::<u64>();
    for i in 0..PAGE_SIZE / 8 {
        // SAFETY: within two mapped frames.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
    }
}

/// Copies bytes out of mapped physical memory, in words where possible: programs (and devices) may
/// write at the same time, which can tear the copy but does no harm to the kernel.
pub fn read(phys: usize, out: &mut [u8]) {
    assert!(
        is_mapped(phys, out.len()),
        "physical address {phys:#x} is not mapped"
    );
    // SAFETY: both ranges are valid for the length.
    unsafe { copy((BASE + phys) as *const u8, out.as_mut_ptr(), out.len()) };
}

/// Copies bytes into mapped physical memory.
pub fn write(phys: usize, bytes: &[u8]) {
    assert!(
        is_mapped(phys, bytes.len()),
        "physical address {phys:#x} is not mapped"
    );
    // SAFETY: both ranges are valid for the length.
    unsafe { copy(bytes.as_ptr(), (BASE + phys) as *mut u8, bytes.len()) };
}

/// # Safety
/// Both ranges are valid for `len` bytes and do not overlap.
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    let words = len / 8;
    for i in 0..words {
        // SAFETY: inside the ranges; no alignment is assumed.
        unsafe {
            let word = from.cast::<u64>().add(i).read_unaligned();
            to.cast::<u64>().add(i).write_unaligned(word);
        }
    }
    let mut done = words * 8;
    // The four bytes in one piece: other processors may store to a futex meanwhile.
    if len & 4 != 0 {
        // SAFETY: as above.
        unsafe {
            let word = from.add(done).cast::<u32>().read_unaligned();
            to.add(done).cast::<u32>().write_unaligned(word);
        }
        done += 4;
    }
    for i in done..len {
        // SAFETY: inside the ranges.
        unsafe { to.add(i).write_volatile(from.add(i).read_volatile()) };
    }
}
