//! The functions of `scif.h` that exist only in programs of the image: all except those of
//! messages.

use core::ffi::{c_int, c_long, c_short, c_uint, c_ulong, c_void};

use client_memory::memory::Memory;
use client_memory::shared;
use hal::idle_poll::Sign;
use scif::bypass::Bypass;
use scif::raw;
use scif_abi::PortId;
use skiff_libc::{descriptor, errno};
use syscall::PAGE_SIZE;
use syscall::error::{EBADF, EINVAL};

use crate::system::{endpoint, file, interruptible};
use crate::{Result, range, table, user};

/// `struct scif_port_id`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PortNumber {
    node: u16,
    port: u16,
}

/// `struct scif_pollepd`, which is laid out as `struct pollfd`.
#[repr(C)]
struct PollEntry {
    epd: c_int,
    events: c_short,
    revents: c_short,
}

/// `SCIF_MAP_FIXED`, which is `mmap`'s `MAP_FIXED`.
const MAP_FIXED: c_int = 0x10;
/// `mmap`'s `MAP_SHARED` and `MAP_PRIVATE`.
const MAP_SHARED: c_int = 0x01;
const MAP_PRIVATE: c_int = 0x02;
/// The version that `scif_get_driver_version` and its ioctl return.
pub const VERSION: c_int = 1;

unsafe extern "C" {
    fn poll(entries: *mut PollEntry, count: c_ulong, milliseconds: c_int) -> c_int;
    fn munmap(address: *mut c_void, length: usize) -> c_int;
}

/// Converts a result for C: -1 on failure, with `errno`.
pub fn give<T: errno::Failure>(result: Result<T>) -> T {
    result.unwrap_or_else(errno::fail)
}

/// Converts a result without a value for C: 0, or -1 with `errno`.
fn done(result: Result<()>) -> c_int {
    give(result.map(|()| 0))
}

/// Copies, or makes a fence, by the data path of an endpoint.
#[inline(always)]
fn on_path(epd: c_int, call: impl FnOnce(&Bypass, usize) -> Result<()>) -> c_int {
    done(endpoint(epd).and_then(|epd| table::with(epd, |bypass| call(bypass, epd))))
}

#[unsafe(no_mangle)]
extern "C" fn scif_open() -> c_int {
    give(raw::open().map(|number| descriptor::opened_of(number, true, true)))
}

#[unsafe(no_mangle)]
extern "C" fn scif_bind(epd: c_int, port: u16) -> c_int {
    let bind = |epd| raw::bind(epd, port).map(c_int::from);
    give(endpoint(epd).and_then(bind))
}

#[unsafe(no_mangle)]
extern "C" fn scif_listen(epd: c_int, backlog: c_int) -> c_int {
    done(endpoint(epd).and_then(|number| {
        raw::listen(number, backlog)?;
        descriptor::set_listening(epd);
        Ok(())
    }))
}

/// Returns the local port.
#[unsafe(no_mangle)]
extern "C" fn scif_connect(epd: c_int, to: *const PortNumber) -> c_int {
    let connect = || {
        let epd = endpoint(epd)?;
        if to.is_null() {
            return Err(EINVAL);
        }
        let [node_low, node_high, port_low, port_high] = user::load(to as usize)?;
        let node = u16::from_le_bytes([node_low, node_high]);
        let port = u16::from_le_bytes([port_low, port_high]);
        raw::connect(epd, PortId::new(node, port)).map(c_int::from)
    };
    give(interruptible(connect))
}

#[unsafe(no_mangle)]
extern "C" fn scif_accept(
    epd: c_int,
    peer: *mut PortNumber,
    new: *mut c_int,
    flags: c_int,
) -> c_int {
    let accept = || {
        let number = endpoint(epd)?;
        if peer.is_null() || new.is_null() {
            return Err(EINVAL);
        }
        let listening = descriptor::is_listening(epd);
        // A connection is not taken for a caller that would not learn of it. Of another endpoint
        // the state is reported first.
        if listening {
            user::check_writable::<4>(peer as usize)?;
            user::check_writable::<4>(new as usize)?;
        }
        let (number, from) = raw::accept(number, flags as u32).map_err(|error| {
            // Another thread has closed the listener meanwhile: the wait was interrupted, whatever
            // error the layer below reports.
            let closed = listening && !descriptor::is_listening(epd);
            if closed { syscall::EINTR } else { error }
        })?;
        let accepted = descriptor::opened_of(number, false, true);
        let [node, port] = [from.node(), from.port()].map(u16::to_le_bytes);
        let stored = user::store(peer as usize, [node, port].as_flattened())
            .and_then(|()| user::store(new as usize, &accepted.to_ne_bytes()));
        if stored.is_err() {
            descriptor::close(accepted).map_err(|error| error.errno)?;
        }
        stored
    };
    done(interruptible(accept))
}

