//! The mapped rings of a connection, and how they are mapped.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use client_memory::pages::{Pages, Readable};
use client_memory::placement::find_place;
use client_memory::rights::Rights;
use client_memory::ring::RingPages;
use hal::copy::{SMALL_BYTES as COPY_SHORT, Side};
use hal::idle_poll::IdlePoll;
use hal::mem::PAGE;
use libredox::Fd;
use scif_abi::bypass::{BYPASS_GATHERED, BypassRecord, FIRST_HANDLE, Part};
use scif_abi::call::Call;
use scif_abi::flags::Kicks;
use scif_abi::limits::{MAX_RING_BYTES, MIN_RING_BYTES};
use scif_abi::qp::{MAGIC_OFFSET, QP_MAGIC};
use scif_ring::{Consumer, Producer};
use syscall::error::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOTCONN};
use zerocopy::IntoBytes;

use super::control::{Control, StateWord};
use super::liveness::DaemonLiveness;
use super::memory::{Memory, RingWords};
use super::rma::{Local, Rma, SMALL_BYTES};
use super::short_write::ShortWrite;
use super::windows::Use;
use crate::raw;

/// Why the rings could not be mapped.
#[derive(Clone, Copy, Debug)]
pub struct Failure(i32);

impl Failure {
    /// The error number.
    pub fn number(self) -> i32 {
        self.0
    }

    /// Whether a later try may succeed.
    pub fn is_temporary(self) -> bool {
        matches!(self.0, ENOTCONN | ENOMEM | ENFILE | EMFILE | EAGAIN | EINTR)
    }
}

/// The pages of one connection that this program has mapped, and the bypass handle behind them.
pub struct MappedRings {
    pub(super) memory: Memory,
    pub(super) producer: Producer,
    pub(super) consumer: Consumer,
    /// The number of the handle, stored into a lock word to take the lock.
    pub(super) number: u32,
    /// The state word for which everything mapped is valid. Calls compare the present one with it.
    /// It is [`StateWord::ENDED`] when the rings cannot be used.
    pub(super) known: AtomicU64,
    /// Equal to `known` as long as the peer may put bytes into the own ring, else a word that no
    /// connection has ([`StateWord::unfinished`]).
    pub(super) unfinished: AtomicU64,
    /// Equal to `known` unless stores into the peer's memory must be drained, else a word that no
    /// connection has.
    pub(super) sendable: AtomicU64,
    /// Whether the peer's pages are unmapped.
    is_detached: AtomicBool,
    /// The descriptor for which the rings were mapped.
    pub(super) epd: usize,
    /// Whether that descriptor is closed.
    is_closed: AtomicBool,
    pub(super) liveness: DaemonLiveness,
    pub(super) idle_poll: IdlePoll,
    /// The last mark of this end's transfers that the daemon has made; 0 if there is none.
    pub(super) mark: AtomicI32,
    /// Boxed, because endpoints that copy nothing should stay small.
    pub(super) rma: Box<Rma>,
    /// The bypass handle; the last field, so that it is closed after everything is unmapped.
    pub(super) file: Fd,
}

impl MappedRings {
    /// Maps the rings of a connected endpoint.
    ///
    /// # Errors
    /// Those of the daemon; some of them are temporary.
    pub fn new(epd: usize) -> Result<Self, Failure> {
        let side = side(epd).map_err(Failure)?;
        let file = raw::hidden(epd, b"bypass").map_err(Failure)?;
        let mut record = BypassRecord::default();
        let info = Call::BypassInfo { record };
        raw::with_payload(file.raw(), info, record.as_mut_bytes()).map_err(Failure)?;
        let (own, peer) = (record.own_ring_bytes.get(), record.peer_ring_bytes.get());
        let is_sane = |bytes: u32| {
            bytes.is_power_of_two() && (MIN_RING_BYTES..=MAX_RING_BYTES).contains(&bytes)
        };
        if !is_sane(own) || !is_sane(peer) || record.handle.get() < FIRST_HANDLE {
            return Err(Failure(EIO));
        }
        // Mapped side by side, so that no two parts share an entry of an emulator's address cache.
        let bytes = |part: Part| part.bytes(own, peer);
        let total = Part::ALL.into_iter().map(bytes).sum();
        let mut place = find_place(total, 0);
        let mut map = |part: Part, side: Side| {
            let at = place;
            place = place.map(|place| place + bytes(part));
            let (fd, offset) = (file.raw(), part.offset());
            Pages::map(fd, offset, bytes(part), Rights::ALL, side, at)
                .map_err(|error| Failure(error.errno))
        };
        let ring = |pages, offset, bytes: u32| {
            RingPages::new(pages, offset, bytes as usize).map_err(|error| Failure(error.errno))
        };
        let control = Control::new(map(Part::Control, Side::Own)?, record.handle.get());
        let (known, gathers) = (control.now(), record.flags.get() & BYPASS_GATHERED != 0);
        Ok(Self {
            memory: Memory {
                own: ring(map(Part::Own, Side::Own)?, PAGE, own)?,
                peer_page: map(Part::PeerQueuePair, side)?,
                peer_ring: ring(map(Part::PeerRing, side)?, 0, peer)?,
                gathers,
                choices: control.choices(),
                control,
            },
            producer: Producer::new(peer),
            consumer: Consumer::new(own),
            number: record.handle.get(),
            known: AtomicU64::new(known.bits()),
            unfinished: AtomicU64::new(known.unfinished().bits()),
            sendable: AtomicU64::new(known.sendable(gathers).bits()),
            is_detached: AtomicBool::new(false),
            epd,
            is_closed: AtomicBool::new(false),
            liveness: DaemonLiveness::default(),
            idle_poll: IdlePoll::default(),
            mark: AtomicI32::new(0),
            rma: Box::new(Rma::new(side)),
            file,
        })
    }

