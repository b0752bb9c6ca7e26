//! Which page tables are those of daemons. What is asked for while they are loaded is for the
//! daemon, so that no call has to pass on whom it is for.

use alloc::collections::BTreeSet;

use spin::Mutex;
use x86_64::registers::control::Cr3;

/// The physical addresses of their top-level tables.
static ROOTS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Records that a daemon runs with these tables.
pub(super) fn add(root: usize) {
    ROOTS.lock().insert(root);
}

/// Forgets tables that end.
pub(super) fn forget(root: usize) {
    ROOTS.lock().remove(&root);
}

/// Whether this processor has the tables of a daemon loaded.
pub(super) fn is_loaded() -> bool {
    let root = Cr3::read().0.start_address().as_u64() as usize;
    ROOTS.lock().contains(&root)
}
