//! `ioctl` of an endpoint, with the requests of `scif_ioctl.h`, for programs that were written for
//! the character device instead of its library.

use core::ffi::{c_int, c_ulong, c_void};

use scif::raw;
use scif_abi::PortId;
use scif_abi::call::{AcceptRecord, Call};
use scif_abi::codec::Operation;
use scif_abi::ioctl::{Ioctl, Plan};
use skiff_libc::descriptor;
use syscall::error::{EINVAL, EIO};
use zerocopy::FromBytes;

use crate::calls::{VERSION, give, store_node_ids};
use crate::system::{endpoint, interruptible};
use crate::{Result, range, table, user};

/// `SCIF_GET_VERSION`, which has no argument.
const GET_VERSION: u32 = 0x7317;
/// Bytes of the largest argument structure.
const LARGEST: usize = 64;

/// Executes an ioctl. The C library calls it for descriptors of the `scif:` scheme.
#[unsafe(no_mangle)]
extern "C" fn skiff_scif_ioctl(epd: c_int, request: c_ulong, argument: usize) -> c_int {
    // Programs pass the number as an `int`, whose sign is extended.
    let request = request as u32;
    let call = || endpoint(epd).and_then(|epd| carry_out(epd, request, argument));
    give(match may_wait(request) {
        true => interruptible(call),
        false => call(),
    })
}

/// Whether a request may wait for the peer, as the functions that handlers and cancellation end.
fn may_wait(request: u32) -> bool {
    /// The numbers of CONNECT, ACCEPTREQ, SEND and RECV, in the low byte of their requests.
    const WAITING: [u8; 4] = [3, 4, 6, 7];
    WAITING.contains(&(request as u8))
}

fn carry_out(epd: usize, request: u32, argument: usize) -> Result<c_int> {
    if request == GET_VERSION {
        return Ok(VERSION);
    }
    let mut bytes = [0; LARGEST];
    let length = Ioctl::payload_len(request).ok_or(EINVAL)?;
    let bytes = bytes.get_mut(..length).ok_or(EIO)?;
    user::load_into(argument, bytes)?;
    // LISTEN and FENCE_WAIT take an `int`, of whose register the upper half may be anything.
    let word = i64::from(argument as i32) as u64;
    let mut ioctl = Ioctl::decode(request, [word], bytes).map_err(|_| EINVAL)?;
    let plan = ioctl.plan().map_err(|error| error.errno())?;
    let mut accepted = AcceptRecord::default();
    table::release_stale(epd);
    let result = match plan {
        Plan::Call(call) => plain(epd, &call, &mut accepted)?,
        Plan::Data {
            call,
            address,
            length,
        } => data(epd, &call, address, length)?,
        Plan::Register { address, record } => {
            // SAFETY: the caller's memory, as for `scif_register`.
            let memory = unsafe { range(address as *const c_void, record.length.get() as usize) };
            let (protection, flags) = (record.protection.get(), record.flags.get());
            raw::register(epd, memory, record.offset.get(), protection, flags)? as u64
        }
        Plan::NodeIds { nodes, length, own } => {
            store_node_ids(nodes as usize, length, own as usize)? as u64
        }
    };
    if let Ioctl::Listen { .. } = &ioctl {
        // A close of the descriptor has to wake those that wait for a connection.
        descriptor::set_listening(epd as c_int);
    }
    if let Ioctl::FenceMark { record } = &ioctl {
        user::store(record.mark.get() as usize, &(result as i32).to_ne_bytes())?;
    }
    let own = match &ioctl {
        Ioctl::Connect { .. } => raw::local(epd)?,
        _ => PortId::new(0, 0),
    };
    ioctl.complete(result, own, accepted);
    if ioctl.payload().is_empty() {
        // The request has no structure, and its argument is no address.
        return Ok(0);
    }
    let stored = user::store(argument, ioctl.payload());
    if let (Err(_), Ioctl::AcceptRequest { .. }) = (&stored, &ioctl) {
        give_back(accepted.handle.get());
    }
    stored.map(|()| 0)
}

/// Closes a connection whose number the program does not get.
fn give_back(handle: u64) {
    let Ok(epd) = raw::open() else {
        // It goes with its listener.
        return;
    };
    let register = Call::AcceptRegister { handle };
    let _ = plain(epd, &register, &mut AcceptRecord::default());
    let _ = raw::close(epd);
}

/// Makes a call whose payload is its own structure.
fn plain(epd: usize, call: &Call, accepted: &mut AcceptRecord) -> Result<u64> {
    let mut bytes = [0; LARGEST];
    let record = call.payload();
    let bytes = bytes.get_mut(..record.len()).ok_or(EIO)?;
    bytes.copy_from_slice(record);
    let result = raw::with_payload(epd, *call, bytes);
    // The call may have ended a window.
    table::release_stale(epd);
    let result = result?;
    if let Call::AcceptRequest { .. } = call {
        *accepted = AcceptRecord::read_from_bytes(bytes).map_err(|_| EIO)?;
    }
    Ok(result as u64)
}

/// Makes a call whose payload is the caller's memory.
fn data(epd: usize, call: &Call, address: u64, length: u64) -> Result<u64> {
    // SAFETY: the caller's memory, as for the function of the same name.
    let memory = unsafe { range(address as *const c_void, length as usize) };
    table::with(epd, |bypass| match *call {
        Call::Send { .. } | Call::Recv { .. } if length == 0 => Ok(0),
        Call::Send { flags } => Ok(bypass.send(epd, memory, flags)? as u64),
        Call::Recv { flags } => Ok(bypass.recv(epd, memory, flags)? as u64),
        Call::VirtualReadFrom {
            remote_offset,
            flags,
        } => bypass
            .vreadfrom(epd, memory, remote_offset, flags)
            .map(|()| 0),
        Call::VirtualWriteTo {
            remote_offset,
            flags,
        } => bypass
            .vwriteto(epd, memory, remote_offset, flags)
            .map(|()| 0),
        _ => Err(EINVAL),
    })
}
