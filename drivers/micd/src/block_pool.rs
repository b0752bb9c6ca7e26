//! Blocks of shared memory that the engine has freed, kept for the next ones of the same sizes.
//!
//! Getting a connection's memory from the kernel takes some hundred microseconds: it is cleared,
//! mapped and partly unmapped, and its physical address is looked up. Here only the used part of a
//! block is cleared.

use alloc::vec::Vec;

use hal::mem::Region;

/// Most bytes of all blocks together: those of some connections that come and go.
const MOST_BYTES: usize = 1 << 20;

/// Most blocks.
const MOST: usize = 32;

/// A block that is not in use.
struct Spare {
    region: Region,
    physical: u64,
}

/// Spare blocks, cleared.
#[derive(Default)]
pub struct BlockPool {
    blocks: Vec<Spare>,
    bytes: usize,
}

impl BlockPool {
    /// Clears the first `used` bytes of a block and keeps it, if the pool has room for it; drops
    /// it otherwise. The block's other bytes must be clear.
    pub fn put(&mut self, region: Region, physical: u64, used: usize) {
        let bytes = region.len();
        let has_room = self.blocks.len() < MOST && bytes <= MOST_BYTES - self.bytes;
        if has_room && region.zero(0, used).is_ok() {
            self.bytes += bytes;
            self.blocks.push(Spare { region, physical });
        }
    }

    /// Takes a block of this size, the one that was put in last. Returns it with its physical
    /// address.
    pub fn take(&mut self, bytes: usize) -> Option<(Region, u64)> {
        let index = (self.blocks.iter()).rposition(|spare| spare.region.len() == bytes)?;
        let Spare { region, physical } = self.blocks.remove(index);
        self.bytes -= bytes;
        Some((region, physical))
    }

    /// Bytes of all spare blocks.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Gives all blocks back to the kernel. Returns whether there were any.
    pub fn clear(&mut self) -> bool {
        let had_some = !self.blocks.is_empty();
        *self = Self::default();
        had_some
    }
}

#[cfg(test)]
mod tests {
    use hal::mem::PAGE;

    use super::*;

    fn dirty(pages: usize) -> Region {
        let region = Region::heap(pages * PAGE);
        for page in 0..pages {
            region.write_bytes(page * PAGE + page, b"old").unwrap();
        }
        region
    }

    #[test]
    fn what_comes_out_is_of_the_size_and_clear() {
        let mut pool = BlockPool::default();
        pool.put(dirty(2), 0x1000, 2 * PAGE);
        pool.put(dirty(3), 0x8000, 3 * PAGE);
        pool.put(dirty(2), 0x4000, 2 * PAGE);
        assert!(pool.take(PAGE).is_none());
        let (region, physical) = pool.take(2 * PAGE).unwrap();
        assert_eq!((physical, region.len()), (0x4000, 2 * PAGE));
        let mut bytes = alloc::vec![1; 2 * PAGE];
        region.read_bytes(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        assert_eq!(pool.take(2 * PAGE).unwrap().1, 0x1000);
        assert!(pool.take(2 * PAGE).is_none());
        assert_eq!(pool.take(3 * PAGE).unwrap().1, 0x8000);
        assert_eq!(pool.bytes, 0);
        assert!(!pool.clear());
    }

    #[test]
    fn only_what_was_used_is_cleared() {
        let mut pool = BlockPool::default();
        pool.put(dirty(3), 0, PAGE + 2);
        // More used bytes than the block has are a mistake of the caller: the block is not kept.
        pool.put(dirty(1), 0, PAGE + 1);
        let (region, _) = pool.take(3 * PAGE).unwrap();
        let mut bytes = alloc::vec![1; 3 * PAGE];
        region.read_bytes(0, &mut bytes).unwrap();
        let (cleared, rest) = bytes.split_at(PAGE + 2);
        assert!(cleared.iter().all(|byte| *byte == 0));
        assert_eq!(&rest[..2], b"ld");
        assert!(pool.take(PAGE).is_none());
    }

    #[test]
    fn it_holds_so_many_bytes_and_blocks_and_no_more() {
        let mut pool = BlockPool::default();
        let largest = MOST_BYTES / PAGE;
        pool.put(dirty(largest + 1), 0, PAGE);
        assert!(pool.blocks.is_empty());
        pool.put(dirty(largest), 0, PAGE);
        pool.put(dirty(1), 0, PAGE);
        assert_eq!((pool.blocks.len(), pool.bytes), (1, MOST_BYTES));
        assert!(pool.clear());
        for number in 0..=MOST as u64 {
            pool.put(dirty(1), number, PAGE);
        }
        assert_eq!((pool.blocks.len(), pool.bytes), (MOST, MOST * PAGE));
    }
}
