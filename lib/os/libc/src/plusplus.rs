//! What compilers of C++ call for: static objects, `new` and `delete`. There are no exceptions.

use alloc::vec::Vec;
use core::ffi::c_int;

use crate::process::{atexit, end_abnormally};
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

#[unsafe(no_mangle)]
extern "C" fn __cxa_pure_virtual() -> ! {
    runtime::io::emergency("pure virtual method called\n");
    end_abnormally()
}

/// Whether the caller has to make a function's static object.
#[unsafe(no_mangle)]
unsafe extern "C" fn __cxa_guard_acquire(guard: *mut u8) -> c_int {
    use core::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: the compiler's guard: byte 0 says made, byte 1 is ours.
    let (made, busy) = unsafe { (AtomicU8::from_ptr(guard), AtomicU8::from_ptr(guard.add(1))) };
    loop {
        if made.load(Ordering::Acquire) != 0 {
            return 0;
        }
        if busy.swap(1, Ordering::Acquire) == 0 {
            return 1;
        }
        runtime::thread::yield_now();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __cxa_guard_release(guard: *mut u8) {
    use core::sync::atomic::{AtomicU8, Ordering};
    // SAFETY: as above.
    unsafe {
        AtomicU8::from_ptr(guard).store(1, Ordering::Release);
        AtomicU8::from_ptr(guard.add(1)).store(0, Ordering::Release);
    }
}

/// `operator new`, `operator new[]`: without memory the program ends, as there are no exceptions.
fn new(size: usize) -> *mut u8 {
    let block = crate::malloc::allocate(size, 0);
    if block.is_null() {
        runtime::io::emergency("operator new: no memory\n");
        end_abnormally()
    }
    block.cast()
}

#[unsafe(no_mangle)]
extern "C" fn _Znwm(size: usize) -> *mut u8 {
    new(size)
}

#[unsafe(no_mangle)]
extern "C" fn _Znam(size: usize) -> *mut u8 {
    new(size)
}

macro_rules! deletes {
    ($($name:ident($($extra:ident),*);)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(block: *mut u8, $($extra: usize),*) {
                $(let _ = $extra;)*
                // SAFETY: what `operator new` gave.
                unsafe { crate::malloc::free(block.cast()) };
            }
        )*
    };
}

deletes! {
    _ZdlPv();
    _ZdaPv();
    _ZdlPvm(size);
    _ZdaPvm(size);
}
