//! Cancellation of threads. A thread that was cancelled ends at its next
//! [cancellation point](crate::points), as by `pthread_exit`.

use core::ffi::c_int;

use syscall::error::EINVAL;

use crate::pthread::{self, Record};
use crate::{interrupter, points, tls};

/// `PTHREAD_CANCEL_ASYNCHRONOUS`.
const AT_ANY_TIME: c_int = 1;

/// Stores the former value of a setting, unless the place is null.
///
/// # Safety
/// The place is null or the caller's.
unsafe fn store(place: *mut c_int, value: c_int) {
    // SAFETY: the caller's promise.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = value;
    }
}

/// The calling thread's type of cancellation.
fn kind() -> *mut c_int {
    // SAFETY: the control block of the calling thread, which no other uses.
    unsafe { &raw mut (*tls::control()).cancel_type }
}

/// Ends a cancelled thread that lets itself be ended at any time.
fn end_at_once() {
    // SAFETY: as above.
    if unsafe { *kind() } == AT_ANY_TIME {
        points::end_if_cancelled();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    if !(0..=1).contains(&state) {
        return EINVAL;
    }
    let before = points::own().refuse(state == 1);
    // SAFETY: the caller's place or null.
    unsafe { store(old, before.into()) };
    end_at_once();
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setcanceltype(new: c_int, old: *mut c_int) -> c_int {
    if !(0..=1).contains(&new) {
        return EINVAL;
    }
    // SAFETY: the thread's own setting; the caller's place or null.
    unsafe { store(old, kind().replace(new)) };
    end_at_once();
    0
}

/// Does not wait for the thread's end. A thread that has run already stays as it is.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_cancel(thread: *const Record) -> c_int {
    // SAFETY: the caller's thread, which was neither joined nor detached and has ended since.
    let thread = unsafe { pthread::share(thread) };
    thread.notices.cancel();
    if core::ptr::eq(&raw const *thread, pthread::own()) {
        drop(thread);
        end_at_once();
        return 0;
    }
    match interrupter::interrupt(thread) {
        Ok(()) => 0,
        Err(error) => error.errno,
    }
}

#[unsafe(no_mangle)]
extern "C" fn pthread_testcancel() {
    points::pass();
}
