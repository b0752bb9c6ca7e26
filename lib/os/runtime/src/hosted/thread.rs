//! Threads, over `std::thread`.

use syscall::error::{EINVAL, Error, Result};

pub use std::thread::yield_now;

pub use crate::time::sleep;

/// A started thread. Dropping this does not stop the thread.
pub struct JoinHandle<T> {
    thread: std::thread::JoinHandle<T>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread's function has returned, and returns its result.
    pub fn join(self) -> Result<T> {
        self.thread.join().map_err(|_| Error::new(EINVAL))
    }

    /// Whether the thread's function has returned.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

/// Whether the calling thread is known to be the only one that the process has ever had: here that
/// is never known.
pub fn is_alone() -> bool {
    false
}

/// Starts a thread that runs `main`.
pub fn spawn<T: Send + 'static>(
    main: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let thread = std::thread::Builder::new().spawn(main);
    thread
        .map(|thread| JoinHandle { thread })
        .map_err(super::number)
}
