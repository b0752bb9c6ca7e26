//! Fences without the daemon: for the transfers of this end, when the daemon has none under way.
//!
//! What a program copies by mappings has arrived when the call returns, so a fence has to wait only
//! for what the daemon copies. The daemon shows in the control page whether there is any of that.
//! If not, a mark from before stands for all transfers so far, and the values of a signal can be
//! stored at once. Fences for the peer's transfers go through the daemon, which asks the peer's.

use core::sync::atomic::Ordering;

use scif_abi::flags::FenceFlags;

use super::Bypass;
use super::open::MappedRings;
use crate::raw::{self, Result};

const SELF: u32 = FenceFlags::INIT_SELF.bits();
const LOCAL: u32 = FenceFlags::SIGNAL_LOCAL.bits();
const REMOTE: u32 = FenceFlags::SIGNAL_REMOTE.bits();

impl Bypass {
    /// `scif_fence_mark`; see [`raw::fence_mark`].
    ///
    /// # Errors
    /// Those of [`raw::fence_mark`].
    pub fn fence_mark(&self, epd: usize, flags: u32) -> Result<i32> {
        let rings = self.rings.get().filter(|_| flags == SELF);
        if let Some(mark) = rings.and_then(MappedRings::known_mark) {
            return Ok(mark);
        }
        self.release_stale();
        let mark = self.through_daemon(epd, || raw::fence_mark(epd, flags))?;
        if let Some(rings) = rings {
            rings.mark.store(mark, Ordering::Relaxed);
        }
        Ok(mark)
    }

    /// `scif_fence_wait`; see [`raw::fence_wait`].
    ///
    /// # Errors
    /// Those of [`raw::fence_wait`].
    pub fn fence_wait(&self, epd: usize, mark: i32) -> Result<()> {
        let known = self.rings.get().and_then(MappedRings::known_mark);
        if known == Some(mark) {
            return Ok(());
        }
        self.release_stale();
        self.through_daemon(epd, || raw::fence_wait(epd, mark))
    }

    /// `scif_fence_signal`; see [`raw::fence_signal`]. `own` and `peer` are offsets and values.
    ///
    /// # Errors
    /// Those of [`raw::fence_signal`].
    pub fn fence_signal(
        &self,
        epd: usize,
        own: (i64, u64),
        peer: (i64, u64),
        flags: u32,
    ) -> Result<()> {
        if let Some(rings) = self.rings.get()
            && rings.signal(epd, own, peer, flags).is_some()
        {
            return Ok(());
        }
        self.release_stale();
        self.through_daemon(epd, || {
            raw::fence_signal(epd, own.0, own.1, peer.0, peer.1, flags)
        })
    }
}

impl MappedRings {
    /// Whether all transfers of this end so far have ended, on a connection that is alive.
    fn is_at_rest(&self) -> bool {
        !self.is_closed() && self.is_live() && !self.memory.control.has_transfers()
    }

    /// A mark that stands for all transfers of this end so far, which have ended. `None`: the
    /// daemon has to make it.
    fn known_mark(&self) -> Option<i32> {
        let mark = self.mark.load(Ordering::Relaxed);
        (mark != 0 && self.is_at_rest()).then_some(mark)
    }

    /// Stores the values of a signal. `None`: nothing was stored, and the daemon has to do it.
    fn signal(&self, epd: usize, own: (i64, u64), peer: (i64, u64), flags: u32) -> Option<()> {
        let stores = match flags ^ SELF {
            LOCAL => [Some(own), None],
            REMOTE => [None, Some(peer)],
            both if both == LOCAL | REMOTE => [Some(own), Some(peer)],
            _ => return None,
        };
        // A store that is gathered on its way would have to be drained.
        if self.gathers() || !self.is_at_rest() {
            return None;
        }
        let checks = (&self.memory.control, self.closed());
        let stored = self.rma.store(epd, checks, stores);
        stored.filter(|()| self.reaches_peer())
    }
}
