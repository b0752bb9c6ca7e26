//! Requests of `ioctl` for management datagrams of RDMA devices. Each becomes a call to the
//! device's daemon, whose payload is Linux's structure for it (docs/infiniband.md).

use alloc::vec;
use core::ffi::{c_int, c_ulong};

use runtime::{Error, Result, fd};
use syscall::error::{EFAULT, EIO, ENODEV, EPIPE};

use crate::descriptor;

/// The path of the device's descriptors.
const DEVICE: &str = "/scheme/infiniband/umad";
/// The group of the device's requests.
const GROUP: u32 = 0x1b;

/// Whether a file of this path is such a device.
pub fn is_device(path: &str) -> bool {
    path.starts_with(DEVICE)
}

/// Whether this is a request of the group to such a device. Recognises a descriptor that came with
/// the program by its path.
pub fn is_request(number: c_int, request: c_ulong) -> bool {
    if request as u32 >> 8 & 0xff != GROUP {
        return false;
    }
    if descriptor::is_umad(number) {
        return true;
    }
    let mut path = [0; 40];
    let length = descriptor::check(number).and_then(|number| fd::fpath(number, &mut path));
    let path = length.ok().and_then(|length| path.get(..length));
    let is_umad = path.is_some_and(|path| path.starts_with(DEVICE.as_bytes()));
    if is_umad {
        descriptor::set_umad(number);
    }
    is_umad
}

/// The error of a read or write. If the device is gone because its daemon has ended, it is `EIO`,
/// as on Linux.
pub fn of_transfer(number: c_int, error: Error) -> Error {
    match error.errno {
        ENODEV if descriptor::is_umad(number) => Error::new(EIO),
        _ => error,
    }
}

/// Makes a request.
///
/// # Errors
/// `EFAULT`: the request needs an argument. `EPIPE`: the device is gone. Those of the request.
///
/// # Safety
/// `argument` is the address of as many bytes as the number of the request says.
pub unsafe fn ioctl(number: c_int, request: c_ulong, argument: usize) -> Result<c_int> {
    let device = descriptor::check(number)?;
    let length = request as usize >> 16 & 0x3fff;
    if length > 0 && argument == 0 {
        return Err(Error::new(EFAULT));
    }
    let mut payload = vec![0; length];
    let place = argument as *mut u8;
    if length > 0 {
        // SAFETY: the caller's promise; the copy is this function's own.
        unsafe { payload.as_mut_ptr().copy_from_nonoverlapping(place, length) };
    }
    let result = fd::call_rw(device, &mut payload, &[u64::from(request as u32)]);
    if length > 0 {
        // A refused request may also have changed its structure.
        // SAFETY: as above.
        unsafe { place.copy_from_nonoverlapping(payload.as_ptr(), length) };
    }
    match result {
        Err(Error { errno: ENODEV }) => Err(Error::new(EPIPE)),
        result => result.map(|_| 0),
    }
}
