//! Work that follows from dropping something: close and unmap messages.
//!
//! The last reference to a description can go away anywhere: with a lock held, inside another
//! close (a pipe that carries a pipe that …), or in an error path. So dropping only notes what is
//! to do; it is done at the end of the system call, at the end of a context, or before waiting.
//! Nothing here blocks.

use alloc::{collections::VecDeque, sync::Arc};
use core::sync::atomic::{AtomicBool, Ordering};

use spin::Mutex;

use super::SchemeId;
use crate::{
    mm::space::{AddrSpace, Unmapped},
    scheme,
};

/// One thing to do.
pub enum Work {
    /// The last reference to a description is gone.
    Close {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
    },
    /// A descriptor was closed whose scheme wants to know.
    Detach {
        /// Its scheme.
        scheme: SchemeId,
        /// The scheme's number for it.
        number: usize,
        /// Process that closed it.
        pid: usize,
    },
    /// A mapping vanished with its address space.
    Unmap(Unmapped),
    /// Nothing refers to an address space for this reason any more.
    Release(Arc<AddrSpace>),
}

static QUEUE: Mutex<VecDeque<Work>> = Mutex::new(VecDeque::new());
static BUSY: AtomicBool = AtomicBool::new(false);

/// Notes work for the next [`run`].
pub fn defer(work: Work) {
    QUEUE.lock().push_back(work);
}

/// Does all noted work, including what comes up meanwhile. Call it without locks held.
pub fn run() {
    if BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    loop {
        let Some(work) = QUEUE.lock().pop_front() else {
            break;
        };
        match work {
            Work::Close { scheme, number } => scheme::close(scheme, number),
            Work::Detach {
                scheme,
                number,
                pid,
            } => scheme::detach(scheme, number, pid),
            Work::Unmap(piece) => scheme::unmapped_without_waiting(piece),
            Work::Release(space) => drop(space),
        }
    }
    BUSY.store(false, Ordering::Release);
}
