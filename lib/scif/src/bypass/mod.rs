//! The bypass: a connection's rings and windows, mapped into this program, so that data moves
//! without the daemon.
//!
//! A [`Bypass`] belongs to one descriptor of an endpoint and offers the calls of [`raw`] that move
//! data. The first few calls go through the daemon, because a program that sends a word and leaves
//! should not pay for mappings. Then the rings are mapped, if daemon and peer allow it, and calls
//! work on them with plain loads and stores. Every unusual case still goes through the daemon: a
//! connection that ends, a lock that is held for long, bad arguments. So the rules are in one
//! place, the daemon, and every error comes from there.
//!
//! Other descriptors of the same endpoint may be used at the same time. A program that closes the
//! descriptor while calls on it are under way calls [`Bypass::detach`] before, because the number
//! may mean another file afterwards.

mod at_once;
mod busy_poll;
mod control;
mod fences;
mod fork;
mod liveness;
mod memory;
mod messages;
mod open;
mod records;
mod requests;
mod rma;
mod short_write;
mod sleep;
mod stores;
mod transfer;
mod windows;

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use hal::kernel::ends_abandoned_requests;
use hal::mem::PAGE;
use hal::pause::yield_now;
use scif_abi::call::Call;
use scif_abi::flags::{Readiness, RecvFlags};
use syscall::error::{EINTR, EINVAL, EOPNOTSUPP};

use crate::raw::{self, Data, Result, Room, Source, Target};
use at_once::is_short;
use open::MappedRings;
use requests::RequestWatch;
use rma::Local;
use windows::Use;

pub use busy_poll::{BusyPoll, Waiting};
pub use records::Peeked;
pub use short_write::ShortWrite;

/// How many calls go through the daemon before the rings are mapped.
const FIRST_CALLS: u32 = 4;
/// How many times, at most, this number doubles. It doubles when mapping fails, because each try
/// costs the daemon a request.
const MOST_DOUBLINGS: u32 = 10;
/// The flags of a receive that waits for all its bytes.
const BLOCK: u32 = RecvFlags::BLOCK.bits();

/// The value of [`Bypass::calls`] for a descriptor whose rings can never be mapped.
const NEVER: u32 = u32::MAX;

/// How a thread waits while another one maps the rings, which takes a dozen system calls. It
/// yields, because that thread may need this processor.
struct YieldingWait;

impl spin::RelaxStrategy for YieldingWait {
    fn relax() {
        yield_now();
    }
}

/// The bypass of one descriptor of an endpoint.
#[derive(Default)]
pub struct Bypass {
    rings: spin::once::Once<MappedRings, YieldingWait>,
    /// Successful calls through the daemon since the start or since the last try to map the rings.
    calls: AtomicU32,
    /// How many tries to map the rings have failed.
    failures: AtomicU32,
    /// Watches the requests at a listener; made when its readiness is first asked for. `None`: the
    /// system had no room for it.
    requests: spin::once::Once<Option<RequestWatch>, YieldingWait>,
    /// The number of a [`Waiting`].
    waiting: AtomicU8,
}

impl Bypass {
    /// A bypass with nothing mapped.
    pub const fn new() -> Self {
        Self {
            rings: spin::once::Once::new(),
            calls: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            requests: spin::once::Once::new(),
            waiting: AtomicU8::new(Waiting::Adaptive as u8),
        }
    }

