//! The functions of `netdb.h`: names of nodes and services.

use alloc::boxed::Box;
use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI32, Ordering};

use runtime::sync::Mutex;
use skiff_libc::errno;
use syscall::error::EAFNOSUPPORT;

use crate::address::{self, AF_INET, Address, SOCKADDR_BYTES};
use crate::inet::text_of;
use crate::{names, node, services};

const SOCK_STREAM: c_int = 1;
const IPPROTO_TCP: c_int = 6;
const AI_PASSIVE: c_int = 0x01;
const AI_CANONNAME: c_int = 0x02;
const AI_NUMERICHOST: c_int = 0x04;
const AI_NUMERICSERV: c_int = 0x400;
/// All flags: those above, `AI_V4MAPPED`, `AI_ALL` and `AI_ADDRCONFIG`.
const AI_ALL: c_int = 0x43f;
const EAI_BADFLAGS: c_int = -1;
const EAI_NONAME: c_int = -2;
const EAI_FAMILY: c_int = -6;
const EAI_SOCKTYPE: c_int = -7;
const EAI_SERVICE: c_int = -8;
const EAI_OVERFLOW: c_int = -12;
const NI_NUMERICHOST: c_int = 1;
const NI_NUMERICSERV: c_int = 2;
const NI_NAMEREQD: c_int = 8;
const HOST_NOT_FOUND: c_int = 1;

/// C's `struct addrinfo`, in relibc's order.
#[repr(C)]
struct Info {
    flags: c_int,
    family: c_int,
    kind: c_int,
    protocol: c_int,
    address_length: usize,
    name: *mut c_char,
    address: *mut c_void,
    next: *mut Info,
}

/// A result of `getaddrinfo`: the structure and what it points to. The structure is the first
/// field, so that its address is also that of the whole.
#[repr(C)]
struct Found {
    info: Info,
    address: [u8; SOCKADDR_BYTES],
    name: Option<CString>,
}

/// Returns the name of an address as a C string.
fn name_of(host: u32) -> Option<CString> {
    CString::new(names::name_of(host)?).ok()
}

