//! A chunk of a file's content. A small one lies in the heap, a whole one in pages of its own, so
//! that a file's memory returns to the system with the file.

use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

#[cfg(target_os = "redox")]
use runtime::pages::Pages;

/// Bytes of a whole chunk.
pub const CHUNK: usize = 64 * 1024;

/// The bytes of a chunk. Bytes that were never written are zero.
pub enum Chunk {
    /// Shorter than [`CHUNK`].
    Part(Vec<u8>),
    /// As long as [`CHUNK`].
    Whole(Pages),
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk::Part(Vec::new())
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Chunk::Part(bytes) => bytes,
            Chunk::Whole(pages) => pages,
        }
    }
}

impl DerefMut for Chunk {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Chunk::Part(bytes) => bytes,
            Chunk::Whole(pages) => pages,
        }
    }
}

impl Chunk {
    /// Makes the chunk `length` bytes long, at most [`CHUNK`]. `None` if memory is short.
    pub fn lengthen(&mut self, length: usize) -> Option<()> {
        let Chunk::Part(bytes) = self else {
            return Some(());
        };
        if length == CHUNK {
            let mut pages = Pages::present(CHUNK).ok()?;
            pages[..bytes.len()].copy_from_slice(bytes);
            *self = Chunk::Whole(pages);
            return Some(());
        }
        let more = length.saturating_sub(bytes.len());
        bytes.try_reserve_exact(more).ok()?;
        bytes.resize(bytes.len() + more, 0);
        Some(())
    }

    /// Keeps the first `keep` bytes, and zeroes those behind the first `used`.
    pub fn shorten(&mut self, keep: usize, used: usize) {
        let used = used.min(self.len());
        self[used..].fill(0);
        match self {
            Chunk::Part(bytes) => {
                bytes.truncate(keep);
                bytes.shrink_to_fit();
            }
            // A whole chunk stays whole if there is no memory for a part.
            Chunk::Whole(pages) if keep < CHUNK => {
                let mut part = Vec::new();
                if part.try_reserve_exact(keep).is_ok() {
                    part.extend_from_slice(&pages[..keep]);
                    *self = Chunk::Part(part);
                }
            }
            Chunk::Whole(_) => {}
        }
    }
}

/// Replaces the system's pages on the development machine.
#[cfg(not(target_os = "redox"))]
pub struct Pages(Vec<u8>);

#[cfg(not(target_os = "redox"))]
impl Pages {
    fn present(size: usize) -> Result<Self, core::convert::Infallible> {
        Ok(Pages(alloc::vec![0; size]))
    }
}

#[cfg(not(target_os = "redox"))]
impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(not(target_os = "redox"))]
impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
