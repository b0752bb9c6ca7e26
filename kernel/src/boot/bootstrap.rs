//! The first program: the initfs image itself, mapped at 0x1000.
//!
//! The program gets no stack and no arguments; the four metadata pages at the top of user space
//! name the kernel's schemes for it.

use alloc::vec::Vec;

use crate::mm::frame::{self, FrameRef};
use crate::mm::space::{AddrSpace, Placement, Prot};
use crate::mm::{PAGE_SIZE, USER_END, phys};
use crate::{proc, scheme};

use super::KernelArgs;

/// The address at which the image is mapped.
const IMAGE: usize = 0x1000;
/// Offset of the entry address (a 64-bit word) in the image.
const ENTRY_WORD: usize = 0x1A;
const METADATA_PAGES: usize = 4;
/// The address at which the metadata is mapped.
const METADATA: usize = USER_END - METADATA_PAGES * PAGE_SIZE;

/// Makes the first context and lets it run. Panics when the image is no program.
pub fn start(args: &KernelArgs) {
    let (base, size) = (args.initfs.0 as usize, args.initfs.1 as usize);
    // Whole pages only, like Redox.
    let pages = size / PAGE_SIZE;
    if size % PAGE_SIZE != 0 {
        log::warn!(
            "the last {} bytes of the initfs are no whole page: lost",
            size % PAGE_SIZE
        );
    }
    let mut entry = [0; 8];
    if size >= ENTRY_WORD + 8 {
        phys::read(base + ENTRY_WORD, &mut entry);
    }
    let entry = usize::from_le_bytes(entry);
    assert!(
        pages > 0 && entry != 0,
        "the initfs image ({size} bytes) has no entry address in the word at {ENTRY_WORD:#x}"
    );

    scheme::init();
    let first = proc::create_first().expect("memory for the first context");
    let space = AddrSpace::new().expect("memory for the first address space");
    let image = image_frames(base, pages);
    space
        .map_private(Placement::Fixed(IMAGE), image, Prot::all())
        .expect("room for the initfs image below 2^47");
    let metadata = metadata_frames(&scheme::publish_roots(&proc::files_of(&first)));
    space
        .map_private(Placement::Fixed(METADATA), metadata, Prot::READ)
        .expect("room for the metadata pages");
    first.set_space(Some(space));
    first.set_entry(entry, 0, 0).unwrap_or_else(|_| {
        panic!("the initfs image wants to be entered at {entry:#x}, outside user space")
    });
    proc::start(&first).expect("the first context is new and has a space");
    log::info!("first program: {pages} pages at {IMAGE:#x}, entry {entry:#x}");
}

/// The frames of the image. An image on a page boundary becomes the program's memory as it is; any
/// other image is copied.
fn image_frames(base: usize, pages: usize) -> Vec<FrameRef> {
    if base.is_multiple_of(PAGE_SIZE) {
        return (0..pages)
            .map(|i| frame::adopt(base + i * PAGE_SIZE))
            .collect();
    }
    let mut page = [0; PAGE_SIZE];
    let copy = |i: usize| {
        let frame = frame::alloc_zeroed().expect("memory for a copy of the initfs image");
        phys::read(base + i * PAGE_SIZE, &mut page);
        frame.write(0, &page);
        frame
    };
    (0..pages).map(copy).collect()
}

fn metadata_frames(bytes: &[u8]) -> Vec<FrameRef> {
    assert!(
        bytes.len() <= METADATA_PAGES * PAGE_SIZE,
        "metadata fits its pages"
    );
    let frame = |i: usize| {
        let frame = frame::alloc_zeroed().expect("memory for the metadata pages");
        let rest = bytes.get(i * PAGE_SIZE..).unwrap_or(&[]);
        frame.write(0, &rest[..rest.len().min(PAGE_SIZE)]);
        frame
    };
    (0..METADATA_PAGES).map(frame).collect()
}
