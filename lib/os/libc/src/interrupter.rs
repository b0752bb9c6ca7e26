//! The thread of this library that interrupts others, so that they look at their
//! [notices](crate::points). It runs in programs that cancel threads, send signals to threads, or
//! handle signals from other processes.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::Result;
use runtime::time::Instant;

use crate::masks;
use crate::points::Call;
use crate::pthread::{self, Record};
use crate::sync::{self, Shared};

/// What the thread has to do.
pub struct Work {
    /// The threads that have to look at their notices.
    threads: Vec<Arc<Record>>,
    /// This library's thread, if it runs.
    server: *const Record,
    /// Whether it has to end.
    is_over: bool,
}

pub static WORK: Shared<Work> = Shared::new(Work {
    threads: Vec::new(),
    server: null(),
    is_over: false,
});
/// Changes with the work.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// The time between two attempts, in nanoseconds. It doubles up to the longest: a thread that
/// computes need not look soon, and one that is about to sleep does so at once.
const SHORTEST_PAUSE: u64 = 1_000_000;
const LONGEST_PAUSE: u64 = 64_000_000;

fn announce() {
    CHANGES.fetch_add(1, Ordering::SeqCst);
    sync::wake(&CHANGES, usize::MAX >> 1);
}

/// Has a thread look at its notices, if it waits. Does not wait for that.
///
/// # Errors
/// `EAGAIN`: the thread of this library could not be started.
pub fn interrupt(thread: Arc<Record>) -> Result<()> {
    WORK.with(|work| -> Result<()> {
        if work.server.is_null() {
            work.server = pthread::start_own(serve)?;
            work.is_over = false;
        }
        if !work.threads.iter().any(|other| Arc::ptr_eq(other, &thread)) {
            work.threads.push(thread);
        }
        Ok(())
    })?;
    announce();
    Ok(())
}

/// A call of the first thread that can be interrupted.
pub struct CallOfFirst(Arc<Record>, Call);

/// The call in which the first thread is now.
pub fn call_of_first() -> Option<CallOfFirst> {
    let first = pthread::first()?;
    let call = first.notices.call()?;
    Some(CallOfFirst(first, call))
}

impl CallOfFirst {
    /// Ends the call, unless it has ended.
    pub fn end(self) {
        let Self(first, call) = self;
        first.notices.end_call(call);
        // Without the thread the call goes on, as it does if the signal comes earlier.
        let _ = interrupt(first);
    }
}

unsafe extern "C" fn serve(_unused: *mut c_void) -> *mut c_void {
    let mut pause = SHORTEST_PAUSE;
    loop {
        let changes = CHANGES.load(Ordering::SeqCst);
        let (threads, is_over) = WORK.with(|work| {
            work.threads.retain(|thread| has_to_look(thread));
            (work.threads.clone(), work.is_over)
        });
        if is_over {
            break;
        }
        threads.iter().for_each(|thread| attempt(thread));
        let end = match threads.is_empty() {
            true => None,
            false => Some(Instant::now().as_nanos().saturating_add(pause)),
        };
        // Whatever ends the wait, the loop looks again.
        let _ = sync::wait(&CHANGES, changes, end);
        pause = match CHANGES.load(Ordering::SeqCst) == changes {
            true => LONGEST_PAUSE.min(2 * pause),
            false => SHORTEST_PAUSE,
        };
    }
    null_mut()
}

/// Whether a thread still has to look at its notices, and can.
fn has_to_look(thread: &Record) -> bool {
    thread.runs() && thread.notices.has_to_look(masks::of(thread.id()))
}

fn attempt(thread: &Record) {
    thread.notices.interrupt(|| {
        // It fails when the thread has ended, and when there is no room for another descriptor: the
        // next attempt may find some.
        let _ = thread.interrupt();
    });
}

/// Called in the child of a fork, which has one thread.
pub fn forked() {
    WORK.with(|work| {
        // What other threads had is not freed: their records are not known to be whole.
        core::mem::forget(core::mem::take(&mut work.threads));
        work.server = null();
    });
}

/// Ends the thread, as another program is to take the place of this one and must be the only
/// thread. It starts again when it is needed.
pub fn leave() {
    let server = WORK.with(|work| {
        work.is_over = true;
        work.threads.clear();
        core::mem::replace(&mut work.server, null())
    });
    if !server.is_null() {
        announce();
        // SAFETY: started by `interrupt`, and joined by nobody else.
        unsafe { pthread::pthread_join(server, null_mut()) };
    }
}
