//! `net/if.h`: there are no network interfaces; sockets reach nodes by their addresses.

use core::ffi::{c_uint, c_void};
use core::ptr::null_mut;

use skiff_libc::errno;
use syscall::error::ENXIO;

#[unsafe(no_mangle)]
extern "C" fn if_nametoindex(_name: *const c_void) -> c_uint {
    errno::set(ENXIO);
    0
}

#[unsafe(no_mangle)]
extern "C" fn if_indextoname(_index: c_uint, _name: *mut c_void) -> *mut c_void {
    errno::set(ENXIO);
    null_mut()
}

/// C's `struct if_nameindex`.
#[repr(C)]
struct Interface {
    index: c_uint,
    name: *mut c_void,
}

/// The end of a list, which no program changes.
struct Nothing(Interface);

// SAFETY: the pointer in it is null.
unsafe impl Sync for Nothing {}

static NO_INTERFACES: Nothing = Nothing(Interface {
    index: 0,
    name: null_mut(),
});

#[unsafe(no_mangle)]
extern "C" fn if_nameindex() -> *const c_void {
    (&raw const NO_INTERFACES.0).cast()
}

#[unsafe(no_mangle)]
extern "C" fn if_freenameindex(_list: *mut c_void) {}
