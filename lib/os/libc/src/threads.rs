//! `threads.h`: C11's names for the functions of `pthread.h`, with results of their own.

use alloc::boxed::Box;
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};

use syscall::error::{EAGAIN, EBUSY, EINTR, ENOMEM, ETIMEDOUT};

use crate::errno;
use crate::files::Timespec;
use crate::locks::{self, Condition, Mutex, MutexAttributes};
use crate::points;
use crate::pthread::{self, Record};
use crate::time;
use crate::tls::Destructor;

// The results, as the header numbers them.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;
/// `mtx_recursive`.
const RECURSIVE: c_int = 1;

fn result(number: c_int) -> c_int {
    match number {
        0 => SUCCESS,
        EBUSY => BUSY,
        ENOMEM => NO_MEMORY,
        ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

type Main = unsafe extern "C" fn(*mut c_void) -> c_int;

struct Call {
    main: Main,
    argument: *mut c_void,
}

/// Packs a thread's status into the pointer that `pthread_join` returns.
fn value_of(status: c_int) -> *mut c_void {
    status as isize as *mut c_void
}

unsafe extern "C" fn call(argument: *mut c_void) -> *mut c_void {
    // SAFETY: made by `thrd_create` for this thread alone; the C program vouches for the function.
    unsafe {
        let call = Box::from_raw(argument.cast::<Call>());
        let Call { main, argument } = *call;
        value_of(main(argument))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    place: *mut *const Record,
    main: Main,
    argument: *mut c_void,
) -> c_int {
    let start = Box::into_raw(Box::new(Call { main, argument }));
    // SAFETY: the caller's place; the attributes are none.
    let number = unsafe { pthread::pthread_create(place, null(), call, start.cast()) };
    if number != 0 {
        // SAFETY: no thread has it.
        drop(unsafe { Box::from_raw(start) });
    }
    match number {
        // `pthread_create` returns it for a lack of memory and of anything else that a thread
        // needs.
        EAGAIN => NO_MEMORY,
        number => result(number),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_join(thread: *const Record, status: *mut c_int) -> c_int {
    let mut value = null_mut();
    // SAFETY: the caller's thread, and a place for its value or null.
    unsafe {
        let number = pthread::pthread_join(thread, &raw mut value);
        if number == 0 && !status.is_null() {
            *status = value as isize as c_int;
        }
        result(number)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_detach(thread: *const Record) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { pthread::pthread_detach(thread) })
}

#[unsafe(no_mangle)]
extern "C" fn thrd_current() -> *const Record {
    pthread::own()
}

#[unsafe(no_mangle)]
extern "C" fn thrd_equal(a: *const Record, b: *const Record) -> c_int {
    (a == b).into()
}

/// Returns 0, or -2 for an invalid length. A sleep is never interrupted.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_sleep(length: *const Timespec, left: *mut Timespec) -> c_int {
    let before = errno::get();
    // SAFETY: the same contract.
    let slept = unsafe { time::nanosleep(length, left) };
    let was_interrupted = errno::get() == EINTR;
    errno::set(before);
    match slept {
        0 => 0,
        _ if was_interrupted => -1,
        _ => -2,
    }
}

#[unsafe(no_mangle)]
extern "C" fn thrd_yield() {
    runtime::thread::yield_now();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_exit(status: c_int) -> ! {
    // SAFETY: the same contract.
    unsafe { points::pthread_exit(value_of(status)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_init(mutex: *mut Mutex, kind: c_int) -> c_int {
    let kind = match kind & RECURSIVE {
        0 => 0,
        _ => locks::RECURSIVE,
    };
    let attributes = MutexAttributes::of(kind);
    // SAFETY: the caller's place.
    result(unsafe { locks::pthread_mutex_init(mutex, &raw const attributes) })
}

#[unsafe(no_mangle)]
extern "C" fn mtx_destroy(_mutex: *mut Mutex) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_lock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_mutex_lock(mutex) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_trylock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_mutex_trylock(mutex) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_timedlock(mutex: *mut Mutex, end: *const Timespec) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_mutex_timedlock(mutex, end) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mtx_unlock(mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_mutex_unlock(mutex) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_init(condition: *mut Condition) -> c_int {
    // SAFETY: the caller's place; the attributes are none.
    result(unsafe { locks::pthread_cond_init(condition, null()) })
}

#[unsafe(no_mangle)]
extern "C" fn cnd_destroy(_condition: *mut Condition) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_wait(condition: *mut Condition, mutex: *mut Mutex) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_cond_wait(condition, mutex) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_timedwait(
    condition: *mut Condition,
    mutex: *mut Mutex,
    end: *const Timespec,
) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_cond_timedwait(condition, mutex, end) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_signal(condition: *mut Condition) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_cond_signal(condition) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cnd_broadcast(condition: *mut Condition) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { locks::pthread_cond_broadcast(condition) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tss_create(key: *mut usize, destructor: Option<Destructor>) -> c_int {
    // SAFETY: the same contract.
    result(unsafe { pthread::pthread_key_create(key, destructor) })
}

#[unsafe(no_mangle)]
extern "C" fn tss_delete(key: usize) {
    pthread::pthread_key_delete(key);
}

#[unsafe(no_mangle)]
extern "C" fn tss_get(key: usize) -> *mut c_void {
    pthread::pthread_getspecific(key)
}

#[unsafe(no_mangle)]
extern "C" fn tss_set(key: usize, value: *mut c_void) -> c_int {
    result(pthread::pthread_setspecific(key, value))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn call_once(flag: *mut u32, action: extern "C" fn()) {
    // SAFETY: the same contract.
    unsafe { locks::pthread_once(flag, action) };
}
