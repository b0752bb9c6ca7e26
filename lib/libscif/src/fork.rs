//! Prepares the library for a fork.

use crate::table;

/// For the C library: a fork is about to copy this process's memory.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_before_fork() {
    // Evaluated now, so that no thread is in the middle of it when the child is copied.
    table::waiting();
    client_memory::fork::before();
}

/// For the C library, in both processes, after the fork. The child has neither the mappings of
/// data paths nor memory that the driver provides.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_after_fork(in_child: bool) {
    // SAFETY: the C library calls the two in turn.
    unsafe { client_memory::fork::after(in_child) };
    if in_child {
        table::close_in_child();
    }
}
