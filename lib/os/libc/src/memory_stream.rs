//! The files behind the streams of `fmemopen` and `open_memstream`, which are memory.

use core::ffi::{c_char, c_void};
use core::ptr::null_mut;

use runtime::{Error, Result};
use syscall::error::{EINVAL, ENOMEM};
use syscall::{SEEK_CUR, SEEK_END, SEEK_SET};

use crate::{malloc, strings};

/// The file of a stream over memory.
pub struct Memory {
    block: *mut u8,
    /// The size of the block in bytes.
    size: usize,
    /// The size of the file in bytes.
    length: usize,
    position: usize,
    /// Whether all writes go to the end of the file.
    appends: bool,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The program's block.
    Given,
    /// A block of this library, freed with the stream.
    Own,
    /// A block that grows; where the program gets its address and its number of bytes.
    Growing(*mut *mut c_char, *mut usize),
}

/// What `fopen` would do with a file.
#[derive(Clone, Copy)]
pub struct Opening {
    /// Empties the file.
    pub truncates: bool,
    /// Writes at its end.
    pub appends: bool,
}

impl Memory {
    /// Makes a file of `size` bytes at `block`, or in new memory if that is null.
    ///
    /// # Errors
    /// `ENOMEM`.
    ///
    /// # Safety
    /// The block is valid for these bytes until the stream is closed.
    pub unsafe fn fixed(block: *mut c_void, size: usize, opening: Opening) -> Result<Self> {
        let (block, kind) = match block.is_null() {
            false => (block, Kind::Given),
            true => (malloc::allocate(size, 0), Kind::Own),
        };
        if block.is_null() {
            return Err(Error::new(ENOMEM));
        }
        let block = block.cast::<u8>();
        let is_empty = opening.truncates || matches!(kind, Kind::Own);
        if is_empty && size > 0 {
            // SAFETY: within the block. All of an own one is cleared, as a program may read it.
            unsafe {
                match kind {
                    Kind::Own => block.write_bytes(0, size),
                    _ => block.write(0),
                }
            }
        }
        // SAFETY: the block's bytes.
        let text = unsafe { strings::bytes_within(block.cast(), size) }.len();
        let length = match () {
            () if opening.appends || opening.truncates => text,
            () => size,
        };
        Ok(Self {
            block,
            size,
            length,
            position: if opening.appends { length } else { 0 },
            appends: opening.appends,
            kind,
        })
    }

    /// Makes an empty file that grows. After each [`publish`](Self::publish), the address of the
    /// block is at `block` and its number of bytes at `length`. The program frees the block after
    /// closing the stream.
    ///
    /// # Errors
    /// `EINVAL`: a place is null. `ENOMEM`.
    ///
    /// # Safety
    /// The places are valid until the stream is closed.
    pub unsafe fn growing(block: *mut *mut c_char, length: *mut usize) -> Result<Self> {
        if block.is_null() || length.is_null() {
            return Err(Error::new(EINVAL));
        }
        let mut memory = Self {
            block: null_mut(),
            size: 0,
            length: 0,
            position: 0,
            appends: false,
            kind: Kind::Growing(block, length),
        };
        memory.reserve(1)?;
        memory.publish();
        Ok(memory)
    }

    /// Makes the block at least this many bytes long.
    fn reserve(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.size {
            return Ok(());
        }
        let size = bytes.max(self.size.saturating_mul(2)).max(64);
        // SAFETY: null, or what was allocated here before.
        let block = unsafe { malloc::realloc(self.block.cast(), size) };
        if block.is_null() {
            return Err(Error::new(ENOMEM));
        }
        self.block = block.cast();
        // SAFETY: the new part of the block.
        unsafe { self.block.add(self.size).write_bytes(0, size - self.size) };
        self.size = size;
        Ok(())
    }

    /// Writes at the position, and returns how many bytes were written.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        if self.appends {
            self.position = self.length;
        }
        let end = self.position.checked_add(bytes.len());
        let end = end.ok_or(Error::new(ENOMEM))?;
        if let Kind::Growing(..) = self.kind {
            self.reserve(end.checked_add(1).ok_or(Error::new(ENOMEM))?)?;
        }
        let room = self.size.saturating_sub(self.position);
        let count = bytes.len().min(room);
        if count > 0 {
            // SAFETY: within the block; a program that writes from its own block to it has asked
            // for that.
            unsafe {
                let place = self.block.add(self.position);
                place.copy_from(bytes.as_ptr(), count);
            }
            self.position += count;
        }
        if self.position > self.length {
            self.length = self.position;
            if self.length < self.size {
                // SAFETY: within the block.
                unsafe { self.block.add(self.length).write(0) };
            }
        }
        self.publish();
        Ok(count)
    }

    /// Reads from the position; returns 0 at the end of the file.
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        let count = to.len().min(self.length.saturating_sub(self.position));
        // SAFETY: the block has these bytes.
        unsafe {
            let from = self.block.add(self.position);
            from.copy_to(to.as_mut_ptr(), count);
        }
        self.position += count;
        count
    }

    /// Moves the position and returns the new one.
    ///
    /// # Errors
    /// `EINVAL`: it would be negative, or beyond the end of a block that does not grow.
    pub fn seek(&mut self, offset: i64, whence: usize) -> Result<usize> {
        let from = match whence {
            SEEK_SET => 0,
            SEEK_CUR => self.position,
            SEEK_END => self.length,
            _ => return Err(Error::new(EINVAL)),
        };
        let to = from.checked_add_signed(offset as isize);
        let most = match self.kind {
            Kind::Growing(..) => isize::MAX as usize,
            _ => self.size,
        };
        self.position = to.filter(|to| *to <= most).ok_or(Error::new(EINVAL))?;
        self.publish();
        Ok(self.position)
    }

    /// Whether all writes go to the end of the file.
    pub fn appends(&self) -> bool {
        self.appends
    }

    /// The size of the file in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Stores for the program the address of a block that grows, and the number of its bytes up to
    /// the position.
    fn publish(&self) {
        if let Kind::Growing(block, length) = self.kind {
            // SAFETY: the program's places, which are valid as long as the stream is open.
            unsafe {
                *block = self.block.cast();
                *length = self.position.min(self.length);
            }
        }
    }

    /// Frees what belongs to a closed stream.
    pub fn end(self) {
        if let Kind::Own = self.kind {
            // SAFETY: allocated here, and nobody else has it.
            unsafe { malloc::free(self.block.cast()) };
        }
    }
}
