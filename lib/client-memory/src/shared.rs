//! Memory of a SCIF program that peers reach: memory that it registers, and windows of peers that
//! it maps.
//!
//! A page that a program owns stays where it is: when it is registered, the `scif:` daemon borrows
//! it ([`provide`]). The daemon's own memory is what a program asked for as such
//! ([`Memory::new`](crate::memory::Memory::new)); it is physically contiguous as far as possible,
//! and registering it needs no borrowing. A table of the process lists the ranges that are such
//! memory. An entry goes when the range is unmapped or loses rights through this module
//! ([`changed`]), or when the daemon reports that its memory is no longer mapped here
//! ([`forget`]).
//!
//! No memory of this kind is ever seen through a reference.

use libredox::Fd;
use libredox::call::munmap;
use syscall::error::Result;

use crate::pin::Pin;
use crate::range::Range;
use crate::{reachable, table};
use hal::mem::PAGE;

/// A range of a memory object of the daemon.
#[derive(Debug)]
pub struct Provided {
    /// Names the memory object.
    pub token: u64,
    /// Offset of the range in the object, in bytes.
    pub offset: u64,
    /// Pages of the program's own stay pinned until this is dropped and their last window is gone.
    _pin: Option<Pin>,
}

/// Makes a range available to the daemon: finds it in the table or, if it is whole pages, pins it
/// where it is, for windows with at most `protection`. `open` opens a memory handle for pinning.
///
/// # Errors
/// `EINVAL` unless the range is whole pages or in the table, `EFAULT` when the pages are not
/// mapped, do not allow the program itself what `protection` says, or are a device's; `EAGAIN` or
/// `ENOMEM` when there is no memory for the user; those of `open`.
pub fn provide(
    range: Range<'_>,
    protection: scif_abi::flags::Protection,
    open: impl FnOnce() -> Result<Fd>,
) -> Result<Provided> {
    if let Some(known) = known(range) {
        return Ok(known);
    }
    range.check_pages()?;
    let pin = Pin::new(open, range, protection, 0)?;
    Ok(Provided {
        token: pin.token(),
        offset: 0,
        _pin: Some(pin),
    })
}

/// Looks the range up in the table of the daemon's memory.
pub fn known(range: Range<'_>) -> Option<Provided> {
    let (token, offset) = table::find(range.address(), range.bytes())?;
    Some(Provided {
        token,
        offset,
        _pin: None,
    })
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
    use scif_abi::flags::Protection;
    use syscall::error::EINVAL;

    fn pages(address: usize, bytes: usize) -> Range<'static> {
        // SAFETY: nothing is accessed by these tests.
        unsafe { Range::new(address, bytes) }
    }

    fn unopened() -> Result<Fd> {
        panic!("nothing is to be pinned")
    }

    #[test]
    fn only_whole_pages_can_be_pinned() {
        for (address, bytes) in [(0x1001, 0x1000), (0x1000, 0x1001), (0x1000, 0)] {
            let result = provide(pages(address, bytes), Protection::all(), unopened);
            assert_eq!(result.err().map(|error| error.errno), Some(EINVAL));
        }
    }

    #[test]
    fn what_is_known_needs_no_system_call() {
        let range = pages(0x10_0000, 0x3000);
        table::insert(0x10_0000, 0x3000, 9, 0x2000);
        let part = range.part(0x1000, 0x1000).unwrap();
        let found = provide(part, Protection::all(), unopened).unwrap();
        assert_eq!((found.token, found.offset), (9, 0x3000));
        assert!(found._pin.is_none());
        let odd = provide(range.part(0x10, 3).unwrap(), Protection::all(), unopened).unwrap();
        assert_eq!((odd.token, odd.offset), (9, 0x2010));
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
