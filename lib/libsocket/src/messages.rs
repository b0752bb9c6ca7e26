//! Sends and receives messages that keep their boundaries: the data path of sockets of Scheduled
//! Transfers (`docs/st.md`) whose bypass is off.

use alloc::vec::Vec;
use core::ffi::c_int;
use core::time::Duration;

use libscif::table;
use runtime::sync::Mutex;
use runtime::time::sleep;
use scif::raw::Range;
use scif_abi::flags::Readiness;
use st_core::frame::{Frame, HEAD_BYTES, MOST_BYTES};
use syscall::error::{
    EAGAIN, EBADF, ECONNRESET, EINTR, EMSGSIZE, ENOBUFS, ENOPROTOOPT, EOPNOTSUPP, EPIPE, EPROTO,
};

use crate::packet::{Progress, Unsent};
use crate::parts::Part;
use crate::socket::Socket;
use crate::transfer::{Waiting, flag, wait_for_connection};
use crate::transfers::Transfers;
use crate::{Result, errors};

/// Flags in `recvmsg`'s result: the message was longer than the buffer; it is complete.
const TRUNCATED: c_int = 0x20;
const END_OF_RECORD: c_int = 0x80;

/// Time between two checks whether another process has sent its message.
const PAUSE: Duration = Duration::from_millis(2);

/// Most bytes of a message that are taken from the ring before a call receives it.
const MOST_UNASKED: usize = 64 * 1024;

/// The result of receiving.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// The number of bytes.
    pub count: usize,
    /// Flags of the message.
    pub flags: c_int,
}

/// Returns the state of a socket's messages.
fn kept(socket: &Socket) -> Result<&Mutex<Transfers>> {
    let transfers = socket.transfers.as_ref().ok_or(ENOPROTOOPT)?;
    match transfers.lock().has_bypass() {
        true => Err(EOPNOTSUPP),
        false => Ok(transfers),
    }
}

/// Builds a frame: its head, then the parts of a message one after the other.
fn frame(parts: &[Part]) -> Result<Vec<u8>> {
    let mut lengths = parts.iter().map(|part| part.length);
    let total = lengths.try_fold(0_usize, usize::checked_add);
    let total = total.filter(|total| *total <= MOST_BYTES).ok_or(EMSGSIZE)?;
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(HEAD_BYTES + total)
        .map_err(|_| ENOBUFS)?;
    bytes.extend_from_slice(&Frame::Message(total).encode());
    for part in parts.iter().filter(|part| part.length > 0) {
        // SAFETY: C's memory by C's rules, which is only read.
        let range = unsafe { Range::new(part.start as usize, part.length) };
        let copy = match range.readable() {
            Some(bytes) => bytes.to_vec(),
            None => range.to_vec(),
        };
        bytes.extend_from_slice(&copy.map_err(|error| error.errno)?);
    }
    Ok(bytes)
}

/// Sends as many bytes as there is room for.
fn put(number: usize, bytes: &[u8]) -> Result<usize> {
    table::with(number, |bypass| bypass.send(number, bytes, 0))
}

/// Sends unsent bytes of earlier calls, as many as there is room for, unless another process is in
/// the middle of a message.
fn flush(socket: &Socket, unsent: &mut Unsent) -> Result<()> {
    if unsent.is_empty() || !socket.owners.begin_sending()? {
        return Ok(());
    }
    let result = unsent.flush(|bytes| put(socket.number(), bytes));
    if unsent.is_empty() || result.is_err() {
        socket.owners.end_sending();
    }
    result
}

/// Sends as much of a frame as there is room for. After a partial send, no other process sends
/// until the rest has been sent.
fn begin(socket: &Socket, frame: &[u8]) -> Result<usize> {
    if !socket.owners.begin_sending()? {
        return Ok(0);
    }
    let result = put(socket.number(), frame);
    let is_begun = result.is_ok_and(|count| (1..frame.len()).contains(&count));
    if !is_begun {
        socket.owners.end_sending();
    }
    result
}

/// Waits until more can be sent.
fn wait_for_room(socket: &Socket, waiting: Waiting) -> Result<()> {
    // No event reports that another process has sent its message.
    if socket.owners.is_another_sending() {
        if waiting.is_over() {
            return Err(EAGAIN);
        }
        sleep(PAUSE);
        return Ok(());
    }
    waiting.wait_for(socket.number(), Readiness::OUT)
}

