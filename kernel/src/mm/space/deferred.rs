//! Deferred work of address spaces: an address space ends with its last reference, which can be
//! dropped anywhere, also where no message can be sent.

use alloc::collections::LinkedList;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::{AddrSpace, Unmapped};

/// A piece of deferred work, to be done with nothing on the stack and no lock held.
pub enum Deferred {
    /// A Munmap for a mapping that is gone, whose caller could not send it.
    Unmapped(Unmapped),
    /// A reference to drop. A chain of spaces that borrow from each other may be long, the
    /// kernel's stack is not.
    Space(Arc<AddrSpace>),
}

/// The work in its order. It may be longer than contiguous memory has room for.
static QUEUE: Mutex<LinkedList<Deferred>> = Mutex::new(LinkedList::new());
/// Whether the queue is not empty: every system call asks, and a load is cheaper than the lock.
static PENDING: AtomicBool = AtomicBool::new(false);

/// Whether there is deferred work.
pub fn has_deferred() -> bool {
    PENDING.load(Ordering::Relaxed)
}

/// Takes the work that was deferred first.
pub fn next_deferred() -> Option<Deferred> {
    let mut queue = QUEUE.lock();
    let work = queue.pop_front();
    PENDING.store(!queue.is_empty(), Ordering::Relaxed);
    work
}

pub(super) fn defer_unmapped(pieces: Vec<Unmapped>) {
    defer(pieces.into_iter().map(Deferred::Unmapped));
}

pub(super) fn defer_drop(space: Arc<AddrSpace>) {
    defer([Deferred::Space(space)]);
}

fn defer(work: impl IntoIterator<Item = Deferred>) {
    let mut queue = QUEUE.lock();
    queue.extend(work);
    PENDING.store(!queue.is_empty(), Ordering::Relaxed);
}
