//! `string.h` and `strings.h`, except for the six functions that every compiler's own library has
//! (`memcpy`, `memmove`, `memset`, `memcmp`, `bcmp`, `strlen`).
//!
//! All functions have C's contract: strings end with a zero byte, ranges are valid, and
//! destinations are large enough. Bytes are compared as unsigned numbers.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;

use crate::{find, malloc, versions};

/// The bytes of a string without the zero byte.
///
/// # Safety
/// `text` is a string that does not change while the result is in use.
pub unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The bytes before the first zero byte, at most `limit`.
///
/// # Safety
/// `text` is valid up to a zero byte or `limit` bytes, whichever is first, and not written to.
pub unsafe fn bytes_within<'a>(text: *const c_char, limit: usize) -> &'a [u8] {
    // SAFETY: `strnlen` has looked at no more bytes than the caller promises.
    unsafe { core::slice::from_raw_parts(text.cast(), strnlen(text, limit)) }
}

/// # Safety
/// As in C.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strnlen(text: *const c_char, limit: usize) -> usize {
    let mut length = 0;
    // SAFETY: no byte behind the zero byte or the limit is read.
    while length < limit && unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    length
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memchr(start: *const c_void, byte: c_int, count: usize) -> *mut c_void {
    let start = start.cast::<u8>();
    for index in 0..count {
        // SAFETY: C lets a caller name more bytes than there are behind a match, so bytes are read
        // one by one, up to the match.
        if unsafe { *start.add(index) } == byte as u8 {
            return start.wrapping_add(index).cast_mut().cast();
        }
    }
    null_mut()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memrchr(start: *const c_void, byte: c_int, count: usize) -> *mut c_void {
    // SAFETY: the caller's range.
    let range = unsafe { core::slice::from_raw_parts(start.cast::<u8>(), count) };
    match range.iter().rposition(|found| *found == byte as u8) {
        Some(index) => start.cast::<u8>().wrapping_add(index).cast_mut().cast(),
        None => null_mut(),
    }
}

/// Finds a byte that the range is known to contain.
#[unsafe(no_mangle)]
unsafe extern "C" fn rawmemchr(start: *const c_void, byte: c_int) -> *mut c_void {
    // SAFETY: the same contract, as the search ends at the byte.
    unsafe { memchr(start, byte, usize::MAX) }
}

/// Copies up to and including a byte. Returns the place after its copy, or null if it is not
/// there.
#[unsafe(no_mangle)]
unsafe extern "C" fn memccpy(
    to: *mut c_void,
    from: *const c_void,
    byte: c_int,
    count: usize,
) -> *mut c_void {
    // SAFETY: the caller's ranges, which do not overlap.
    unsafe {
        let found = memchr(from, byte, count);
        let end = match found.is_null() {
            true => count,
            false => found.byte_offset_from(from) as usize + 1,
        };
        let behind = mempcpy(to, from, end);
        if found.is_null() { found } else { behind }
    }
}

/// Copies pairs of bytes and swaps each pair; an odd byte at the end is not copied.
#[unsafe(no_mangle)]
unsafe extern "C" fn swab(from: *const c_void, to: *mut c_void, count: isize) {
    let pairs = usize::try_from(count).unwrap_or(0) / 2;
    for place in 0..pairs {
        // SAFETY: the caller's ranges; a pair is read before it is written.
        unsafe {
            let pair = from.cast::<[u8; 2]>().add(place).read();
            to.cast::<[u8; 2]>().add(place).write([pair[1], pair[0]]);
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmem(
    start: *const c_void,
    count: usize,
    wanted: *const c_void,
    length: usize,
) -> *mut c_void {
    // SAFETY: the caller's ranges.
    let (range, wanted) = unsafe {
        (
            core::slice::from_raw_parts(start.cast::<u8>(), count),
            core::slice::from_raw_parts(wanted.cast::<u8>(), length),
        )
    };
    let reaches = |end| end <= range.len();
    let found = find::find(length, |at| wanted[at], reaches, |at| range[at]);
    match found {
        Some(index) => start.cast::<u8>().wrapping_add(index).cast_mut().cast(),
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mempcpy(to: *mut c_void, from: *const c_void, count: usize) -> *mut c_void {
    // SAFETY: the caller's ranges, which do not overlap.
    unsafe { to.cast::<u8>().copy_from_nonoverlapping(from.cast(), count) };
    to.cast::<u8>().wrapping_add(count).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bzero(start: *mut c_void, count: usize) {
    // SAFETY: the caller's range.
    unsafe { start.cast::<u8>().write_bytes(0, count) };
}

/// As `bzero`. The compiler cannot leave it out, whatever the program does with the memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn explicit_bzero(start: *mut c_void, count: usize) {
    // SAFETY: the caller's range.
    unsafe { bzero(start, count) };
    // SAFETY: no instruction at all; for the compiler it reads the memory.
    unsafe { core::arch::asm!("/* {0} */", in(reg) start, options(nostack, preserves_flags)) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcopy(from: *const c_void, to: *mut c_void, count: usize) {
    // SAFETY: the caller's ranges, which may overlap.
    unsafe { to.cast::<u8>().copy_from(from.cast(), count) };
}

/// Copies a string with its zero byte; returns the address of the copied zero byte.
#[unsafe(no_mangle)]
unsafe extern "C" fn stpcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: the caller's string and room for all of it.
    unsafe {
        let length = bytes(from).len();
        to.copy_from_nonoverlapping(from, length + 1);
        to.add(length)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcpy(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { stpcpy(to, from) };
    to
}

/// Fills the rest with zero bytes; writes none if there is no room.
#[unsafe(no_mangle)]
unsafe extern "C" fn strncpy(to: *mut c_char, from: *const c_char, count: usize) -> *mut c_char {
    // SAFETY: at most `count` bytes of both.
    unsafe {
        let length = strnlen(from, count);
        to.copy_from_nonoverlapping(from, length);
        to.add(length).write_bytes(0, count - length);
    }
    to
}

/// As `strncpy`; returns the place of the first zero byte, or the place after `count` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn stpncpy(to: *mut c_char, from: *const c_char, count: usize) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { strncpy(to, from, count).add(strnlen(from, count)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcat(to: *mut c_char, from: *const c_char) -> *mut c_char {
    // SAFETY: the caller's strings and room for both behind each other.
    unsafe { stpcpy(to.add(bytes(to).len()), from) };
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strncat(to: *mut c_char, from: *const c_char, count: usize) -> *mut c_char {
    // SAFETY: as for `strcat`, with at most `count` bytes and a zero byte.
    unsafe {
        let end = to.add(bytes(to).len());
        let length = strnlen(from, count);
        end.copy_from_nonoverlapping(from, length);
        *end.add(length) = 0;
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlcpy(to: *mut c_char, from: *const c_char, size: usize) -> usize {
    // SAFETY: the caller's string; at most `size` bytes are written.
    unsafe {
        let length = bytes(from).len();
        if size > 0 {
            let copied = length.min(size - 1);
            to.copy_from_nonoverlapping(from, copied);
            *to.add(copied) = 0;
        }
        length
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlcat(to: *mut c_char, from: *const c_char, size: usize) -> usize {
    // SAFETY: the caller's strings; at most `size` bytes of the first are looked at or written.
    unsafe {
        let before = strnlen(to, size);
        before + strlcpy(to.add(before), from, size - before)
    }
}

/// Compares two strings byte by byte after `fold`, up to `limit` bytes.
unsafe fn compare(
    a: *const c_char,
    b: *const c_char,
    limit: usize,
    fold: impl Fn(u8) -> u8,
) -> c_int {
    for index in 0..limit {
        // SAFETY: no byte behind the first zero byte or difference is read.
        let (a, b) = unsafe { (*a.add(index) as u8, *b.add(index) as u8) };
        let difference = c_int::from(fold(a)) - c_int::from(fold(b));
        if difference != 0 || a == 0 {
            return difference;
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcmp(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: the caller's strings.
    unsafe { compare(a, b, usize::MAX, |byte| byte) }
}

/// Copies the string unchanged, as strings are ordered by their bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn strxfrm(place: *mut c_char, text: *const c_char, size: usize) -> usize {
    // SAFETY: the caller's string, and a place of `size` bytes.
    unsafe {
        let length = bytes(text).len();
        if length < size {
            place.copy_from_nonoverlapping(text, length + 1);
        }
        length
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcoll(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: the caller's strings.
    unsafe { compare(a, b, usize::MAX, |byte| byte) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strncmp(a: *const c_char, b: *const c_char, count: usize) -> c_int {
    // SAFETY: the caller's strings.
    unsafe { compare(a, b, count, |byte| byte) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcasecmp(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: the caller's strings.
    unsafe { compare(a, b, usize::MAX, |byte| byte.to_ascii_lowercase()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strncasecmp(a: *const c_char, b: *const c_char, count: usize) -> c_int {
    // SAFETY: the caller's strings.
    unsafe { compare(a, b, count, |byte| byte.to_ascii_lowercase()) }
}

/// Finds a byte, which may be the zero byte at the end; returns the place of the zero byte if
/// there is none.
#[unsafe(no_mangle)]
unsafe extern "C" fn strchrnul(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: the caller's string. The bytes behind a match are not read, as a text may be long.
    let length = unsafe { length_while(text, |found| found != byte as u8) };
    text.cast_mut().wrapping_add(length)
}

/// How many bytes at the start of a string are as `wanted` says. The zero byte ends the count.
///
/// # Safety
/// `text` is a string, at least up to the first byte that is not wanted.
pub unsafe fn length_while(text: *const c_char, wanted: impl Fn(u8) -> bool) -> usize {
    let mut length = 0;
    loop {
        // SAFETY: the caller's string, of which all bytes before this one were wanted.
        let byte = unsafe { *text.add(length) } as u8;
        if byte == 0 || !wanted(byte) {
            return length;
        }
        length += 1;
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strchr(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: the caller's string; the result lies in it or is its zero byte.
    unsafe {
        let found = strchrnul(text, byte);
        if *found as u8 == byte as u8 {
            found
        } else {
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strrchr(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: the caller's string.
    let range = unsafe { CStr::from_ptr(text) }.to_bytes_with_nul();
    match range.iter().rposition(|found| *found == byte as u8) {
        Some(index) => text.cast_mut().wrapping_add(index),
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn index(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { strchr(text, byte) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rindex(text: *const c_char, byte: c_int) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { strrchr(text, byte) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strstr(text: *const c_char, wanted: *const c_char) -> *mut c_char {
    // SAFETY: the caller's strings.
    unsafe { find_in(text, wanted, |byte| byte) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcasestr(text: *const c_char, wanted: *const c_char) -> *mut c_char {
    // SAFETY: the caller's strings.
    unsafe { find_in(text, wanted, |byte| byte.to_ascii_lowercase()) }
}

/// Finds a string in a string, comparing what `compared` makes of their bytes; null if it is not
/// there.
///
/// # Safety
/// Both are strings.
unsafe fn find_in(
    text: *const c_char,
    wanted: *const c_char,
    compared: impl Fn(u8) -> u8,
) -> *mut c_char {
    let mut length = 0;
    // SAFETY: the caller's strings, none of which is read behind its zero byte.
    while unsafe { *wanted.add(length) } != 0 {
        // A string that is longer than the text is not measured.
        // SAFETY: the same.
        if unsafe { *text.add(length) } == 0 {
            return null_mut();
        }
        length += 1;
    }
    let mut known = length;
    let reaches = |end: usize| {
        // SAFETY: all bytes before are in the string, without the zero byte.
        while known < end && unsafe { *text.add(known) } != 0 {
            known += 1;
        }
        known >= end
    };
    // SAFETY: `find` reads of both only what is there.
    let wanted = |place| compared(unsafe { *wanted.add(place) } as u8);
    // SAFETY: the same.
    let at = |place| compared(unsafe { *text.add(place) } as u8);
    match find::find(length, wanted, reaches, at) {
        Some(index) => text.cast_mut().wrapping_add(index),
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strspn(text: *const c_char, members: *const c_char) -> usize {
    // SAFETY: the caller's strings.
    unsafe {
        let members = bytes(members);
        length_while(text, |byte| members.contains(&byte))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strcspn(text: *const c_char, members: *const c_char) -> usize {
    // SAFETY: the caller's strings.
    unsafe {
        let members = bytes(members);
        length_while(text, |byte| !members.contains(&byte))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strpbrk(text: *const c_char, members: *const c_char) -> *mut c_char {
    // SAFETY: the caller's strings; the result lies in the first or is its zero byte.
    unsafe {
        let found = text.add(strcspn(text, members));
        if *found == 0 {
            null_mut()
        } else {
            found.cast_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strtok_r(
    text: *mut c_char,
    members: *const c_char,
    place: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: the caller's strings; `place` is where the call before left off.
    unsafe {
        let start = if text.is_null() { *place } else { text };
        if start.is_null() {
            return null_mut();
        }
        let start = start.add(strspn(start, members));
        if *start == 0 {
            *place = null_mut();
            return null_mut();
        }
        let end = start.add(strcspn(start, members));
        *place = if *end == 0 { null_mut() } else { end.add(1) };
        *end = 0;
        start
    }
}

pub static TOKEN: crate::sync::Shared<*mut c_char> = crate::sync::Shared::new(null_mut());

#[unsafe(no_mangle)]
unsafe extern "C" fn strtok(text: *mut c_char, members: *const c_char) -> *mut c_char {
    // SAFETY: the same contract; the place is this function's own.
    TOKEN.with(|place| unsafe { strtok_r(text, members, place) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strsep(place: *mut *mut c_char, members: *const c_char) -> *mut c_char {
    // SAFETY: the caller's strings.
    unsafe {
        let start = *place;
        if start.is_null() {
            return null_mut();
        }
        let end = start.add(strcspn(start, members));
        *place = if *end == 0 { null_mut() } else { end.add(1) };
        *end = 0;
        start
    }
}

/// Copies bytes into a string for `free`; null with `errno` set if there is no memory.
pub fn duplicate(bytes: &[u8]) -> *mut c_char {
    let copy = malloc::allocate(bytes.len() + 1, 0).cast::<u8>();
    if !copy.is_null() {
        // SAFETY: allocated with room for the bytes and a zero byte.
        unsafe {
            copy.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            *copy.add(bytes.len()) = 0;
        }
    }
    copy.cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strdup(text: *const c_char) -> *mut c_char {
    // SAFETY: the caller's string.
    duplicate(unsafe { bytes(text) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strndup(text: *const c_char, limit: usize) -> *mut c_char {
    // SAFETY: the caller's string, or `limit` bytes.
    duplicate(unsafe { bytes_within(text, limit) })
}

/// The last part of a path, as in GNU's `basename`.
#[unsafe(no_mangle)]
unsafe extern "C" fn basename(path: *const c_char) -> *mut c_char {
    if path.is_null() {
        return null_mut();
    }
    // SAFETY: the caller's string.
    let slash = unsafe { strrchr(path, c_int::from(b'/')) };
    if slash.is_null() {
        path.cast_mut()
    } else {
        slash.wrapping_add(1)
    }
}

/// Compares names with numbers in them.
#[unsafe(no_mangle)]
unsafe extern "C" fn strverscmp(a: *const c_char, b: *const c_char) -> c_int {
    // SAFETY: the caller's strings.
    let (a, b) = unsafe { (bytes(a), bytes(b)) };
    versions::compare(a, b) as c_int
}
