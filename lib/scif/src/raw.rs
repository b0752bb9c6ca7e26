//! The calls of SCIF with plain numbers as arguments and error numbers as errors, as the C library
//! offers them and the conformance suite tests them.
//!
//! An endpoint is a descriptor number; nothing here owns it. Flags, protections and offsets are
//! the numbers of the SCIF header. They are passed on unchecked where the daemon refuses bad ones;
//! addresses are checked here, because they concern this process alone. Memory is a [`Range`],
//! [`Source`] or [`Target`], because a bare address would let safe code change any memory of the
//! program.

mod companions;
mod data;
mod ends;
mod pieces;
mod pinned;
mod poll;

use client_memory::rights::Rights;
use client_memory::shared;
use client_memory::{range, window};
use hal::kernel::ends_abandoned_requests;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use scif_abi::call::{Call, RegisterRecord, RmaRecord, SignalRecord};
use scif_abi::codec::Operation;
use scif_abi::flags::{ListenFlags, MapFlags, Protection, Readiness, RecvFlags, SendFlags};
use scif_abi::limits::MAX_NODE;
use scif_abi::{NodeId, Port, PortId};
use syscall::PAGE_SIZE;
use syscall::error::{EAGAIN, ECANCELED, EFAULT, EINTR, EINVAL, ENODEV, EPERM, ESRCH, Error};
use syscall::flag::{CallFlags, F_GETFL, F_SETFL, O_NONBLOCK};

pub use client_memory::range::Range;
pub(crate) use companions::{companion, hidden};
pub use data::{Data, Known, Room, Source, Target};
use data::{bad_buffer, without_memory};
pub use ends::{accept, close, finish, finish_receiving, shutdown};
pub(crate) use pieces::MOST_BYTES;
use pinned::{PINNED_BYTES, Rma, Transfer};
pub(crate) use poll::{Deadline, now};
pub use poll::{PollFd, poll, poll_by};

/// The result of a call; the error is a positive error number.
pub type Result<T> = core::result::Result<T, i32>;

/// A token that no memory has.
const NO_TOKEN: u64 = 0;

/// Most bytes that one non-blocking send takes: as many as a ring of the base protocol, and less
/// than a page ([`pieces`]).
const BOUNCE_BYTES: usize = MOST_BYTES;

fn number(error: libredox::error::Error) -> i32 {
    scif_number(error.errno())
}

fn system(error: syscall::error::Error) -> i32 {
    scif_number(error.errno)
}

/// SCIF's number for an error of a system call. When an endpoint is being closed, the daemon ends
/// the calls that wait on it with `ECANCELED`, because a scheme cannot answer SCIF's number for
/// it, `EINTR`. Redox's kernel answers `ESRCH` for a daemon that has just died, as long as its
/// scheme is there. (The daemon's own `ESRCH` stays within `client_memory::pin`.)
pub(crate) const fn scif_number(number: i32) -> i32 {
    match number {
        ECANCELED => EINTR,
        ESRCH => ENODEV,
        number => number,
    }
}

/// SCIF's number for an error of a call on an endpoint whose payload is a range. A bad payload is
/// `EFAULT`. Redox's kernel answers `EINVAL` for whole pages that are not there, and `EPERM` where
/// the rights are too few; no daemon answers `EPERM` for a payload.
fn refused(payload: Range<'_>, error: syscall::error::Error) -> i32 {
    match error.errno {
        EPERM => EFAULT,
        EINVAL if !is_there(payload) => EFAULT,
        _ => system(error),
    }
}

/// Whether every page of a range can be read.
fn is_there(range: Range<'_>) -> bool {
    let (address, bytes) = (range.address(), range.bytes());
    let mut at = 0;
    while at < bytes {
        let byte = range.part(at, 1).and_then(|byte| byte.copy_out(&mut [0]));
        if matches!(byte, Err(Error { errno: EFAULT })) {
            return false;
        }
        at += PAGE_SIZE - (address + at) % PAGE_SIZE;
    }
    true
}

