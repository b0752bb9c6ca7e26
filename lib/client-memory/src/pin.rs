//! Pinning memory where it is: the program's side.
//!
//! A program that registers memory keeps its pages; the SCIF daemon borrows them. The daemon finds
//! them through the descriptor of the program's address space, which the program sends over a
//! memory handle (`scif_abi::call::SEND_SPACE`) and which the daemon keeps no longer than it looks
//! for the pages. What was pinned stays the same pages until the last window on them has gone,
//! whatever the program maps at their addresses meanwhile.

use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU8, Ordering};

use libredox::Fd;
use scif_abi::call::{MemoryCall, PinRecord, SEND_SPACE};
use scif_abi::codec::Operation;
use scif_abi::flags::Protection;
use syscall::data::{GrantDesc, GrantFlags};
use syscall::error::{EFAULT, EIO, Error, Result};
use syscall::flag::CallFlags;

use crate::shared::Range;
use hal::mem::PAGE;

/// Pinned pages. Dropping the value lets them go; windows on them keep them.
pub struct Pin {
    /// The memory handle.
    file: Fd,
    token: u64,
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:#x})", self.token)
    }
}

impl Pin {
    /// Pins the pages of `range` (whole pages) through a memory handle that `open` opens.
    /// `protection` is what windows on them may allow.
    ///
    /// # Errors
    /// `EINVAL` for incomplete or no pages; `EFAULT` when a page is not mapped, does not allow the
    /// program itself what `protection` says, or is no ordinary memory; `EAGAIN` at a limit of the
    /// user; `ENOMEM`; `EPERM` for [`PinRecord::UNCHARGED`] without being root; those of `open`.
    pub fn new(
        open: impl FnOnce() -> Result<Fd>,
        range: Range<'_>,
        protection: Protection,
        flags: u32,
    ) -> Result<Self> {
        range.check_pages()?;
        let mappings = own_mappings()?;
        check(&mappings, range.address(), range.bytes(), protection)?;
        touch(&mappings, range.address(), range.bytes());
        let record = PinRecord {
            address: (range.address() as u64).into(),
            length: (range.bytes() as u64).into(),
            protection: protection.bits().into(),
            flags: flags.into(),
        };
        let file = open()?;
        // A fresh descriptor: the daemon lists the mappings too.
        let token = pin(&file, own_space()?, record)?;
        Ok(Self { file, token })
    }

    /// What `register` and the cached transfers of the daemon call the pages.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The memory handle.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }
}

/// Asks the daemon behind the memory handle `file` to pin pages of `space`. Returns their token.
///
/// # Errors
/// Those of the daemon.
pub fn pin(file: &Fd, space: Fd, record: PinRecord) -> Result<u64> {
    let sent = space.into_raw();
    if let Err(error) = file.call_wo(&sent.to_ne_bytes(), CallFlags::FD, &[SEND_SPACE]) {
        // Whether the descriptor is still there depends on how far the call came.
        let _ = libredox::call::close(sent);
        return Err(error.into());
    }
    let call = MemoryCall::Pin { record };
    let [first, second] = call.words();
    let mut payload = [0; size_of::<PinRecord>()];
    payload.copy_from_slice(call.payload());
    let metadata = [call.number(), first, second];
    let token = file.call_rw(&mut payload, CallFlags::empty(), &metadata)?;
    Ok(token as u64)
}

/// One mapping of an address space.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mapping {
    /// First byte.
    pub base: usize,
    /// Bytes.
    pub size: usize,
    /// Rights and kind.
    pub flags: GrantFlags,
}

impl Mapping {
    /// The first byte after it.
    pub fn end(&self) -> usize {
        self.base.saturating_add(self.size)
    }
}

unsafe extern "C" {
    /// The descriptor of the current thread.
    safe fn redox_cur_thrfd_v0() -> usize;
}

/// The address space of this program. A process with this descriptor controls the program.
pub fn own_space() -> Result<Fd> {
    Ok(Fd::new(libredox::call::dup(
        redox_cur_thrfd_v0(),
        b"addrspace",
    )?))
}

/// The mappings of this program, ascending.
///
/// # Errors
/// Those of the handle of the own address space.
pub fn own_mappings() -> Result<Vec<Mapping>> {
    mappings(&own_space()?)
}

/// The mappings of an address space, ascending. Reads on from where the descriptor stands, so give
/// a fresh one.
///
/// # Errors
/// Those of reading the descriptor.
pub fn mappings(space: &Fd) -> Result<Vec<Mapping>> {
    const PER_READ: usize = 16;
    let mut mappings = Vec::new();
    let mut buffer = [0; PER_READ * size_of::<GrantDesc>()];
    loop {
        let count = space.read(&mut buffer)?;
        let records = buffer.get(..count).ok_or(Error::new(EIO))?;
        mappings.extend(records.chunks_exact(size_of::<GrantDesc>()).map(parse));
        // The kernel stores as many as fit.
        if count < buffer.len() {
            return Ok(mappings);
        }
    }
}

