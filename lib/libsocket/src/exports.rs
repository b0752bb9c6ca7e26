//! The functions of `sys/socket.h`.

use alloc::sync::Arc;
use core::ffi::{c_int, c_void};

use skiff_libc::{descriptor, errno, points};
use syscall::error::{EFAULT, EINVAL, EOPNOTSUPP};

use crate::address::{AF_UNIX, Address, SOCKADDR_BYTES};
use crate::calls::Name;
use crate::local::{self, SOCKADDR_UN_BYTES};
use crate::messages::Received;
use crate::parts::{self, Part};
use crate::paths::Paths;
use crate::{Result, calls, files, option_calls, pair, socket};

/// `socklen_t`.
type Length = u32;

/// C's `struct msghdr`.
#[repr(C)]
struct Message {
    name: *mut c_void,
    name_length: Length,
    parts: *mut Part,
    count: usize,
    control: *mut c_void,
    control_length: usize,
    flags: c_int,
}

fn give(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(errno::fail)
}

fn done(result: Result<()>) -> c_int {
    give(result.map(|()| 0))
}

fn count(result: Result<usize>) -> isize {
    result.map_or_else(errno::fail, |count| count as isize)
}

/// Reads the address from C's `struct sockaddr`.
///
/// # Safety
/// C's contract.
unsafe fn address_at(place: *const c_void, length: Length) -> Result<Name> {
    const FAMILY: usize = size_of::<u16>();
    if place.is_null() {
        return Err(EFAULT);
    }
    let whole = place.cast::<u8>();
    // SAFETY: the caller's structure has that many bytes.
    if length as usize >= FAMILY && unsafe { whole.cast::<u16>().read_unaligned() } == AF_UNIX {
        if length as usize > SOCKADDR_UN_BYTES {
            return Err(EINVAL);
        }
        // SAFETY: as above.
        let path =
            unsafe { core::slice::from_raw_parts(whole.add(FAMILY), length as usize - FAMILY) };
        return local::path_in(path).map(Name::Path);
    }
    if (length as usize) < SOCKADDR_BYTES {
        return Err(EINVAL);
    }
    // SAFETY: the caller's structure has that many bytes.
    let bytes = unsafe { place.cast::<[u8; SOCKADDR_BYTES]>().read() };
    let (family, address) = Address::from_bytes(&bytes);
    Ok(Name::Inet(family, address))
}

/// Stores as many of the bytes at `place` as fit, and their full number at `length`.
///
/// # Safety
/// C's contract: `length` holds the size of the space at `place`; both may be null.
unsafe fn store(place: *mut c_void, length: *mut Length, bytes: &[u8]) -> Result<()> {
    if place.is_null() {
        return Ok(());
    }
    if length.is_null() {
        return Err(EFAULT);
    }
    // SAFETY: the caller's promise.
    unsafe {
        let room = (*length as usize).min(bytes.len());
        place
            .cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), room);
        *length = bytes.len() as Length;
    }
    Ok(())
}

