//! `getenv`, `setenv` and `environ`.

use alloc::vec::Vec;
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;

use syscall::error::{EINVAL, ENOMEM};

use crate::{errno, strings};

/// C programs may store a vector of their own here, so each function reads it anew.
#[unsafe(no_mangle)]
static mut environ: *mut *mut c_char = null_mut();

/// The vector that this library has made last, whose memory it frees when it makes another one.
pub static OWN: crate::sync::Shared<Vec<*mut c_char>> = crate::sync::Shared::new(Vec::new());

/// Takes the vector of variables with which the program was started.
pub fn adopt(entries: *mut *mut c_char) {
    // SAFETY: as in `vector`; the program has not begun.
    unsafe { environ = entries };
}

/// The present vector of variables.
pub fn vector() -> *mut *mut c_char {
    // SAFETY: a word that C programs change only while no other thread looks, as POSIX demands.
    unsafe { environ }
}

/// Makes a vector of these entries the present one.
fn replace(mut entries: Vec<*mut c_char>) {
    entries.push(null_mut());
    OWN.with(|own| {
        *own = entries;
        // SAFETY: as in `vector`; the old vector's memory was this library's own.
        unsafe { environ = own.as_mut_ptr() };
    });
}

/// The present variables, one after the other. Takes no memory, as `getenv` may be called where
/// there is none.
fn each() -> impl Iterator<Item = *mut c_char> {
    let mut next = vector();
    core::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: the vector ends with a null pointer, behind which `next` does not get.
        let entry = unsafe { *next };
        if entry.is_null() {
            return None;
        }
        next = next.wrapping_add(1);
        Some(entry)
    })
}

fn entries() -> Vec<*mut c_char> {
    each().collect()
}

/// The value of an entry if the entry has this name.
///
/// # Safety
/// `entry` is a string.
unsafe fn value_of(entry: *mut c_char, name: &[u8]) -> Option<*mut c_char> {
    // SAFETY: the caller's promise.
    let text = unsafe { strings::bytes(entry) };
    let rest = text.strip_prefix(name)?;
    rest.starts_with(b"=")
        .then(|| entry.wrapping_add(name.len() + 1))
}

/// All variables, for a new program.
pub fn variables() -> Vec<Vec<u8>> {
    // SAFETY: the vector consists of strings.
    each()
        .map(|entry| unsafe { strings::bytes(entry) }.to_vec())
        .collect()
}

/// The value of a variable.
pub fn find(name: &[u8]) -> Option<*mut c_char> {
    // SAFETY: entries are strings.
    each().find_map(|entry| unsafe { value_of(entry, name) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: the caller's string.
    let name = unsafe { strings::bytes(name) };
    find(name).unwrap_or(null_mut())
}

/// The same as `getenv`, as no program here has more rights than whoever started it.
#[unsafe(no_mangle)]
unsafe extern "C" fn secure_getenv(name: *const c_char) -> *mut c_char {
    // SAFETY: the same contract.
    unsafe { getenv(name) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setenv(name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int {
    if name.is_null() {
        return errno::fail(EINVAL);
    }
    // SAFETY: the caller's strings.
    let (name, value) = unsafe { (strings::bytes(name), strings::bytes(value)) };
    if name.is_empty() || name.contains(&b'=') {
        return errno::fail(EINVAL);
    }
    let text = [name, b"=", value].concat();
    let mut all = entries();
    // SAFETY: entries are strings.
    let known = all
        .iter()
        .position(|entry| unsafe { value_of(*entry, name) }.is_some());
    if known.is_some() && overwrite == 0 {
        return 0;
    }
    let entry = strings::duplicate(&text);
    if entry.is_null() {
        return errno::fail(ENOMEM);
    }
    // The former text is not freed, as programs keep pointers that `getenv` returned.
    match known {
        Some(index) => all[index] = entry,
        None => all.push(entry),
    }
    replace(all);
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unsetenv(name: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    let name = unsafe { strings::bytes(name) };
    if name.is_empty() || name.contains(&b'=') {
        return errno::fail(EINVAL);
    }
    let mut all = entries();
    // SAFETY: entries are strings.
    all.retain(|entry| unsafe { value_of(*entry, name) }.is_none());
    replace(all);
    0
}

/// Makes the string itself a part of the environment. A name without a value leaves the
/// environment, as with glibc.
#[unsafe(no_mangle)]
unsafe extern "C" fn putenv(text: *mut c_char) -> c_int {
    // SAFETY: the caller's string.
    let bytes = unsafe { strings::bytes(text) };
    let Some(length) = bytes.iter().position(|byte| *byte == b'=') else {
        // SAFETY: the caller's string.
        return unsafe { unsetenv(text) };
    };
    let mut all = entries();
    // SAFETY: entries are strings.
    all.retain(|entry| unsafe { value_of(*entry, &bytes[..length]) }.is_none());
    all.push(text);
    replace(all);
    0
}

#[unsafe(no_mangle)]
extern "C" fn clearenv() -> c_int {
    replace(Vec::new());
    0
}
