//! Devices and ports, as their driver `ibd` describes them.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int};
use core::mem::{forget, zeroed};
use core::ptr::null;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use hal::lock::Mutex;
use runtime::{process, thread};
use syscall::error::{EINVAL, ENODATA, ENODEV};
use verbs::address;
use verbs::raw;

use crate::place::get;
use crate::types::{Context, Device, DeviceAttr, DeviceAttrEx, Gid, GidEntry, PortAttr};
use crate::{Result, errno_of, minus_one, none, number, object};

unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> c_int;
    safe fn pthread_atfork(
        before: extern "C" fn(),
        in_parent: extern "C" fn(),
        in_child: extern "C" fn(),
    ) -> c_int;
}

/// Open contexts. When the program ends, they tell their peers that they leave.
static OPEN: Mutex<Vec<raw::Context>> = Mutex::new(Vec::new());
/// The process that has opened the contexts in the list; 0 if none has. Its children have neither
/// its threads nor the memory that it shares with the driver, and its peers must not be told that a
/// child has ended.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The device, made on first use.
static DEVICE: Mutex<Option<&'static Device>> = Mutex::new(None);

/// Whether the handlers of forks are registered. Children inherit them.
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Has forks leave [`OPEN`] and [`DEVICE`] to the child free, from now on.
pub fn prepare_fork() {
    if !IS_READY.swap(true, Ordering::Relaxed) {
        pthread_atfork(before_fork, after_fork, after_fork);
    }
}

/// Takes the locks: a child in which another thread of the parent holds one would wait for it for
/// ever.
extern "C" fn before_fork() {
    OPEN.hold();
    DEVICE.hold();
}

extern "C" fn after_fork() {
    // SAFETY: `before_fork` has taken the locks, in this process or in the one it is a copy of.
    unsafe {
        drop(DEVICE.regain());
        drop(OPEN.regain());
    }
}

/// The only port.
const PORT: u32 = 1;
/// The only partition key, big endian.
pub const PKEY: u16 = 0xffff;
/// The speed of the port in units of 100 Mbit/s: 4 lanes of 25 Gbit/s.
const SPEED: u64 = 1_000;
/// The class tree as programs for Linux name it, and its real place.
const CLASS: &str = "/sys/class/";
const SCHEME_CLASS: &str = "/scheme/infiniband/class/";

fn text<const N: usize>(words: &str) -> [c_char; N] {
    let mut text = [0; N];
    // The last byte stays 0.
    for (to, from) in text.iter_mut().take(N - 1).zip(words.bytes()) {
        *to = from as c_char;
    }
    text
}

fn device() -> &'static Device {
    let mut known = DEVICE.lock();
    known.get_or_insert_with(|| {
        Box::leak(Box::new(Device {
            node_type: 1,
            transport_type: 0,
            name: text("scif0"),
            dev_name: text("uverbs0"),
            dev_path: text("/sys/class/infiniband_verbs/uverbs0"),
            ibdev_path: text("/sys/class/infiniband/scif0"),
        }))
    })
}

type List = [*const Device; 2];

