//! Read-write locks, barriers and spin locks of `pthread.h`, and `semaphore.h`. All but the spin
//! locks, which poll, are built on a word on which threads wait ([`sync::wait`]).

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use syscall::error::{EAGAIN, EBUSY, EINTR, EINVAL, EOVERFLOW, EPERM, ETIMEDOUT, Error};

use crate::files::Timespec;
use crate::{errno, points, sync, time};

/// How many threads to wake: all that wait on a word.
const ALL: usize = usize::MAX >> 1;

/// Converts a time of the wall clock to the monotonic clock, which measures waits.
///
/// # Safety
/// `end` is the caller's structure.
unsafe fn deadline(end: *const Timespec) -> Result<u64, c_int> {
    // SAFETY: the caller's promise.
    let end = unsafe { &*end }.deadline();
    end.and_then(|end| time::monotonic(time::CLOCK_REALTIME, end))
        .ok_or(EINVAL)
}

/// `pthread_rwlock_t`; all zero is a free one. A reader takes the lock even while a writer waits.
#[repr(C)]
struct RwLock {
    /// The number of readers that hold the lock, or [`WRITER`]; with [`WAITS`] if a thread may
    /// wait.
    state: AtomicU32,
}

/// In the state: the thread that frees the lock has to wake the waiting threads.
const WAITS: u32 = 1 << 31;
const WRITER: u32 = WAITS - 1;

impl RwLock {
    /// Takes the lock, as a writer if `writes`. Calls `limit` for the end of the wait only if it
    /// has to wait; an error of `limit` is the result.
    fn take(&self, writes: bool, limit: impl Fn() -> Result<Option<u64>, c_int>) -> c_int {
        loop {
            let state = self.state.load(Ordering::Relaxed);
            let next = match (state & !WAITS, writes) {
                (0, true) => WRITER,
                (_, true) | (WRITER, false) => {
                    match self.wait(state, &limit) {
                        0 => continue,
                        number => return number,
                    };
                }
                (readers, false) if readers == WRITER - 1 => return EAGAIN,
                (readers, false) => readers + 1,
            };
            // The mark stays: the threads that wait still do, as the lock is held.
            let next = next | state & WAITS;
            let taken =
                self.state
                    .compare_exchange_weak(state, next, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return 0;
            }
        }
    }

    /// Waits until the state, in which a thread holds the lock, has changed. Returns 0 or an error
    /// number.
    fn wait(&self, state: u32, limit: impl Fn() -> Result<Option<u64>, c_int>) -> c_int {
        let end = match limit() {
            Ok(end) => end,
            Err(number) => return number,
        };
        let marked = state | WAITS;
        let swapped =
            self.state
                .compare_exchange(state, marked, Ordering::Relaxed, Ordering::Relaxed);
        if swapped.is_err() {
            return 0;
        }
        match sync::wait(&self.state, marked, end) {
            Err(Error { errno: ETIMEDOUT }) => ETIMEDOUT,
            // After any other answer the caller looks at the state again.
            _ => 0,
        }
    }

    fn give_back(&self) -> c_int {
        let given_back = |state: u32| match state & !WAITS {
            0 => None,
            // The last holder to leave clears the mark and wakes.
            1 | WRITER => Some(0),
            _ => Some(state - 1),
        };
        let update = self
            .state
            .fetch_update(Ordering::Release, Ordering::Relaxed, given_back);
        match update {
            Err(_) => EPERM,
            Ok(before) => {
                if before & WAITS != 0 && matches!(before & !WAITS, 1 | WRITER) {
                    sync::wake(&self.state, ALL);
                }
                0
            }
        }
    }
}

fn forever() -> Result<Option<u64>, c_int> {
    Ok(None)
}

