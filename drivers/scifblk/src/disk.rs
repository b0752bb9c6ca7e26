//! A disk: whole blocks of some memory.

use syscall::error::{EINVAL, ENOSPC, Error, Result};

/// Bytes in a block, the unit of all transfers.
pub const BLOCK: usize = 512;

/// The memory of a disk.
pub trait Store {
    /// Fills `to` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `ENODEV`: the node has gone. The errors of the memory.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()>;

    /// Stores `from` at `offset`.
    ///
    /// # Errors
    /// The errors of the memory.
    fn write(&self, offset: usize, from: &[u8]) -> Result<()>;

    /// Returns once everything that was written has arrived.
    ///
    /// # Errors
    /// `EIO`: the node has gone, or written data may be lost.
    fn flush(&self) -> Result<()>;
}

/// A disk.
pub struct Disk<S> {
    store: S,
    bytes: u64,
}

impl<S: Store> Disk<S> {
    /// A disk of the first `bytes` bytes of `store`, which are whole blocks.
    pub fn new(store: S, bytes: u64) -> Self {
        Self { store, bytes }
    }

    /// Size of the disk in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The part of a transfer that lies on the disk: its start and its length.
    ///
    /// # Errors
    /// `EINVAL`: offset or length is not a whole number of blocks.
    fn part(&self, offset: u64, length: usize) -> Result<(usize, usize)> {
        if !offset.is_multiple_of(BLOCK as u64) || !length.is_multiple_of(BLOCK) {
            return Err(Error::new(EINVAL));
        }
        let left = self.bytes.saturating_sub(offset);
        // A disk is far smaller than the address space, so both results fit.
        let count = left.min(length as u64) as usize;
        Ok((offset.min(self.bytes) as usize, count))
    }

    /// Reads whole blocks: fewer at the end of the disk, none beyond it.
    ///
    /// # Errors
    /// `EINVAL`: offset or length is not a whole number of blocks. Those of the memory.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> Result<usize> {
        let (start, count) = self.part(offset, to.len())?;
        self.store.read(start, &mut to[..count])?;
        Ok(count)
    }

    /// Writes whole blocks: fewer at the end of the disk.
    ///
    /// # Errors
    /// `EINVAL`: offset or length is not a whole number of blocks. `ENOSPC`: the offset is at the
    /// end of the disk or beyond. Those of the memory.
    pub fn write(&self, offset: u64, from: &[u8]) -> Result<usize> {
        let (start, count) = self.part(offset, from.len())?;
        if count == 0 && !from.is_empty() {
            return Err(Error::new(ENOSPC));
        }
        self.store.write(start, &from[..count])?;
        Ok(count)
    }

    /// Returns once everything that was written has arrived.
    ///
    /// # Errors
    /// `EIO`: the node has gone, or written data may be lost.
    pub fn flush(&self) -> Result<()> {
        self.store.flush()
    }
}

#[cfg(test)]
pub(crate) mod fake {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Ordinary memory that outlives its disk.
    #[derive(Clone)]
    pub struct Memory(pub Rc<RefCell<Vec<u8>>>);

    impl Store for Memory {
        fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
            to.copy_from_slice(&self.0.borrow()[offset..offset + to.len()]);
            Ok(())
        }
        fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
            self.0.borrow_mut()[offset..offset + from.len()].copy_from_slice(from);
            Ok(())
        }
        fn flush(&self) -> Result<()> {
            Ok(())
        }
    }

    /// A disk of some blocks, and its memory.
    pub fn disk(blocks: usize) -> (Disk<Memory>, Memory) {
        let memory = Memory(Rc::new(RefCell::new(vec![0; blocks * BLOCK])));
        (Disk::new(memory.clone(), (blocks * BLOCK) as u64), memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_whole_blocks() {
        let (disk, memory) = fake::disk(4);
        assert_eq!(disk.write(512, &[7; 1024]), Ok(1024));
        assert_eq!(memory.0.borrow()[511..513], [0, 7]);
        assert_eq!(memory.0.borrow()[1535..1537], [7, 0]);
        let mut block = [0; 512];
        assert_eq!(disk.read(1024, &mut block), Ok(512));
        assert_eq!(block, [7; 512]);
        let invalid = Err(Error::new(EINVAL));
        assert_eq!(disk.read(1, &mut block), invalid);
        assert_eq!(disk.read(0, &mut block[..511]), invalid);
        assert_eq!(disk.write(513, &block), invalid);
        assert_eq!(disk.write(0, &block[..1]), invalid);
        assert_eq!(disk.read(0, &mut []), Ok(0));
        assert_eq!(disk.write(0, &[]), Ok(0));
    }

    #[test]
    fn the_end_is_where_it_is() {
        let (disk, _) = fake::disk(4);
        let mut blocks = [1; 2048];
        assert_eq!(disk.read(1536, &mut blocks), Ok(512));
        assert_eq!(blocks[511..513], [0, 1]);
        assert_eq!(disk.read(2048, &mut blocks), Ok(0));
        assert_eq!(disk.read(1 << 62, &mut blocks), Ok(0));
        assert_eq!(disk.write(1024, &blocks), Ok(1024));
        assert_eq!(disk.write(2048, &blocks), Err(Error::new(ENOSPC)));
        assert_eq!(disk.write(u64::MAX - 511, &blocks), Err(Error::new(ENOSPC)));
        assert_eq!(disk.write(2048, &[]), Ok(0));
    }
}
