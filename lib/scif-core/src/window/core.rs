//! The part of a window that is the same at both ends.

use scif_abi::NodeId;
use scif_abi::flags::Protection;

use crate::base::context::Ends;
use crate::base::ids::ConnectionId;
use crate::base::pages::Chunks;

/// The place of a window, what it allows, and the memory that it is made of.
#[derive(Debug)]
pub(crate) struct WindowCore {
    /// The connection in whose registered address space the window is, while it is found by
    /// offset.
    pub(super) connection: Option<ConnectionId>,
    /// Both ends of that connection, for messages after the connection has ended.
    pub(super) ends: Ends,
    pub(super) offset: i64,
    pub(super) protection: Protection,
    pub(super) chunks: Chunks,
    /// How many own jobs read or write the window.
    pub(super) jobs: u32,
}

impl WindowCore {
    /// The connection in whose registered address space the window is.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// The node of the other end.
    pub(crate) fn node(&self) -> NodeId {
        self.ends.peer.node()
    }

    /// The window's pages.
    pub(crate) fn chunks(&self) -> &Chunks {
        &self.chunks
    }

    /// How many own jobs read or write the window.
    pub(crate) fn jobs(&self) -> u32 {
        self.jobs
    }

    /// Whether the window is in the space of this connection, at this offset.
    pub(super) fn is_at(&self, connection: ConnectionId, offset: i64, bytes: u64) -> bool {
        self.connection == Some(connection) && (self.offset, self.chunks.bytes()) == (offset, bytes)
    }
}
