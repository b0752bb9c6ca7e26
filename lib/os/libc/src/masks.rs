//! The signals that each thread blocks. Signal n is bit n - 1 of a mask.

use alloc::collections::BTreeMap;
use core::ffi::c_int;

use crate::sync::Shared;
use crate::tls::{self, Block};

/// The masks of the threads that block something, by their numbers (`gettid`).
pub static MASKS: Shared<BTreeMap<c_int, u64>> = Shared::new(BTreeMap::new());

/// The bit of a signal; `None` if there is no such signal.
pub fn bit(number: c_int) -> Option<u64> {
    (1..=64).contains(&number).then(|| 1 << (number - 1))
}

/// SIGKILL and SIGSTOP, which cannot be blocked or handled.
pub const FIXED: u64 = 1 << 8 | 1 << 18;

/// What the calling thread blocks.
pub fn own() -> u64 {
    // SAFETY: the control block of the calling thread, which no other uses.
    unsafe { (*tls::control()).blocked }
}

/// What the thread of this number blocks.
pub fn of(id: c_int) -> u64 {
    MASKS.with(|masks| masks.get(&id).copied().unwrap_or(0))
}

fn note(id: c_int, mask: u64) {
    MASKS.with(|masks| match mask {
        0 => masks.remove(&id),
        mask => masks.insert(id, mask),
    });
}

/// Sets what the calling thread blocks.
pub fn set(mask: u64) {
    let mask = mask & !FIXED;
    // SAFETY: as above.
    unsafe { (*tls::control()).blocked = mask };
    note(tls::gettid(), mask);
}

/// Lets a new thread block what the calling one does.
pub fn inherit(block: &Block) {
    let mask = own();
    // SAFETY: the block's thread does not run yet.
    let id = unsafe {
        let control = &mut *block.control();
        control.blocked = mask;
        control.id
    };
    note(id, mask);
}

/// Forgets the thread of a block, which ends or was not started.
pub fn end(block: &Block) {
    // SAFETY: the thread does not use its block any more, or calls this itself.
    let id = unsafe { (*block.control()).id };
    note(id, 0);
}

/// Takes the calling thread out of those whose masks count. It goes on to block what it blocks.
pub fn leave() {
    note(tls::gettid(), 0);
}

/// How many threads block a signal.
pub fn count(bit: u64) -> usize {
    MASKS.with(|masks| masks.values().filter(|mask| *mask & bit != 0).count())
}

/// Called in the child of a fork, in which only the calling thread runs.
pub fn forked() {
    MASKS.with(|masks| masks.clear());
    set(own());
}
