//! Numbers in wide strings.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_long, c_ulong};
use core::ptr::null_mut;

use crate::number;
use crate::wide::Wide;

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
unsafe fn read_by<T>(
    text: *const Wide,
    end: *mut *mut Wide,
    continues: impl FnMut(u8) -> bool,
    read: impl FnOnce(*const c_char, *mut *mut c_char) -> T,
) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        // No character behind the zero of the string is asked for, as a zero continues no number.
        let all = || (0..).map_while(|at| u8::try_from(*text.add(at)).ok());
        let length = number::length(all(), continues);
        let mut bytes: Vec<u8> = all().take(length).collect();
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

/// As [`number::integer_parts`]. For a base that does not exist any other will do, as the function
/// for bytes then does not look at the text.
fn integer_parts(base: c_int) -> impl FnMut(u8) -> bool {
    number::integer_parts(number::base(base).unwrap_or(10))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstol(text: *const Wide, end: *mut *mut Wide, base: c_int) -> c_long {
    // SAFETY: the same contract.
    unsafe {
        read_by(text, end, integer_parts(base), |text, end| {
            strtol(text, end, base)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstoul(text: *const Wide, end: *mut *mut Wide, base: c_int) -> c_ulong {
    // SAFETY: the same contract.
    unsafe {
        read_by(text, end, integer_parts(base), |text, end| {
            strtoul(text, end, base)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wcstod(text: *const Wide, end: *mut *mut Wide) -> f64 {
    // SAFETY: the same contract.
    unsafe {
        read_by(text, end, number::float_parts(), |text, end| {
            strtod(text, end)
        })
    }
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
    unsafe {
        read_by(text, end, number::float_parts(), |text, end| {
            strtof(text, end)
        })
    }
}

/// A `long double` is a `double` here.
#[unsafe(no_mangle)]
unsafe extern "C" fn wcstold(text: *const Wide, end: *mut *mut Wide) -> f64 {
    // SAFETY: the same contract.
    unsafe { wcstod(text, end) }
}
