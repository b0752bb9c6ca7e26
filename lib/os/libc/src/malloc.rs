//! `malloc` and its family, on the program's one heap.
//!
//! The 16 bytes before a block store its layout, which `free` passes to the heap. Large blocks
//! from `calloc` are mappings of their own, in which pages that a program does not touch cost
//! nothing.

use alloc::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use runtime::{fd, sys};
use syscall::PAGE_SIZE;
use syscall::error::{EINVAL, ENOMEM};
use syscall::flag::MapFlags;

use crate::{advice, errno};

/// The header in front of a block.
#[repr(C)]
struct Header {
    /// The size of the heap's block in bytes.
    size: usize,
    /// The bytes from its start to the caller's block, equal to its alignment. With [`IS_MAPPED`]
    /// the block is a mapping, not the heap's.
    offset: usize,
}

/// The lowest bit, which no alignment has.
const IS_MAPPED: usize = 1;
/// Zeroed blocks of at least this many bytes are mappings.
const MAPPED_BYTES: usize = 1 << 20;

/// The alignment of every block in bytes, as the ABI demands of `malloc`.
const ALIGN: usize = 16;

const _: () = assert!(size_of::<Header>() == ALIGN);

/// Allocates `size` bytes at a multiple of `align` (0 for the usual one). Null with `errno` set if
/// there is no memory. A size of 0 gives a block, too.
pub fn allocate(size: usize, align: usize) -> *mut c_void {
    allocate_with(size, align, false)
}

fn allocate_with(size: usize, align: usize, zeroed: bool) -> *mut c_void {
    let offset = align.max(ALIGN);
    let layout = size
        .checked_add(offset)
        .and_then(|total| Layout::from_size_align(total, offset).ok());
    let is_mapped = zeroed && size >= MAPPED_BYTES;
    let layout = match is_mapped {
        true => layout.and_then(whole_pages),
        false => layout,
    };
    let Some(layout) = layout else {
        errno::set(ENOMEM);
        return null_mut();
    };
    // SAFETY: the layout's size is at least that of the header.
    let start = unsafe {
        match zeroed {
            true if is_mapped => map(layout),
            true => alloc_zeroed(layout),
            false => alloc(layout),
        }
    };
    if start.is_null() {
        errno::set(ENOMEM);
        return null_mut();
    }
    let block = start.wrapping_add(offset);
    let header = Header {
        size: layout.size(),
        offset: offset | if is_mapped { IS_MAPPED } else { 0 },
    };
    // SAFETY: the header's place lies between `start` and the block, and is aligned.
    unsafe { block.cast::<Header>().sub(1).write(header) };
    block.cast()
}

/// Rounds a layout up to whole pages.
fn whole_pages(layout: Layout) -> Option<Layout> {
    let size = layout.size().checked_next_multiple_of(PAGE_SIZE)?;
    Layout::from_size_align(size, layout.align()).ok()
}

/// Maps new pages for a block; null if there are none.
fn map(layout: Layout) -> *mut u8 {
    let rights = MapFlags::MAP_PRIVATE | MapFlags::PROT_READ | MapFlags::PROT_WRITE;
    // SAFETY: without an address nothing that exists is replaced.
    let mapped = unsafe { fd::mmap(sys::NO_FD, 0, layout.size(), 0, rights) };
    mapped.map_or(null_mut(), core::ptr::with_exposed_provenance_mut)
}

/// The heap's block or the mapping around a caller's block; `true` for a mapping.
///
/// # Safety
/// `block` came from [`allocate`] and was not freed.
unsafe fn around(block: *mut c_void) -> (*mut u8, Layout, bool) {
    let block = block.cast::<u8>();
    // SAFETY: `allocate` put a header there.
    let header = unsafe { block.cast::<Header>().sub(1).read() };
    let offset = header.offset & !IS_MAPPED;
    // SAFETY: the layout was valid when the block was made.
    let layout = unsafe { Layout::from_size_align_unchecked(header.size, offset) };
    let is_mapped = header.offset & IS_MAPPED != 0;
    (block.wrapping_sub(offset), layout, is_mapped)
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size, 0)
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(size) => allocate_with(size, 0, true),
        None => {
            errno::set(ENOMEM);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(block: *mut c_void) {
    if !block.is_null() {
        // SAFETY: the caller gives back what `allocate` gave.
        unsafe {
            match around(block) {
                // The block has a mapping of its own, so all of it is unmapped.
                (start, layout, true) => drop(advice::unmap(start as usize, layout.size())),
                (start, layout, false) => dealloc(start, layout),
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    if block.is_null() {
        return allocate(size, 0);
    }
    // SAFETY: the caller's block; the copy stays within both.
    unsafe {
        let old = malloc_usable_size(block);
        let new = allocate(size, 0);
        if !new.is_null() {
            let kept = old.min(size);
            new.cast::<u8>()
                .copy_from_nonoverlapping(block.cast(), kept);
            free(block);
        }
        new
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the same contract.
        Some(size) => unsafe { realloc(block, size) },
        None => {
            errno::set(ENOMEM);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    // SAFETY: the caller's block.
    let (_, layout, _) = unsafe { around(block) };
    layout.size() - layout.align()
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if !align.is_power_of_two() {
        errno::set(EINVAL);
        return null_mut();
    }
    allocate(size, align)
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    aligned_alloc(align, size)
}

/// Allocates a block that begins at a page boundary.
#[unsafe(no_mangle)]
extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate(size, PAGE_SIZE)
}

/// Returns the error number instead of setting `errno`.
#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
        return EINVAL;
    }
    let before = errno::get();
    let block = allocate(size, align);
    if block.is_null() {
        errno::set(before);
        return ENOMEM;
    }
    // SAFETY: the caller's place for a pointer.
    unsafe { *place = block };
    0
}
