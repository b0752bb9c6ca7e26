//! Buffers in the memory of the current program, for system calls.

use alloc::vec::Vec;

use ::syscall::error::{EFAULT, EINVAL, Error, Result};

use super::{USER_END, frame::FrameRef, list_for, user, zeroes};

/// A range of the current program's memory. It lies in user space but need not be mapped: every
/// copy can fail with `EFAULT`. Its content can change between two reads: copy once, then check,
/// then use.
#[derive(Clone, Copy, Debug)]
pub struct UserBuf {
    base: usize,
    len: usize,
}

impl UserBuf {
    /// The range of `len` bytes at `base`; `EFAULT` when it reaches beyond user space.
    pub fn new(base: usize, len: usize) -> Result<Self> {
        match base.checked_add(len) {
            Some(end) if base < USER_END && end < USER_END => Ok(Self { base, len }),
            _ => Err(Error::new(EFAULT)),
        }
    }

    /// [`UserBuf::new`], but address 0 means that there is no buffer.
    pub fn optional(base: usize, len: usize) -> Result<Option<Self>> {
        let buf = Self::new(base, len)?;
        Ok((base != 0).then_some(buf))
    }

    /// First address.
    pub fn addr(self) -> usize {
        self.base
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether the range has no bytes.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The first `count` bytes and the rest; `count` is clamped to the length.
    pub fn split_at(self, count: usize) -> (Self, Self) {
        let count = count.min(self.len);
        let rest = Self {
            base: self.base + count,
            len: self.len - count,
        };
        (
            Self {
                base: self.base,
                len: count,
            },
            rest,
        )
    }

    /// The first `count` bytes, or all if there are fewer.
    pub fn prefix(self, count: usize) -> Self {
        self.split_at(count).0
    }

    /// The bytes after the first `count` ones.
    pub fn skip(self, count: usize) -> Self {
        self.split_at(count).1
    }

    /// The range as pieces of exactly `size` bytes, without a shorter rest.
    pub fn chunks(self, size: usize) -> impl Iterator<Item = Self> {
        (0..self.len / size).map(move |index| self.skip(index * size).prefix(size))
    }

    /// Copies in as many bytes as both sides have. Returns their count.
    pub fn read(self, bytes: &mut [u8]) -> Result<usize> {
        let count = bytes.len().min(self.len);
        let Some(bytes) = bytes.get_mut(..count) else {
            return Ok(0);
        };
        if count > 0 {
            user::copy_in(self.base, bytes)?;
        }
        Ok(count)
    }

    /// Fills `bytes`; `EINVAL` when the range is shorter.
    pub fn read_exact(self, bytes: &mut [u8]) -> Result<()> {
        if self.len < bytes.len() {
            return Err(Error::new(EINVAL));
        }
        self.read(bytes).map(drop)
    }

    /// Copies the whole range into a frame, from `offset` on. Panics when it exceeds the frame.
    pub fn read_to_frame(self, frame: &FrameRef, offset: usize) -> Result<()> {
        user::copy_to_frame(self.base, frame, offset, self.len)
    }

    /// Fills the whole range from a frame, from `offset` on. Panics when it exceeds the frame.
    pub fn write_from_frame(self, frame: &FrameRef, offset: usize) -> Result<()> {
        user::copy_from_frame(self.base, frame, offset, self.len)
    }

    /// Copies the whole range in; `ENOMEM`. The caller bounds the length.
    pub fn read_vec(self) -> Result<Vec<u8>> {
        let mut bytes = zeroes(self.len)?;
        self.read(&mut bytes)?;
        Ok(bytes)
    }

    /// Copies out as many bytes as both sides have. Returns their count.
    pub fn write(self, bytes: &[u8]) -> Result<usize> {
        let count = bytes.len().min(self.len);
        if let Some(bytes) = bytes.get(..count).filter(|bytes| !bytes.is_empty()) {
            user::copy_out(self.base, bytes)?;
        }
        Ok(count)
    }

    /// Copies all of `bytes` out; `EINVAL` when the range is shorter.
    pub fn write_all(self, bytes: &[u8]) -> Result<()> {
        if self.len < bytes.len() {
            return Err(Error::new(EINVAL));
        }
        self.write(bytes).map(drop)
    }

    /// The word at byte offset 8 × `index`; `EINVAL` when the range is shorter.
    pub fn word(self, index: usize) -> Result<usize> {
        let mut bytes = [0; size_of::<usize>()];
        let offset = index.checked_mul(bytes.len()).ok_or(Error::new(EINVAL))?;
        self.skip(offset).read_exact(&mut bytes)?;
        Ok(usize::from_ne_bytes(bytes))
    }

    /// The word at byte offset 8 × `index`, if the range is long enough.
    pub fn optional_word(self, index: usize) -> Result<Option<usize>> {
        let word = size_of::<usize>();
        if self.len / word <= index {
            Ok(None)
        } else {
            self.word(index).map(Some)
        }
    }

    /// All whole words; `EINVAL` for more than `most`, `ENOMEM`.
    pub fn words(self, most: usize) -> Result<Vec<usize>> {
        let count = self.len / size_of::<usize>();
        if count > most {
            return Err(Error::new(EINVAL));
        }
        let bytes = self.prefix(count * size_of::<usize>()).read_vec()?;
        let (chunks, _) = bytes.as_chunks();
        let mut words = list_for(count)?;
        words.extend(chunks.iter().map(|word| usize::from_ne_bytes(*word)));
        Ok(words)
    }

    /// Fills `words` with the whole words of the range. Returns how many it has filled.
    pub fn read_words<const N: usize>(self, words: &mut [u64; N]) -> Result<usize> {
        let mut bytes = [[0; size_of::<u64>()]; N];
        let count = self.len / size_of::<u64>();
        self.prefix(count * size_of::<u64>())
            .read(bytes.as_flattened_mut())?;
        for (word, bytes) in words.iter_mut().zip(bytes) {
            *word = u64::from_ne_bytes(bytes);
        }
        Ok(count.min(N))
    }

    /// Writes one word to the start; `EINVAL` when the range is shorter.
    pub fn write_word(self, word: usize) -> Result<()> {
        self.write_all(&word.to_ne_bytes())
    }
}
