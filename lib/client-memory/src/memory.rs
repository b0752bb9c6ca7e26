//! Owned mappings and safe access to them.

use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use libredox::Fd;
use libredox::call::{MmapArgs, mmap};
use libredox::flag::{MAP_PRIVATE, O_CLOEXEC, O_RDWR, PROT_READ, PROT_WRITE};
use scif_abi::call::MemoryCall;
use scif_abi::codec::Operation;
use syscall::error::{EACCES, EFAULT, EINVAL, Error, Result};
use syscall::flag::CallFlags;

use crate::range::Range;
use crate::rights::Rights;
use crate::shared::unmap;
use crate::table;
use crate::window::{map, map_window};
use hal::copy;
use hal::mem::{PAGE, Word};

/// Memory that others may change at any time: values are read and written whole, larger pieces are
/// copied, and every access is checked.
#[derive(Debug)]
pub struct View {
    start: NonNull<u8>,
    bytes: usize,
    protection: Rights,
    /// The length in bytes if the memory may be both read and written, else 0.
    shared: usize,
}

// SAFETY: all accesses are atomic ones or copies by machine instructions, made for memory that
// changes meanwhile; threads of the own program are nothing else.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

/// Access to a word with one instruction.
trait Access: Word {
    /// # Safety
    /// `at` is mapped, readable and aligned.
    unsafe fn load(at: NonNull<Self>) -> Self;
    /// # Safety
    /// `at` is mapped, writable and aligned.
    unsafe fn store(at: NonNull<Self>, value: Self);
}

macro_rules! access {
    ($($word:ty, $atomic:ty;)*) => {
        $(impl Access for $word {
            unsafe fn load(at: NonNull<Self>) -> Self {
                // SAFETY: the caller vouches for the place.
                unsafe { <$atomic>::from_ptr(at.as_ptr()) }.load(Ordering::Relaxed)
            }
            unsafe fn store(at: NonNull<Self>, value: Self) {
                // SAFETY: the caller vouches for the place.
                unsafe { <$atomic>::from_ptr(at.as_ptr()) }.store(value, Ordering::Relaxed);
            }
        })*
    };
}

access! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

/// The types that [`View::read`] and [`View::write`] take: `u8`, `u16`, `u32` and `u64`.
#[expect(private_bounds, reason = "nobody else shall implement it")]
pub trait Value: Access {}
impl<T: Access> Value for T {}

impl View {
    /// # Safety
    /// `address` starts a mapping of `bytes` bytes with (at least) this protection that lives as
    /// long as the value and is reached through no reference.
    unsafe fn new(address: usize, bytes: usize, protection: Rights) -> Result<Self> {
        let start = NonNull::new(address as *mut u8).ok_or(Error::new(EFAULT))?;
        // SAFETY: passed on.
        Ok(unsafe { Self::of(start, bytes, protection) })
    }

    /// [`new`](Self::new) for an address that is not 0.
    ///
    /// # Safety
    /// As for [`new`](Self::new).
    const unsafe fn of(start: NonNull<u8>, bytes: usize, protection: Rights) -> Self {
        let is_shared = protection.read && protection.write;
        Self {
            start,
            bytes,
            protection,
            shared: if is_shared { bytes } else { 0 },
        }
    }

