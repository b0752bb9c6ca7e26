//! The rest of `stdlib.h`: numbers in text, sorting, random numbers, canonical paths.

use core::cmp::Ordering as Order;
use core::ffi::{c_char, c_double, c_int, c_long, c_longlong, c_uint, c_ulong, c_void};
use core::num::FpCategory;
use core::sync::atomic::{AtomicU64, Ordering};

use runtime::path;
use syscall::error::{EINVAL, ERANGE};

use crate::files::path_of;
use crate::number;
use crate::{errno, linux_names, malloc, random, slashes, strings};

/// Reads an integer and stores where it ends.
unsafe fn integer(
    text: *const c_char,
    end: *mut *mut c_char,
    base: c_int,
) -> Option<number::Integer> {
    let Some(base) = number::base(base) else {
        errno::set(EINVAL);
        if !end.is_null() {
            // Programs read where the number ends before they read `errno`.
            // SAFETY: the caller's place for a pointer.
            unsafe { *end = text.cast_mut() };
        }
        return None;
    };
    // SAFETY: the caller's string, and a place for a pointer or null.
    unsafe {
        let found = number::integer(number_bytes(text, number::integer_parts(base)), base);
        if !end.is_null() {
            *end = text.add(found.length).cast_mut();
        }
        Some(found)
    }
}

/// The bytes at the start of a string that decide which number is there: see [`number::length`].
///
/// # Safety
/// `text` is a string that does not change while the result is in use.
unsafe fn number_bytes<'a>(text: *const c_char, continues: impl FnMut(u8) -> bool) -> &'a [u8] {
    // SAFETY: the caller's string. No byte behind its zero is asked for, as a zero continues no
    // number.
    let bytes = (0..).map(|at| unsafe { *text.add(at) } as u8);
    let length = number::length(bytes, continues);
    // SAFETY: the bytes that were counted are there.
    unsafe { core::slice::from_raw_parts(text.cast(), length) }
}

