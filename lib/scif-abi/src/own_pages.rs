//! The structures of operations on pages of a program's own, which the daemon pins
//! ([`MemoryCall::Pin`](crate::call::MemoryCall::Pin) says how it finds them).

use syscall_derive::Layout;
use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A window of pages of a program's own.
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
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct OwnRecord {
    /// The number that the program sent with the descriptor of its address space.
    #[layout(offset = 0)]
    pub space: U64,
    /// The address of the first byte in the program's address space, a multiple of the page size.
    #[layout(offset = 8)]
    pub address: U64,
    /// Bytes, a multiple of the page size, not 0.
    #[layout(offset = 16)]
    pub length: U64,
    /// The window's offset with `SCIF_MAP_FIXED`. Not used without.
    #[layout(offset = 24)]
    pub offset: I64,
    /// [`Protection`](crate::flags::Protection).
    #[layout(offset = 32)]
    pub protection: U32,
    /// [`MapFlags`](crate::flags::MapFlags).
    #[layout(offset = 36)]
    pub flags: U32,
}

/// A copy between memory of a program's own and the peer's registered address space.
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
#[layout(size = 40, align = 1)]
#[repr(C)]
pub struct OwnTransferRecord {
    /// The number that the program sent with the descriptor of its address space.
    #[layout(offset = 0)]
    pub space: U64,
    /// The address of the first byte in the program's address space.
    #[layout(offset = 8)]
    pub address: U64,
    /// Bytes.
    #[layout(offset = 16)]
    pub length: U64,
    /// Offset in the peer's registered address space.
    #[layout(offset = 24)]
    pub remote_offset: I64,
    /// [`RmaFlags`](crate::flags::RmaFlags).
    #[layout(offset = 32)]
    pub flags: U32,
    /// Zero.
    #[layout(offset = 36)]
    pub reserved: U32,
}

/// The pages that a program pins.
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
pub struct PinRecord {
    /// The number that the program sent with the descriptor of its address space.
    #[layout(offset = 0)]
    pub space: U64,
    /// The address of the first byte in the program's address space, a multiple of the page size.
    #[layout(offset = 8)]
    pub address: U64,
    /// Bytes, a multiple of the page size, not 0.
    #[layout(offset = 16)]
    pub length: U64,
    /// The rights that windows of the pages may have: [`Protection`](crate::flags::Protection).
    #[layout(offset = 24)]
    pub protection: U32,
    /// 0 or [`UNCHARGED`](PinRecord::UNCHARGED).
    #[layout(offset = 28)]
    pub flags: U32,
}

impl PinRecord {
    /// Root only: the pages do not count against any limit.
    pub const UNCHARGED: u32 = 1;
}
