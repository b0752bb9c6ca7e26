//! Work that follows from dropping something: close and unmap messages, and the last references to
//! address spaces.
//!
//! Dropping only notes what is to do (`object::deferred`, `mm::space::next_deferred`); it is done
//! at the end of the system call, at the end of a context, or before waiting. Nothing here blocks.

use core::sync::atomic::{AtomicBool, Ordering};

use super::{close, detach, unmapped_without_waiting};
use crate::{
    mm::space::{self, Deferred},
    object::deferred::{self, Work},
};

static BUSY: AtomicBool = AtomicBool::new(false);

/// Does all noted work, including what comes up meanwhile. Call it without locks held.
pub fn run() {
    if !deferred::is_pending() && !space::has_deferred() {
        return;
    }
    if BUSY.swap(true, Ordering::Acquire) {
        return;
    }
    while send() || release() {}
    BUSY.store(false, Ordering::Release);
}

/// Sends one message about a dropped descriptor; false when there is none.
fn send() -> bool {
    let Some(work) = deferred::next() else {
        return false;
    };
    match work {
        Work::Close { scheme, number } => close(scheme, number),
        Work::Detach {
            scheme,
            number,
            pid,
        } => detach(scheme, number, pid),
    }
    true
}

/// Does one thing that address spaces left; false when there is none.
fn release() -> bool {
    let Some(work) = space::next_deferred() else {
        return false;
    };
    match work {
        Deferred::Unmapped(piece) => unmapped_without_waiting(piece),
        Deferred::Space(space) => drop(space),
    }
    true
}
