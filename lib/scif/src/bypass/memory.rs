//! The mapped pages of a connection, in the form that the ring protocol uses.

use core::sync::atomic::Ordering;

use client_memory::pages::{Mapped, Pages, Readable, Writable};
use client_memory::ring::RingPages;
use hal::copy::Choices;
#[cfg(doc)]
use hal::copy::SMALL_BYTES;
use hal::idle_poll::Watched;
use hal::mem::drain_writes;
use hal::mem::{PAGE, full_fence};
use scif_abi::bypass::{
    LOCK_FREE, RECEIVE_LOCK_OFFSET, RECEIVED_OFFSET, SEND_LOCK_OFFSET, SENT_OFFSET,
};
use scif_abi::qp::{BYTES_ARMED_OFFSET, LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, ROOM_ARMED_OFFSET};
use scif_ring::{RingMemory, Side, Word};
use syscall::error::Error;

use super::control::{Control, StateWord};

/// All memory that calls on the rings access.
pub struct Memory {
    pub control: Control,
    /// The own queue pair page, and the ring behind it.
    pub own: RingPages,
    pub peer_page: Pages,
    pub peer_ring: RingPages,
    /// Whether stores into the peer's memory must be drained before the index is stored.
    pub gathers: bool,
    pub choices: Choices,
}

/// The memory that one call on the rings accesses. Holds the addresses of the words by value.
#[derive(Clone, Copy)]
pub struct RingWords<'a> {
    all: &'a Memory,
    control: Mapped<'a>,
    own: Mapped<'a>,
    gathers: bool,
}

/// Applies an action to a word whose offset is a constant.
macro_rules! at_word {
    ($pages:expr, $word:expr, $at:ident => $action:expr) => {
        match $word {
            Word::LocalWrite => {
                let $at = $pages.u32_at::<{ LOCAL_WRITE_OFFSET as usize }>();
                $action
            }
            Word::LocalRead => {
                let $at = $pages.u32_at::<{ LOCAL_READ_OFFSET as usize }>();
                $action
            }
            Word::BytesArmed => {
                let $at = $pages.u32_at::<{ BYTES_ARMED_OFFSET as usize }>();
                $action
            }
            Word::RoomArmed => {
                let $at = $pages.u32_at::<{ ROOM_ARMED_OFFSET as usize }>();
                $action
            }
        }
    };
}

/// Applies an action to a side's lock or position.
macro_rules! at_side {
    (
        $control:expr, $side:expr, $take:ident, $send:ident, $receive:ident, $at:ident => $do:expr
    ) => {
        match $side {
            Side::Send => {
                let $at = $control.$take::<{ $send as usize }>();
                $do
            }
            Side::Receive => {
                let $at = $control.$take::<{ $receive as usize }>();
                $do
            }
        }
    };
}

impl Memory {
    /// The memory that a call accesses.
    #[inline]
    pub fn words(&self) -> RingWords<'_> {
        RingWords {
            all: self,
            control: self.control.page(),
            own: self.own.pages().mapped(),
            gathers: self.gathers,
        }
    }
}

impl RingWords<'_> {
    /// The connection's state word now.
    #[inline]
    pub fn state(self) -> StateWord {
        StateWord::of(self.control)
    }

    /// What to watch: the peer's write index, which differs from `written` once bytes arrive, and
    /// the connection's state, which differs from that of `known` once it changes.
    pub fn watched(&self, written: u32, known: StateWord) -> [Watched; 2] {
        let word = self.own.u32_at::<{ LOCAL_WRITE_OFFSET as usize }>();
        [Watched::new(word, written), self.all.control.watched(known)]
    }

    /// This memory for a call that knows that stores into the peer's memory need no draining.
    #[inline]
    pub fn undrained(self) -> Self {
        Self {
            gathers: false,
            ..self
        }
    }

    /// Copies bytes of the program into the peer's ring, to a position. Fails if the ring ends
    /// among them, as the other copies do.
    #[inline]
    pub fn put(&self, position: u64, bytes: Readable<'_>) -> Result<(), Error> {
        self.all.peer_ring.put(position, bytes, self.all.choices)
    }

    /// As [`put`](Self::put), for at most [`SMALL_BYTES`] bytes.
    #[inline(always)]
    pub fn put_short(&self, position: u64, bytes: Readable<'_>) -> Result<(), Error> {
        self.all.peer_ring.put_short(position, bytes)
    }

    /// As [`take`](Self::take), for `bytes` bytes, at most [`SMALL_BYTES`].
    #[inline(always)]
    pub fn take_short(&self, position: u64, to: &Writable<'_>, bytes: usize) -> Result<(), Error> {
        self.all.own.take_short(position, to, bytes)
    }

    /// Copies bytes of the own ring, at a position, to the program.
    #[inline]
    pub fn take(&self, position: u64, to: &Writable<'_>) -> Result<(), Error> {
        self.all.own.take(position, to, self.all.choices)
    }
}

impl RingMemory for RingWords<'_> {
    type Error = Error;

    #[inline]
    fn load(&self, word: Word) -> u32 {
        at_word!(self.own, word, at => at.load(Ordering::Acquire))
    }

    #[inline]
    fn clear(&mut self, word: Word) -> u32 {
        at_word!(self.own, word, at => at.swap(0, Ordering::SeqCst))
    }

    #[inline]
    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Error> {
        // Draining costs more than all other instructions of the usual path together.
        if self.gathers {
            drain_writes();
        }
        at_word!(self.all.peer_page, word, at => at.store(value, Ordering::Release));
        Ok(())
    }

    #[inline]
    fn flush_peer(&mut self, word: Word) -> Result<(), Error> {
        at_word!(self.all.peer_page, word, at => at.load(Ordering::Acquire));
        Ok(())
    }

    #[inline]
    fn read(&self, offset: usize, buffer: &mut [u8]) {
        // It fails only beyond the end of the ring, which the ring protocol never reads.
        let _ = self.take(offset as u64, &buffer.into());
    }

    #[inline]
    fn touch(&self, offset: usize) {
        self.own.prefetch(PAGE.wrapping_add(offset));
    }

    #[inline]
    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.put(offset as u64, bytes.into())
    }

    #[inline]
    fn fence(&self) {
        full_fence();
    }

    #[inline]
    fn position(&self, side: Side) -> u64 {
        at_side!(self.control, side, u64_at, SENT_OFFSET, RECEIVED_OFFSET,
            at => at.load(Ordering::Acquire))
    }

    #[inline]
    fn set_position(&mut self, side: Side, position: u64) {
        at_side!(self.control, side, u64_at, SENT_OFFSET, RECEIVED_OFFSET,
            at => at.store(position, Ordering::Release));
    }

    #[inline]
    fn try_lock(&mut self, side: Side, holder: u32) -> bool {
        let order = (Ordering::Acquire, Ordering::Relaxed);
        at_side!(self.control, side, u32_at, SEND_LOCK_OFFSET, RECEIVE_LOCK_OFFSET,
            at => at.compare_exchange(LOCK_FREE, holder, order.0, order.1).is_ok())
    }

    #[inline]
    fn unlock(&mut self, side: Side) {
        at_side!(self.control, side, u32_at, SEND_LOCK_OFFSET, RECEIVE_LOCK_OFFSET,
            at => at.store(LOCK_FREE, Ordering::Release));
    }

    #[inline]
    fn unlock_and_fence(&mut self, side: Side) {
        // A locked exchange is a full fence.
        at_side!(self.control, side, u32_at, SEND_LOCK_OFFSET, RECEIVE_LOCK_OFFSET,
            at => at.swap(LOCK_FREE, Ordering::SeqCst));
    }
}
