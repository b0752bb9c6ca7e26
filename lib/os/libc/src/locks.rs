//! Mutexes, conditions and `pthread_once` of `pthread.h`.
//!
//! Sizes and numbers are relibc's, which Rust's standard library for Redox expects.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};

use syscall::error::{EAGAIN, EBUSY, EDEADLK, EINTR, EINVAL, EPERM, ETIMEDOUT, Error};

use crate::files::Timespec;
use crate::tls::Handler;
use crate::{cleanup, points, sync, time, tls};

/// `pthread_mutex_t`; all zero is a free one.
#[repr(C)]
pub struct Mutex {
    /// 0: free; 1: taken; 2: taken, and a thread may wait.
    state: AtomicU32,
    /// The number of the thread that holds it, or 0. Only for the kinds of
    /// [`has_owner`](Self::has_owner).
    owner: AtomicU32,
    /// `PTHREAD_MUTEX_DEFAULT`, [`RECURSIVE`] or another kind.
    kind: u16,
    /// How often its owner has taken it again without giving it back.
    depth: u16,
}

impl Mutex {
    /// Whether the mutex notices that its owner takes it again.
    fn has_owner(&self) -> bool {
        matches!(c_int::from(self.kind), CHECKED | RECURSIVE)
    }
}

const DEFAULT: c_int = 0;
const CHECKED: c_int = 1;
const NORMAL: c_int = 2;
/// `PTHREAD_MUTEX_RECURSIVE`.
pub const RECURSIVE: c_int = 3;

/// `pthread_mutexattr_t`.
#[repr(C)]
pub struct MutexAttributes {
    kind: c_int,
    /// Whether processes share the mutex: 1, or 0.
    pub shared: c_int,
    /// Protocol, ceiling and robustness in other libraries.
    reserved: [c_int; 3],
}

