//! The data path without the daemon: a connection's rings, and windows, mapped into this program.
//!
//! A [`Direct`] accompanies one descriptor of an endpoint and offers the calls of [`raw`] that move
//! data. The first few go through the daemon, as a program that sends a word and leaves should not
//! pay for mappings; then the rings are mapped, if daemon and peer allow it, and calls work on them
//! with plain loads and stores. Whatever is unusual goes through the daemon as before: a
//! connection that ends, a lock that somebody holds for long, bad arguments. So there is one place
//! that knows every rule and gives every error.
//!
//! Other descriptors of the same endpoint, in this program or another, may be used at the same time
//! in any way. What they must not do is close this one: the number may then mean something else.

mod control;
mod memory;
mod open;
mod patience;
mod pulse;
mod rma;
mod transfer;
mod windows;

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use platform::pause::yield_now;
use scif_abi::flags::{Readiness, RecvFlags, SendFlags};
use syscall::error::EINTR;

use crate::raw::{self, Result, Source, Target};
use open::Opened;
use rma::Local;
use transfer::Outcome;
use windows::Use;

pub use patience::Waiting;

/// Calls that go through the daemon before anything is mapped.
const FIRST_CALLS: u32 = 4;
/// Bytes that a read of a descriptor with mapped rings waits for in the daemon at most, so that
/// there is no whole page among them. Redox's kernel lends whole pages as they are, with the
/// address space they are from: when the program is killed meanwhile, that is torn down in the
/// daemon, which then waits for itself to unmap the rings.
const MOST_WAITING: usize = 4095;
/// The count of calls of a descriptor that will never have anything mapped.
const NEVER: u32 = u32::MAX;

/// How threads wait for another one that maps the rings, which takes a dozen calls: on one
/// processor it goes on only when they give that away.
struct GiveWay;

impl spin::RelaxStrategy for GiveWay {
    fn relax() {
        yield_now();
    }
}

/// What one descriptor of an endpoint has mapped.
#[derive(Default)]
pub struct Direct {
    opened: spin::once::Once<Opened, GiveWay>,
    /// Calls so far; more are not counted once it is decided.
    calls: AtomicU32,
    /// A [`Waiting`].
    waiting: AtomicU8,
}

impl Direct {
    /// Nothing is mapped.
    pub const fn new() -> Self {
        Self {
            opened: spin::once::Once::new(),
            calls: AtomicU32::new(0),
            waiting: AtomicU8::new(Waiting::Adaptive as u8),
        }
    }

