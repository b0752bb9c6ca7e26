//! The content of a file.

use syscall::error::{EFBIG, ENOSPC, Error, Result};

use crate::mapped::Mapped;
use crate::sparse::Sparse;

/// Longest file in bytes: more than any memory has, and small enough for indices to fit.
pub const MAX_SIZE: u64 = 1 << 40;

/// Memory that a change may take more, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Until the file system reaches its limit.
    pub limit: u64,
    /// Until the system has no more than it must keep.
    pub free: u64,
}

impl Room {
    /// No more than both allow.
    pub fn bytes(self) -> u64 {
        self.limit.min(self.free)
    }
}

/// The content of a file.
#[derive(Default)]
pub struct Data {
    bytes: Bytes,
    size: u64,
}

/// Where the bytes are. A file stays mapped until it is empty again.
enum Bytes {
    Sparse(Sparse),
    Mapped(Mapped),
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::Sparse(Sparse::default())
    }
}

impl Data {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        match &self.bytes {
            Bytes::Sparse(bytes) => bytes.memory(),
            Bytes::Mapped(bytes) => bytes.memory(),
        }
    }

    /// Reads from `offset` on. Returns the number of bytes, which is 0 at the end and beyond.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..length];
        match &self.bytes {
            Bytes::Sparse(bytes) => bytes.read(offset, buffer),
            Bytes::Mapped(bytes) => bytes.read(offset, buffer),
        }
        length
    }

    /// Writes at `offset` and lengthens the file as needed, as long as `room` bytes of memory
    /// last. Returns the number of bytes written, which is less than all if memory ran out
    /// meanwhile.
    ///
    /// # Errors
    /// ENOSPC: there is no memory for a single byte. EFBIG: the offset is beyond [`MAX_SIZE`].
    pub fn write(&mut self, offset: u64, bytes: &[u8], room: u64) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let length = MAX_SIZE.saturating_sub(offset).min(bytes.len() as u64) as usize;
        if length == 0 {
            return Err(Error::new(EFBIG));
        }
        let bytes = &bytes[..length];
        let done = match &mut self.bytes {
            Bytes::Sparse(sparse) => sparse.write(offset, bytes, room),
            Bytes::Mapped(mapped) => {
                mapped.clear(self.size, offset);
                mapped.write(offset, bytes, room)
            }
        };
        if done == 0 {
            return Err(Error::new(ENOSPC));
        }
        self.size = self.size.max(offset + done as u64);
        Ok(done)
    }

    /// Cuts the file, or lengthens it with zeros that take no memory.
    ///
    /// # Errors
    /// EFBIG: the size is beyond [`MAX_SIZE`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        if size > MAX_SIZE {
            return Err(Error::new(EFBIG));
        }
        match &mut self.bytes {
            // If the file grows again, the bytes that were cut off must read as zero.
            Bytes::Sparse(bytes) if size < self.size => bytes.cut(size),
            Bytes::Sparse(_) => {}
            Bytes::Mapped(bytes) if size == 0 && !bytes.is_in_use() => {
                self.bytes = Bytes::default();
            }
            Bytes::Mapped(bytes) if size < self.size => bytes.clear(size, u64::MAX),
            Bytes::Mapped(bytes) => bytes.clear(self.size, size),
        }
        self.size = size;
        Ok(())
    }

    /// Takes a mapping into account; see [`Mapped::map`]. The file's content goes no further than
    /// `reach` bytes from then on.
    ///
    /// # Errors
    /// Those of [`Mapped::new`] and [`Mapped::map`].
    pub fn map(&mut self, offset: u64, size: u64, reach: u64, room: Room) -> Result<usize> {
        let (address, mapped) = match &mut self.bytes {
            Bytes::Mapped(mapped) => {
                // What programs have stored behind the end is lost with the last mapping.
                if !mapped.is_in_use() {
                    mapped.clear(self.size, u64::MAX);
                }
                return mapped.map(offset, size, room.bytes());
            }
            Bytes::Sparse(sparse) => {
                // What the former pages take is free again afterwards, but not yet.
                let room = Room {
                    limit: room.limit.saturating_add(sparse.memory()),
                    ..room
                };
                let room = room.bytes();
                let mut mapped = Mapped::new(sparse, reach, room)?;
                let left = room.saturating_sub(mapped.memory());
                (mapped.map(offset, size, left)?, mapped)
            }
        };
        self.bytes = Bytes::Mapped(mapped);
        Ok(address)
    }

    /// Takes the end of a mapping, or of a part of it, into account.
    pub fn unmap(&mut self, size: u64) {
        if let Bytes::Mapped(mapped) = &mut self.bytes {
            mapped.unmap(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use syscall::error::{ENOMEM, EOVERFLOW};

    use crate::chunk::CHUNK;

    /// More than the tests write.
    const REACH: u64 = 1 << 20;

    fn room(limit: u64) -> Room {
        let free = u64::MAX;
        Room { limit, free }
    }

    /// Random reads, writes and cuts of a file that is sparse, or mapped from `mapped` on.
    fn behaves_like_a_plain_vector(mapped: Option<u32>) {
        let mut data = Data::default();
        let mut model: Vec<u8> = Vec::new();
        let mut generator = crate::random::Generator::new(7);
        let mut below = |limit: u64| generator.number() % limit;
        for round in 0..3000u32 {
            if mapped == Some(round) {
                data.map(0, 1000, REACH, room(u64::MAX)).unwrap();
            }
            let offset = below(300_000);
            match below(10) {
                0..5 => {
                    let length = below(if round % 50 == 0 { 200_000 } else { 5000 }) as usize;
                    let bytes: Vec<u8> = (0..length).map(|i| (i as u32 ^ round) as u8).collect();
                    assert_eq!(data.write(offset, &bytes, u64::MAX), Ok(length));
                    let end = offset as usize + length;
                    if length > 0 {
                        model.resize(model.len().max(end), 0);
                        model[offset as usize..end].copy_from_slice(&bytes);
                    }
                }
                5..9 => {
                    let mut buffer = alloc::vec![0xaa; below(150_000) as usize];
                    let count = data.read(offset, &mut buffer);
                    let start = (offset as usize).min(model.len());
                    let end = (start + buffer.len()).min(model.len());
                    assert_eq!(count, end - start);
                    assert_eq!(&buffer[..count], &model[start..end]);
                }
                _ => {
                    data.truncate(offset).unwrap();
                    model.resize(offset as usize, 0);
                }
            }
            assert_eq!(data.size(), model.len() as u64);
        }
    }

    #[test]
    fn a_file_behaves_like_a_plain_vector() {
        behaves_like_a_plain_vector(None);
        behaves_like_a_plain_vector(Some(0));
        behaves_like_a_plain_vector(Some(1500));
    }

    #[test]
    fn memory_is_what_was_written_and_ends_where_it_must() {
        let mut data = Data::default();
        data.truncate(1 << 39).unwrap();
        assert_eq!(data.memory(), 0);
        assert_eq!(data.truncate(MAX_SIZE + 1), Err(Error::new(EFBIG)));
        data.truncate(0).unwrap();
        assert_eq!(data.write(0, &[1; 100], u64::MAX), Ok(100));
        assert!(data.memory() < 5000);
        let mut small = Data::default();
        assert_eq!(small.write(0, &[1; 200_000], 70_000), Ok(CHUNK));
        assert_eq!(
            small.write(CHUNK as u64, &[1], 100),
            Err(Error::new(ENOSPC))
        );
        assert_eq!(
            small.write(MAX_SIZE, &[1], u64::MAX),
            Err(Error::new(EFBIG))
        );
        assert_eq!(small.size(), CHUNK as u64);
        // What lies far away takes memory for itself alone, and gives it back.
        let before = small.memory();
        assert_eq!(small.write(1 << 39, &[1], 5000), Ok(1));
        assert!(small.memory() <= before + 5000);
        small.truncate(CHUNK as u64).unwrap();
        assert_eq!(small.memory(), before);
        small.truncate(0).unwrap();
        assert_eq!(small.memory(), 0);
    }

    #[test]
    fn a_mapped_file_takes_memory_for_all_that_is_mapped() {
        let mut data = Data::default();
        data.write(0, &[1; 5000], u64::MAX).unwrap();
        // The two pages that it has may become mapped ones, but no third one.
        assert_eq!(data.map(0, 12_288, REACH, room(0)), Err(Error::new(ENOMEM)));
        let start = data.map(0, 5000, REACH, room(100)).unwrap();
        assert_eq!(data.memory(), 8192);
        assert_eq!(data.map(4096, 4096, REACH, room(0)), Ok(start + 4096));
        assert_eq!(
            data.map(8192, 1, REACH, room(4095)),
            Err(Error::new(ENOMEM))
        );
        assert_eq!(data.map(8192, 1, REACH, room(4096)), Ok(start + 8192));
        assert_eq!(data.memory(), 12_288);
        // A mapped page takes data without more memory.
        assert_eq!(data.write(12_000, &[2; 1000], 0), Ok(288));
        assert_eq!(data.write(12_288, &[2], 4095), Err(Error::new(ENOSPC)));
        let beyond = Err(Error::new(EOVERFLOW));
        assert_eq!(data.map(REACH, 1, REACH, room(u64::MAX)), beyond);
        assert_eq!(
            data.map(u64::MAX - 4095, 4096, REACH, room(u64::MAX)),
            beyond
        );
        assert_eq!(data.write(REACH, &[1], u64::MAX), Err(Error::new(ENOSPC)));
    }

    #[test]
    fn a_file_gives_its_memory_back_when_it_is_empty_and_nobody_has_mapped_it() {
        let mut data = Data::default();
        let start = data.map(0, 10_000, REACH, room(u64::MAX)).unwrap();
        data.map(0, 4096, REACH, room(u64::MAX)).unwrap();
        data.unmap(10_000);
        data.truncate(0).unwrap();
        assert_eq!(data.memory(), 12_288, "a page is still mapped");
        assert_eq!(
            data.map(0, 1, REACH, room(u64::MAX)),
            Ok(start),
            "the same page"
        );
        data.unmap(4096);
        data.unmap(1);
        data.truncate(0).unwrap();
        assert_eq!(data.memory(), 0);
    }

    #[test]
    fn what_lies_too_far_away_cannot_be_mapped_and_stays() {
        let mut data = Data::default();
        data.write(REACH, &[7], u64::MAX).unwrap();
        let refused = data.map(0, 1, REACH, room(u64::MAX));
        assert_eq!(refused, Err(Error::new(EOVERFLOW)));
        let mut byte = [0];
        assert_eq!(data.read(REACH, &mut byte), 1);
        assert_eq!(byte, [7]);
        // A file that is only long has nothing there.
        data.truncate(0).unwrap();
        data.truncate(MAX_SIZE).unwrap();
        assert!(data.map(0, 1, REACH, room(u64::MAX)).is_ok());
        assert_eq!(data.read(MAX_SIZE - 1, &mut byte), 1);
        assert_eq!(byte, [0]);
    }
}
