//! Kernel stacks, each above an unmapped guard page.

use alloc::vec::Vec;

use spin::Mutex;

use super::{PAGE_SIZE, frame::STACK_FRAMES, paging};

/// Bytes of a kernel stack.
pub const SIZE: usize = STACK_FRAMES * PAGE_SIZE;
/// Bytes of a stack and its guard page.
const SLOT: usize = SIZE + PAGE_SIZE;
/// Stacks for which the region has room (one top-level entry of 512 GiB).
const MAX: usize = (1 << 39) / SLOT;

/// Unused stacks that stay mapped for the next contexts.
const KEEP: usize = 16;

struct Slots {
    /// Mapped stacks that are not in use.
    idle: Vec<usize>,
    /// Slots whose pages were given back.
    empty: Vec<usize>,
    /// The first slot that was never used.
    next: usize,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots {
    idle: Vec::new(),
    empty: Vec::new(),
    next: 0,
});

fn top_of(slot: usize) -> usize {
    paging::STACKS + (slot + 1) * SLOT
}

fn pages_of(slot: usize) -> impl Iterator<Item = usize> {
    (top_of(slot) - SIZE..top_of(slot)).step_by(PAGE_SIZE)
}

/// A kernel stack. When it is dropped, it may be kept for the next context.
#[derive(Debug)]
pub struct KernelStack {
    slot: usize,
}

impl KernelStack {
    /// A stack, or `None` without memory.
    pub fn new() -> Option<Self> {
        let mut slots = SLOTS.lock();
        if let Some(slot) = slots.idle.pop() {
            return Some(KernelStack { slot });
        }
        let slot = match slots.empty.pop() {
            Some(slot) => slot,
            None if slots.next < MAX => {
                // Room for every slot in either list, so that a drop never needs memory.
                let room = slots.next + 1 - slots.empty.len();
                slots.empty.try_reserve(room).ok()?;
                slots.idle.try_reserve(KEEP).ok()?;
                slots.next += 1;
                slots.next - 1
            }
            None => return None,
        };
        if pages_of(slot).all(|page| paging::map_stack_page(page).is_some()) {
            return Some(KernelStack { slot });
        }
        pages_of(slot).for_each(paging::unmap_stack_page);
        slots.empty.push(slot);
        None
    }

    /// The address behind the last byte; a multiple of 4096.
    pub fn top(&self) -> usize {
        top_of(self.slot)
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        let mut slots = SLOTS.lock();
        if slots.idle.len() < KEEP {
            slots.idle.push(self.slot);
        } else {
            pages_of(self.slot).for_each(paging::unmap_stack_page);
            slots.empty.push(self.slot);
        }
    }
}

/// Whether an address lies in a guard page, for the report of a double fault.
pub fn is_guard(addr: usize) -> bool {
    paging::is_guard(addr)
        || (paging::STACKS..paging::STACKS + MAX * SLOT).contains(&addr)
            && (addr - paging::STACKS) % SLOT < PAGE_SIZE
}
