//! The pages that `madvise` keeps from the children of `fork`.

use alloc::vec::Vec;
use core::ops::Range;

use libredox::call::munmap;
use syscall::error::Result;

use crate::sync::Shared;

/// Ranges of whole pages, which do not overlap.
pub static OWN: Shared<Vec<Range<usize>>> = Shared::new(Vec::new());

/// Removes a range from the ranges.
fn take_out(ranges: &mut Vec<Range<usize>>, out: Range<usize>) {
    let rest = |each: &Range<usize>| {
        [
            each.start..each.end.min(out.start),
            each.start.max(out.end)..each.end,
        ]
    };
    *ranges = ranges.iter().flat_map(rest).collect();
    ranges.retain(|range| !range.is_empty());
}

/// Keeps whole pages from children, or lets children have them again.
pub fn keep(pages: Range<usize>, is_kept: bool) {
    OWN.with(|own| {
        take_out(own, pages.clone());
        if is_kept && !pages.is_empty() {
            own.push(pages);
        }
    });
}

/// Forgets the advice for a range that was replaced.
pub fn forget(address: usize, length: usize) {
    OWN.with(|own| take_out(own, address..address.saturating_add(length)));
}

/// Unmaps whole pages and forgets their advice. It does both under the lock, so that advice is
/// kept for new pages that another thread maps there at once.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(address: usize, length: usize) -> Result<()> {
    OWN.with(|own| {
        // SAFETY: the caller gave the range up.
        unsafe { munmap(address as *mut (), length) }?;
        take_out(own, address..address.saturating_add(length));
        Ok(())
    })
}

/// Unmaps the pages that the child is not to get. Called in the child of `fork` before its program
/// runs.
pub fn forked() {
    for range in OWN.with(core::mem::take) {
        // Holes are no error. The kernel refuses a range outside of a program's memory, which has
        // no pages.
        // SAFETY: the program has asked for it.
        let _ = unsafe { munmap(range.start as *mut (), range.len()) };
    }
}
