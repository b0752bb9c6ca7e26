//! Locks: a spin lock that gives the processor away while it waits.
//!
//! Critical sections in this crate are a few instructions long, so a waiter is nearly always just a
//! thread that was preempted between them; yielding lets it finish.

/// Waiting strategy of [`Mutex`]: yield to the scheduler.
pub struct YieldNow;

impl spin::RelaxStrategy for YieldNow {
    fn relax() {
        crate::sys::yield_now();
    }
}

/// A mutual exclusion lock for short critical sections.
pub type Mutex<T> = spin::mutex::SpinMutex<T, YieldNow>;
