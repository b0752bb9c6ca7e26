//! Which page tables are those of daemons. What is asked for while they are loaded is for the
//! daemon, so that no call has to pass on whom it is for. The exception are pages of a client's
//! buffer, which a daemon touches.

use alloc::collections::BTreeSet;
use core::sync::atomic::{AtomicUsize, Ordering};

use spin::Mutex;
use x86_64::registers::control::Cr3;

/// The physical addresses of their top-level tables.
static ROOTS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The top-level table of the client for which a page is made; 0: there is none. The kernel runs
/// on one processor at a time.
static CLIENT: AtomicUsize = AtomicUsize::new(0);

/// Records that a daemon runs with these tables.
pub(super) fn add(root: usize) {
    ROOTS.lock().insert(root);
}

/// Forgets tables that end.
pub(super) fn forget(root: usize) {
    ROOTS.lock().remove(&root);
}

/// Runs an action, which does not wait, that takes memory for a client of the daemon that runs:
/// the program with these tables.
pub(super) fn for_client<R>(root: usize, action: impl FnOnce() -> R) -> R {
    let outer = CLIENT.swap(root, Ordering::Relaxed);
    let result = action();
    CLIENT.store(outer, Ordering::Relaxed);
    result
}

/// Whether memory is taken for a daemon: this processor has its tables loaded, and it asks for
/// itself or for another daemon.
pub(super) fn is_loaded() -> bool {
    let root = match CLIENT.load(Ordering::Relaxed) {
        0 => Cr3::read().0.start_address().as_u64() as usize,
        client => client,
    };
    ROOTS.lock().contains(&root)
}
