//! Deferred work of address spaces: an address space ends with its last reference, which can be
//! dropped anywhere, also where no message can be sent.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use spin::Mutex;

use super::{AddrSpace, Unmapped};

/// One thing to do, with nothing on the stack and no lock held.
pub enum Deferred {
    /// A mapping vanished without a caller who sends Munmap.
    Unmapped(Unmapped),
    /// A reference to drop. A chain of spaces that borrow from each other may be long, the
    /// kernel's stack is not.
    Space(Arc<AddrSpace>),
}

static QUEUE: Mutex<VecDeque<Deferred>> = Mutex::new(VecDeque::new());

/// Takes the work that was deferred first.
pub fn next_deferred() -> Option<Deferred> {
    QUEUE.lock().pop_front()
}

pub(super) fn defer_unmapped(pieces: Vec<Unmapped>) {
    QUEUE
        .lock()
        .extend(pieces.into_iter().map(Deferred::Unmapped));
}

pub(super) fn defer_drop(space: Arc<AddrSpace>) {
    QUEUE.lock().push_back(Deferred::Space(space));
}
