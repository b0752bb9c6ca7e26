//! The content of a file that no program has mapped: chunks that exist only where something was
//! written.

use alloc::vec::Vec;

use crate::chunk::{CHUNK, Chunk};

/// Smallest amount of memory that a chunk takes, in bytes.
const STEP: usize = 4096;

/// Bytes of a file. Those that were never written are zero and take no memory.
#[derive(Default)]
pub struct Sparse {
    /// A chunk may be shorter than [`CHUNK`]; its missing bytes are zero.
    chunks: Vec<Chunk>,
}

impl Sparse {
    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.chunks
            .iter()
            .map(|chunk| chunk.len() as u64)
            .sum::<u64>()
            + (self.chunks.len() * size_of::<Chunk>()) as u64
    }

    /// Copies bytes out.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let (index, start) = place(offset + done as u64);
            let count = (buffer.len() - done).min(CHUNK - start);
            let target = &mut buffer[done..done + count];
            let chunk = self.chunks.get(index).map_or(&[][..], |chunk| &**chunk);
            let present = chunk.len().saturating_sub(start).min(count);
            target[..present].copy_from_slice(&chunk[start.min(chunk.len())..][..present]);
            target[present..].fill(0);
            done += count;
        }
    }

    /// Copies bytes in, as long as `room` bytes of memory last. Returns how many.
    pub fn write(&mut self, offset: u64, bytes: &[u8], room: u64) -> usize {
        let mut room = room;
        let mut done = 0;
        while done < bytes.len() {
            let (index, start) = place(offset + done as u64);
            let count = (bytes.len() - done).min(CHUNK - start);
            if self.prepare(index, start + count, &mut room).is_none() {
                break;
            }
            self.chunks[index][start..start + count].copy_from_slice(&bytes[done..done + count]);
            done += count;
        }
        done
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

    /// Makes all bytes from `size` on zero.
    pub fn cut(&mut self, size: u64) {
        let (index, start) = place(size);
        self.chunks
            .truncate(if start == 0 { index } else { index + 1 });
        if let Some(chunk) = self.chunks.get_mut(index) {
            let keep = start.next_multiple_of(STEP).min(chunk.len());
            chunk.shorten(keep, start);
        }
        self.chunks.shrink_to_fit();
    }

    /// The chunks that exist, each with the offset of its first byte.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let chunks = self.chunks.iter().enumerate();
        chunks.map(|(index, chunk)| ((index * CHUNK) as u64, &**chunk))
    }
}

fn place(offset: u64) -> (usize, usize) {
    (
        (offset / CHUNK as u64) as usize,
        (offset % CHUNK as u64) as usize,
    )
}
