//! `malloc` and its family, over the program's one heap.
//!
//! A block's layout is stored in the 16 bytes before it, so that `free` can tell the heap.

use alloc::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use syscall::error::{EINVAL, ENOMEM};

use crate::errno;

/// The header before a block.
#[repr(C)]
struct Header {
    /// Size of the heap's block.
    size: usize,
    /// Bytes from its start to the caller's, which is also its alignment; the lowest bit is free.
    offset: usize,
}

/// Alignment of every block, as the ABI demands of `malloc`.
const ALIGN: usize = 16;

const _: () = assert!(size_of::<Header>() == ALIGN);

/// A block of `size` bytes at a multiple of `align` (0: the usual), null with `errno` set when
/// there is none. A size of 0 gives a block, too.
pub fn allocate(size: usize, align: usize) -> *mut c_void {
    allocate_with(size, align, false)
}

fn allocate_with(size: usize, align: usize, zeroed: bool) -> *mut c_void {
    let offset = align.max(ALIGN);
    let layout = size
        .checked_add(offset)
        .and_then(|total| Layout::from_size_align(total, offset).ok());
    let Some(layout) = layout else {
        errno::set(ENOMEM);
        return null_mut();
    };
    // SAFETY: the layout's size is at least that of the header.
    let start = unsafe {
        if zeroed {
            alloc_zeroed(layout)
        } else {
            alloc(layout)
        }
    };
    if start.is_null() {
        errno::set(ENOMEM);
        return null_mut();
    }
    let block = start.wrapping_add(offset);
    let header = Header {
        size: layout.size(),
        offset,
    };
    // SAFETY: the header's place lies between `start` and the block, and is aligned.
    unsafe { block.cast::<Header>().sub(1).write(header) };
    block.cast()
}

/// The heap's block around a caller's.
///
/// # Safety
/// `block` came from [`allocate`] and was not freed.
unsafe fn around(block: *mut c_void) -> (*mut u8, Layout) {
    let block = block.cast::<u8>();
    // SAFETY: `allocate` put a header there.
    let header = unsafe { block.cast::<Header>().sub(1).read() };
    // SAFETY: the layout was valid when the block was made.
    let layout = unsafe { Layout::from_size_align_unchecked(header.size, header.offset) };
    (block.wrapping_sub(header.offset), layout)
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
            let (start, layout) = around(block);
            dealloc(start, layout);
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
    let (_, layout) = unsafe { around(block) };
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

/// A block that begins at a page.
#[unsafe(no_mangle)]
extern "C" fn valloc(size: usize) -> *mut c_void {
    allocate(size, syscall::PAGE_SIZE)
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
