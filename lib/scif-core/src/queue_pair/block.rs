//! The memory behind the rings: our half of a queue pair, and the other side's half as its
//! structure describes it. `rings.rs` works on them.

use crate::base::memory::{BadAddress, Locality, Memory};
use scif_abi::limits;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, QP_MAGIC, QueuePair};
use zerocopy::{FromZeros, IntoBytes};

/// Our half of a queue pair: the structure, on a page of its own, then the ring that we read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Local address of the structure.
    address: u64,
    /// Bytes in the ring.
    ring_bytes: u32,
    /// The address at which the other side sees the structure.
    exported: u64,
}

impl Block {
    /// Makes a queue pair structure and its ring for the other side at `locality`.
    pub(crate) fn allocate(
        mem: &mut dyn Memory,
        locality: Locality,
        ring_bytes: u32,
        extensions: u32,
    ) -> Option<Block> {
        let address = mem.allocate(Block::bytes_for(ring_bytes))?;
        let exported = locality.export(mem, address);
        let buffer = locality.export(mem, address + limits::PAGE_BYTES as u64);
        let structure = QueuePair::new(exported, buffer, ring_bytes, extensions);
        mem.write(address, structure.as_bytes());
        Some(Block {
            address,
            ring_bytes,
            exported,
        })
    }

    /// As `allocate`, for a connection, with a ring of at most `most` bytes. A block is contiguous
    /// memory, of which there may be only small pieces: then the ring is smaller, but at least a
    /// page.
    pub(crate) fn allocate_at_most(
        mem: &mut dyn Memory,
        locality: Locality,
        most: u32,
    ) -> Option<Block> {
        let least = most.min(limits::PAGE_BYTES as u32);
        let sizes = core::iter::successors(Some(most), |bytes| Some(bytes / 2));
        let mut sizes = sizes.take_while(|bytes| *bytes >= least);
        sizes.find_map(|bytes| Block::allocate(mem, locality, bytes, 0))
    }

    fn bytes_for(ring_bytes: u32) -> usize {
        limits::PAGE_BYTES + (ring_bytes as usize).next_multiple_of(limits::PAGE_BYTES)
    }

    /// Pages of the ring.
    pub(crate) fn ring_pages(&self) -> usize {
        (self.ring_bytes as usize).div_ceil(limits::PAGE_BYTES)
    }

    /// How many pages this block has.
    pub(crate) fn pages(&self) -> usize {
        Block::bytes_for(self.ring_bytes) / limits::PAGE_BYTES
    }

    pub(crate) fn free(self, mem: &mut dyn Memory) {
        mem.free(self.address, Block::bytes_for(self.ring_bytes));
    }

    /// As [`free`](Self::free), for a block that no program of this node has ever had mapped.
    /// `stored` says how many bytes at the beginning of the ring were stored into, if that is
    /// known.
    pub(crate) fn recycle(self, mem: &mut dyn Memory, stored: Option<u32>) {
        let bytes = Block::bytes_for(self.ring_bytes);
        let used = stored.map_or(bytes, |stored| Block::bytes_for(stored).min(bytes));
        mem.recycle(self.address, bytes, used);
    }

    /// Local address of the structure.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The address at which the other side sees the structure.
    pub(crate) fn exported(&self) -> u64 {
        self.exported
    }

    /// Bytes in the ring.
    pub(crate) fn ring_bytes(&self) -> u32 {
        self.ring_bytes
    }

    /// Local address of the ring.
    pub(crate) fn ring_address(&self) -> u64 {
        self.address + limits::PAGE_BYTES as u64
    }
}

/// The other side's half of a queue pair, from its structure: copied once, and checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteQueuePair {
    pub(super) locality: Locality,
    /// Bus address of the structure.
    pub(super) address: u64,
    /// Bus address of the ring.
    pub(super) buffer: u64,
    /// Bytes in the ring.
    pub(super) ring_bytes: u32,
    /// The extension word, not interpreted.
    extensions: u32,
}

impl RemoteQueuePair {
    /// The other half of a queue pair within the node. It is made from what the engine knows,
    /// whatever is stored in the structure.
    pub(crate) fn own(block: &Block) -> RemoteQueuePair {
        RemoteQueuePair {
            locality: Locality::Own,
            address: block.address,
            buffer: block.ring_address(),
            ring_bytes: block.ring_bytes,
            extensions: 0,
        }
    }

    /// Reads and checks the structure at bus address `address`, which has `bytes` bytes with the
    /// words behind it. `None`: there is no usable queue pair.
    pub(crate) fn read(
        mem: &dyn Memory,
        locality: Locality,
        address: u64,
        bytes: usize,
    ) -> Option<RemoteQueuePair> {
        let mut structure = QueuePair::new_zeroed();
        // Index words are stored as aligned 32-bit words.
        let aligned = address.is_multiple_of(4);
        if !aligned || !locality.reaches(mem, address, bytes) {
            return None;
        }
        locality.read(mem, address, structure.as_mut_bytes()).ok()?;
        let ring_bytes = structure.inbound.size.get();
        let buffer = structure.local_buffer.get();
        let size_is_sane = ring_bytes.is_power_of_two()
            && (limits::MIN_RING_BYTES..=limits::MAX_RING_BYTES).contains(&ring_bytes);
        if structure.magic.get() != QP_MAGIC
            || !size_is_sane
            || !locality.reaches(mem, buffer, ring_bytes as usize)
        {
            return None;
        }
        let extensions = structure.extensions.get();
        Some(RemoteQueuePair {
            locality,
            address,
            buffer,
            ring_bytes,
            extensions,
        })
    }

    /// The extension word, not interpreted.
    pub(crate) fn extensions(&self) -> u32 {
        self.extensions
    }

    /// Sets both index words of the other side to zero, as the accepting side must: the structure
    /// may have been used before.
    pub(crate) fn clear_indices(&self, mem: &mut dyn Memory) -> Result<(), BadAddress> {
        self.locality
            .store_index(mem, self.address + LOCAL_WRITE_OFFSET, 0)?;
        self.locality
            .store_index(mem, self.address + LOCAL_READ_OFFSET, 0)
    }
}
