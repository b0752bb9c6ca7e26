//! `dlfcn.h`, `execinfo.h` and `locale.h`: what a static program without names of its functions and
//! with one locale can honestly say.

use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use syscall::error::ENOMEM;

use crate::sync::Shared;
use crate::{errno, files, malloc, strings};

/// Whether a call has failed since the last look at the message.
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

/// No caller is found.
#[unsafe(no_mangle)]
extern "C" fn backtrace(_places: *mut *mut c_void, _size: c_int) -> c_int {
    0
}

/// `[0x…]`, as for places whose function is not known.
fn symbol(place: *const c_void) -> Vec<u8> {
    alloc::format!("[{place:p}]").into_bytes()
}

/// The addresses in hexadecimal: pointers and texts in one block, which the caller frees.
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
        // As the function gives no result, it cannot report an error.
        let _ = files::write_raw(number, line.as_ptr().cast(), line.len());
    }
}

const LOCALE: &CStr = c"C";

/// The categories, from `LC_ALL` to `LC_TIME`.
const CATEGORIES: core::ops::RangeInclusive<c_int> = 0..=6;

/// There is one locale, which "C", "POSIX" and the user's own ("") name; others are refused.
#[unsafe(no_mangle)]
unsafe extern "C" fn setlocale(category: c_int, name: *const c_char) -> *mut c_char {
    let known = name.is_null() || {
        // SAFETY: the caller's string.
        let name = unsafe { strings::bytes(name) };
        [b"".as_slice(), b"C", b"POSIX", b"C.UTF-8", b"C.utf8"].contains(&name)
    };
    match known && CATEGORIES.contains(&category) {
        true => LOCALE.as_ptr().cast_mut(),
        false => null_mut(),
    }
}

/// C's `struct lconv`: ten texts, and fourteen numbers that are not known.
#[repr(C)]
pub struct Conventions {
    texts: [*const c_char; 10],
    numbers: [u8; 14],
}

pub static CONVENTIONS: Shared<Conventions> = Shared::new(Conventions {
    texts: {
        let mut texts = [c"".as_ptr(); 10];
        texts[0] = c".".as_ptr();
        texts
    },
    // CHAR_MAX: not known.
    numbers: [i8::MAX as u8; 14],
});

#[unsafe(no_mangle)]
extern "C" fn localeconv() -> *mut c_void {
    CONVENTIONS.with(|conventions| (&raw mut *conventions).cast())
}
