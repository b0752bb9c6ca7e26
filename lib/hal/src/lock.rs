//! A lock for threads of one process. Waiters sleep, so the lock may be held during system calls.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

unsafe extern "C" {
    fn redox_futex_wait_v0(address: *mut u32, value: u32, deadline: *const ()) -> usize;
    fn redox_futex_wake_v0(address: *mut u32, count: u32) -> usize;
}

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and a thread may sleep until it is free.
const CONTENDED: u32 = 2;

/// A value behind a lock. A thread must not take the lock twice: it would wait for itself.
#[derive(Debug)]
pub struct Mutex<T> {
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, of which one exists at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// Access to the locked value. Dropping it frees the lock.
pub struct Guard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is free and takes it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        let taken = self
            .state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            self.wait();
        }
        Guard { mutex: self }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let taken = self
            .state
            .compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(|_| Guard { mutex: self })
    }

    /// Sleeps until the lock is free and takes it as `CONTENDED`, since other threads may wait,
    /// too.
    #[cold]
    fn wait(&self) {
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            // SAFETY: the word lives; whatever ends the wait, the loop looks again.
            let _ =
                unsafe { redox_futex_wait_v0(self.state.as_ptr(), CONTENDED, core::ptr::null()) };
        }
    }

    /// Takes the lock and keeps it without a guard, for the time in which a fork copies memory.
    pub fn hold(&self) {
        core::mem::forget(self.lock());
    }

    /// The guard of a lock that [`hold`](Self::hold) took. After a fork, each of the two processes
    /// takes it.
    ///
    /// # Safety
    /// [`hold`](Self::hold) was called, in this process or in the one that it is a copy of, and
    /// this function has not been called since.
    pub const unsafe fn regain(&self) -> Guard<'_, T> {
        Guard { mutex: self }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.mutex.state.swap(FREE, Ordering::Release) == CONTENDED {
            // SAFETY: waking only looks at the word's address.
            let _ = unsafe { redox_futex_wake_v0(self.mutex.state.as_ptr(), 1) };
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard is the only way to the value while it lives.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.mutex.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use super::Mutex;

    #[test]
    fn a_lock_that_is_held_can_be_regained() {
        let lock = Mutex::new(1);
        lock.hold();
        // SAFETY: held above.
        *unsafe { lock.regain() } += 1;
        assert_eq!(*lock.lock(), 2);
    }

    #[test]
    fn a_lock_that_is_taken_is_not_taken_again() {
        let lock = Mutex::new(1);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert_eq!(lock.try_lock().as_deref(), Some(&1));
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn no_increment_is_lost() {
        static COUNT: Mutex<u32> = Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        *COUNT.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*COUNT.lock(), 40_000);
    }
}