fn list_of(list: List) -> *mut *const Device {
    Box::into_raw(Box::new(list)).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *const Device {
    let found = match verbs::devices().map_err(errno_of) {
        Ok(found) => Ok(found.len().min(1)),
        // Without a driver, the list is empty.
        Err(ENODEV) => Ok(0),
        Err(error) => Err(error),
    };
    if !num_devices.is_null() {
        // SAFETY: the caller's place for a number.
        unsafe { num_devices.write(found.unwrap_or(0) as c_int) };
    }
    match found {
        Ok(0) => list_of([null(); 2]),
        Ok(_) => list_of([device(), null()]),
        Err(error) => none(error),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *const Device) {
    if !list.is_null() {
        // SAFETY: a list of ours, which the caller does not use any more.
        unsafe { drop(Box::from_raw(list.cast::<List>())) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_name(device: *const Device) -> *const c_char {
    // SAFETY: a device of ours.
    unsafe { get(device) }.map_or(null(), |device| device.name.as_ptr())
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_index(_device: *const Device) -> c_int {
    0
}

fn own_lid() -> u16 {
    verbs::devices()
        .ok()
        .and_then(|devices| devices.first().map(|device| address::lid(device.node)))
        .unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_device_guid(_device: *const Device) -> u64 {
    address::guid(own_lid()).to_be()
}

extern "C" fn leave() {
    if !is_owner() {
        return;
    }
    for context in OPEN.lock().iter() {
        context.leave();
    }
}

/// Whether this process has opened the contexts in the list.
fn is_owner() -> bool {
    OWNER.load(Ordering::Relaxed) == process::id()
}

/// Opens the device.
///
/// # Errors
/// `ENODEV`; those of the scheme, and of starting a thread.
pub fn open() -> Result<Context> {
    let start = |worker: verbs::Worker| {
        let run = move || {
            // When the event queue fails, nothing can report it: the calls continue without it.
            let _ = worker.run();
        };
        thread::spawn(run).map(drop).map_err(verbs::Error::from)
    };
    prepare_fork();
    let raw = raw::Context::open(start).map_err(errno_of)?;
    let mut open = OPEN.lock();
    if !is_owner() {
        // A child only forgets its parent's contexts: ending them is up to the parent.
        core::mem::take(&mut *open).into_iter().for_each(forget);
        if OWNER.swap(process::id(), Ordering::Relaxed) == 0 {
            atexit(leave);
        }
    }
    open.push(raw.clone());
    Ok(Context {
        file_domains: runtime::sync::Mutex::new(Vec::new()),
        device: device(),
        cmd_fd: raw.device_fd() as c_int,
        async_fd: raw.events().fd() as c_int,
        num_comp_vectors: 1,
        owner: process::id(),
        raw,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn ibv_open_device(device: *const Device) -> *mut Context {
    match device.is_null() {
        true => none(ENODEV),
        false => object(open()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut Context) -> c_int {
    // SAFETY: a context of ours.
    let owner = match unsafe { get(context) } {
        Ok(of) => of.owner,
        Err(number) => return minus_one(Err(number)),
    };
    if owner != process::id() {
        // The context is the parent's, also if this child has opened others.
        return 0;
    }
    // SAFETY: as above; the caller does not use it any more.
    let context = unsafe { Box::from_raw(context) };
    OPEN.lock().retain(|open| !open.is_same(&context.raw));
    context.raw.leave();
    0
}

// ---- Queries ----

fn attributes(context: *const Context) -> Result<DeviceAttr> {
    // SAFETY: a context of ours.
    let context = unsafe { get(context)? };
    let found = context.raw.query_device().map_err(errno_of)?;
    // SAFETY: numbers and arrays of numbers, for which 0 is a value.
    let none: DeviceAttr = unsafe { zeroed() };
    Ok(DeviceAttr {
        fw_ver: text(env!("CARGO_PKG_VERSION")),
        node_guid: u64::from_ne_bytes(found.node_guid),
        sys_image_guid: u64::from_ne_bytes(found.sys_image_guid),
        max_mr_size: found.max_mr_size,
        page_size_cap: found.page_size_cap,
        vendor_id: found.vendor_id,
        vendor_part_id: found.vendor_part_id,
        hw_ver: found.hw_ver,
        max_qp: found.max_qp as c_int,
        max_qp_wr: found.max_qp_wr as c_int,
        device_cap_flags: found.device_cap_flags,
        max_sge: found.max_sge as c_int,
        max_sge_rd: found.max_sge_rd as c_int,
        max_cq: found.max_cq as c_int,
        max_cqe: found.max_cqe as c_int,
        max_mr: found.max_mr as c_int,
        max_pd: found.max_pd as c_int,
        max_qp_rd_atom: found.max_qp_rd_atom as c_int,
        max_res_rd_atom: found.max_res_rd_atom as c_int,
        max_qp_init_rd_atom: found.max_qp_init_rd_atom as c_int,
        atomic_cap: found.atomic_cap as c_int,
        max_mw: found.max_mw as c_int,
        max_mcast_grp: found.max_mcast_grp as c_int,
        max_mcast_qp_attach: found.max_mcast_qp_attach as c_int,
        max_total_mcast_qp_attach: found.max_total_mcast_qp_attach as c_int,
        max_ah: found.max_ah as c_int,
        max_srq: found.max_srq as c_int,
        max_srq_wr: found.max_srq_wr as c_int,
        max_srq_sge: found.max_srq_sge as c_int,
        max_pkeys: found.max_pkeys,
        local_ca_ack_delay: found.local_ca_ack_delay,
        phys_port_cnt: found.phys_port_cnt,
        ..none
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(context: *const Context, attr: *mut DeviceAttr) -> c_int {
    if attr.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's place.
    number(attributes(context).map(|found| unsafe { attr.write(found) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device_ex(
    context: *const Context,
    input: *const u32,
    attr: *mut DeviceAttrEx,
) -> c_int {
    // SAFETY: the caller's structure of one number, if there is one.
    let is_known = unsafe { input.as_ref() }.is_none_or(|mask| *mask == 0);
    if attr.is_null() || !is_known {
        return EINVAL;
    }
    let found = attributes(context).map(|orig_attr| {
        let device_cap_flags_ex = u64::from(orig_attr.device_cap_flags);
        let phys_port_cnt_ex = orig_attr.phys_port_cnt.into();
        // SAFETY: numbers, for which 0 is a value.
        let none: DeviceAttrEx = unsafe { zeroed() };
        DeviceAttrEx {
            orig_attr,
            device_cap_flags_ex,
            phys_port_cnt_ex,
            ..none
        }
    });
    // SAFETY: the caller's place.
    number(found.map(|found| unsafe { attr.write(found) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port(
    context: *const Context,
    port: u8,
    attr: *mut PortAttr,
) -> c_int {
    // SAFETY: a context of ours.
    let Ok(context) = (unsafe { get(context) }) else {
        return EINVAL;
    };
    if u32::from(port) != PORT || attr.is_null() {
        return EINVAL;
    }
    let found = context.raw.query_port().map_err(errno_of);
    let found = found.map(|found| PortAttr {
        state: found.state.into(),
        max_mtu: found.max_mtu.into(),
        active_mtu: found.active_mtu.into(),
        gid_tbl_len: found.gid_tbl_len as c_int,
        port_cap_flags: found.port_cap_flags,
        max_msg_sz: found.max_msg_sz,
        bad_pkey_cntr: found.bad_pkey_cntr,
        qkey_viol_cntr: found.qkey_viol_cntr,
        pkey_tbl_len: found.pkey_tbl_len,
        lid: found.lid,
        sm_lid: found.sm_lid,
        lmc: found.lmc,
        max_vl_num: found.max_vl_num,
        sm_sl: found.sm_sl,
        subnet_timeout: found.subnet_timeout,
        init_type_reply: found.init_type_reply,
        active_width: found.active_width,
        active_speed: found.active_speed,
        phys_state: found.phys_state,
        link_layer: found.link_layer,
        flags: found.flags,
        port_cap_flags2: 0,
        active_speed_ex: 0,
    });
    // SAFETY: the caller's place.
    number(found.map(|found| unsafe { attr.write(found) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_port_speed(
    _context: *const Context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    if port != PORT || speed.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's place.
    unsafe { speed.write(SPEED) };
    0
}

fn gid(context: *const Context, port: u32, index: u32) -> Result<Gid> {
    // SAFETY: a context of ours.
    let context = unsafe { get(context)? };
    if port != PORT || index != 0 {
        return Err(EINVAL);
    }
    Ok(Gid(address::gid(address::lid(context.raw.node()))))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid(
    context: *const Context,
    port: u8,
    index: c_int,
    to: *mut Gid,
) -> c_int {
    let found = u32::try_from(index).map_err(|_| EINVAL);
    let found = found.and_then(|index| gid(context, u32::from(port), index));
    // SAFETY: the caller's place.
    minus_one(found.map(|gid| unsafe { to.write(gid) }))
}

fn entry(context: *const Context, port: u32, index: u32) -> Result<GidEntry> {
    // An empty entry of the table would be `ENODATA`, but the table has one entry only.
    let found = gid(context, port, index)?;
    Ok(GidEntry {
        gid: found,
        gid_index: index,
        port_num: port,
        gid_type: 0,
        ndev_ifindex: 0,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_ex(
    context: *const Context,
    port: u32,
    index: u32,
    to: *mut GidEntry,
    flags: u32,
) -> c_int {
    if flags != 0 || to.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's place.
    number(entry(context, port, index).map(|entry| unsafe { to.write(entry) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_table(
    context: *const Context,
    to: *mut GidEntry,
    most: usize,
    flags: u32,
) -> isize {
    if flags != 0 || to.is_null() || most == 0 {
        return -(EINVAL as isize);
    }
    match entry(context, PORT, 0) {
        Ok(entry) => {
            // SAFETY: the caller's place for at least one.
            unsafe { to.write(entry) };
            1
        }
        Err(number) => -(number as isize),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_gid_type(
    context: *const Context,
    port: u8,
    index: u32,
    to: *mut u32,
) -> c_int {
    let found = gid(context, u32::from(port), index);
    // SAFETY: the caller's place.
    minus_one(found.map(|_| unsafe { to.write(0) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_pkey(
    _context: *const Context,
    port: u8,
    index: c_int,
    to: *mut u16,
) -> c_int {
    if u32::from(port) != PORT || index != 0 || to.is_null() {
        return minus_one(Err(EINVAL));
    }
    // SAFETY: the caller's place.
    unsafe { to.write(PKEY) };
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_pkey_index(_context: *const Context, port: u8, key: u16) -> c_int {
    match u32::from(port) == PORT && key == PKEY {
        true => 0,
        false => minus_one(Err(ENODATA)),
    }
}

#[unsafe(no_mangle)]
extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `IBV_FORK_UNNEEDED`.
#[unsafe(no_mangle)]
extern "C" fn ibv_is_fork_initialized() -> c_int {
    2
}

/// Reads a file of the class tree, without the newlines at its end.
fn attribute(directory: *const c_char, file: *const c_char) -> Option<String> {
    if directory.is_null() || file.is_null() {
        return None;
    }
    // SAFETY: texts of the caller's.
    let (directory, file) = unsafe { (CStr::from_ptr(directory), CStr::from_ptr(file)) };
    let path = format!("{}/{}", directory.to_str().ok()?, file.to_str().ok()?);
    let path = match path.strip_prefix(CLASS) {
        Some(rest) => format!("{SCHEME_CLASS}{rest}"),
        None => path,
    };
    let text = runtime::fs::read_to_string(&path).ok()?;
    Some(text.trim_end_matches('\n').into())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_sysfs_file(
    directory: *const c_char,
    file: *const c_char,
    to: *mut u8,
    room: usize,
) -> c_int {
    if to.is_null() || room == 0 {
        return -1;
    }
    let Some(words) = attribute(directory, file) else {
        return -1;
    };
    let count = words.len().min(room - 1);
    // SAFETY: the caller's place for `room` bytes.
    unsafe {
        to.copy_from_nonoverlapping(words.as_ptr(), count);
        to.add(count).write(0);
    }
    count as c_int
}
