//! Memory that a program shares with the daemon or with a peer's node and accesses with plain
//! loads and stores: the mappings behind `scif`'s bypass (docs/architecture.md, "One message
//! without the daemon").
//!
//! [`Pages`] is a mapping of whole pages; [`Readable`] and [`Writable`] are memory of the program
//! that is known to be mapped. Offsets of words on a mapping's first page are checked at compile
//! time, all others by one comparison. No bytes here are ever seen through a reference.

use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64};

use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::{MAP_PRIVATE, MAP_SHARED, PROT_READ, PROT_WRITE};
use syscall::error::{EEXIST, EFAULT, ENOMEM, Error, Result};
use syscall::flag::MapFlags;

use crate::reachable;
use crate::rights::Rights;
use hal::copy::{self, Choices, Side};
use hal::mem::PAGE;

/// `MAP_FIXED` and `MAP_FIXED_NOREPLACE`, which replaces nothing, as `mmap` takes them.
const MAP_FIXED: u32 = MapFlags::MAP_FIXED.bits() as u32;
const MAP_FIXED_NOREPLACE: u32 = MapFlags::MAP_FIXED_NOREPLACE.bits() as u32;

/// A mapping of whole pages that others may change at any time. Dropping it unmaps them.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    bytes: usize,
    /// The length in bytes where the mapping may be read and written, else 0.
    readable: usize,
    writable: usize,
    side: Side,
}

/// A mapping by value: through a reference to [`Pages`] the compiler would load the address again
/// after each load of a word.
#[derive(Clone, Copy, Debug)]
pub struct Mapped<'a> {
    start: NonNull<u8>,
    readable: usize,
    writable: usize,
    pages: PhantomData<&'a Pages>,
}

