//! Addresses of C, and `rdma_getaddrinfo`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;

use libsocket::address::{self, AF_INET, Address, SOCKADDR_BYTES};
use libsocket::{names, services};
use syscall::error::{EINVAL, ENOMEM};

use super::event::{self, Awaited};
use super::port_space::{PS_TCP, PS_UDP, UD, type_in};
use super::structures::{EventChannel, Id, Storage, own_node};
use super::{id, queue_pair};
use crate::Result;
use crate::place::{get, get_mut};
use crate::types::{Pd, QpInitAttr};

/// Errors of `rdma_getaddrinfo`.
const EAI_NONAME: c_int = -2;
const EAI_AGAIN: c_int = -3;
const EAI_FAMILY: c_int = -6;
const EAI_SERVICE: c_int = -8;
/// `RAI_PASSIVE`.
const PASSIVE: c_int = 1;
/// `RAI_NUMERICHOST`.
const NUMERIC_HOST: c_int = 2;

/// `struct rdma_addrinfo`.
#[repr(C)]
pub struct Info {
    flags: c_int,
    family: c_int,
    qp_type: c_int,
    port_space: c_int,
    source_length: u32,
    destination_length: u32,
    source: *mut Storage,
    destination: *mut Storage,
    source_name: *mut c_char,
    destination_name: *mut c_char,
    route_length: usize,
    route: *mut c_void,
    connect_length: usize,
    connect: *mut c_void,
    next: *mut Info,
}

