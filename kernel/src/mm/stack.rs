//! Kernel stacks: mapped with an unmapped guard page below each.

use alloc::vec::Vec;

use spin::Mutex;

use super::{PAGE_SIZE, paging};

/// Bytes of a kernel stack.
pub const SIZE: usize = 8 * PAGE_SIZE;
/// Stack and guard.
const SLOT: usize = SIZE + PAGE_SIZE;
/// So many stacks fit the region (one top-level entry of 512 GiB).
const MAX: usize = (1 << 39) / SLOT;

struct Slots {
    /// Stacks mapped and not in use. They stay mapped: their number is that of the most contexts
    /// that ever lived at once.
    idle: Vec<usize>,
    next: usize,
}

static SLOTS: Mutex<Slots> = Mutex::new(Slots {
    idle: Vec::new(),
    next: 0,
});

/// A kernel stack; dropped, it is kept for the next context.
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
        let slot = slots.next;
        if slot == MAX {
            return None;
        }
        // So that a drop never needs memory.
        slots.idle.try_reserve(slot + 1).ok()?;
        let stack = core::mem::ManuallyDrop::new(KernelStack { slot });
        // When memory ends half-way the pages mapped so far wait for the next try.
        for page in (stack.top() - SIZE..stack.top()).step_by(PAGE_SIZE) {
            paging::map_stack_page(page)?;
        }
        slots.next += 1;
        Some(core::mem::ManuallyDrop::into_inner(stack))
    }

    /// Address behind the last byte; a multiple of 4096.
    pub fn top(&self) -> usize {
        paging::STACKS + (self.slot + 1) * SLOT
    }
}

impl Drop for KernelStack {
    fn drop(&mut self) {
        SLOTS.lock().idle.push(self.slot);
    }
}

/// Whether an address lies in a guard page (for the report of a double fault).
pub fn is_guard(addr: usize) -> bool {
    addr >= paging::STACKS
        && addr < paging::STACKS + MAX * SLOT
        && (addr - paging::STACKS) % SLOT < PAGE_SIZE
}
