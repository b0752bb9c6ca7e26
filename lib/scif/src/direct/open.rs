//! What is mapped of a connection, and how it gets mapped.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libredox::Fd;
use platform::copy::{Choices, Side};
use platform::direct::{Pages, find_place};
use platform::shared::Protection;
use scif_abi::call::Call;
use scif_abi::direct::{DIRECT_GATHERED, DirectRecord, FIRST_HANDLE, Part};
use scif_abi::flags::{Kicks, Readiness};
use scif_abi::limits::{MAX_RING_BYTES, MIN_RING_BYTES};
use scif_abi::qp::{MAGIC_OFFSET, QP_MAGIC};
use scif_ring::{Consumer, Producer};
use syscall::error::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOTCONN};
use zerocopy::IntoBytes;

use super::control::{Control, Moment};
use super::memory::Memory;
use super::pulse::Pulse;
use super::rma::{Local, Rma};
use super::windows::Use;
use crate::raw;

/// Why nothing could be mapped.
#[derive(Clone, Copy, Debug)]
pub struct Failure(i32);

impl Failure {
    /// The error number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Whether it may be possible later.
    pub fn is_temporary(self) -> bool {
        matches!(self.0, ENOTCONN | ENOMEM | ENFILE | EMFILE | EAGAIN | EINTR)
    }
}

/// What is mapped of a connection.
pub struct Opened {
    control: Control,
    own: Pages,
    peer_page: Pages,
    peer_ring: Pages,
    choices: Choices,
    pub(super) producer: Producer,
    pub(super) consumer: Consumer,
    /// What this handle stores into a lock word that it holds.
    pub(super) number: u32,
    /// Stores into the peer's memory are to be drained before the index.
    gathers: bool,
    /// The moment for which everything is in order; calls compare it with the present one. Never
    /// one of a connection when the rings cannot be used.
    known: AtomicU64,
    /// The peer's pages are not mapped any more.
    is_detached: AtomicBool,
    /// The descriptor this was opened for has gone.
    is_closed: AtomicBool,
    pub(super) pulse: Pulse,
    /// In a box, as endpoints that copy nothing should stay small.
    rma: Box<Rma>,
    /// The direct handle. The last one, so that it is closed after everything is unmapped.
    file: Fd,
}

impl Opened {
    /// Maps the rings of a connected endpoint.
    ///
    /// # Errors
    /// Of the daemon; some of them are temporary.
    pub fn new(epd: usize) -> Result<Self, Failure> {
        let side = side(epd).map_err(Failure)?;
        let file = raw::companion(epd, b"direct").map_err(Failure)?;
        let mut record = DirectRecord::default();
        let info = Call::DirectInfo { record };
        raw::with_payload(file.raw(), info, record.as_mut_bytes()).map_err(Failure)?;
        let (own, peer) = (record.own_ring_bytes.get(), record.peer_ring_bytes.get());
        let is_sane = |bytes: u32| {
            bytes.is_power_of_two() && (MIN_RING_BYTES..=MAX_RING_BYTES).contains(&bytes)
        };
        if !is_sane(own) || !is_sane(peer) || record.handle.get() < FIRST_HANDLE {
            return Err(Failure(EIO));
        }
        // One behind the other, so that none of them gets in another's way.
        let bytes = |part: Part| part.bytes(own, peer);
        let total = Part::ALL.into_iter().map(bytes).sum();
        let mut place = find_place(total, 0).ok();
        let mut map = |part: Part, side: Side| {
            let at = place;
            place = place.map(|place| place + bytes(part));
            let (fd, offset) = (file.raw(), part.offset());
            Pages::map(fd, offset, bytes(part), Protection::ALL, side, at)
                .map_err(|error| Failure(error.errno))
        };
        let control = Control::new(map(Part::Control, Side::Own)?, record.handle.get());
        let known = control.now();
        Ok(Self {
            own: map(Part::Own, Side::Own)?,
            peer_page: map(Part::PeerQueuePair, side)?,
            peer_ring: map(Part::PeerRing, side)?,
            choices: control.choices(),
            producer: Producer::new(peer),
            consumer: Consumer::new(own),
            number: record.handle.get(),
            gathers: record.flags.get() & DIRECT_GATHERED != 0,
            known: AtomicU64::new(known.bits()),
            is_detached: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            pulse: Pulse::default(),
            rma: Box::new(Rma::new(side)),
            control,
            file,
        })
    }

    /// Whether the memory of the peer is this node's.
    pub(super) fn is_loopback(&self) -> bool {
        self.peer_ring.side() == Side::Own
    }

