//! The fields of the frames that `umad0` reads and writes.
//!
//! The program's structure is a [`UserMad`]. In files without P_Key indices, the datagram begins
//! at its last eight bytes. [`port`](crate::port) requests such indices when it opens a file.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering};

use alloc::format;
use verbs_abi::mad::{OLD_HEADER_BYTES, UserMad};

use crate::{note, warn};

/// Whether headers have P_Key indices.
static HAS_PKEYS: AtomicBool = AtomicBool::new(false);

/// Sets whether the file that was opened last has such headers.
pub fn set_has_pkeys(has_pkeys: bool) {
    HAS_PKEYS.store(has_pkeys, Ordering::Relaxed);
}

fn has_pkeys() -> bool {
    HAS_PKEYS.load(Ordering::Relaxed)
}

/// Returns the bytes of a header.
#[unsafe(no_mangle)]
pub extern "C" fn umad_size() -> usize {
    match has_pkeys() {
        true => size_of::<UserMad>(),
        false => OLD_HEADER_BYTES,
    }
}

#[unsafe(no_mangle)]
extern "C" fn umad_get_mad(umad: *mut UserMad) -> *mut c_void {
    umad.cast::<u8>().wrapping_add(umad_size()).cast()
}

/// # Safety
/// The caller's structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_status(umad: *const UserMad) -> c_int {
    // SAFETY: the caller's structure.
    unsafe { (*umad).status as c_int }
}

#[unsafe(no_mangle)]
extern "C" fn umad_get_mad_addr(umad: *mut UserMad) -> *mut c_void {
    umad.wrapping_byte_add(core::mem::offset_of!(UserMad, qpn))
        .cast()
}

/// Returns the header that contains this address part.
fn header(address: *mut c_void) -> *mut UserMad {
    address
        .wrapping_byte_sub(core::mem::offset_of!(UserMad, qpn))
        .cast()
}

/// Copies the global route from another address, or removes it if `address` is null.
///
/// # Safety
/// The caller's structure, and its address or null.
unsafe fn set_route(umad: *mut UserMad, address: *mut c_void, flow: fn([u8; 4]) -> [u8; 4]) {
    let from = header(address);
    // SAFETY: the caller's structures; of the second one only fields of its address are used,
    // which may be the same as the first one's.
    unsafe {
        (*umad).grh_present = (!address.is_null()).into();
        if address.is_null() {
            return;
        }
        let (gid, label) = (
            (&raw const (*from).gid).read(),
            (&raw const (*from).flow_label).read(),
        );
        (*umad).gid = gid;
        (*umad).flow_label = flow(label);
        (*umad).hop_limit = (&raw const (*from).hop_limit).read();
        (*umad).traffic_class = (&raw const (*from).traffic_class).read();
    }
}

/// # Safety
/// The caller's structure, and its address or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_set_grh_net(umad: *mut UserMad, address: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { set_route(umad, address, |label| label) };
    0
}

/// # Safety
/// The caller's structure, and its address or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_set_grh(umad: *mut UserMad, address: *mut c_void) -> c_int {
    let swap = |label| u32::from_ne_bytes(label).to_be_bytes();
    // SAFETY: the caller's promise.
    unsafe { set_route(umad, address, swap) };
    0
}

/// # Safety
/// The caller's structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_set_addr_net(
    umad: *mut UserMad,
    lid: u16,
    qpn: u32,
    service_level: c_int,
    qkey: u32,
) -> c_int {
    // SAFETY: the caller's structure.
    unsafe {
        (*umad).qpn = qpn.to_ne_bytes();
        (*umad).lid = lid.to_ne_bytes();
        (*umad).qkey = qkey.to_ne_bytes();
        (*umad).sl = service_level as u8;
    }
    0
}

/// # Safety
/// The caller's structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_set_addr(
    umad: *mut UserMad,
    lid: c_int,
    qpn: c_int,
    service_level: c_int,
    qkey: c_int,
) -> c_int {
    let (lid, qpn, qkey) = ((lid as u16).to_be(), qpn.to_be(), qkey.to_be());
    // SAFETY: the caller's promise.
    unsafe { umad_set_addr_net(umad, lid, qpn as u32, service_level, qkey as u32) }
}

/// # Safety
/// The caller's structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_set_pkey(umad: *mut UserMad, index: c_int) -> c_int {
    if has_pkeys() {
        // SAFETY: the caller's structure.
        unsafe { (*umad).pkey_index = index as u16 };
    }
    0
}

/// # Safety
/// The caller's structure.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_get_pkey(umad: *const UserMad) -> c_int {
    match has_pkeys() {
        // SAFETY: the caller's structure.
        true => unsafe { (*umad).pkey_index.into() },
        false => 0,
    }
}

/// # Safety
/// The caller's address.
#[unsafe(no_mangle)]
unsafe extern "C" fn umad_addr_dump(address: *mut c_void) {
    let from = header(address);
    // SAFETY: the caller's address, whose bytes are read one field after the other.
    let (qpn, qkey, lid, gid, flow) = unsafe {
        (
            (&raw const (*from).qpn).read(),
            (&raw const (*from).qkey).read(),
            (&raw const (*from).lid).read(),
            (&raw const (*from).gid).read(),
            (&raw const (*from).flow_label).read(),
        )
    };
    // SAFETY: as above.
    let (sl, grh, index, hops, class, pkey) = unsafe {
        (
            (&raw const (*from).sl).read(),
            (&raw const (*from).grh_present).read(),
            (&raw const (*from).gid_index).read(),
            (&raw const (*from).hop_limit).read(),
            (&raw const (*from).traffic_class).read(),
            (&raw const (*from).pkey_index).read(),
        )
    };
    let gid: alloc::string::String = gid.iter().map(|byte| format!("{byte:02x}")).collect();
    warn(&format!(
        "qpn {} qkey {:#x} lid {} sl {sl}\ngrh_present {grh} gid_index {index} hop_limit {hops} \
         traffic_class {class} flow_label {:#x} pkey_index {pkey:#x}\nGid 0x{gid}",
        u32::from_be_bytes(qpn),
        u32::from_be_bytes(qkey),
        u16::from_be_bytes(lid),
        u32::from_be_bytes(flow),
    ));
}

/// # Safety
/// The caller's structure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umad_dump(umad: *mut UserMad) {
    // SAFETY: the caller's structure.
    let (id, status, timeout) = unsafe { ((*umad).id, (*umad).status, (*umad).timeout_ms) };
    warn(&format!(
        "agent id {id} status {status:x} timeout {timeout}"
    ));
    // SAFETY: the address in the caller's structure.
    unsafe { umad_addr_dump(umad_get_mad_addr(umad)) };
}

/// Prints a frame that is about to be sent, if the program has asked for that level.
///
/// # Safety
/// The caller's structure.
pub unsafe fn note_sent(umad: *mut UserMad, file: c_int, agent: c_int) {
    note(1, || format!("send: file {file} agent {agent}"));
    if crate::LEVEL.load(Ordering::Relaxed) > 1 {
        // SAFETY: the caller's promise.
        unsafe { umad_dump(umad) };
    }
}