fn metadata(call: &Call) -> [u64; 3] {
    let [first, second] = call.words();
    [call.number(), first, second]
}

/// Makes a call without payload.
pub(crate) fn plain(epd: usize, call: Call) -> Result<usize> {
    with_payload(epd, call, &mut [])
}

/// Makes a call with a payload that the scheme may read and write.
///
/// # Errors
/// Those of the call, as SCIF's numbers.
pub fn with_payload(epd: usize, call: Call, payload: &mut [u8]) -> Result<usize> {
    libredox::call::call_rw(epd, payload, CallFlags::empty(), &metadata(&call)).map_err(number)
}

/// Makes a call that fills memory given by address.
fn fill(epd: usize, range: Range<'_>, call: &Call) -> Result<usize> {
    // The kernel gives the scheme whole pages of private memory, whatever rights the program
    // itself has. Without this check constants would be written.
    if range.bytes() > 0 && range.writable().is_none() {
        return Err(EFAULT);
    }
    range::call(epd, range, &metadata(call)).map_err(|error| refused(range, error))
}

/// Makes a call whose payload is the structure of the call.
pub(crate) fn with_record(epd: usize, call: Call) -> Result<usize> {
    // The payload of a call must be writable memory.
    let mut payload = [0; 64];
    let record = call.payload();
    let payload = payload.get_mut(..record.len()).ok_or(EINVAL)?;
    payload.copy_from_slice(record);
    with_payload(epd, call, payload)
}

/// `scif_open`.
///
/// # Errors
/// `ENOMEM` at a limit; `ENODEV` or `ENOENT` when there is no `scif:` scheme.
pub fn open() -> Result<usize> {
    libredox::call::open("/scheme/scif/endpoint", O_RDWR | O_CLOEXEC, 0).map_err(number)
}

/// `scif_bind`. Returns the port.
///
/// # Errors
/// `EACCES`, `EINVAL`, `EISCONN`, `ENOSPC`.
pub fn bind(epd: usize, port: Port) -> Result<Port> {
    plain(epd, Call::Bind { port }).map(|port| port as Port)
}

/// `scif_listen`.
///
/// # Errors
/// `EINVAL`, `EISCONN`, `ENOMEM`.
pub fn listen(epd: usize, backlog: i32) -> Result<()> {
    plain(epd, Call::Listen { backlog, flags: 0 }).map(|_| ())
}

/// [`listen`], after which requests are granted when they come, and do not wait for [`accept`].
///
/// # Errors
/// Those of [`listen`].
pub fn listen_granting(epd: usize, backlog: i32) -> Result<()> {
    let flags = ListenFlags::GRANT_AT_ONCE.bits();
    plain(epd, Call::Listen { backlog, flags }).map(|_| ())
}

/// `scif_connect`. Returns the local port.
///
/// # Errors
/// `ECONNREFUSED`, `EINVAL`, `EINPROGRESS`, `EISCONN`, `ENODEV`, `ENOMEM`, `ENOSPC`, `EOPNOTSUPP`.
pub fn connect(epd: usize, to: PortId) -> Result<Port> {
    let (node, port) = (to.node(), to.port());
    plain(epd, Call::Connect { node, port }).map(|port| port as Port)
}

/// The address at which the endpoint is bound; its port is 0 if the endpoint is not bound.
///
/// # Errors
/// `EBADF`.
pub fn local(epd: usize) -> Result<PortId> {
    plain(epd, Call::LocalPort).map(port_id)
}

/// The address of the connection's other end, also after that end has gone.
///
/// # Errors
/// `ENOTCONN`.
pub fn peer(epd: usize) -> Result<PortId> {
    plain(epd, Call::PeerPort).map(port_id)
}

/// Unpacks `node << 16 | port`.
fn port_id(word: usize) -> PortId {
    PortId::new((word >> 16) as NodeId, word as Port)
}

