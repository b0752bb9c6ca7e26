//! The device and its port, as the class tree of the scheme describes them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr::null_mut;

use runtime::fs;
use syscall::error::{EINVAL, EIO, ENODEV, ENOENT, ENOMEM};

use crate::{Result, negated};

/// The name of the device.
const DEVICE: &CStr = c"scif0";
/// The number of its port.
pub const PORT: c_int = 1;
/// `UMAD_CA_NAME_LEN`.
const NAME_BYTES: usize = 20;
/// `UMAD_CA_MAX_PORTS`.
const MAX_PORTS: usize = 10;
/// The lowest version of the interface that the library supports.
const ABI_VERSION: u64 = 5;

type Name = [c_char; NAME_BYTES];

/// `umad_port_t`.
#[repr(C)]
pub struct Port {
    ca_name: Name,
    portnum: c_int,
    base_lid: c_uint,
    lmc: c_uint,
    sm_lid: c_uint,
    sm_sl: c_uint,
    state: c_uint,
    phys_state: c_uint,
    rate: c_uint,
    capmask: u32,
    gid_prefix: u64,
    port_guid: u64,
    pkeys_size: c_uint,
    pkeys: *mut u16,
    link_layer: Name,
}

/// `umad_ca_t`.
#[repr(C)]
pub struct Adapter {
    ca_name: Name,
    node_type: c_uint,
    numports: c_int,
    fw_ver: [c_char; 20],
    ca_type: [c_char; 40],
    hw_ver: [c_char; 20],
    node_guid: u64,
    system_guid: u64,
    ports: [*mut Port; MAX_PORTS],
}

/// `struct umad_ca_pair`.
#[repr(C)]
pub struct Pair {
    smi_name: Name,
    smi_preferred_port: u32,
    gsi_name: Name,
    gsi_preferred_port: u32,
}

/// `struct umad_device_node`.
#[repr(C)]
pub struct DeviceNode {
    next: *mut DeviceNode,
    ca_name: *const c_char,
}

unsafe extern "C" {
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn free(place: *mut c_void);
}

// ---- The class tree ----

/// Reads a file of one line from the class tree.
fn line(path: &str) -> Option<String> {
    let text = fs::read_to_string(&format!("/scheme/infiniband/class/{path}")).ok()?;
    Some(String::from(text.trim_end()))
}

/// Reads a file of the device.
fn of_device(file: &str) -> Option<String> {
    line(&format!("infiniband/scif0/{file}"))
}

/// Reads a file of the port.
fn of_port(file: &str) -> Option<String> {
    of_device(&format!("ports/1/{file}"))
}

/// Parses the number at the beginning of a line.
fn number(line: Option<String>) -> Option<u64> {
    let line = line?;
    match line.strip_prefix("0x") {
        Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok(),
        None => {
            let end = line.find(|letter: char| !letter.is_ascii_digit());
            line[..end.unwrap_or(line.len())].parse().ok()
        }
    }
}

/// Parses bytes from groups of four hexadecimal digits.
fn groups<const BYTES: usize>(line: Option<String>) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    let line = line?;
    let mut groups = line.split(':');
    for place in bytes.chunks_exact_mut(2) {
        let group = u16::from_str_radix(groups.next()?, 16).ok()?;
        place.copy_from_slice(&group.to_be_bytes());
    }
    Some(bytes)
}

/// Whether the interface exists, in a version that the library supports.
pub fn has_interface() -> bool {
    number(line("infiniband_mad/abi_version")).is_some_and(|version| version >= ABI_VERSION)
}

/// Whether the device exists.
pub fn is_there() -> bool {
    of_device("node_type").is_some()
}

/// Whether this is the device's name, or null.
pub fn is_device(name: *const c_char) -> bool {
    // SAFETY: the caller's name, which ends with a 0.
    name.is_null() || unsafe { CStr::from_ptr(name) } == DEVICE
}

/// Copies a text that may be cut off, with a 0 after it.
fn bounded<const BYTES: usize>(text: &[u8]) -> [c_char; BYTES] {
    let mut place = [0; BYTES];
    for (to, from) in place.iter_mut().take(BYTES - 1).zip(text) {
        *to = *from as c_char;
    }
    place
}

fn device_name() -> Name {
    bounded(DEVICE.to_bytes())
}

// ---- Ports ----

