//! Copies between the kernel and the memory of the *current* program.
//!
//! Every function answers `EFAULT` for ranges outside user space, unmapped pages and missing
//! rights; absent lazy pages are faulted in. Nothing here ever page-faults in the kernel.

use ::syscall::error::Result;

/// Fills `bytes` from the program's memory at `addr`.
pub fn copy_in(addr: usize, bytes: &mut [u8]) -> Result<()> {
    crate::sched::current_space()?.read(addr, bytes)
}

/// Stores `bytes` in the program's memory at `addr`.
pub fn copy_out(addr: usize, bytes: &[u8]) -> Result<()> {
    crate::sched::current_space()?.write(addr, bytes)
}
