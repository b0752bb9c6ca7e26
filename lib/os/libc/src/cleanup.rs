//! The end of a thread before its function returns: the handlers that `pthread_exit` calls, and
//! the settings of cancellation. No thread is ever cancelled, so these settings are only stored.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use syscall::error::{EINVAL, ENOSYS};

use crate::tls::{self, Destructor, Handler};

/// Called by the macro `pthread_cleanup_push`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __pthread_cleanup_push(
    handler: *mut Handler,
    function: Destructor,
    argument: *mut c_void,
) {
    // SAFETY: the macro's own structure, which stays until it is popped, or the thread ends; the
    // control block of the calling thread, which no other uses.
    unsafe {
        let top = &raw mut (*tls::control()).handlers;
        handler.write(Handler {
            function,
            argument,
            below: *top,
        });
        *top = handler;
    }
}

/// Called by the macro `pthread_cleanup_pop`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __pthread_cleanup_pop(handler: *mut Handler, is_called: c_int) {
    // SAFETY: pushed before, and as above.
    unsafe {
        (*tls::control()).handlers = (*handler).below;
        if is_called != 0 {
            ((*handler).function)((*handler).argument);
        }
    }
}

/// Calls the handlers of the calling thread, last one first.
pub fn run_all() {
    // SAFETY: as above. The functions whose stacks have them do not return any more, so they are
    // there. Each leaves the list before its call, which may push others or end the thread again.
    unsafe {
        let top = &raw mut (*tls::control()).handlers;
        while let Some(handler) = (*top).as_ref() {
            *top = handler.below;
            (handler.function)(handler.argument);
        }
        *top = null_mut();
    }
}

/// Sets one of the two settings, which have the values 0 and 1.
unsafe fn exchange(place: *mut c_int, value: c_int, old: *mut c_int) -> c_int {
    if !(0..=1).contains(&value) {
        return EINVAL;
    }
    // SAFETY: a place in the calling thread's control block, and the caller's place or null.
    unsafe {
        let before = place.replace(value);
        if let Some(old) = old.as_mut() {
            *old = before;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int {
    // SAFETY: the control block of the calling thread; the caller's place or null.
    unsafe { exchange(&raw mut (*tls::control()).cancellation.state, state, old) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int {
    // SAFETY: as above.
    unsafe { exchange(&raw mut (*tls::control()).cancellation.kind, kind, old) }
}

/// Fails, as no thread can be cancelled.
#[unsafe(no_mangle)]
extern "C" fn pthread_cancel(_thread: *const c_void) -> c_int {
    ENOSYS
}

/// Has nothing to do, as no thread is cancelled.
#[unsafe(no_mangle)]
extern "C" fn pthread_testcancel() {}