/// `scif_send`. Returns the number of bytes taken.
///
/// # Errors
/// `ECONNRESET`, `EFAULT`, `EINVAL`, `ENOTCONN`. If the connection ends or a signal comes in the
/// middle of a blocking send, the call returns the count so far.
pub fn send<'a>(epd: usize, data: impl Into<Source<'a>>, flags: u32) -> Result<usize> {
    let is_known = SendFlags::from_bits(flags).is_some();
    send_from(epd, data.into(), flags).map_err(|error| bad_buffer(epd, is_known, error))
}

fn send_from(epd: usize, data: Source<'_>, flags: u32) -> Result<usize> {
    if flags == SendFlags::BLOCK.bits() && data.bytes() > 0 {
        return match ends_abandoned_requests() {
            true => send_all(epd, data),
            false => pieces::send_all(epd, data),
        };
    }
    // The payload of a call must be writable memory, which the data may not be, so it is copied.
    // Only as much as fits now is sent: not more than a ring holds.
    let mut bounce = [0; BOUNCE_BYTES];
    let bounce = &mut bounce[..data.bytes().min(BOUNCE_BYTES)];
    match data {
        Source::Slice(bytes) => bounce.copy_from_slice(&bytes[..bounce.len()]),
        Source::Range(range) => range.copy_out(bounce).map_err(system)?,
    }
    with_payload(epd, Call::Send { flags }, bounce)
}

/// Sends by `write`, which waits until all bytes are taken. `O_NONBLOCK` does not concern
/// `scif_send`, so where it is set this function waits instead.
fn send_all(epd: usize, data: Source<'_>) -> Result<usize> {
    let mut sent = 0;
    while sent < data.bytes() {
        match data.rest(sent).and_then(|rest| write(epd, rest)) {
            Ok(count) => sent += count,
            Err(EAGAIN) => match poll(&mut [PollFd::new(epd, Readiness::OUT.bits())], None) {
                Ok(_) => {}
                Err(_) if sent > 0 => break,
                Err(error) => return Err(error),
            },
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// `scif_recv`. Returns the number of bytes received.
///
/// # Errors
/// `ECONNRESET` when the peer is gone and no bytes are left, `EFAULT`, `EINVAL`, `ENOTCONN`. If
/// the connection ends in the middle of a blocking receive, the call returns the count so far.
pub fn recv<'a>(epd: usize, buffer: impl Into<Target<'a>>, flags: u32) -> Result<usize> {
    let is_known = RecvFlags::from_bits(flags).is_some();
    recv_into(epd, buffer.into(), flags).map_err(|error| bad_buffer(epd, is_known, error))
}

fn recv_into(epd: usize, buffer: Target<'_>, flags: u32) -> Result<usize> {
    let call = Call::Recv { flags };
    if let Some(flags) = RecvFlags::from_bits(flags)
        && buffer.bytes() > 0
        && !ends_abandoned_requests()
    {
        return pieces::recv(epd, buffer, flags.contains(RecvFlags::BLOCK));
    }
    match buffer {
        Target::Slice(bytes) => with_payload(epd, call, bytes),
        Target::Range(range) => fill(epd, range, &call),
    }
}

/// `read` of the endpoint's file: receives the bytes that have arrived. Waits for the first one,
/// unless the descriptor has `O_NONBLOCK`.
///
/// # Errors
/// Those of [`recv`]; `EAGAIN`.
pub fn read<'a>(epd: usize, buffer: impl Into<Target<'a>>) -> Result<usize> {
    let buffer = buffer.into();
    if buffer.bytes() > 0 && !ends_abandoned_requests() {
        return pieces::read(epd, buffer);
    }
    read_file(epd, buffer)
}

/// `read` of any file, in one call.
fn read_file(file: usize, buffer: Target<'_>) -> Result<usize> {
    match buffer {
        Target::Slice(bytes) => libredox::call::read(file, bytes).map_err(number),
        // As in `fill`: constants would be written.
        Target::Range(range) if range.bytes() > 0 && range.writable().is_none() => Err(EFAULT),
        Target::Range(range) => range::read(file, range).map_err(|error| refused(range, error)),
    }
}

/// `write` to the endpoint's file: waits until all bytes are taken, unless the descriptor has
/// `O_NONBLOCK`.
///
/// # Errors
/// Those of [`send`]; `EAGAIN`.
pub fn write<'a>(epd: usize, data: impl Into<Source<'a>>) -> Result<usize> {
    let data = data.into();
    if data.bytes() > 0 && !ends_abandoned_requests() {
        return pieces::write(epd, data);
    }
    write_file(epd, data)
}