impl MutexAttributes {
    /// The attributes for a kind of mutex.
    pub const fn of(kind: c_int) -> Self {
        Self {
            kind,
            shared: 0,
            reserved: [0; 3],
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_init(place: *mut MutexAttributes) -> c_int {
    // SAFETY: the caller's place.
    unsafe { place.write(MutexAttributes::of(DEFAULT)) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_mutexattr_destroy(_place: *mut MutexAttributes) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_settype(place: *mut MutexAttributes, kind: c_int) -> c_int {
    if !matches!(kind, DEFAULT | CHECKED | NORMAL | RECURSIVE) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*place).kind = kind };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_mutexattr_gettype(
    attributes: *const MutexAttributes,
    place: *mut c_int,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { *place = (*attributes).kind };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_init(
    mutex: *mut Mutex,
    attributes: *const MutexAttributes,
) -> c_int {
    // SAFETY: the caller's place; the attributes are null or initialised.
    unsafe {
        let kind = attributes.as_ref().map_or(DEFAULT, |chosen| chosen.kind);
        mutex.write(Mutex {
            state: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            kind: kind as u16,
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

/// Takes a mutex; waits at most until `deadline`, or not at all if `tries`.
unsafe fn lock(mutex: *mut Mutex, deadline: Option<u64>, tries: bool) -> c_int {
    // SAFETY: the caller's mutex. The depth is only touched by the thread that has it; the owner
    // is equal to our own number only if we have it.
    unsafe {
        let state = &(*mutex).state;
        let has_owner = (*mutex).has_owner();
        if has_owner && (*mutex).owner.load(Ordering::Relaxed) == own() {
            if c_int::from((*mutex).kind) == RECURSIVE {
                return match (*mutex).depth.checked_add(1) {
                    Some(depth) => {
                        (*mutex).depth = depth;
                        0
                    }
                    None => EAGAIN,
                };
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
        if has_owner {
            (*mutex).owner.store(own(), Ordering::Relaxed);
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

/// The deadline is a time of the wall clock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_mutex_timedlock(mutex: *mut Mutex, end: *const Timespec) -> c_int {
    // SAFETY: the caller's structure.
    let deadline = unsafe { &*end }
        .deadline()
        .and_then(|end| time::monotonic(time::CLOCK_REALTIME, end));
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
        if (*mutex).has_owner() {
            if (*mutex).owner.load(Ordering::Relaxed) != own() {
                return EPERM;
            }
            if (*mutex).depth > 0 {
                (*mutex).depth -= 1;
                return 0;
            }
            (*mutex).owner.store(0, Ordering::Relaxed);
        }
        if (*mutex).state.swap(0, Ordering::Release) == 2 {
            sync::wake(&(*mutex).state, 1);
        }
    }
    0
}

/// The number of the calling thread.
fn own() -> u32 {
    tls::gettid() as u32
}

/// `pthread_cond_t`; all zero is a usable one.
#[repr(C)]
pub struct Condition {
    /// Changes with every signal and broadcast.
    sequence: AtomicU32,
    /// The clock of deadlines; 0 means the wall clock.
    clock: c_int,
}

/// `pthread_condattr_t`.
#[repr(C)]
pub struct ConditionAttributes {
    clock: c_int,
    /// Whether processes share the condition: 1, or 0.
    pub shared: c_int,
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_init(place: *mut ConditionAttributes) -> c_int {
    let initial = ConditionAttributes {
        clock: time::CLOCK_REALTIME,
        shared: 0,
    };
    // SAFETY: the caller's place.
    unsafe { place.write(initial) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_condattr_destroy(_place: *mut ConditionAttributes) -> c_int {
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_setclock(
    place: *mut ConditionAttributes,
    clock: c_int,
) -> c_int {
    if !matches!(clock, time::CLOCK_REALTIME | time::CLOCK_MONOTONIC) {
        return EINVAL;
    }
    // SAFETY: initialised before.
    unsafe { (*place).clock = clock };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_condattr_getclock(
    attributes: *const ConditionAttributes,
    place: *mut c_int,
) -> c_int {
    // SAFETY: initialised before; the caller's place.
    unsafe { *place = (*attributes).clock };
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_cond_init(
    condition: *mut Condition,
    attributes: *const ConditionAttributes,
) -> c_int {
    // SAFETY: the caller's place; the attributes are null or initialised.
    unsafe {
        condition.write(Condition {
            sequence: AtomicU32::new(0),
            clock: attributes.as_ref().map_or(0, |chosen| chosen.clock),
        });
    }
    0
}

#[unsafe(no_mangle)]
extern "C" fn pthread_cond_destroy(_condition: *mut Condition) -> c_int {
    0
}

unsafe fn wait(condition: *mut Condition, mutex: *mut Mutex, deadline: Option<u64>) -> c_int {
    // Handlers of `pthread_cleanup_push` find the mutex taken, whenever the thread is cancelled.
    points::end_if_cancelled();
    // SAFETY: the caller's condition and mutex, which the calling thread has.
    unsafe {
        let sequence = &(*condition).sequence;
        let before = sequence.load(Ordering::Acquire);
        let unlocked = pthread_mutex_unlock(mutex);
        if unlocked != 0 {
            return unlocked;
        }
        let waited = points::sleeping(|| sync::wait(sequence, before, deadline));
        let was_interrupted = matches!(waited, Err(Error { errno: EINTR }));
        if was_interrupted {
            points::handle_signals();
        }
        let locked = lock(mutex, None, false);
        if was_interrupted {
            // A thread that a signal has woken is not cancelled: nobody else gets that signal.
            points::end_if_cancelled();
        }
        match (locked, waited) {
            (0, Err(Error { errno: ETIMEDOUT })) => ETIMEDOUT,
            // POSIX lets the wait end for no reason.
            (locked, _) => locked,
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
    // SAFETY: the caller's structure.
    let clock = match unsafe { (*condition).clock } {
        0 => time::CLOCK_REALTIME,
        clock => clock,
    };
    // SAFETY: the same contract.
    unsafe { pthread_cond_clockwait(condition, mutex, clock, end) }
}

/// As `pthread_cond_timedwait`, with a time of this clock.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cond_clockwait(
    condition: *mut Condition,
    mutex: *mut Mutex,
    clock: c_int,
    end: *const Timespec,
) -> c_int {
    // SAFETY: the caller's structure.
    let end = unsafe { (*end).deadline() };
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

/// Handler of a thread that ends in the function of `pthread_once`: POSIX wants the next call to
/// find that nobody has called it.
unsafe extern "C" fn undo_once(once: *mut c_void) {
    // SAFETY: the word of the call below, in which the thread is.
    let once = unsafe { AtomicU32::from_ptr(once.cast()) };
    once.store(0, Ordering::Release);
    sync::wake(once, usize::MAX >> 1);
}

/// `pthread_once_t` is 0 before the call, 1 during it, 2 after it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_once(once: *mut u32, action: extern "C" fn()) -> c_int {
    // SAFETY: the caller's word.
    let once = unsafe { AtomicU32::from_ptr(once) };
    loop {
        match once.compare_exchange(0, 1, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                let mut handler = MaybeUninit::uninit();
                let handler: *mut Handler = handler.as_mut_ptr();
                let word = once.as_ptr().cast();
                // SAFETY: the handler stays until it is popped, or the thread ends here.
                unsafe { cleanup::__pthread_cleanup_push(handler, undo_once, word) };
                action();
                // SAFETY: pushed above.
                unsafe { cleanup::__pthread_cleanup_pop(handler, 0) };
                once.store(2, Ordering::Release);
                sync::wake(once, usize::MAX >> 1);
                return 0;
            }
            Err(2) => return 0,
            // After any answer the loop looks at the word again.
            Err(_) => drop(sync::wait(once, 1, None)),
        }
    }
}

// The sizes that `pthread.h` promises.
const _: () = assert!(size_of::<Mutex>() == 12 && size_of::<MutexAttributes>() == 20);
const _: () = assert!(size_of::<Condition>() == 8 && size_of::<ConditionAttributes>() == 8);
