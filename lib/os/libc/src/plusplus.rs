//! Functions that C++ compilers call in addition to the C++ library: the destructors of static
//! objects.

use alloc::vec::Vec;
use core::ffi::c_int;

use crate::process::atexit;
use crate::sync::Shared;

#[unsafe(no_mangle)]
static __dso_handle: c_int = 0;

pub static DESTRUCTORS: Shared<Vec<(extern "C" fn(*mut u8), *mut u8)>> = Shared::new(Vec::new());

#[unsafe(no_mangle)]
extern "C" fn __cxa_atexit(
    destructor: extern "C" fn(*mut u8),
    object: *mut u8,
    _library: *const u8,
) -> c_int {
    extern "C" fn destroy() {
        if let Some((destructor, object)) = DESTRUCTORS.with(Vec::pop) {
            destructor(object);
        }
    }
    DESTRUCTORS.with(|list| list.push((destructor, object)));
    atexit(destroy)
}