    /// Maps the rings now: for who knows that much will be sent.
    ///
    /// # Errors
    /// `ENOTCONN`, `EOPNOTSUPP` when daemon or peer do not allow it, `ENOMEM`.
    pub fn prepare(&self, epd: usize) -> Result<()> {
        match self.opened.try_call_once(|| Opened::new(epd)) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.number()),
        }
    }

    /// Counts a call that the daemon has carried out, and maps the rings if it is time to. Not
    /// before, so that calls that fail leave nothing behind.
    #[cold]
    fn count(&self, epd: usize) {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls == NEVER || self.opened.is_completed() {
            return;
        }
        // Threads that count at the same time count one call less.
        let mut calls = calls + 1;
        if calls >= FIRST_CALLS {
            let opened = self.opened.try_call_once(|| Opened::new(epd));
            let is_final = opened.is_err_and(|failure| !failure.is_temporary());
            calls = if is_final { NEVER } else { 0 };
        }
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// Whether another thread has closed the descriptor, while rings were mapped.
    fn is_closed(&self) -> bool {
        self.opened.get().is_some_and(Opened::is_closed)
    }

    /// Makes a call of the daemon's that stands for one of the direct path.
    ///
    /// # Errors
    /// Those of the call. `EINTR`: another thread has closed the descriptor, whose number may be
    /// another endpoint's by now.
    fn through_daemon<T>(&self, epd: usize, call: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.is_closed() {
            return Err(EINTR);
        }
        let result = call();
        if result.is_ok() {
            self.count(epd);
        }
        result
    }

    /// How blocking calls wait from now on.
    pub fn set_waiting(&self, waiting: Waiting) {
        self.waiting.store(waiting as u8, Ordering::Relaxed);
    }

    /// The number of the way blocking calls wait.
    #[inline]
    fn waiting(&self) -> u8 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// `scif_send`; see [`raw::send`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn send<'a>(&self, epd: usize, data: impl Into<Source<'a>>, flags: u32) -> Result<usize> {
        let data = data.into();
        let blocking = flags == SendFlags::BLOCK.bits();
        let is_usual = (flags == 0 || blocking) && data.bytes() > 0;
        let mut sent = 0;
        if is_usual
            && let Some(opened) = self.opened.get()
            && let Some(from) = data.readable()
        {
            match opened.send(from, blocking, self.waiting()) {
                Outcome::Done(count) => return Ok(count),
                Outcome::Daemon(count) => sent = count,
                Outcome::Interrupted => return Err(EINTR),
            }
        }
        self.send_through_daemon(epd, data, sent, flags)
    }

    /// Sends what is behind the first `sent` bytes.
    #[cold]
    #[inline(never)]
    fn send_through_daemon(
        &self,
        epd: usize,
        data: Source<'_>,
        sent: usize,
        flags: u32,
    ) -> Result<usize> {
        match self.opened.get() {
            Some(opened) => finish(opened, sent, || raw::send(epd, data.rest(sent)?, flags)),
            None => self.through_daemon(epd, || raw::send(epd, data, flags)),
        }
    }

    /// `scif_recv`; see [`raw::recv`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn recv<'a>(&self, epd: usize, buffer: impl Into<Target<'a>>, flags: u32) -> Result<usize> {
        let mut buffer = buffer.into();
        let blocking = flags == RecvFlags::BLOCK.bits();
        let is_usual = (flags == 0 || blocking) && buffer.bytes() > 0;
        let mut received = 0;
        if is_usual
            && let Some(opened) = self.opened.get()
            && let Some(to) = buffer.writable()
        {
            match opened.recv(to, blocking, self.waiting()) {
                Outcome::Done(count) => return Ok(count),
                Outcome::Daemon(count) => received = count,
                Outcome::Interrupted => return Err(EINTR),
            }
        }
        self.recv_through_daemon(epd, buffer, received, flags)
    }

    /// Receives what is behind the first `received` bytes.
    #[cold]
    #[inline(never)]
    fn recv_through_daemon(
        &self,
        epd: usize,
        buffer: Target<'_>,
        received: usize,
        flags: u32,
    ) -> Result<usize> {
        match self.opened.get() {
            Some(opened) => finish(opened, received, || {
                raw::recv(epd, buffer.rest(received)?, flags)
            }),
            None => self.through_daemon(epd, || raw::recv(epd, buffer, flags)),
        }
    }

    /// Takes what is there, as `read` of the file does; waits for the first byte.
    ///
    /// # Errors
    /// As `read`.
    pub fn read(&self, epd: usize, buffer: &mut [u8]) -> Result<usize> {
        if let Some(opened) = self.opened.get() {
            let there = opened.recv(buffer.into(), false, self.waiting());
            if let Outcome::Done(count @ 1..) = there {
                return Ok(count);
            }
        }
        // There is nothing: whether to wait for it is a matter of the descriptor's flags.
        let most = match self.opened.get() {
            Some(_) => buffer.len().min(MOST_WAITING),
            None => buffer.len(),
        };
        self.through_daemon(epd, || {
            libredox::call::read(epd, &mut buffer[..most]).map_err(|error| error.errno())
        })
    }

    /// What an endpoint is ready for; see [`raw::readiness`].
    ///
    /// # Errors
    /// As there.
    pub fn readiness(&self, epd: usize, events: u16) -> Result<u16> {
        let wanted = Readiness::from_bits_truncate(events);
        let found = self
            .opened
            .get()
            .and_then(|opened| opened.readiness(wanted));
        match found {
            Some(ready) => Ok(ready.bits()),
            None if self.is_closed() => Err(EINTR),
            None => raw::readiness(epd, events),
        }
    }

    /// Lets go of windows that have gone since the last call, the peer's and own ones: for calls
    /// that move nothing and go through the daemon anyway. Before one that registers memory and
    /// after one that unregisters, as what is mapped still counts as registered.
    pub fn look(&self) {
        if let Some(opened) = self.opened.get() {
            opened.look();
        }
    }

    /// The descriptor is about to be closed, though other threads may be in calls: these stop, and
    /// nothing is moved or mapped any more. What is mapped goes when this is dropped.
    pub fn detach(&self) {
        if let Some(opened) = self.opened.get() {
            opened.detach();
        }
    }

    /// `scif_readfrom`; see [`raw::readfrom`].
    ///
    /// # Errors
    /// As there.
    pub fn readfrom(
        &self,
        epd: usize,
        local: i64,
        length: u64,
        remote: i64,
        flags: u32,
    ) -> Result<()> {
        let from = (remote, Use::Read);
        match self.transfer(epd, Local::Window(local), from, length, flags) {
            true => Ok(()),
            false => self.through_daemon(epd, || raw::readfrom(epd, local, length, remote, flags)),
        }
    }

    /// `scif_writeto`; see [`raw::writeto`].
    ///
    /// # Errors
    /// As there.
    pub fn writeto(
        &self,
        epd: usize,
        local: i64,
        length: u64,
        remote: i64,
        flags: u32,
    ) -> Result<()> {
        let to = (remote, Use::Write);
        match self.transfer(epd, Local::Window(local), to, length, flags) {
            true => Ok(()),
            false => self.through_daemon(epd, || raw::writeto(epd, local, length, remote, flags)),
        }
    }

    /// `scif_vreadfrom`; see [`raw::vreadfrom`]. Complete on return.
    ///
    /// # Errors
    /// As there.
    pub fn vreadfrom<'a>(
        &self,
        epd: usize,
        to: impl Into<Target<'a>>,
        remote: i64,
        flags: u32,
    ) -> Result<()> {
        let mut to = to.into();
        let length = to.bytes() as u64;
        let done = to.writable().is_some_and(|to| {
            self.transfer(epd, Local::To(to), (remote, Use::Read), length, flags)
        });
        match done {
            true => Ok(()),
            false => self.through_daemon(epd, || raw::vreadfrom(epd, to, remote, flags)),
        }
    }

    /// `scif_vwriteto`; see [`raw::vwriteto`]. Complete on return.
    ///
    /// # Errors
    /// As there.
    pub fn vwriteto<'a>(
        &self,
        epd: usize,
        from: impl Into<Source<'a>>,
        remote: i64,
        flags: u32,
    ) -> Result<()> {
        let from = from.into();
        let length = from.bytes() as u64;
        let done = from.readable().is_some_and(|from| {
            self.transfer(epd, Local::From(from), (remote, Use::Write), length, flags)
        });
        match done {
            true => Ok(()),
            false => self.through_daemon(epd, || raw::vwriteto(epd, from, remote, flags)),
        }
    }

    fn transfer(
        &self,
        epd: usize,
        local: Local<'_>,
        remote: (i64, Use),
        length: u64,
        flags: u32,
    ) -> bool {
        let opened = self.opened.get();
        opened.is_some_and(|opened| opened.transfer(epd, local, remote, length, flags))
    }
}

/// What a call gives that moved `moved` bytes before it asked the daemon for the rest.
#[cold]
fn finish(opened: &Opened, moved: usize, rest: impl FnOnce() -> Result<usize>) -> Result<usize> {
    let result = if opened.is_closed() {
        // Another thread has closed the descriptor; its number may be another endpoint's by now.
        Err(EINTR)
    } else {
        rest()
    };
    match result {
        Ok(count) => Ok(moved + count),
        // As if the daemon had moved all of it: the next call fails.
        Err(_) if moved > 0 => Ok(moved),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
