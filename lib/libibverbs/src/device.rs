//! Devices and ports. As long as there is no daemon that describes them, the library does.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int};
use core::mem::zeroed;
use core::ptr::null;

use runtime::sync::Mutex;
use runtime::thread;
use syscall::error::{EINVAL, ENODATA, ENODEV};
use verbs::address;
use verbs::context as limits;
use verbs::raw;

use crate::place::get;
use crate::types::{Context, Device, DeviceAttr, DeviceAttrEx, Gid, GidEntry, PortAttr};
use crate::{Result, errno_of, minus_one, none, number, object};

unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> c_int;
}

/// Contexts that are open, which say goodbye to their peers when the program ends.
static OPEN: Mutex<Vec<raw::Context>> = Mutex::new(Vec::new());

/// The device, made when somebody asks for it first.
static DEVICE: Mutex<Option<&'static Device>> = Mutex::new(None);

/// The only port.
const PORT: u32 = 1;
/// The only partition key, big endian.
const PKEY: u16 = 0xffff;
/// The local identifier of the node whose subnet manager is in charge.
const SM_LID: u16 = 1;
/// The speed of the port in Mbit/s, by width and speed as codes: 4 lanes of 25 Gbit/s.
const WIDTH_4X: u8 = 2;
const SPEED_25: u8 = 32;
const SPEED: u64 = 100_000;

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

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_device_list(num_devices: *mut c_int) -> *mut *const Device {
    // Without a driver there is no device.
    let count = verbs::devices().map_or(0, |found| found.len().min(1));
    let mut list: List = [null(); 2];
    if count > 0 {
        list[0] = device();
    }
    if !num_devices.is_null() {
        // SAFETY: the caller's place for a number.
        unsafe { num_devices.write(count as c_int) };
    }
    Box::into_raw(Box::new(list)).cast()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_free_device_list(list: *mut *const Device) {
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
    for context in OPEN.lock().iter() {
        context.leave();
    }
}

fn open() -> Result<Context> {
    let start = |worker: verbs::Worker| {
        let run = move || {
            // There is nobody to tell of an event queue that fails: the calls go on without it.
            let _ = worker.run();
        };
        thread::spawn(run).map(drop).map_err(verbs::Error::from)
    };
    let raw = raw::Context::open(start).map_err(errno_of)?;
    let mut open = OPEN.lock();
    if open.is_empty() {
        atexit(leave);
    }
    open.push(raw.clone());
    Ok(Context {
        device: device(),
        cmd_fd: -1,
        async_fd: raw.events().fd() as c_int,
        num_comp_vectors: 1,
        raw,
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_open_device(device: *const Device) -> *mut Context {
    match device.is_null() {
        true => none(ENODEV),
        false => object(open()),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut Context) -> c_int {
    if context.is_null() {
        return minus_one(Err(EINVAL));
    }
    // SAFETY: a context of ours, which the caller does not use any more.
    let context = unsafe { Box::from_raw(context) };
    OPEN.lock().retain(|open| !open.is_same(&context.raw));
    context.raw.leave();
    0
}

// ---- Queries ----

fn attributes() -> DeviceAttr {
    // SAFETY: numbers and arrays of numbers, for which 0 is a value.
    let none: DeviceAttr = unsafe { zeroed() };
    DeviceAttr {
        fw_ver: text(env!("CARGO_PKG_VERSION")),
        node_guid: address::guid(own_lid()).to_be(),
        sys_image_guid: address::guid(own_lid()).to_be(),
        max_mr_size: 1 << 30,
        page_size_cap: 4096,
        max_qp: limits::MAX_QPS as c_int,
        max_qp_wr: limits::MAX_WR as c_int,
        // What the ports and queue pairs can do: UD_AV_PORT_ENFORCE, PORT_ACTIVE_EVENT,
        // SYS_IMAGE_GUID, RC_RNR_NAK_GEN, SRQ_RESIZE, MEM_WINDOW, XRC, MEM_MGT_EXTENSIONS,
        // MEM_WINDOW_TYPE_2B.
        device_cap_flags: 1 << 6
            | 1 << 10
            | 1 << 11
            | 1 << 12
            | 1 << 13
            | 1 << 17
            | 1 << 20
            | 1 << 21
            | 1 << 24,
        max_sge: limits::MAX_SGE as c_int,
        max_sge_rd: limits::MAX_SGE as c_int,
        max_cq: limits::MAX_CQS as c_int,
        max_cqe: limits::MAX_CQE as c_int,
        max_mr: 16384,
        max_pd: limits::MAX_PDS as c_int,
        max_qp_rd_atom: 128,
        max_res_rd_atom: 16384,
        max_qp_init_rd_atom: 128,
        atomic_cap: 1,
        max_mw: 16384,
        max_mcast_grp: 64,
        max_mcast_qp_attach: 64,
        max_total_mcast_qp_attach: 4096,
        max_ah: 65536,
        max_srq: limits::MAX_SRQS as c_int,
        max_srq_wr: limits::MAX_WR as c_int,
        max_srq_sge: limits::MAX_SGE as c_int,
        max_pkeys: 1,
        local_ca_ack_delay: 15,
        phys_port_cnt: 1,
        ..none
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device(_context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    if attr.is_null() {
        return EINVAL;
    }
    // SAFETY: the caller's place.
    unsafe { attr.write(attributes()) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_query_device_ex(
    _context: *mut Context,
    input: *const u32,
    attr: *mut DeviceAttrEx,
) -> c_int {
    // SAFETY: the caller's structure of one number, if there is one.
    let is_known = unsafe { input.as_ref() }.is_none_or(|mask| *mask == 0);
    if attr.is_null() || !is_known {
        return EINVAL;
    }
    // SAFETY: numbers, for which 0 is a value.
    let none: DeviceAttrEx = unsafe { zeroed() };
    let found = DeviceAttrEx {
        orig_attr: attributes(),
        device_cap_flags_ex: u64::from(attributes().device_cap_flags),
        phys_port_cnt_ex: 1,
        ..none
    };
    // SAFETY: the caller's place.
    unsafe { attr.write(found) };
    0
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
    let found = PortAttr {
        state: 4,
        max_mtu: 5,
        active_mtu: 5,
        gid_tbl_len: 1,
        port_cap_flags: 0,
        max_msg_sz: 1 << 31,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: context.raw.qkey_violations(),
        pkey_tbl_len: 1,
        lid: address::lid(context.raw.node()),
        sm_lid: SM_LID,
        lmc: 0,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        active_width: WIDTH_4X,
        active_speed: SPEED_25,
        phys_state: 5,
        link_layer: 1,
        flags: 0,
        port_cap_flags2: 0,
        active_speed_ex: 0,
    };
    // SAFETY: the caller's place.
    unsafe { attr.write(found) };
    0
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
    unsafe { speed.write(SPEED / 100) };
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
    // An index of the table that nothing is at would be `ENODATA`; the table has one entry.
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

/// What the class tree would say of the device, by the names of its files.
fn attribute(file: &str) -> Option<&'static str> {
    Some(match file {
        "fw_ver" => env!("CARGO_PKG_VERSION"),
        "hca_type" | "board_id" => "SCIF",
        "node_type" => "1: CA",
        "abi_version" => "6",
        "ibdev" => "scif0",
        _ => return None,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_sysfs_file(
    _directory: *const c_char,
    file: *const c_char,
    to: *mut u8,
    room: usize,
) -> c_int {
    if file.is_null() || to.is_null() || room == 0 {
        return -1;
    }
    // SAFETY: a text of the caller's.
    let file = unsafe { core::ffi::CStr::from_ptr(file) };
    let Some(words) = file.to_str().ok().and_then(attribute) else {
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
