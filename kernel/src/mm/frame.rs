//! Physical memory in 4 KiB frames with reference counts.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use ::syscall::error::{ENOMEM, Error, Result};
use kernel_core::buddy::{self, Buddy, Frame};
use kernel_core::memmap::MemoryMap;
use spin::{Mutex, MutexGuard};

use super::{PAGE_SIZE, daemons, phys};

static FRAMES: Mutex<Option<Buddy<'static>>> = Mutex::new(None);

/// Frames that programs' pages, page tables and kernel stacks cannot have, so that the kernel's
/// own small allocations do not fail because a program used up all memory.
const RESERVE: usize = 1024;
/// Below this many free frames no call may make new kernel objects.
const LOW: usize = 512;
/// In place of both for daemons, which get what other programs cannot use up: programs depend on
/// them, also for their own end.
const DAEMON_RESERVE: usize = 256;
/// The three are meant for so many contexts, and grow with the number of contexts. While it waits,
/// a context takes up to a kilobyte, and all may wait at once: for a word, a time, or a daemon that
/// does not answer. So the least of them grows by a kilobyte for each context, and the others by
/// more, so that something is left between them.
const CONTEXTS: usize = 1024;

/// Frames of a kernel stack, of which each context has one.
pub(super) const STACK_FRAMES: usize = 8;

/// A counted reference to a frame of RAM. Cloning it adds a reference, dropping it removes one;
/// the last drop frees the frame.
#[derive(Debug)]
pub struct FrameRef {
    number: u32,
}

/// Uses of frames that no program maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Heap,
    Tables,
    Stacks,
}

/// Frames by [`Use`], in its order.
static USED: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

fn used(by: Use) -> usize {
    USED[by as usize].load(Ordering::Relaxed)
}

/// One of the three constants, for the contexts that there are.
fn with_waits(kept: usize) -> usize {
    let contexts = used(Use::Stacks) / STACK_FRAMES;
    kept + kept * contexts / CONTEXTS
}

/// The amount of memory, and the kernel's own share of it.
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    /// Frames the allocator manages.
    pub total: usize,
    /// Free frames.
    pub free: usize,
    /// Frames of the longest free run.
    pub largest: usize,
    /// Frames of the kernel's heap.
    pub heap: usize,
    /// Frames of page tables, without those made at boot.
    pub tables: usize,
    /// Frames of kernel stacks, without those in the kernel's image.
    pub stacks: usize,
}

impl FrameRef {
    /// Takes over a reference that was given up with `into_phys`, or that was counted by hand.
    pub(super) fn from_counted(phys: usize) -> Self {
        FrameRef {
            number: (phys / PAGE_SIZE) as u32,
        }
    }

    /// Adds a reference to a frame in use.
    pub(super) fn share(phys: usize) -> Self {
        let number = (phys / PAGE_SIZE) as u32;
        with(|frames| frames.retain(number));
        FrameRef { number }
    }

    /// Gives the reference up without removing it from the count; returns the physical address.
    pub(super) fn into_phys(self) -> usize {
        let phys = self.phys();
        core::mem::forget(self);
        phys
    }

    /// Physical address of the frame.
    pub fn phys(&self) -> usize {
        self.number as usize * PAGE_SIZE
    }

    /// Kernel address of `len` bytes from `offset` on. Panics when they exceed the frame.
    pub(super) fn address(&self, offset: usize, len: usize) -> usize {
        assert!(
            offset <= PAGE_SIZE && len <= PAGE_SIZE - offset,
            "access beyond a frame"
        );
        phys::pointer::<u8>(self.phys() + offset) as usize
    }

    /// Fills bytes of the frame with zeros. Panics when they exceed the frame.
    pub fn zero(&self, offset: usize, len: usize) {
        // SAFETY: `address` has checked the range; frames are mapped, and programs that may share
        // this one make no difference to a store.
        unsafe { core::ptr::write_bytes(self.address(offset, len) as *mut u8, 0, len) };
    }

    /// Copies bytes out of the frame. Panics when `offset + bytes.len()` exceeds the frame.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        assert!(
            offset <= PAGE_SIZE && bytes.len() <= PAGE_SIZE - offset,
            "read beyond a frame"
        );
        phys::read(self.phys() + offset, bytes);
    }

    /// Copies bytes into the frame. Panics when `offset + bytes.len()` exceeds the frame.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset <= PAGE_SIZE && bytes.len() <= PAGE_SIZE - offset,
            "write beyond a frame"
        );
        phys::write(self.phys() + offset, bytes);
    }
}

impl Clone for FrameRef {
    fn clone(&self) -> Self {
        FrameRef::share(self.phys())
    }
}

impl Drop for FrameRef {
    fn drop(&mut self) {
        with(|frames| frames.drop_ref(self.number));
    }
}

