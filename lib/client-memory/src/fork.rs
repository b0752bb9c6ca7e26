//! Keeps the state of this library consistent when `fork` copies the process.
//!
//! The child has copies of the program's pages, but none of the mappings of schemes. So it forgets
//! which ranges are the daemon's memory and which are mapped, and makes a pipe of its own.

use crate::{checked_copy, reachable, table};

/// Takes the locks of what this library remembers, until [`after`].
pub fn before() {
    table::before_fork();
    reachable::before_fork();
    checked_copy::before_fork();
}

/// Releases what [`before`] took, in each of the two processes.
///
/// # Safety
/// [`before`] was called, in this process or in the one that it is a copy of, and this function
/// has not been called since.
pub unsafe fn after(in_child: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        checked_copy::after_fork(in_child);
        reachable::after_fork(in_child);
        table::after_fork(in_child);
    }
}
