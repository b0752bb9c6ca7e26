//! `dlfcn.h`, `execinfo.h` and `nl_types.h`: what a static program without names of functions and
//! without message catalogs can answer.

use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use syscall::error::{EBADF, ENOENT, ENOMEM};

use crate::{errno, files, malloc};

/// Whether a call has failed since `dlerror` was called last.
static FAILED: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
extern "C" fn dlopen(_path: *const c_char, _flags: c_int) -> *mut c_void {
    FAILED.store(true, Ordering::Relaxed);
    null_mut()
}

#[unsafe(no_mangle)]
extern "C" fn dlsym(_library: *mut c_void, _name: *const c_char) -> *mut c_void {
    FAILED.store(true, Ordering::Relaxed);
    null_mut()
}

#[unsafe(no_mangle)]
extern "C" fn dlclose(_library: *mut c_void) -> c_int {
    FAILED.store(true, Ordering::Relaxed);
    -1
}

#[unsafe(no_mangle)]
extern "C" fn dlerror() -> *mut c_char {
    const MESSAGE: &CStr = c"programs are static here: no library can be opened or searched";
    match FAILED.swap(false, Ordering::Relaxed) {
        true => MESSAGE.as_ptr().cast_mut(),
        false => null_mut(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn dladdr(_address: *const c_void, _place: *mut c_void) -> c_int {
    0
}

/// Finds no callers.
#[unsafe(no_mangle)]
extern "C" fn backtrace(_places: *mut *mut c_void, _size: c_int) -> c_int {
    0
}

/// `[0x…]`, the form for an address whose function is unknown.
fn symbol(place: *const c_void) -> Vec<u8> {
    alloc::format!("[{place:p}]").into_bytes()
}

/// Returns the addresses in hexadecimal, with pointers and texts in one block, which the caller
/// frees.
#[unsafe(no_mangle)]
unsafe extern "C" fn backtrace_symbols(
    places: *const *const c_void,
    count: c_int,
) -> *mut *mut c_char {
    let count = count.max(0) as usize;
    // SAFETY: the caller passed that many.
    let texts: Vec<Vec<u8>> = (0..count)
        .map(|index| symbol(unsafe { *places.add(index) }))
        .collect();
    let pointers = count * size_of::<*mut c_char>();
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    let block = malloc::allocate(pointers + bytes, 0).cast::<u8>();
    if block.is_null() {
        errno::set(ENOMEM);
        return null_mut();
    }
    let list = block.cast::<*mut c_char>();
    let mut next = block.wrapping_add(pointers);
    for (index, text) in texts.iter().enumerate() {
        // SAFETY: the block has room for all pointers, and behind them for all texts.
        unsafe {
            *list.add(index) = next.cast();
            next.copy_from_nonoverlapping(text.as_ptr(), text.len());
            next.add(text.len()).write(0);
        }
        next = next.wrapping_add(text.len() + 1);
    }
    list
}

#[unsafe(no_mangle)]
unsafe extern "C" fn backtrace_symbols_fd(
    places: *const *const c_void,
    count: c_int,
    number: c_int,
) {
    for index in 0..count.max(0) as usize {
        // SAFETY: the caller passed that many.
        let mut line = symbol(unsafe { *places.add(index) });
        line.push(b'\n');
        // The function has no result with which to report an error.
        let _ = files::write_all(number, &line).1;
    }
}

/// Fails with C's `(nl_catd)-1`, as there are no catalogs.
#[unsafe(no_mangle)]
extern "C" fn catopen(_name: *const c_char, _flags: c_int) -> *mut c_void {
    errno::set(ENOENT);
    usize::MAX as *mut c_void
}

/// Returns the caller's text, as no catalog has the message.
#[unsafe(no_mangle)]
extern "C" fn catgets(
    _catalog: *mut c_void,
    _set: c_int,
    _message: c_int,
    text: *mut c_char,
) -> *mut c_char {
    text
}

#[unsafe(no_mangle)]
extern "C" fn catclose(_catalog: *mut c_void) -> c_int {
    errno::fail(EBADF)
}
