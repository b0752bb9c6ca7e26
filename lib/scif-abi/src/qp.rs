//! The queue pair structure: what the two sides of a ring pair share, in the mainline driver's
//! layout.
//!
//! Each side has one structure, in its own memory. The peer reads it once, when the rings are set
//! up. Afterwards it only *writes* two words of it: `local_write`, when it has put bytes into our
//! ring, and `local_read`, when it has taken bytes out of its own ring that we put there. The two
//! words are on cache lines of their own. Everything else in the mainline structure (kernel
//! pointers, locks) is private to its owner and written as zero here.

use syscall_derive::Layout;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `SCIFEP_MAGIC` of the mainline driver: the first word of every queue pair structure.
pub const QP_MAGIC: u64 = 0x5c1f_0000_0000_5c1f;

/// `qp_state` while the rings must not be used yet (card-to-card set-up).
pub const QP_OFFLINE: u32 = 0xdead;

/// `qp_state` once the rings may be used.
pub const QP_ONLINE: u32 = 0xc0de;

/// Size of the structure in bytes.
pub const QP_BYTES: usize = 256;

/// Offset of the magic in the structure.
pub const MAGIC_OFFSET: u64 = 0;

/// Offset of `local_write` in the structure: the peer stores its write index here.
pub const LOCAL_WRITE_OFFSET: u64 = 128;

/// Offset of `local_read` in the structure: the peer stores its read index here.
pub const LOCAL_READ_OFFSET: u64 = 192;

/// Offset of `bytes_armed`, a `u32` behind the structure, which both sides have when they speak
/// [`Extensions::ARMED`](crate::message::Extensions::ARMED). The peer stores 1 here when it sleeps
/// and asks for CLIENT_SENT when bytes have been put into *its* ring. The owner swaps the word to
/// 0 and sends that message.
pub const BYTES_ARMED_OFFSET: u64 = 256;

/// Offset of `room_armed`, a word like [`BYTES_ARMED_OFFSET`]. By it the peer asks for CLIENT_RCVD
/// when bytes that it put into the owner's ring have been taken out.
pub const ROOM_ARMED_OFFSET: u64 = 320;

/// Bytes from the start of the structure to the end of the armed words.
pub const ARMED_QP_BYTES: usize = 384;

/// One ring, as the mainline driver describes it (`struct scif_rb`). The other side uses only
/// `size`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Layout)]
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct RingDescriptor {
    /// Owner's pointers to buffer, read index and write index: zero in our structures.
    #[layout(offset = 0)]
    pub private_pointers: [U64; 3],
    /// Bytes in the ring, a power of two.
    #[layout(offset = 24)]
    pub size: U32,
    /// Owner's unpublished read and write offsets, and padding.
    #[layout(offset = 28)]
    pub private_offsets: [U32; 3],
}

/// A queue pair structure (`struct scif_qp`).
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Layout)]
#[layout(size = 256, align = 1)]
#[repr(C)]
pub struct QueuePair {
    /// [`QP_MAGIC`].
    #[layout(offset = 0)]
    pub magic: U64,
    /// The ring that the owner writes to.
    #[layout(offset = 8)]
    pub outbound: RingDescriptor,
    /// The ring that the owner reads from. `size` tells the peer the size of the buffer at
    /// `local_buffer`.
    #[layout(offset = 48)]
    pub inbound: RingDescriptor,
    /// Padding up to the next cache line.
    #[layout(offset = 88)]
    pub padding0: [u8; 40],
    /// Write index of the ring at `local_buffer`; stored by the peer.
    #[layout(offset = 128)]
    pub local_write: U32,
    /// Rest of that cache line.
    #[layout(offset = 132)]
    pub padding1: [u8; 60],
    /// Read index of the peer's ring; stored by the peer.
    #[layout(offset = 192)]
    pub local_read: U32,
    /// Padding of the C structure.
    #[layout(offset = 196)]
    pub padding2: [u8; 4],
    /// Owner's pointer to the peer's structure: zero in ours.
    #[layout(offset = 200)]
    pub private_remote_qp: U64,
    /// Bus address of the owner's inbound ring buffer.
    #[layout(offset = 208)]
    pub local_buffer: U64,
    /// Bus address of this structure.
    #[layout(offset = 216)]
    pub local_qp: U64,
    /// Bus address of the peer's ring buffer, once known.
    #[layout(offset = 224)]
    pub remote_buffer: U64,
    /// [`QP_OFFLINE`] or [`QP_ONLINE`].
    #[layout(offset = 232)]
    pub state: U32,
    /// Owner's two locks: zero in ours.
    #[layout(offset = 236)]
    pub private_locks: [U32; 2],
    /// The [`Extensions`](crate::message::Extensions) that the owner offers. The mainline
    /// structure ends before this word and pads to 256 bytes with zeros, so a mainline peer offers
    /// none.
    #[layout(offset = 244)]
    pub extensions: U32,
    /// Padding, zero.
    #[layout(offset = 248)]
    pub padding3: [u8; 8],
}

impl QueuePair {
    /// A structure at bus address `own`, for a ring of `ring_bytes` bytes at bus address `buffer`.
    pub fn new(own: u64, buffer: u64, ring_bytes: u32, extensions: u32) -> QueuePair {
        let mut queue_pair = QueuePair::new_zeroed();
        queue_pair.magic = QP_MAGIC.into();
        queue_pair.inbound.size = ring_bytes.into();
        queue_pair.local_buffer = buffer.into();
        queue_pair.local_qp = own.into();
        queue_pair.state = QP_ONLINE.into();
        queue_pair.extensions = extensions.into();
        queue_pair
    }
}
