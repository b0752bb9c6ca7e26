//! The file `umad0`: agents, sends, receives.
//!
//! Files are descriptors of the C library, which programs may also use in other calls.

use alloc::format;
use core::ffi::{CStr, c_char, c_int, c_long, c_short, c_ulong, c_void};
use core::ptr::null;

use skiff_libc::errno;
use syscall::error::{EAGAIN, EINVAL, EIO, ENODEV, ENOSPC, ENOTTY, EOPNOTSUPP, EPERM, ETIMEDOUT};
use verbs_abi::mad::{RegisterAgent, RegisterAgent2, UserMad, request};
use zerocopy::IntoBytes;

use crate::device::{self, PORT};
use crate::frame::{note_sent, set_has_pkeys, umad_size};
use crate::{Result, negated, note};

/// The path of the file.
const UMAD: &CStr = c"/dev/infiniband/umad0";
const ISSM: &[u8] = b"/dev/infiniband/issm0\0";
/// Classes of subnet management.
const SUBNET: [c_int; 2] = [0x01, 0x81];
/// Classes of vendors that name an organisation.
const VENDORS: core::ops::RangeInclusive<c_int> = 0x30..=0x4f;
/// The organisation of agents whose program names none.
const OPENIB: [u8; 3] = [0x00, 0x14, 0x05];

const POLLIN: c_short = 1;
const O_RDWR: c_int = syscall::flag::O_RDWR as c_int;
const O_NONBLOCK: c_int = syscall::flag::O_NONBLOCK as c_int;

/// `struct pollfd`.
#[repr(C)]
struct Poll {
    file: c_int,
    events: c_short,
    happened: c_short,
}

unsafe extern "C" {
    fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    fn close(file: c_int) -> c_int;
    fn read(file: c_int, buffer: *mut c_void, count: usize) -> isize;
    fn write(file: c_int, buffer: *const c_void, count: usize) -> isize;
    fn ioctl(file: c_int, request: c_ulong, ...) -> c_int;
    fn poll(files: *mut Poll, count: c_ulong, timeout_ms: c_int) -> c_int;
}

/// Checks whether this device and port exist. For an unknown device, the error depends on whether
/// the program also named a port.
fn find(name: *const c_char, port: c_int) -> Result<()> {
    match (device::is_device(name), port) {
        (true, 0 | PORT) if !device::is_there() => Err(ENODEV),
        (true, 0 | PORT) => Ok(()),
        (false, 0) => Err(ENODEV),
        _ => Err(EINVAL),
    }
}

fn open_port(name: *const c_char, port: c_int) -> Result<c_int> {
    if !device::has_interface() {
        return Err(EOPNOTSUPP);
    }
    find(name, port)?;
    // SAFETY: a path that ends with a 0, and no further argument for an open of a file that
    // exists.
    let file = unsafe { open(UMAD.as_ptr(), O_RDWR | O_NONBLOCK) };
    if file < 0 {
        note(1, || format!("{UMAD:?}: error {}", errno::get()));
        return Err(EIO);
    }
    // SAFETY: a request without an argument.
    let enabled = unsafe { ioctl(file, request::ENABLE_PKEY as c_ulong, null::<c_void>()) };
    set_has_pkeys(enabled == 0);
    note(1, || format!("{UMAD:?}: file {file}"));
    Ok(file)
}

/// # Safety
/// A name that ends with a 0, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_open_port(name: *const c_char, port: c_int) -> c_int {
    negated(open_port(name, port))
}

/// As [`umad_open_port`]: the port takes part in subnet management as well.
///
/// # Safety
/// A name that ends with a 0, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_open_smi_port(name: *const c_char, port: c_int) -> c_int {
    negated(open_port(name, port))
}