#[unsafe(no_mangle)]
extern "C" fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    give(calls::socket(domain, kind, protocol))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn socketpair(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
    place: *mut c_int,
) -> c_int {
    if place.is_null() {
        return errno::fail(EFAULT);
    }
    done(pair::pair(domain, kind, protocol).map(|pair| {
        // SAFETY: the caller's place for two numbers.
        unsafe { place.cast::<[c_int; 2]>().write(pair) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bind(number: c_int, address: *const c_void, length: Length) -> c_int {
    // SAFETY: the same contract.
    let address = unsafe { address_at(address, length) };
    done(socket::find(number).and_then(|_| calls::bind(number, address?)))
}

/// Whether the stream is at a mark of out-of-band data, of which there is none.
#[unsafe(no_mangle)]
extern "C" fn sockatmark(number: c_int) -> c_int {
    give(socket::find(number).map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn listen(number: c_int, backlog: c_int) -> c_int {
    done(calls::listen(number, backlog))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept(number: c_int, address: *mut c_void, length: *mut Length) -> c_int {
    // SAFETY: the same contract.
    unsafe { accept4(number, address, length, calls::flags_of_accept(number)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn accept4(
    number: c_int,
    address: *mut c_void,
    length: *mut Length,
    flags: c_int,
) -> c_int {
    if !address.is_null() && length.is_null() {
        return errno::fail(EFAULT);
    }
    let accepted = points::interruptible(|| calls::accept(number, flags));
    descriptor::note_use(number);
    give(accepted.and_then(|(new, peer)| {
        // SAFETY: the same contract.
        unsafe { name(new, peer, |paths| paths.peer, address, length) }?;
        Ok(new)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn connect(number: c_int, address: *const c_void, length: Length) -> c_int {
    // SAFETY: the same contract.
    let address = unsafe { address_at(address, length) };
    let connected = points::interruptible(|| {
        socket::find(number)?;
        calls::connect(number, address.as_ref().map_err(|error| *error)?)
    });
    descriptor::note_use(number);
    done(connected)
}

/// Stores an address of a socket: that of a node, or for the family `AF_UNIX` the path that
/// `path` takes.
///
/// # Safety
/// That of [`store`].
unsafe fn name(
    number: c_int,
    address: Address,
    path: impl FnOnce(Paths) -> Option<Arc<str>>,
    place: *mut c_void,
    length: *mut Length,
) -> Result<()> {
    let Some(paths) = calls::paths_of(number) else {
        // SAFETY: the same contract.
        return unsafe { store(place, length, &address.to_bytes()) };
    };
    let (bytes, count) = local::to_bytes(path(paths).as_deref());
    // SAFETY: the same contract.
    unsafe { store(place, length, &bytes[..count]) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(number: c_int, place: *mut c_void, length: *mut Length) -> c_int {
    done(calls::local(number).and_then(|address| {
        if place.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: the same contract.
        unsafe { name(number, address, |paths| paths.own, place, length) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getpeername(number: c_int, place: *mut c_void, length: *mut Length) -> c_int {
    done(calls::peer(number).and_then(|address| {
        if place.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: the same contract.
        unsafe { name(number, address, |paths| paths.peer, place, length) }
    }))
}

#[unsafe(no_mangle)]
extern "C" fn shutdown(number: c_int, how: c_int) -> c_int {
    let ended = calls::shutdown(number, how);
    descriptor::note_use(number);
    done(ended)
}

/// Describes C's memory as the only part of a transfer.
fn whole(start: *const c_void, length: usize) -> [Part; 1] {
    let start = start.cast_mut();
    [Part { start, length }]
}

fn send_parts(number: c_int, parts: Result<&[Part]>, flags: c_int) -> isize {
    let sent = points::interruptible(|| {
        let (index, socket) = socket::find(number)?;
        files::send(index, &socket, parts?, flags)
    });
    descriptor::note_use(number);
    count(sent)
}

fn receive_parts(number: c_int, parts: Result<&[Part]>, flags: c_int) -> Result<Received> {
    let received = points::interruptible(|| {
        let (index, socket) = socket::find(number)?;
        files::receive(index, &socket, parts?, flags)
    });
    descriptor::note_use(number);
    received
}

#[unsafe(no_mangle)]
extern "C" fn send(number: c_int, data: *const c_void, length: usize, flags: c_int) -> isize {
    send_parts(number, Ok(&whole(data, length)), flags)
}

/// Ignores the address: the socket is connected, or the call fails.
#[unsafe(no_mangle)]
extern "C" fn sendto(
    number: c_int,
    data: *const c_void,
    length: usize,
    flags: c_int,
    _address: *const c_void,
    _address_length: Length,
) -> isize {
    send_parts(number, Ok(&whole(data, length)), flags)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sendmsg(number: c_int, message: *const Message, flags: c_int) -> isize {
    // SAFETY: null, or the caller's structure.
    let Some(message) = (unsafe { message.as_ref() }) else {
        return errno::fail(EFAULT);
    };
    // Descriptors cannot be sent.
    if message.control_length > 0 {
        return errno::fail(EOPNOTSUPP);
    }
    // SAFETY: the caller's parts.
    let parts = unsafe { parts::parts_of(message.parts, message.count) };
    send_parts(number, parts, flags)
}

#[unsafe(no_mangle)]
extern "C" fn recv(number: c_int, buffer: *mut c_void, length: usize, flags: c_int) -> isize {
    let received = receive_parts(number, Ok(&whole(buffer, length)), flags);
    count(received.map(|received| received.count))
}

/// A stream's data has no sender address: the address length becomes 0, as on Linux.
#[unsafe(no_mangle)]
unsafe extern "C" fn recvfrom(
    number: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut c_void,
    address_length: *mut Length,
) -> isize {
    let received = receive_parts(number, Ok(&whole(buffer, length)), flags).and_then(|received| {
        // SAFETY: the same contract.
        unsafe { store(address, address_length, &[]) }?;
        Ok(received.count)
    });
    count(received)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn recvmsg(number: c_int, message: *mut Message, flags: c_int) -> isize {
    // SAFETY: null, or the caller's structure.
    let Some(message) = (unsafe { message.as_mut() }) else {
        return errno::fail(EFAULT);
    };
    // SAFETY: the caller's parts.
    let parts = unsafe { parts::parts_of(message.parts, message.count) };
    let received = receive_parts(number, parts, flags);
    count(received.map(|received| {
        message.name_length = 0;
        message.control_length = 0;
        message.flags = received.flags;
        received.count
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut Length,
) -> c_int {
    done(socket::find(number).and_then(|(index, socket)| {
        if value.is_null() || length.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: the caller's number.
        let room = unsafe { *length } as usize;
        if room > c_int::MAX as usize {
            return Err(EINVAL);
        }
        let (bytes, count) = option_calls::get(index, &socket, level, name)?;
        let bytes = &bytes[..count.min(room)];
        // SAFETY: the same contract.
        unsafe { store(value, length, bytes) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn setsockopt(
    number: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: Length,
) -> c_int {
    const LONGEST: usize = 16;
    done(socket::find(number).and_then(|(index, socket)| {
        if value.is_null() && length > 0 {
            return Err(EFAULT);
        }
        let mut bytes = [0; LONGEST];
        let bytes = &mut bytes[..LONGEST.min(length as usize)];
        // SAFETY: the caller's value is as long.
        unsafe {
            value
                .cast::<u8>()
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
        }
        option_calls::set(index, &socket, level, name, bytes)
    }))
}