#[unsafe(no_mangle)]
extern "C" fn scif_close(epd: c_int) -> c_int {
    let close = || {
        // Other files of the scheme are not endpoints, and stay open.
        match raw::local(endpoint(epd)?) {
            Err(syscall::ENOTTY) => Err(syscall::ENOTTY),
            _ => descriptor::close(epd).map_err(|error| error.errno),
        }
    };
    done(close())
}

/// For the C library's `close` of an endpoint: closes it as `scif_close` does. Returns 0 or an
/// error number.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_close(epd: c_int) -> c_int {
    let Ok(number) = usize::try_from(epd) else {
        return syscall::EBADF;
    };
    raw::close(number).err().unwrap_or(0)
}

/// For the C library's `close`: shuts a listener down even if other threads wait in it.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_shutdown(epd: c_int) {
    if let Ok(epd) = endpoint(epd) {
        // Nothing is left to do if the listener has already gone.
        let _ = raw::shutdown(epd);
    }
}

/// Runs `transfer` with the data path of a file of the scheme. Returns a count, or a negated error
/// number.
fn of_file(epd: c_int, transfer: impl Fn(usize, &Bypass) -> Result<usize>) -> isize {
    let epd = usize::try_from(epd).map_err(|_| EBADF);
    let result = epd.and_then(|epd| table::with(epd, |bypass| transfer(epd, bypass)));
    result.map_or_else(|number| -(number as isize), |count| count as isize)
}

/// For the C library's `read` of a file of the scheme.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_scif_read(epd: c_int, buffer: *mut c_void, size: usize) -> isize {
    // SAFETY: the caller's memory, which it lets be written.
    let to = unsafe { range(buffer, size) };
    of_file(epd, |epd, bypass| bypass.read(epd, to))
}

/// For the C library's `readv`: reads what has arrived, without waiting.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_scif_read_now(epd: c_int, buffer: *mut c_void, size: usize) -> isize {
    // SAFETY: the caller's memory, which it lets be written.
    let to = unsafe { range(buffer, size) };
    of_file(epd, |epd, bypass| bypass.recv(epd, to, 0))
}