/// `write` of any file, in one call.
fn write_file(file: usize, data: Source<'_>) -> Result<usize> {
    match data {
        Source::Slice(bytes) => libredox::call::write(file, bytes).map_err(number),
        Source::Range(range) => range::write(file, range).map_err(|error| refused(range, error)),
    }
}

/// Whether the descriptor has `O_NONBLOCK`.
///
/// # Errors
/// `EBADF`.
pub fn is_nonblocking(epd: usize) -> Result<bool> {
    let flags = libredox::call::fcntl(epd, F_GETFL, 0).map_err(number)?;
    Ok(flags & O_NONBLOCK != 0)
}

/// `scif_register`. Returns the window's offset. The pages stay where they are, whatever else they
/// are used for (see [`client_memory::shared`]).
///
/// # Errors
/// `EADDRINUSE`, `EAGAIN`, `ECONNRESET`, `EFAULT`, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`.
pub fn register(
    epd: usize,
    memory: Range<'_>,
    offset: i64,
    protection: u32,
    flags: u32,
) -> Result<i64> {
    let ask = |token: u64, memory_offset: u64| {
        let record = RegisterRecord {
            memory: token.into(),
            memory_offset: memory_offset.into(),
            length: (memory.bytes() as u64).into(),
            offset: offset.into(),
            protection: protection.into(),
            flags: flags.into(),
        };
        with_record(epd, Call::Register { record }).map(|offset| offset as i64)
    };
    // No memory is pinned for a call that the daemon refuses anyway.
    let asked = Protection::from_bits(protection).ok_or(EINVAL)?;
    if asked.is_empty() || flags & !MapFlags::FIXED.bits() != 0 || offset < 0 {
        return Err(EINVAL);
    }
    let end = (offset as u64).saturating_add(memory.bytes() as u64);
    let is_place = (offset as usize).is_multiple_of(PAGE_SIZE) && end <= i64::MAX as u64;
    if flags & MapFlags::FIXED.bits() != 0 && !is_place {
        return Err(EINVAL);
    }
    memory.check_pages().map_err(system)?;
    if let Some(known) = shared::known(memory) {
        match ask(known.token, known.offset) {
            // The program has unmapped the memory meanwhile, and the library's table did not
            // notice.
            Err(EFAULT) => shared::forget(memory),
            result => return result,
        }
    }
    // As in the daemon, an endpoint in the wrong state is reported before a bad address.
    let refused = |error| match error {
        EFAULT => without_memory(epd),
        error => error,
    };
    client_memory::pin::register(epd, memory, offset, asked, flags)
        .map(|offset| offset as i64)
        .map_err(|error| refused(system(error)))
}

/// `scif_unregister`.
///
/// # Errors
/// `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOTCONN`, `ENXIO`.
pub fn unregister(epd: usize, offset: i64, length: u64) -> Result<()> {
    plain(epd, Call::Unregister { offset, length }).map(|_| ())
}

