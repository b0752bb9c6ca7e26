//! Settings of an engine.

use scif_abi::NodeId;
use scif_abi::limits;

use crate::base::quota::Limits;

/// Settings of one engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Number of this node.
    pub node: NodeId,
    /// Bytes of the ring that each endpoint offers its peer: a power of two from 64 to 1 MiB. Less
    /// than 4 KiB saves nothing, because a ring has its own pages. Peers of the base protocol read
    /// the size when they connect, so any value works with them.
    pub endpoint_ring_bytes: u32,
    /// When the rings of a user's endpoints have this many bytes, the user's new rings get the
    /// least size, a page. Until then each new ring takes a small part of what is left, and at
    /// most `endpoint_ring_bytes`. So a few connections get large rings, and thousands have room.
    pub user_ring_bytes: usize,
    /// As `user_ring_bytes`, for the rings of all users together.
    pub all_ring_bytes: usize,
    /// Bytes of the ring for messages from each node, a power of two from 64.
    pub node_ring_bytes: u32,
    /// The limits of users and processes. See also
    /// [`Engine::set_limit`](crate::Engine::set_limit).
    pub limits: Limits,
}

impl Config {
    /// The usual settings for node `node`.
    pub fn new(node: NodeId) -> Config {
        Config {
            node,
            endpoint_ring_bytes: limits::ENDPOINT_RING_BYTES,
            user_ring_bytes: usize::MAX,
            all_ring_bytes: usize::MAX,
            node_ring_bytes: limits::NODE_RING_BYTES,
            limits: Limits::default(),
        }
    }
}
