//! How the code of this crate reaches memory.

use scif_abi::bypass::{RECEIVE_LOCK_OFFSET, RECEIVED_OFFSET, SEND_LOCK_OFFSET, SENT_OFFSET};
use scif_abi::qp::{BYTES_ARMED_OFFSET, LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, ROOM_ARMED_OFFSET};

/// A word of a queue pair page. The other side stores it, the owner of the page loads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// The index in the owner's ring where the other side puts its next byte.
    LocalWrite,
    /// The index in the other side's ring, which the owner fills, where the other side takes its
    /// next byte.
    LocalRead,
    /// 1: the other side asks to be woken when the owner puts bytes into the other side's ring.
    BytesArmed,
    /// 1: the other side asks to be woken when the owner makes room in the owner's ring.
    RoomArmed,
}

impl Word {
    /// The word's offset in the page, in bytes.
    pub const fn offset(self) -> u64 {
        match self {
            Word::LocalWrite => LOCAL_WRITE_OFFSET,
            Word::LocalRead => LOCAL_READ_OFFSET,
            Word::BytesArmed => BYTES_ARMED_OFFSET,
            Word::RoomArmed => ROOM_ARMED_OFFSET,
        }
    }
}

/// What an end does with its rings: send or receive. Each has a position and a lock of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Putting bytes into the other side's ring.
    Send,
    /// Taking bytes out of the own ring.
    Receive,
}

impl Side {
    /// The offset of the lock word in the control page, in bytes.
    pub const fn lock_offset(self) -> u64 {
        match self {
            Side::Send => SEND_LOCK_OFFSET,
            Side::Receive => RECEIVE_LOCK_OFFSET,
        }
    }

    /// The offset of the position in the control page, in bytes.
    pub const fn position_offset(self) -> u64 {
        match self {
            Side::Send => SENT_OFFSET,
            Side::Receive => RECEIVED_OFFSET,
        }
    }
}

/// The memory of one end of a connection: the own queue pair page and ring, those of the other
/// side, and the positions and locks of this end.
///
/// Implementations are small and `#[inline]`. One that consists of pointers is `Copy`, so that a
/// thread can make itself a value for each call. Several may exist for the same memory.
///
/// # Ordering
/// `load` is an acquire load and `store_peer` a release store: a side that sees the word sees
/// everything stored before it. On a bus with posted writes, `store_peer` needs a write barrier
/// before the store.
pub trait RingMemory {
    /// Why the other side's memory cannot be reached; `Infallible` where it is mapped.
    type Error;

    /// Loads a word of the own queue pair page (acquire).
    fn load(&self, word: Word) -> u32;

    /// Stores 0 into a word of the own queue pair page, atomically. Returns the former value.
    fn clear(&mut self, word: Word) -> u32;

    /// Stores a word of the other side's queue pair page (release, also for earlier `write_peer`).
    ///
    /// # Errors
    /// When the other side's memory cannot be reached.
    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Self::Error>;

    /// Returns when an earlier `store_peer` of this word has arrived. On a bus that posts writes a
    /// read of the word ensures that, because what the other side stored before it saw the word
    /// arrives before the answer. In shared memory there is nothing to do.
    ///
    /// # Errors
    /// When the other side's memory cannot be reached.
    fn flush_peer(&mut self, word: Word) -> Result<(), Self::Error>;

    /// Copies out of the own ring, from `offset` on, never beyond the ring's end.
    fn read(&self, offset: usize, buffer: &mut [u8]);

    /// Prefetches the cache line of a byte of the own ring, never beyond the ring's end. Does
    /// nothing where that brings nothing.
    #[inline]
    fn touch(&self, _offset: usize) {}

    /// Copies into the other side's ring, from `offset` on, never beyond the ring's end.
    ///
    /// # Errors
    /// When the other side's memory cannot be reached.
    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Self::Error>;

    /// A full fence: no later load is done before the earlier stores are visible.
    fn fence(&self);

    /// The position of a side (acquire).
    fn position(&self, side: Side) -> u64;

    /// Sets the position of a side (release); the caller holds its lock.
    fn set_position(&mut self, side: Side, position: u64);

    /// Takes the lock of a side for `holder` if it is free (acquire). Returns whether it was free.
    fn try_lock(&mut self, side: Side, holder: u32) -> bool;

    /// Releases the lock of a side (release).
    fn unlock(&mut self, side: Side);

    /// As `unlock`, then a full fence as [`fence`](RingMemory::fence). Where one locked
    /// instruction does both, an implementation uses it.
    #[inline]
    fn unlock_and_fence(&mut self, side: Side) {
        self.unlock(side);
        self.fence();
    }
}
