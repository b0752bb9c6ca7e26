//! How the code of this crate reaches memory.

use scif_abi::bypass::{RECEIVE_LOCK_OFFSET, RECEIVED_OFFSET, SEND_LOCK_OFFSET, SENT_OFFSET};
use scif_abi::qp::{BYTES_ARMED_OFFSET, LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, ROOM_ARMED_OFFSET};

/// A word of a queue pair page. Each is stored by the other side and loaded by the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Where the other side's next byte comes in the owner's ring.
    LocalWrite,
    /// Where the other side takes its next byte out of its ring, which the owner fills.
    LocalRead,
    /// 1: the other side asks for a wake-up when the owner puts bytes into its ring.
    BytesArmed,
    /// 1: the other side asks for a wake-up when the owner makes room in the owner's ring.
    RoomArmed,
}

impl Word {
    /// Its offset in the page, in bytes.
    pub const fn offset(self) -> u64 {
        match self {
            Word::LocalWrite => LOCAL_WRITE_OFFSET,
            Word::LocalRead => LOCAL_READ_OFFSET,
            Word::BytesArmed => BYTES_ARMED_OFFSET,
            Word::RoomArmed => ROOM_ARMED_OFFSET,
        }
    }
}

/// One of the two things that are done at an end, each with a position and a lock of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Putting bytes into the other side's ring.
    Send,
    /// Taking bytes out of the own ring.
    Receive,
}

impl Side {
    /// Offset of its lock word in the control page, in bytes.
    pub const fn lock_offset(self) -> u64 {
        match self {
            Side::Send => SEND_LOCK_OFFSET,
            Side::Receive => RECEIVE_LOCK_OFFSET,
        }
    }

    /// Offset of its position in the control page, in bytes.
    pub const fn position_offset(self) -> u64 {
        match self {
            Side::Send => SENT_OFFSET,
            Side::Receive => RECEIVED_OFFSET,
        }
    }
}

/// Memory of one end of a connection: the own queue pair page and ring, the other side's, and the
/// positions and locks of this end.
///
/// Implementations are small and `#[inline]`; a handle of pointers is `Copy`, so that a thread can
/// make itself one for each call. Several may exist for the same memory.
///
/// # Ordering
/// `load` is an acquire load and `store_peer` a release store: a side that sees the word sees
/// everything stored before it. On a bus with posted writes that takes a write barrier in front.
pub trait RingMemory {
    /// Why the other side's memory cannot be reached; `Infallible` where it is mapped.
    type Error;

    /// Loads a word of the own queue pair page (acquire).
    fn load(&self, word: Word) -> u32;

    /// Stores 0 into a word of the own queue pair page, atomically; what was there before.
    fn clear(&mut self, word: Word) -> u32;

    /// Stores a word of the other side's queue pair page (release, also for earlier `write_peer`).
    ///
    /// # Errors
    /// It cannot be reached.
    fn store_peer(&mut self, word: Word, value: u32) -> Result<(), Self::Error>;

    /// Returns when an earlier `store_peer` of this word has arrived. On a bus that posts writes a
    /// read of the word does it, because what the other side stored before it saw ours arrives
    /// before the answer; in shared memory there is nothing to do.
    ///
    /// # Errors
    /// It cannot be reached.
    fn flush_peer(&mut self, word: Word) -> Result<(), Self::Error>;

    /// Copies out of the own ring, from `offset` on. Never beyond its end.
    fn read(&self, offset: usize, buffer: &mut [u8]);

    /// Asks for the cache line of a byte of the own ring, never beyond its end; does nothing where
    /// that brings nothing.
    #[inline]
    fn touch(&self, _offset: usize) {}

    /// Copies into the other side's ring, from `offset` on. Never beyond its end.
    ///
    /// # Errors
    /// It cannot be reached.
    fn write_peer(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Self::Error>;

    /// A full fence: no load after it is done before the stores in front of it are visible.
    fn fence(&self);

    /// The position of a side (acquire).
    fn position(&self, side: Side) -> u64;

    /// Sets the position of a side (release); the caller holds its lock.
    fn set_position(&mut self, side: Side, position: u64);

    /// Takes the lock of a side for `holder` if it is free (acquire); whether it was.
    fn try_lock(&mut self, side: Side, holder: u32) -> bool;

    /// Gives the lock of a side back (release).
    fn unlock(&mut self, side: Side);

    /// As `unlock`, then a full fence as [`fence`](RingMemory::fence): one instruction where a
    /// locked one is both.
    #[inline]
    fn unlock_and_fence(&mut self, side: Side) {
        self.unlock(side);
        self.fence();
    }
}
