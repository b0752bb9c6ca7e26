//! The control page of a connection, as a bypass client sees it; see [`scif_abi::bypass`].

use core::sync::atomic::{AtomicU32, Ordering};

use client_memory::pages::{Mapped, Pages};
use hal::copy::Choices;
use hal::idle_poll::Watched;
use scif_abi::bypass::{
    COPY_ROUTINES_OFFSET, EPOCH_OFFSET, RMA_BUSY_OFFSET, RMA_BUSY_SLOTS, RMA_BUSY_STEP,
    STATE_CONNECTED, STATE_ENDED, STATE_FINISHED, STATE_OFFSET, TRANSFERS_OFFSET,
};
use scif_ring::validity::ValidityMemory;

/// The state word of a connection: its state and its epoch, read with one load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StateWord(u64);

impl StateWord {
    /// The state word of a connection that is alive, in an epoch.
    pub const fn connected(epoch: u32) -> Self {
        Self((epoch as u64) << 32 | STATE_CONNECTED as u64)
    }

    /// The state word of a connection that has ended.
    pub const ENDED: Self = Self(STATE_ENDED as u64);

    /// A word that no connection has.
    const NONE: Self = Self(u64::MAX);

    /// Reads the state word of a control page.
    #[inline]
    pub fn of(page: Mapped<'_>) -> Self {
        // One load reads both.
        const { assert!(EPOCH_OFFSET == STATE_OFFSET + 4) };
        let word = page.u64_at::<{ STATE_OFFSET as usize }>();
        Self(word.load(Ordering::Acquire))
    }

    /// Whether the connection is alive.
    #[inline]
    pub const fn is_connected(self) -> bool {
        matches!(self.0 as u32, STATE_CONNECTED | STATE_FINISHED)
    }

    /// Whether the peer has finished: it puts no more bytes into the own ring, though the
    /// connection is alive.
    #[inline]
    pub const fn is_finished(self) -> bool {
        self.0 as u32 == STATE_FINISHED
    }

    /// This word as long as the peer may put bytes into the own ring, else a word that no
    /// connection has.
    pub const fn unfinished(self) -> Self {
        match self.0 as u32 {
            STATE_CONNECTED => self,
            _ => Self::NONE,
        }
    }

    /// This word, unless stores into the peer's memory may be `gathered` and must be drained: a
    /// short send leaves that to the general path, as draining is one more call, for which
    /// registers would be saved. Then a word that no connection has.
    pub const fn sendable(self, gathered: bool) -> Self {
        match gathered {
            false => self,
            true => Self::NONE,
        }
    }

    /// The epoch, which changes when a window goes.
    #[inline]
    pub const fn epoch(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The state word that is stored as these bits.
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The word as it is stored.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The mapped control page.
pub struct Control {
    pages: Pages,
    /// The number of the bypass handle.
    handle: u32,
}

impl Control {
    /// The control page, for the bypass handle with this number.
    pub fn new(pages: Pages, handle: u32) -> Self {
        Self { pages, handle }
    }

    /// The word in which this handle counts its copies:
    /// [`rma_busy_offset`](scif_abi::bypass::rma_busy_offset).
    #[inline]
    fn busy_word(&self) -> &AtomicU32 {
        const OFFSET: usize = RMA_BUSY_OFFSET as usize;
        const STEP: usize = RMA_BUSY_STEP as usize;
        self.pages
            .u32_of::<OFFSET, STEP, RMA_BUSY_SLOTS>(self.handle as usize)
    }

    /// The state word now.
    #[inline]
    pub fn now(&self) -> StateWord {
        StateWord::of(self.page())
    }

    /// The half of the state word that changes when the connection ends, to be watched.
    pub fn watched(&self, known: StateWord) -> Watched {
        Watched::new(self.u32_at::<{ STATE_OFFSET as usize }>(), known.0 as u32)
    }

    /// The page.
    #[inline]
    pub fn page(&self) -> Mapped<'_> {
        self.pages.mapped()
    }

    /// The word at an offset.
    #[inline]
    fn u32_at<const OFFSET: usize>(&self) -> &AtomicU32 {
        self.pages.u32_at::<OFFSET>()
    }

    /// Whether transfers or signals that the daemon makes for this end are under way. `false`: the
    /// bytes of all those that were started before have arrived.
    #[inline]
    pub fn has_transfers(&self) -> bool {
        let word = self.u32_at::<{ TRANSFERS_OFFSET as usize }>();
        word.load(Ordering::Acquire) != 0
    }

    /// Ends what [`enter`](scif_ring::validity::enter) began, whatever has changed meanwhile, and
    /// is a full fence: on x86 a locked subtraction is both.
    #[inline]
    pub fn leave_and_fence(&self) {
        self.busy_word().fetch_sub(1, Ordering::SeqCst);
    }

    /// The copy routines that the daemon measured as the fastest on this machine.
    pub fn choices(&self) -> Choices {
        let word = self.pages.u32_at::<{ COPY_ROUTINES_OFFSET as usize }>();
        Choices::from_numbers(word.load(Ordering::Relaxed).to_le_bytes())
    }
}

/// The epoch, and the count of copies that are under way.
impl ValidityMemory for &Control {
    #[inline]
    fn epoch(&self) -> u32 {
        self.u32_at::<{ EPOCH_OFFSET as usize }>()
            .load(Ordering::Acquire)
    }

    #[inline]
    fn add_busy(&mut self) {
        self.busy_word().fetch_add(1, Ordering::SeqCst);
    }

    #[inline]
    fn remove_busy(&mut self) {
        self.busy_word().fetch_sub(1, Ordering::Release);
    }
}
