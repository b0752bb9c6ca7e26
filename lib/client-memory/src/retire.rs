//! Values that were taken out of use while other threads may still use them: kept until no thread
//! does.
//!
//! A user calls [`enter`](Retired::enter) before it loads the value from its place, and
//! [`leave`](Retired::leave) when it is done with the value. A thread that takes a value out of
//! its place passes it to [`retire`](Retired::retire). That call, and [`take_unused`] after a
//! `leave` that asks for it, return the values that no thread can be using any more, each exactly
//! once; the caller drops them.
//!
//! [`take_unused`]: Retired::take_unused

use alloc::vec::Vec;

use sync::{AtomicBool, AtomicU32, Mutex, Ordering};

/// The users of one place, and the values that were taken out of it.
#[derive(Debug)]
pub struct Retired<T> {
    users: AtomicU32,
    /// Whether `kept` may hold something, so that the usual `leave` takes no lock.
    is_any_kept: AtomicBool,
    kept: Mutex<Vec<T>>,
}

impl<T> Default for Retired<T> {
    fn default() -> Self {
        Self {
            users: AtomicU32::new(0),
            is_any_kept: AtomicBool::new(false),
            kept: Mutex::new(Vec::new()),
        }
    }
}

impl<T> Retired<T> {
    /// Announces that this thread is about to load from the place.
    #[inline]
    pub fn enter(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// [`enter`](Self::enter) for the only thread of the program, without a locked instruction.
    #[inline]
    pub fn enter_alone(&self) {
        let users = self.users.load(Ordering::Relaxed);
        self.users.store(users.wrapping_add(1), Ordering::Relaxed);
    }

    /// [`leave`](Self::leave) for the only thread of the program, without a locked instruction.
    #[inline]
    #[must_use]
    pub fn leave_alone(&self) -> bool {
        let users = self.users.load(Ordering::Relaxed).wrapping_sub(1);
        self.users.store(users, Ordering::Relaxed);
        self.after_leaving(users == 0)
    }

    /// Resets the count in the child of a fork, which has a single thread, in no call.
    pub fn forget_users(&self) {
        self.users.store(0, Ordering::Relaxed);
    }

    /// Announces that this thread, which has entered, uses nothing any more. Returns whether a
    /// value may be kept that nobody uses now, so that the caller has to [take
    /// it](Self::take_unused).
    #[inline]
    #[must_use]
    pub fn leave(&self) -> bool {
        let is_last = self.users.fetch_sub(1, Ordering::AcqRel) == 1;
        self.after_leaving(is_last)
    }

    #[inline]
    fn after_leaving(&self, is_last: bool) -> bool {
        // A thread that retires something sets this, then changes the count. Either that change
        // sees that this thread has left, or this thread sees the flag.
        is_last && self.is_any_kept.load(Ordering::Relaxed)
    }

    /// Keeps a value that is no longer in its place while threads that have entered may use it.
    /// Returns the values that no thread can be using any more.
    #[must_use]
    pub fn retire(&self, thing: T) -> Vec<T> {
        let mut kept = self.kept.lock();
        kept.push(thing);
        self.is_any_kept.store(true, Ordering::Relaxed);
        drop(kept);
        self.take_unused()
    }

    /// The values that no thread can be using any more.
    #[cold]
    #[must_use]
    pub fn take_unused(&self) -> Vec<T> {
        // Wait for the lock: its holder may have counted this thread, which has left since.
        let mut kept = self.kept.lock();
        // An exchange sees the newest count, and a thread that enters after it no longer finds the
        // values that were taken out of the place before.
        if kept.is_empty() || self.users.fetch_add(0, Ordering::AcqRel) != 0 {
            return Vec::new();
        }
        self.is_any_kept.store(false, Ordering::Relaxed);
        core::mem::take(&mut *kept)
    }
}

#[cfg(not(test))]
mod sync {
    pub use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    pub use hal::lock::Mutex;
}

/// The same types from the tool that tries every order of the threads' steps.
#[cfg(test)]
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::thread;

    use super::Retired;

    /// A place with a number in it, 0 for nothing.
    #[derive(Default)]
    struct Place {
        number: AtomicU32,
        /// Whether the number has been dropped.
        is_gone: AtomicU32,
        retired: Retired<u32>,
    }

    impl Place {
        fn drop(&self, numbers: Vec<u32>) {
            for _ in numbers {
                assert_eq!(self.is_gone.fetch_add(1, Ordering::AcqRel), 0, "twice");
            }
        }

        fn use_it(&self) {
            self.retired.enter();
            if self.number.load(Ordering::Acquire) != 0 {
                thread::yield_now();
                assert_eq!(self.is_gone.fetch_add(0, Ordering::AcqRel), 0, "in use");
            }
            let may_be_unused = self.retired.leave();
            self.after_leaving(may_be_unused);
        }

        fn after_leaving(&self, may_be_unused: bool) {
            if may_be_unused {
                self.drop(self.retired.take_unused());
            }
        }

        fn forget(&self) {
            match self.number.swap(0, Ordering::AcqRel) {
                0 => {}
                number => self.drop(self.retired.retire(number)),
            }
        }
    }

    /// Tries every order of the steps of some users and one thread that takes the value away.
    fn try_all(users: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let place = Arc::new(Place::default());
            place.number.store(7, Ordering::Release);
            let threads: Vec<_> = (0..users)
                .map(|_| Arc::clone(&place))
                .map(|place| thread::spawn(move || place.use_it()))
                .collect();
            place.forget();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(place.is_gone.load(Ordering::Acquire), 1, "kept for ever");
        });
    }

    /// A thread that was alone before there were others; it takes a value away in the middle.
    #[test]
    fn the_only_thread_counts_itself_too() {
        loom::model(|| {
            let place = Arc::new(Place::default());
            place.number.store(7, Ordering::Release);
            place.retired.enter_alone();
            place.forget();
            assert_eq!(place.is_gone.load(Ordering::Acquire), 0, "in use");
            place.after_leaving(place.retired.leave_alone());
            assert_eq!(place.is_gone.load(Ordering::Acquire), 1, "kept for ever");
            place.is_gone.store(0, Ordering::Release);
            place.number.store(8, Ordering::Release);
            let other = Arc::clone(&place);
            let other = thread::spawn(move || other.use_it());
            place.forget();
            other.join().unwrap();
            assert_eq!(place.is_gone.load(Ordering::Acquire), 1, "kept for ever");
        });
    }

    #[test]
    fn what_is_retired_goes_once_and_unused() {
        try_all(1);
        try_all(2);
    }
}
