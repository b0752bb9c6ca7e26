//! Deferred work of address spaces: an address space ends with its last reference, which can be
//! dropped anywhere, also where no message can be sent.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use kernel_core::queue::{Entry, Queue};
use spin::Mutex;

use super::AddrSpace;
use super::grant::{self, Piece};

/// A piece of deferred work, to be done with an empty stack and no lock held.
pub enum Deferred {
    /// A Munmap for a mapping that is gone, which could not be sent at that point.
    Unmapped(Entry<Piece>),
    /// A reference to drop. A chain of spaces that borrow from each other may be long, and the
    /// kernel's stack is short.
    Space(Entry<Arc<AddrSpace>>),
}

/// References to spaces.
pub(super) type Spaces = Queue<Arc<AddrSpace>>;

/// Spaces to drop, in order, in the places that the areas which borrowed from them had for them.
static SPACES: Mutex<Spaces> = Mutex::new(Queue::new());
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
    let space = spaces.pop();
    PENDING.store(!spaces.is_empty(), Ordering::Relaxed);
    space.map(Deferred::Space)
}

pub(super) fn defer_drop(mut ended: Spaces) {
    let mut spaces = SPACES.lock();
    spaces.append(&mut ended);
    PENDING.store(!spaces.is_empty(), Ordering::Relaxed);
}
