//! The content of a file that a program has mapped: one range of pages, where programs load and
//! store without this file system.

use syscall::error::{ENOMEM, EOVERFLOW, Error, Result};

use crate::sparse::Sparse;

#[cfg(target_os = "redox")]
use runtime::pages::SharedPages;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Bytes of a file, from its start on.
pub struct Mapped {
    /// As long as a file may become.
    pages: SharedPages,
    /// Bytes from the start on that have memory: what was written or mapped. It never shrinks,
    /// because pages cannot be taken from programs that have mapped them.
    memory: u64,
    /// Bytes of all mappings together.
    mapped: u64,
}

impl Mapped {
    /// The same content, which has memory up to its end then, as long as `room` bytes of it last.
    /// No file's content goes beyond `reach` bytes while it is mapped.
    ///
    /// # Errors
    /// `EOVERFLOW`: there is content beyond `reach`. `ENOMEM`.
    pub fn new(sparse: &Sparse, reach: u64, room: u64) -> Result<Mapped> {
        let ends = sparse
            .chunks()
            .map(|(offset, bytes)| match bytes.is_empty() {
                true => 0,
                false => offset + bytes.len() as u64,
            });
        let end = ends.max().unwrap_or(0);
        if end > reach {
            return Err(Error::new(EOVERFLOW));
        }
        let size = usize::try_from(reach).map_err(|_| Error::new(ENOMEM))?;
        let mut mapped = Mapped {
            pages: SharedPages::new(size).map_err(|_| Error::new(ENOMEM))?,
            memory: 0,
            mapped: 0,
        };
        mapped.grow(end, room)?;
        for (offset, bytes) in sparse.chunks() {
            mapped.pages.write(offset as usize, bytes);
        }
        Ok(mapped)
    }

    /// Memory in use, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Whether a program has mapped it.
    pub fn is_in_use(&self) -> bool {
        self.mapped > 0
    }

    /// Copies bytes out.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        let present = self.memory.saturating_sub(offset).min(buffer.len() as u64);
        let (present, absent) = buffer.split_at_mut(present as usize);
        if !present.is_empty() {
            self.pages.read(offset as usize, present);
        }
        absent.fill(0);
    }

    /// Copies bytes in, as long as `room` bytes of memory last. Returns how many.
    pub fn write(&mut self, offset: u64, bytes: &[u8], room: u64) -> usize {
        let most = self.memory.saturating_add(room) / PAGE * PAGE;
        let end = most.min(self.pages.size() as u64);
        let count = end.saturating_sub(offset).min(bytes.len() as u64);
        if count == 0 || self.grow(offset + count, room).is_err() {
            return 0;
        }
        self.pages.write(offset as usize, &bytes[..count as usize]);
        count as usize
    }

    /// Makes the bytes from `start` to `end` zero. Programs may have stored to them although the
    /// file ended before.
    pub fn clear(&mut self, start: u64, end: u64) {
        let end = end.min(self.memory);
        if start < end {
            self.pages.clear(start as usize, end as usize);
        }
    }

    /// Takes a mapping of `size` bytes into account, which may go beyond the file's end. Returns
    /// the address of its first byte.
    ///
    /// # Errors
    /// `EOVERFLOW`: it goes beyond what can be mapped. `ENOMEM`: it takes more than `room` bytes
    /// of memory.
    pub fn map(&mut self, offset: u64, size: u64, room: u64) -> Result<usize> {
        let end = offset
            .checked_add(size)
            .and_then(|end| end.checked_next_multiple_of(PAGE))
            .filter(|end| *end <= self.pages.size() as u64)
            .ok_or(Error::new(EOVERFLOW))?;
        self.grow(end, room)?;
        self.mapped += size.next_multiple_of(PAGE);
        Ok(self.pages.address() + offset as usize)
    }

    /// Takes the end of a mapping, or of a part of it, into account.
    pub fn unmap(&mut self, size: u64) {
        self.mapped = self.mapped.saturating_sub(size.next_multiple_of(PAGE));
    }

    /// Gives the bytes up to `end` memory, at most `room` bytes more. All of it is there from then
    /// on: the system may have none left when a byte is read or written later.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn grow(&mut self, end: u64, room: u64) -> Result<()> {
        let end = end.next_multiple_of(PAGE);
        if end <= self.memory {
            return Ok(());
        }
        if end - self.memory > room {
            return Err(Error::new(ENOMEM));
        }
        self.pages.bring_in(self.memory as usize, end as usize)?;
        self.memory = end;
        Ok(())
    }
}

/// Replaces the system's pages on the development machine.
#[cfg(not(target_os = "redox"))]
struct SharedPages(alloc::vec::Vec<u8>);

#[cfg(not(target_os = "redox"))]
impl SharedPages {
    fn new(size: usize) -> Result<Self> {
        Ok(SharedPages(alloc::vec![0; size]))
    }

    fn size(&self) -> usize {
        self.0.len()
    }

    fn bring_in(&mut self, _start: usize, _end: usize) -> Result<()> {
        Ok(())
    }

    fn address(&self) -> usize {
        self.0.as_ptr() as usize
    }

    fn read(&self, at: usize, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.0[at..at + buffer.len()]);
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn clear(&mut self, start: usize, end: usize) {
        self.0[start..end].fill(0);
    }
}