/// Computes `getaddrinfo`'s result or its error. Only stream sockets have names and services, so a
/// kind of 0 in the hints means those.
fn look_up(name: Option<&str>, service: Option<&str>, hints: &[c_int; 4]) -> Result<Found, c_int> {
    let [flags, family, kind, protocol] = *hints;
    if flags & !AI_ALL != 0 || flags & AI_CANONNAME != 0 && name.is_none() {
        return Err(EAI_BADFLAGS);
    }
    if family != 0 && family != c_int::from(AF_INET) {
        return Err(EAI_FAMILY);
    }
    match (kind, protocol) {
        (0 | SOCK_STREAM, 0 | IPPROTO_TCP) => {}
        _ => return Err(EAI_SOCKTYPE),
    }
    if name.is_none() && service.is_none() {
        return Err(EAI_NONAME);
    }
    let port = match service {
        None => 0,
        Some(text) => {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            if flags & AI_NUMERICSERV != 0 && !is_number {
                return Err(EAI_NONAME);
            }
            services::port_of(text).ok_or(EAI_SERVICE)?
        }
    };
    let host = match name {
        None if flags & AI_PASSIVE != 0 => address::ANY,
        None => address::LOOPBACK,
        Some(name) if flags & AI_NUMERICHOST != 0 => address::parse(name).ok_or(EAI_NONAME)?,
        Some(name) => names::resolve(name, node::own()).ok_or(EAI_NONAME)?,
    };
    let name = match name {
        Some(name) if flags & AI_CANONNAME != 0 => {
            name_of(host).or_else(|| CString::new(name).ok())
        }
        _ => None,
    };
    Ok(Found {
        info: Info {
            flags,
            family: AF_INET.into(),
            kind: SOCK_STREAM,
            protocol: IPPROTO_TCP,
            address_length: SOCKADDR_BYTES,
            address: null_mut(),
            name: null_mut(),
            next: null_mut(),
        },
        address: Address { host, port }.to_bytes(),
        name,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getaddrinfo(
    name: *const c_char,
    service: *const c_char,
    hints: *const Info,
    place: *mut *mut Info,
) -> c_int {
    // SAFETY: each is null or what the caller says it is.
    let (name, service, hints) = unsafe {
        let text = |place: *const c_char| (!place.is_null()).then(|| text_of(place));
        (text(name), text(service), hints.as_ref())
    };
    // A name that is not UTF-8 does not exist.
    let (Some(name), Some(service)) = (
        name.map_or(Some(None), |name| name.map(Some)),
        service.map_or(Some(None), |service| service.map(Some)),
    ) else {
        return EAI_NONAME;
    };
    let hints = hints.map_or([0; 4], |hints| {
        [hints.flags, hints.family, hints.kind, hints.protocol]
    });
    match look_up(name, service, &hints) {
        Ok(found) => {
            let found = Box::leak(Box::new(found));
            found.info.address = found.address.as_mut_ptr().cast();
            if let Some(name) = &found.name {
                found.info.name = name.as_ptr().cast_mut();
            }
            // SAFETY: the caller's place.
            unsafe { place.write((&raw mut *found).cast()) };
            0
        }
        Err(EAI_FAMILY) => {
            // What `socket` says of this family: programs that go on with IPv4 look for it.
            errno::set(EAFNOSUPPORT);
            EAI_FAMILY
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn freeaddrinfo(info: *mut Info) {
    if !info.is_null() {
        // SAFETY: the result of `getaddrinfo`, which the caller gives back; there is never a next
        // one.
        drop(unsafe { Box::from_raw(info.cast::<Found>()) });
    }
}

#[unsafe(no_mangle)]
extern "C" fn gai_strerror(error: c_int) -> *const c_char {
    let text = match error {
        0 => c"Success",
        EAI_BADFLAGS => c"Bad value for ai_flags",
        EAI_NONAME => c"Name or service not known",
        EAI_FAMILY => c"ai_family not supported",
        EAI_SOCKTYPE => c"ai_socktype not supported",
        EAI_SERVICE => c"Servname not supported for ai_socktype",
        EAI_OVERFLOW => c"Argument buffer overflow",
        _ => c"Unknown error",
    };
    text.as_ptr()
}

/// Stores a text with its zero byte, unless `place` is null or `size` is 0.
///
/// # Safety
/// C's contract: `place`, unless null, has room for `size` bytes.
unsafe fn store_text(text: &CStr, place: *mut c_char, size: u32) -> Result<(), c_int> {
    let bytes = text.to_bytes_with_nul();
    if place.is_null() || size == 0 {
        return Ok(());
    }
    if bytes.len() > size as usize {
        return Err(EAI_OVERFLOW);
    }
    // SAFETY: the caller's promise.
    unsafe {
        place
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getnameinfo(
    address: *const c_void,
    length: u32,
    host: *mut c_char,
    host_size: u32,
    service: *mut c_char,
    service_size: u32,
    flags: c_int,
) -> c_int {
    if address.is_null() || (length as usize) < SOCKADDR_BYTES {
        return EAI_FAMILY;
    }
    // SAFETY: the caller's structure has that many bytes.
    let bytes = unsafe { address.cast::<[u8; SOCKADDR_BYTES]>().read() };
    let (family, address) = Address::from_bytes(&bytes);
    if family != AF_INET {
        return EAI_FAMILY;
    }
    let name = match flags & NI_NUMERICHOST {
        0 => name_of(address.host),
        _ => None,
    };
    if name.is_none() && flags & NI_NAMEREQD != 0 {
        return EAI_NONAME;
    }
    let (text, _) = address::format(address.host);
    let name = match (&name, CStr::from_bytes_until_nul(&text)) {
        (Some(name), _) => name.as_c_str(),
        (None, Ok(text)) => text,
        (None, Err(_)) => return EAI_NONAME,
    };
    let port = CString::new(format!("{}", address.port)).unwrap_or_default();
    let known = match flags & NI_NUMERICSERV {
        0 => services::by_port(address.port).map(|(name, _)| name),
        _ => None,
    };
    // SAFETY: the same contract.
    let stored = unsafe {
        store_text(name, host, host_size)
            .and_then(|()| store_text(known.unwrap_or(&port), service, service_size))
    };
    stored.err().unwrap_or(0)
}

/// C's `struct hostent`.
#[repr(C)]
struct Host {
    name: *mut c_char,
    aliases: *mut *mut c_char,
    kind: c_int,
    length: c_int,
    addresses: *mut *mut c_char,
}

/// C's `struct servent`.
#[repr(C)]
struct Service {
    name: *const c_char,
    aliases: *mut *mut c_char,
    port: c_int,
    protocol: *const c_char,
}

/// A structure of C's, with the text and the list that its pointers lead to.
type Whole<T> = (T, Vec<u8>, [*mut c_char; 2]);

/// The result of functions that store it in static memory; the next call overwrites it.
struct Answer<T>(Mutex<Option<Box<Whole<T>>>>);

// SAFETY: the pointers lead to what is in the box itself, or to constants; C's rules govern later
// accesses: no other thread calls the function meanwhile.
unsafe impl<T> Sync for Answer<T> {}

/// The error of the last look-up, `h_errno`.
static ERROR: AtomicI32 = AtomicI32::new(0);

#[unsafe(no_mangle)]
extern "C" fn __h_errno_location() -> *mut c_int {
    ERROR.as_ptr()
}

#[unsafe(no_mangle)]
extern "C" fn hstrerror(error: c_int) -> *const c_char {
    let text = match error {
        0 => c"No error",
        HOST_NOT_FOUND => c"Host not found",
        _ => c"Unknown error",
    };
    text.as_ptr()
}

/// Stores the answer as a `struct hostent`.
fn answer_host(name: &[u8], host: u32) -> *mut Host {
    static HOST: Answer<Host> = Answer(Mutex::new(None));
    let mut text: Vec<u8> = host.to_be_bytes().to_vec();
    text.extend_from_slice(name);
    text.push(0);
    let structure = Host {
        name: null_mut(),
        aliases: null_mut(),
        kind: AF_INET.into(),
        length: 4,
        addresses: null_mut(),
    };
    let mut answer = HOST.0.lock();
    let (structure, text, list) =
        &mut **answer.insert(Box::new((structure, text, [null_mut(); 2])));
    list[0] = text.as_mut_ptr().cast();
    structure.name = text.as_mut_ptr().wrapping_add(4).cast();
    structure.addresses = list.as_mut_ptr();
    // The list of aliases is empty.
    structure.aliases = (&raw mut list[1]).cast();
    structure
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyname(name: *const c_char) -> *mut Host {
    // SAFETY: the caller's string.
    let name = unsafe { text_of(name) };
    match name.and_then(|name| Some((name, names::resolve(name, node::own())?))) {
        Some((name, host)) => answer_host(name.as_bytes(), host),
        None => {
            ERROR.store(HOST_NOT_FOUND, Ordering::Relaxed);
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn gethostbyaddr(host: *const c_void, length: u32, family: c_int) -> *mut Host {
    let host = (family == c_int::from(AF_INET) && length == 4 && !host.is_null()).then(|| {
        // SAFETY: the caller's address of four bytes.
        u32::from_be_bytes(unsafe { host.cast::<[u8; 4]>().read() })
    });
    match host.and_then(|host| Some((host, name_of(host)?))) {
        Some((host, name)) => answer_host(name.as_bytes(), host),
        None => {
            ERROR.store(HOST_NOT_FOUND, Ordering::Relaxed);
            null_mut()
        }
    }
}

/// Stores the answer as a `struct servent`; null if there is none.
///
/// # Safety
/// `protocol` is null or a string.
unsafe fn answer_service(
    found: Option<(&'static CStr, u16)>,
    protocol: *const c_char,
) -> *const Service {
    static SERVICE: Answer<Service> = Answer(Mutex::new(None));
    // SAFETY: the caller's promise.
    let is_stream = protocol.is_null() || unsafe { CStr::from_ptr(protocol) } == c"tcp";
    let Some((name, port)) = found.filter(|_| is_stream) else {
        return null();
    };
    let structure = Service {
        name: name.as_ptr(),
        aliases: null_mut(),
        port: port.to_be().into(),
        protocol: c"tcp".as_ptr(),
    };
    let mut answer = SERVICE.0.lock();
    let (structure, _, list) =
        &mut **answer.insert(Box::new((structure, Vec::new(), [null_mut(); 2])));
    structure.aliases = list.as_mut_ptr();
    structure
}

/// C's `struct protoent`.
#[repr(C)]
struct Protocol {
    name: *const c_char,
    aliases: *mut *mut c_char,
    number: c_int,
}

/// Stores the answer as a `struct protoent`; null if there is none.
fn answer_protocol(is_it: impl Fn(&CStr, c_int) -> bool) -> *const Protocol {
    const PROTOCOLS: [(&CStr, c_int); 2] = [(c"ip", 0), (c"tcp", IPPROTO_TCP)];
    static PROTOCOL: Answer<Protocol> = Answer(Mutex::new(None));
    let known = PROTOCOLS.iter().find(|(name, number)| is_it(name, *number));
    let Some((name, number)) = known else {
        return null();
    };
    let structure = Protocol {
        name: name.as_ptr(),
        aliases: null_mut(),
        number: *number,
    };
    let mut answer = PROTOCOL.0.lock();
    let new = Box::new((structure, Vec::new(), [null_mut(); 2]));
    let (structure, _, list) = &mut **answer.insert(new);
    structure.aliases = list.as_mut_ptr();
    structure
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getprotobyname(name: *const c_char) -> *const Protocol {
    // SAFETY: the caller's string.
    let name = unsafe { CStr::from_ptr(name) };
    answer_protocol(|known, _| known == name)
}

#[unsafe(no_mangle)]
extern "C" fn getprotobynumber(number: c_int) -> *const Protocol {
    answer_protocol(|_, known| known == number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getservbyname(name: *const c_char, protocol: *const c_char) -> *const Service {
    // SAFETY: the caller's strings.
    unsafe { answer_service(text_of(name).and_then(services::by_name), protocol) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getservbyport(port: c_int, protocol: *const c_char) -> *const Service {
    let port = u16::try_from(port).ok().map(u16::from_be);
    // SAFETY: the caller's string.
    unsafe { answer_service(port.and_then(services::by_port), protocol) }
}
