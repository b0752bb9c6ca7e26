//! Sends and receives bytes: the data path of stream sockets, which is that of `lib/scif`.

use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use core::time::Duration;

use libscif::table;
use runtime::time::Instant;
use scif::bypass::Bypass;
use scif::raw::{self, PollFd, Range};
use scif_abi::flags::{Readiness, RecvFlags, SendFlags};
use syscall::error::{
    EAGAIN, EALREADY, EBADF, ECONNRESET, EFAULT, EINTR, EINVAL, EOPNOTSUPP, EPIPE,
};

use crate::socket::{Phase, Socket, State};
use crate::{Result, errors, node};

/// Flags of C's `send` and `recv`.
pub mod flag {
    use core::ffi::c_int;

    /// Out-of-band data, which SCIF does not have.
    pub const OOB: c_int = 0x01;
    /// Leaves the data in place.
    pub const PEEK: c_int = 0x02;
    /// Does not wait.
    pub const DONTWAIT: c_int = 0x40;
    /// Waits until the buffer is full.
    pub const WAITALL: c_int = 0x100;
}

/// Events of `poll`, as in C's `poll.h`.
pub mod event {
    use core::ffi::c_int;

    /// Data, a connection request or the end.
    pub const IN: c_int = 0x001;
    /// Room for data.
    pub const OUT: c_int = 0x004;
    /// A failed `connect`.
    pub const ERR: c_int = 0x008;
    /// The end of the connection.
    pub const HUP: c_int = 0x010;
    /// Normal data, the only kind that exists.
    pub const READ_NORMAL: c_int = 0x040;
    /// Room for normal data.
    pub const WRITE_NORMAL: c_int = 0x100;
    /// The peer no longer sends.
    pub const READ_HUP: c_int = 0x2000;
}

/// Most bytes that `MSG_PEEK` returns.
const MOST_PEEKED: usize = 64 * 1024;

/// How long a call waits.
#[derive(Clone, Copy)]
pub enum Waiting {
    /// Not at all.
    No,
    /// Until this time.
    Until(Instant),
    /// Without limit.
    Yes,
}

impl Waiting {
    /// Makes the limit of a call, from its flags and the socket's own limit.
    pub fn new(socket: &Socket, flags: c_int, limit: Option<Duration>) -> Self {
        match limit {
            _ if flags & flag::DONTWAIT != 0 || socket.is_nonblocking() => Self::No,
            None => Self::Yes,
            Some(limit) => Self::limited(limit),
        }
    }

    /// Waits for at most this long from now.
    pub fn limited(limit: Duration) -> Self {
        Self::Until(Instant::now() + limit)
    }

    /// Shortens the limit to at most this long from now.
    pub fn at_most(self, limit: Duration) -> Self {
        match (self, Self::limited(limit)) {
            (Self::No, _) => Self::No,
            (Self::Until(end), Self::Until(earlier)) if end < earlier => Self::Until(end),
            (_, limited) => limited,
        }
    }

    /// Whether the time is up.
    pub fn is_over(self) -> bool {
        match self {
            Self::No => true,
            Self::Until(end) => Instant::now() >= end,
            Self::Yes => false,
        }
    }

    /// Waits until the endpoint that is the first of `numbers` is ready. `look` says whether it
    /// is, and is called again after one of `events`, or the end, has occurred at any of
    /// `numbers`.
    ///
    /// # Errors
    /// `EAGAIN`; those of the event queue.
    pub fn wait(self, numbers: &[usize], events: Readiness, look: impl Fn() -> bool) -> Result<()> {
        let left = match self {
            Self::No => return Err(EAGAIN),
            Self::Yes => None,
            Self::Until(end) => {
                let left = end.as_nanos().saturating_sub(Instant::now().as_nanos());
                if left == 0 {
                    return Err(EAGAIN);
                }
                Some(Duration::from_nanos(left))
            }
        };
        let events = events.bits();
        let entry = |number: &usize| PollFd::new(*number, events);
        let mut entries: Vec<PollFd> = numbers.iter().map(entry).collect();
        let ready = |index, _: &PollFd| Ok(if index == 0 && look() { events } else { 0 });
        let sign = |_, entry: &PollFd| table::with(entry.epd, Bypass::sign);
        match raw::poll_by(&mut entries, left, ready, sign)? {
            0 => Err(EAGAIN),
            _ => Ok(()),
        }
    }