    /// Length in bytes, whole pages.
    #[expect(clippy::len_without_is_empty, reason = "no mapping is empty")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The first address.
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The whole view as a range, for calls that name memory by address.
    #[inline]
    pub fn range(&self) -> Range<'_> {
        // SAFETY: the mapping lives as long as the borrow, and no reference leads there.
        unsafe { Range::new(self.address(), self.bytes) }
    }

    /// Checks an access of `bytes` bytes at `offset` and returns its address.
    #[inline]
    fn place(&self, offset: usize, bytes: usize, align: usize, write: bool) -> Result<NonNull<u8>> {
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes);
        if !inside || !offset.is_multiple_of(align) {
            return Err(Error::new(EFAULT));
        }
        if write && !self.protection.write || !write && !self.protection.read {
            return Err(Error::new(EACCES));
        }
        // SAFETY: `offset` is at most the length of the mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    fn word<T>(&self, offset: usize, write: bool) -> Result<NonNull<T>> {
        self.place(offset, size_of::<T>(), align_of::<T>(), write)
            .map(NonNull::cast)
    }

    /// Reads one value with one access.
    ///
    /// # Errors
    /// `EFAULT` when the value is not inside or not aligned to its size, `EACCES` when the mapping
    /// cannot be read.
    pub fn read<T: Value>(&self, offset: usize) -> Result<T> {
        let place = self.word::<T>(offset, false)?;
        // SAFETY: checked.
        Ok(unsafe { T::load(place) })
    }

    /// Writes one value with one access.
    ///
    /// # Errors
    /// As for [`read`](Self::read); `EACCES` when the mapping cannot be written.
    pub fn write<T: Value>(&self, offset: usize, value: T) -> Result<()> {
        let place = self.word::<T>(offset, true)?;
        // SAFETY: checked.
        unsafe { T::store(place, value) };
        Ok(())
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let from = self.place(offset, to.len(), 1, false)?;
        // SAFETY: the source is checked, the target our own slice.
        unsafe { copy::copy(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn copy_in(&self, offset: usize, from: &[u8]) -> Result<()> {
        let to = self.place(offset, from.len(), 1, true)?;
        // SAFETY: the target is checked, the source a borrowed slice.
        unsafe { copy::copy(from.as_ptr(), to.as_ptr(), from.len()) };
        Ok(())
    }

    /// Sets `bytes` bytes to `value`.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn fill(&self, offset: usize, bytes: usize, value: u8) -> Result<()> {
        self.place(offset, bytes, 1, true)?;
        let piece = [value; 512];
        for at in (0..bytes).step_by(piece.len()) {
            self.copy_in(offset + at, &piece[..piece.len().min(bytes - at)])?;
        }
        Ok(())
    }

    fn atomic_u32(&self, offset: usize, write: bool) -> Result<&AtomicU32> {
        let place = self.word::<u32>(offset, write)?;
        // SAFETY: checked; the mapping lives as long as the borrow.
        Ok(unsafe { AtomicU32::from_ptr(place.as_ptr()) })
    }

    fn atomic_u64(&self, offset: usize, write: bool) -> Result<&AtomicU64> {
        let place = self.word::<u64>(offset, write)?;
        // SAFETY: checked; the mapping lives as long as the borrow.
        Ok(unsafe { AtomicU64::from_ptr(place.as_ptr()) })
    }

    /// A reference to a word, for programs that poll it: the offset is checked once, here.
    ///
    /// # Errors
    /// `EFAULT` when the word is not inside or not aligned, `EACCES` when the mapping cannot be
    /// both read and written.
    pub fn word_u64(&self, offset: usize) -> Result<&AtomicU64> {
        self.atomic_u64(offset, false)?;
        self.atomic_u64(offset, true)
    }

    /// All of the memory as words of 32 bits, for programs whose every access must be short.
    ///
    /// # Errors
    /// `EACCES` when the mapping cannot be both read and written.
    #[inline]
    pub fn words_u32(&self) -> Result<&[AtomicU32]> {
        if self.shared == 0 {
            return Err(Error::new(EACCES));
        }
        // SAFETY: the whole mapping, which lives as long as the borrow and begins at a page.
        // Atomic integers may change under a shared reference.
        Ok(unsafe { core::slice::from_raw_parts(self.start.as_ptr().cast(), self.shared / 4) })
    }

    /// All of the memory as words of 64 bits; see [`words_u32`](Self::words_u32).
    ///
    /// # Errors
    /// As for [`words_u32`](Self::words_u32).
    #[inline]
    pub fn words_u64(&self) -> Result<&[AtomicU64]> {
        if self.shared == 0 {
            return Err(Error::new(EACCES));
        }
        // SAFETY: as for `words_u32`.
        Ok(unsafe { core::slice::from_raw_parts(self.start.as_ptr().cast(), self.shared / 8) })
    }

    /// Reads a value with acquire ordering: all that its writer stored before it is visible after.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn load_acquire_u32(&self, offset: usize) -> Result<u32> {
        Ok(self.atomic_u32(offset, false)?.load(Ordering::Acquire))
    }

    /// [`load_acquire_u32`](Self::load_acquire_u32) for 64 bits.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn load_acquire_u64(&self, offset: usize) -> Result<u64> {
        Ok(self.atomic_u64(offset, false)?.load(Ordering::Acquire))
    }

    /// Publishes a value with release ordering: who reads it sees everything that was written
    /// before.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn store_release_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.atomic_u32(offset, true)?
            .store(value, Ordering::Release);
        Ok(())
    }

    /// [`store_release_u32`](Self::store_release_u32) for 64 bits.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn store_release_u64(&self, offset: usize, value: u64) -> Result<()> {
        self.atomic_u64(offset, true)?
            .store(value, Ordering::Release);
        Ok(())
    }

    /// Adds `value` and returns the former value, atomically for all programs that reach the
    /// memory.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn fetch_add_u64(&self, offset: usize, value: u64) -> Result<u64> {
        Ok(self
            .atomic_u64(offset, true)?
            .fetch_add(value, Ordering::AcqRel))
    }
}

