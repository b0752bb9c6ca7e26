//! The functions of `arpa/inet.h`.

use alloc::format;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::net::{Ipv4Addr, Ipv6Addr};

use runtime::sync::Mutex;
use skiff_libc::errno;
use syscall::error::{EAFNOSUPPORT, EINVAL, ENOSPC};

use crate::address::{self, AF_INET, TEXT_BYTES};

/// The family of IPv6 addresses, which are only converted from and to text.
const AF_INET6: c_int = 10;

/// A C string as text; `None` when it is not UTF-8.
///
/// # Safety
/// `text` is a string that lives as long as the result.
pub unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// `inet_addr`. Returns all ones for text that is no address.
#[unsafe(no_mangle)]
unsafe extern "C" fn inet_addr(text: *const c_char) -> u32 {
    // SAFETY: the caller's string.
    let host = unsafe { text_of(text) }.and_then(address::parse);
    host.map_or(u32::MAX, u32::to_be)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn inet_aton(text: *const c_char, place: *mut u32) -> c_int {
    // SAFETY: the caller's string.
    match unsafe { text_of(text) }.and_then(address::parse) {
        Some(host) => {
            if !place.is_null() {
                // SAFETY: the caller's place.
                unsafe { place.write(host.to_be()) };
            }
            1
        }
        None => 0,
    }
}

/// Text that a function returns; the next call overwrites it.
struct Text(UnsafeCell<[u8; TEXT_BYTES]>);

// SAFETY: only written, under a lock; whoever reads it has to keep C's rules.
unsafe impl Sync for Text {}

#[unsafe(no_mangle)]
extern "C" fn inet_ntoa(host: u32) -> *mut c_char {
    static TEXT: Text = Text(UnsafeCell::new([0; TEXT_BYTES]));
    static LOCK: Mutex<()> = Mutex::new(());
    let (text, _) = address::format(u32::from_be(host));
    let _turn = LOCK.lock();
    // SAFETY: nobody else writes; C programs do not read during another call.
    unsafe { TEXT.0.get().write(text) };
    TEXT.0.get().cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn inet_pton(family: c_int, text: *const c_char, place: *mut c_void) -> c_int {
    // SAFETY: the caller's string.
    let text = || unsafe { text_of(text) };
    let is_parsed = match family {
        AF_INET6 => text()
            .and_then(|text| text.parse().ok())
            .map(|host: Ipv6Addr| {
                // SAFETY: the caller's place, of the family's size.
                unsafe { place.cast::<[u8; 16]>().write(host.octets()) };
            }),
        family if family == c_int::from(AF_INET) => {
            text().and_then(address::parse_strictly).map(|host| {
                // SAFETY: as above.
                unsafe { place.cast::<[u8; 4]>().write(host.to_be_bytes()) };
            })
        }
        _ => return errno::fail(EAFNOSUPPORT),
    };
    is_parsed.is_some().into()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn inet_ntop(
    family: c_int,
    host: *const c_void,
    place: *mut c_char,
    size: u32,
) -> *const c_char {
    // SAFETY: the caller's address, whose length its family gives.
    let text = match (family, unsafe { host.cast::<[u8; 4]>().as_ref() }) {
        (AF_INET6, Some(_)) => {
            // SAFETY: as above.
            let bytes = unsafe { host.cast::<[u8; 16]>().read() };
            Ok(format!("{}\0", Ipv6Addr::from(bytes)))
        }
        (family, Some(bytes)) if family == c_int::from(AF_INET) => {
            Ok(format!("{}\0", Ipv4Addr::from(*bytes)))
        }
        (AF_INET6, None) => Err(EINVAL),
        (family, None) if family == c_int::from(AF_INET) => Err(EINVAL),
        _ => Err(EAFNOSUPPORT),
    };
    let text = text.and_then(|text| match place.is_null() {
        true => Err(EINVAL),
        false if text.len() > size as usize => Err(ENOSPC),
        false => Ok(text),
    });
    match text {
        Ok(text) => {
            // SAFETY: the caller's place is as large.
            unsafe {
                place
                    .cast::<u8>()
                    .copy_from_nonoverlapping(text.as_ptr(), text.len());
            }
            place
        }
        Err(number) => {
            errno::set(number);
            core::ptr::null()
        }
    }
}

// Two constants of C's type `struct in6_addr`.

#[unsafe(no_mangle)]
static in6addr_any: [u32; 4] = [0; 4];
#[unsafe(no_mangle)]
static in6addr_loopback: [u32; 4] = [0, 0, 0, 1_u32.to_be()];
