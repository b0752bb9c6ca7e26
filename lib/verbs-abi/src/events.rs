//! The records that a `read` of a descriptor of events returns.

use syscall_derive::Layout;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An asynchronous event.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Layout,
)]
#[layout(size = 16, align = 8)]
#[repr(C)]
pub struct AsyncRecord {
    /// The `user_handle` of the object that the event is about, or the number of the port.
    #[layout(offset = 0)]
    pub element: u64,
    /// The type of the event.
    #[layout(offset = 8)]
    pub event_type: u32,
    /// Always 0.
    #[layout(offset = 12)]
    pub reserved: u32,
}

/// A completion event.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Layout,
)]
#[layout(size = 8, align = 8)]
#[repr(C)]
pub struct CompletionRecord {
    /// The `user_handle` of the completion queue.
    #[layout(offset = 0)]
    pub user_handle: u64,
}
