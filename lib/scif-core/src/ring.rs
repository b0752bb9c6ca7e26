//! One direction of a queue pair: a byte ring in the consumer's memory.
//!
//! The producer's write index lives in the consumer's queue pair structure, the consumer's read
//! index in the producer's, so each side reads only its own memory and crosses the bus with writes
//! only. Indices are byte offsets modulo the ring size; one byte always stays free, so equal
//! indices mean "empty". An index that comes from the other side is believed only if it is inside
//! the ring and moves forward within what it may: see [`RingError`].

use scif_abi::NodeId;
use scif_abi::limits;
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET, QP_BYTES, QP_MAGIC, QueuePair};
use zerocopy::{FromZeros, IntoBytes};

use crate::memory::{BadAddress, Memory, Place};

/// Why a ring cannot be used any longer; in both cases the other side is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingError {
    /// The other side stored an index that cannot be.
    BadIndex,
    /// The other side's memory is not where it said.
    BadAddress,
}

impl From<BadAddress> for RingError {
    fn from(_: BadAddress) -> RingError {
        RingError::BadAddress
    }
}

/// Whose memory the other side of a connection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Ours: a connection within the node.
    Own,
    /// That node's.
    Peer(NodeId),
}

impl Reach {
    /// How node `own` reaches the memory of `node`.
    pub(crate) fn to(node: NodeId, own: NodeId) -> Reach {
        if node == own {
            Reach::Own
        } else {
            Reach::Peer(node)
        }
    }

    /// The place of the byte at `address` there.
    pub(crate) fn place(self, address: u64) -> Place {
        match self {
            Reach::Own => Place::Own(address),
            Reach::Peer(node) => Place::Peer(node, address),
        }
    }

    pub(crate) fn write(
        self,
        mem: &mut dyn Memory,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), BadAddress> {
        match self {
            Reach::Own => mem.write(address, bytes),
            Reach::Peer(node) => mem.peer_write(node, address, bytes)?,
        }
        Ok(())
    }

    fn store_index(self, mem: &mut dyn Memory, address: u64, value: u32) -> Result<(), BadAddress> {
        match self {
            Reach::Own => mem.store_index(address, value),
            Reach::Peer(node) => mem.peer_store_index(node, address, value)?,
        }
        Ok(())
    }

    pub(crate) fn read(
        self,
        mem: &dyn Memory,
        address: u64,
        buffer: &mut [u8],
    ) -> Result<(), BadAddress> {
        match self {
            Reach::Own => mem.read(address, buffer),
            Reach::Peer(node) => mem.peer_read(node, address, buffer)?,
        }
        Ok(())
    }

    /// Within the node there is nothing to check: the addresses are our own.
    pub(crate) fn reaches(self, mem: &dyn Memory, address: u64, bytes: usize) -> bool {
        match self {
            Reach::Own => true,
            Reach::Peer(node) => mem.peer_reaches(node, address, bytes),
        }
    }

    /// The address under which the other side reaches our byte at `address`.
    pub(crate) fn export(self, mem: &dyn Memory, address: u64) -> u64 {
        match self {
            Reach::Own => address,
            Reach::Peer(node) => mem.export(node, address),
        }
    }
}

/// Our half of a queue pair: the structure on a page of its own, then the ring we read from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    /// Local address of the structure.
    pub(crate) address: u64,
    /// Bytes in the ring.
    pub(crate) ring_bytes: u32,
    /// Address of the structure as the other side sees it.
    pub(crate) exported: u64,
}

impl Block {
    /// Makes a queue pair structure and its ring for the other side at `reach`.
    pub(crate) fn allocate(
        mem: &mut dyn Memory,
        reach: Reach,
        ring_bytes: u32,
        extensions: u32,
    ) -> Option<Block> {
        let address = mem.allocate(Block::bytes_for(ring_bytes))?;
        let exported = reach.export(mem, address);
        let buffer = reach.export(mem, address + limits::PAGE_BYTES as u64);
        let structure = QueuePair::new(exported, buffer, ring_bytes, extensions);
        mem.write(address, structure.as_bytes());
        Some(Block {
            address,
            ring_bytes,
            exported,
        })
    }

    fn bytes_for(ring_bytes: u32) -> usize {
        limits::PAGE_BYTES + (ring_bytes as usize).next_multiple_of(limits::PAGE_BYTES)
    }

    /// Pages this block takes.
    pub(crate) fn pages(&self) -> usize {
        Block::bytes_for(self.ring_bytes) / limits::PAGE_BYTES
    }

    pub(crate) fn free(self, mem: &mut dyn Memory) {
        mem.free(self.address, Block::bytes_for(self.ring_bytes));
    }

    fn ring_address(&self) -> u64 {
        self.address + limits::PAGE_BYTES as u64
    }
}

/// What the other side's queue pair structure told us; copied once, checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteQueuePair {
    reach: Reach,
    address: u64,
    buffer: u64,
    ring_bytes: u32,
    /// Its extension word, not interpreted.
    pub(crate) extensions: u32,
}

impl RemoteQueuePair {
    /// Reads and checks the structure at bus address `address`. This is the only place where memory
    /// is read across the bus. `None`: there is no usable queue pair.
    pub(crate) fn read(mem: &dyn Memory, reach: Reach, address: u64) -> Option<RemoteQueuePair> {
        let mut structure = QueuePair::new_zeroed();
        // Index words are stored as aligned 32-bit words.
        let aligned = address.is_multiple_of(4);
        if !aligned || !reach.reaches(mem, address, QP_BYTES) {
            return None;
        }
        reach.read(mem, address, structure.as_mut_bytes()).ok()?;
        let ring_bytes = structure.inbound.size.get();
        let buffer = structure.local_buffer.get();
        let size_is_sane = ring_bytes.is_power_of_two()
            && (limits::MIN_RING_BYTES..=limits::MAX_RING_BYTES).contains(&ring_bytes);
        if structure.magic.get() != QP_MAGIC
            || !size_is_sane
            || !reach.reaches(mem, buffer, ring_bytes as usize)
        {
            return None;
        }
        let extensions = structure.extensions.get();
        Some(RemoteQueuePair {
            reach,
            address,
            buffer,
            ring_bytes,
            extensions,
        })
    }

