//! What a fork leaves to the child: none of the connections, and not the context of the ids. The
//! child has neither the thread that serves them nor the memory that the context shares with the
//! driver, so its own ids get new ones.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};

use super::group::TURN;
use super::link::LINKS;
use super::structures::SHARED;
use crate::device;

unsafe extern "C" {
    safe fn pthread_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
    ) -> c_int;
}

/// Whether the handlers of forks are registered. Children inherit them.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Registers the handlers of forks, once. Called before the first use of what [`before`] locks.
pub fn prepare() {
    // The handlers of a later call lock first: the locks of ids come before those of the device.
    device::prepare_fork();
    if !IS_READY.swap(true, Ordering::Relaxed) {
        pthread_atfork(before, in_parent, in_child);
    }
}

/// Takes the locks, in the order in which they are taken elsewhere: a child in which another thread
/// of the parent holds one would wait for it for ever.
extern "C" fn before() {
    TURN.hold();
    SHARED.hold();
    LINKS.hold();
}

extern "C" fn in_parent() {
    // SAFETY: `before` has taken the locks.
    unsafe {
        drop(LINKS.regain());
        drop(SHARED.regain());
        drop(TURN.regain());
    }
}

extern "C" fn in_child() {
    // SAFETY: `before` has taken the locks, in the process that this one is a copy of.
    let (mut links, mut shared, _turn) =
        unsafe { (LINKS.regain(), SHARED.regain(), TURN.regain()) };
    links.leave_to_parent();
    *shared = (0, 0);
}
