//! The reaper: work that follows from dropped objects, that is close and unmap messages, and the
//! last references to address spaces.
//!
//! A drop only queues the work (`object::deferred`, `mm::space::next_deferred`). It is done at the
//! end of the system call, at the end of a context, or before a wait. Nothing here blocks.

use core::sync::atomic::{AtomicBool, Ordering};

use super::{deliver, post_unmapped};
use crate::{
    mm::space::{self, Deferred},
    object::deferred,
};

static BUSY: AtomicBool = AtomicBool::new(false);

/// Does all queued work, including work that is queued meanwhile. Call it without locks held.
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

/// Sends one message about a dropped descriptor. False when there is none.
fn send() -> bool {
    deferred::next().map(deliver).is_some()
}

/// Does one piece of the address spaces' deferred work. False when there is none.
fn release() -> bool {
    let Some(work) = space::next_deferred() else {
        return false;
    };
    match work {
        Deferred::Unmapped(piece) => post_unmapped(piece),
        Deferred::Space(space) => drop(space),
    }
    true
}
