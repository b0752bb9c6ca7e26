//! Memory of a SCIF program that peers reach: memory that it registers, and windows of peers that
//! it maps.
//!
//! A page that a program owns stays where it is: when it is registered, the `scif:` daemon borrows
//! it ([`pin`](crate::pin)). The daemon's own memory is what a program asked for as such
//! ([`Memory::new`](crate::memory::Memory::new)); it is physically contiguous as far as possible,
//! and registering it needs no borrowing. A table of the process lists the ranges that are such
//! memory. An entry goes when the range is unmapped or loses rights through this module
//! ([`changed`]), or when the daemon reports that its memory is no longer mapped here
//! ([`forget`]).
//!
//! No memory of this kind is ever seen through a reference.

use libredox::call::munmap;
use syscall::error::Result;

use crate::range::Range;
use crate::{reachable, table};
use hal::mem::PAGE;

/// A range of a memory object of the daemon.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Provided {
    /// Names the memory object.
    pub token: u64,
    /// Offset of the range in the object, in bytes.
    pub offset: u64,
}

/// Looks the range up in the table of the daemon's memory.
pub fn known(range: Range<'_>) -> Option<Provided> {
    let (token, offset) = table::find(range.address(), range.bytes())?;
    Some(Provided { token, offset })
}

/// Takes the pages of a range out of the table: what is mapped there is no longer the daemon's
/// memory.
pub fn forget(range: Range<'_>) {
    let first = range.address() - range.address() % PAGE;
    let end = range.address().saturating_add(range.bytes());
    let end = end.checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
    table::remove(first, end - first);
}

/// Forgets a range. Call it after something was mapped over the range or rights to it were taken
/// away by other means than this module's.
pub fn changed(range: Range<'_>) {
    forget(range);
    reachable::forget(range.address(), range.bytes());
}

/// Call it after unmapping a range for which [`forget`] was called before. It leaves the table
/// alone: an entry for the range is by now another thread's, which has got new memory there.
pub fn unmapped(range: Range<'_>) {
    reachable::forget(range.address(), range.bytes());
}

/// Unmaps whole pages.
///
/// # Errors
/// `EINVAL` unless the range is whole pages; those of `munmap`.
pub fn unmap(range: Range<'_>) -> Result<()> {
    range.check_pages()?;
    unmap_by(range, || {
        // SAFETY: no reference leads to the range (that is what a range is).
        unsafe { munmap(range.address() as *mut (), range.bytes())? };
        Ok(())
    })
}

fn unmap_by(range: Range<'_>, unmap: impl FnOnce() -> Result<()>) -> Result<()> {
    forget(range);
    let result = unmap();
    unmapped(range);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(address: usize, bytes: usize) -> Range<'static> {
        // SAFETY: nothing is accessed by these tests.
        unsafe { Range::new(address, bytes) }
    }

    #[test]
    fn what_is_known_is_found_by_any_part() {
        let range = pages(0x10_0000, 0x3000);
        table::insert(0x10_0000, 0x3000, 9, 0x2000);
        let part = range.part(0x1000, 0x1000).unwrap();
        let found = |offset| Some(Provided { token: 9, offset });
        assert_eq!(known(part), found(0x3000));
        assert_eq!(known(range.part(0x10, 3).unwrap()), found(0x2010));
        forget(range.part(0x10, 3).unwrap());
        assert!(known(range).is_none());
        assert!(known(part).is_some());
        // Memory that loses rights is forgotten, so its rights are checked at each use.
        changed(part);
        assert!(known(part).is_none());
        forget(range);
    }

    #[test]
    fn memory_that_another_thread_gets_at_once_stays_known() {
        let range = pages(0x20_0000, 0x2000);
        table::insert(0x20_0000, 0x2000, 4, 0);
        let unmap = || {
            assert!(known(range).is_none());
            table::insert(0x20_0000, 0x1000, 5, 0);
            Ok(())
        };
        assert_eq!(unmap_by(range, unmap), Ok(()));
        assert_eq!(table::find(0x20_0000, 0x1000), Some((5, 0)));
        forget(range);
    }
}
