//! Synchronization of threads: a lock for short times, and a signal to sleep for.

#[cfg(not(feature = "std"))]
mod signal;

#[cfg(not(feature = "std"))]
pub use signal::Signal;

/// Waiting strategy of [`Mutex`]: yield to the scheduler.
pub struct YieldNow;

impl spin::RelaxStrategy for YieldNow {
    fn relax() {
        crate::sys::yield_now();
    }
}

/// A mutual exclusion lock for critical sections of a few instructions. On one processor, a waiting
/// thread is behind a thread that was preempted between them, and giving way lets it finish. On
/// several, the holder may be running: then the call, which returns at once, is the pause between
/// two looks.
pub type Mutex<T> = spin::mutex::SpinMutex<T, YieldNow>;
