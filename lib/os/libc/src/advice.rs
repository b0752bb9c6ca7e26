//! Pages that a child of `fork` does not have as a copy: those that `madvise` keeps from children,
//! and those of files, which parent and child share.

use alloc::vec::Vec;
use core::ops::Range;

use libredox::call::munmap;
use syscall::error::Result;

use crate::sync::Shared;

/// Ranges of whole pages. Those of one kind do not overlap.
pub struct Pages {
    /// What `madvise` keeps from children.
    own: Vec<Range<usize>>,
    /// Mappings of files.
    files: Vec<Range<usize>>,
}

/// The pages of this process.
pub static PAGES: Shared<Pages> = Shared::new(Pages {
    own: Vec::new(),
    files: Vec::new(),
});

impl Pages {
    fn forget(&mut self, out: &Range<usize>) {
        take_out(&mut self.own, out);
        take_out(&mut self.files, out);
    }
}

/// Removes a range from the ranges.
fn take_out(ranges: &mut Vec<Range<usize>>, out: &Range<usize>) {
    if ranges.is_empty() {
        return;
    }
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
    PAGES.with(|all| {
        take_out(&mut all.own, &pages);
        if is_kept && !pages.is_empty() {
            all.own.push(pages);
        }
    });
}

/// Notes a mapping of a file.
pub fn share(address: usize, length: usize) {
    PAGES.with(|all| all.files.push(address..address.saturating_add(length)));
}

/// The mappings of files.
pub fn shared() -> Vec<Range<usize>> {
    PAGES.with(|all| all.files.clone())
}

/// Forgets what was noted about a range that was replaced.
pub fn forget(address: usize, length: usize) {
    PAGES.with(|all| all.forget(&(address..address.saturating_add(length))));
}

/// Unmaps whole pages and forgets what was noted about them. It does both under the lock, so that
/// what another thread notes about new pages that it maps there at once is kept.
///
/// # Errors
/// The kernel's.
///
/// # Safety
/// Nothing may use the range any more.
pub unsafe fn unmap(address: usize, length: usize) -> Result<()> {
    PAGES.with(|all| {
        // SAFETY: the caller gave the range up.
        unsafe { munmap(address as *mut (), length) }?;
        all.forget(&(address..address.saturating_add(length)));
        Ok(())
    })
}

/// Unmaps the pages that the child is not to get. Called in the child of `fork` before its program
/// runs.
pub fn forked() {
    for range in PAGES.with(|all| core::mem::take(&mut all.own)) {
        // Holes are no error. The kernel refuses a range outside of a program's memory, which has
        // no pages.
        // SAFETY: the program has asked for it.
        let _ = unsafe { munmap(range.start as *mut (), range.len()) };
        PAGES.with(|all| take_out(&mut all.files, &range));
    }
}
