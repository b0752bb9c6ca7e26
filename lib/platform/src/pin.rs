//! Pinning memory where it is: the client's side of the `scifpin` scheme, and the protocol both
//! sides share.
//!
//! Registered memory normally belongs to the SCIF daemon. A range that must keep its pages is
//! pinned in place instead: the program hands the descriptor of its address space to `scifpin`,
//! which borrows the pages and offers them to the SCIF daemon as a memory object. The object's
//! *token* is then used like that of memory the daemon provided.
//!
//! One descriptor of `/scheme/scifpin/range` stands for one range:
//!
//! 1. the client sends its address space over it (`call` with `FD | WRITE`, metadata
//!    [`SEND_SPACE`]); the daemon keeps it for the next step only;
//! 2. the client calls [`PIN`] with a [`PinRecord`] as payload; the result is the token;
//! 3. closing the descriptor, or the end of the program, lets the range go. Its pages stay pinned
//!    until the last window on them is gone too.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use syscall::data::{GrantDesc, GrantFlags};
use syscall::error::{EFAULT, EINVAL, EIO, Error, Result};
use syscall::flag::CallFlags;

use crate::mem::PAGE;
use crate::shared::Range;

/// Name of the scheme.
pub const SCHEME: &str = "scifpin";
/// Opens a descriptor for one range, as yet unpinned.
pub const RANGE_PATH: &str = "/scheme/scifpin/range";
/// Text file: one line per pinned range.
pub const LIST_PATH: &str = "/scheme/scifpin/ranges";

/// Metadata word that comes with the descriptor of the client's address space.
pub const SEND_SPACE: u64 = 1;
/// Operation: pin a range of that space; the payload is a [`PinRecord`]. Result: the token.
pub const PIN: u64 = 2;

/// The range may be read by peers; the value of `SCIF_PROT_READ`.
pub const READ: u32 = 1;
/// The range may be written by peers; the value of `SCIF_PROT_WRITE`.
pub const WRITE: u32 = 2;

/// Flag of [`PinRecord`], root only: the pages count against nobody's limit.
pub const UNCHARGED: u32 = 1;

/// What [`PIN`] pins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PinRecord {
    /// First byte; a multiple of the page size.
    pub address: u64,
    /// Bytes; a multiple of the page size, not 0.
    pub length: u64,
    /// [`READ`] and [`WRITE`]: what the program itself must be allowed to do with every page.
    pub protection: u32,
    /// 0 or [`UNCHARGED`].
    pub flags: u32,
}

impl PinRecord {
    /// Bytes of a record on its way to the daemon.
    pub const BYTES: usize = 24;

    /// The record as it travels: the fields in order, little endian.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.protection.to_le_bytes());
        bytes[20..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// The record from a payload, which must have exactly its length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        let half = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            address: word(0)?,
            length: word(8)?,
            protection: half(16)?,
            flags: half(20)?,
        })
    }

    /// Address and length, if they are whole pages of user space and the other fields make sense.
    ///
    /// # Errors
    /// `EINVAL` as above, `EFAULT` beyond user space.
    pub fn range(&self) -> Result<(usize, usize)> {
        let aligned = |value: u64| value.is_multiple_of(PAGE as u64);
        if !aligned(self.address) || !aligned(self.length) || self.length == 0 {
            return Err(Error::new(EINVAL));
        }
        if self.protection & !(READ | WRITE) != 0 || self.flags & !UNCHARGED != 0 {
            return Err(Error::new(EINVAL));
        }
        match self.address.checked_add(self.length) {
            Some(end) if end <= USER_END => Ok((self.address as usize, self.length as usize)),
            _ => Err(Error::new(EFAULT)),
        }
    }
}

/// End of the lower half of the address space, which belongs to programs.
const USER_END: u64 = 1 << 47;

/// A pinned range. Dropping it lets the range go; windows on it keep its pages.
pub struct Pin {
    file: Fd,
    token: u64,
}

impl Pin {
    /// Pins `length` bytes at `address` of this program where they are. `protection` is what peers
    /// may do, [`READ`] and [`WRITE`]; `flags` is 0 or [`UNCHARGED`].
    ///
    /// # Safety
    /// From now on others may read and change the memory at any time: nothing may refer to it as
    /// if it were ordinary memory of the program's own.
    ///
    /// # Errors
    /// `EINVAL` for an incomplete page or an unknown flag; `EFAULT` when a page is not mapped, not
    /// allowed to the program itself, or no ordinary memory; `EAGAIN` at a limit of the user;
    /// `ENOMEM`; `EPERM` for [`UNCHARGED`] without being root; `ENODEV` without SCIF daemon;
    /// `ENOENT` without `scifpin`.
    pub unsafe fn new(address: usize, length: usize, protection: u32, flags: u32) -> Result<Self> {
        let record = PinRecord {
            address: address as u64,
            length: length as u64,
            protection,
            flags,
        };
        record.range()?;
        let mappings = mappings(&own_space()?)?;
        check(&mappings, address, length, protection)?;
        touch(&mappings, address, length);
        let file = Fd::open(RANGE_PATH, O_RDWR | O_CLOEXEC, 0)?;
        // A fresh one: the daemon lists the mappings too.
        let sent = own_space()?.into_raw();
        if let Err(error) = file.call_wo(&sent.to_ne_bytes(), CallFlags::FD, &[SEND_SPACE]) {
            // Whether the descriptor is still there depends on how far the call came.
            let _ = libredox::call::close(sent);
            return Err(error.into());
        }
        let mut payload = record.to_bytes();
        let token = file.call_rw(&mut payload, CallFlags::empty(), &[PIN])?;
        Ok(Self {
            file,
            token: token as u64,
        })
    }