    /// Whether the peer's memory is on this node.
    #[inline]
    pub(super) fn is_loopback(&self) -> bool {
        self.memory.peer_ring.pages().side() == Side::Own
    }

    /// Whether nothing has changed since the last [`refresh`](Self::refresh).
    #[inline]
    pub(super) fn is_current(&self) -> bool {
        self.memory.control.now().bits() == self.known.load(Ordering::Relaxed)
    }

    /// As [`is_current`](Self::is_current), for a call that already has the words.
    #[inline]
    pub(super) fn is_current_in(&self, memory: RingWords<'_>) -> bool {
        memory.state().bits() == self.known.load(Ordering::Relaxed)
    }

    /// Whether the peer has finished sending, as of the last [`refresh`](Self::refresh): it puts
    /// no more bytes into the own ring.
    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.known().is_finished()
    }

    /// The state word for which everything mapped is valid.
    pub(super) fn known(&self) -> StateWord {
        StateWord::from_bits(self.known.load(Ordering::Relaxed))
    }

    /// The memory of the rings, if the connection is alive and the rings can be used.
    #[inline]
    pub(super) fn memory(&self) -> Option<RingWords<'_>> {
        (self.is_current() || self.refresh()).then(|| self.memory.words())
    }

    /// Unmaps windows that were unregistered since the last call.
    pub(super) fn release_stale(&self) {
        if !self.is_current() {
            self.refresh();
        }
    }

    /// Reads a changed state word. Unmaps windows that have gone, and the peer's pages if the
    /// connection has gone. Returns whether the rings can be used.
    #[cold]
    pub(super) fn refresh(&self) -> bool {
        if self.is_closed() {
            return false;
        }
        let now = self.memory.control.now();
        // The owner of pages gets them back only when no client has them mapped.
        self.rma.refresh(now);
        if !now.is_connected() || self.is_detached.load(Ordering::Relaxed) {
            self.unmap_peer();
            return false;
        }
        self.note(now);
        // A concurrent close is either seen here, or stores its own word after this one.
        if self.is_closed() {
            self.note(StateWord::ENDED);
            return false;
        }
        true
    }

    /// Stores the state word for which everything mapped is valid.
    fn note(&self, known: StateWord) {
        self.known.store(known.bits(), Ordering::SeqCst);
        let unfinished = known.unfinished();
        self.unfinished.store(unfinished.bits(), Ordering::SeqCst);
        let sendable = known.sendable(self.gathers());
        self.sendable.store(sendable.bits(), Ordering::SeqCst);
    }

    /// Whether the descriptor is closed, so that its number may mean another file.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// The flag of [`is_closed`](Self::is_closed).
    pub(super) fn closed(&self) -> &AtomicBool {
        &self.is_closed
    }

    /// Unmaps the peer's pages, so that the peer can free them.
    fn unmap_peer(&self) {
        if self.is_detached.swap(true, Ordering::Relaxed) {
            return;
        }
        // Either may fail for want of memory; the pages are then unmapped when the handle is
        // closed.
        let _ = self.memory.peer_page.detach();
        let _ = self.memory.peer_ring.pages().detach();
    }

    /// Notes that the descriptor is about to be closed: calls that are under way stop at their
    /// next check. What they use stays mapped until this value is dropped, so that no byte goes
    /// elsewhere.
    pub(super) fn detach(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.note(StateWord::ENDED);
    }

    /// Asks the daemon to notify the peer.
    ///
    /// # Errors
    /// Those of the daemon.
    pub(super) fn kick(&self, kicks: Kicks) -> raw::Result<()> {
        let kicks = kicks.bits();
        raw::plain(self.file.raw(), Call::Kick { kicks }).map(|_| ())
    }

    /// Whether the peer's pages are still the peer's memory. When a node is lost, its memory
    /// disappears behind all mappings at once, and the first word of its queue pair no longer
    /// reads as the magic number. If that word is right, all loads made before this one were good,
    /// too.
    #[inline]
    pub(super) fn reaches_peer(&self) -> bool {
        let magic = self.memory.peer_page.u64_at::<{ MAGIC_OFFSET as usize }>();
        self.is_loopback() || magic.load(Ordering::Acquire) == QP_MAGIC
    }

    /// Whether the connection is alive, as far as this program can see, and about once a second as
    /// the daemon says.
    pub(super) fn is_live(&self) -> bool {
        self.is_connected() && self.reaches_peer()
    }

    /// As [`is_live`](Self::is_live), without a load from the peer's memory.
    #[inline]
    pub(super) fn is_connected(&self) -> bool {
        (self.is_current() || self.refresh())
            && (!self.liveness.is_due_to_send() || self.is_served())
    }

    /// Whether the connection is alive and stores into the peer's memory need no draining, by the
    /// looks of a short send. `false` says nothing.
    #[inline(always)]
    pub(super) fn is_sendable_in(&self, state: StateWord) -> bool {
        state.bits() == self.sendable.load(Ordering::Relaxed) && !self.liveness.may_be_due_to_send()
    }

    /// Whether bytes may have arrived or the connection may have ended. Reads own memory alone.
    #[inline]
    pub(super) fn may_be_readable(&self) -> bool {
        let memory = self.memory.words();
        // A receive finds out what has changed, or that the peer sends no more bytes.
        memory.state().bits() != self.unfinished.load(Ordering::Relaxed)
            || !self.consumer.is_empty(&memory)
    }

    /// Whether stores into the peer's memory may be gathered on their way and arrive out of order.
    #[inline]
    pub(super) fn gathers(&self) -> bool {
        self.memory.gathers
    }

    /// Maps a range of the peer's windows; after others have gone, its first use maps it again.
    /// Returns whether it is mapped.
    pub(super) fn prepare_window(&self, epd: usize, offset: i64, bytes: u64) -> bool {
        !self.is_closed()
            && self
                .rma
                .prepare(epd, self.memory.control.now(), offset, bytes)
    }

    /// Reverts [`prepare_window`](Self::prepare_window) for the range at `offset`.
    pub(super) fn forget_window(&self, offset: i64) {
        self.rma.forget(offset);
    }

    /// Makes an atomic operation on a double word of the peer's windows, if it can be mapped.
    pub(super) fn fetch(
        &self,
        epd: usize,
        offset: i64,
        operation: impl FnOnce(&AtomicU64) -> u64,
    ) -> Option<u64> {
        if self.liveness.is_due() && !self.is_served() {
            return None;
        }
        let state = (&self.memory.control, &self.is_closed);
        let value = self.rma.fetch(epd, state, offset, operation)?;
        self.reaches_peer().then_some(value)
    }

    /// Copies at most [`COPY_SHORT`] bytes to the peer's windows, by the looks of a short send.
    /// `None`: [`transfer`](Self::transfer) has to copy.
    #[inline(always)]
    pub(super) fn put_short(&self, from: Readable<'_>, offset: i64) -> Option<ShortWrite<'_>> {
        let control = &self.memory.control;
        let state = control.now();
        match self.is_sendable_in(state) {
            true => {
                let checks = (control, &self.is_closed);
                self.rma.put_short(checks, state, (from, offset))
            }
            false => None,
        }
    }

    /// All descriptors but the endpoint's. Those for windows are missing while another thread
    /// maps.
    pub(super) fn files(&self) -> impl Iterator<Item = usize> + use<> {
        self.rma.files().chain([self.file.raw()])
    }

    /// Copies between own memory and the peer's windows. Returns whether the bypass could do it.
    pub(super) fn transfer(
        &self,
        epd: usize,
        local: Local<'_>,
        remote: (i64, Use),
        length: u64,
        flags: u32,
    ) -> bool {
        // A short copy takes less time than reading the counter.
        let is_due = match length > COPY_SHORT as u64 && length <= SMALL_BYTES {
            true => self.liveness.is_due_to_send(),
            // The fast path leaves this check to this function, too.
            false => self.liveness.is_due(),
        };
        if self.is_closed() || is_due && !self.is_served() {
            return false;
        }
        let control = &self.memory.control;
        let (is_closed, choices) = (&self.is_closed, self.memory.choices);
        let rma = &self.rma;
        let state = (control, is_closed);
        // The daemon may end, and its successor move the peer's memory, at any time.
        rma.transfer(epd, state, choices, local, remote, length, flags) && self.reaches_peer()
    }
}

/// Whether an endpoint's peer is on this node, or behind the aperture.
fn side(epd: usize) -> raw::Result<Side> {
    let own = raw::local(epd)?.node();
    let peer = raw::peer(epd)?.node();
    Ok(if own == peer {
        Side::Own
    } else {
        Side::Aperture
    })
}
