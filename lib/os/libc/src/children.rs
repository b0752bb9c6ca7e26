//! Threads of the processes that `fork` has made, for calls that concern a child: the process
//! manager gives them to nobody but the parent, and only while it forks.

use alloc::vec::Vec;
use core::ffi::c_int;

use runtime::process::Fork;
use runtime::{Error, Result, fd};
use syscall::error::ESRCH;

use crate::sync::Shared;

/// A child that has not been waited for.
struct Child {
    pid: u32,
    /// The descriptor of its thread.
    thread: usize,
}

static CHILDREN: Shared<Vec<Child>> = Shared::new(Vec::new());

/// Runs `fork` and keeps the child's thread; the number of the child, 0 in the child. Whoever waits
/// for the child at the same time finds it here.
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
            // The parent's other children are not the child's.
            children.drain(..).for_each(close);
            Ok(0)
        }
    })
}

/// Gives up what is kept of a child that was waited for.
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
/// `ESRCH` no child of `fork` that has not been waited for has this id; those of `action`.
pub fn with_thread<T>(pid: u32, action: impl FnOnce(usize) -> Result<T>) -> Result<T> {
    CHILDREN.with(|children| {
        let child = children.iter().find(|child| child.pid == pid);
        action(child.ok_or(Error::new(ESRCH))?.thread)
    })
}

fn close(child: Child) {
    // A thread that has ended has nothing more to say.
    let _ = fd::close(child.thread);
}
