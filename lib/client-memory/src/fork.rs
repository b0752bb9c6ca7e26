//! The state that this library keeps for its process, when `fork` doubles it.
//!
//! The child has copies of the program's pages, but not what schemes have mapped. So it forgets
//! which ranges are memory of the daemon and which are there, and makes pipes of its own.

use crate::{range, reachable, table};

/// Keeps other threads from what is remembered until [`after`].
pub fn before() {
    table::before_fork();
    reachable::before_fork();
    range::before_fork();
}

/// Ends what [`before`] began, in each of the two processes.
///
/// # Safety
/// [`before`] was called, here or in the process that this one is a copy of, and this function not
/// since.
pub unsafe fn after(in_child: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        range::after_fork(in_child);
        reachable::after_fork(in_child);
        table::after_fork(in_child);
    }
}
