//! Sleeping until the peer has done something: first for a short time, while the kernel watches
//! the words that the peer stores to, then in the daemon for as long as it takes.

use hal::idle_poll::{Ended, Sign, Watched};
use hal::kernel::ends_abandoned_requests;
use scif_abi::call::Call;
use scif_abi::flags::{Kicks, Readiness};
use scif_ring::{RingMemory, Side, Word};
use syscall::error::EOPNOTSUPP;

use super::Bypass;
use super::memory::RingWords;
use super::open::MappedRings;
use super::transfer::Direction;
use crate::raw::{self, PollFd, Result};

impl Bypass {
    /// Where the next bytes or the next request will show. The [readiness](Self::readiness) after
    /// this call tells of those that came before it.
    pub fn sign(&self) -> Sign {
        let words = || self.watched(self.written()?).map(Sign::Words);
        let queue = || Some(Sign::Queue(self.requests.get()?.as_ref()?.queue()?));
        queue().or_else(words).unwrap_or(Sign::Event)
    }

    /// The peer's write index in the own ring. `None` when [`wait_past`](Self::wait_past) cannot
    /// wait for a change of it.
    #[inline]
    pub fn written(&self) -> Option<u32> {
        self.rings.get().and_then(MappedRings::written)
    }

    /// Sleeps until the peer's write index differs from `written`, even if a thread has already
    /// taken the bytes, or until the connection ends. May end earlier.
    ///
    /// # Errors
    /// `EOPNOTSUPP` without mapped rings; those of the daemon; `EINTR`.
    pub fn wait_past(&self, written: u32) -> Result<()> {
        self.rings.get().ok_or(EOPNOTSUPP)?.wait_past(written)
    }

    /// The words that change when bytes arrive behind a write index, or the connection ends.
    pub fn watched(&self, written: u32) -> Option<[Watched; 2]> {
        self.rings.get()?.watched(written)
    }
}

impl MappedRings {
    /// Sleeps for a short time until bytes arrive or the connection changes, while the kernel
    /// watches the words that show it. Not for senders: a receiver gives room back only to a
    /// sender that asks for it.
    pub(super) fn sleep_shortly<W: Direction>(
        &self,
        memory: &RingWords<'_>,
        kicks: &mut Kicks,
    ) -> Ended {
        if W::SIDE == Side::Send || !self.idle_poll.may_pay() {
            return Ended::InVain;
        }
        if !kicks.is_empty() {
            self.notify_peer(core::mem::replace(kicks, Kicks::empty()));
        }
        // Bytes that arrive after this check change what was read before it.
        let words = memory.watched(memory.load(Word::LocalWrite), self.known());
        match W::is_ready(self, memory) {
            Ok(false) => self.idle_poll.sleep(&words),
            _ => Ended::Changed,
        }
    }

    /// Sleeps until one of `events` is there or the connection ends. Before that it has the peer
    /// notified of `kicks`. An empty answer means only that windows have gone
    /// ([`release_stale`](Self::release_stale)).
    ///
    /// # Errors
    /// Those of the daemon; `EINTR`.
    pub(super) fn sleep(&self, events: Readiness, kicks: Kicks) -> Result<Readiness> {
        if !ends_abandoned_requests() {
            return self.sleep_in_queue(events, kicks);
        }
        let (events, kicks) = (events.bits(), kicks.bits());
        let ready = raw::plain(self.file.raw(), Call::Wait { events, kicks })?;
        Ok(Readiness::from_bits_truncate(ready as u16))
    }

    /// Sleeps in an event queue: no call may wait in a request where the kernel does not end the
    /// requests of a daemon that has died.
    #[cold]
    fn sleep_in_queue(&self, events: Readiness, kicks: Kicks) -> Result<Readiness> {
        if !kicks.is_empty() {
            self.kick(kicks)?;
        }
        let mut entry = [PollFd::new(self.epd, events.bits())];
        let readiness = |_: usize, entry: &PollFd| match self.is_current() {
            true => raw::readiness(entry.epd, entry.events),
            // Windows have gone, or the connection has.
            false => Ok(events.bits()),
        };
        raw::poll_by(&mut entry, None, readiness, |_, _| Sign::Event)?;
        let ready = Readiness::from_bits_truncate(entry[0].revents);
        Ok(if self.is_current() {
            ready
        } else {
            Readiness::empty()
        })
    }

    /// The peer's write index in the own ring, if [`wait_past`](Self::wait_past) can wait for a
    /// change of it: no call may wait where the kernel does not end the requests of a daemon that
    /// has died.
    #[inline]
    pub(super) fn written(&self) -> Option<u32> {
        let words = self.memory()?;
        ends_abandoned_requests().then(|| words.load(Word::LocalWrite))
    }

    /// Sleeps until the peer's write index differs from `written`, or the connection ends. May end
    /// earlier.
    ///
    /// # Errors
    /// Those of the daemon; `EINTR`.
    pub(super) fn wait_past(&self, written: u32) -> Result<()> {
        let waited = raw::plain(self.file.raw(), Call::WaitBytes { written });
        // Windows may have gone, which ends the wait as well.
        self.release_stale();
        waited.map(drop)
    }

    /// The words that change when bytes arrive behind a write index, or the connection ends.
    pub(super) fn watched(&self, written: u32) -> Option<[Watched; 2]> {
        Some(self.memory()?.watched(written, self.known()))
    }
}