/// A mapping of this process: whole pages, unmapped when the value is dropped.
#[derive(Debug)]
pub struct Memory {
    view: View,
}

impl Memory {
    /// Zeroed memory of the daemon, in pieces as large as the daemon has them: the best choice for
    /// memory that is going to be registered. `bytes` is a multiple of the page size.
    ///
    /// # Errors
    /// `EINVAL` unless `bytes` is whole pages, `EAGAIN` at the user's limit, `ENOMEM`, those of
    /// opening the scheme.
    pub fn new(bytes: usize) -> Result<Self> {
        check(bytes)?;
        let (file, token) = new_object(bytes)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe { map(&file, 0, bytes, PROT_READ | PROT_WRITE, None)? };
        table::insert(address, bytes, token, 0);
        // SAFETY: the mapping made above, known to nobody else.
        unsafe { Self::from_mapping(address, bytes, Rights::ALL) }
    }

    /// Zeroed ordinary memory, as any program has. Registering it pins its pages.
    ///
    /// # Errors
    /// `EINVAL` unless `bytes` is whole pages, `ENOMEM`.
    pub fn ordinary(bytes: usize) -> Result<Self> {
        check(bytes)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap(MmapArgs {
                addr: core::ptr::null_mut(),
                length: bytes,
                prot: PROT_READ | PROT_WRITE,
                flags: MAP_PRIVATE,
                fd: usize::MAX,
                offset: 0,
            })?
        };
        // SAFETY: the mapping made above, known to nobody else.
        unsafe { Self::from_mapping(address as usize, bytes, Rights::ALL) }
    }

    /// Maps windows of a peer; see [`map_window`].
    ///
    /// # Errors
    /// Those of [`map_window`].
    pub fn map_window(
        endpoint: usize,
        offset: i64,
        bytes: usize,
        protection: Rights,
    ) -> Result<Self> {
        let address = map_window(endpoint, offset, bytes, protection, None)?;
        // SAFETY: the mapping made just now, known to nobody else.
        unsafe { Self::from_mapping(address, bytes, protection) }
    }

    /// Leaves the memory mapped and returns its address; [`unmap`] unmaps it.
    pub fn leak(self) -> usize {
        let address = self.view.address();
        core::mem::forget(self);
        address
    }

    /// Takes over a mapping.
    ///
    /// # Safety
    /// `address` starts a mapping of `bytes` bytes, whole pages, with this protection, that
    /// nothing else unmaps or reaches through references.
    unsafe fn from_mapping(address: usize, bytes: usize, protection: Rights) -> Result<Self> {
        // SAFETY: passed on.
        let view = unsafe { View::new(address, bytes, protection)? };
        Ok(Self { view })
    }

    /// Cuts the memory in two at `offset`, a multiple of the page size, so that each part can be
    /// unmapped alone. Returns the whole when there is nothing to cut there.
    ///
    /// # Errors
    /// The whole memory: `offset` is 0, not before its end, or no multiple of the page size.
    pub fn split(self, offset: usize) -> core::result::Result<(Self, Self), Self> {
        if offset == 0 || offset >= self.view.bytes || !offset.is_multiple_of(PAGE) {
            return Err(self);
        }
        let View {
            start,
            bytes,
            protection,
            ..
        } = self.view;
        core::mem::forget(self);
        // SAFETY: `offset` lies inside the mapping.
        let middle = unsafe { start.add(offset) };
        let part = |start, bytes| Self {
            // SAFETY: a part of the mapping, which is this value's no more.
            view: unsafe { View::of(start, bytes, protection) },
        };
        Ok((part(start, offset), part(middle, bytes - offset)))
    }
}

impl Deref for Memory {
    type Target = View;

    #[inline]
    fn deref(&self) -> &View {
        &self.view
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // The mapping is this value's own, and nobody borrows from it any more. Unmapping fails
        // only while a request on the memory runs, and such a request borrows it.
        let _ = unmap(self.view.range());
    }
}

fn check(bytes: usize) -> Result<()> {
    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
        return Err(Error::new(EINVAL));
    }
    Ok(())
}

