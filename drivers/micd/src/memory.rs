//! The memory the engine works on: this node's shared pages and the peers' RAM.
//!
//! A block's local address is its physical address, which is also its bus address for every peer:
//! an aperture shows the RAM of its node from physical address 0.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;

use platform::aperture::Aperture;
use platform::dma::Allocator;
use platform::mem::Region;
use scheme_scif::Fabric;
use scif_abi::NodeId;
use scif_core::{BadAddress, Memory, Place};

use crate::function::Doorbell;

/// Where blocks of shared memory come from.
pub trait BlockSource {
    /// Zeroed, page-aligned, physically contiguous memory and its physical address; `None` when
    /// there is none.
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)>;
}

impl BlockSource for Allocator {
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)> {
        match Allocator::allocate(self, bytes) {
            Ok(buffer) => Some((buffer.region().clone(), buffer.physical())),
            Err(error) => {
                log::warn!("no {bytes} bytes of shared memory: {error}");
                None
            }
        }
    }
}

struct Peer {
    aperture: Aperture,
    doorbell: Rc<dyn Doorbell>,
}

/// The memory of one node.
pub struct NodeMemory<S> {
    source: S,
    /// Own blocks by local address.
    blocks: BTreeMap<u64, Region>,
    allocated_bytes: usize,
    peers: BTreeMap<NodeId, Peer>,
}

impl<S: BlockSource> NodeMemory<S> {
    /// Memory without peers.
    pub fn new(source: S) -> Self {
        Self {
            source,
            blocks: BTreeMap::new(),
            allocated_bytes: 0,
            peers: BTreeMap::new(),
        }
    }

    /// Makes a peer's memory and doorbell known.
    pub fn add_peer(&mut self, node: NodeId, aperture: Aperture, doorbell: Rc<dyn Doorbell>) {
        self.peers.insert(node, Peer { aperture, doorbell });
    }

    /// The block that holds a local address, and the offset in it.
    fn place(&self, address: u64) -> (&Region, usize) {
        let block = self.blocks.range(..=address).next_back();
        let Some((start, region)) = block else {
            panic!("local address {address:#x} was never given out");
        };
        (region, (address - start) as usize)
    }

    /// The region that holds a place, and the offset in it.
    fn range(&self, place: Place, bytes: usize) -> Result<(Region, usize), BadAddress> {
        match place {
            Place::Own(address) => {
                let (region, offset) = self.place(address);
                Ok((region.clone(), offset))
            }
            Place::Peer(node, address) => Ok((self.window(node, address, bytes)?, 0)),
        }
    }

    fn window(&self, node: NodeId, address: u64, bytes: usize) -> Result<Region, BadAddress> {
        let peer = self.peers.get(&node).ok_or(BadAddress)?;
        peer.aperture.window(address, bytes).map_err(|_| BadAddress)
    }
}

/// The result of an access to own memory. Addresses come from the engine, which has them from
/// [`Memory::allocate`]: one outside a block is a mistake of ours that must not go on.
fn own<T>(result: Result<T, platform::mem::BoundsError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("own shared memory: {error}"),
    }
}

impl<S: BlockSource> Memory for NodeMemory<S> {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let (region, physical) = self.source.allocate(bytes)?;
        self.allocated_bytes += bytes;
        self.blocks.insert(physical, region.part(0, bytes).ok()?);
        Some(physical)
    }

    fn free(&mut self, address: u64, bytes: usize) {
        if self.blocks.remove(&address).is_some() {
            self.allocated_bytes -= bytes;
        }
    }

    fn export(&self, _node: NodeId, address: u64) -> u64 {
        address
    }

    fn read(&self, address: u64, buffer: &mut [u8]) {
        let (region, offset) = self.place(address);
        own(region.read_bytes(offset, buffer));
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let (region, offset) = self.place(address);
        own(region.write_bytes(offset, bytes));
    }

    fn load_index(&self, address: u64) -> u32 {
        let (region, offset) = self.place(address);
        own(region.load_acquire_u32(offset))
    }

    fn store_index(&mut self, address: u64, value: u32) {
        let (region, offset) = self.place(address);
        own(region.store_release_u32(offset, value));
    }

    fn peer_reaches(&self, node: NodeId, address: u64, bytes: usize) -> bool {
        self.window(node, address, bytes).is_ok()
    }

    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        let peer = self.peers.get(&node).ok_or(BadAddress)?;
        peer.aperture.read(address, buffer).map_err(|_| BadAddress)
    }

    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        let peer = self.peers.get(&node).ok_or(BadAddress)?;
        peer.aperture.write(address, bytes).map_err(|_| BadAddress)
    }

    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        // A release store: the data written before is visible to who reads the index.
        let word = self.window(node, address, size_of::<u32>())?;
        word.store_release_u32(0, value).map_err(|_| BadAddress)
    }

    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        let (from, from_offset) = self.range(from, bytes)?;
        let (to, to_offset) = self.range(to, bytes)?;
        to.copy_from(to_offset, &from, from_offset, bytes)
            .map_err(|_| BadAddress)
    }

    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        let (Place::Own(address) | Place::Peer(_, address)) = to;
        let (to, offset) = self.range(to, size_of::<u64>())?;
        platform::mem::write_fence();
        let stored = if address.is_multiple_of(size_of::<u64>() as u64) {
            to.store_release_u64(offset, value)
        } else {
            to.write_bytes(offset, &value.to_le_bytes())
        };
        stored.map_err(|_| BadAddress)
    }

    fn fence(&mut self) {
        platform::mem::write_fence();
    }
}

impl<S: BlockSource> Fabric for NodeMemory<S> {
    fn ring(&mut self, node: NodeId) {
        if let Some(peer) = self.peers.get(&node) {
            peer.doorbell.ring();
        }
    }

    fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }
}