#[unsafe(no_mangle)]
extern "C" fn umad_close_port(file: c_int) -> c_int {
    // SAFETY: closing a descriptor touches no memory of the program.
    unsafe { close(file) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn umad_get_fd(file: c_int) -> c_int {
    file
}

/// # Safety
/// A name that ends with a 0, or null; room for `max` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_issm_path(
    name: *const c_char,
    port: c_int,
    path: *mut c_char,
    max: c_int,
) -> c_int {
    if let Err(error) = find(name, port) {
        return -error;
    }
    let room = usize::try_from(max).unwrap_or(0);
    let length = ISSM.len().min(room);
    if length > 0 {
        // SAFETY: the caller's room; a text that is cut off ends with a 0, too.
        unsafe {
            path.copy_from_nonoverlapping(ISSM.as_ptr().cast(), length);
            *path.add(length - 1) = 0;
        }
    }
    0
}

// ---- Sends and receives ----

/// # Safety
/// The caller's frame, with this number of bytes behind its header.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_send(
    file: c_int,
    agent: c_int,
    umad: *mut UserMad,
    length: c_int,
    timeout_ms: c_int,
    retries: c_int,
) -> c_int {
    errno::set(0);
    // SAFETY: the caller's structure.
    unsafe {
        (*umad).timeout_ms = timeout_ms as u32;
        (*umad).retries = retries as u32;
        (*umad).id = agent as u32;
        note_sent(umad, file, agent);
    }
    let Some(count) = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(umad_size()))
    else {
        errno::set(EINVAL);
        return -EIO;
    };
    // SAFETY: the caller's frame of that length.
    let written = unsafe { write(file, umad.cast(), count) };
    if written == count as isize {
        return 0;
    }
    note(1, || {
        format!(
            "file {file}: {written} of {count} bytes written, error {}",
            errno::get()
        )
    });
    if errno::get() == 0 {
        errno::set(EIO);
    }
    -EIO
}

/// Waits until the file can be read.
fn wait(file: c_int, timeout_ms: c_int) -> Result<()> {
    let mut poll_file = Poll {
        file,
        events: POLLIN,
        happened: 0,
    };
    // SAFETY: one structure.
    match unsafe { poll(&raw mut poll_file, 1, timeout_ms) } {
        1 => Ok(()),
        0 => Err(ETIMEDOUT),
        _ => Err(EIO),
    }
}

#[unsafe(no_mangle)]
extern "C" fn umad_poll(file: c_int, timeout_ms: c_int) -> c_int {
    negated(wait(file, timeout_ms).map(|()| 0))
}

/// # Safety
/// Room for a header and `*length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_recv(
    file: c_int,
    umad: *mut UserMad,
    length: *mut c_int,
    timeout_ms: c_int,
) -> c_int {
    errno::set(0);
    if umad.is_null() || length.is_null() {
        return refuse(EINVAL);
    }
    if timeout_ms != 0
        && let Err(error) = wait(file, timeout_ms)
    {
        return refuse(error);
    }
    let header = umad_size();
    // SAFETY: the caller's number.
    let room = usize::try_from(unsafe { *length }).unwrap_or(0);
    // SAFETY: the caller's room.
    let count = unsafe { read(file, umad.cast(), header + room) };
    if let Ok(count) = usize::try_from(count) {
        // SAFETY: the caller's number, and its structure, which has been filled.
        unsafe {
            *length = count.saturating_sub(header) as c_int;
            return (*umad).id as c_int;
        }
    }
    let error = errno::get();
    if error == ENOSPC {
        // SAFETY: as above: the header was stored although the read was refused.
        unsafe { *length = (*umad).length.saturating_sub(header as u32) as c_int };
    }
    if error != EAGAIN {
        note(1, || format!("file {file}: read: error {error}"));
    }
    refuse(error)
}

/// Returns a failure, and sets `errno` unless it is already set.
fn refuse(error: c_int) -> c_int {
    if errno::get() == 0 {
        errno::set(error);
    }
    -error
}

// ---- Agents ----

fn queue_pair(class: c_int) -> u8 {
    (!SUBNET.contains(&class)).into()
}

/// Returns the words of a mask of methods; 0 for null.
///
/// # Safety
/// Null, or 16 bytes.
unsafe fn methods(mask: *const c_long) -> [u64; 2] {
    match mask.is_null() {
        true => [0; 2],
        // SAFETY: the caller's promise.
        false => unsafe { mask.cast::<[u64; 2]>().read_unaligned() },
    }
}