    /// Waits until a connection request comes to a listener, or it ends.
    ///
    /// # Errors
    /// `EAGAIN`; those of the event queue.
    pub fn wait_for_request(self, number: usize) -> Result<()> {
        self.wait(&[number], Readiness::IN, || has_request(number))
    }

    /// Waits until an endpoint is ready as `wanted` says: until bytes can be received or sent, or
    /// it ends.
    ///
    /// # Errors
    /// `EAGAIN`; those of the event queue.
    pub fn wait_for(self, number: usize, wanted: Readiness) -> Result<()> {
        self.wait(&[number], wanted, || is_ready(number, wanted))
    }
}

/// Whether a connection request waits at a listener, or the listener has ended.
fn has_request(number: usize) -> bool {
    let wanted = Readiness::IN.bits();
    table::with(number, |bypass| {
        bypass.readiness_of_listener(number, wanted)
    }) != Ok(0)
}

/// Whether an endpoint is ready as `wanted` says, or has ended.
pub fn is_ready(number: usize, wanted: Readiness) -> bool {
    let found = table::with(number, |bypass| bypass.readiness(number, wanted.bits()));
    found != Ok(0)
}

/// Whether the peer's node is lost, so that the connection has ended without a close, and data may
/// be missing.
fn is_lost(number: usize) -> bool {
    raw::peer(number).is_ok_and(|peer| !node::is_online(peer.node()))
}

/// Sends bytes.
///
/// # Errors
/// `EAGAIN`, `ECONNRESET`, `EFAULT`, `EINTR`, `ENOTCONN`, `EOPNOTSUPP`, `EPIPE`.
pub fn send(number: usize, socket: &Socket, data: Range<'_>, flags: c_int) -> Result<usize> {
    if flags & flag::OOB != 0 {
        return Err(EOPNOTSUPP);
    }
    let limit = socket.options.lock().send_limit;
    let waiting = Waiting::new(socket, flags, limit);
    let mut state = wait_for_connection(number, socket, waiting)?;
    if state.is_write_shut {
        return Err(EPIPE);
    }
    if data.bytes() == 0 {
        return Ok(0);
    }
    let mut sent = 0;
    loop {
        let flags = match waiting {
            Waiting::Yes => SendFlags::BLOCK.bits(),
            _ => 0,
        };
        let rest = data
            .part(sent, data.bytes() - sent)
            .map_err(|error| error.errno)?;
        let result = table::with(number, |bypass| bypass.send(number, rest, flags));
        state = socket.state();
        match result {
            Ok(count) => sent += count,
            Err(_) if sent > 0 => return Ok(sent),
            Err(_) if state.is_closed => return Err(EBADF),
            Err(EBADF | EINTR) if state.is_write_shut => return Err(EPIPE),
            Err(error) => return behind_the_end(number, socket, error, data.bytes()),
        }
        if sent == data.bytes() {
            return Ok(sent);
        }
        match waiting.wait_for(number, Readiness::OUT) {
            Ok(()) => {}
            Err(_) if sent > 0 => return Ok(sent),
            Err(error) => return Err(error),
        }
    }
}

/// Returns the result of a send that has failed. As with TCP, the first send after the peer's end
/// is accepted and dropped if no receive has reported the end yet: a program that sends a last
/// message to a peer which does not wait for it has done nothing wrong.
fn behind_the_end(number: usize, socket: &Socket, error: i32, count: usize) -> Result<usize> {
    let error = errors::send(error, is_lost(number));
    match error == EPIPE && !socket.knows_end.swap(true, Ordering::Relaxed) {
        true => Ok(count),
        false => Err(error),
    }
}