// Results and what their pointers lead to are separate blocks of `malloc`: programs put their own
// addresses in, and free results that they have made themselves. Declared by name, so that a
// program's own `malloc` is used if it has one.
unsafe extern "C" {
    safe fn calloc(count: usize, size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

/// Allocates a block of zeros, with space for a `T` at least.
fn block<T>(bytes: usize) -> Result<*mut T> {
    let block = calloc(1, bytes.max(size_of::<T>()));
    match block.is_null() {
        true => Err(ENOMEM),
        false => Ok(block.cast()),
    }
}

/// Copies a caller's address, with zeros after it if it is short. Returns null for a length of 0.
///
/// # Errors
/// `EINVAL` for a null pointer with a length; `ENOMEM`.
///
/// # Safety
/// The pointer is null or leads to `length` bytes.
unsafe fn copy(address: *const Storage, length: u32) -> Result<*mut Storage> {
    if length == 0 {
        return Ok(null_mut());
    }
    let address = address.cast::<u8>();
    // SAFETY: the caller's promise.
    let bytes = unsafe { crate::place::list(address, length)? };
    let place: *mut Storage = block(bytes.len())?;
    // SAFETY: the block is new and has that many bytes.
    unsafe { place.cast::<u8>().copy_from(address, bytes.len()) };
    Ok(place)
}

/// Reads C's text; fails if it is not UTF-8.
///
/// # Safety
/// The pointer is null or leads to a text.
unsafe fn text<'a>(place: *const c_char) -> core::result::Result<Option<&'a str>, ()> {
    if place.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(place) };
    text.to_str().map(Some).map_err(|_| ())
}

fn look_up(
    name: Option<&str>,
    service: Option<&str>,
    flags: c_int,
) -> core::result::Result<Address, c_int> {
    let port = service.map_or(Some(0), services::port_of);
    let port = port.ok_or(EAI_SERVICE)?;
    let own = own_node().map_err(|_| EAI_AGAIN)?;
    let host = match name {
        None if service.is_none() => return Err(EAI_NONAME),
        None if flags & PASSIVE != 0 => address::ANY,
        None => address::LOOPBACK,
        Some(name) if flags & NUMERIC_HOST != 0 => address::parse(name).ok_or(EAI_NONAME)?,
        Some(name) => names::resolve(name, own).ok_or(EAI_NONAME)?,
    };
    Ok(Address { host, port })
}

/// Fills in a result for a name or a service, or for hints without either.
///
/// # Errors
/// That of `getaddrinfo`, or -1 with `errno` set.
fn find(
    info: &mut Info,
    name: Option<&str>,
    service: Option<&str>,
    hints: &Info,
) -> core::result::Result<(), c_int> {
    let failed = |number| crate::minus_one(Err(number));
    (info.flags, info.family) = (hints.flags, hints.family);
    (info.qp_type, info.port_space) = (hints.qp_type, hints.port_space);
    if name.is_none() && service.is_none() {
        // SAFETY: the caller's address.
        info.destination =
            unsafe { copy(hints.destination, hints.destination_length) }.map_err(failed)?;
        info.destination_length = hints.destination_length;
    } else {
        if hints.family != 0 && hints.family != c_int::from(AF_INET) {
            return Err(EAI_FAMILY);
        }
        let found = Storage::new(look_up(name, service, hints.flags)?);
        info.family = AF_INET.into();
        if info.port_space == 0 {
            info.port_space = match info.qp_type as u32 {
                UD => PS_UDP as c_int,
                _ => PS_TCP as c_int,
            };
        }
        if info.qp_type == 0 {
            info.qp_type = type_in(info.port_space as u32) as c_int;
        }
        let place: *mut Storage = block(0).map_err(failed)?;
        // SAFETY: a new block of that size.
        unsafe { place.write(found) };
        match hints.flags & PASSIVE {
            0 => (info.destination, info.destination_length) = (place, SOCKADDR_BYTES as u32),
            _ => (info.source, info.source_length) = (place, SOCKADDR_BYTES as u32),
        }
    }
    if info.source_length == 0 {
        // SAFETY: the caller's address.
        info.source = unsafe { copy(hints.source, hints.source_length) }.map_err(failed)?;
        info.source_length = hints.source_length;
    }
    Ok(())
}

/// Looks an address up. Without a name and a service, the result has the addresses of the hints. A
/// source in the hints is copied into every result that has no other, as with rdma-core.
#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_getaddrinfo(
    name: *const c_char,
    service: *const c_char,
    hints: *const Info,
    place: *mut *mut Info,
) -> c_int {
    // SAFETY: each is null or what the caller says it is.
    let (Ok(name), Ok(service), hints) = (unsafe { (text(name), text(service), hints.as_ref()) })
    else {
        return EAI_NONAME;
    };
    if place.is_null() || name.is_none() && service.is_none() && hints.is_none() {
        return crate::minus_one(Err(EINVAL));
    }
    let info: *mut Info = match block(0) {
        Ok(info) => info,
        Err(number) => return crate::minus_one(Err(number)),
    };
    // SAFETY: a new block of that size, and zeros are a value of this type.
    let of = unsafe { &mut *info };
    // SAFETY: as above.
    let nothing = unsafe { core::mem::zeroed() };
    match find(of, name, service, hints.unwrap_or(&nothing)) {
        Ok(()) => {
            // SAFETY: the caller's place.
            unsafe { place.write(info) };
            0
        }
        Err(error) => {
            // SAFETY: it was just made.
            unsafe { rdma_freeaddrinfo(info) };
            error
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_freeaddrinfo(mut info: *mut Info) {
    // SAFETY: results of ours or of the program's, which it does not use any more: each pointer in
    // one is null or leads to a block.
    while let Some(of) = unsafe { info.as_ref() } {
        let next = of.next;
        let blocks = [
            of.source.cast(),
            of.destination.cast(),
            of.source_name.cast(),
            of.destination_name.cast(),
            of.route,
            of.connect,
            info.cast(),
        ];
        for block in blocks {
            // SAFETY: as above.
            unsafe { free(block) };
        }
        info = next;
    }
}

// ---- Endpoints: ids made from such results ----

fn create_endpoint(info: &Info, pd: *mut Pd, attr: *mut QpInitAttr) -> Result<*mut Id> {
    let no_channel: *mut EventChannel = null_mut();
    let id = id::create(no_channel, null_mut(), info.port_space as u32)?;
    let made = fill(id, info, pd, attr);
    if let Err(number) = made {
        // SAFETY: it was just made.
        unsafe { id::rdma_destroy_id(id) };
        return Err(number);
    }
    Ok(id)
}

/// Converts the result of a call that returns -1 on failure.
fn said(result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(skiff_libc::errno::get()),
    }
}

fn fill(id: *mut Id, info: &Info, pd: *mut Pd, attr: *mut QpInitAttr) -> Result<()> {
    // SAFETY: the caller's structure, or none.
    let mut attr = unsafe { attr.as_mut() };
    // The address determines the type, whatever the program has set.
    if let Some(attr) = &mut attr {
        attr.qp_type = info.qp_type as u32;
    }
    if info.flags & PASSIVE != 0 {
        said(id::rdma_bind_addr(id, info.source))?;
        if !pd.is_null() {
            // SAFETY: the id that was just made.
            unsafe { get_mut(id)? }.pd = pd;
        }
        if let Some(attr) = attr {
            // SAFETY: the id that was just made.
            unsafe { get_mut(id)? }.for_requests = Some((pd.expose_provenance(), *attr));
        }
        return Ok(());
    }
    let source: *const Storage = info.source;
    said(id::rdma_resolve_addr(id, source, info.destination, 0))?;
    said(id::rdma_resolve_route(id, 0))?;
    match attr {
        // SAFETY: as above.
        Some(attr) => queue_pair::create(unsafe { get_mut(id)? }, pd, attr),
        None => Ok(()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_create_ep(
    place: *mut *mut Id,
    info: *const Info,
    pd: *mut Pd,
    attr: *mut QpInitAttr,
) -> c_int {
    if place.is_null() {
        return crate::minus_one(Err(EINVAL));
    }
    // SAFETY: the caller's result of `rdma_getaddrinfo`, or of its own.
    let made = unsafe { get(info) }.and_then(|info| create_endpoint(info, pd, attr));
    // SAFETY: the caller's place.
    crate::minus_one(made.map(|id| unsafe { place.write(id) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_destroy_ep(id: *mut Id) {
    // SAFETY: an id of ours, which the caller does not use any more.
    unsafe {
        if let Ok(of) = get_mut(id) {
            queue_pair::destroy(of);
            queue_pair::destroy_shared(of);
        }
        id::rdma_destroy_id(id);
    }
}

// ---- Ids of requests, for endpoints that listen ----

fn get_request(listener: *mut Id) -> Result<*mut Id> {
    // SAFETY: an id of ours.
    let is_its = unsafe { get(listener)? }.is_sync;
    if !is_its {
        return Err(EINVAL);
    }
    event::complete(listener, Awaited::Answer)?;
    // SAFETY: as above, with the event that it has got.
    let (of, told) = unsafe {
        let of = get_mut(listener)?;
        let told = of.event;
        (of, get(told)?)
    };
    if told.event != event::kind::CONNECT_REQUEST {
        return Err(EINVAL);
    }
    let id = told.id;
    // SAFETY: the id that was just made. The event is the new id's from now on.
    unsafe { get_mut(id)? }.event = core::mem::replace(&mut of.event, null_mut());
    if let Some((pd, attr)) = &of.for_requests {
        let pd = core::ptr::with_exposed_provenance_mut(*pd);
        // SAFETY: the id that was just made.
        let made = queue_pair::create(unsafe { get_mut(id)? }, pd, &mut { *attr });
        if let Err(number) = made {
            // The peer is told that its request is refused.
            // SAFETY: as above; the program does not have it yet.
            unsafe { id::rdma_destroy_id(id) };
            return Err(number);
        }
    }
    Ok(id)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn rdma_get_request(listener: *mut Id, place: *mut *mut Id) -> c_int {
    if place.is_null() {
        return crate::minus_one(Err(EINVAL));
    }
    // SAFETY: the caller's place.
    crate::minus_one(get_request(listener).map(|id| unsafe { place.write(id) }))
}
