//! Synchronization of threads: a lock for short critical sections, and a signal to wait for.

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

/// A mutual exclusion lock for critical sections of a few instructions. On one processor, the
/// holder was preempted when another thread waits, and yielding lets it finish. On several, the
/// holder may be running: then the yield, which returns at once, is the pause between two
/// attempts.
pub type Mutex<T> = spin::mutex::SpinMutex<T, YieldNow>;
