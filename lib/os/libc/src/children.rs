//! Threads of the child processes that `fork` has made, for calls that concern a child. The
//! process manager hands a child's thread out only to the parent, and only during the fork.

use alloc::vec::Vec;
use core::ffi::c_int;

use runtime::process::Fork;
use runtime::{Error, Result, fd};
use syscall::error::ESRCH;

use crate::sync::Shared;

/// A child that the program has not waited for yet.
struct Child {
    pid: u32,
    /// The descriptor of its thread.
    thread: usize,
}

static CHILDREN: Shared<Vec<Child>> = Shared::new(Vec::new());

/// Runs `fork` and keeps the child's thread. Returns the id of the child, or 0 in the child. A
/// thread that waits for the child at the same time finds it here, as the lock is held.
///
/// # Errors
/// Those of `fork`.
pub fn kept(fork: impl FnOnce() -> Result<Fork>) -> Result<c_int> {
    CHILDREN.with(|children| match fork()? {
        Fork::Parent { pid, thread } => {
            children.push(Child { pid, thread });
            Ok(pid as c_int)
        }
        Fork::Child(_) => {
            // The parent's other children are not children of this process.
            children.drain(..).for_each(close);
            Ok(0)
        }
    })
}

/// Closes the thread of a child that the program has waited for.
pub fn ended(pid: u32) {
    CHILDREN.with(|children| {
        if let Some(index) = children.iter().position(|child| child.pid == pid) {
            close(children.swap_remove(index));
        }
    });
}

/// Runs `action` on the thread of a child.
///
/// # Errors
/// `ESRCH`: no child of `fork` with this id is left to wait for; and those of `action`.
pub fn with_thread<T>(pid: u32, action: impl FnOnce(usize) -> Result<T>) -> Result<T> {
    CHILDREN.with(|children| {
        let child = children.iter().find(|child| child.pid == pid);
        action(child.ok_or(Error::new(ESRCH))?.thread)
    })
}

fn close(child: Child) {
    // An error would not matter: the thread has ended, or its process goes on without us.
    let _ = fd::close(child.thread);
}
