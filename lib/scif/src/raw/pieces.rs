//! Transfers in pieces of less than a page, none of which waits in a request: for kernels that do
//! not end the requests of processes that have died ([`hal::kernel::ends_abandoned_requests`]).
//!
//! Such a kernel lends whole pages of a payload to the daemon, together with a reference to the
//! program's address space. If the program is killed before the answer, the daemon drops the last
//! reference and waits for itself to unmap what the program had mapped of it. Pieces of a page are
//! copied instead. A request to a daemon that has died is never answered there, so a call waits in
//! an event queue, and repeats its request at intervals.
//!
//! On such a kernel large blocking transfers of several processes through one endpoint may mix,
//! where the rings cannot be mapped ([`crate::bypass`]).

use core::time::Duration;

use hal::kernel::ends_abandoned_requests;
use libredox::Fd;
use scif_abi::call::Call;
use scif_abi::flags::{Readiness, RecvFlags, SendFlags};
use syscall::PAGE_SIZE;
use syscall::error::{EAGAIN, EBADF, EFAULT, EINTR, ENOMEM, ENOTTY, ENXIO};

use super::{
    Data, PollFd, Range, Result, Room, Source, Target, companion, fill, is_nonblocking, is_there,
    plain, poll, send, with_payload,
};

/// The most bytes of a payload that hold no whole page, wherever they lie.
pub(crate) const MOST_BYTES: usize = PAGE_SIZE - 1;

/// The pause of a [`Wait`] when nothing was moved since the wait before: another program's
/// transfer goes first.
const PAUSE: Duration = Duration::from_millis(1);

/// Whether a payload of this many bytes must be split into pieces.
pub(super) fn are_needed(bytes: usize) -> bool {
    bytes > MOST_BYTES && !ends_abandoned_requests()
}

/// Waits for events of an endpoint, in an event queue.
struct Wait {
    epd: usize,
    events: Readiness,
    /// Whether nothing was moved since the last wait.
    was_vain: bool,
}

impl Wait {
    fn new(epd: usize, events: Readiness) -> Self {
        Self {
            epd,
            events,
            was_vain: false,
        }
    }

    fn wait(&mut self) -> Result<()> {
        if self.was_vain {
            poll(&mut [], Some(PAUSE))?;
        }
        self.was_vain = true;
        poll(&mut [PollFd::new(self.epd, self.events.bits())], None)?;
        Ok(())
    }

    fn end(&mut self) {
        self.was_vain = false;
    }
}