/// Receives bytes; returns 0 at the end of the stream.
///
/// # Errors
/// `EAGAIN`, `ECONNRESET`, `EFAULT`, `EINTR`, `EINVAL`, `ENOTCONN`.
pub fn receive(number: usize, socket: &Socket, buffer: Range<'_>, flags: c_int) -> Result<usize> {
    if flags & flag::OOB != 0 {
        return Err(EINVAL);
    }
    let limit = socket.options.lock().receive_limit;
    let waiting = Waiting::new(socket, flags, limit);
    let state = wait_for_connection(number, socket, waiting)?;
    if state.is_read_shut || buffer.bytes() == 0 {
        return Ok(0);
    }
    if flags & flag::PEEK != 0 {
        socket.has_peeked.store(true, Ordering::SeqCst);
        return peek(number, socket, buffer, waiting);
    }
    let waits_for_all = flags & flag::WAITALL != 0;
    let mut received = 0;
    loop {
        let rest = buffer
            .part(received, buffer.bytes() - received)
            .map_err(|error| error.errno)?;
        let result = match Direct::enter(socket) {
            Some(_direct) => receive_directly(number, rest, waiting, waits_for_all),
            None => receive_peeked(number, socket, rest),
        };
        let count = match result {
            Ok(count) => count,
            Err(_) if received > 0 => return Ok(received),
            Err(error) => return ended(number, socket, error),
        };
        received += count;
        if received == buffer.bytes() || received > 0 && !waits_for_all {
            return Ok(received);
        }
        match wait_for_bytes(number, socket, waiting) {
            Ok(()) => {}
            Err(_) if received > 0 => return Ok(received),
            Err(error) => return Err(error),
        }
    }
}

/// Waits until there are bytes to receive, or the end.
fn wait_for_bytes(number: usize, socket: &Socket, waiting: Waiting) -> Result<()> {
    waiting.wait(&[number], Readiness::IN, || {
        !socket.peeked.lock().is_empty() || is_ready(number, Readiness::IN)
    })
}

/// Translates the error of a failed call on the ring into the caller's result.
fn ended(number: usize, socket: &Socket, error: i32) -> Result<usize> {
    let state = socket.state();
    match error {
        _ if state.is_closed => Err(EBADF),
        EBADF | EINTR | ECONNRESET if state.is_read_shut => Ok(0),
        error => {
            let told = errors::receive(error, is_lost(number));
            if told.is_ok() {
                socket.knows_end.store(true, Ordering::Relaxed);
            }
            told
        }
    }
}

/// Counts a thread that receives from the ring without the lock on `peeked`. It may sleep in the
/// receive, and the next bytes are its own.
struct Direct<'a>(&'a Socket);

impl<'a> Direct<'a> {
    /// Returns `None` once `MSG_PEEK` was ever used: then callers take turns.
    fn enter(socket: &'a Socket) -> Option<Self> {
        socket.receiving.fetch_add(1, Ordering::SeqCst);
        let direct = Self(socket);
        // A thread that peeks sets `has_peeked` before it reads the count.
        (!socket.has_peeked.load(Ordering::SeqCst)).then_some(direct)
    }
}

