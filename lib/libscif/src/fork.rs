//! What a fork does to the library.

use crate::{table, user};

/// For the C library: a fork is about to copy this process's memory.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_before_fork() {
    // Found out here, as in the child nobody may be in the middle of it.
    table::waiting();
    user::before_fork();
    client_memory::fork::before();
}

/// For the C library, in both processes, afterwards. In the child the data paths' mappings are not
/// there, and no memory is the daemon's.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_after_fork(in_child: bool) {
    // SAFETY: the C library calls the two in turn.
    unsafe { client_memory::fork::after(in_child) };
    user::after_fork(in_child);
    if in_child {
        table::close_in_child();
    }
}
