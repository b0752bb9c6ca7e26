//! The bypass: how a client works on the rings of a connection itself, and the memory it uses.
//!
//! A bypass handle is `dup(fd, "bypass")` of a connected endpoint. Its `fmap` offsets are those of
//! [`Part`]; all parts are mapped shared, readable and writable. [`qp`](crate::qp) describes the
//! queue pairs and rings. The *control page* is this node's own: the positions in both rings, the
//! words that lock them, and what the daemon publishes for its clients. All values are little
//! endian, and each group has a cache line of its own:
//!
//! ```text
//!   0  state, epoch                       written by the daemon
//!  64  send_lock      72  sent            sent: by the holder of the lock
//! 128  receive_lock  136  received        received: by the holder of the lock
//! 192  transfers                          written by the daemon
//! 256  copy routines                      written by the daemon
//! 1024 rma_busy, 32 of them               each added to by the clients with that slot
//! ```
//!
//! The daemon trusts nothing that it reads there: a client that writes wrong values loses its own
//! connection.

use syscall_derive::Layout;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits::PAGE_BYTES;

/// Bytes of the control page.
pub const CONTROL_BYTES: usize = PAGE_BYTES;

/// Offset of the connection's state, a `u32`: one of the `STATE_` numbers.
pub const STATE_OFFSET: u64 = 0;

/// Offset of the epoch, a `u32`. It changes with every change of state, and whenever a window of
/// this connection, of either end, stops being valid (before the peer is notified).
pub const EPOCH_OFFSET: u64 = 4;

/// Offset of the `u32` that locks sending: [`LOCK_FREE`], or the number of the handle that holds
/// it.
pub const SEND_LOCK_OFFSET: u64 = 64;

/// Offset of a `u64`: the count of all bytes put into the peer's ring. The write index is this
/// number modulo the ring's size.
pub const SENT_OFFSET: u64 = 72;

/// Offset of the `u32` that locks receiving, with the values of [`SEND_LOCK_OFFSET`].
pub const RECEIVE_LOCK_OFFSET: u64 = 128;

/// Offset of a `u64`: the count of all bytes taken out of the own ring. The read index is this
/// number modulo the ring's size.
pub const RECEIVED_OFFSET: u64 = 136;

/// Offset of a `u32`: 1 while transfers or signals that the daemon makes for this end are queued or
/// under way, else 0. It is 1 before the answer to the call that starts one.
pub const TRANSFERS_OFFSET: u64 = 192;

/// Offset of four `u8`: which copy routine is the fastest from own memory to own, from own to the
/// aperture, from the aperture to own, and within the aperture. They are numbers of `hal::copy`,
/// each of which stands for the routines for short, middle and long copies.
pub const COPY_ROUTINES_OFFSET: u64 = 256;

/// Offset of the first of [`RMA_BUSY_SLOTS`] busy words: see [`rma_busy_offset`].
pub const RMA_BUSY_OFFSET: u64 = 1024;

/// How many busy words there are. Handles that are open at the same time have one each, unless
/// there are more handles than words.
pub const RMA_BUSY_SLOTS: usize = 32;

/// Bytes from one busy word to the next: a cache line.
pub const RMA_BUSY_STEP: u64 = 64;

/// The index of the busy word in which a handle counts its copies.
#[inline]
pub const fn rma_busy_slot(handle: u32) -> usize {
    handle as usize % RMA_BUSY_SLOTS
}

/// Offset of a handle's busy word, a `u32`: how many of its copies to or from windows have read
/// the epoch and not yet copied their last byte. Before the daemon lets a window go, it waits for
/// 0 in the words of all open handles. It clears a word when no open handle has it any more,
/// because a client may have died while it copied.
#[inline]
pub const fn rma_busy_offset(handle: u32) -> u64 {
    RMA_BUSY_OFFSET + RMA_BUSY_STEP * rma_busy_slot(handle) as u64
}

/// Connected. A fresh page has 0: the daemon has not stored a state yet.
pub const STATE_CONNECTED: u32 = 1;

/// The peer has gone. The bytes in the own ring can still be taken, but nothing of the peer's may
/// be accessed any more.
pub const STATE_DISCONNECTED: u32 = 2;

/// Reset or closed: the rings are empty.
pub const STATE_ENDED: u32 = 3;

/// Connected, and the peer puts no more bytes into the own ring.
pub const STATE_FINISHED: u32 = 4;

/// Value of a lock word that is free.
pub const LOCK_FREE: u32 = 0;

/// Value of a lock word while the daemon holds the lock.
pub const LOCK_DAEMON: u32 = 1;

/// Number of the first bypass handle. A handle stores its number into a lock word while it holds
/// the lock.
pub const FIRST_HANDLE: u32 = 2;