    /// Sets both index words of the other side to zero, as the accepting side does: its structure
    /// may have been used before.
    pub(crate) fn clear_indices(&self, mem: &mut dyn Memory) -> Result<(), BadAddress> {
        self.reach
            .store_index(mem, self.address + LOCAL_WRITE_OFFSET, 0)?;
        self.reach
            .store_index(mem, self.address + LOCAL_READ_OFFSET, 0)
    }
}

/// The ring we write to.
#[derive(Debug)]
pub(crate) struct Producer {
    reach: Reach,
    /// Bus address of the buffer.
    buffer: u64,
    mask: u32,
    write: u32,
    /// The other side's read index when we last looked.
    read: u32,
    /// Bus address of the other side's `local_write`.
    write_index: u64,
    /// Local address of our `local_read`.
    read_index: u64,
}

impl Producer {
    pub(crate) fn new(own: &Block, remote: &RemoteQueuePair) -> Producer {
        Producer {
            reach: remote.reach,
            buffer: remote.buffer,
            mask: remote.ring_bytes - 1,
            write: 0,
            read: 0,
            write_index: remote.address + LOCAL_WRITE_OFFSET,
            read_index: own.address + LOCAL_READ_OFFSET,
        }
    }

    /// Bytes that can be put now.
    pub(crate) fn room(&mut self, mem: &dyn Memory) -> Result<u32, RingError> {
        let read = mem.load_index(self.read_index);
        let unread = self.write.wrapping_sub(read) & self.mask;
        let unread_before = self.write.wrapping_sub(self.read) & self.mask;
        // The reader can only have read more of what we wrote, never "unread" it.
        if read > self.mask || unread > unread_before {
            return Err(RingError::BadIndex);
        }
        self.read = read;
        Ok(self.mask - unread)
    }

    /// Puts as many of `bytes` as there is room for and makes them visible; how many.
    pub(crate) fn put(&mut self, mem: &mut dyn Memory, bytes: &[u8]) -> Result<usize, RingError> {
        let count = bytes.len().min(self.room(mem)? as usize);
        let Some(bytes) = bytes.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(0);
        };
        let until_end = count.min((self.mask - self.write) as usize + 1);
        let (first, second) = bytes.split_at(until_end);
        self.reach
            .write(mem, self.buffer + u64::from(self.write), first)?;
        if !second.is_empty() {
            self.reach.write(mem, self.buffer, second)?;
        }
        // Orders the copy before the index: the reader must not see the index without the bytes.
        self.write = self.write.wrapping_add(count as u32) & self.mask;
        self.reach.store_index(mem, self.write_index, self.write)?;
        Ok(count)
    }
}

/// The ring we read from.
#[derive(Debug)]
pub(crate) struct Consumer {
    reach: Reach,
    /// Local address of the buffer.
    buffer: u64,
    mask: u32,
    read: u32,
    /// The other side's write index when we last looked.
    write: u32,
    /// Local address of our `local_write`.
    write_index: u64,
    /// Bus address of the other side's `local_read`.
    read_index: u64,
}

impl Consumer {
    pub(crate) fn new(own: &Block, remote: &RemoteQueuePair) -> Consumer {
        Consumer {
            reach: remote.reach,
            buffer: own.ring_address(),
            mask: own.ring_bytes - 1,
            read: 0,
            write: 0,
            write_index: own.address + LOCAL_WRITE_OFFSET,
            read_index: remote.address + LOCAL_READ_OFFSET,
        }
    }

    /// Bytes that can be taken now.
    pub(crate) fn available(&mut self, mem: &dyn Memory) -> Result<u32, RingError> {
        let write = mem.load_index(self.write_index);
        let unread = write.wrapping_sub(self.read) & self.mask;
        let unread_before = self.write.wrapping_sub(self.read) & self.mask;
        // The writer can only have added to what we have not read yet.
        if write > self.mask || unread < unread_before {
            return Err(RingError::BadIndex);
        }
        self.write = write;
        Ok(unread)
    }

    /// Copies out as many bytes as are there and fit; how many. The room is not given back yet.
    pub(crate) fn take(&mut self, mem: &dyn Memory, buffer: &mut [u8]) -> Result<usize, RingError> {
        let count = buffer.len().min(self.available(mem)? as usize);
        let until_end = count.min((self.mask - self.read) as usize + 1);
        let Some(buffer) = buffer.get_mut(..count).filter(|buffer| !buffer.is_empty()) else {
            return Ok(0);
        };
        let (first, second) = buffer.split_at_mut(until_end);
        mem.read(self.buffer + u64::from(self.read), first);
        if !second.is_empty() {
            mem.read(self.buffer, second);
        }
        self.read = self.read.wrapping_add(count as u32) & self.mask;
        Ok(count)
    }

    /// Gives the room of everything taken back to the writer.
    pub(crate) fn publish(&self, mem: &mut dyn Memory) -> Result<(), BadAddress> {
        // A release store: orders the copy out before the index, so the writer cannot overwrite
        // bytes we are still copying.
        self.reach.store_index(mem, self.read_index, self.read)
    }
}