/// `scif_mmap`: maps the peer's windows at `at` (`SCIF_MAP_FIXED`; what is mapped there is
/// replaced) or where the kernel chooses. Returns the address.
///
/// # Errors
/// `EACCES`, `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`, `ENXIO`.
pub fn mmap(
    epd: usize,
    at: Option<Range<'_>>,
    length: usize,
    protection: u32,
    offset: i64,
) -> Result<usize> {
    let asked = Protection::from_bits(protection).ok_or(EINVAL)?;
    let protection = Rights {
        read: asked.contains(Protection::READ),
        write: asked.contains(Protection::WRITE),
    };
    window::map_window(epd, offset, length, protection, at).map_err(system)
}

/// `scif_munmap`, of all or a part of a mapping.
///
/// # Errors
/// `EINVAL`.
pub fn munmap(range: Range<'_>) -> Result<()> {
    shared::unmap(range).map_err(system)
}

/// `scif_readfrom`.
///
/// # Errors
/// `EACCES`, `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`, `ENXIO`.
pub fn readfrom(epd: usize, local: i64, length: u64, remote: i64, flags: u32) -> Result<()> {
    let record = rma_record(local, length, remote, flags);
    with_record(epd, Call::ReadFrom { record }).map(|_| ())
}

/// `scif_writeto`.
///
/// # Errors
/// Those of [`readfrom`].
pub fn writeto(epd: usize, local: i64, length: u64, remote: i64, flags: u32) -> Result<()> {
    let record = rma_record(local, length, remote, flags);
    with_record(epd, Call::WriteTo { record }).map(|_| ())
}

fn rma_record(local: i64, length: u64, remote: i64, flags: u32) -> RmaRecord {
    RmaRecord {
        local_offset: local.into(),
        length: length.into(),
        remote_offset: remote.into(),
        flags: flags.into(),
        reserved: 0.into(),
    }
}

/// `scif_vreadfrom`. Complete on return, unless the flags hold `SCIF_RMA_USECACHE` without
/// `SCIF_RMA_SYNC`. Stores nothing outside the target.
///
/// # Errors
/// Those of [`readfrom`], and `EFAULT`.
pub fn vreadfrom<'a>(epd: usize, to: impl Into<Target<'a>>, remote: i64, flags: u32) -> Result<()> {
    let call = Call::VirtualReadFrom {
        remote_offset: remote,
        flags,
    };
    let mut to = to.into();
    let range = match &to {
        Target::Range(range) => Some(Transfer::new(epd, *range, remote, flags)),
        Target::Slice(_) => None,
    };
    let transfer = match &mut to {
        Target::Range(_) => range,
        Target::Slice(bytes) => Transfer::of_slice(epd, bytes, remote, flags),
    };
    if let Some(result) = transfer.and_then(|transfer| transfer.run(Rma::Read)) {
        return result;
    }
    let result = match to {
        to if pieces::are_needed(to.bytes()) => pieces::vreadfrom(epd, to, remote, flags),
        Target::Slice(bytes) => with_payload(epd, call, bytes).map(|_| ()),
        Target::Range(range) => fill(epd, range, &call).map(|_| ()),
    };
    match (result, range) {
        (Err(EFAULT), Some(range)) => Err(range.bad_memory(Rma::Read)),
        _ => result,
    }
}