/// A flag of `BypassRecord::flags`: stores into the peer's memory may be gathered on their way, so
/// that an index could overtake its bytes. They must be drained before the index is stored.
pub const BYPASS_GATHERED: u32 = 2;

/// The parts that `fmap` of a bypass handle maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The control page.
    Control,
    /// The own queue pair page, and the own ring behind it.
    Own,
    /// The page of the peer's queue pair.
    PeerQueuePair,
    /// The peer's ring.
    PeerRing,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 4] = [
        Part::Control,
        Part::Own,
        Part::PeerQueuePair,
        Part::PeerRing,
    ];

    /// The part's offset for `fmap`, in bytes.
    pub const fn offset(self) -> u64 {
        match self {
            Part::Control => 0,
            Part::Own => 0x1000_0000,
            Part::PeerQueuePair => 0x2000_0000,
            Part::PeerRing => 0x3000_0000,
        }
    }

    /// The part that begins at an `fmap` offset.
    pub fn at(offset: u64) -> Option<Part> {
        Part::ALL.into_iter().find(|part| part.offset() == offset)
    }

    /// The part's size in bytes, whole pages, when the rings have these sizes in bytes.
    pub const fn bytes(self, own_ring_bytes: u32, peer_ring_bytes: u32) -> usize {
        match self {
            Part::Control => CONTROL_BYTES,
            Part::Own => PAGE_BYTES + (own_ring_bytes as usize).next_multiple_of(PAGE_BYTES),
            Part::PeerQueuePair => PAGE_BYTES,
            Part::PeerRing => (peer_ring_bytes as usize).next_multiple_of(PAGE_BYTES),
        }
    }
}

/// The description of a connection for a bypass client, filled in by `Call::BypassInfo`.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 32, align = 1)]
#[repr(C)]
pub struct BypassRecord {
    /// Number of the handle, from [`FIRST_HANDLE`] on, which it stores into a lock word.
    #[layout(offset = 0)]
    pub handle: U32,
    /// Bytes of the own ring, a power of two.
    #[layout(offset = 4)]
    pub own_ring_bytes: U32,
    /// Bytes of the peer's ring, a power of two.
    #[layout(offset = 8)]
    pub peer_ring_bytes: U32,
    /// [`BYPASS_GATHERED`], or 0.
    #[layout(offset = 12)]
    pub flags: U32,
    /// Zero.
    #[layout(offset = 16)]
    pub reserved: [u8; 16],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_cache_lines_of_their_own() {
        let line = |offset: u64| offset / 64;
        assert_eq!(line(EPOCH_OFFSET), line(STATE_OFFSET));
        assert_eq!(line(SENT_OFFSET), line(SEND_LOCK_OFFSET));
        assert_eq!(line(RECEIVED_OFFSET), line(RECEIVE_LOCK_OFFSET));
        let groups = [
            STATE_OFFSET,
            SEND_LOCK_OFFSET,
            RECEIVE_LOCK_OFFSET,
            TRANSFERS_OFFSET,
            COPY_ROUTINES_OFFSET,
            RMA_BUSY_OFFSET,
        ];
        for pair in groups.windows(2) {
            assert!(line(pair[0]) < line(pair[1]));
        }
        for wide in [SENT_OFFSET, RECEIVED_OFFSET] {
            assert!(wide.is_multiple_of(8));
        }
    }

    #[test]
    fn handles_that_are_open_together_have_words_of_their_own() {
        let all = (FIRST_HANDLE..).take(RMA_BUSY_SLOTS).map(rma_busy_offset);
        let mut lines: [u64; RMA_BUSY_SLOTS] = [0; RMA_BUSY_SLOTS];
        for (line, offset) in lines.iter_mut().zip(all) {
            assert!(offset.is_multiple_of(64) && offset >= RMA_BUSY_OFFSET);
            assert!(offset + 4 <= CONTROL_BYTES as u64);
            *line = offset / 64;
        }
        lines.sort_unstable();
        assert!(lines.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(
            rma_busy_offset(FIRST_HANDLE + RMA_BUSY_SLOTS as u32),
            rma_busy_offset(FIRST_HANDLE)
        );
    }

    #[test]
    fn parts_do_not_overlap() {
        let largest = crate::limits::MAX_RING_BYTES;
        for pair in Part::ALL.windows(2) {
            let end = pair[0].offset() + pair[0].bytes(largest, largest) as u64;
            assert!(end <= pair[1].offset());
        }
        assert_eq!(Part::at(0x2000_0000), Some(Part::PeerQueuePair));
        assert_eq!(Part::at(0x1000), None);
        assert_eq!(Part::Own.bytes(64, 64), 8192);
        assert_eq!(Part::PeerRing.bytes(64, 1 << 16), 1 << 16);
    }
}
