//! The memory that this process has mapped, for copies that are made without the kernel: an address
//! that a C program passes may be anything, and a bad one must be an error, not the program's end.
//!
//! The list of the process's mappings is asked for at first sight; a few ranges are remembered and
//! found again without a lock. Code that unmaps memory or takes rights away calls [`forget`].

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use syscall::data::GrantFlags;

use crate::mappings::{Mapping, own_mappings};
use hal::lock::Mutex;

/// Ranges remembered.
const SLOTS: usize = 8;

/// A range: first address, and the address behind the last byte. Nothing when both are 0.
struct Slot {
    start: AtomicUsize,
    end: AtomicUsize,
    /// 0 or 1.
    writable: AtomicUsize,
}

/// The remembered ranges, guarded by `CHANGES`.
static SLOT: [Slot; SLOTS] = [const {
    Slot {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        writable: AtomicUsize::new(0),
    }
}; SLOTS];

/// Counts changes of the slots; odd while one is made.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// The lock of those that change the slots; the value is the slot that is used next.
static WRITER: Mutex<usize> = Mutex::new(0);

/// Whether a remembered range holds all of `start .. end`.
fn is_known(start: usize, end: usize, write: bool) -> bool {
    let before = CHANGES.load(Ordering::Acquire);
    let found = SLOT.iter().any(|slot| {
        slot.start.load(Ordering::Relaxed) <= start
            && end <= slot.end.load(Ordering::Relaxed)
            && (!write || slot.writable.load(Ordering::Relaxed) != 0)
    });
    // The loads above are done before the count is looked at again.
    fence(Ordering::Acquire);
    found && before.is_multiple_of(2) && CHANGES.load(Ordering::Relaxed) == before
}

/// Changes slots; readers discard what they read meanwhile.
fn change(action: impl FnOnce()) {
    CHANGES.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::Release);
    action();
    CHANGES.fetch_add(1, Ordering::Release);
}

/// The part of `mappings` (any order) around `start`, without holes, that can be read, and written
/// if `write` says so; first address and the one behind the last byte.
fn around(mappings: &[Mapping], start: usize, write: bool) -> Option<(usize, usize)> {
    let mut need = GrantFlags::GRANT_READ;
    need.set(GrantFlags::GRANT_WRITE, write);
    // Device memory is not for copies of any size.
    let fits = |mapping: &&Mapping| {
        mapping.flags.contains(need) && !mapping.flags.contains(GrantFlags::GRANT_PHYS)
    };
    let mut fitting: alloc::vec::Vec<&Mapping> = mappings.iter().filter(fits).collect();
    fitting.sort_by_key(|mapping| mapping.base);
    let mut found: Option<(usize, usize)> = None;
    for mapping in fitting {
        found = match found {
            Some((first, end)) if end == mapping.base => Some((first, mapping.end())),
            Some((_, end)) if end > start => break,
            _ => Some((mapping.base, mapping.end())),
        };
    }
    found.filter(|(first, end)| *first <= start && start < *end)
}

/// Part of [`fork::before`](crate::fork::before).
pub(crate) fn before_fork() {
    WRITER.hold();
}

/// Part of [`fork::after`](crate::fork::after): what is in the child has to be found out anew.
///
/// # Safety
/// As for [`fork::after`](crate::fork::after).
pub(crate) unsafe fn after_fork(in_child: bool) {
    // SAFETY: the caller's promise.
    let _lock = unsafe { WRITER.regain() };
    if in_child {
        forget_those(|_, _| true);
    }
}

/// Whether all of `bytes` bytes at `start` is memory that can be read, and written if `write` says
/// so. None of a device's is.
pub fn is_there(start: usize, bytes: usize, write: bool) -> bool {
    let Some(end) = start.checked_add(bytes) else {
        return false;
    };
    if is_known(start, end, write) {
        return true;
    }
    let mut next = WRITER.lock();
    let Ok(mappings) = own_mappings() else {
        return false;
    };
    let Some((first, last)) = around(&mappings, start, write) else {
        return false;
    };
    let slot = &SLOT[*next % SLOTS];
    *next += 1;
    change(|| {
        slot.start.store(first, Ordering::Relaxed);
        slot.end.store(last, Ordering::Relaxed);
        slot.writable.store(usize::from(write), Ordering::Relaxed);
    });
    end <= last
}

/// Forgets a range that was unmapped, or that has fewer rights than before. To be called after
/// that has happened: findings of other threads made meanwhile are dropped too.
pub fn forget(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    let _writer = WRITER.lock();
    forget_those(|first, last| first < end && start < last);
}

/// Empties the slots of such ranges; the lock is the caller's.
fn forget_those(which: impl Fn(usize, usize) -> bool) {
    change(|| {
        for slot in &SLOT {
            let (first, last) = (&slot.start, &slot.end);
            if which(first.load(Ordering::Relaxed), last.load(Ordering::Relaxed)) {
                first.store(0, Ordering::Relaxed);
                last.store(0, Ordering::Relaxed);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const RW: GrantFlags = GrantFlags::GRANT_READ.union(GrantFlags::GRANT_WRITE);

    fn mapping(base: usize, size: usize, flags: GrantFlags) -> Mapping {
        Mapping { base, size, flags }
    }

    #[test]
    fn neighbours_count_as_one_range() {
        let mappings = [
            mapping(0x8000, 0x1000, RW),
            mapping(0x1000, 0x2000, RW),
            mapping(0x3000, 0x1000, RW),
            mapping(0x4000, 0x1000, GrantFlags::GRANT_READ),
            mapping(0x5000, 0x1000, RW | GrantFlags::GRANT_PHYS),
        ];
        assert_eq!(around(&mappings, 0x1800, true), Some((0x1000, 0x4000)));
        assert_eq!(around(&mappings, 0x1800, false), Some((0x1000, 0x5000)));
        assert_eq!(around(&mappings, 0x4000, false), Some((0x1000, 0x5000)));
        assert_eq!(around(&mappings, 0x4000, true), None);
        assert_eq!(around(&mappings, 0x5000, false), None);
        assert_eq!(around(&mappings, 0x7fff, false), None);
        assert_eq!(around(&mappings, 0x8fff, true), Some((0x8000, 0x9000)));
        assert_eq!(around(&mappings, 0x9000, true), None);
        assert_eq!(around(&[], 0x1000, false), None);
    }

    #[test]
    fn what_is_remembered_is_forgotten_in_time() {
        // Addresses of no other test.
        let (start, end) = (0x7000_0000_0000, 0x7000_0001_0000);
        let slot = &SLOT[0];
        change(|| {
            slot.start.store(start, Ordering::Relaxed);
            slot.end.store(end, Ordering::Relaxed);
            slot.writable.store(0, Ordering::Relaxed);
        });
        assert!(is_known(start, end, false));
        assert!(!is_known(start, end, true));
        assert!(!is_known(start, end + 1, false));
        assert!(!is_known(start - 1, end, false));
        forget(end, 0x1000);
        assert!(is_known(start, end, false));
        forget(end - 1, 1);
        assert!(!is_known(start, start + 1, false));
    }
}
