//! The memory an engine works on, seen as an argument: its own shared pages and the peers' memory.
//!
//! The engine never holds a pointer. It asks for shared pages once per connection and per link, and
//! from then on reads and writes *its own* pages and only writes those of a peer. The one
//! exception: while rings are being set up it reads the peer's queue pair structure
//! ([`Memory::peer_read`]).
//!
//! # Addresses
//! * A *local* address names a byte of a block that [`Memory::allocate`] returned. It means
//!   something to this node only.
//! * A *bus* address is how a peer addresses our memory ([`Memory::export`]), or how a peer told us
//!   to address its memory. Bus addresses from a peer are untrusted numbers.
//!
//! # Ordering
//! Index words are the only words both sides race on. [`Memory::load_index`] is an acquire load and
//! [`Memory::store_index`] a release store; [`Memory::peer_store_index`] makes every earlier
//! `peer_write` to the same node visible before the index is (on a bus: a write barrier first). On
//! cards whose posted writes a doorbell may overtake, it stores the word twice.

use scif_abi::NodeId;

/// A bus address given by a peer lies outside the peer's memory, or the link is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAddress;

/// Memory access of one node. All addresses and lengths are in bytes.
pub trait Memory {
    /// A zeroed block of own memory that every peer can reach, physically contiguous, aligned to a
    /// page; `bytes` is a multiple of the page size. Returns its local address, `None` when there
    /// is none.
    fn allocate(&mut self, bytes: usize) -> Option<u64>;

    /// Gives a block of [`Memory::allocate`] back. No peer writes to it any more.
    fn free(&mut self, address: u64, bytes: usize);

    /// The bus address under which `node` reaches the own byte at `address`.
    fn export(&self, node: NodeId, address: u64) -> u64;

    /// Copies from own shared memory.
    fn read(&self, address: u64, buffer: &mut [u8]);

    /// Copies to own shared memory.
    fn write(&mut self, address: u64, bytes: &[u8]);

    /// Loads an aligned index word of own shared memory (acquire).
    fn load_index(&self, address: u64) -> u32;

    /// Stores an aligned index word of own shared memory (release).
    fn store_index(&mut self, address: u64, value: u32);

    /// Whether `bytes` bytes at bus address `address` are memory of `node` that can be reached.
    fn peer_reaches(&self, node: NodeId, address: u64, bytes: usize) -> bool;

    /// Copies from a peer's memory; during set-up only.
    ///
    /// # Errors
    /// `BadAddress` when the range is not all memory of that node.
    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress>;

    /// Copies to a peer's memory.
    ///
    /// # Errors
    /// `BadAddress` when the range is not all memory of that node.
    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress>;

    /// Stores an aligned index word in a peer's memory, after every earlier write to that node.
    ///
    /// # Errors
    /// `BadAddress` when the word is not memory of that node.
    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress>;
}
