//! The content of a file: chunks that exist only where something was written.

use alloc::vec::Vec;

use syscall::error::{EFBIG, ENOSPC, Error, Result};

use crate::chunk::{CHUNK, Chunk};

/// Smallest amount of memory that a chunk takes, in bytes.
const STEP: usize = 4096;
/// Longest file in bytes: more than any memory has, and small enough for indices to fit.
pub const MAX_SIZE: u64 = 1 << 40;

/// The content of a file.
#[derive(Default)]
pub struct Data {
    /// A chunk may be shorter than [`CHUNK`]; its missing bytes are zero.
    chunks: Vec<Chunk>,
    size: u64,
}

impl Data {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.len() as u64)
            .sum::<u64>()
            + (self.chunks.len() * size_of::<Chunk>()) as u64
    }

    /// Reads from `offset` on. Returns the number of bytes, which is 0 at the end and beyond.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let length = self.size.saturating_sub(offset).min(buffer.len() as u64) as usize;
        let mut done = 0;
        while done < length {
            let (index, start) = place(offset + done as u64);
            let count = (length - done).min(CHUNK - start);
            let target = &mut buffer[done..done + count];
            let chunk = self.chunks.get(index).map_or(&[][..], |chunk| &**chunk);
            let present = chunk.len().saturating_sub(start).min(count);
            target[..present].copy_from_slice(&chunk[start.min(chunk.len())..][..present]);
            target[present..].fill(0);
            done += count;
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
        let mut room = room;
        let mut done = 0;
        while done < length {
            let (index, start) = place(offset + done as u64);
            let count = (length - done).min(CHUNK - start);
            if self.prepare(index, start + count, &mut room).is_none() {
                break;
            }
            self.chunks[index][start..start + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
        if done == 0 {
            return Err(Error::new(ENOSPC));
        }
        self.size = self.size.max(offset + done as u64);
        Ok(done)
    }

    /// Makes a chunk at least `length` bytes long.
    fn prepare(&mut self, index: usize, length: usize, room: &mut u64) -> Option<()> {
        if index >= self.chunks.len() {
            let more = index + 1 - self.chunks.len();
            *room = room.checked_sub((more * size_of::<Chunk>()) as u64)?;
            self.chunks.try_reserve(more).ok()?;
            self.chunks.resize_with(index + 1, Chunk::default);
        }
        let chunk = &mut self.chunks[index];
        if chunk.len() < length {
            // The length is doubled, so that a file written in small pieces is not copied for each
            // of them.
            let wanted = length
                .max(chunk.len() * 2)
                .next_multiple_of(STEP)
                .min(CHUNK);
            let mut more = wanted - chunk.len();
            if more as u64 > *room {
                more = length.next_multiple_of(STEP).min(CHUNK) - chunk.len();
            }
            *room = room.checked_sub(more as u64)?;
            chunk.lengthen(chunk.len() + more)?;
        }
        Some(())
    }

    /// Cuts the file, or lengthens it with zeros that take no memory.
    ///
    /// # Errors
    /// EFBIG: the size is beyond [`MAX_SIZE`].
    pub fn truncate(&mut self, size: u64) -> Result<()> {
        if size > MAX_SIZE {
            return Err(Error::new(EFBIG));
        }
        if size < self.size {
            let (index, start) = place(size);
            self.chunks
                .truncate(if start == 0 { index } else { index + 1 });
            if let Some(chunk) = self.chunks.get_mut(index) {
                let keep = start.next_multiple_of(STEP).min(chunk.len());
                // If the file grows again, the bytes that were cut off must read as zero.
                chunk.shorten(keep, start);
            }
            self.chunks.shrink_to_fit();
        }
        self.size = size;
        Ok(())
    }
}

fn place(offset: u64) -> (usize, usize) {
    (
        (offset / CHUNK as u64) as usize,
        (offset % CHUNK as u64) as usize,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_like_a_plain_vector() {
        let mut data = Data::default();
        let mut model: Vec<u8> = Vec::new();
        let mut generator = crate::random::Generator::new(7);
        let mut below = |limit: u64| generator.number() % limit;
        for round in 0..3000u32 {
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
        assert_eq!(small.write(1 << 39, &[1], 1 << 20), Err(Error::new(ENOSPC)));
        assert_eq!(small.size(), CHUNK as u64);
    }
}
