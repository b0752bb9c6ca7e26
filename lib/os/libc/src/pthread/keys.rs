//! The keys of `pthread.h`: values of which each thread has its own.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use syscall::error::{EAGAIN, EINVAL};

use super::own;
use crate::sync::Shared;
use crate::tls::Destructor;

/// Keys a process can have.
pub const KEYS: usize = 128;
/// How often the destructors of a thread's values are called as long as they set new values.
pub const DESTRUCTOR_ROUNDS: usize = 4;

/// The keys in use, with their destructors.
pub static KEYS_IN_USE: Shared<Vec<Option<Option<Destructor>>>> = Shared::new(Vec::new());

/// Counts how often each key was made. A value that a thread has set for an earlier key of the
/// same number does not belong to the present key.
static TIMES_MADE: [AtomicUsize; KEYS] = [const { AtomicUsize::new(0) }; KEYS];

fn times_made(key: usize) -> usize {
    let times = TIMES_MADE.get(key);
    times.map_or(0, |times| times.load(Ordering::Relaxed))
}

/// A thread's value for a key.
#[derive(Clone, Copy)]
pub(super) struct KeyValue {
    /// What [`times_made`] was when the value was set.
    times_made: usize,
    value: *mut c_void,
}

impl KeyValue {
    pub(super) const NONE: Self = Self {
        times_made: 0,
        value: null_mut(),
    };
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_key_create(
    key: *mut usize,
    destructor: Option<Destructor>,
) -> c_int {
    let index = KEYS_IN_USE.with(|keys| {
        let free = keys.iter().position(Option::is_none);
        let index = free.unwrap_or(keys.len());
        if index == KEYS {
            return None;
        }
        if index == keys.len() {
            keys.push(None);
        }
        keys[index] = Some(destructor);
        TIMES_MADE[index].fetch_add(1, Ordering::Relaxed);
        Some(index)
    });
    match index {
        Some(index) => {
            // SAFETY: the caller's place.
            unsafe { *key = index };
            0
        }
        None => EAGAIN,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_key_delete(key: usize) -> c_int {
    let known = KEYS_IN_USE.with(|keys| keys.get_mut(key).and_then(Option::take));
    if known.is_some() { 0 } else { EINVAL }
}

fn values<T>(action: impl FnOnce(&mut [KeyValue; KEYS]) -> T) -> T {
    // SAFETY: the thread's own record lives as long as the thread.
    unsafe { &*own() }.values.with(action)
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_setspecific(key: usize, value: *const c_void) -> c_int {
    if !KEYS_IN_USE.with(|keys| keys.get(key).is_some_and(Option::is_some)) {
        return EINVAL;
    }
    let value = KeyValue {
        times_made: times_made(key),
        value: value.cast_mut(),
    };
    values(|values| values[key] = value);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn pthread_getspecific(key: usize) -> *mut c_void {
    let times = times_made(key);
    let set = values(|values| values.get(key).copied());
    let set = set.filter(|set| set.times_made == times);
    set.map_or(null_mut(), |set| set.value)
}

/// Calls the destructors of the calling thread's values.
pub(super) fn run_destructors() {
    for _ in 0..DESTRUCTOR_ROUNDS {
        let mut called = false;
        for key in 0..KEYS {
            let destructor = KEYS_IN_USE.with(|keys| keys.get(key).copied().flatten().flatten());
            let value = pthread_getspecific(key);
            // Values of other keys stay, as the destructors that run here may use them.
            if let Some(destructor) = destructor.filter(|_| !value.is_null()) {
                values(|values| values[key] = KeyValue::NONE);
                // SAFETY: the C program's function for values of this key.
                unsafe { destructor(value) };
                called = true;
            }
        }
        if !called {
            return;
        }
    }
}
