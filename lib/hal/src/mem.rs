//! Memory that changes from outside: device registers, a peer's RAM, pages shared with another
//! program.
//!
//! A [`Region`] is a range of such memory. It gives out no references, except to a word that is
//! polled as an atomic ([`Region::word_u64`]). Values are read and written whole, by volatile or
//! atomic access, after a check against the region's length; larger pieces are copied. Regions are
//! cheap to clone and to cut; the mapping behind them lives as long as the last of them.

mod map;

use alloc::rc::Rc;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use libredox::call::munmap;
use syscall::error::{EFAULT, Error, Result};

use crate::copy::{self, Routine, Side};

pub use map::{Cache, PhysicalMemory, map_physical, map_shared, physical_bits, reserve_addresses};
pub(crate) use map::{map_start, replace, reserve};

/// Bytes of a page, the unit of all mappings.
pub const PAGE: usize = 4096;

/// An access that is not inside its region, or not aligned to its size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct BoundsError {
    /// First byte of the access, counted from the start of the region.
    pub offset: usize,
    /// Bytes of the access.
    pub bytes: usize,
    /// Bytes of the region.
    pub region_bytes: usize,
}

impl fmt::Display for BoundsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "access of {} bytes at {:#x} is misaligned or outside the region of {:#x} bytes",
            self.bytes, self.offset, self.region_bytes
        )
    }
}

impl From<BoundsError> for Error {
    fn from(_: BoundsError) -> Self {
        Error::new(EFAULT)
    }
}

/// A value that memory accesses transfer in one piece.
pub trait Word: Copy + sealed::Sealed {}

mod sealed {
    /// Unsigned integers only: every bit pattern is a value.
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

impl Word for u8 {}
impl Word for u16 {}
impl Word for u32 {}
impl Word for u64 {}

/// The owner of a region's memory.
enum Backing {
    /// A mapping made by this process, undone with the last region.
    Mapping {
        address: usize,
        bytes: usize,
        side: Side,
    },
    /// Ordinary memory (tests, loopback links). Words, so that every region start is aligned.
    Heap(NonNull<[u64]>),
}

impl Drop for Backing {
    fn drop(&mut self) {
        match *self {
            Backing::Mapping { address, bytes, .. } => {
                // SAFETY: the mapping was made by this process for this object alone, and the
                // last region that could reach it is gone.
                let result = unsafe { munmap(address as *mut (), bytes) };
                if let Err(error) = result {
                    log::warn!("unmap of {bytes:#x} bytes at {address:#x} failed: {error}");
                }
            }
            Backing::Heap(words) => {
                // SAFETY: made by `Box::leak` in `Region::heap`, freed only here.
                drop(unsafe { alloc::boxed::Box::from_raw(words.as_ptr()) });
            }
        }
    }
}

/// A range of memory shared with something else; see the [module](self).
#[derive(Clone)]
pub struct Region {
    start: NonNull<u8>,
    bytes: usize,
    backing: Rc<Backing>,
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:p}, {:#x} bytes)", self.start, self.bytes)
    }
}

impl Region {
    /// Zeroed ordinary memory with the interface of shared memory.
    pub fn heap(bytes: usize) -> Self {
        let words = alloc::vec![0_u64; bytes.div_ceil(8)].into_boxed_slice();
        let words = NonNull::from(alloc::boxed::Box::leak(words));
        Self {
            start: words.cast(),
            bytes,
            backing: Rc::new(Backing::Heap(words)),
        }
    }

    /// Takes over a mapping of whole pages.
    ///
    /// # Safety
    /// `address` starts a mapping of `bytes` bytes, readable and writable, that nothing else
    /// unmaps or reaches through references.
    unsafe fn from_mapping(address: *mut (), bytes: usize, side: Side) -> Result<Self> {
        let start = NonNull::new(address.cast()).ok_or(Error::new(EFAULT))?;
        let backing = Rc::new(Backing::Mapping {
            address: address as usize,
            bytes,
            side,
        });
        Ok(Self {
            start,
            bytes,
            backing,
        })
    }

    /// Takes over a mapping of whole pages, which may be read-only: only a caller that knows that
    /// it is writable may store to the region.
    ///
    /// # Safety
    /// `address` starts a mapping of `bytes` bytes that can be read, and that nothing else unmaps
    /// or reaches through references.
    pub unsafe fn of_mapping(address: usize, bytes: usize, side: Side) -> Self {
        let backing = Rc::new(Backing::Mapping {
            address,
            bytes,
            side,
        });
        Self {
            // A mapping of the kernel's choice is never at 0.
            start: NonNull::new(address as *mut u8).unwrap_or(NonNull::dangling()),
            bytes,
            backing,
        }
    }

    /// The kind of memory.
    pub fn side(&self) -> Side {
        match *self.backing {
            Backing::Mapping { side, .. } => side,
            Backing::Heap(_) => Side::Own,
        }
    }