/// REGISTER_AGENT. Returns the agent's number; on failure, `errno` is set.
fn register(file: c_int, mut asked: RegisterAgent) -> Option<u32> {
    let number = request::REGISTER_AGENT as c_ulong;
    // SAFETY: the structure of the request.
    let result = unsafe { ioctl(file, number, &raw mut asked) };
    note(1, || {
        format!(
            "file {file}: agent of class {:#x}: {result}",
            asked.mgmt_class
        )
    });
    (result == 0).then_some(asked.id)
}

fn words(methods: [u64; 2]) -> [u32; 4] {
    let [a, b] = methods.map(|word| [word as u32, (word >> 32) as u32]);
    [a[0], a[1], b[0], b[1]]
}

/// # Safety
/// 16 bytes of methods, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_register(
    file: c_int,
    class: c_int,
    version: c_int,
    rmpp_version: u8,
    mask: *const c_long,
) -> c_int {
    let asked = RegisterAgent {
        // SAFETY: the caller's promise.
        method_mask: words(unsafe { methods(mask) }),
        qpn: queue_pair(class),
        mgmt_class: class as u8,
        mgmt_class_version: version as u8,
        oui: OPENIB,
        rmpp_version,
        ..RegisterAgent::default()
    };
    register(file, asked).map_or(-EPERM, |id| id as c_int)
}

/// # Safety
/// 3 bytes of the organisation; 16 bytes of methods, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_register_oui(
    file: c_int,
    class: c_int,
    rmpp_version: u8,
    oui: *const [u8; 3],
    mask: *const c_long,
) -> c_int {
    if !VENDORS.contains(&class) {
        return -EINVAL;
    }
    let asked = RegisterAgent {
        // SAFETY: the caller's promise.
        method_mask: words(unsafe { methods(mask) }),
        qpn: 1,
        mgmt_class: class as u8,
        mgmt_class_version: 1,
        // SAFETY: the caller's promise.
        oui: unsafe { *oui },
        rmpp_version,
        ..RegisterAgent::default()
    };
    register(file, asked).map_or(-EPERM, |id| id as c_int)
}

/// `struct umad_reg_attr`.
#[repr(C)]
struct Attributes {
    class: u8,
    class_version: u8,
    flags: u32,
    methods: [u64; 2],
    oui: u32,
    rmpp_version: u8,
}

/// # Safety
/// The caller's structure and number, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_register2(
    file: c_int,
    attributes: *mut Attributes,
    agent: *mut u32,
) -> c_int {
    if attributes.is_null() || agent.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's structure.
    let of = unsafe { &mut *attributes };
    let class = c_int::from(of.class);
    let [beyond, oui @ ..] = of.oui.to_be_bytes();
    if VENDORS.contains(&class) && (oui == [0; 3] || beyond != 0) {
        return EINVAL;
    }
    let mut asked = RegisterAgent2 {
        qpn: queue_pair(class).into(),
        mgmt_class: of.class,
        mgmt_class_version: of.class_version,
        flags: of.flags,
        method_mask: of.methods,
        oui: of.oui,
        rmpp_version: of.rmpp_version,
        ..RegisterAgent2::default()
    };
    let number = request::REGISTER_AGENT2 as c_ulong;
    // SAFETY: the structure of the request.
    let result = unsafe { ioctl(file, number, asked.as_mut_bytes().as_mut_ptr()) };
    note(1, || {
        format!("file {file}: agent of class {class:#x}: {result}")
    });
    if result == 0 {
        // SAFETY: the caller's number.
        unsafe { *agent = asked.id };
        return 0;
    }
    let error = errno::get();
    // The supported flags: none, if the file does not support the request.
    of.flags = if error == ENOTTY { 0 } else { asked.flags };
    error
}

#[unsafe(no_mangle)]
extern "C" fn umad_unregister(file: c_int, agent: c_int) -> c_int {
    let mut agent = agent as u32;
    let number = request::UNREGISTER_AGENT as c_ulong;
    // SAFETY: the number that the request takes.
    unsafe { ioctl(file, number, &raw mut agent) }
}
