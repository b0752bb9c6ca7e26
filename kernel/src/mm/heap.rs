//! The kernel's heap (`alloc`): objects of a few size classes inside pages, larger ones as whole
//! pages from the frame allocator.
//!
//! A page of a class starts with a header. It goes back to the frame allocator when its last
//! object is freed and another page of the class has room, so that memory use returns to its
//! former level. Everything is accessed through the physical map: this takes no mapping work, and
//! a corrupt pointer cannot hit unmapped space unnoticed.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};

use spin::Mutex;

use super::frame::{self, Use};
use super::{PAGE_SIZE, phys};

/// Object sizes. Alignment equals the size, because pages are aligned and objects start at
/// multiples of their size. 2 KiB and more take whole pages.
const CLASSES: [usize; 7] = [16, 32, 64, 128, 256, 512, 1024];

/// The header at the start of a class's page.
struct Header {
    /// Neighbours in the list of pages of the class that have room.
    next: *mut Header,
    prev: *mut Header,
    /// First free object; each free object's first word points to the next.
    free: *mut Object,
    /// Objects in use.
    used: usize,
}

struct Object {
    next: *mut Object,
}

struct Lists {
    /// Pages with room, per class.
    partial: [*mut Header; CLASSES.len()],
}

// SAFETY: the pointers lead to pages that only the holder of the lock touches.
unsafe impl Send for Lists {}

struct Heap {
    lists: Mutex<Lists>,
}

#[global_allocator]
static HEAP: Heap = Heap {
    lists: Mutex::new(Lists {
        partial: [ptr::null_mut(); CLASSES.len()],
    }),
};

fn class_of(layout: &Layout) -> Option<usize> {
    let need = layout.size().max(layout.align());
    CLASSES.iter().position(|&size| size >= need)
}

fn pages_of(layout: &Layout) -> usize {
    // The frame allocator aligns a run to the next power of two of its length.
    layout.size().max(layout.align()).div_ceil(PAGE_SIZE)
}

impl Lists {
    /// Prepares a fresh page for a class and puts it into the list.
    fn add_page(&mut self, class: usize) -> Option<()> {
        let page = phys::pointer::<Header>(frame::alloc_raw(1, Use::Heap)?);
        let size = CLASSES[class];
        let mut at = size_of::<Header>().next_multiple_of(size);
        let mut free = ptr::null_mut();
        while at + size <= PAGE_SIZE {
            // SAFETY: inside the page, which is ours; aligned to the object size.
            let object = unsafe { page.cast::<u8>().add(at).cast::<Object>() };
            // SAFETY: as above.
            unsafe { object.write(Object { next: free }) };
            free = object;
            at += size;
        }
        let next = self.partial[class];
        // SAFETY: the page is ours; `next` is null or a header in our list.
        unsafe {
            page.write(Header {
                next,
                prev: ptr::null_mut(),
                free,
                used: 0,
            });
            if let Some(next) = next.as_mut() {
                next.prev = page;
            }
        }
        self.partial[class] = page;
        Some(())
    }

    /// Takes a page out of the list of its class.
    ///
    /// # Safety
    /// `page` is in the list of `class`.
    unsafe fn unlink(&mut self, class: usize, page: *mut Header) {
        // SAFETY: list neighbours are null or headers of our pages.
        unsafe {
            let Header { next, prev, .. } = *page;
            match prev.as_mut() {
                Some(prev) => prev.next = next,
                None => self.partial[class] = next,
            }
            if let Some(next) = next.as_mut() {
                next.prev = prev;
            }
        }
    }

    fn alloc(&mut self, class: usize) -> Option<NonNull<u8>> {
        if self.partial[class].is_null() {
            self.add_page(class)?;
        }
        let page = self.partial[class];
        // SAFETY: pages in the list are ours and have at least one free object.
        unsafe {
            let object = (*page).free;
            (*page).free = (*object).next;
            (*page).used += 1;
            if (*page).free.is_null() {
                self.unlink(class, page);
            }
            NonNull::new(object.cast())
        }
    }

    /// # Safety
    /// `object` was given out by `alloc` for the same class and is not used any more.
    unsafe fn dealloc(&mut self, class: usize, object: *mut u8) {
        let page = (object as usize & !(PAGE_SIZE - 1)) as *mut Header;
        let object = object.cast::<Object>();
        // SAFETY: an object of a class lies in a page that begins with its header.
        unsafe {
            let was_full = (*page).free.is_null();
            object.write(Object { next: (*page).free });
            (*page).free = object;
            (*page).used -= 1;
            if was_full {
                let next = self.partial[class];
                (*page).next = next;
                (*page).prev = ptr::null_mut();
                if let Some(next) = next.as_mut() {
                    next.prev = page;
                }
                self.partial[class] = page;
            }
            let only = (*page).next.is_null() && (*page).prev.is_null();
            if (*page).used == 0 && !only {
                self.unlink(class, page);
                frame::free_raw(page as usize - phys::BASE, 1, Use::Heap);
            }
        }
    }
}

// SAFETY: objects are disjoint, aligned as asked and stay put until freed; see above.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(&layout) {
            Some(class) => self
                .lists
                .lock()
                .alloc(class)
                .map_or(ptr::null_mut(), NonNull::as_ptr),
            None => {
                let pages = pages_of(&layout);
                // A long list may be refused, a small object may not: that would be a panic.
                let is_list = pages > 1;
                if is_list && frame::check_room_for(pages).is_err() {
                    return ptr::null_mut();
                }
                frame::alloc_raw(pages, Use::Heap).map_or(ptr::null_mut(), phys::pointer)
            }
        }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        match class_of(&layout) {
            // SAFETY: the caller gives back what it got for this layout, hence this class.
            Some(class) => unsafe { self.lists.lock().dealloc(class, object) },
            None => frame::free_raw(object as usize - phys::BASE, pages_of(&layout), Use::Heap),
        }
    }
}