/// `scif_vwriteto`. Complete on return, unless the flags hold `SCIF_RMA_USECACHE` without
/// `SCIF_RMA_SYNC`. Stores nothing to the source.
///
/// # Errors
/// Those of [`readfrom`], and `EFAULT`.
pub fn vwriteto<'a>(
    epd: usize,
    from: impl Into<Source<'a>>,
    remote: i64,
    flags: u32,
) -> Result<()> {
    let call = Call::VirtualWriteTo {
        remote_offset: remote,
        flags,
    };
    // The data is copied, because the kernel writes the incomplete pages at both ends of a payload
    // back: over what other threads have stored meanwhile, or with an error when the source is
    // constant.
    let mut copy = match from.into() {
        Source::Slice(bytes) => bytes.to_vec(),
        Source::Range(range) => {
            let transfer = Transfer::new(epd, range, remote, flags);
            if let Some(result) = transfer.run(Rma::Write) {
                return result;
            }
            let copied = match range.readable() {
                Some(bytes) => bytes.to_vec(),
                // A wrong length is found before so much memory is taken.
                None if range.bytes() >= PINNED_BYTES => match transfer.bad_memory(Rma::Write) {
                    EFAULT => range.to_vec(),
                    error => return Err(error),
                },
                None => range.to_vec(),
            };
            copied.map_err(|error| match error.errno {
                EFAULT => transfer.bad_memory(Rma::Write),
                _ => system(error),
            })?
        }
    };
    let transfer = Transfer::of_slice(epd, &mut copy, remote, flags);
    if let Some(result) = transfer.and_then(|transfer| transfer.run(Rma::Write)) {
        return result;
    }
    if pieces::are_needed(copy.len()) {
        return pieces::vwriteto(epd, &mut copy, remote, flags);
    }
    with_payload(epd, call, &mut copy).map(|_| ())
}

/// `scif_fence_mark`. Returns the mark.
///
/// # Errors
/// `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`.
pub fn fence_mark(epd: usize, flags: u32) -> Result<i32> {
    plain(epd, Call::FenceMark { flags }).map(|mark| mark as i32)
}

/// `scif_fence_wait`.
///
/// # Errors
/// `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`.
pub fn fence_wait(epd: usize, mark: i32) -> Result<()> {
    plain(epd, Call::FenceWait { mark }).map(|_| ())
}

/// `scif_fence_signal`.
///
/// # Errors
/// `EACCES`, `ECONNRESET`, `EINVAL`, `ENODEV`, `ENOMEM`, `ENOTCONN`, `ENXIO`.
pub fn fence_signal(
    epd: usize,
    local: i64,
    local_value: u64,
    remote: i64,
    remote_value: u64,
    flags: u32,
) -> Result<()> {
    let record = SignalRecord {
        local_offset: local.into(),
        local_value: local_value.into(),
        remote_offset: remote.into(),
        remote_value: remote_value.into(),
        flags: flags.into(),
        reserved: 0.into(),
    };
    with_record(epd, Call::FenceSignal { record }).map(|_| ())
}

/// `scif_get_node_ids`: stores the ids of the nodes online, ascending, as far as they fit. Returns
/// how many nodes are online, and the id of this node.
///
/// # Errors
/// Those of opening the scheme.
pub fn get_node_ids(nodes: &mut [NodeId]) -> Result<(usize, NodeId)> {
    let epd = open()?;
    let mut bytes = [0; 2 * (MAX_NODE as usize + 2)];
    let count = with_payload(epd, Call::GetNodeIds, &mut bytes);
    close(epd)?;
    let count = count?;
    let mut ids = bytes
        .as_chunks::<2>()
        .0
        .iter()
        .map(|id| NodeId::from_le_bytes(*id));
    let own = ids.next().unwrap_or(0);
    for (place, id) in nodes.iter_mut().zip(ids.take(count)) {
        *place = id;
    }
    Ok((count, own))
}

/// Sets or clears `O_NONBLOCK`. Of SCIF's calls it concerns [`connect`] only; [`read`] and
/// [`write()`] of the file obey it, too.
///
/// # Errors
/// `EBADF`.
pub fn set_nonblocking(epd: usize, nonblocking: bool) -> Result<()> {
    let flags = if nonblocking { O_NONBLOCK } else { 0 };
    let result = libredox::call::fcntl(epd, F_SETFL, flags);
    result.map(|_| ()).map_err(number)
}

/// Those of `events` that an endpoint is ready for, and `ERR` and `HUP`. Does not wait.
///
/// # Errors
/// `EBADF`.
pub fn readiness(epd: usize, events: u16) -> Result<u16> {
    plain(epd, Call::Poll { events }).map(|ready| ready as u16)
}

#[cfg(test)]
mod page_tests;
#[cfg(test)]
mod pinning;
#[cfg(test)]
mod tests;