    /// Length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty region has no use")]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The virtual address of the first byte, for system calls that take one (a scheme's answer
    /// to a mapping request, address translation).
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The part `offset .. offset + bytes` as a region of its own.
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside.
    pub fn part(&self, offset: usize, bytes: usize) -> Result<Self, BoundsError> {
        let start = self.check(offset, bytes, 1)?;
        Ok(Self {
            start,
            bytes,
            backing: self.backing.clone(),
        })
    }

    fn check(&self, offset: usize, bytes: usize, align: usize) -> Result<NonNull<u8>, BoundsError> {
        let inside = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes);
        if !inside || !(self.address() + offset).is_multiple_of(align) {
            return Err(BoundsError {
                offset,
                bytes,
                region_bytes: self.bytes,
            });
        }
        // SAFETY: `offset` is at most `self.bytes`, so the result stays inside the mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    fn word<T: Word>(&self, offset: usize) -> Result<NonNull<T>, BoundsError> {
        self.check(offset, size_of::<T>(), align_of::<T>())
            .map(NonNull::cast)
    }

    /// Reads one value, once, with a single access of its size.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn read<T: Word>(&self, offset: usize) -> Result<T, BoundsError> {
        let place = self.word::<T>(offset)?;
        // SAFETY: inside the live mapping and aligned (checked); any bits are a value of `T`.
        Ok(unsafe { place.as_ptr().read_volatile() })
    }

    /// Writes one value with a single access of its size.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn write<T: Word>(&self, offset: usize, value: T) -> Result<(), BoundsError> {
        let place = self.word::<T>(offset)?;
        // SAFETY: inside the live mapping and aligned (checked); nothing holds references to it.
        unsafe { place.as_ptr().write_volatile(value) };
        Ok(())
    }

    /// Copies bytes out of the region.
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside.
    pub fn read_bytes(&self, offset: usize, to: &mut [u8]) -> Result<(), BoundsError> {
        let from = self.check(offset, to.len(), 1)?;
        // SAFETY: source inside the live mapping (checked), destination is our own slice.
        unsafe {
            let target = to.as_mut_ptr();
            copy::copy_between(self.side(), Side::Own, from.as_ptr(), target, to.len());
        }
        Ok(())
    }

    /// Copies bytes into the region.
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside.
    pub fn write_bytes(&self, offset: usize, from: &[u8]) -> Result<(), BoundsError> {
        let to = self.check(offset, from.len(), 1)?;
        // SAFETY: destination inside the live mapping (checked), source is a borrowed slice.
        unsafe {
            let source = from.as_ptr();
            copy::copy_between(Side::Own, self.side(), source, to.as_ptr(), from.len());
        }
        Ok(())
    }

    /// Copies between two regions; overlapping ranges of one mapping give mixed content, never
    /// anything outside them.
    ///
    /// # Errors
    /// [`BoundsError`]: one of the ranges is not all inside its region.
    pub fn copy_from(
        &self,
        offset: usize,
        from: &Region,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), BoundsError> {
        let source = from.check(from_offset, bytes, 1)?;
        let to = self.check(offset, bytes, 1)?;
        let (from_side, to_side) = (from.side(), self.side());
        // SAFETY: both ranges inside live mappings (checked), accessed by volatile copies only.
        unsafe { copy::copy_between(from_side, to_side, source.as_ptr(), to.as_ptr(), bytes) };
        Ok(())
    }

    /// Copies as [`copy_from`](Self::copy_from) does, by the given routine.
    ///
    /// # Safety
    /// The routine is [available](Routine::is_available).
    pub(crate) unsafe fn copy_from_by(
        &self,
        routine: Routine,
        offset: usize,
        from: &Region,
        from_offset: usize,
        bytes: usize,
    ) -> Result<(), BoundsError> {
        let source = from.check(from_offset, bytes, 1)?;
        let to = self.check(offset, bytes, 1)?;
        // SAFETY: as above, and the routine as the caller says.
        unsafe { copy::copy_by(routine, source.as_ptr(), to.as_ptr(), bytes) };
        Ok(())
    }

    /// Sets a range to zero.
    ///
    /// # Errors
    /// [`BoundsError`]: the range is not all inside.
    pub fn zero(&self, offset: usize, bytes: usize) -> Result<(), BoundsError> {
        const ZEROS: [u8; PAGE] = [0; PAGE];
        self.check(offset, bytes, 1)?;
        let mut done = 0;
        while done < bytes {
            let count = ZEROS.len().min(bytes - done);
            self.write_bytes(offset + done, &ZEROS[..count])?;
            done += count;
        }
        Ok(())
    }

    fn atomic_u32(&self, offset: usize) -> Result<&AtomicU32, BoundsError> {
        let place = self.word::<u32>(offset)?;
        // SAFETY: inside the live mapping, which this borrow keeps, and aligned (checked). An
        // atomic integer may change under a shared reference; others change it atomically too.
        Ok(unsafe { AtomicU32::from_ptr(place.as_ptr()) })
    }

    /// A reference to a word, for callers that poll it: the offset is checked once, here.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn word_u64(&self, offset: usize) -> Result<&AtomicU64, BoundsError> {
        let place = self.word::<u64>(offset)?;
        // SAFETY: as for `atomic_u32`.
        Ok(unsafe { AtomicU64::from_ptr(place.as_ptr()) })
    }

    /// Reads a value with acquire ordering: all that its writer stored before it is visible after.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn load_acquire_u32(&self, offset: usize) -> Result<u32, BoundsError> {
        Ok(self.atomic_u32(offset)?.load(Ordering::Acquire))
    }

    /// Publishes a value with release ordering: a reader of it sees everything that was written
    /// before.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), BoundsError> {
        self.atomic_u32(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    /// [`load_acquire_u32`](Self::load_acquire_u32) for 64 bits.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn load_acquire_u64(&self, offset: usize) -> Result<u64, BoundsError> {
        Ok(self.word_u64(offset)?.load(Ordering::Acquire))
    }

    /// [`store_release_u32`](Self::store_release_u32) for 64 bits.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn store_release_u64(&self, offset: usize, value: u64) -> Result<(), BoundsError> {
        self.word_u64(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    /// Adds `value` and returns the former value, atomically for all sides.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn fetch_add_u64(&self, offset: usize, value: u64) -> Result<u64, BoundsError> {
        Ok(self.word_u64(offset)?.fetch_add(value, Ordering::AcqRel))
    }

    /// Replaces `expected` by `new`, atomically for all sides; the inner error holds the value that
    /// was found instead.
    ///
    /// # Errors
    /// [`BoundsError`]: the value is not all inside, or not aligned to its size.
    pub fn compare_exchange_u32(
        &self,
        offset: usize,
        expected: u32,
        new: u32,
    ) -> Result<core::result::Result<u32, u32>, BoundsError> {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        Ok(self
            .atomic_u32(offset)?
            .compare_exchange(expected, new, order.0, order.1))
    }
}