/// Makes the allocator and takes the memory of the frame table out of `map`. `used` are physical
/// ranges of RAM that get one reference (kernel image, initfs).
///
/// # Safety
/// Called once, with a map whose free areas nobody uses.
pub(super) unsafe fn init(map: &mut MemoryMap, used: &[(u64, u64)]) {
    let frames = (map.ram_end(phys::limit() as u64) as usize).div_ceil(PAGE_SIZE);
    let table = new_table(map, frames, Frame::HOLE);
    let words = new_table(map, buddy::words_for(frames), 0);
    let mut buddy = Buddy::new(table, words);
    let frame = |address: u64| (address / PAGE_SIZE as u64) as u32;
    for &(base, size) in used {
        buddy.add_used(frame(base), frame(base + size + PAGE_SIZE as u64 - 1));
    }
    let mut from = 0;
    while let Some((start, end)) = map.next_free(from) {
        if start >= phys::limit() as u64 {
            break;
        }
        buddy.add_free(frame(start), frame(end.min(phys::limit() as u64)));
        from = end;
    }
    *FRAMES.lock() = Some(buddy);
}

/// A table of `count` entries, taken from the map for good.
fn new_table<T: Copy>(map: &mut MemoryMap, count: usize, entry: T) -> &'static mut [T] {
    let bytes = count * size_of::<T>();
    let table = map
        .take(bytes as u64, phys::limit() as u64)
        .unwrap_or_else(|| {
            panic!("no room for the frame table: {bytes} bytes in one piece are needed")
        });
    let table = phys::pointer::<T>(table as usize);
    for i in 0..count {
        // SAFETY: `take` gave this range, whole pages and large enough, to us alone.
        unsafe { table.add(i).write(entry) };
    }
    // SAFETY: initialised just now, never freed.
    unsafe { core::slice::from_raw_parts_mut(table, count) }
}