/// One record: base, size, flags and offset, each a word.
fn parse(record: &[u8]) -> Mapping {
    let word = |index: usize| {
        let bytes = record.get(8 * index..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| usize::from_ne_bytes(*bytes))
    };
    Mapping {
        base: word(0),
        size: word(1),
        flags: GrantFlags::from_bits_retain(word(2)),
    }
}

/// The parts of `mappings` (ascending) in a range, whose end is not beyond user space: first
/// address, the one behind the last, and rights.
pub(crate) fn parts(
    mappings: &[Mapping],
    address: usize,
    length: usize,
) -> impl Iterator<Item = (usize, usize, GrantFlags)> + '_ {
    let end = address + length;
    mappings
        .iter()
        .map(move |mapping| {
            let start = mapping.base.max(address);
            (start, mapping.end().min(end), mapping.flags)
        })
        .filter(|(start, end, _)| start < end)
}

/// Checks that `mappings` (ascending) cover a range without holes, with the rights `protection`
/// asks for, and that none of it is device memory.
///
/// # Errors
/// `EFAULT`.
pub fn check(
    mappings: &[Mapping],
    address: usize,
    length: usize,
    protection: Protection,
) -> Result<()> {
    let end = address.checked_add(length).ok_or(Error::new(EFAULT))?;
    // There is no memory that can be written and not read.
    let mut need = GrantFlags::GRANT_READ;
    need.set(
        GrantFlags::GRANT_WRITE,
        protection.contains(Protection::WRITE),
    );
    let mut at = address;
    for (start, end, flags) in parts(mappings, address, length) {
        if start != at || !flags.contains(need) || flags.contains(GrantFlags::GRANT_PHYS) {
            return Err(Error::new(EFAULT));
        }
        at = end;
    }
    if at == end {
        Ok(())
    } else {
        Err(Error::new(EFAULT))
    }
}

/// Stores to every writable page of a range, without changing it, and reads the others: a page
/// that is still shared with another program, or not there yet, becomes this program's own before
/// anybody borrows it.
fn touch(mappings: &[Mapping], address: usize, length: usize) {
    for (start, end, flags) in parts(mappings, address, length) {
        for page in (start..end).step_by(PAGE) {
            if flags.contains(GrantFlags::GRANT_WRITE) {
                // SAFETY: the page is mapped and writable, and adding nothing changes nothing,
                // also while others use the byte.
                unsafe { AtomicU8::from_ptr(page as *mut u8) }.fetch_add(0, Ordering::Relaxed);
            } else if flags.contains(GrantFlags::GRANT_READ) {
                // SAFETY: the page is mapped and readable.
                unsafe { (page as *const u8).read_volatile() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: GrantFlags = GrantFlags::GRANT_READ.union(GrantFlags::GRANT_WRITE);
    const NONE: Protection = Protection::empty();

    fn mapping(base: usize, size: usize, flags: GrantFlags) -> Mapping {
        Mapping { base, size, flags }
    }

    #[test]
    fn mappings_must_cover_the_range_with_the_rights() {
        let list = [
            mapping(0x1000, 0x1000, RW),
            mapping(0x4000, 0x2000, RW),
            mapping(0x6000, 0x1000, GrantFlags::GRANT_READ),
            mapping(0x7000, 0x1000, RW | GrantFlags::GRANT_SHARED),
            mapping(0x9000, 0x1000, RW | GrantFlags::GRANT_PHYS),
            mapping(0xA000, 0x1000, GrantFlags::empty()),
        ];
        let fault = Err(Error::new(EFAULT));
        assert_eq!(check(&list, 0x4000, 0x2000, Protection::all()), Ok(()));
        assert_eq!(check(&list, 0x5000, 0x1000, Protection::WRITE), Ok(()));
        // Over a border, and with what one of the two allows.
        assert_eq!(check(&list, 0x5000, 0x3000, Protection::READ), Ok(()));
        assert_eq!(check(&list, 0x5000, 0x3000, Protection::WRITE), fault);
        // Holes before, in the middle, behind; nothing at all.
        assert_eq!(check(&list, 0x3000, 0x2000, Protection::READ), fault);
        assert_eq!(check(&list, 0x1000, 0x4000, Protection::READ), fault);
        assert_eq!(check(&list, 0x7000, 0x2000, Protection::READ), fault);
        assert_eq!(check(&list, 0x2000, 0x1000, NONE), fault);
        assert_eq!(check(&[], 0x2000, 0x1000, NONE), fault);
        assert_eq!(check(&list, usize::MAX - 0xfff, 0x2000, NONE), fault);
        // Device memory; no rights at all.
        assert_eq!(check(&list, 0x9000, 0x1000, Protection::READ), fault);
        assert_eq!(check(&list, 0xA000, 0x1000, Protection::READ), fault);
        assert_eq!(check(&list, 0xA000, 0x1000, NONE), fault);
    }

    #[test]
    fn records_of_mappings_are_read() {
        let mut record = [0; 32];
        for (at, word) in [0x4000_usize, 0x2000, 0b11, 7].into_iter().enumerate() {
            record[8 * at..][..8].copy_from_slice(&word.to_ne_bytes());
        }
        assert_eq!(parse(&record), mapping(0x4000, 0x2000, RW));
    }
}