/// Reads the properties of the port from the class tree.
fn read_port() -> Option<Port> {
    let value = |file: &str| number(of_port(file)).map(|value| value as c_uint);
    let gid: [u8; 16] = groups(of_port("gids/0"))?;
    let (prefix, guid) = gid.split_at(8);
    let keys = (0..).map_while(|index| number(of_port(&format!("pkeys/{index}"))));
    let keys: Vec<u16> = keys.map(|key| key as u16).collect();
    let layer = of_port("link_layer").unwrap_or_else(|| String::from("IB"));
    let mut port = Port {
        ca_name: device_name(),
        portnum: PORT,
        base_lid: value("lid")?,
        lmc: value("lid_mask_count")?,
        sm_lid: value("sm_lid")?,
        sm_sl: value("sm_sl")?,
        state: value("state")?,
        phys_state: value("phys_state")?,
        rate: value("rate")?,
        capmask: value("cap_mask")?.to_be(),
        gid_prefix: u64::from_ne_bytes(prefix.try_into().ok()?),
        port_guid: u64::from_ne_bytes(guid.try_into().ok()?),
        pkeys_size: 0,
        pkeys: null_mut(),
        link_layer: bounded(layer.as_bytes()),
    };
    if keys.is_empty() {
        return None;
    }
    // SAFETY: memory of this size, or null.
    let place = unsafe { calloc(keys.len(), size_of::<u16>()) }.cast::<u16>();
    if place.is_null() {
        return None;
    }
    // SAFETY: room for all of them.
    unsafe { place.copy_from_nonoverlapping(keys.as_ptr(), keys.len()) };
    port.pkeys = place;
    port.pkeys_size = keys.len() as c_uint;
    Some(port)
}

/// # Safety
/// A name that ends with a 0, or null; room for the structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_port(name: *const c_char, number: c_int, port: *mut Port) -> c_int {
    let found = match (is_device(name), number) {
        (true, 0 | PORT) => read_port().ok_or(EIO),
        (false, 0) => Err(ENODEV),
        _ => Err(EIO),
    };
    // SAFETY: the caller's room.
    negated(found.map(|found| unsafe {
        port.write(found);
        0
    }))
}

/// # Safety
/// A structure that [`umad_get_port`] has filled, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_release_port(port: *mut Port) -> c_int {
    if port.is_null() {
        return -ENODEV;
    }
    // SAFETY: the caller's structure, with memory of the C library.
    unsafe {
        free((*port).pkeys.cast());
        (*port).pkeys = null_mut();
        (*port).pkeys_size = 0;
    }
    0
}

// ---- Devices ----

fn read_adapter() -> Result<Adapter> {
    let text = |file: &str| of_device(file).unwrap_or_default();
    let guid = |file: &str| groups(of_device(file)).map(u64::from_ne_bytes);
    let mut adapter = Adapter {
        ca_name: device_name(),
        node_type: number(of_device("node_type")).ok_or(ENOENT)? as c_uint,
        numports: 0,
        fw_ver: bounded(text("fw_ver").as_bytes()),
        ca_type: bounded(text("hca_type").as_bytes()),
        hw_ver: bounded(text("hw_rev").as_bytes()),
        node_guid: guid("node_guid").ok_or(EINVAL)?,
        system_guid: guid("sys_image_guid").ok_or(EINVAL)?,
        ports: [null_mut(); MAX_PORTS],
    };
    let mut port = read_port().ok_or(EIO)?;
    // SAFETY: memory of this size, or null.
    let place = unsafe { calloc(1, size_of::<Port>()) }.cast::<Port>();
    if place.is_null() {
        // SAFETY: the structure that was just filled.
        unsafe { umad_release_port(&raw mut port) };
        return Err(ENOMEM);
    }
    // SAFETY: room for it.
    unsafe { place.write(port) };
    adapter.ports[PORT as usize] = place;
    adapter.numports = PORT;
    Ok(adapter)
}

/// # Safety
/// A name that ends with a 0, or null; room for the structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_ca(name: *const c_char, adapter: *mut Adapter) -> c_int {
    if !is_device(name) {
        return -ENOENT;
    }
    // SAFETY: the caller's room.
    negated(read_adapter().map(|found| unsafe {
        adapter.write(found);
        0
    }))
}

