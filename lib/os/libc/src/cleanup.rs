//! The handlers that are called when a thread ends before its function returns.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::tls::{self, Destructor, Handler};

/// Called by the macro `pthread_cleanup_push`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __pthread_cleanup_push(
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
pub unsafe extern "C" fn __pthread_cleanup_pop(handler: *mut Handler, is_called: c_int) {
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
