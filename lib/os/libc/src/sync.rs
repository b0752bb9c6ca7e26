//! Locks for this library's own data, and the futex behind POSIX's locks.

use core::sync::atomic::AtomicU32;
use core::time::Duration;

use runtime::Result;
use runtime::sync::Mutex;
use runtime::sys;
use runtime::time::Instant;

/// A value that one thread at a time can use. Unlike a plain `Mutex` it can hold raw pointers, as
/// C's data does.
pub struct Shared<T>(Mutex<Holder<T>>);

struct Holder<T>(T);

// SAFETY: the value is only reachable through the lock; raw pointers in it belong to C objects
// that any thread may use in turn.
unsafe impl<T> Send for Holder<T> {}

impl<T> Shared<T> {
    /// Makes a value.
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(Holder(value)))
    }

    /// Runs `action` on the value while no other thread does. It must be short, and must not use
    /// this value again.
    pub fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        action(&mut self.0.lock().0)
    }

    /// As [`with`](Self::with), unless another thread uses the value.
    pub fn try_with<R>(&self, action: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.0.try_lock().map(|mut value| action(&mut value.0))
    }
}

/// A lock that `fork` takes.
pub trait Lock: Sync {
    /// Takes the lock. Its holder keeps it only for a short time, but may be off its processor
    /// meanwhile.
    fn take(&self);

    /// Releases the lock.
    ///
    /// # Safety
    /// [`take`](Self::take) has taken it, here or in the process of which this one is a copy.
    unsafe fn open(&self);
}

impl<T> Lock for Shared<T> {
    fn take(&self) {
        core::mem::forget(self.0.lock());
    }

    unsafe fn open(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.force_unlock() };
    }
}

impl<T> Shared<T> {
    /// Takes the lock, unless its holder sleeps according to `is_asleep` or keeps it for longer
    /// than `limit`; returns whether the lock is taken.
    pub fn take_within(&self, limit: Duration, is_asleep: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        loop {
            if let Some(guard) = self.0.try_lock() {
                core::mem::forget(guard);
                return true;
            }
            if is_asleep() || start.elapsed() > limit {
                return false;
            }
            runtime::time::sleep(PAUSE);
        }
    }
}

/// The time between two attempts, in which the holder can run.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits while `word` is `value`, at most until `deadline` (monotonic clock, nanoseconds).
///
/// # Errors
/// `EAGAIN`: the word was different; `ETIMEDOUT`, `EINTR`.
pub fn wait(word: &AtomicU32, value: u32, deadline: Option<u64>) -> Result<()> {
    let time = deadline.map(|nanos| syscall::TimeSpec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as i32,
    });
    let pointer = time.as_ref().map_or(0, |time| &raw const *time as usize);
    let arguments = [
        word.as_ptr() as usize,
        syscall::FUTEX_WAIT,
        value as usize,
        pointer,
        0,
        0,
    ];
    // SAFETY: the word is borrowed and the time lives across the call.
    unsafe { sys::call(syscall::SYS_FUTEX, arguments) }.map(|_| ())
}

/// Wakes at most `count` threads that wait for `word` to change.
pub fn wake(word: &AtomicU32, count: usize) {
    let arguments = [word.as_ptr() as usize, syscall::FUTEX_WAKE, count, 0, 0, 0];
    // SAFETY: the word is borrowed; the call changes no memory. It cannot fail on a mapped word.
    let _ = unsafe { sys::call(syscall::SYS_FUTEX, arguments) };
}