fn never() -> Result<Option<u64>, c_int> {
    Err(EBUSY)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_init(lock: *mut RwLock, _attributes: *const c_void) -> c_int {
    let free = RwLock {
        state: AtomicU32::new(0),
    };
    // SAFETY: the caller's place.
    unsafe { lock.write(free) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_destroy(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's lock.
    match unsafe { &*lock }.state.load(Ordering::Acquire) & !WAITS {
        0 => 0,
        _ => EBUSY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_rdlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.take(false, forever)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_tryrdlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.take(false, never)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedrdlock(lock: *mut RwLock, end: *const Timespec) -> c_int {
    // SAFETY: the caller's lock and structure.
    unsafe { (*lock).take(false, || deadline(end).map(Some)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_wrlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.take(true, forever)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_trywrlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.take(true, never)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_timedwrlock(lock: *mut RwLock, end: *const Timespec) -> c_int {
    // SAFETY: the caller's lock and structure.
    unsafe { (*lock).take(true, || deadline(end).map(Some)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_rwlock_unlock(lock: *mut RwLock) -> c_int {
    // SAFETY: the caller's lock.
    unsafe { &*lock }.give_back()
}

/// `pthread_barrier_t`.
#[repr(C)]
struct Barrier {
    wanted: u32,
    /// The round in the upper half, which changes when all threads have arrived, and how many have
    /// arrived in the lower half. One word, because a thread of the next round may arrive before
    /// the last one of this round has gone on.
    state: AtomicU32,
    /// The threads that may still read the words above.
    inside: AtomicU32,
    /// Fills the structure up to the size of relibc's.
    reserved: [u32; 3],
}

/// The half of a barrier's state that counts arrivals.
const ARRIVALS: u32 = 0xffff;
/// What is added to a barrier's state for the next round.
const ROUND: u32 = ARRIVALS + 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_init(
    barrier: *mut Barrier,
    _attributes: *const c_void,
    wanted: u32,
) -> c_int {
    match wanted {
        0 => return EINVAL,
        1..=ARRIVALS => {}
        // More threads than a process can have.
        _ => return EAGAIN,
    }
    let fresh = Barrier {
        wanted,
        state: AtomicU32::new(0),
        inside: AtomicU32::new(0),
        reserved: [0; 3],
    };
    // SAFETY: the caller's place.
    unsafe { barrier.write(fresh) };
    0
}

/// Waits until the threads that the barrier has released have left `pthread_barrier_wait`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_destroy(barrier: *mut Barrier) -> c_int {
    // SAFETY: the caller's barrier.
    let barrier = unsafe { &*barrier };
    if barrier.state.load(Ordering::Acquire) & ARRIVALS != 0 {
        return EBUSY;
    }
    while barrier.inside.load(Ordering::Acquire) != 0 {
        runtime::thread::yield_now();
    }
    0
}

/// Returns -1 to the thread that arrives last, 0 to the others.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_barrier_wait(barrier: *mut Barrier) -> c_int {
    // SAFETY: the caller's barrier.
    let barrier = unsafe { &*barrier };
    barrier.inside.fetch_add(1, Ordering::Relaxed);
    let arrive = |state: u32| match (state & ARRIVALS) + 1 == barrier.wanted {
        true => (state & !ARRIVALS).wrapping_add(ROUND),
        false => state + 1,
    };
    let update = |state| Some(arrive(state));
    let before = barrier
        .state
        .fetch_update(Ordering::AcqRel, Ordering::Acquire, update);
    let before = before.unwrap_or_else(|state| state);
    let round_of = |state: u32| state / ROUND;
    let mut now = arrive(before);
    let last = round_of(now) != round_of(before);
    if last {
        sync::wake(&barrier.state, ALL);
    }
    while round_of(now) == round_of(before) {
        // After any answer the loop looks at the state again.
        let _ = sync::wait(&barrier.state, now, None);
        now = barrier.state.load(Ordering::Acquire);
    }
    barrier.inside.fetch_sub(1, Ordering::Release);
    if last { -1 } else { 0 }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_init(lock: *mut u32, _shared: c_int) -> c_int {
    // SAFETY: the caller's place.
    unsafe { lock.write(0) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_spin_destroy(_lock: *mut u32) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_trylock(lock: *mut u32) -> c_int {
    // SAFETY: the caller's word.
    match unsafe { AtomicU32::from_ptr(lock) }.swap(1, Ordering::Acquire) {
        0 => 0,
        _ => EBUSY,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_lock(lock: *mut u32) -> c_int {
    /// Attempts before the thread yields the processor, which the holder of the lock may need.
    const LOOKS: u32 = 100;
    let mut looks = 0;
    // SAFETY: the same contract.
    while unsafe { pthread_spin_trylock(lock) } != 0 {
        looks += 1;
        if looks % LOOKS == 0 {
            runtime::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_spin_unlock(lock: *mut u32) -> c_int {
    // SAFETY: the caller's word.
    unsafe { AtomicU32::from_ptr(lock) }.store(0, Ordering::Release);
    0
}

/// `sem_t`: a word with the count in its low half and the number of waiting threads in its high
/// half. `sem_post` changes the count and learns of waiting threads in one operation, because a
/// woken thread may free the semaphore while its poster is still in `sem_post`.
type Semaphore = AtomicU64;

const WAITER: u64 = 1 << 32;
const LARGEST: u32 = 0x7fff_ffff;

/// The low half of the word, on which threads wait.
fn count_of(semaphore: &Semaphore) -> &AtomicU32 {
    // SAFETY: the low half of a living word, on a little-endian machine; only the kernel looks at
    // it as such.
    unsafe { AtomicU32::from_ptr(semaphore.as_ptr().cast()) }
}

/// Takes one from the count; false if the count is 0.
fn take(semaphore: &Semaphore) -> bool {
    let taken = |word: u64| (word as u32 != 0).then(|| word - 1);
    let update = semaphore.fetch_update(Ordering::Acquire, Ordering::Relaxed, taken);
    update.is_ok()
}

fn wait_for(semaphore: &Semaphore, end: Option<u64>) -> c_int {
    errno::done(points::interruptible(|| {
        while !take(semaphore) {
            semaphore.fetch_add(WAITER, Ordering::SeqCst);
            let waited = sync::wait(count_of(semaphore), 0, end);
            semaphore.fetch_sub(WAITER, Ordering::Relaxed);
            match waited {
                Err(error) if matches!(error.errno, ETIMEDOUT | EINTR) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }))
}

/// A semaphore that processes share is like any other: the kernel knows its word in all of them.
#[unsafe(no_mangle)]
unsafe extern "C" fn sem_init(semaphore: *mut u64, _shared: c_int, count: u32) -> c_int {
    if count > LARGEST {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's place.
    unsafe { semaphore.write(count.into()) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn sem_destroy(_semaphore: *mut u64) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_wait(semaphore: *mut u64) -> c_int {
    // SAFETY: the caller's semaphore.
    wait_for(unsafe { Semaphore::from_ptr(semaphore) }, None)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_trywait(semaphore: *mut u64) -> c_int {
    // SAFETY: the caller's semaphore.
    match take(unsafe { Semaphore::from_ptr(semaphore) }) {
        true => 0,
        false => errno::fail(EAGAIN),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_timedwait(semaphore: *mut u64, end: *const Timespec) -> c_int {
    // SAFETY: the caller's semaphore and structure.
    let (semaphore, end) = unsafe { (Semaphore::from_ptr(semaphore), end) };
    points::pass();
    if take(semaphore) {
        return 0;
    }
    // SAFETY: as above.
    match unsafe { deadline(end) } {
        Ok(end) => wait_for(semaphore, Some(end)),
        Err(number) => errno::fail(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_post(semaphore: *mut u64) -> c_int {
    // SAFETY: the caller's semaphore.
    let semaphore = unsafe { Semaphore::from_ptr(semaphore) };
    let more = |word: u64| (word as u32 != LARGEST).then(|| word + 1);
    match semaphore.fetch_update(Ordering::SeqCst, Ordering::Relaxed, more) {
        Ok(before) => {
            if before >= WAITER {
                sync::wake(count_of(semaphore), 1);
            }
            0
        }
        Err(_) => errno::fail(EOVERFLOW),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_getvalue(semaphore: *mut u64, place: *mut c_int) -> c_int {
    // SAFETY: the caller's semaphore and place.
    unsafe { place.write(Semaphore::from_ptr(semaphore).load(Ordering::Acquire) as u32 as c_int) };
    0
}

// The sizes that the headers promise.
const _: () = assert!(size_of::<RwLock>() == 4 && size_of::<Barrier>() == 24);