    /// Whether the connection is as it was when we last looked.
    #[inline]
    pub(super) fn is_unchanged(&self) -> bool {
        self.control.now().bits() == self.known.load(Ordering::Relaxed)
    }

    /// The rings, if the connection lives and they can be used.
    #[inline]
    pub(super) fn rings(&self) -> Option<Memory<'_>> {
        if !self.is_unchanged() && !self.notice() {
            return None;
        }
        Some(Memory {
            control: &self.control,
            own: &self.own,
            peer_page: &self.peer_page,
            peer_ring: &self.peer_ring,
            gathers: self.gathers,
            choices: self.choices,
        })
    }

    /// Lets go of windows that have gone, if any have.
    pub(super) fn look(&self) {
        if !self.is_unchanged() {
            self.notice();
        }
    }

    /// Something has changed: windows have gone, or the connection has. Whether the rings can be
    /// used.
    #[cold]
    pub(super) fn notice(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        let now = self.control.now();
        // Windows that have gone are not kept for their owner's sake.
        self.rma.refresh(now);
        if !now.is_connected() || self.is_detached.load(Ordering::Relaxed) {
            self.let_go();
            return false;
        }
        self.known.store(now.bits(), Ordering::SeqCst);
        // Closed meanwhile: either we see it here, or what it stores is the last.
        if self.is_closed() {
            self.known.store(Moment::ENDED.bits(), Ordering::SeqCst);
            return false;
        }
        true
    }

    /// Whether the descriptor has gone: its number may mean something else by now.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Unmaps what is the peer's, so that it can be freed there.
    fn let_go(&self) {
        if self.is_detached.swap(true, Ordering::Relaxed) {
            return;
        }
        // All or nothing of it may fail, for want of memory; then the handle's end unmaps it.
        let _ = self.peer_page.detach();
        let _ = self.peer_ring.detach();
    }

    /// The descriptor is about to be closed: calls that are under way stop at their next look.
    /// What they use stays mapped until this is dropped, so that no byte goes elsewhere.
    pub(super) fn detach(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.known.store(Moment::ENDED.bits(), Ordering::SeqCst);
    }

    /// Has the daemon tell the peer.
    ///
    /// # Errors
    /// Of the daemon.
    pub(super) fn kick(&self, kicks: Kicks) -> raw::Result<()> {
        let kicks = kicks.bits();
        raw::plain(self.file.raw(), Call::Kick { kicks }).map(|_| ())
    }

    /// Whether what is mapped of the peer is the peer's memory. When a node is lost, its memory
    /// moves away from all mappings, at once; then something else, or nothing, is where the peer
    /// keeps the first word of its queue pair. Loads before this one are good if this is.
    fn reaches_peer(&self) -> bool {
        let magic = self.peer_page.u64_at::<{ MAGIC_OFFSET as usize }>();
        self.is_loopback() || magic.load(Ordering::Acquire) == QP_MAGIC
    }

    /// Sleeps until one of `events` is there or the connection ends; has the peer told before.
    /// Nothing is ready when there is only reason to [`look`](Self::look).
    ///
    /// # Errors
    /// Of the daemon; `EINTR`.
    pub(super) fn sleep(&self, events: Readiness, kicks: Kicks) -> raw::Result<Readiness> {
        let (events, kicks) = (events.bits(), kicks.bits());
        let ready = raw::plain(self.file.raw(), Call::Wait { events, kicks })?;
        Ok(Readiness::from_bits_truncate(ready as u16))
    }

    /// Copies between own memory and the peer's windows, if that can be done here.
    pub(super) fn transfer(
        &self,
        epd: usize,
        local: Local<'_>,
        remote: (i64, Use),
        length: u64,
        flags: u32,
    ) -> bool {
        if self.is_closed() || self.pulse.is_due() && !self.is_served() {
            return false;
        }
        let control = &self.control;
        let (is_closed, choices) = (&self.is_closed, self.choices);
        let rma = &self.rma;
        let state = (control, is_closed);
        // The daemon may have ended, and its successor moved the peer's memory, at any time.
        rma.transfer(epd, state, choices, local, remote, length, flags) && self.reaches_peer()
    }
}

/// Where the memory of an endpoint's peer is.
fn side(epd: usize) -> raw::Result<Side> {
    let own = raw::local(epd)?.node();
    let peer = raw::peer(epd)?.node();
    Ok(if own == peer {
        Side::Own
    } else {
        Side::Aperture
    })
}
