//! Placement for the address cache of an emulator: chooses addresses at which source and
//! destination of a copy do not evict each other from that cache. A build without the feature
//! `placement` has `no_placement.rs` instead.
//!
//! An emulator keeps a translated page in an entry of a table, which the low bits of the page's
//! number select. The table's size is a power of two, at least 64, and grows with use. Two pages
//! of one entry evict each other: a copy between them is 3 to 15 times slower. Where the ranges of
//! a copy share entries, a copy finds no page that the copy before it has used, though the table
//! has room for all of them: it is a quarter slower. Memory that is copied to and fro is therefore
//! kept [`THIRD`] apart.

use hal::mem::PAGE;
use libredox::call::{MmapArgs, mmap, munmap};
use libredox::flag::MAP_PRIVATE;

/// The fewest entries of an emulator's table.
const FEWEST_ENTRIES: usize = 64;
/// The largest table that is considered. Page numbers are chosen modulo this.
const MOST_ENTRIES: usize = 1 << 16;

/// Pages by which the addresses of local windows are ahead of their offsets, so that the first
/// ones share no entry with the connection's pages.
const OWN_SHIFT: usize = 11;

/// Distance in pages between memory and its counterpart: a third, or two thirds, of every table up
/// to the largest one.
const THIRD: usize = MOST_ENTRIES / 3;

/// Whether a copy of `bytes` bytes between these two addresses uses each entry for one page only,
/// in the smallest table that has room for all pages and a third to spare.
#[inline]
pub fn are_apart(one: usize, other: usize, bytes: usize) -> bool {
    // The ends may lie in the middle of pages; then one range is at times a page ahead of the
    // other.
    let pages = bytes / PAGE + 2;
    let distance = (one / PAGE).wrapping_sub(other / PAGE);
    let apart = |table: usize, pages: usize| {
        let distance = distance & (table - 1);
        pages <= distance && distance <= table - pages
    };
    // First the pages that are used at the same time, then all of them.
    let table = (3 * pages).next_power_of_two().max(FEWEST_ENTRIES);
    apart(FEWEST_ENTRIES, 2) && (table > MOST_ENTRIES || apart(table, pages))
}

/// The best address for the byte at `offset` of a local window, modulo the table's size.
pub fn of_own(offset: i64) -> usize {
    (offset as usize).wrapping_add(OWN_SHIFT * PAGE)
}

/// The best address for memory that is copied to and from `other`, modulo the table's size.
pub fn opposite(other: usize) -> usize {
    other.wrapping_add(THIRD * PAGE)
}

/// Finds an address where `bytes` bytes, whole pages, can be mapped, and which selects the same
/// entry as `like`; `None` without memory. Another thread may map there first: then
/// [`Pages::map`](crate::pages::Pages::map) takes another place.
pub fn find_place(bytes: usize, like: usize) -> Option<usize> {
    let room = bytes.saturating_add(MOST_ENTRIES * PAGE);
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let start = unsafe {
        mmap(MmapArgs {
            addr: core::ptr::null_mut(),
            length: room,
            prot: 0,
            flags: MAP_PRIVATE,
            fd: usize::MAX,
            offset: 0,
        })
    };
    let start = start.ok()?;
    // SAFETY: mapped just now, known to nobody.
    unsafe { munmap(start, room).ok()? };
    let first = start as usize / PAGE;
    let skip = (like / PAGE).wrapping_sub(first) % MOST_ENTRIES;
    Some((first + skip) * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether pages `0..pages` and as many from `distance` on share an entry of a table.
    fn share(table: usize, distance: usize, pages: usize) -> bool {
        let mut used = alloc::vec![false; table];
        (0..pages).for_each(|page| used[page % table] = true);
        (0..pages).any(|page| used[(distance + page) % table])
    }

    #[test]
    fn a_third_is_apart_in_every_table() {
        let mut table = FEWEST_ENTRIES;
        while table <= MOST_ENTRIES {
            let pages = table / 3;
            assert!(!share(table, THIRD, pages), "{table}");
            let bytes = (pages - 2) * PAGE;
            let start = 0x7654_3210 * PAGE;
            assert!(are_apart(start + THIRD * PAGE, start, bytes), "{table}");
            assert!(are_apart(start, start + THIRD * PAGE, bytes), "{table}");
            table *= 2;
        }
    }

    #[test]
    fn what_shares_entries_is_not_apart() {
        for distance in (0..300).chain([1024, 4096, 4097, 5461, 1 << 16, (1 << 30) + 700]) {
            for pages in [1, 2, 15, 21, 22, 30, 100, 254, 255, 256, 1000] {
                let bytes = pages * PAGE;
                let apart = are_apart(distance * PAGE, 0, bytes);
                assert_eq!(apart, are_apart(0, distance * PAGE, bytes));
                // Pages used at the same moment never share an entry of any table.
                let moment = (6..=16).any(|bits| distance % (1 << bits) <= 1);
                assert!(!apart || !moment, "{distance} {pages}");
                let table = (3 * (pages + 2)).next_power_of_two().max(64);
                assert!(
                    !apart || !share(table, distance, pages),
                    "{distance} {pages}"
                );
            }
        }
    }
}
