//! Sending and receiving messages that keep their boundaries: the data path of sockets of Scheduled
//! Transfers whose bypass is off.

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

/// Flags of `recvmsg`'s result: the message was longer; it is whole.
const TRUNCATED: c_int = 0x20;
const END_OF_RECORD: c_int = 0x80;

/// Between two looks whether another process has sent its message.
const PAUSE: Duration = Duration::from_millis(2);

/// Bytes of a message that are taken in before somebody receives it.
const MOST_UNASKED: usize = 64 * 1024;

/// The result of receiving.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received {
    /// Bytes.
    pub count: usize,
    /// Flags of the message.
    pub flags: c_int,
}

/// The state of a socket's messages.
fn kept(socket: &Socket) -> Result<&Mutex<Transfers>> {
    let transfers = socket.transfers.as_ref().ok_or(ENOPROTOOPT)?;
    match transfers.lock().has_bypass() {
        true => Err(EOPNOTSUPP),
        false => Ok(transfers),
    }
}

/// The parts of a message one behind the other, behind the head of its frame.
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

/// Sends bytes as far as there is room.
fn put(number: usize, bytes: &[u8]) -> Result<usize> {
    table::with(number, |bypass| bypass.send(number, bytes, 0))
}

/// Sends what did not fit before, as far as there is room, behind a message that another process
/// has begun.
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

/// Sends a frame as far as there is room. If that is a part of it, no other process sends until the
/// rest has gone.
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
    // No event says that another process has sent its message.
    if socket.owners.is_another_sending() {
        if waiting.is_over() {
            return Err(EAGAIN);
        }
        sleep(PAUSE);
        return Ok(());
    }
    waiting.wait_for(socket.number(), Readiness::OUT)
}

/// Sends a message. It goes as a whole: when there is room for a part of it only, the call waits
/// for the rest, and a call that never waits leaves the rest to the next call on the socket.
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

/// Sends a frame behind all that did not fit before.
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
            // The rest goes first with the next call.
            Err(_) if is_begun => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Receives a message, the rest of a longer one is lost; 0 bytes at the end as well.
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
        // An error of the other direction is told by the calls on that.
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
        // Another thread may have taken the bytes of the message in, or leave the rest of one that
        // waits for room.
        waiting.wait(&[number], Readiness::IN | Readiness::OUT, || {
            readiness(socket).map_or(true, |found| !Readiness::OUT.contains(found))
        })?;
    }
}

/// Whether the own end receives no more and the connection is there: another process that has the
/// socket has shut it down.
fn is_shut_for_all(number: usize) -> bool {
    let wanted = Readiness::IN | Readiness::READ_HUP;
    let found = table::with(number, |bypass| bypass.readiness(number, wanted.bits()));
    let found = found.map_or(Readiness::empty(), Readiness::from_bits_truncate);
    found.contains(Readiness::READ_HUP) && !found.contains(Readiness::HUP)
}

/// Takes from the ring what there is of the next message, up to `most` bytes of it.
fn advance(number: usize, transfers: &mut Transfers, most: usize) -> Result<Progress> {
    transfers.assembler.advance(EPROTO, most, |buffer| {
        table::with(number, |bypass| bypass.recv(number, buffer, 0))
    })
}

/// Copies a message to where the caller wants it.
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

/// The readiness of a connected socket of Scheduled Transfers: IN, OUT and HUP as SCIF has them.
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
    // After the bytes were taken: what comes from now on is an event.
    let found = ring(Readiness::IN | Readiness::OUT | Readiness::READ_HUP)?;
    match progress {
        // The rest of a longer message comes when somebody receives it.
        Ok(Progress::Incomplete) if kept.assembler.bytes() >= MOST_UNASKED => {
            ready |= found & Readiness::IN;
        }
        Ok(Progress::Incomplete) => {}
        Ok(_) => ready |= Readiness::IN,
        // The own end receives no more, and may still send.
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

/// Puts the word that nothing more will be sent behind all that did not fit before; for
/// [`drain`], which sends it.
pub fn end(socket: &Socket) {
    if let Ok(transfers) = kept(socket) {
        let mut kept = transfers.lock();
        if !kept.is_ended {
            kept.is_ended = true;
            kept.unsent.keep(&Frame::End.encode());
        }
    }
}

/// Ends the messages of a socket that no process has any more: in order, or abruptly if `SO_LINGER`
/// leaves no time at all.
pub fn close(socket: &Socket) {
    let linger = socket.options.lock().linger();
    match linger {
        Some(Duration::ZERO) => discard(socket),
        _ => end(socket),
    }
}

/// Drops what did not fit before: the peer finds no end.
fn discard(socket: &Socket) {
    if let Ok(transfers) = kept(socket) {
        let mut kept = transfers.lock();
        kept.is_ended = true;
        kept.unsent.clear();
    }
}

/// Sends what did not fit before; whether all has gone, or can go nowhere.
pub fn drain(socket: &Socket, waiting: Waiting) -> bool {
    let Ok(transfers) = kept(socket) else {
        return true;
    };
    loop {
        let mut kept = transfers.lock();
        if flush(socket, &mut kept.unsent).is_err() {
            // A peer that has gone need not be told.
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

/// Whether there is something that did not fit before.
pub fn has_unsent(socket: &Socket) -> bool {
    kept(socket).is_ok_and(|transfers| !transfers.lock().unsent.is_empty())
}