// SAFETY: all accesses are atomic ones or copies by machine instructions, made for memory that
// changes meanwhile; threads of the own program are nothing else.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `bytes` bytes (whole pages, at least one) of a file, shared, from `offset` on. The
    /// mapping is placed at the address `at`, unless something is mapped there already. `side` is
    /// where the memory is.
    ///
    /// # Errors
    /// Those of the scheme and of `mmap`.
    pub fn map(
        fd: usize,
        offset: u64,
        bytes: usize,
        protection: Rights,
        side: Side,
        at: Option<usize>,
    ) -> Result<Self> {
        let mapped = |address: usize, fixed: u32| {
            let arguments = MmapArgs {
                addr: address as *mut (),
                length: bytes,
                prot: protection.bits(),
                flags: MAP_SHARED | fixed,
                fd,
                offset,
            };
            // SAFETY: nothing is replaced: the address is the kernel's choice, or nothing is
            // there.
            unsafe { mmap(arguments) }.map_err(Error::from)
        };
        let result = match at {
            Some(address) => match mapped(address, MAP_FIXED_NOREPLACE) {
                Err(Error { errno: EEXIST }) => mapped(0, 0),
                result => result,
            },
            None => mapped(0, 0),
        };
        let start = NonNull::new(result?.cast()).ok_or(Error::new(EFAULT))?;
        Ok(Self {
            start,
            bytes,
            readable: if protection.read { bytes } else { 0 },
            writable: if protection.write { bytes } else { 0 },
            side,
        })
    }

    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// The first byte.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Length in bytes, whole pages.
    #[expect(clippy::len_without_is_empty, reason = "no mapping is empty")]
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The rights of the mapping.
    pub fn protection(&self) -> Rights {
        Rights {
            read: self.readable > 0,
            write: self.writable > 0,
        }
    }

    /// The mapping by value.
    #[inline]
    pub fn mapped(&self) -> Mapped<'_> {
        Mapped {
            start: self.start,
            readable: self.readable,
            writable: self.writable,
            pages: PhantomData,
        }
    }

    /// Where the memory is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The word at `OFFSET`, on the first page and aligned.
    #[inline]
    pub fn u32_at<const OFFSET: usize>(&self) -> &AtomicU32 {
        self.mapped().u32_at::<OFFSET>()
    }

    /// One of `COUNT` words (a power of two) that are `STEP` bytes apart from `OFFSET` on, all on
    /// the first page and aligned: the one at `index` modulo `COUNT`.
    #[inline]
    pub fn u32_of<const OFFSET: usize, const STEP: usize, const COUNT: usize>(
        &self,
        index: usize,
    ) -> &AtomicU32 {
        const {
            assert!(COUNT.is_power_of_two() && OFFSET + STEP * (COUNT - 1) + 4 <= PAGE);
            assert!(OFFSET.is_multiple_of(4) && STEP.is_multiple_of(4));
        };
        let offset = OFFSET + STEP * (index % COUNT);
        // SAFETY: as for `Mapped::u32_at`, as the index is smaller than `COUNT`.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast().as_ptr()) }
    }

    /// The word at `OFFSET`, on the first page and aligned.
    #[inline]
    pub fn u64_at<const OFFSET: usize>(&self) -> &AtomicU64 {
        self.mapped().u64_at::<OFFSET>()
    }

    /// The word at an offset.
    ///
    /// # Errors
    /// `EFAULT` when it is not inside or not aligned, or the mapping cannot be both read and
    /// written.
    #[inline]
    pub fn word_u64(&self, offset: usize) -> Result<&AtomicU64> {
        let place = self.place(offset, size_of::<u64>(), true)?;
        if self.readable == 0 || !offset.is_multiple_of(align_of::<u64>()) {
            return Err(Error::new(EFAULT));
        }
        // SAFETY: inside the mapping, which lives as long as `self`, and aligned, as mappings
        // begin at pages. An atomic integer may change under a shared reference.
        Ok(unsafe { AtomicU64::from_ptr(place.cast().as_ptr()) })
    }

    /// Checks an access of `bytes` bytes at `offset` and returns its address.
    #[inline]
    fn place(&self, offset: usize, bytes: usize, write: bool) -> Result<NonNull<u8>> {
        self.mapped().place(offset, bytes, write)
    }

    /// See [`Mapped::put_short`].
    ///
    /// # Errors
    /// Those of [`Mapped::put_short`].
    #[inline]
    pub fn put_short(&self, offset: usize, from: Readable<'_>) -> Result<()> {
        self.mapped().put_short(offset, from)
    }

    /// Copies bytes of the program into the mapping, by the routine chosen for this kind of
    /// memory.
    ///
    /// # Errors
    /// `EFAULT` when they do not fit inside or the mapping does not allow it.
    #[inline]
    pub fn put(&self, offset: usize, from: Readable<'_>, choices: Choices) -> Result<()> {
        let to = self.place(offset, from.bytes, true)?;
        // SAFETY: the target is checked, the source known to be there; `Choices` holds available
        // routines only, here and below.
        unsafe {
            let source = from.start.as_ptr();
            let routine = choices.routine(Side::Own, self.side, from.bytes);
            copy::copy_by(routine, source, to.as_ptr(), from.bytes);
        }
        Ok(())
    }

    /// Copies bytes of the mapping out to the program.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn take(&self, offset: usize, to: &Writable<'_>, choices: Choices) -> Result<()> {
        let from = self.place(offset, to.bytes, false)?;
        // SAFETY: the source is checked, the target known to be there.
        unsafe {
            let target = to.start.as_ptr();
            let routine = choices.routine(self.side, Side::Own, to.bytes);
            copy::copy_by(routine, from.as_ptr(), target, to.bytes);
        }
        Ok(())
    }

    /// Copies from another mapping. Overlapping ranges give mixed content, never anything else.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    #[inline]
    pub fn copy_from(
        &self,
        offset: usize,
        from: &Pages,
        from_offset: usize,
        bytes: usize,
        choices: Choices,
    ) -> Result<()> {
        let source = from.place(from_offset, bytes, false)?;
        let to = self.place(offset, bytes, true)?;
        // SAFETY: both are checked.
        unsafe {
            let target = to.as_ptr();
            let routine = choices.routine(from.side, self.side, bytes);
            copy::copy_by(routine, source.as_ptr(), target, bytes);
        }
        Ok(())
    }

    /// Releases the memory: unmaps the file's pages and puts zeroed memory in their place, which
    /// has no use. Threads that still use the mapping do no harm and come to none.
    ///
    /// # Errors
    /// Those of `mmap`; the file's pages are still mapped then.
    pub fn detach(&self) -> Result<()> {
        let arguments = MmapArgs {
            addr: self.start.as_ptr().cast(),
            length: self.bytes,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_PRIVATE | MAP_FIXED,
            fd: usize::MAX,
            offset: 0,
        };
        // SAFETY: the mapping is this value's own, no reference but to atomic words leads there,
        // and what replaces it can be read and written.
        unsafe { mmap(arguments)? };
        Ok(())
    }
}

