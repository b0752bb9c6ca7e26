//! Level 1: push and pull.

use core::ffi::{c_int, c_void};

use st::{Deadline, MAX_HEADER_BYTES, Range};
use syscall::error::{EAGAIN, EFAULT, EINVAL};

use crate::{Peer, Result, number, waiting_on};

/// A header, `ST1_HDR_SIZE` bytes.
type Header = [u8; MAX_HEADER_BYTES];

/// The local and the remote address of a transfer.
struct Data {
    local: Range<'static>,
    remote: u64,
}

/// The arguments of a C call: a header, data, or both; at least one of them.
fn data(
    hdr: *mut c_void,
    local: *mut c_void,
    remote: *mut c_void,
    length: c_int,
) -> Result<Option<Data>> {
    let bytes = usize::try_from(length).map_err(|_| EINVAL)?;
    match (local.is_null(), remote.is_null()) {
        (true, true) if hdr.is_null() || bytes > 0 => Err(EINVAL),
        (true, true) => Ok(None),
        (false, false) => {
            (local as usize).checked_add(bytes).ok_or(EFAULT)?;
            // SAFETY: C's memory by C's rules: read by a push, written by a pull.
            let local = unsafe { Range::new(local as usize, bytes) };
            let remote = remote as u64;
            Ok((bytes > 0).then_some(Data { local, remote }))
        }
        _ => Err(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn st1_push(
    handle: *mut Peer,
    hdr: *mut c_void,
    local: *mut c_void,
    remote: *mut c_void,
    length: c_int,
) -> c_int {
    let push = |call: &crate::Call<'_>| {
        let data = data(hdr, local, remote, length)?;
        // SAFETY: null, or the caller's header of that many bytes.
        let header = (!hdr.is_null()).then(|| unsafe { hdr.cast::<Header>().read() });
        let deadline = call.deadline();
        let mut sender = call.0.sender.lock();
        let pushed = match (header, data) {
            (Some(header), None) => sender.push_until(&header, deadline),
            (header, Some(data)) => {
                let place = sender
                    .remote(deadline)
                    .and_then(|memory| memory.address(data.remote));
                place.and_then(|place| match header {
                    Some(header) => {
                        sender.put_source_with(data.local.into(), place, &header, deadline)
                    }
                    None => sender.put_source(data.local.into(), place),
                })
            }
            (None, None) => sender.check(),
        };
        pushed.map_err(number)
    };
    // SAFETY: the same contract.
    unsafe { waiting_on(handle, push) }
}

/// Receives a header, then gets data. If the data cannot be copied, the header has been consumed.
#[unsafe(no_mangle)]
unsafe extern "C" fn st1_pull(
    handle: *mut Peer,
    hdr: *mut c_void,
    local: *mut c_void,
    remote: *mut c_void,
    length: c_int,
) -> c_int {
    // A call that is made again must not take another header.
    let mut is_pulled = hdr.is_null();
    let pull = |call: &crate::Call<'_>| {
        let data = data(hdr, local, remote, length)?;
        let deadline = call.deadline();
        let mut receiver = call.0.receiver.lock();
        if !is_pulled {
            // Without waiting, the header stays if the data would have to be waited for. What has
            // arrived before the end can still be pulled.
            if deadline == Deadline::Now
                && data.is_some()
                && let Err(st::Error::WouldBlock) = receiver.remote(deadline)
            {
                return Err(EAGAIN);
            }
            let header: Header = receiver.pull_until(deadline).map_err(number)?;
            is_pulled = true;
            // SAFETY: the caller's place for a header.
            unsafe { hdr.cast::<Header>().write(header) };
        }
        let Some(data) = data else {
            return match hdr.is_null() {
                true => receiver.check().map_err(number),
                false => Ok(()),
            };
        };
        let place = receiver
            .remote(deadline)
            .and_then(|memory| memory.address(data.remote));
        place
            .and_then(|place| receiver.get_target(data.local.into(), place))
            .map_err(number)
    };
    // SAFETY: the same contract.
    unsafe { waiting_on(handle, pull) }
}
