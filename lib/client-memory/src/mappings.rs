//! The mappings of an address space, as the kernel lists them.

use alloc::vec::Vec;

use libredox::Fd;
use scif_abi::flags::Protection;
use syscall::data::{GrantDesc, GrantFlags};
use syscall::error::{EFAULT, EIO, ENOMEM, Error, Result};

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
///
/// # Errors
/// Those of opening it, such as `EMFILE`.
pub fn own_space() -> Result<Fd> {
    Ok(Fd::new(libredox::call::dup(
        redox_cur_thrfd_v0(),
        b"addrspace",
    )?))
}

/// The mappings of this program, in ascending order.
///
/// # Errors
/// Those of opening and reading the program's own address space.
pub fn own_mappings() -> Result<Vec<Mapping>> {
    mappings(&own_space()?, usize::MAX)
}

/// The mappings of an address space, in ascending order. `most` roughly limits their number. The
/// list begins at the descriptor's position, which must be its beginning.
///
/// # Errors
/// `ENOMEM` when there are more than `most`. Those of reading the descriptor.
pub fn mappings(space: &Fd, most: usize) -> Result<Vec<Mapping>> {
    // To begin a read, the kernel walks along all mappings before it.
    const PER_READ: usize = 128;
    let mut mappings = Vec::new();
    let mut buffer = [0; PER_READ * size_of::<GrantDesc>()];
    loop {
        let count = space.read(&mut buffer)?;
        let records = buffer.get(..count).ok_or(Error::new(EIO))?;
        mappings.extend(records.chunks_exact(size_of::<GrantDesc>()).map(parse));
        if mappings.len() > most {
            return Err(Error::new(ENOMEM));
        }
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

/// The parts of `mappings` (ascending) that lie in a range, whose end is not beyond user space:
/// first address, address behind the last byte, and rights.
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

/// Those of `mappings` that have pages in a range, whose end is not beyond user space: not more
/// than the range has pages.
pub(crate) fn within(mappings: &[Mapping], address: usize, length: usize) -> Vec<Mapping> {
    let end = address + length;
    let meets = |mapping: &&Mapping| mapping.base < end && address < mapping.end();
    mappings.iter().filter(meets).copied().collect()
}

/// Checks that `mappings` (ascending) cover a range without holes, have the rights that
/// `protection` asks for, and include no device memory.
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
    // No memory can be written and not read.
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

#[cfg(test)]
mod tests {
    use hal::testing::host::{Request, play};

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
    fn of_many_mappings_those_of_the_range_are_kept() {
        let many: Vec<Mapping> = (0..60_000)
            .map(|page| mapping(page * 0x1000, 0x1000, RW))
            .collect();
        for (address, pages) in [(0x1000, 1), (0x5000, 3), (59_999 * 0x1000, 1)] {
            let kept = within(&many, address, pages * 0x1000);
            assert_eq!(kept.len(), pages);
            let all = parts(&many, address, pages * 0x1000);
            assert!(parts(&kept, address, pages * 0x1000).eq(all));
        }
    }

    /// A program can have any number of mappings, and all others wait while they are listed.
    #[test]
    fn a_list_that_does_not_end_is_given_up() {
        let mut reads = 0;
        let answer = move |request: Request<'_>| match request {
            Request::Read(7, buffer) => {
                reads += 1;
                assert!(reads <= 520, "it reads on");
                Ok(buffer.len())
            }
            Request::Close(7) => Ok(0),
            other => panic!("{other:?}"),
        };
        let found = play(answer, || mappings(&Fd::new(7), 1 << 16));
        assert_eq!(found, Err(Error::new(ENOMEM)));
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