impl Drop for Direct<'_> {
    fn drop(&mut self) {
        self.0.receiving.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Receives from the ring; 0 means that it is empty.
fn receive_directly(
    number: usize,
    buffer: Range<'_>,
    waiting: Waiting,
    waits_for_all: bool,
) -> Result<usize> {
    table::with(number, |bypass| match waiting {
        Waiting::Yes if waits_for_all => bypass.recv(number, buffer, RecvFlags::BLOCK.bits()),
        Waiting::Yes => bypass.recv_some(number, buffer),
        _ => bypass.recv(number, buffer, 0),
    })
}

/// Receives bytes that were peeked at, or else from the ring; 0 means that there are none. Callers
/// take turns, so that peeked bytes come first.
fn receive_peeked(number: usize, socket: &Socket, buffer: Range<'_>) -> Result<usize> {
    let mut peeked = socket.peeked.lock();
    if peeked.is_empty() {
        return table::with(number, |bypass| bypass.recv(number, buffer, 0));
    }
    let count = peeked.len().min(buffer.bytes());
    copy_in(buffer, &peeked[..count])?;
    peeked.drain(..count);
    Ok(count)
}

/// Copies the next bytes to the caller and leaves them in place.
fn peek(number: usize, socket: &Socket, buffer: Range<'_>, waiting: Waiting) -> Result<usize> {
    loop {
        let filled = fill(number, socket, buffer.bytes().min(MOST_PEEKED));
        let peeked = socket.peeked.lock();
        let count = peeked.len().min(buffer.bytes());
        if count > 0 {
            copy_in(buffer, &peeked[..count])?;
            return Ok(count);
        }
        drop(peeked);
        if let Err(error) = filled {
            return ended(number, socket, error);
        }
        // A thread that has slept in a receive takes its bytes first.
        runtime::thread::yield_now();
        wait_for_bytes(number, socket, waiting)?;
    }
}

/// Takes bytes from the ring into `peeked`, until it has `wanted` bytes or the ring is empty.
/// Takes none while a thread receives from the ring directly.
fn fill(number: usize, socket: &Socket, wanted: usize) -> Result<()> {
    let mut peeked = socket.peeked.lock();
    if socket.receiving.load(Ordering::SeqCst) > 0 {
        return Ok(());
    }
    let mut bytes = vec![0; wanted.saturating_sub(peeked.len())];
    if bytes.is_empty() {
        return Ok(());
    }
    let count = table::with(number, |bypass| {
        bypass.recv(number, bytes.as_mut_slice(), 0)
    })?;
    peeked.extend_from_slice(&bytes[..count]);
    Ok(())
}

/// `FIONREAD`. Returns how many bytes can be received now, counting no further than can be peeked
/// at.
///
/// # Errors
/// `ENOTCONN`; `EOPNOTSUPP` for messages.
pub fn pending(number: usize, socket: &Socket) -> Result<usize> {
    if socket.transfers.is_some() {
        return Err(EOPNOTSUPP);
    }
    socket.transferring(number)?;
    socket.has_peeked.store(true, Ordering::SeqCst);
    // The end of the connection is no error here.
    let _ = fill(number, socket, MOST_PEEKED);
    Ok(socket.peeked.lock().len())
}

/// Copies into the caller's memory.
///
/// # Errors
/// `EFAULT`.
pub fn copy_in(buffer: Range<'_>, bytes: &[u8]) -> Result<()> {
    let place = buffer
        .part(0, bytes.len())
        .map_err(|error| error.errno)?
        .writable();
    place.ok_or(EFAULT)?.copy_in(bytes);
    Ok(())
}

/// Waits until a socket is connected, and returns its state.
///
/// # Errors
/// `EAGAIN`; the error of the `connect`; `ENOTCONN`.
pub fn wait_for_connection(number: usize, socket: &Socket, waiting: Waiting) -> Result<State> {
    loop {
        match socket.transferring(number) {
            Err(EALREADY) => {
                let settled = socket.settled()?;
                let mut watched = vec![number];
                watched.extend(settled);
                waiting.wait(&watched, Readiness::OUT, || {
                    socket.collect(number);
                    let connects = matches!(socket.state().phase, Phase::Connecting(..));
                    // If another thread has begun the set-up, its end has to be watched, too.
                    !connects || settled.is_none() && socket.settled() != Ok(None)
                })?
            }
            result => return result,
        }
    }
}
