//! The part of `pthread.h` that waits for other threads: mutexes, conditions, `pthread_once`.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use syscall::error::{EBUSY, EDEADLK, EINTR, EINVAL, EPERM, ETIMEDOUT, Error};

use crate::files::Timespec;
use crate::pthread::{Record, own};
use crate::{sync, time};

/// `pthread_mutex_t`; all zero is a free one.
#[repr(C)]
pub struct Mutex {
    /// 0 free, 1 taken, 2 taken and a thread may wait.
    state: AtomicU32,
    kind: c_int,
    owner: *const Record,
    depth: usize,
}

const RECURSIVE: c_int = 1;
const CHECKED: c_int = 2;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_init(kind: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    unsafe { *kind = 0 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_mutexattr_destroy(_kind: *mut c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_settype(place: *mut c_int, kind: c_int) -> c_int {
    if !(0..=CHECKED).contains(&kind) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { *place = kind };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(mutex: *mut Mutex, kind: *const c_int) -> c_int {
    // SAFETY: the caller's place; the attribute is null or initialised.
    unsafe {
        mutex.write(Mutex {
            state: AtomicU32::new(0),
            kind: kind.as_ref().copied().unwrap_or(0),
            owner: core::ptr::null(),
            depth: 0,
        });
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutex_destroy(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's mutex.
    match unsafe { &*mutex }.state.load(Ordering::Acquire) {
        0 => 0,
        _ => EBUSY,
    }
}

/// Takes a mutex, waiting at most until the deadline.
unsafe fn lock(mutex: *mut Mutex, deadline: Option<u64>, tries: bool) -> c_int {
    // SAFETY: the caller's mutex. Owner and depth are only written by the thread that has it, and
    // read here in a way that is right whatever another thread writes: equal only to our own.
    unsafe {
        let state = &(*mutex).state;
        let kind = (*mutex).kind;
        if kind != 0 && (&raw const (*mutex).owner).read_volatile() == own() {
            if kind == RECURSIVE {
                (*mutex).depth += 1;
                return 0;
            }
            return if tries { EBUSY } else { EDEADLK };
        }
        let taken = state.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        if taken.is_err() {
            if tries {
                return EBUSY;
            }
            while state.swap(2, Ordering::Acquire) != 0 {
                if let Err(Error { errno: ETIMEDOUT }) = sync::wait(state, 2, deadline) {
                    return ETIMEDOUT;
                }
            }
        }
        if kind != 0 {
            (&raw mut (*mutex).owner).write_volatile(own());
        }
        0
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    unsafe { lock(mutex, None, false) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    unsafe { lock(mutex, None, true) }
}

/// The deadline is one of the wall clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(mutex: *mut Mutex, end: *const Timespec) -> c_int {
    // SAFETY: the caller's structure.
    let deadline = unsafe { &*end }
        .duration()
        .and_then(|end| time::monotonic(0, end));
    match deadline {
        // SAFETY: the same contract.
        Some(deadline) => unsafe { lock(mutex, Some(deadline), false) },
        None => EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's mutex; see `lock`.
    unsafe {
        if (*mutex).kind != 0 {
            if (&raw const (*mutex).owner).read_volatile() != own() {
                return EPERM;
            }
            if (*mutex).depth > 0 {
                (*mutex).depth -= 1;
                return 0;
            }
            (&raw mut (*mutex).owner).write_volatile(core::ptr::null());
        }
        if (*mutex).state.swap(0, Ordering::Release) == 2 {
            sync::wake(&(*mutex).state, 1);
        }
    }
    0
}

/// `pthread_cond_t`; all zero is a usable one.
#[repr(C)]
pub struct Condition {
    /// Changes with every signal.
    sequence: AtomicU32,
    /// Clock of the deadlines.
    clock: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_init(clock: *mut c_int) -> c_int {
    // SAFETY: the caller's place.
    unsafe { *clock = 0 };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_condattr_destroy(_clock: *mut c_int) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_setclock(place: *mut c_int, clock: c_int) -> c_int {
    if !(0..=1).contains(&clock) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { *place = clock };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    condition: *mut Condition,
    clock: *const c_int,
) -> c_int {
    // SAFETY: the caller's place; the attribute is null or initialised.
    unsafe {
        condition.write(Condition {
            sequence: AtomicU32::new(0),
            clock: clock.as_ref().copied().unwrap_or(0),
        });
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_cond_destroy(_condition: *mut Condition) -> c_int {
    0
}

unsafe fn wait(condition: *mut Condition, mutex: *mut Mutex, deadline: Option<u64>) -> c_int {
    // SAFETY: the caller's condition and mutex, which the calling thread has.
    unsafe {
        let sequence = &(*condition).sequence;
        let before = sequence.load(Ordering::Acquire);
        let unlocked = pthread_mutex_unlock(mutex);
        if unlocked != 0 {
            return unlocked;
        }
        let result = loop {
            match sync::wait(sequence, before, deadline) {
                Err(Error { errno: ETIMEDOUT }) => break ETIMEDOUT,
                Err(Error { errno: EINTR }) => {}
                _ => break 0,
            }
        };
        match lock(mutex, None, false) {
            0 => result,
            error => error,
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_wait(condition: *mut Condition, mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    unsafe { wait(condition, mutex, None) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_timedwait(
    condition: *mut Condition,
    mutex: *mut Mutex,
    end: *const Timespec,
) -> c_int {
    // SAFETY: the caller's structures.
    let (end, clock) = unsafe { ((*end).duration(), (*condition).clock) };
    match end.and_then(|end| time::monotonic(clock, end)) {
        // SAFETY: the same contract.
        Some(deadline) => unsafe { wait(condition, mutex, Some(deadline)) },
        None => EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_signal(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's condition.
    let sequence = &unsafe { &*condition }.sequence;
    sequence.fetch_add(1, Ordering::Release);
    sync::wake(sequence, 1);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_broadcast(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's condition.
    let sequence = &unsafe { &*condition }.sequence;
    sequence.fetch_add(1, Ordering::Release);
    sync::wake(sequence, usize::MAX >> 1);
    0
}

/// `pthread_once_t`: 0 not yet, 1 under way, 2 done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_once(once: *mut u32, action: extern "C" fn()) -> c_int {
    // SAFETY: the caller's word.
    let once = unsafe { AtomicU32::from_ptr(once) };
    loop {
        match once.compare_exchange(0, 1, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                action();
                once.store(2, Ordering::Release);
                sync::wake(once, usize::MAX >> 1);
                return 0;
            }
            Err(2) => return 0,
            // Any answer leads to another look.
            Err(_) => drop(sync::wait(once, 1, None)),
        }
    }
}

// The sizes that `pthread.h` promises.
const _: () = assert!(size_of::<Mutex>() == 24 && size_of::<Condition>() == 8);