    /// As [`new`](Self::new), for memory that is known to change.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_range(range: Range<'_>, protection: u32, flags: u32) -> Result<Self> {
        // SAFETY: a range is memory that may change at any time.
        unsafe { Self::new(range.address(), range.bytes(), protection, flags) }
    }

    /// What register and the cached transfers of the SCIF daemon call the memory.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The descriptor that keeps the range pinned.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }
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

/// The address space of this program. Whoever holds the descriptor controls the program.
pub fn own_space() -> Result<Fd> {
    Ok(Fd::new(libredox::call::dup(
        redox_cur_thrfd_v0(),
        b"addrspace",
    )?))
}

/// The mappings of an address space, ascending. Reads on from where the descriptor stands, so give
/// a fresh one.
pub fn mappings(space: &Fd) -> Result<Vec<Mapping>> {
    const PER_READ: usize = 16;
    let mut mappings = Vec::new();
    let mut buffer = [0; PER_READ * size_of::<GrantDesc>()];
    loop {
        let count = space.read(&mut buffer)?;
        let records = buffer.get(..count).ok_or(Error::new(EIO))?;
        if records.is_empty() {
            return Ok(mappings);
        }
        mappings.extend(records.chunks_exact(size_of::<GrantDesc>()).map(parse));
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

/// The parts of `mappings` (ascending) that lie in a range, whose end is not beyond user space.
fn parts(
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
pub fn check(mappings: &[Mapping], address: usize, length: usize, protection: u32) -> Result<()> {
    let mut need = GrantFlags::empty();
    need.set(GrantFlags::GRANT_READ, protection & READ != 0);
    need.set(GrantFlags::GRANT_WRITE, protection & WRITE != 0);
    let mut at = address;
    for (start, end, flags) in parts(mappings, address, length) {
        if start != at || !flags.contains(need) || flags.contains(GrantFlags::GRANT_PHYS) {
            return Err(Error::new(EFAULT));
        }
        at = end;
    }
    if at == address + length {
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

    fn mapping(base: usize, size: usize, flags: GrantFlags) -> Mapping {
        Mapping { base, size, flags }
    }

    #[test]
    fn records_survive_the_way() {
        let record = PinRecord {
            address: 0x1122_3344_5566_7000,
            length: 0x8000,
            protection: WRITE,
            flags: UNCHARGED,
        };
        assert_eq!(PinRecord::from_bytes(&record.to_bytes()), Some(record));
        assert_eq!(PinRecord::from_bytes(&[0; 23]), None);
        assert_eq!(PinRecord::from_bytes(&[0; 25]), None);
    }

    #[test]
    fn ranges_are_whole_pages_of_user_space() {
        let good = PinRecord {
            address: 0x5000,
            length: 0x2000,
            protection: READ | WRITE,
            flags: 0,
        };
        assert_eq!(good.range(), Ok((0x5000, 0x2000)));
        let invalid = Err(Error::new(EINVAL));
        assert_eq!(PinRecord { length: 0, ..good }.range(), invalid);
        assert_eq!(
            PinRecord {
                length: 0x2001,
                ..good
            }
            .range(),
            invalid
        );
        assert_eq!(
            PinRecord {
                address: 0x5001,
                ..good
            }
            .range(),
            invalid
        );
        assert_eq!(
            PinRecord {
                protection: 4,
                ..good
            }
            .range(),
            invalid
        );
        assert_eq!(PinRecord { flags: 2, ..good }.range(), invalid);
        let fault = Err(Error::new(EFAULT));
        let address = USER_END - 0x1000;
        assert_eq!(PinRecord { address, ..good }.range(), fault);
        let address = u64::MAX - 0xFFF;
        assert_eq!(PinRecord { address, ..good }.range(), fault);
        let address = USER_END - 0x2000;
        assert!(PinRecord { address, ..good }.range().is_ok());
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
        assert_eq!(check(&list, 0x4000, 0x2000, READ | WRITE), Ok(()));
        assert_eq!(check(&list, 0x5000, 0x1000, WRITE), Ok(()));
        // Over a border, and with what one of the two allows.
        assert_eq!(check(&list, 0x5000, 0x3000, READ), Ok(()));
        assert_eq!(check(&list, 0x5000, 0x3000, WRITE), fault);
        // Holes before, in the middle, behind; nothing at all.
        assert_eq!(check(&list, 0x3000, 0x2000, READ), fault);
        assert_eq!(check(&list, 0x1000, 0x4000, READ), fault);
        assert_eq!(check(&list, 0x7000, 0x2000, READ), fault);
        assert_eq!(check(&list, 0x2000, 0x1000, 0), fault);
        assert_eq!(check(&[], 0x2000, 0x1000, 0), fault);
        // Device memory; no rights at all.
        assert_eq!(check(&list, 0x9000, 0x1000, READ), fault);
        assert_eq!(check(&list, 0xA000, 0x1000, READ), fault);
        assert_eq!(check(&list, 0xA000, 0x1000, 0), Ok(()));
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
