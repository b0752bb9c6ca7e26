//! Threads of the child processes that `fork` has made, for calls that concern a child. The
//! process manager hands a child's thread out only to the parent, and only during the fork.

use alloc::vec::Vec;
use core::ffi::c_int;

use runtime::process::Fork;
use runtime::{Error, Result, fd, process};
use syscall::error::ESRCH;

use crate::sync::Shared;

/// A child that the program has not waited for yet.
struct Child {
    pid: u32,
    /// The descriptor of its thread.
    thread: usize,
}

static CHILDREN: Shared<Vec<Child>> = Shared::new(Vec::new());

/// Runs `fork` and keeps the child's thread, unless nobody is going to wait for the child
/// (`leaves_nothing`), so that nothing would tell of its end. Returns the id of the child, or 0 in
/// the child. A thread that waits for the child at the same time finds it here, as the lock is
/// held.
///
/// # Errors
/// Those of `fork`.
pub fn kept(leaves_nothing: bool, fork: impl FnOnce() -> Result<Fork>) -> Result<c_int> {
    CHILDREN.with(|children| match fork()? {
        Fork::Parent { pid, thread } => {
            let child = Child { pid, thread };
            if leaves_nothing {
                close(child);
                return Ok(pid as c_int);
            }
            if children.len() == children.capacity() {
                // Those that have ended while SIGCHLD was ignored are left over. Looking for them
                // whenever the list would have to grow costs a few calls for each child at most.
                let is_gone = |child: &mut Child| has_gone(child.pid);
                children.extract_if(.., is_gone).for_each(close);
            }
            children.push(child);
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

/// Whether a child has ended and was collected.
fn has_gone(pid: u32) -> bool {
    matches!(process::kill(pid, 0), Err(Error { errno: ESRCH }))
}

fn close(child: Child) {
    // An error would not matter: the thread has ended, or its process goes on without us.
    let _ = fd::close(child.thread);
}
