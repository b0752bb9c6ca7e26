//! The link memory between two nodes of the virtual fabric: the identity of both, and what each
//! side must know about the other before queue pairs connect. It takes the place of a card's
//! scratch registers and of the mainline driver's device page.
//!
//! ```text
//!   0  Header      written by the fabric server; only `down` changes
//!  64  Record      of side 0        192  heartbeat of side 0
//! 128  Record      of side 1        256  heartbeat of side 1
//! ```
//!
//! Each block has a cache line of its own and one writer: its side. Only one word has a second
//! writer: the fabric server stores [`STATE_ABSENT`] into the state of a side whose machine is
//! gone. Side 0 is the node named first in the header. All values are little endian.
//!
//! # Incarnations
//! A queue pair serves one connection of two incarnations. Each side numbers its own incarnations
//! (`generation`, never 0 once there was one). It also names the peer's incarnation that its queue
//! pair belongs to (`peer_generation`, 0: none yet). Connecting takes two steps, so that no side
//! writes into a queue pair that an earlier incarnation has used:
//!
//! 1. A side binds its queue pair to the peer's incarnation when the peer's record is ready and
//!    bound to no incarnation or to this side's incarnation ([`Record::may_bind`]).
//! 2. It uses the peer's queue pair when both are bound to each other ([`Record::is_bound_to`]).
//!
//! When the peer's generation or state is no longer the one that a side bound to, that side begins
//! anew with a new queue pair and generation.
//!
//! A side that publishes a new generation or leaves [`STATE_READY`] will not write to its peer's
//! memory through the former connection any more. Therefore the peer can safely reuse the memory.

use syscall_derive::Layout;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The first word of the link memory: `SKIFLINK`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"SKIFLINK");

/// Version of this layout. A node does not use links of another version.
pub const VERSION: u32 = 1;

/// Smallest link memory in bytes.
pub const MIN_LINK_BYTES: usize = 320;

/// The side is absent. The fabric server writes it when a machine goes, and a side writes it when
/// it leaves.
pub const STATE_ABSENT: u32 = 0;

/// The record is valid: the queue pair can be used under the rules above.
pub const STATE_READY: u32 = 1;

/// The side gave up the connection and waits for the other side to connect anew.
pub const STATE_STOPPED: u32 = 2;

/// The fabric server's description of a link.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Layout)]
#[layout(size = 64, align = 1)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    #[layout(offset = 0)]
    pub magic: U64,
    /// [`VERSION`].
    #[layout(offset = 8)]
    pub version: U32,
    /// Node numbers of side 0 and side 1.
    #[layout(offset = 12)]
    pub nodes: [U16; 2],
    /// Not 0 while the fabric has cut the link.
    #[layout(offset = 16)]
    pub down: U32,
    /// Zero.
    #[layout(offset = 20)]
    pub reserved: [u8; 44],
}

/// One side's description of itself.
#[derive(
    Clone,
    Copy,
    Debug,
    Eq,
    PartialEq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
    Layout,
)]
#[layout(size = 64, align = 1)]
#[repr(C)]
pub struct Record {
    /// One of the `STATE_` numbers; unknown ones count as absent. The side stores it last.
    #[layout(offset = 0)]
    pub state: U32,
    /// Number of this incarnation of the side.
    #[layout(offset = 4)]
    pub generation: U32,
    /// The peer's incarnation that the queue pair belongs to; 0: none yet.
    #[layout(offset = 8)]
    pub peer_generation: U32,
    /// The doorbell (interrupt vector) that announces messages and changes of the link memory.
    #[layout(offset = 12)]
    pub doorbell: U32,
    /// Bus address of the node queue pair in this side's memory.
    #[layout(offset = 16)]
    pub queue_pair: U64,
    /// Bytes of this side's memory, for information; 0 if the side does not say.
    #[layout(offset = 24)]
    pub ram_bytes: U64,
    /// Zero.
    #[layout(offset = 32)]
    pub reserved: [u8; 32],
}

/// Offset of `down` in the header, the only word of the header that changes.
pub const HEADER_DOWN: usize = 16;

/// Offset of `state` in a record.
pub const RECORD_STATE: usize = 0;
/// Offset of `generation` in a record.
pub const RECORD_GENERATION: usize = 4;
/// Offset of `peer_generation` in a record.
pub const RECORD_PEER_GENERATION: usize = 8;

/// Offset of the record of side `side` (0 or 1) in the link memory.
pub const fn record_offset(side: usize) -> usize {
    64 + 64 * (side & 1)
}

/// Offset of the heartbeat of side `side`: a 64-bit counter that moves while the side's daemon is
/// alive.
pub const fn heartbeat_offset(side: usize) -> usize {
    192 + 64 * (side & 1)
}

const _: () = assert!(heartbeat_offset(1) + 64 == MIN_LINK_BYTES);

impl Header {
    /// The header of the link between two nodes.
    pub fn new(nodes: [u16; 2]) -> Self {
        let mut header = Self::new_zeroed();
        header.magic = MAGIC.into();
        header.version = VERSION.into();
        header.nodes = nodes.map(U16::from);
        header
    }

    /// Which side node `own` is, and the number of the node on the other side. `None` if this is
    /// no link memory of this version, or not that node's.
    pub fn side_of(&self, own: u16) -> Option<(usize, u16)> {
        let [first, second] = self.nodes.map(U16::get);
        if self.magic.get() != MAGIC || self.version.get() != VERSION || first == second {
            return None;
        }
        match own {
            own if own == first => Some((0, second)),
            own if own == second => Some((1, first)),
            _ => None,
        }
    }
}

impl Record {
    /// Whether a side of incarnation `own` may bind its queue pair to this record's incarnation.
    pub fn may_bind(&self, own: u32) -> bool {
        let bound_to = self.peer_generation.get();
        self.state.get() == STATE_READY
            && self.generation.get() != 0
            && (bound_to == 0 || bound_to == own)
    }

    /// Whether this record's queue pair serves incarnation `own` of the other side.
    pub fn is_bound_to(&self, own: u32) -> bool {
        self.may_bind(own) && self.peer_generation.get() == own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_know_each_other() {
        let header = Header::new([0, 3]);
        assert_eq!(&header.as_bytes()[..8], b"SKIFLINK");
        assert_eq!(header.side_of(0), Some((0, 3)));
        assert_eq!(header.side_of(3), Some((1, 0)));
        assert_eq!(header.side_of(1), None);
        assert_eq!(Header::new([2, 2]).side_of(2), None);
        assert_eq!(Header::new_zeroed().side_of(0), None);
    }

    #[test]
    fn blocks_do_not_overlap() {
        assert_eq!([record_offset(0), record_offset(1)], [64, 128]);
        assert_eq!([heartbeat_offset(0), heartbeat_offset(1)], [192, 256]);
    }

    #[test]
    fn a_queue_pair_serves_one_peer_incarnation() {
        let mut record = Record::new_zeroed();
        assert!(!record.may_bind(5));
        record.state = STATE_READY.into();
        assert!(!record.may_bind(5));
        record.generation = 1.into();
        assert!(record.may_bind(5) && !record.is_bound_to(5));
        record.peer_generation = 5.into();
        assert!(record.may_bind(5) && record.is_bound_to(5));
        assert!(!record.may_bind(6) && !record.is_bound_to(6));
        record.state = STATE_STOPPED.into();
        assert!(!record.may_bind(5));
    }
}
