//! The content of a file that no program has mapped: chunks that exist only where something was
//! written.

use alloc::collections::BTreeMap;

use crate::chunk::{CHUNK, Chunk};

/// Smallest amount of memory that a chunk takes, in bytes.
const STEP: usize = 4096;
/// What a chunk takes besides its bytes, in bytes: about the size of its entry.
const ENTRY: u64 = 64;

/// Bytes of a file. Those that were never written are zero and take no memory.
#[derive(Default)]
pub struct Sparse {
    /// The chunks by their number in the file. A chunk may be shorter than [`CHUNK`]; its missing
    /// bytes are zero.
    chunks: BTreeMap<u64, Chunk>,
    /// Memory in use, in bytes.
    memory: u64,
}

impl Sparse {
    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Copies bytes out.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let mut done = 0;
        while done < buffer.len() {
            let (number, start) = place(offset + done as u64);
            let count = (buffer.len() - done).min(CHUNK - start);
            let target = &mut buffer[done..done + count];
            let chunk = self.chunks.get(&number).map_or(&[][..], |chunk| &**chunk);
            let present = chunk.len().saturating_sub(start).min(count);
            target[..present].copy_from_slice(&chunk[start.min(chunk.len())..][..present]);
            target[present..].fill(0);
            done += count;
        }
    }

    /// Copies bytes in, as long as `room` bytes of memory last. Returns how many.
    pub fn write(&mut self, offset: u64, bytes: &[u8], room: u64) -> usize {
        let most = self.memory.saturating_add(room);
        let mut done = 0;
        while done < bytes.len() {
            let (number, start) = place(offset + done as u64);
            let count = (bytes.len() - done).min(CHUNK - start);
            let part = &bytes[done..done + count];
            if self.store(number, start, part, most).is_none() {
                break;
            }
            done += count;
        }
        done
    }

    /// Copies bytes into a chunk, which is made or made longer if it must be. `None`: that would
    /// take more than `most` bytes of memory in all.
    fn store(&mut self, number: u64, start: usize, bytes: &[u8], most: u64) -> Option<()> {
        let end = start + bytes.len();
        let room = most.saturating_sub(self.memory);
        let known = self.chunks.get_mut(&number);
        let entry = if known.is_none() { ENTRY } else { 0 };
        let length = known.as_ref().map_or(0, |chunk| chunk.len());
        if length < end || entry > 0 {
            // The length is doubled, so that a file written in small pieces is not copied for each
            // of them.
            let wanted = end.max(length * 2).next_multiple_of(STEP).min(CHUNK);
            let least = end.next_multiple_of(STEP).min(CHUNK);
            let takes = |to: usize| entry + (to - length) as u64;
            let to = [wanted, least].into_iter().find(|to| takes(*to) <= room)?;
            let chunk = self.chunks.entry(number).or_default();
            let lengthened = chunk.lengthen(to);
            if lengthened.is_none() && entry > 0 {
                self.chunks.remove(&number);
            }
            lengthened?;
            self.memory += takes(to);
        }
        let chunk = self.chunks.get_mut(&number)?;
        chunk[start..end].copy_from_slice(bytes);
        Some(())
    }

    /// Makes all bytes from `size` on zero.
    pub fn cut(&mut self, size: u64) {
        let (number, start) = place(size);
        let mut cut = self.chunks.split_off(&number);
        let cut_bytes: u64 = cut.values().map(|chunk| ENTRY + chunk.len() as u64).sum();
        self.memory -= cut_bytes;
        if start > 0
            && let Some(mut chunk) = cut.remove(&number)
        {
            let keep = start.next_multiple_of(STEP).min(chunk.len());
            chunk.shorten(keep, start);
            self.memory += ENTRY + chunk.len() as u64;
            self.chunks.insert(number, chunk);
        }
    }

    /// The chunks that exist, each with the offset of its first byte.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let chunks = self.chunks.iter();
        chunks.map(|(number, chunk)| (number * CHUNK as u64, &**chunk))
    }
}

/// The number of the chunk with this byte, and where in the chunk the byte lies.
fn place(offset: u64) -> (u64, usize) {
    (offset / CHUNK as u64, (offset % CHUNK as u64) as usize)
}
