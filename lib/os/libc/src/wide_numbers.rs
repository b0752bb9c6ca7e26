//! Numbers in wide strings.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_long, c_ulong};
use core::ptr::null_mut;

use crate::number::may_be_in_number;
use crate::wide::{Wide, length_while};

unsafe extern "C" {
    fn strtol(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long;
    fn strtoul(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong;
    fn strtod(text: *const c_char, end: *mut *mut c_char) -> f64;
    fn strtof(text: *const c_char, end: *mut *mut c_char) -> f32;
}

/// Reads a number by a function for bytes, as all characters of numbers are single bytes.
///
/// # Safety
/// `text` is a wide string; `end` is null or a place for a pointer.
unsafe fn number<T>(
    text: *const Wide,
    end: *mut *mut Wide,
    read: impl FnOnce(*const c_char, *mut *mut c_char) -> T,
) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let byte = |wide: Wide| {
            u8::try_from(wide)
                .ok()
                .filter(|byte| may_be_in_number(*byte))
        };
        let length = length_while(text, |wide| byte(wide).is_some());
        let mut bytes: Vec<u8> = (0..length).map_while(|at| byte(*text.add(at))).collect();
        bytes.push(0);
        let start = bytes.as_ptr().cast::<c_char>();
        let mut stop = null_mut();
        let value = read(start, &raw mut stop);
        if !end.is_null() {
            *end = text.add(stop as usize - start as usize).cast_mut();
        }
        value
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstol(text: *const Wide, end: *mut *mut Wide, base: c_int) -> c_long {
    // SAFETY: the same contract.
    unsafe { number(text, end, |text, end| strtol(text, end, base)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstoul(text: *const Wide, end: *mut *mut Wide, base: c_int) -> c_ulong {
    // SAFETY: the same contract.
    unsafe { number(text, end, |text, end| strtoul(text, end, base)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstod(text: *const Wide, end: *mut *mut Wide) -> f64 {
    // SAFETY: the same contract.
    unsafe { number(text, end, |text, end| strtod(text, end)) }
}

macro_rules! same_numbers {
    ($($name:ident = $other:ident: $type:ty;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(text: *const Wide, end: *mut *mut Wide, base: c_int) -> $type {
            // SAFETY: the same contract.
            unsafe { $other(text, end, base) }
        }
    )* };
}

same_numbers! {
    wcstoll = wcstol: c_long;
    wcstoull = wcstoul: c_ulong;
    wcstoimax = wcstol: c_long;
    wcstoumax = wcstoul: c_ulong;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstof(text: *const Wide, end: *mut *mut Wide) -> f32 {
    // SAFETY: the same contract.
    unsafe { number(text, end, |text, end| strtof(text, end)) }
}

/// A `long double` is a `double` here.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcstold(text: *const Wide, end: *mut *mut Wide) -> f64 {
    // SAFETY: the same contract.
    unsafe { wcstod(text, end) }
}