/// `scif_send` of all of `data`, which has at least one byte.
pub(super) fn send_all(epd: usize, data: Source<'_>) -> Result<usize> {
    if let Source::Range(range) = data {
        check(range)?;
    }
    let mut wait = Wait::new(epd, Readiness::OUT);
    let mut sent = 0;
    while sent < data.bytes() {
        let more = match send(epd, data.rest(sent)?, SendFlags::empty().bits()) {
            Ok(0) => wait.wait(),
            Ok(count) => {
                wait.end();
                sent += count;
                Ok(())
            }
            Err(error) => Err(error),
        };
        match more {
            Ok(()) => {}
            Err(_) if sent > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// `scif_recv` into a buffer of at least one byte; with `waits` until the buffer is full.
pub(super) fn recv(epd: usize, mut buffer: Target<'_>, waits: bool) -> Result<usize> {
    check_room(&mut buffer)?;
    let mut wait = Wait::new(epd, Readiness::IN);
    let mut received = 0;
    while received < buffer.bytes() {
        let piece = buffer.piece(received, MOST_BYTES)?;
        let room = piece.bytes();
        let more = match recv_now(epd, piece) {
            Ok(0) if waits => wait.wait(),
            Ok(count) => {
                wait.end();
                received += count;
                if count < room && !waits {
                    break;
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        match more {
            Ok(()) => {}
            // Without memory for the buffer the daemon may have taken bytes that nobody has.
            Err(error) if received > 0 && error != ENOMEM => break,
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

/// `read` of the endpoint's file into a buffer of at least one byte.
pub(super) fn read(epd: usize, mut buffer: Target<'_>) -> Result<usize> {
    check_room(&mut buffer)?;
    let mut wait = Wait::new(epd, Readiness::IN);
    loop {
        match recv_now(epd, buffer.piece(0, MOST_BYTES)?) {
            Ok(0) => {}
            // The descriptor is another file of the scheme.
            Err(ENOTTY) => return super::read_file(epd, buffer.first(MOST_BYTES)?),
            result => return result,
        }
        if is_nonblocking(epd)? {
            return Err(EAGAIN);
        }
        wait.wait()?;
    }
}

/// `write` of at least one byte to the endpoint's file.
pub(super) fn write(epd: usize, data: Source<'_>) -> Result<usize> {
    if !is_nonblocking(epd)? {
        return match send_all(epd, data) {
            // The descriptor is another file of the scheme.
            Err(ENOTTY) => super::write_file(epd, data.first(MOST_BYTES)?),
            result => result,
        };
    }
    match send(epd, data, SendFlags::empty().bits())? {
        0 => Err(EAGAIN),
        count => Ok(count),
    }
}

/// Accepts the next connection of a listener and returns its descriptor.
pub(super) fn accept(epd: usize) -> Result<Fd> {
    let mut wait = Wait::new(epd, Readiness::IN);
    let mut has_waited = false;
    loop {
        match companion(epd, b"accept-now") {
            Err(EAGAIN) => wait.wait()?,
            // Another thread has closed the listener meanwhile.
            Err(EBADF) if has_waited => return Err(EINTR),
            result => return result,
        }
        has_waited = true;
    }
}

/// Receives the bytes that have arrived, perhaps none.
fn recv_now(epd: usize, piece: Target<'_>) -> Result<usize> {
    let flags = RecvFlags::empty().bits();
    match piece {
        Target::Slice(bytes) => with_payload(epd, Call::Recv { flags }, bytes),
        Target::Range(range) => fill(epd, range, &Call::Recv { flags }),
    }
}

/// `scif_vreadfrom` of more than [`MOST_BYTES`] bytes.
pub(super) fn vreadfrom(epd: usize, mut to: Target<'_>, remote: i64, flags: u32) -> Result<()> {
    check_room(&mut to)?;
    check_remote(epd, remote, to.bytes())?;
    let mut done = 0;
    while done < to.bytes() {
        let piece = to.piece(done, MOST_BYTES)?;
        let bytes = piece.bytes();
        let call = Call::VirtualReadFrom {
            remote_offset: remote.wrapping_add_unsigned(done as u64),
            flags,
        };
        match piece {
            Target::Slice(bytes) => with_payload(epd, call, bytes)?,
            Target::Range(range) => fill(epd, range, &call)?,
        };
        done += bytes;
    }
    Ok(())
}

/// `scif_vwriteto` of more than [`MOST_BYTES`] bytes; `from` is a copy that the caller made.
pub(super) fn vwriteto(epd: usize, from: &mut [u8], remote: i64, flags: u32) -> Result<()> {
    check_remote(epd, remote, from.len())?;
    for (index, piece) in from.chunks_mut(MOST_BYTES).enumerate() {
        let done = (index * MOST_BYTES) as u64;
        let call = Call::VirtualWriteTo {
            remote_offset: remote.wrapping_add_unsigned(done),
            flags,
        };
        with_payload(epd, call, piece)?;
    }
    Ok(())
}

/// Checks that all of the peer's windows are there before the first piece is copied, because a
/// transfer that fails must copy nothing.
fn check_remote(epd: usize, remote: i64, bytes: usize) -> Result<()> {
    let start = remote - remote.rem_euclid(PAGE_SIZE as i64);
    let length = (remote - start) as usize + bytes;
    let length = length.next_multiple_of(PAGE_SIZE) as u64;
    let mut done = 0;
    while done < length {
        let call = Call::MapRun {
            remote_offset: start.wrapping_add_unsigned(done),
            length: length - done,
        };
        match plain(epd, call) {
            Err(ENXIO) => return Err(ENXIO),
            // The transfer itself reports any other error, with its first byte.
            Err(_) | Ok(0) => break,
            Ok(run) => done += run as u64,
        }
    }
    Ok(())
}

/// Checks that memory given by address can be read, before the first byte is moved.
fn check(range: Range<'_>) -> Result<()> {
    match range.readable().is_some() || is_there(range) {
        true => Ok(()),
        false => Err(EFAULT),
    }
}

/// Checks that memory given by address can be written, before the first byte is moved.
fn check_room(to: &mut Target<'_>) -> Result<()> {
    match to.bytes() == 0 || to.writable().is_some() {
        true => Ok(()),
        false => Err(EFAULT),
    }
}