/// Sends a whole message. When there is room for a part of it only, the call waits until it has
/// sent the rest; a call that does not wait leaves the rest to the next call on the socket.
///
/// # Errors
/// `EAGAIN`, `ECONNRESET`, `EFAULT`, `EMSGSIZE` more than 1 GiB, `ENOBUFS`, `ENOTCONN`,
/// `EOPNOTSUPP` the bypass is on, `EPIPE`.
pub fn send(number: usize, socket: &Socket, parts: &[Part], flags: c_int) -> Result<usize> {
    if flags & flag::OOB != 0 {
        return Err(EOPNOTSUPP);
    }
    let limit = socket.options.lock().send_limit;
    let waiting = Waiting::new(socket, flags, limit);
    let state = wait_for_connection(number, socket, waiting)?;
    let transfers = kept(socket)?;
    if state.is_write_shut {
        return Err(EPIPE);
    }
    let frame = frame(parts)?;
    post(socket, transfers, &frame, waiting).map_err(|error| match error {
        _ if socket.state().is_closed => EBADF,
        EBADF | EINTR if socket.state().is_write_shut => EPIPE,
        error => errors::send(error, false),
    })?;
    Ok(frame.len() - HEAD_BYTES)
}

/// Sends a frame after all unsent bytes of earlier calls.
fn post(
    socket: &Socket,
    transfers: &Mutex<Transfers>,
    frame: &[u8],
    waiting: Waiting,
) -> Result<()> {
    let mut is_begun = false;
    loop {
        let mut kept = transfers.lock();
        flush(socket, &mut kept.unsent)?;
        if kept.is_ended && !is_begun {
            return Err(EPIPE);
        }
        if kept.unsent.is_empty() {
            if is_begun {
                return Ok(());
            }
            let count = begin(socket, frame)?;
            if count == frame.len() {
                return Ok(());
            }
            if count > 0 {
                kept.unsent.keep(&frame[count..]);
                is_begun = true;
            }
        }
        drop(kept);
        match wait_for_room(socket, waiting) {
            Ok(()) => {}
            // The next call sends the rest first.
            Err(_) if is_begun => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Receives a message; what does not fit into `parts` is lost. Also returns 0 bytes at the end.
///
/// # Errors
/// `EAGAIN`, `ECONNRESET` the peer is gone without an end, `EFAULT`, `ENOTCONN`, `EOPNOTSUPP` the
/// bypass is on, `EPROTO` the peer sends no messages.
pub fn receive(number: usize, socket: &Socket, parts: &[Part], flags: c_int) -> Result<Received> {
    if flags & flag::OOB != 0 {
        return Err(EOPNOTSUPP);
    }
    let limit = socket.options.lock().receive_limit;
    let waiting = Waiting::new(socket, flags, limit);
    let state = wait_for_connection(number, socket, waiting)?;
    let transfers = kept(socket)?;
    if state.is_read_shut {
        return Ok(Received::default());
    }
    loop {
        let mut kept = transfers.lock();
        // An error of sending is reported by the calls that send.
        let _ = flush(socket, &mut kept.unsent);
        match advance(number, &mut kept, usize::MAX) {
            Ok(Progress::Message) => {
                let received = deliver(kept.assembler.message(), parts, flags)?;
                if flags & flag::PEEK == 0 {
                    kept.assembler.take();
                }
                return Ok(received);
            }
            Ok(Progress::End) => return Ok(Received::default()),
            Ok(Progress::Incomplete) => {}
            Err(_) if socket.state().is_closed => return Err(EBADF),
            Err(EBADF | EINTR | ECONNRESET) if socket.state().is_read_shut => {
                return Ok(Received::default());
            }
            Err(ECONNRESET) if is_shut_for_all(number) => return Ok(Received::default()),
            Err(syscall::ENODEV) => return Err(ECONNRESET),
            Err(error) => return Err(error),
        }
        drop(kept);
        // Another thread may have taken in the bytes of the message, or may leave the rest of a
        // message that waits for room.
        waiting.wait(&[number], Readiness::IN | Readiness::OUT, || {
            readiness(socket).map_or(true, |found| !Readiness::OUT.contains(found))
        })?;
    }
}

/// Whether another process that shares the socket has shut down receiving: our end receives no
/// more, and the connection still exists.
fn is_shut_for_all(number: usize) -> bool {
    let wanted = Readiness::IN | Readiness::READ_HUP;
    let found = table::with(number, |bypass| bypass.readiness(number, wanted.bits()));
    let found = found.map_or(Readiness::empty(), Readiness::from_bits_truncate);
    found.contains(Readiness::READ_HUP) && !found.contains(Readiness::HUP)
}

/// Takes the bytes of the next message that are in the ring, up to `most` bytes of its frame.
fn advance(number: usize, transfers: &mut Transfers, most: usize) -> Result<Progress> {
    transfers.assembler.advance(EPROTO, most, |buffer| {
        table::with(number, |bypass| bypass.recv(number, buffer, 0))
    })
}

/// Copies a message to the caller's parts.
fn deliver(message: &[u8], parts: &[Part], flags: c_int) -> Result<Received> {
    let mut rest = message;
    for part in parts {
        let (now, later) = rest.split_at(rest.len().min(part.length));
        if !now.is_empty() {
            // SAFETY: C's memory by C's rules, which it lets be written.
            let range = unsafe { Range::new(part.start as usize, now.len()) };
            crate::transfer::copy_in(range, now)?;
        }
        rest = later;
    }
    let count = match flags & TRUNCATED {
        0 => message.len() - rest.len(),
        _ => message.len(),
    };
    let cut = if rest.is_empty() { 0 } else { TRUNCATED };
    Ok(Received {
        count,
        flags: END_OF_RECORD | cut,
    })
}

/// The readiness of a connected socket of Scheduled Transfers: `IN`, `OUT`, `HUP` and `ERR`, with
/// SCIF's meanings.
pub fn readiness(socket: &Socket) -> Result<Readiness> {
    let number = socket.number();
    let ring = |wanted: Readiness| {
        let found = table::with(number, |bypass| bypass.readiness(number, wanted.bits()))?;
        Ok(Readiness::from_bits_truncate(found))
    };
    let Ok(transfers) = kept(socket) else {
        return ring(Readiness::IN | Readiness::OUT);
    };
    let mut kept = transfers.lock();
    let _ = flush(socket, &mut kept.unsent);
    let mut ready = Readiness::empty();
    let progress = advance(number, &mut kept, MOST_UNASKED);
    // After the bytes were taken, so that whatever comes from now on raises an event.
    let found = ring(Readiness::IN | Readiness::OUT | Readiness::READ_HUP)?;
    match progress {
        // The rest of a longer message is taken when a call receives it.
        Ok(Progress::Incomplete) if kept.assembler.bytes() >= MOST_UNASKED => {
            ready |= found & Readiness::IN;
        }
        Ok(Progress::Incomplete) => {}
        Ok(_) => ready |= Readiness::IN,
        // Our end receives no more, and may still send.
        Err(_) if found.contains(Readiness::READ_HUP) && !found.contains(Readiness::HUP) => {
            ready |= Readiness::IN;
        }
        Err(_) => ready |= Readiness::IN | Readiness::HUP,
    }
    ready.set(
        Readiness::OUT,
        found.contains(Readiness::OUT) && kept.unsent.is_empty(),
    );
    Ok(ready | found & (Readiness::HUP | Readiness::ERR))
}

/// Appends the frame that ends the messages to the unsent bytes, for [`drain`] to send.
pub fn end(socket: &Socket) {
    if let Ok(transfers) = kept(socket) {
        let mut kept = transfers.lock();
        if !kept.is_ended {
            kept.is_ended = true;
            kept.unsent.keep(&Frame::End.encode());
        }
    }
}

/// Ends the messages of a socket that no process has open any more: in order, or abruptly if
/// `SO_LINGER` has a time of 0.
pub fn close(socket: &Socket) {
    let linger = socket.options.lock().linger();
    match linger {
        Some(Duration::ZERO) => discard(socket),
        _ => end(socket),
    }
}

/// Drops all unsent bytes. The peer finds no end of the messages.
fn discard(socket: &Socket) {
    if let Ok(transfers) = kept(socket) {
        let mut kept = transfers.lock();
        kept.is_ended = true;
        kept.unsent.clear();
    }
}

/// Sends the unsent bytes. Returns whether none are left: all are sent, or the peer has gone.
pub fn drain(socket: &Socket, waiting: Waiting) -> bool {
    let Ok(transfers) = kept(socket) else {
        return true;
    };
    loop {
        let mut kept = transfers.lock();
        if flush(socket, &mut kept.unsent).is_err() {
            // A peer that has gone receives no more.
            kept.unsent.clear();
        }
        if kept.unsent.is_empty() {
            return true;
        }
        drop(kept);
        if wait_for_room(socket, waiting).is_err() {
            return false;
        }
    }
}

/// Whether bytes of earlier calls are unsent.
pub fn has_unsent(socket: &Socket) -> bool {
    kept(socket).is_ok_and(|transfers| !transfers.lock().unsent.is_empty())
}