/// A new memory object of the daemon: its descriptor and its token.
fn new_object(bytes: usize) -> Result<(Fd, u64)> {
    let file = Fd::open("/scheme/scif/memory", O_RDWR | O_CLOEXEC, 0)?;
    let request = MemoryCall::Provide {
        pages: (bytes / PAGE) as u64,
    };
    let [first, second] = request.words();
    let metadata = [request.number(), first, second];
    let token = file.call_rw(&mut [], CallFlags::empty(), &metadata)?;
    Ok((file, token as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heap memory in a view. It is leaked, because `munmap` would not take it.
    fn view(bytes: usize, protection: Rights) -> View {
        let words = Box::leak(vec![0_u64; bytes.div_ceil(8)].into_boxed_slice());
        // SAFETY: leaked memory that nobody else uses.
        unsafe { View::new(words.as_mut_ptr() as usize, bytes, protection).unwrap() }
    }

    fn errno<T>(result: Result<T>) -> i32 {
        result.err().map_or(0, |error| error.errno)
    }

    #[test]
    fn accesses_stay_inside_and_aligned() {
        let view = view(24, Rights::ALL);
        view.write(16, 0x1122_3344_5566_7788_u64).unwrap();
        assert_eq!(view.read::<u8>(16), Ok(0x88));
        assert_eq!(view.read::<u16>(18), Ok(0x5566));
        assert_eq!(view.read::<u32>(20), Ok(0x1122_3344));
        assert_eq!(errno(view.read::<u64>(17)), EFAULT);
        assert_eq!(errno(view.read::<u64>(24)), EFAULT);
        assert_eq!(errno(view.write(usize::MAX, 1_u8)), EFAULT);
        assert_eq!(errno(view.copy_in(20, b"12345")), EFAULT);
        assert_eq!(errno(view.copy_out(25, &mut [])), EFAULT);
        assert_eq!(errno(view.fill(8, 17, 1)), EFAULT);
        view.fill(9, 3, 0xee).unwrap();
        let mut bytes = [0; 5];
        view.copy_out(8, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 0xee, 0xee, 0xee, 0]);
    }

    #[test]
    fn protection_is_kept() {
        let read_only = Rights {
            write: false,
            ..Rights::ALL
        };
        let view = view(16, read_only);
        assert_eq!(view.read::<u32>(0), Ok(0));
        assert_eq!(errno(view.write(0, 1_u32)), EACCES);
        assert_eq!(errno(view.copy_in(0, b"x")), EACCES);
        assert_eq!(errno(view.fetch_add_u64(0, 1)), EACCES);
        assert_eq!(errno(view.store_release_u64(0, 1)), EACCES);
        assert_eq!(errno(view.word_u64(0).map(|_| ())), EACCES);
    }

    #[test]
    fn a_word_is_the_memory_itself() {
        let view = view(16, Rights::ALL);
        let word = view.word_u64(8).unwrap();
        word.store(7, Ordering::Release);
        assert_eq!(view.read::<u64>(8), Ok(7));
        view.write(8, 9_u64).unwrap();
        assert_eq!(word.load(Ordering::Acquire), 9);
        for wrong in [4, 16, usize::MAX] {
            assert_eq!(errno(view.word_u64(wrong).map(|_| ())), EFAULT);
        }
    }

    #[test]
    fn all_words_are_the_memory_itself() {
        let view = view(32, Rights::ALL);
        view.write(16, 0x1122_3344_5566_7788_u64).unwrap();
        let (short, long) = (view.words_u32().unwrap(), view.words_u64().unwrap());
        assert_eq!((short.len(), long.len()), (8, 4));
        assert_eq!(long[2].load(Ordering::Relaxed), 0x1122_3344_5566_7788);
        assert_eq!(short[5].swap(0, Ordering::SeqCst), 0x1122_3344);
        assert_eq!(view.read::<u64>(16), Ok(0x5566_7788));
    }

    #[test]
    fn atomics_answer_with_the_former_value() {
        let view = view(32, Rights::ALL);
        assert_eq!(view.fetch_add_u64(8, 5), Ok(0));
        assert_eq!(view.fetch_add_u64(8, 1), Ok(5));
        view.store_release_u32(16, 9).unwrap();
        assert_eq!(view.load_acquire_u32(16), Ok(9));
        assert_eq!(view.load_acquire_u64(8), Ok(6));
        assert_eq!(errno(view.load_acquire_u64(12)), EFAULT);
    }
}
