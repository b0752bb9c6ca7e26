//! Deferred work of address spaces: an address space ends with its last reference, which can be
//! dropped anywhere, also where no message can be sent.

use alloc::collections::LinkedList;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::AddrSpace;
use super::grant::{self, Unmapped};

/// A piece of deferred work, to be done with an empty stack and no lock held.
pub enum Deferred {
    /// A Munmap for a mapping that is gone, which could not be sent at that point.
    Unmapped(Unmapped),
    /// A reference to drop. A chain of spaces that borrow from each other may be long, and the
    /// kernel's stack is short.
    Space(Arc<AddrSpace>),
}

/// Spaces to drop, in order. There may be more than contiguous memory has room for.
static SPACES: Mutex<LinkedList<Arc<AddrSpace>>> = Mutex::new(LinkedList::new());
/// Whether there are such spaces. Every system call checks this, and a load is cheaper than the
/// lock.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Whether there is deferred work.
pub fn has_deferred() -> bool {
    PENDING.load(Ordering::Relaxed) || grant::has_pieces()
}

/// Takes the next work. Pieces come before spaces, each kind in order.
pub fn next_deferred() -> Option<Deferred> {
    if let Some(piece) = grant::next_piece() {
        return Some(Deferred::Unmapped(piece));
    }
    let mut spaces = SPACES.lock();
    let space = spaces.pop_front();
    PENDING.store(!spaces.is_empty(), Ordering::Relaxed);
    space.map(Deferred::Space)
}

pub(super) fn defer_drop(space: Arc<AddrSpace>) {
    let mut spaces = SPACES.lock();
    spaces.push_back(space);
    PENDING.store(true, Ordering::Relaxed);
}
