//! Whether a range of this process can be replaced by other memory, from the list of the process's
//! mappings.

use alloc::vec::Vec;

use syscall::data::GrantFlags;
use syscall::error::{EFAULT, Error, Result};

use crate::pin::{self, Mapping};

/// Mappings of which memory cannot be taken away, because somebody else knows it too, or because
/// programs run in it.
const FOREIGN: GrantFlags = GrantFlags::GRANT_SHARED
    .union(GrantFlags::GRANT_SCHEME)
    .union(GrantFlags::GRANT_PHYS_CONTIGUOUS)
    .union(GrantFlags::GRANT_PINNED)
    .union(GrantFlags::GRANT_EXEC);

/// A part of a range to be replaced, with one protection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Run {
    /// First address.
    pub address: usize,
    /// Bytes.
    pub bytes: usize,
    /// Whether it can be written now.
    pub writable: bool,
}

/// What to do with a range that is to become the daemon's.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Plan {
    /// All of it is ordinary private memory: these parts, one after the other, can be replaced.
    Replace(Vec<Run>),
    /// It has to stay where it is.
    InPlace,
}

/// Decides for `bytes` bytes at `address`, of which `busy` (first address, address behind the last)
/// must not be replaced. `mappings` are those of the process in any order.
///
/// # Errors
/// `EFAULT` when a part is not mapped, cannot be read, is a device's, or cannot be written though
/// `writable` says that it must.
pub fn plan(
    mappings: &[Mapping],
    address: usize,
    bytes: usize,
    writable: bool,
    busy: (usize, usize),
) -> Result<Plan> {
    let end = address.checked_add(bytes).ok_or(Error::new(EFAULT))?;
    let overlaps = |mapping: &&Mapping| mapping.base < end && mapping.end() > address;
    let mut inside: Vec<&Mapping> = mappings.iter().filter(overlaps).collect();
    inside.sort_by_key(|mapping| mapping.base);
    let mut runs = Vec::new();
    let mut in_place = busy.0 < end && busy.1 > address;
    let mut at = address;
    for mapping in inside {
        let can_write = mapping.flags.contains(GrantFlags::GRANT_WRITE);
        let bad = mapping.base > at
            || !mapping.flags.contains(GrantFlags::GRANT_READ)
            || mapping.flags.contains(GrantFlags::GRANT_PHYS)
            || writable && !can_write;
        if bad {
            return Err(Error::new(EFAULT));
        }
        in_place |= mapping.flags.intersects(FOREIGN);
        let until = end.min(mapping.end());
        runs.push(Run {
            address: at,
            bytes: until - at,
            writable: can_write,
        });
        at = until;
    }
    if at < end {
        return Err(Error::new(EFAULT));
    }
    Ok(if in_place {
        Plan::InPlace
    } else {
        Plan::Replace(runs)
    })
}

/// The mappings of this process.
///
/// # Errors
/// Those of the handle of the own address space.
pub fn own_mappings() -> Result<Vec<Mapping>> {
    pin::mappings(&pin::own_space()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: GrantFlags = GrantFlags::GRANT_READ.union(GrantFlags::GRANT_WRITE);
    const NOTHING_BUSY: (usize, usize) = (0, 0);

    fn grant(base: usize, size: usize, flags: GrantFlags) -> Mapping {
        Mapping { base, size, flags }
    }

    fn run(address: usize, bytes: usize, writable: bool) -> Run {
        Run {
            address,
            bytes,
            writable,
        }
    }

    fn failure(plan: Result<Plan>) -> Option<i32> {
        plan.err().map(|error| error.errno)
    }

    #[test]
    fn ordinary_memory_is_replaced_in_its_parts() {
        let grants = [
            grant(0x6000, 0x2000, GrantFlags::GRANT_READ),
            grant(0x1000, 0x5000, RW),
            grant(0x9000, 0x1000, GrantFlags::GRANT_SHARED),
        ];
        let inside = plan(&grants, 0x2000, 0x1000, true, NOTHING_BUSY);
        assert_eq!(inside, Ok(Plan::Replace(vec![run(0x2000, 0x1000, true)])));
        let across = plan(&grants, 0x5000, 0x2000, false, NOTHING_BUSY);
        let runs = vec![run(0x5000, 0x1000, true), run(0x6000, 0x1000, false)];
        assert_eq!(across, Ok(Plan::Replace(runs)));
    }

    #[test]
    fn what_cannot_be_accessed_is_refused() {
        let grants = [
            grant(0x1000, 0x1000, RW),
            grant(0x2000, 0x1000, GrantFlags::GRANT_READ),
            grant(0x3000, 0x1000, GrantFlags::empty()),
            grant(0x5000, 0x1000, RW.union(GrantFlags::GRANT_PHYS)),
        ];
        let mapped = |address, bytes, writable| {
            failure(plan(&grants, address, bytes, writable, NOTHING_BUSY))
        };
        assert_eq!(mapped(0x1000, 0x2000, false), None);
        assert_eq!(mapped(0x1000, 0x2000, true), Some(EFAULT), "read-only");
        assert_eq!(mapped(0x2000, 0x2000, false), Some(EFAULT), "no rights");
        assert_eq!(mapped(0x4000, 0x1000, false), Some(EFAULT), "a hole");
        assert_eq!(mapped(0, 0x2000, false), Some(EFAULT), "begins in a hole");
        assert_eq!(mapped(0x5000, 0x1000, false), Some(EFAULT), "a device");
        assert_eq!(
            mapped(0x5000, 0x2000, false),
            Some(EFAULT),
            "ends in a hole"
        );
        assert_eq!(mapped(usize::MAX - 0xfff, 0x1000, false), Some(EFAULT));
    }

    #[test]
    fn shared_and_busy_memory_stays_in_place() {
        for kind in [
            GrantFlags::GRANT_SHARED,
            GrantFlags::GRANT_SCHEME,
            GrantFlags::GRANT_PHYS_CONTIGUOUS,
            GrantFlags::GRANT_PINNED,
            GrantFlags::GRANT_EXEC,
        ] {
            let grants = [grant(0x1000, 0x1000, RW), grant(0x2000, 0x1000, RW | kind)];
            let all = plan(&grants, 0x1000, 0x2000, true, NOTHING_BUSY);
            assert_eq!(all, Ok(Plan::InPlace));
            let first = plan(&grants, 0x1000, 0x1000, true, NOTHING_BUSY);
            assert!(matches!(first, Ok(Plan::Replace(_))));
        }
        let grants = [grant(0x1000, 0x5000, RW)];
        let around = |busy| plan(&grants, 0x2000, 0x2000, true, busy);
        assert_eq!(around((0x1000, 0x2001)), Ok(Plan::InPlace));
        assert_eq!(around((0x3fff, 0x6000)), Ok(Plan::InPlace));
        assert!(matches!(around((0x1000, 0x2000)), Ok(Plan::Replace(_))));
        assert!(matches!(around((0x4000, 0x6000)), Ok(Plan::Replace(_))));
    }
}
