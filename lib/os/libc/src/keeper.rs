//! Which thread has a stream to itself: `flockfile`. Threads are given by their numbers, which are
//! not 0.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sync;

/// The thread that keeps a stream to itself between calls. Changed and asked for under the lock of
/// the stream's state.
#[derive(Default)]
pub struct Keeper {
    /// The thread's number, 0: none.
    thread: AtomicU32,
    /// How often it has taken the stream.
    depth: AtomicU32,
    /// Threads that wait for the stream.
    waiting: AtomicU32,
}

impl Keeper {
    /// Whether the thread `own`, the caller, may use the stream.
    pub fn lets_in(&self, own: u32) -> bool {
        let thread = self.thread.load(Ordering::SeqCst);
        thread == 0 || thread == own
    }

    /// Takes the stream for the calling thread, once more if it has it; whether that could be.
    pub fn take(&self, own: u32) -> bool {
        let is_in = self.lets_in(own);
        if is_in {
            self.thread.store(own, Ordering::SeqCst);
            self.depth.fetch_add(1, Ordering::Relaxed);
        }
        is_in
    }

    /// Gives it up, as often as it was taken; nothing if another thread has it.
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

    /// Waits until the thread that has it gives it up.
    pub fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let thread = self.thread.load(Ordering::SeqCst);
        if thread != 0 {
            // Whatever ends the wait, the caller looks again.
            let _ = sync::wait(&self.thread, thread, None);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// For the child of a fork, whose only thread uses it alone.
    pub fn forget(&self) {
        self.thread.store(0, Ordering::SeqCst);
        self.depth.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::SeqCst);
    }
}
