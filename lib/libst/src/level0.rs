//! Level 0: Schedule Headers as the program makes them.

use core::ffi::{c_int, c_void};

use st::{Header, Local, Operation, Payload};
use syscall::error::{EFAULT, EINVAL};
use zerocopy::{FromBytes, IntoBytes};

use crate::{Call, Peer, Result, number, waiting_on};

const HEADER_BYTES: usize = size_of::<Header>();
/// Buffers of the mapped range have 2^12 bytes.
const BUFFER_BITS: u32 = 12;

fn transmit(
    call: &Call<'_>,
    header: &Header,
    payload: Option<&Payload>,
    (length, buffer, offset): (c_int, c_int, c_int),
) -> Result<()> {
    let bytes = usize::try_from(length).map_err(|_| EINVAL)?;
    let local = match bytes {
        0 => Local::Nothing,
        bytes => {
            let buffer = u64::try_from(buffer).map_err(|_| EFAULT)?;
            let offset = u64::try_from(offset).map_err(|_| EFAULT)?;
            let mapped = call.0.mapped.lock();
            let range = mapped.as_ref().ok_or(EFAULT)?;
            let range = range.part((buffer << BUFFER_BITS) + offset, bytes)?;
            match header.operation() {
                Some(Operation::Get) => Local::To(range.into()),
                _ => Local::From(range.into()),
            }
        }
    };
    let mut sender = call.0.sender.lock();
    let sent = sender.raw(header, payload, local, call.deadline());
    sent.map_err(number)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn st_tx(
    handle: *mut Peer,
    hdr: *const c_void,
    payload: *const c_void,
    length: c_int,
    buffer: c_int,
    offset: c_int,
) -> c_int {
    let transmit = |call: &Call<'_>| {
        if hdr.is_null() {
            return Err(EFAULT);
        }
        // SAFETY: the caller's header, and its payload of 32 bytes if there is one.
        let (header, payload) = unsafe {
            let payload = (!payload.is_null()).then(|| payload.cast::<Payload>().read());
            (hdr.cast::<[u8; HEADER_BYTES]>().read(), payload)
        };
        let header = Header::read_from_bytes(&header).map_err(|_| EINVAL)?;
        transmit(call, &header, payload.as_ref(), (length, buffer, offset))
    };
    // SAFETY: the same contract.
    unsafe { waiting_on(handle, transmit) }
}

/// Receives a descriptor. If it has no payload, the place for it is filled with zeros.
#[unsafe(no_mangle)]
unsafe extern "C" fn st_rx(
    handle: *mut Peer,
    hdr: *mut c_void,
    payload: *mut c_void,
    length: *mut c_int,
) -> c_int {
    let receive = |call: &Call<'_>| {
        if hdr.is_null() {
            return Err(EFAULT);
        }
        let deadline = call.deadline();
        let arrived = call.0.receiver.lock().raw(deadline).map_err(number)?;
        // SAFETY: the caller's places, as large as the header says.
        unsafe {
            hdr.cast::<u8>()
                .copy_from_nonoverlapping(arrived.header.as_bytes().as_ptr(), HEADER_BYTES);
            if !payload.is_null() {
                payload
                    .cast::<Payload>()
                    .write(arrived.payload.unwrap_or_default());
            }
            if !length.is_null() {
                length.write(c_int::try_from(arrived.length).unwrap_or(c_int::MAX));
            }
        }
        Ok(())
    };
    // SAFETY: the same contract.
    unsafe { waiting_on(handle, receive) }
}