    /// Maps the rings now instead of after some calls, for programs that will send much.
    ///
    /// # Errors
    /// `ENOTCONN`, `EOPNOTSUPP` when daemon or peer do not allow it, `ENOMEM`.
    pub fn prepare(&self, epd: usize) -> Result<()> {
        match self.rings.try_call_once(|| MappedRings::new(epd)) {
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.number()),
        }
    }

    /// Counts a call that the daemon has carried out, and maps the rings after enough of them.
    /// Failed calls are not counted, so that they leave nothing mapped.
    #[cold]
    fn count(&self, epd: usize) {
        let calls = self.calls.load(Ordering::Relaxed);
        if calls == NEVER || self.rings.is_completed() {
            return;
        }
        let doublings = self.failures.load(Ordering::Relaxed).min(MOST_DOUBLINGS);
        // Concurrent calls may be counted as one.
        match calls + 1 {
            calls if calls >= FIRST_CALLS << doublings => self.try_to_map(epd),
            calls => self.calls.store(calls, Ordering::Relaxed),
        }
    }

    /// Maps the rings, unless that is known to be impossible.
    #[cold]
    fn try_to_map(&self, epd: usize) {
        if self.calls.load(Ordering::Relaxed) == NEVER {
            return;
        }
        let rings = self.rings.try_call_once(|| MappedRings::new(epd));
        if rings.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        let is_final = rings.is_err_and(|failure| !failure.is_temporary());
        let calls = if is_final { NEVER } else { 0 };
        self.calls.store(calls, Ordering::Relaxed);
    }

    /// The rings for a transfer of `bytes` bytes, if they are mapped. The first long transfer that
    /// `waits` maps them on a kernel that does not end abandoned requests. There the daemon must
    /// not hold more than a page of a program's data while it waits, and so the bytes of such a
    /// transfer stay together only on the rings ([`raw`]).
    #[inline]
    fn rings(&self, epd: usize, bytes: usize, waits: bool) -> Option<&MappedRings> {
        if waits
            && bytes > raw::MOST_BYTES
            && !self.rings.is_completed()
            && !ends_abandoned_requests()
        {
            self.try_to_map(epd);
        }
        self.rings.get()
    }

    /// Whether the descriptor was [detached](Self::detach) while the rings were mapped.
    fn is_closed(&self) -> bool {
        self.rings.get().is_some_and(MappedRings::is_closed)
    }

    /// Makes a call through the daemon, because the bypass cannot make it.
    ///
    /// # Errors
    /// Those of the call. `EINTR`: another thread has closed the descriptor, and its number may be
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

    /// Sets how blocking calls wait from now on.
    pub fn set_waiting(&self, waiting: Waiting) {
        self.waiting.store(waiting as u8, Ordering::Relaxed);
    }

    /// The number of the [`Waiting`] in force.
    #[inline]
    fn waiting(&self) -> u8 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The readiness of an endpoint; see [`raw::readiness`].
    ///
    /// # Errors
    /// Those of [`raw::readiness`]. `EINTR`: another thread has closed the descriptor.
    pub fn readiness(&self, epd: usize, events: u16) -> Result<u16> {
        let wanted = Readiness::from_bits_truncate(events);
        let found = self.rings.get().and_then(|rings| rings.readiness(wanted));
        match found {
            Some(ready) => Ok(ready.bits()),
            None if self.is_closed() => Err(EINTR),
            None => raw::readiness(epd, events),
        }
    }

    /// Unmaps windows, of either side, that were unregistered since the last call. Callers do this
    /// before a registration and after an unregistration, because a window counts as registered
    /// while a client has it mapped.
    pub fn release_stale(&self) {
        if let Some(rings) = self.rings.get() {
            rings.release_stale();
        }
    }

    /// Notes that the descriptor is about to be closed. Calls of other threads stop, and nothing
    /// more is moved or mapped. What is mapped stays mapped until this value is dropped.
    pub fn detach(&self) {
        if let Some(rings) = self.rings.get() {
            rings.detach();
        }
    }

    /// `scif_readfrom`; see [`raw::readfrom`].
    ///
    /// # Errors
    /// Those of [`raw::readfrom`].
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
    /// Those of [`raw::writeto`].
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
    /// Those of [`raw::vreadfrom`].
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
    /// Those of [`raw::vwriteto`].
    #[inline]
    pub fn vwriteto<'a>(
        &self,
        epd: usize,
        from: impl Data<'a>,
        remote: i64,
        flags: u32,
    ) -> Result<()> {
        if is_short(from.bytes())
            && rma::is_known(flags)
            && let Some(rings) = self.rings.get()
            && let Some(from) = from.readable()
            && rings.put_short(from, remote).is_some()
            && rings.reaches_peer()
        {
            return Ok(());
        }
        self.vwriteto_long(epd, from.into(), remote, flags)
    }

    /// `scif_vwriteto` of any length.
    #[inline(never)]
    fn vwriteto_long(&self, epd: usize, from: Source<'_>, remote: i64, flags: u32) -> Result<()> {
        let length = from.bytes() as u64;
        let done = from.readable().is_some_and(|from| {
            self.transfer(epd, Local::From(from), (remote, Use::Write), length, flags)
        });
        match done {
            true => Ok(()),
            false => self.through_daemon(epd, || raw::vwriteto(epd, from, remote, flags)),
        }
    }

    /// Maps a range of the peer's windows now instead of at its second use. Whenever other windows
    /// of the connection have gone, the first use maps it again.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when the rings are not mapped or the range cannot be mapped; `ENXIO`,
    /// `ENOTCONN`, `ECONNRESET` as for a transfer.
    pub fn prepare_window(&self, epd: usize, offset: i64, length: u64) -> Result<()> {
        let rings = self.rings.get();
        if rings.is_some_and(|rings| rings.prepare_window(epd, offset, length)) {
            return Ok(());
        }
        self.forget_window(offset);
        Err(self.no_mapping(epd, offset, length))
    }

    /// Reverts [`prepare_window`](Self::prepare_window) for the range at `offset`.
    pub fn forget_window(&self, offset: i64) {
        if let Some(rings) = self.rings.get() {
            rings.forget_window(offset);
        }
    }

    /// Makes an atomic operation on a double word (8 bytes) of the peer's windows. Returns what
    /// `operation` returns; `operation` must not use this bypass.
    ///
    /// # Errors
    /// `EINVAL` unless the offset is a multiple of 8. `EOPNOTSUPP`: the rings are not mapped, or
    /// the peer is a card whose bus has no locked operations. `ENXIO`, `ENOTCONN`, `ECONNRESET` as
    /// for a transfer.
    pub fn fetch(
        &self,
        epd: usize,
        offset: i64,
        operation: impl FnOnce(&AtomicU64) -> u64,
    ) -> Result<u64> {
        const BYTES: u64 = size_of::<u64>() as u64;
        if offset % BYTES as i64 != 0 {
            return Err(EINVAL);
        }
        let rings = self.rings.get().filter(|rings| !rings.gathers());
        let value = rings.and_then(|rings| rings.fetch(epd, offset, operation));
        value.ok_or_else(|| self.no_mapping(epd, offset, BYTES))
    }

    /// The reason why a range of the peer's windows is not mapped: the daemon's error for the
    /// range, or `EOPNOTSUPP` if it has none.
    #[cold]
    fn no_mapping(&self, epd: usize, offset: i64, length: u64) -> i32 {
        if self.is_closed() {
            return EINTR;
        }
        let page = PAGE as i64;
        let remote_offset = offset & !(page - 1);
        let end = offset.saturating_add_unsigned(length);
        let length = (end.saturating_add(page - 1) & !(page - 1)).saturating_sub(remote_offset);
        let call = Call::MapRun {
            remote_offset,
            length: length as u64,
        };
        raw::plain(epd, call).err().unwrap_or(EOPNOTSUPP)
    }

    /// Whether the connection is alive. Looks at the mapped pages and, about once a second, asks
    /// the daemon. Without mapped rings each call asks the daemon.
    pub fn is_live(&self, epd: usize) -> bool {
        match self.rings.get() {
            Some(rings) => rings.is_live(),
            None => raw::readiness(epd, 0).is_ok_and(|ready| ready & Readiness::HUP.bits() == 0),
        }
    }

    /// As [`is_live`](Self::is_live), without a load from the peer's memory.
    #[inline]
    pub fn is_connected(&self, epd: usize) -> bool {
        match self.rings.get() {
            Some(rings) => rings.is_connected(),
            None => self.is_live(epd),
        }
    }

    /// Whether bytes may have arrived, or the connection may have ended. Reads own memory alone.
    /// Always true without mapped rings.
    #[inline]
    pub fn may_be_readable(&self) -> bool {
        self.rings.get().is_none_or(MappedRings::may_be_readable)
    }

    /// Whether stores into the peer's memory may be gathered on their way, and so arrive out of
    /// order.
    #[inline]
    pub fn gathers(&self) -> bool {
        self.rings.get().is_some_and(MappedRings::gathers)
    }

    fn transfer(
        &self,
        epd: usize,
        local: Local<'_>,
        remote: (i64, Use),
        length: u64,
        flags: u32,
    ) -> bool {
        let rings = self.rings.get();
        rings.is_some_and(|rings| rings.transfer(epd, local, remote, length, flags))
    }
}

#[cfg(test)]
mod tests;
