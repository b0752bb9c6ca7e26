//! `net/if.h` and `ifaddrs.h`: the interfaces through which sockets reach nodes. One reaches only
//! the own node, the other all nodes.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;

use skiff_libc::errno;
use syscall::error::{EINVAL, ENXIO};

use crate::address::{self, Address, SOCKADDR_BYTES};
use crate::node;

/// C's `IFF_…`.
const UP: c_uint = 0x1;
const BROADCAST: c_uint = 0x2;
const LOOPBACK: c_uint = 0x8;
const RUNNING: c_uint = 0x40;
/// Bytes of a name, with its zero byte.
const NAME_BYTES: usize = 16;

/// An interface. Its number is its index in the list plus 1.
struct Interface {
    name: &'static CStr,
    flags: c_uint,
    address: u32,
    mask: u32,
}

/// The interfaces.
fn all() -> [Interface; 2] {
    // Without a driver, no node can be reached.
    let state = match node::is_online(node::own()) {
        true => UP | RUNNING,
        false => 0,
    };
    [
        Interface {
            name: c"lo",
            flags: UP | LOOPBACK | RUNNING,
            address: address::LOOPBACK,
            mask: 0xff00_0000,
        },
        Interface {
            name: c"scif0",
            flags: state | BROADCAST,
            address: address::of_node(node::own()),
            mask: 0xffff_ff00,
        },
    ]
}

// ---- By name and number ----

#[unsafe(no_mangle)]
unsafe extern "C" fn if_nametoindex(name: *const c_char) -> c_uint {
    // SAFETY: the caller's string.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    let found = all().iter().position(|of| Some(of.name) == name);
    match found {
        Some(place) => place as c_uint + 1,
        None => {
            errno::set(ENXIO);
            0
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn if_indextoname(index: c_uint, name: *mut c_char) -> *mut c_char {
    let place = (index as usize).checked_sub(1);
    let all = all();
    let Some(found) = place.and_then(|place| all.get(place)) else {
        errno::set(ENXIO);
        return null_mut();
    };
    if name.is_null() {
        errno::set(EINVAL);
        return null_mut();
    }
    let bytes = found.name.to_bytes_with_nul();
    debug_assert!(bytes.len() <= NAME_BYTES);
    // SAFETY: the caller's place has room for every name.
    unsafe { bytes.as_ptr().cast::<c_char>().copy_to(name, bytes.len()) };
    name
}

/// C's `struct if_nameindex`. The program may read the name until it frees the list.
#[repr(C)]
struct NameIndex {
    index: c_uint,
    name: *mut c_char,
}

#[unsafe(no_mangle)]
extern "C" fn if_nameindex() -> *mut NameIndex {
    let entries = all().into_iter().zip(1..).map(|(of, index)| NameIndex {
        index,
        name: CString::from(of.name).into_raw(),
    });
    let end = NameIndex {
        index: 0,
        name: null_mut(),
    };
    let list: Vec<_> = entries.chain([end]).collect();
    Box::into_raw(list.into_boxed_slice()).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn if_freenameindex(list: *mut NameIndex) {
    if list.is_null() {
        return;
    }
    let count = all().len() + 1;
    // SAFETY: a list of `if_nameindex`, all of which have as many entries; the caller does not use
    // it any more.
    let list = unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(list, count)) };
    for entry in list.iter().filter(|entry| !entry.name.is_null()) {
        // SAFETY: made by `into_raw`, and given back once.
        drop(unsafe { CString::from_raw(entry.name) });
    }
}

// ---- With their addresses ----

/// C's `struct ifaddrs`.
#[repr(C)]
struct IfAddrs {
    next: *mut IfAddrs,
    name: *const c_char,
    flags: c_uint,
    address: *const c_void,
    mask: *const c_void,
    broadcast: *const c_void,
    data: *const c_void,
}

/// An entry with the addresses that its pointers lead to.
#[repr(C)]
struct Entry {
    of: IfAddrs,
    addresses: [[u8; SOCKADDR_BYTES]; 3],
}

impl Entry {
    /// Makes an entry and puts it in front of a list.
    fn prepend(of: &Interface, next: *mut IfAddrs) -> *mut IfAddrs {
        let hosts = [of.address, of.mask, of.address | !of.mask];
        let addresses = hosts.map(|host| Address { host, port: 0 }.to_bytes());
        let entry = Box::into_raw(Box::new(Entry {
            of: IfAddrs {
                next,
                name: of.name.as_ptr(),
                flags: of.flags,
                address: null_mut(),
                mask: null_mut(),
                broadcast: null_mut(),
                data: null_mut(),
            },
            addresses,
        }));
        // SAFETY: made above, and nobody else has it yet.
        let entry = unsafe { &mut *entry };
        let [address, mask, broadcast] = &entry.addresses;
        entry.of.address = address.as_ptr().cast();
        entry.of.mask = mask.as_ptr().cast();
        if of.flags & BROADCAST != 0 {
            entry.of.broadcast = broadcast.as_ptr().cast();
        }
        (&raw mut *entry).cast()
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getifaddrs(place: *mut *mut IfAddrs) -> c_int {
    if place.is_null() {
        return errno::fail(EINVAL);
    }
    let all = all();
    let first = all
        .iter()
        .rev()
        .fold(null_mut(), |next, of| Entry::prepend(of, next));
    // SAFETY: the caller's place.
    unsafe { place.write(first) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freeifaddrs(list: *mut IfAddrs) {
    let mut next = list;
    while !next.is_null() {
        // SAFETY: an entry of `getifaddrs`, which the caller does not use any more.
        let entry = unsafe { Box::from_raw(next.cast::<Entry>()) };
        next = entry.of.next;
    }
}
