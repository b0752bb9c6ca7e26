//! The memory that an engine works on: its own shared pages and the peers' memory.
//!
//! The engine never holds a pointer; memory is an argument of its calls. It asks for shared pages
//! once per connection and per link. From then on it reads and writes *its own* pages and only
//! writes those of a peer. There are three exceptions. While rings are set up it reads the peer's
//! queue pair structure. While a window is registered it reads the lookup arrays that the peer
//! granted. And copies of registered memory may have the peer's pages as their source
//! ([`Memory::peer_read`], [`Memory::copy`]).
//!
//! # Addresses
//! * A *local* address names a byte of a block that [`Memory::allocate`] returned, or of memory
//!   that the driver has pinned and named in a [`Run`](crate::Run). It is valid on this node only.
//! * A *bus* address is how a peer addresses our memory ([`Memory::export`]), or an address of its
//!   own memory that a peer gave us. Bus addresses from a peer are untrusted numbers.
//!
//! # Ordering
//! Index words are the only words on which both sides race; clients that work on their rings
//! themselves also race on positions and locks. [`Memory::load_index`] is an acquire load and
//! [`Memory::store_index`] a release store. [`Memory::peer_store_index`] makes every earlier
//! `peer_write` to the same node visible before the index is (on a bus: a write barrier first). On
//! cards whose doorbells may overtake posted writes, it stores the word twice.

use scif_abi::NodeId;

/// A bus address that a peer gave lies outside the peer's memory, or the link is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAddress;

/// The place of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In own memory, at this local address.
    Own(u64),
    /// In that node's memory, at this bus address.
    Peer(NodeId, u64),
}

impl Place {
    /// The place `bytes` bytes further on in the same memory.
    pub fn offset(self, bytes: u64) -> Place {
        match self {
            Place::Own(address) => Place::Own(address.wrapping_add(bytes)),
            Place::Peer(node, address) => Place::Peer(node, address.wrapping_add(bytes)),
        }
    }

    /// Copies bytes from this place.
    pub(crate) fn read(self, mem: &dyn Memory, buffer: &mut [u8]) -> Result<(), BadAddress> {
        match self {
            Place::Own(address) => mem.read(address, buffer),
            Place::Peer(node, address) => mem.peer_read(node, address, buffer)?,
        }
        Ok(())
    }

    /// Copies bytes to this place.
    pub(crate) fn write(self, mem: &mut dyn Memory, bytes: &[u8]) -> Result<(), BadAddress> {
        match self {
            Place::Own(address) => mem.write(address, bytes),
            Place::Peer(node, address) => mem.peer_write(node, address, bytes)?,
        }
        Ok(())
    }
}

/// Memory access of one node. All addresses and lengths are in bytes.
pub trait Memory {
    /// Allocates a zeroed block of own memory that every peer can reach, physically contiguous and
    /// aligned to a page. `bytes` is a multiple of the page size. Returns the local address,
    /// `None` when there is no memory.
    fn allocate(&mut self, bytes: usize) -> Option<u64>;

    /// Frees a block of [`Memory::allocate`]. No peer writes to it any more.
    fn free(&mut self, address: u64, bytes: usize);

    /// As [`free`](Self::free), for a block that no program of this node has mapped and that the
    /// peer's programs have unmapped. The next block of its size may be this one, cleared. Behind
    /// the first `used` bytes nothing was stored.
    fn recycle(&mut self, address: u64, bytes: usize, used: usize) {
        let _ = used;
        self.free(address, bytes);
    }

    /// The bus address at which `node` reaches the own byte at `address`. What is contiguous here
    /// (a block, a [`Run`](crate::Run)) is contiguous for the peer.
    fn export(&self, node: NodeId, address: u64) -> u64;

    /// Copies from own shared memory.
    fn read(&self, address: u64, buffer: &mut [u8]);

    /// Copies to own shared memory.
    fn write(&mut self, address: u64, bytes: &[u8]);

    /// Loads an aligned index word of own shared memory (acquire).
    fn load_index(&self, address: u64) -> u32;

    /// Stores an aligned index word of own shared memory (release).
    fn store_index(&mut self, address: u64, value: u32);

    /// Stores `new` into an aligned word of own shared memory if it holds `expected`, atomically
    /// (acquire and release). Returns the former value.
    fn exchange(&mut self, address: u64, expected: u32, new: u32) -> u32;

    /// Loads an aligned word of eight bytes of own shared memory (acquire).
    fn load_position(&self, address: u64) -> u64;

    /// Stores an aligned word of eight bytes of own shared memory (release).
    fn store_position(&mut self, address: u64, value: u64);

    /// Full fence: no later load is done before all earlier stores are visible.
    fn full_fence(&self);

    /// Whether `bytes` bytes at bus address `address` are memory of `node` that this node can
    /// reach.
    fn peer_reaches(&self, node: NodeId, address: u64, bytes: usize) -> bool;

    /// Copies from a peer's memory.
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

    /// Copies `bytes` bytes from one place to another, directly. The ranges may overlap, because
    /// one page may be in several windows; the content of the overlapping part is then undefined.
    ///
    /// # Errors
    /// `BadAddress` when a range is not all memory of its node; part of it may have been copied.
    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress>;

    /// Stores eight bytes, little endian, after everything that was copied or stored before is
    /// visible. `to` is a multiple of 4; if it is a multiple of 8, no reader sees half of the
    /// bytes.
    ///
    /// # Errors
    /// `BadAddress` when the word is not memory of that node.
    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress>;

    /// Write barrier: everything copied and stored before it is visible before anything copied or
    /// stored after it.
    fn fence(&mut self);
}

/// The node in whose memory the other side of a connection is: this one or the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locality {
    /// This node's: a connection within the node.
    Own,
    /// That node's.
    Peer(NodeId),
}

impl Locality {
    /// The place of the byte at `address` there.
    pub(crate) fn place(self, address: u64) -> Place {
        match self {
            Locality::Own => Place::Own(address),
            Locality::Peer(node) => Place::Peer(node, address),
        }
    }

    /// Copies to the other side's memory.
    pub(crate) fn write(
        self,
        mem: &mut dyn Memory,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), BadAddress> {
        self.place(address).write(mem, bytes)
    }

    /// Stores an index word in the other side's memory, after every earlier write there.
    pub(crate) fn store_index(
        self,
        mem: &mut dyn Memory,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        match self {
            Locality::Own => mem.store_index(address, value),
            Locality::Peer(node) => mem.peer_store_index(node, address, value)?,
        }
        Ok(())
    }

    /// Copies from the other side's memory.
    pub(crate) fn read(
        self,
        mem: &dyn Memory,
        address: u64,
        buffer: &mut [u8],
    ) -> Result<(), BadAddress> {
        self.place(address).read(mem, buffer)
    }

    /// Whether the other side has memory at that address. Within the node there is nothing to
    /// check, because such addresses are never read from memory.
    pub(crate) fn reaches(self, mem: &dyn Memory, address: u64, bytes: usize) -> bool {
        match self {
            Locality::Own => true,
            Locality::Peer(node) => mem.peer_reaches(node, address, bytes),
        }
    }

    /// The address at which the other side reaches our byte at `address`.
    pub(crate) fn export(self, mem: &dyn Memory, address: u64) -> u64 {
        match self {
            Locality::Own => address,
            Locality::Peer(node) => mem.export(node, address),
        }
    }
}