/// # Safety
/// A structure that [`umad_get_ca`] has filled, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_release_ca(adapter: *mut Adapter) -> c_int {
    if adapter.is_null() {
        return -ENODEV;
    }
    // SAFETY: the caller's structure.
    for port in unsafe { &mut (*adapter).ports } {
        let port = core::mem::replace(port, null_mut());
        if !port.is_null() {
            // SAFETY: a port of it, in memory of the C library.
            unsafe {
                umad_release_port(port);
                free(port.cast());
            }
        }
    }
    0
}

/// # Safety
/// Room for `max` names.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_cas_names(names: *mut Name, max: c_int) -> c_int {
    if max < 1 || !is_there() {
        return 0;
    }
    // SAFETY: the caller's room.
    unsafe { names.write(device_name()) };
    1
}

/// # Safety
/// A name that ends with a 0, or null; room for `max` GUIDs, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_ca_portguids(
    name: *const c_char,
    guids: *mut u64,
    max: c_int,
) -> c_int {
    if !is_device(name) || !is_there() {
        return -1;
    }
    // As rdma-core, which reads the whole device first.
    let Some([.., a, b, c, d, e, f, g, h]) = groups::<16>(of_port("gids/0")) else {
        return -1;
    };
    if guids.is_null() {
        return 0;
    }
    if max <= PORT {
        return -ENOMEM;
    }
    // SAFETY: room for two.
    unsafe {
        guids.write(0);
        guids
            .add(1)
            .write(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
    PORT + 1
}

#[unsafe(no_mangle)]
extern "C" fn umad_get_ca_device_list() -> *mut DeviceNode {
    if !is_there() {
        return null_mut();
    }
    // SAFETY: memory of this size, or null.
    let node = unsafe { calloc(1, size_of::<DeviceNode>()) }.cast::<DeviceNode>();
    if !node.is_null() {
        // SAFETY: room for it; the name is there for ever.
        unsafe { (*node).ca_name = DEVICE.as_ptr() };
    }
    node
}

/// # Safety
/// A list of this library, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_free_ca_device_list(head: *mut DeviceNode) {
    let mut node = head;
    while !node.is_null() {
        // SAFETY: a node of the list, in memory of the C library.
        node = unsafe {
            let next = (*node).next;
            free(node.cast());
            next
        };
    }
}

/// Programs may pass lists of their own.
///
/// # Safety
/// A list whose names end with a 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_sort_ca_device_list(head: *mut *mut DeviceNode, size: usize) -> c_int {
    let mut nodes = Vec::new();
    // SAFETY: the caller's list.
    unsafe {
        let mut node = *head;
        while !node.is_null() {
            nodes.push(node);
            node = (*node).next;
        }
    }
    if size == 1 || (size == 0 && nodes.len() < 2) {
        return 0;
    }
    if size > 0 && size != nodes.len() {
        return EINVAL;
    }
    // SAFETY: names of the caller's list.
    nodes.sort_by_key(|node| unsafe { CStr::from_ptr((**node).ca_name) });
    let next = nodes.iter().skip(1).copied().chain([null_mut()]);
    for (node, next) in nodes.iter().zip(next) {
        // SAFETY: a node of the caller's list.
        unsafe { (**node).next = next };
    }
    // SAFETY: the caller's place.
    unsafe { *head = nodes[0] };
    0
}

// ---- Pairs of devices ----

fn pair(preferred: c_int) -> Pair {
    Pair {
        smi_name: device_name(),
        smi_preferred_port: preferred as u32,
        gsi_name: device_name(),
        gsi_preferred_port: preferred as u32,
    }
}

/// # Safety
/// Room for `max` pairs.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_smi_gsi_pairs(pairs: *mut Pair, max: usize) -> c_int {
    if max == 0 || !is_there() {
        return 0;
    }
    // SAFETY: the caller's room.
    unsafe { pairs.write(pair(0)) };
    1
}

/// # Safety
/// A name that ends with a 0, or null; room for a pair, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_smi_gsi_pair_by_ca_name(
    name: *const c_char,
    port: u8,
    found: *mut Pair,
    _enforce_smi: c_uint,
) -> c_int {
    if found.is_null() {
        return -1;
    }
    if !is_there() {
        return 0;
    }
    let is_port = matches!(c_int::from(port), 0 | PORT);
    if !is_device(name) || !is_port {
        skiff_libc::errno::set(ENODEV);
        return -ENODEV;
    }
    // SAFETY: the caller's room.
    unsafe { found.write(pair(PORT)) };
    0
}
