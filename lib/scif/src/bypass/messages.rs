//! The calls that send and receive bytes: `scif_send`, `scif_recv`, `read` and `write`.
//!
//! A short message goes by a function of the rings that does nothing else; what that function does
//! not do goes by the general path, and what that one does not do through the daemon.

use scif_abi::flags::{RecvFlags, SendFlags};
use syscall::error::{EAGAIN, EINTR, ENOMEM};

use super::at_once::is_short;
use super::open::MappedRings;
use super::transfer::Outcome;
use super::{BLOCK, Bypass};
use crate::raw::{self, Data, Result, Room, Source, Target};

impl Bypass {
    /// `scif_send`; see [`raw::send`].
    ///
    /// # Errors
    /// Those of [`raw::send`].
    #[inline]
    pub fn send<'a>(&self, epd: usize, data: impl Data<'a>, flags: u32) -> Result<usize> {
        let bytes = data.bytes();
        if is_short(bytes)
            && flags & !SendFlags::BLOCK.bits() == 0
            && let Some(rings) = self.rings.get()
            && let Some(from) = data.readable()
            && rings.send_short(from)
        {
            return Ok(bytes);
        }
        self.send_long(epd, data.into(), flags)
    }

    /// The general path of `scif_send`.
    #[inline(never)]
    fn send_long(&self, epd: usize, data: Source<'_>, flags: u32) -> Result<usize> {
        let blocking = flags == SendFlags::BLOCK.bits();
        let is_usual = (flags == 0 || blocking) && data.bytes() > 0;
        let mut sent = 0;
        if is_usual
            && let Some(rings) = self.rings(epd, data.bytes(), blocking)
            && let Some(from) = data.readable()
        {
            let least = if blocking { data.bytes() } else { 0 };
            match rings.send(from, least, self.waiting()) {
                Outcome::Done(count) => return Ok(count),
                Outcome::Daemon(count) => sent = count,
                Outcome::Interrupted => return Err(EINTR),
            }
        }
        self.send_through_daemon(epd, data, sent, flags)
    }

    /// Sends the bytes after the first `sent` ones through the daemon.
    #[cold]
    #[inline(never)]
    fn send_through_daemon(
        &self,
        epd: usize,
        data: Source<'_>,
        sent: usize,
        flags: u32,
    ) -> Result<usize> {
        match self.rings.get() {
            Some(rings) => finish(rings, sent, || raw::send(epd, data.rest(sent)?, flags)),
            None => self.through_daemon(epd, || raw::send(epd, data, flags)),
        }
    }

    /// `scif_recv`; see [`raw::recv`].
    ///
    /// # Errors
    /// Those of [`raw::recv`].
    #[inline]
    pub fn recv<'a>(&self, epd: usize, mut buffer: impl Room<'a>, flags: u32) -> Result<usize> {
        let bytes = buffer.bytes();
        if let Some(rings) = self.rings.get()
            && let Some(to) = buffer.writable()
        {
            let received = match flags {
                0 if bytes > 0 => rings.recv_now_short(to).get(),
                BLOCK if is_short(bytes) => rings.recv_all_short(to).get(),
                _ => None,
            };
            if let Some(count) = received {
                return Ok(count);
            }
        }
        self.recv_long(epd, buffer.into(), flags)
    }

    /// The general path of `scif_recv`.
    #[inline(never)]
    fn recv_long(&self, epd: usize, mut buffer: Target<'_>, flags: u32) -> Result<usize> {
        let blocking = flags == RecvFlags::BLOCK.bits();
        let is_usual = (flags == 0 || blocking) && buffer.bytes() > 0;
        let least = if blocking { buffer.bytes() } else { 0 };
        let mut received = 0;
        if is_usual
            && let Some(rings) = self.rings(epd, buffer.bytes(), blocking)
            && let Some(mut to) = buffer.writable()
        {
            let waiting = self.waiting();
            if blocking
                && is_short(least)
                && rings.bytes_come_soon(waiting)
                && let Some(count) = rings.recv_all_short(to.part(0, least)).get()
            {
                return Ok(count);
            }
            match rings.recv(to, least, waiting) {
                Outcome::Done(count) => return Ok(count),
                Outcome::Daemon(count) => received = count,
                Outcome::Interrupted => return Err(EINTR),
            }
        }
        self.recv_through_daemon(epd, buffer, received, flags)
    }

    /// Receives the bytes after the first `received` ones through the daemon.
    #[cold]
    #[inline(never)]
    fn recv_through_daemon(
        &self,
        epd: usize,
        buffer: Target<'_>,
        received: usize,
        flags: u32,
    ) -> Result<usize> {
        match self.rings.get() {
            Some(rings) => finish(rings, received, || {
                raw::recv(epd, buffer.rest(received)?, flags)
            }),
            None => self.through_daemon(epd, || raw::recv(epd, buffer, flags)),
        }
    }

    /// Receives the bytes that have arrived, as `read` of the file does. Waits for the first one,
    /// unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    /// Those of [`raw::read`]; `EFAULT`.
    pub fn read<'a>(&self, epd: usize, buffer: impl Into<Target<'a>>) -> Result<usize> {
        let mut buffer = buffer.into();
        if buffer.bytes() > 0
            && let Some(rings) = self.rings.get()
            && let Some(to) = buffer.writable()
        {
            match rings.recv(to, 0, self.waiting()) {
                Outcome::Done(0) => match rings.file_waits(epd) {
                    Some(true) => return self.recv_some(epd, buffer),
                    Some(false) => return Err(EAGAIN),
                    None => {}
                },
                Outcome::Done(count) => return Ok(count),
                Outcome::Daemon(_) | Outcome::Interrupted => {}
            }
        }
        self.through_daemon(epd, || raw::read(epd, buffer))
    }

    /// Sends bytes as `write` to the file does: waits until all of them are taken, unless the
    /// descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    /// Those of [`raw::write`]; `EFAULT`.
    pub fn write<'a>(&self, epd: usize, data: impl Into<Source<'a>>) -> Result<usize> {
        let data = data.into();
        let waits = self.rings.get().is_none()
            && data.bytes() > raw::MOST_BYTES
            && raw::is_nonblocking(epd) == Ok(false);
        let Some(rings) = self.rings(epd, data.bytes(), waits) else {
            return self.through_daemon(epd, || raw::write(epd, data));
        };
        let mut sent = 0;
        if data.bytes() > 0
            && let Some(from) = data.readable()
        {
            if is_short(data.bytes()) && rings.send_short(from) {
                return Ok(data.bytes());
            }
            if let Some(waits) = rings.file_waits(epd) {
                let least = if waits { data.bytes() } else { 0 };
                match rings.send(from, least, self.waiting()) {
                    Outcome::Done(0) => return Err(EAGAIN),
                    Outcome::Done(count) => return Ok(count),
                    Outcome::Daemon(count) => sent = count,
                    Outcome::Interrupted => return Err(EINTR),
                }
            }
        }
        finish(rings, sent, || raw::write(epd, data.rest(sent)?))
    }

    /// Receives the bytes that have arrived. Waits for the first one as the other blocking calls
    /// do, by polling for a while. The descriptor must not have `O_NONBLOCK`.
    ///
    /// # Errors
    /// Those of [`raw::read`]; `EFAULT`.
    pub fn recv_some<'a>(&self, epd: usize, buffer: impl Into<Target<'a>>) -> Result<usize> {
        let mut buffer = buffer.into();
        let bytes = buffer.bytes();
        if bytes > 0
            && let Some(rings) = self.rings.get()
            && let Some(mut to) = buffer.writable()
        {
            let waiting = self.waiting();
            if rings.bytes_come_soon(waiting)
                && let Some(count) = rings.recv_some_short(to.part(0, bytes)).get()
            {
                return Ok(count);
            }
            match rings.recv(to, 1, waiting) {
                Outcome::Done(count) | Outcome::Daemon(count @ 1..) => return Ok(count),
                Outcome::Daemon(0) => {}
                Outcome::Interrupted => return Err(EINTR),
            }
        }
        self.through_daemon(epd, || raw::read(epd, buffer))
    }
}

impl MappedRings {
    /// Whether reads and writes of the endpoint's file wait. `None`: another thread has closed the
    /// descriptor.
    fn file_waits(&self, epd: usize) -> Option<bool> {
        let is_nonblocking = raw::is_nonblocking(epd);
        // Asked behind the other question, as the number may have meant another file.
        let is_open = !self.is_closed();
        is_nonblocking.ok().filter(|_| is_open).map(|is| !is)
    }
}

/// The result of a call that moved `moved` bytes itself and leaves the rest to the daemon.
#[cold]
fn finish(
    rings: &MappedRings,
    moved: usize,
    rest: impl FnOnce() -> Result<usize>,
) -> Result<usize> {
    let result = if rings.is_closed() {
        // Another thread has closed the descriptor; its number may be another endpoint's by now.
        Err(EINTR)
    } else {
        rest()
    };
    match result {
        Ok(count) => Ok(moved + count),
        // As for a call that the daemon makes alone: this call returns the count, and the next one
        // fails. But without memory for the buffer the daemon may have moved bytes that nobody has.
        Err(error) if moved > 0 && error != ENOMEM => Ok(moved),
        Err(error) => Err(error),
    }
}
