//! Mappings: where regions come from.

use core::arch::x86_64::__cpuid;

use libredox::Fd;
use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::{MAP_PRIVATE, MAP_SHARED, O_CLOEXEC, PROT_NONE, PROT_READ, PROT_WRITE};
use syscall::error::{EINVAL, EOVERFLOW, Error, Result};
use syscall::flag::MapFlags;

use super::{PAGE, Region};
use crate::copy::Side;

/// The file descriptor number that stands for anonymous memory in a mapping call.
const ANONYMOUS: usize = !0;

/// How the processor treats accesses to a physical mapping.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cache {
    /// Ordinary memory.
    WriteBack,
    /// Stores may be gathered: apertures and frame buffers.
    WriteCombining,
    /// Every access reaches the device: registers.
    Uncached,
}

impl Cache {
    fn path(self) -> &'static str {
        match self {
            Cache::WriteBack => "/scheme/memory/physical@wb",
            Cache::WriteCombining => "/scheme/memory/physical@wc",
            Cache::Uncached => "/scheme/memory/physical@uc",
        }
    }
}

/// The right to map device memory, for a daemon that maps after it has given up its namespace.
pub struct PhysicalMemory {
    file: Fd,
}

impl PhysicalMemory {
    /// Opens the kernel's file for mappings of this kind.
    ///
    /// # Errors
    /// `EACCES` for callers other than root.
    pub fn open(cache: Cache) -> Result<Self> {
        let file = Fd::open(cache.path(), O_CLOEXEC, 0)?;
        Ok(Self { file })
    }

    /// Maps device memory or firmware tables. The range needs no alignment and must not be
    /// ordinary RAM.
    ///
    /// # Errors
    /// `EINVAL` for an empty range, `EOVERFLOW` for one beyond the address space, `EPERM` when the
    /// range touches the system's RAM, `ENOMEM`.
    pub fn map(&self, physical: u64, bytes: usize) -> Result<Region> {
        if bytes == 0 {
            return Err(Error::new(EINVAL));
        }
        let skip = physical as usize % PAGE;
        let whole = skip
            .checked_add(bytes)
            .and_then(|length| length.checked_next_multiple_of(PAGE))
            .ok_or(Error::new(EOVERFLOW))?;
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let address = unsafe {
            mmap(MmapArgs {
                addr: core::ptr::null_mut(),
                length: whole,
                prot: PROT_READ | PROT_WRITE,
                flags: MAP_SHARED,
                fd: self.file.raw(),
                offset: physical - skip as u64,
            })?
        };
        // SAFETY: the mapping made above, known to nobody else.
        let region = unsafe { Region::from_mapping(address, whole, Side::Aperture)? };
        Ok(region.part(skip, bytes)?)
    }
}

/// Maps device memory or firmware tables, for callers that need a single mapping.
///
/// # Errors
/// Those of [`PhysicalMemory`].
pub fn map_physical(physical: u64, bytes: usize, cache: Cache) -> Result<Region> {
    PhysicalMemory::open(cache)?.map(physical, bytes)
}

/// Width of a physical address on this machine, in bits.
pub fn physical_bits() -> u32 {
    const HIGHEST_EXTENDED: u32 = 0x8000_0000;
    const ADDRESS_SIZES: u32 = 0x8000_0008;
    /// The width on processors that do not report it.
    const DEFAULT_BITS: u32 = 36;
    if __cpuid(HIGHEST_EXTENDED).eax < ADDRESS_SIZES {
        return DEFAULT_BITS;
    }
    __cpuid(ADDRESS_SIZES).eax & 0xff
}

/// Maps the first `bytes` bytes of a file, rounded up to whole pages, shared with its other users.
///
/// # Errors
/// `EINVAL` for an empty range, and those of the file's scheme.
pub fn map_shared(file: &Fd, bytes: usize) -> Result<Region> {
    if bytes == 0 {
        return Err(Error::new(EINVAL));
    }
    let bytes = bytes
        .checked_next_multiple_of(PAGE)
        .ok_or(Error::new(EOVERFLOW))?;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let address = unsafe {
        mmap(MmapArgs {
            addr: core::ptr::null_mut(),
            length: bytes,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_SHARED,
            fd: file.raw(),
            offset: 0,
        })?
    };
    // SAFETY: the mapping made above, known to nobody else.
    unsafe { Region::from_mapping(address, bytes, Side::Own) }
}

/// Reserves addresses of this process with nothing behind them. The caller maps over them piece by
/// piece.
///
/// # Errors
/// `ENOMEM`; `EINVAL` for no bytes.
pub fn reserve_addresses(bytes: usize) -> Result<usize> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let address = unsafe {
        mmap(MmapArgs {
            addr: core::ptr::null_mut(),
            length: bytes,
            prot: PROT_NONE,
            flags: MAP_PRIVATE,
            fd: ANONYMOUS,
            offset: 0,
        })?
    };
    Ok(address as usize)
}

/// Reserves a range of this process's address space: memory that costs nothing until it is
/// touched, which the caller replaces piece by piece.
pub(crate) fn reserve(bytes: usize) -> Result<Region> {
    map_private(ANONYMOUS, bytes)
}

/// Maps a file of the memory scheme privately at an address of the kernel's choice.
fn map_private(fd: usize, bytes: usize) -> Result<Region> {
    let bytes = bytes
        .checked_next_multiple_of(PAGE)
        .ok_or(Error::new(EOVERFLOW))?;
    map_start(fd, bytes, bytes)
}

/// Maps `whole` bytes of a file of the memory scheme privately and at once unmaps all but the
/// first `bytes`. Both are whole pages, and `bytes` is at most `whole`.
pub(crate) fn map_start(fd: usize, whole: usize, bytes: usize) -> Result<Region> {
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let address = unsafe {
        mmap(MmapArgs {
            addr: core::ptr::null_mut(),
            length: whole,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_PRIVATE,
            fd,
            offset: 0,
        })?
    };
    let (region, rest) = (bytes, whole.saturating_sub(bytes));
    if rest > 0 {
        // SAFETY: the end of the mapping made above, which nobody has seen.
        unsafe { munmap(address.wrapping_byte_add(region), rest)? };
    }
    // SAFETY: the mapping made above, or what is left of it, known to nobody else.
    unsafe { Region::from_mapping(address, region, Side::Own) }
}

/// Replaces whole pages of a region by a private mapping of `fd`, in place.
pub(crate) fn replace(region: &Region, offset: usize, bytes: usize, fd: usize) -> Result<()> {
    let place = region.check(offset, bytes, PAGE)?;
    if bytes == 0 || !bytes.is_multiple_of(PAGE) {
        return Err(Error::new(EINVAL));
    }
    // SAFETY: the range belongs to the region's own mapping (checked), is only reached through
    // regions, which hold no references, and stays mapped without a gap.
    unsafe {
        mmap(MmapArgs {
            addr: place.as_ptr().cast(),
            length: bytes,
            prot: PROT_READ | PROT_WRITE,
            flags: MAP_PRIVATE | (MapFlags::MAP_FIXED.bits() & 0xffff) as u32,
            fd,
            offset: 0,
        })?
    };
    Ok(())
}