impl<'a> Mapped<'a> {
    /// The word at `OFFSET`, on the first page and aligned.
    #[inline]
    pub fn u32_at<const OFFSET: usize>(self) -> &'a AtomicU32 {
        const { assert!(OFFSET + 4 <= PAGE && OFFSET.is_multiple_of(4)) };
        // SAFETY: inside the first page, which is mapped as long as the mapping lives. An atomic
        // integer may change under a shared reference.
        unsafe { AtomicU32::from_ptr(self.start.add(OFFSET).cast().as_ptr()) }
    }

    /// The word at `OFFSET`, on the first page and aligned.
    #[inline]
    pub fn u64_at<const OFFSET: usize>(self) -> &'a AtomicU64 {
        const { assert!(OFFSET + 8 <= PAGE && OFFSET.is_multiple_of(8)) };
        // SAFETY: as for `u32_at`.
        unsafe { AtomicU64::from_ptr(self.start.add(OFFSET).cast().as_ptr()) }
    }

    /// Checks an access of `bytes` bytes at `offset` and returns its address.
    #[inline]
    fn place(self, offset: usize, bytes: usize, write: bool) -> Result<NonNull<u8>> {
        let end = if write { self.writable } else { self.readable };
        let Some(behind) = offset.checked_add(bytes) else {
            return Err(Error::new(EFAULT));
        };
        if behind > end {
            return Err(Error::new(EFAULT));
        }
        // SAFETY: `offset` is at most the length of the mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    /// Prefetches the cache line of the byte at `offset`; has no other effect, wherever that is.
    #[inline]
    pub fn prefetch(self, offset: usize) {
        let address = self.start.as_ptr().wrapping_add(offset);
        copy::prefetch(address);
    }

    /// Copies as [`put`](Pages::put) does, at most [`SMALL_BYTES`](copy::SMALL_BYTES) bytes, for
    /// which there is one routine. (It copies more, too.)
    ///
    /// # Errors
    /// Those of [`put`](Pages::put).
    #[inline(always)]
    pub fn put_short(self, offset: usize, from: Readable<'_>) -> Result<()> {
        let to = self.place(offset, from.bytes, true)?;
        // SAFETY: the target is checked, the source known to be there.
        unsafe { copy::copy_short(from.start.as_ptr(), to.as_ptr(), from.bytes) };
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and nobody borrows from it any more. Unmapping
        // fails only while a request on the memory runs, and such a request borrows it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
        reachable::forget(self.start.as_ptr() as usize, self.bytes);
    }
}

/// Memory of the program that is mapped and can be read; it may change meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Readable<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a [u8]>,
}

/// Memory of the program that is mapped and can be written.
#[derive(Debug)]
pub struct Writable<'a> {
    start: NonNull<u8>,
    bytes: usize,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> From<&'a [u8]> for Readable<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        Self {
            start: NonNull::from(bytes).cast(),
            bytes: bytes.len(),
            memory: PhantomData,
        }
    }
}

impl<'a> From<&'a mut [u8]> for Writable<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes: bytes.len(),
            start: NonNull::from(bytes).cast(),
            memory: PhantomData,
        }
    }
}

impl<'a> Readable<'a> {
    /// # Safety
    /// The bytes are mapped and readable, now and as long as the value is used.
    #[inline]
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self {
            start,
            bytes,
            memory: PhantomData,
        }
    }

    /// The first byte.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// A copy of the bytes.
    ///
    /// # Errors
    /// `ENOMEM`.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(self.bytes)
            .map_err(|_| Error::new(ENOMEM))?;
        bytes.resize(self.bytes, 0);
        // SAFETY: the source can be read (that is what it is), the target is our own.
        unsafe { copy::copy(self.start.as_ptr(), bytes.as_mut_ptr(), self.bytes) };
        Ok(bytes)
    }

    /// Copies bytes out: as many as there are and `to` has room for.
    pub fn copy_out(&self, to: &mut [u8]) {
        let bytes = to.len().min(self.bytes);
        // SAFETY: the source can be read (that is what it is), the target is a borrowed slice.
        unsafe { copy::copy(self.start.as_ptr(), to.as_mut_ptr(), bytes) };
    }

    /// The part of at most `bytes` bytes from `offset` on; fewer, or none, at the end.
    #[inline]
    #[must_use]
    pub fn part(&self, offset: usize, bytes: usize) -> Readable<'a> {
        let offset = offset.min(self.bytes);
        Readable {
            // SAFETY: inside, or right behind.
            start: unsafe { self.start.add(offset) },
            bytes: bytes.min(self.bytes - offset),
            memory: PhantomData,
        }
    }
}

impl Writable<'_> {
    /// # Safety
    /// The bytes are mapped and writable, now and as long as the value is used.
    #[inline]
    pub(crate) unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self {
            start,
            bytes,
            memory: PhantomData,
        }
    }

    /// Copies bytes in, as many as there is room for.
    pub fn copy_in(&mut self, from: &[u8]) {
        // SAFETY: the target is known to be there, the source a borrowed slice.
        unsafe {
            copy::copy(
                from.as_ptr(),
                self.start.as_ptr(),
                from.len().min(self.bytes),
            )
        };
    }

    /// The word at the beginning; `None` unless it is aligned and complete.
    pub fn word_u64(&self) -> Option<&AtomicU64> {
        let word = self.start.cast::<u64>();
        let is_whole = word.is_aligned() && self.bytes >= size_of::<u64>();
        // SAFETY: the bytes are there, aligned, and others change them by atomic stores or copies.
        is_whole.then(|| unsafe { AtomicU64::from_ptr(word.as_ptr()) })
    }

    /// The first byte.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// The address of the first byte.
    #[inline]
    pub fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The part of at most `bytes` bytes from `offset` on; fewer, or none, at the end.
    #[inline]
    #[must_use]
    pub fn part(&mut self, offset: usize, bytes: usize) -> Writable<'_> {
        let offset = offset.min(self.bytes);
        Writable {
            // SAFETY: inside, or right behind.
            start: unsafe { self.start.add(offset) },
            bytes: bytes.min(self.bytes - offset),
            memory: PhantomData,
        }
    }
}
