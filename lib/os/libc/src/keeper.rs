//! Which thread has reserved a stream by `flockfile`. Threads are given by their numbers, which
//! are never 0.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sync;

/// The thread that has reserved a stream between calls. A thread takes it, and asks for it, under
/// the lock of the stream's state; it gives it up without that lock.
#[derive(Default)]
pub struct Keeper {
    /// The number of the thread, or 0 for none.
    thread: AtomicU32,
    /// How often that thread has taken the stream.
    depth: AtomicU32,
    /// The number of threads that wait for the stream.
    waiting: AtomicU32,
}

impl Keeper {
    /// Whether the calling thread, whose number is `own`, may use the stream.
    pub fn lets_in(&self, own: u32) -> bool {
        let thread = self.thread.load(Ordering::SeqCst);
        thread == 0 || thread == own
    }

    /// Takes the stream for the calling thread, again if it has it already; returns whether that
    /// worked.
    pub fn take(&self, own: u32) -> bool {
        let is_in = self.lets_in(own);
        if is_in {
            self.thread.store(own, Ordering::SeqCst);
            self.depth.fetch_add(1, Ordering::Relaxed);
        }
        is_in
    }

    /// Undoes one `take`. Does nothing if another thread has the stream.
    pub fn give(&self, own: u32) {
        if self.thread.load(Ordering::SeqCst) != own {
            return;
        }
        if self.depth.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.thread.store(0, Ordering::SeqCst);
            if self.waiting.load(Ordering::SeqCst) > 0 {
                sync::wake(&self.thread, usize::MAX);
            }
        }
    }

    /// Waits until the thread that has the stream gives it up.
    pub fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let thread = self.thread.load(Ordering::SeqCst);
        if thread != 0 {
            // Whatever ends the wait, the caller looks again.
            let _ = sync::wait(&self.thread, thread, None);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// For the child of a fork, whose only thread has the stream to itself.
    pub fn forget(&self) {
        self.thread.store(0, Ordering::SeqCst);
        self.depth.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::SeqCst);
    }
}