/// For the C library's `write` to a file of the scheme.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_scif_write(epd: c_int, data: *const c_void, size: usize) -> isize {
    // SAFETY: the caller's memory, which is only read.
    let from = unsafe { range(data, size) };
    of_file(epd, |epd, bypass| bypass.write(epd, from))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_register(
    epd: c_int,
    address: *mut c_void,
    length: usize,
    offset: c_long,
    protection: c_int,
    flags: c_int,
) -> c_long {
    give(endpoint(epd).and_then(|epd| {
        // SAFETY: the caller's memory.
        let memory = unsafe { range(address, length) };
        table::release_stale(epd);
        raw::register(epd, memory, offset, protection as u32, flags as u32)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn scif_unregister(epd: c_int, offset: c_long, length: usize) -> c_int {
    done(endpoint(epd).and_then(|epd| {
        let result = raw::unregister(epd, offset, length as u64);
        table::release_stale(epd);
        result
    }))
}

#[unsafe(no_mangle)]
extern "C" fn scif_readfrom(
    epd: c_int,
    local: c_long,
    length: usize,
    remote: c_long,
    flags: c_int,
) -> c_int {
    on_path(epd, |bypass, epd| {
        bypass.readfrom(epd, local, length as u64, remote, flags as u32)
    })
}

#[unsafe(no_mangle)]
extern "C" fn scif_writeto(
    epd: c_int,
    local: c_long,
    length: usize,
    remote: c_long,
    flags: c_int,
) -> c_int {
    on_path(epd, |bypass, epd| {
        bypass.writeto(epd, local, length as u64, remote, flags as u32)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_vreadfrom(
    epd: c_int,
    address: *mut c_void,
    length: usize,
    remote: c_long,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's memory, which it lets be written.
    let to = unsafe { range(address, length) };
    on_path(epd, |bypass, epd| {
        bypass.vreadfrom(epd, to, remote, flags as u32)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_vwriteto(
    epd: c_int,
    address: *mut c_void,
    length: usize,
    remote: c_long,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's memory, which is only read.
    let from = unsafe { range(address, length) };
    on_path(epd, |bypass, epd| {
        bypass.vwriteto(epd, from, remote, flags as u32)
    })
}

#[unsafe(no_mangle)]
extern "C" fn scif_fence_mark(epd: c_int, flags: c_int, mark: *mut c_int) -> c_int {
    on_path(epd, |bypass, epd| {
        let number = bypass.fence_mark(epd, flags as u32)?;
        user::store(mark as usize, &number.to_ne_bytes())
    })
}

#[unsafe(no_mangle)]
extern "C" fn scif_fence_wait(epd: c_int, mark: c_int) -> c_int {
    on_path(epd, |bypass, epd| bypass.fence_wait(epd, mark))
}

#[unsafe(no_mangle)]
extern "C" fn scif_fence_signal(
    epd: c_int,
    local: c_long,
    local_value: u64,
    remote: c_long,
    remote_value: u64,
    flags: c_int,
) -> c_int {
    on_path(epd, |bypass, epd| {
        let (own, peer) = ((local, local_value), (remote, remote_value));
        bypass.fence_signal(epd, own, peer, flags as u32)
    })
}

/// Stores the ids of the online nodes, at most `length`, and the own id. Returns how many are
/// online.
pub fn store_node_ids(nodes: usize, length: u32, own: usize) -> Result<c_int> {
    let mut ids = [0; scif_abi::limits::MAX_NODE as usize + 1];
    let wanted = ids.len().min(length as usize);
    let (count, this) = raw::get_node_ids(&mut ids[..wanted])?;
    for (index, id) in ids[..wanted].iter().take(count).enumerate() {
        user::store(nodes.wrapping_add(2 * index), &id.to_ne_bytes())?;
    }
    // Programs written for Intel's library pass null for values that they do not need.
    if own != 0 {
        user::store(own, &this.to_ne_bytes())?;
    }
    Ok(count as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn scif_get_node_ids(nodes: *mut u16, length: c_int, own: *mut u16) -> c_int {
    give(match u32::try_from(length) {
        Ok(length) => store_node_ids(nodes as usize, length, own as usize),
        Err(_) => Err(EINVAL),
    })
}

/// Intel's spelling of `scif_get_node_ids`.
#[unsafe(no_mangle)]
extern "C" fn scif_get_nodeIDs(nodes: *mut u16, length: c_int, own: *mut u16) -> c_int {
    scif_get_node_ids(nodes, length, own)
}

#[unsafe(no_mangle)]
extern "C" fn scif_get_driver_version() -> c_int {
    VERSION
}

/// An endpoint is a descriptor.
#[unsafe(no_mangle)]
extern "C" fn scif_get_fd(epd: c_int) -> c_int {
    epd
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_poll(
    entries: *mut PollEntry,
    count: c_uint,
    milliseconds: c_long,
) -> c_int {
    let milliseconds = match milliseconds {
        ..0 => -1,
        _ => c_int::try_from(milliseconds).unwrap_or(c_int::MAX),
    };
    // SAFETY: the same contract, the structures are the same.
    unsafe { poll(entries, count.into(), milliseconds) }
}

/// For the C library's `poll`: returns the events that an endpoint is ready for, or a negated
/// error number.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_readiness(epd: c_int, events: c_int) -> c_int {
    // The check is inside the closure, because a number that names another endpoint by then has
    // another data path.
    let look = |number| {
        table::with(number, |bypass| match descriptor::is_listening(epd) {
            true => bypass.readiness_of_listener(number, events as u16),
            false => bypass.readiness(number, events as u16),
        })
    };
    match file(epd).and_then(look) {
        Ok(ready) => ready.into(),
        Err(number) => -number,
    }
}

/// For the C library's `poll`: returns where the arrival of bytes or connection requests at an
/// endpoint will be visible. A check after this call finds those that arrived before it.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_sign(epd: c_int) -> Sign {
    file(epd).map_or(Sign::Event, |epd| table::with(epd, Bypass::sign))
}

/// Maps the peer's windows into this process.
///
/// # Safety
/// With `MAP_FIXED`, the caller no longer uses the range.
unsafe fn map(
    epd: c_int,
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    offset: c_long,
) -> Result<usize> {
    let number = endpoint(epd)?;
    table::release_stale(number);
    // SAFETY: the caller's promise.
    let at = (flags & MAP_FIXED != 0).then(|| unsafe { range(address, length) });
    let mapped = raw::mmap(number, at, length, protection as u32, offset)?;
    if let Some(at) = at {
        // Windows registered at these addresses no longer have their memory there.
        shared::forget(at);
    }
    Ok(mapped)
}

fn address_of(result: Result<usize>) -> *mut c_void {
    match result {
        Ok(address) => address as *mut c_void,
        Err(number) => {
            errno::set(number);
            usize::MAX as *mut c_void
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    epd: c_int,
    offset: c_long,
) -> *mut c_void {
    if flags & !(MAP_FIXED | MAP_SHARED) != 0 {
        return address_of(Err(EINVAL));
    }
    let Some(length) = length.checked_next_multiple_of(PAGE_SIZE) else {
        return address_of(Err(EINVAL));
    };
    // SAFETY: the same contract, for whole pages, as the system's calls have it.
    address_of(unsafe { map(epd, address, length, protection, flags, offset) })
}

/// For the C library's `mmap` of an endpoint. Rounds the length up to whole pages. Flags besides
/// SCIF's are those of `mmap`.
#[unsafe(no_mangle)]
unsafe extern "C" fn skiff_scif_mmap(
    address: *mut c_void,
    length: usize,
    protection: c_int,
    flags: c_int,
    epd: c_int,
    offset: c_long,
) -> *mut c_void {
    let length = match length.checked_next_multiple_of(PAGE_SIZE) {
        Some(length) if flags & (MAP_SHARED | MAP_PRIVATE) == MAP_SHARED => length,
        _ => return address_of(Err(EINVAL)),
    };
    // SAFETY: the same contract.
    address_of(unsafe { map(epd, address, length, protection, flags, offset) })
}

/// For the C library's `mmap` and `munmap`: these pages are about to be replaced or unmapped.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_unmapping(address: usize, length: usize) {
    // SAFETY: the memory is not accessed.
    shared::forget(unsafe { raw::Range::new(address, length) });
}

/// These pages were replaced or unmapped; another thread may have mapped memory there since.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_unmapped(address: usize, length: usize) {
    // SAFETY: the memory is not accessed.
    shared::unmapped(unsafe { raw::Range::new(address, length) });
}

/// For the C library's `mprotect`: these pages have lost access rights.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_protected(address: usize, length: usize) {
    // SAFETY: the memory is not accessed.
    shared::changed(unsafe { raw::Range::new(address, length) });
}

#[unsafe(no_mangle)]
extern "C" fn scif_memory(length: usize) -> *mut c_void {
    let length = length.checked_next_multiple_of(PAGE_SIZE);
    let memory = length
        .ok_or(EINVAL)
        .and_then(|length| Memory::new(length).map_err(|error| error.errno));
    match memory {
        Ok(memory) => memory.leak() as *mut c_void,
        Err(number) => {
            errno::set(number);
            core::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn scif_munmap(address: *mut c_void, length: usize) -> c_int {
    // As with the system's `munmap`, whole pages are unmapped, because whole pages were mapped.
    let start = address as usize;
    let length = match length.checked_next_multiple_of(PAGE_SIZE) {
        Some(length) if length > 0 && start.is_multiple_of(PAGE_SIZE) => length,
        _ => return done(Err(EINVAL)),
    };
    // Called in the C library, which may keep state of the pages, such as that a child does not
    // get them. Not every C library reports to this one, so both reports are made here.
    skiff_scif_unmapping(start, length);
    // SAFETY: the caller gives the range up.
    let result = unsafe { munmap(address, length) };
    skiff_scif_unmapped(start, length);
    result
}