/// Orders our earlier stores before our later loads (and everything else) as other sides see
/// them: the fence between "publish my index" and "look whether the peer sleeps".
#[inline]
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Orders earlier stores before later stores as other sides see them: data before the doorbell.
pub fn write_fence() {
    fence(Ordering::Release);
}

/// Drains the write-combining buffers: other sides see all earlier stores to write-combining
/// memory before any later store.
#[inline]
pub fn drain_writes() {
    #[cfg(not(target_os = "redox"))]
    crate::counting::count_drain();
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, which only orders stores.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    full_fence();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_stay_inside() {
        let region = Region::heap(24);
        assert_eq!(region.write(16, 0x1122_3344_5566_7788_u64), Ok(()));
        assert_eq!(region.read::<u8>(16), Ok(0x88));
        assert_eq!(region.read::<u32>(20), Ok(0x1122_3344));
        assert!(region.read::<u64>(17).is_err());
        assert!(region.read::<u64>(24).is_err());
        assert!(region.read::<u8>(usize::MAX).is_err());
        assert!(region.write_bytes(20, b"12345").is_err());
        assert!(region.write_bytes(20, b"1234").is_ok());
        assert!(region.part(8, 17).is_err());
        assert!(region.part(usize::MAX, 2).is_err());
    }

    #[test]
    fn parts_share_memory_and_keep_it() {
        let part = {
            let region = Region::heap(64);
            region.write(32, 7_u32).unwrap();
            region.part(32, 8).unwrap()
        };
        assert_eq!(part.read::<u32>(0), Ok(7));
        assert!(part.read::<u32>(8).is_err());
    }

    #[test]
    fn copies_of_every_alignment_are_exact() {
        let pattern: alloc::vec::Vec<u8> = (0..200).map(|i| (i * 7 + 1) as u8).collect();
        for start in 0..9 {
            for length in [0, 1, 2, 7, 8, 9, 31, 63, 64, 65, 100, 150] {
                let region = Region::heap(256);
                region.write_bytes(start, &pattern[..length]).unwrap();
                let mut back = alloc::vec![0xff; length];
                region.read_bytes(start, &mut back).unwrap();
                assert_eq!(back, pattern[..length]);
                let mut outside = [1];
                region.read_bytes(start + length, &mut outside).unwrap();
                assert_eq!(outside, [0]);
                let other = Region::heap(256);
                other.copy_from(3, &region, start, length).unwrap();
                other.read_bytes(3, &mut back).unwrap();
                assert_eq!(back, pattern[..length]);
            }
        }
    }

    #[test]
    fn atomics_and_zero() {
        let region = Region::heap(32);
        assert_eq!(region.compare_exchange_u32(4, 0, 5), Ok(Ok(0)));
        assert_eq!(region.load_acquire_u32(4), Ok(5));
        assert_eq!(region.compare_exchange_u32(4, 5, 6), Ok(Ok(5)));
        assert_eq!(region.compare_exchange_u32(4, 5, 7), Ok(Err(6)));
        assert_eq!(region.store_release_u64(8, u64::MAX), Ok(()));
        assert!(region.load_acquire_u64(4).is_err());
        region.zero(5, 20).unwrap();
        assert_eq!(region.read::<u32>(4), Ok(6));
        assert_eq!(region.load_acquire_u64(8), Ok(0));
    }
}