fn with<R>(action: impl FnOnce(&mut Buddy<'static>) -> R) -> R {
    action(
        FRAMES
            .lock()
            .as_mut()
            .expect("the frame allocator is made before its first use"),
    )
}

/// Allocates contiguous frames for the kernel itself, with undefined contents and one reference
/// each. Returns the physical address of the first.
pub(super) fn alloc_raw(pages: usize, by: Use) -> Option<usize> {
    let number = with(|frames| frames.alloc(pages))?;
    USED[by as usize].fetch_add(pages, Ordering::Relaxed);
    Some(number as usize * PAGE_SIZE)
}

/// Allocates one frame as `alloc_raw` does, but leaves the reserve alone.
pub(super) fn alloc_raw_checked(by: Use) -> Option<usize> {
    let frame = alloc_undefined()?;
    USED[by as usize].fetch_add(1, Ordering::Relaxed);
    Some(frame.into_phys())
}

/// `ENOMEM` when so little memory is left that programs must not make the kernel take more.
pub fn check_room() -> Result<()> {
    check_room_for(0)
}

/// [`check_room`] for a call that makes the kernel take this many frames.
pub(super) fn check_room_for(pages: usize) -> Result<()> {
    check_free(pages, LOW)
}

/// `ENOMEM` when page tables could not get this many frames now.
pub(super) fn check_tables(count: usize) -> Result<()> {
    check_free(count, RESERVE)
}

/// `ENOMEM` when so many frames could not be taken without those that are kept from programs.
fn check_free(pages: usize, kept: usize) -> Result<()> {
    let is_free = |kept| with(|frames| frames.free()) >= pages.saturating_add(with_waits(kept));
    if is_free(kept) || daemons::is_loaded() && is_free(DAEMON_RESERVE) {
        Ok(())
    } else {
        Err(Error::new(ENOMEM))
    }
}

/// Whether programs could get this many more pages now.
pub(super) fn has_room(pages: usize) -> bool {
    with(|frames| frames.free()) >= pages.saturating_add(with_waits(RESERVE))
}

/// Frees frames of `alloc_raw` or `alloc_raw_checked` with the same use.
pub(super) fn free_raw(phys: usize, pages: usize, by: Use) {
    USED[by as usize].fetch_sub(pages, Ordering::Relaxed);
    with(|frames| {
        for i in 0..pages {
            frames.drop_ref((phys / PAGE_SIZE + i) as u32);
        }
    });
}

/// A frame of zeros, or `None` when memory is used up (except for the kernel's reserve).
pub fn alloc_zeroed() -> Option<FrameRef> {
    let frame = alloc_undefined()?;
    phys::zero_frame(frame.phys());
    Some(frame)
}

/// A frame with undefined contents, which the caller overwrites completely.
pub(super) fn alloc_undefined() -> Option<FrameRef> {
    let alloc = |kept| {
        with(|f| match f.free() > with_waits(kept) {
            true => f.alloc(1),
            false => None,
        })
    };
    let number = alloc(RESERVE).or_else(|| {
        daemons::is_loaded()
            .then(|| alloc(DAEMON_RESERVE))
            .flatten()
    })?;
    Some(FrameRef { number })
}

/// `pages` physically contiguous zeroed frames in ascending order.
pub fn alloc_contiguous(pages: usize) -> Option<Vec<FrameRef>> {
    let mut frames = super::list_for(pages).ok()?;
    let first = with(|f| {
        if f.free() > with_waits(RESERVE).saturating_add(pages) {
            f.alloc(pages)
        } else {
            None
        }
    })?;
    let numbers = first..first + pages as u32;
    frames.extend(numbers.map(|number| FrameRef { number }));
    for frame in &frames {
        phys::zero_frame(frame.phys());
    }
    Some(frames)
}

/// Whether any frame of the range is RAM of the allocator.
pub(crate) fn any_ram(phys: usize, len: usize) -> bool {
    let first = (phys / PAGE_SIZE) as u64;
    let end = (phys + len).div_ceil(PAGE_SIZE) as u64;
    with(|frames| frames.any_ram(first..end))
}

/// The number of references to the frame at `phys`.
pub(super) fn refs(phys: usize) -> u32 {
    with(|frames| frames.refs((phys / PAGE_SIZE) as u32))
}

/// Whether several mappings are meant to see stores to the frame.
pub(super) fn is_shared(phys: usize) -> bool {
    with(|frames| frames.is_shared((phys / PAGE_SIZE) as u32))
}

/// Sets `is_shared`.
pub(super) fn set_shared(phys: usize, shared: bool) {
    with(|frames| frames.set_shared((phys / PAGE_SIZE) as u32, shared));
}

/// The reference counts of all frames, for work on a run of pages: the lock is taken once. Nothing
/// may be allocated or freed while this exists.
pub(super) struct Counts(MutexGuard<'static, Option<Buddy<'static>>>);

impl Counts {
    pub(super) fn lock() -> Counts {
        Counts(FRAMES.lock())
    }

    fn frames(&mut self) -> &mut Buddy<'static> {
        self.0
            .as_mut()
            .expect("the frame allocator is made before its first use")
    }

    /// The number of references to the frame at `phys`.
    pub(super) fn refs(&mut self, phys: usize) -> u32 {
        self.frames().refs((phys / PAGE_SIZE) as u32)
    }

    /// Adds a reference to a frame in use, for a mapping elsewhere.
    pub(super) fn retain(&mut self, phys: usize) {
        self.frames().retain((phys / PAGE_SIZE) as u32);
    }

    /// Adds a reference for a mapping elsewhere and marks the frame shared. False, with no effect,
    /// when a clone must not see the lender's stores, so that the frame must be copied first.
    pub(super) fn lend_exclusive(&mut self, phys: usize) -> bool {
        let number = (phys / PAGE_SIZE) as u32;
        let frames = self.frames();
        let exclusive = frames.is_shared(number) || frames.refs(number) == 1;
        if exclusive {
            frames.set_shared(number, true);
            frames.retain(number);
        }
        exclusive
    }
}

/// References to give back, many under one lock. Dropping this gives back the rest.
pub(super) struct Releases {
    numbers: [u32; Releases::MOST],
    count: usize,
}

impl Releases {
    const MOST: usize = 64;

    /// An empty list of references.
    pub(super) fn new() -> Releases {
        Releases {
            numbers: [0; Releases::MOST],
            count: 0,
        }
    }

    /// Adds a reference to a frame that was counted by hand.
    pub(super) fn add(&mut self, phys: usize) {
        if self.count == Self::MOST {
            self.give_back();
        }
        self.numbers[self.count] = (phys / PAGE_SIZE) as u32;
        self.count += 1;
    }

    fn give_back(&mut self) {
        let numbers = &self.numbers[..self.count];
        if !numbers.is_empty() {
            with(|frames| {
                for &number in numbers {
                    frames.drop_ref(number);
                }
            });
        }
        self.count = 0;
    }
}

impl Drop for Releases {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// Totals for `sys` and `fstatvfs` of `memory`.
pub fn stats() -> Stats {
    with(|frames| Stats {
        total: frames.total(),
        free: frames.free(),
        largest: frames.largest(),
        heap: used(Use::Heap),
        tables: used(Use::Tables),
        stacks: used(Use::Stacks),
    })
}

/// Takes over the reference with which `init` counted a frame in its `used` list.
pub(crate) fn adopt(phys: usize) -> FrameRef {
    assert!(
        refs(phys) == 1,
        "physical {phys:#x} was not counted as used at boot"
    );
    FrameRef::from_counted(phys)
}
