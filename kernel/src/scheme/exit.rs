//! The end of a context: its schemes, its descriptors, its address space.

use alloc::sync::Arc;

use super::{creator_ended, proc::context_ended, reaper};
use crate::{
    proc,
    sched::{self, ContextRef},
};

/// Ends the running context.
pub fn exit_current() -> ! {
    let context = sched::begin_exit();
    release(&context);
    sched::finish_exit(context)
}

/// Ends a context: at once when it never ran, otherwise as soon as it leaves the kernel; ends its
/// wait.
pub fn kill(context: &ContextRef) {
    if sched::kill(context) {
        release(context);
    }
}

/// Releases schemes, descriptors and address space of a context that ends, and announces its end.
fn release(context: &ContextRef) {
    proc::forget(context);
    // End the schemes first, so that closing a daemon's own descriptors needs no answer from it.
    creator_ended(context);
    proc::set_files(context, Arc::default());
    reaper::run();
    if let Some(owner) = proc::owner(context) {
        context_ended(owner);
    }
    sched::leave(context);
    reaper::run();
}