fn ranged<T>((value, overflow): (T, bool)) -> T {
    if overflow {
        errno::set(ERANGE);
    }
    value
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strtol(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_long {
    // SAFETY: the same contract.
    unsafe { integer(text, end, base) }.map_or(0, |found| ranged(found.signed()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strtoul(text: *const c_char, end: *mut *mut c_char, base: c_int) -> c_ulong {
    // SAFETY: the same contract.
    unsafe { integer(text, end, base) }.map_or(0, |found| ranged(found.unsigned()))
}

macro_rules! same {
    ($($name:ident = $other:ident: $type:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                text: *const c_char,
                end: *mut *mut c_char,
                base: c_int,
            ) -> $type {
                // SAFETY: the same contract.
                unsafe { $other(text, end, base) }
            }
        )*
    };
}

same! {
    strtoll = strtol: c_longlong;
    strtoull = strtoul: c_ulong;
    strtoimax = strtol: c_long;
    strtoumax = strtoul: c_ulong;
    // glibc's headers give these names to `strtol` and `strtoul`; for objects compiled with them.
    __isoc23_strtol = strtol: c_long;
    __isoc23_strtoul = strtoul: c_ulong;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn atoi(text: *const c_char) -> c_int {
    // SAFETY: the same contract.
    unsafe { strtol(text, core::ptr::null_mut(), 10) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn atol(text: *const c_char) -> c_long {
    // SAFETY: the same contract.
    unsafe { strtol(text, core::ptr::null_mut(), 10) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn atoll(text: *const c_char) -> c_longlong {
    // SAFETY: the same contract.
    unsafe { strtol(text, core::ptr::null_mut(), 10) }
}

/// Reads a floating point number by `read` and stores where it ends. `classify` gives the class of
/// its value.
unsafe fn floating<T: Copy>(
    text: *const c_char,
    end: *mut *mut c_char,
    read: impl FnOnce(&[u8]) -> (T, usize),
    classify: impl FnOnce(T) -> FpCategory,
) -> T {
    // SAFETY: the caller's string, and a place for a pointer or null.
    unsafe {
        let bytes = number_bytes(text, number::float_parts());
        let (value, length) = read(bytes);
        if !end.is_null() {
            *end = text.add(length).cast_mut();
        }
        if number::is_beyond(&bytes[..length], classify(value)) {
            errno::set(ERANGE);
        }
        value
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strtod(text: *const c_char, end: *mut *mut c_char) -> c_double {
    // SAFETY: the same contract.
    unsafe { floating(text, end, number::float, f64::classify) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strtof(text: *const c_char, end: *mut *mut c_char) -> f32 {
    // SAFETY: the same contract.
    unsafe { floating(text, end, number::single, f32::classify) }
}

/// A `long double` is a `double` here.
#[unsafe(no_mangle)]
unsafe extern "C" fn strtold(text: *const c_char, end: *mut *mut c_char) -> c_double {
    // SAFETY: the same contract.
    unsafe { strtod(text, end) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn atof(text: *const c_char) -> c_double {
    // SAFETY: the same contract.
    unsafe { strtod(text, core::ptr::null_mut()) }
}

#[unsafe(no_mangle)]
extern "C" fn abs(value: c_int) -> c_int {
    value.wrapping_abs()
}

#[unsafe(no_mangle)]
extern "C" fn labs(value: c_long) -> c_long {
    value.wrapping_abs()
}

#[unsafe(no_mangle)]
extern "C" fn llabs(value: c_longlong) -> c_longlong {
    value.wrapping_abs()
}

/// C's `div_t` and `ldiv_t`.
#[repr(C)]
struct Division<T> {
    quotient: T,
    rest: T,
}

#[unsafe(no_mangle)]
extern "C" fn div(number: c_int, by: c_int) -> Division<c_int> {
    let (quotient, rest) = (number.wrapping_div(by), number.wrapping_rem(by));
    Division { quotient, rest }
}

#[unsafe(no_mangle)]
extern "C" fn ldiv(number: c_long, by: c_long) -> Division<c_long> {
    let (quotient, rest) = (number.wrapping_div(by), number.wrapping_rem(by));
    Division { quotient, rest }
}

#[unsafe(no_mangle)]
extern "C" fn lldiv(number: c_longlong, by: c_longlong) -> Division<c_longlong> {
    ldiv(number, by)
}

#[unsafe(no_mangle)]
extern "C" fn imaxabs(value: c_long) -> c_long {
    labs(value)
}

#[unsafe(no_mangle)]
extern "C" fn imaxdiv(number: c_long, by: c_long) -> Division<c_long> {
    ldiv(number, by)
}

type Compare = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;
type CompareWithContext = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void) -> c_int;

#[unsafe(no_mangle)]
unsafe extern "C" fn qsort(start: *mut c_void, count: usize, size: usize, compare: Compare) {
    // SAFETY: the same contract.
    unsafe { sort(start, count, size, &mut |a, b| compare(a, b)) };
}

/// As `qsort`, with `context` as the third argument of `compare`.
#[unsafe(no_mangle)]
unsafe extern "C" fn qsort_r(
    start: *mut c_void,
    count: usize,
    size: usize,
    compare: CompareWithContext,
    context: *mut c_void,
) {
    // SAFETY: the same contract.
    unsafe { sort(start, count, size, &mut |a, b| compare(a, b, context)) };
}

/// Sorts the elements.
///
/// # Safety
/// `start` points to `count` elements of `size` bytes, and `compare` accepts them.
unsafe fn sort(
    start: *mut c_void,
    count: usize,
    size: usize,
    compare: &mut dyn FnMut(*const c_void, *const c_void) -> c_int,
) {
    if count < 2 || size == 0 {
        return;
    }
    let at = |index: usize| start.cast::<u8>().wrapping_add(index * size);
    let mut compare = |a: usize, b: usize| {
        debug_assert!(a < count && b < count);
        compare(at(a).cast_const().cast(), at(b).cast_const().cast()).cmp(&0)
    };
    let mut swap = |a: usize, b: usize| {
        debug_assert!(a < count && b < count && a != b);
        // SAFETY: two elements of the caller's array.
        unsafe { core::ptr::swap_nonoverlapping(at(a), at(b), size) };
    };
    crate::sorting::sort(count, &mut compare, &mut swap);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bsearch(
    key: *const c_void,
    start: *const c_void,
    count: usize,
    size: usize,
    compare: Compare,
) -> *mut c_void {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        // SAFETY: an element of the caller's array.
        let (element, result) = unsafe {
            let element = start.cast::<u8>().add(middle * size).cast::<c_void>();
            (element, compare(key, element))
        };
        match result.cmp(&0) {
            Order::Equal => return element.cast_mut(),
            Order::Less => high = middle,
            Order::Greater => low = middle + 1,
        }
    }
    core::ptr::null_mut()
}

/// The state of `rand` and `random`.
static SEED: AtomicU64 = AtomicU64::new(1);

/// The state after `state`, and the number that it gives (splitmix64).
fn next(state: u64) -> (u64, u64) {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut value = state;
    value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (state, value ^ value >> 31)
}

/// Converts to the range up to RAND_MAX, which is 2^31 - 1.
fn small(value: u64) -> c_int {
    (value >> 33) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn rand() -> c_int {
    let (state, value) = next(SEED.load(Ordering::Relaxed));
    SEED.store(state, Ordering::Relaxed);
    small(value)
}

#[unsafe(no_mangle)]
extern "C" fn srand(seed: c_uint) {
    SEED.store(seed.into(), Ordering::Relaxed);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rand_r(seed: *mut c_uint) -> c_int {
    // SAFETY: the caller's seed.
    unsafe {
        let (state, value) = random::of_caller(*seed);
        *seed = state;
        value as c_int
    }
}

#[unsafe(no_mangle)]
extern "C" fn random() -> c_long {
    rand().into()
}

#[unsafe(no_mangle)]
extern "C" fn srandom(seed: c_uint) {
    srand(seed);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realpath(path: *const c_char, buffer: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's string.
    let found = unsafe { path_of(path) }.and_then(|path| {
        slashes::metadata(path)?;
        path::canonical(&linux_names::here(path))
    });
    match found {
        Ok(path) if buffer.is_null() => strings::duplicate(path.as_bytes()),
        Ok(path) => {
            let copy = strings::duplicate(path.as_bytes());
            // SAFETY: the caller's buffer has PATH_MAX bytes, the longest a canonical path is.
            unsafe {
                if !copy.is_null() {
                    buffer.copy_from_nonoverlapping(copy, path.len() + 1);
                }
                malloc::free(copy.cast());
            }
            buffer
        }
        Err(error) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
    }
}
