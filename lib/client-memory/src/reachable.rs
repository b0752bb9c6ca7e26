//! The memory that this process has mapped, for copies without the kernel. An address from a C
//! program may be anything, and a bad one must be an error, not the program's end.
//!
//! The first use of an address asks the kernel for the process's mappings. A few ranges are
//! remembered and found again without a lock. Code that unmaps memory or takes rights away calls
//! [`forget`].

use core::sync::atomic::{AtomicU64, Ordering};

use hal::lock::Mutex;
use hal::mem::PAGE;
use syscall::data::GrantFlags;

use crate::mappings::{Mapping, own_mappings};

/// Ranges that are remembered for reading, and as many for writing.
const SLOTS: usize = 8;

/// Consecutive pages in one word, so that a reader needs no lock: the number of the first page,
/// and in the low bits the number of pages behind it. 0 is no pages; page 0 is never mapped.
#[derive(Clone, Copy)]
struct Run(u64);

impl Run {
    /// Bits of the number of pages. The page numbers of a program have 35 bits.
    const COUNT_BITS: u32 = 29;
    const MOST: u64 = (1 << Self::COUNT_BITS) - 1;

    /// The pages of `start .. end`, at least one, or as many of them as the word can express.
    fn new(start: usize, end: usize) -> Self {
        let (first, last) = ((start / PAGE) as u64, (end / PAGE - 1) as u64);
        Self(first << Self::COUNT_BITS | (last - first).min(Self::MOST))
    }

    #[inline]
    fn first(self) -> u64 {
        self.0 >> Self::COUNT_BITS
    }

    /// How many pages are behind the first one.
    #[inline]
    fn further(self) -> u64 {
        self.0 & Self::MOST
    }

    #[inline]
    fn count(self) -> u64 {
        match self.0 {
            0 => 0,
            _ => self.further() + 1,
        }
    }

    /// Whether the run holds all addresses from `start` to `last`, which is not less.
    #[inline]
    fn holds(self, start: usize, last: usize) -> bool {
        let page = |address: usize| (address / PAGE) as u64;
        self.first() <= page(start) && page(last) - self.first() < self.count()
    }

    /// Whether the run holds all of `bytes` bytes at `start`: at least one, at most a page.
    #[inline]
    fn holds_short(self, start: usize, bytes: usize) -> bool {
        debug_assert!((1..=PAGE).contains(&bytes));
        let place = |address: usize| ((address / PAGE) as u64).wrapping_sub(self.first());
        let first = place(start);
        // Bytes that begin in front of the run's last page end in it at the latest. In the last
        // page the first comparison keeps the address of the last byte from wrapping around.
        first < self.further()
            || first < self.count() && place(start.wrapping_add(bytes - 1)) < self.count()
    }

    /// Whether a byte of `start .. end` is in the run.
    fn meets(self, start: usize, end: usize) -> bool {
        let end = end.div_ceil(PAGE) as u64;
        self.first() < end && ((start / PAGE) as u64) < self.first() + self.count()
    }
}

/// The remembered ranges; the one found last comes first.
struct Known([AtomicU64; SLOTS]);

impl Known {
    const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; SLOTS])
    }

    /// The range that was found last.
    #[inline]
    fn newest(&self) -> Run {
        Run(self.0[0].load(Ordering::Relaxed))
    }

    /// Whether one of the ranges holds all addresses from `start` to `last`.
    fn holds(&self, start: usize, last: usize) -> bool {
        let mut runs = self.0.iter().map(|slot| Run(slot.load(Ordering::Relaxed)));
        runs.any(|run| run.holds(start, last))
    }

    /// Adds a range and drops the oldest one. The caller holds `WRITER`.
    fn add(&self, run: Run) {
        let mut next = run.0;
        for slot in &self.0 {
            let this = slot.load(Ordering::Relaxed);
            slot.store(next, Ordering::Relaxed);
            next = this;
        }
    }

    /// Empties the slots whose ranges `which` selects. The caller holds `WRITER`.
    fn forget(&self, which: impl Fn(Run) -> bool) {
        for slot in &self.0 {
            if which(Run(slot.load(Ordering::Relaxed))) {
                slot.store(0, Ordering::Relaxed);
            }
        }
    }
}

/// Memory that can be read, and memory that can also be written.
static READABLE: Known = Known::new();
static WRITABLE: Known = Known::new();

/// Held by a thread that changes what is remembered.
static WRITER: Mutex<()> = Mutex::new(());

/// The part of `mappings` (in any order) around `start` that has no holes and can be read, and
/// with `write` also written: first address and address behind the last byte.
fn around(mappings: &[Mapping], start: usize, write: bool) -> Option<(usize, usize)> {
    let mut need = GrantFlags::GRANT_READ;
    need.set(GrantFlags::GRANT_WRITE, write);
    // Device memory must not be accessed by copies of any size.
    let fits = |mapping: &&Mapping| {
        mapping.flags.contains(need) && !mapping.flags.contains(GrantFlags::GRANT_PHYS)
    };
    let mut fitting: alloc::vec::Vec<&Mapping> = mappings.iter().filter(fits).collect();
    fitting.sort_unstable_by_key(|mapping| mapping.base);
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

/// Part of [`fork::after`](crate::fork::after): the child has to look up its memory again.
///
/// # Safety
/// As for [`fork::after`](crate::fork::after).
pub(crate) unsafe fn after_fork(in_child: bool) {
    // SAFETY: the caller's promise.
    let _lock = unsafe { WRITER.regain() };
    if in_child {
        forget_those(|_| true);
    }
}

/// Whether [`is_there`] is true by a look at the range that was looked up last: only for one byte
/// to a page of them.
#[inline(always)]
pub fn is_known(start: usize, bytes: usize, write: bool) -> bool {
    let known = if write { &WRITABLE } else { &READABLE };
    (1..=PAGE).contains(&bytes) && known.newest().holds_short(start, bytes)
}

/// Whether all of `bytes` bytes at `start` (one byte if `bytes` is 0) are memory that can be read,
/// and with `write` also written. Device memory does not count.
#[inline(always)]
pub fn is_there(start: usize, bytes: usize, write: bool) -> bool {
    if is_known(start, bytes, write) {
        return true;
    }
    let known = if write { &WRITABLE } else { &READABLE };
    let last = start.checked_add(bytes.saturating_sub(1));
    last.is_some_and(|last| find(known, start, last, write))
}

/// [`is_there`] for memory outside the range that was found last.
#[inline(never)]
fn find(known: &Known, start: usize, last: usize, write: bool) -> bool {
    if known.holds(start, last) {
        return true;
    }
    // Threads that look up or unmap memory wait meanwhile, so that no unmapped range is
    // remembered.
    let _writer = WRITER.lock();
    if known.holds(start, last) {
        return true;
    }
    let Ok(mappings) = own_mappings() else {
        return false;
    };
    let Some((first, end)) = around(&mappings, start, write) else {
        return false;
    };
    known.add(Run::new(first, end));
    last < end
}

/// Forgets a range that was unmapped or has lost rights. Call it after that happened: it also
/// drops what other threads looked up meanwhile.
pub fn forget(start: usize, bytes: usize) {
    let end = start.saturating_add(bytes);
    let _writer = WRITER.lock();
    forget_those(|run| run.meets(start, end));
}

/// Empties the slots whose ranges `which` selects. The caller holds `WRITER`.
fn forget_those(which: impl Fn(Run) -> bool) {
    READABLE.forget(&which);
    WRITABLE.forget(&which);
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
    fn a_run_of_pages_holds_what_lies_within_it() {
        let run = Run::new(0x3000, 0x5000);
        let holds = |start, end: usize| run.holds(start, end - 1);
        assert!(holds(0x3000, 0x5000) && holds(0x4fff, 0x5000) && holds(0x3000, 0x3001));
        assert!(!holds(0x2fff, 0x3001) && !holds(0x4fff, 0x5001));
        assert!(!holds(0x1000, 0x2000) && !holds(0x6000, 0x7000) && !holds(0x2000, 0x6000));
        assert!(!holds(0, 0x3001) && !holds(usize::MAX - 1, usize::MAX) && !holds(0, usize::MAX));
        let meets = |start, end| run.meets(start, end);
        assert!(meets(0x4fff, 0x9000) && meets(0, 0x3001) && meets(0, usize::MAX));
        assert!(!meets(0x5000, 0x9000) && !meets(0, 0x3000));
        assert!(run.holds_short(0x3000, PAGE) && run.holds_short(0x3fff, 2));
        assert!(run.holds_short(0x4fff, 1) && !run.holds_short(0x4fff, 2));
        assert!(!run.holds_short(0x2fff, 1) && !run.holds_short(0x2fff, 2));
        assert!(!run.holds_short(usize::MAX, 1) && !run.holds_short(usize::MAX - 1, PAGE));
        let first = Run::new(0, 0x2000);
        assert!(first.holds_short(0, PAGE) && first.holds_short(0x1000, PAGE));
        assert!(!first.holds_short(usize::MAX, 2) && !first.holds_short(0x1001, PAGE));
        let none = Run(0);
        assert!(!none.holds_short(0, 1) && !none.holds_short(usize::MAX, PAGE));
        assert!(!none.holds(0, 0) && !none.holds(0, usize::MAX) && !none.meets(0, 1));
        // Of more pages than the count can express, the first ones; all addresses of a program
        // fit.
        let huge = Run::new(PAGE, (1 << 47) - PAGE);
        assert!(huge.holds(PAGE, 1 << 40) && !huge.holds(0, PAGE) && !huge.holds(PAGE, 1 << 46));
        let highest = Run::new((1 << 47) - 2 * PAGE, (1 << 47) - PAGE);
        assert!(highest.holds((1 << 47) - 2 * PAGE, (1 << 47) - PAGE - 1));
        assert!(!highest.holds((1 << 47) - PAGE, (1 << 47) - PAGE));
    }

    #[test]
    fn what_is_remembered_is_forgotten_in_time() {
        // Addresses of no other test.
        let (start, last) = (0x7000_0000_0000, 0x7000_0000_ffff);
        let end = last + 1;
        READABLE.add(Run::new(start, end));
        assert!(is_known(start, PAGE, false) && is_known(last, 1, false));
        assert!(!is_known(start, 0, false) && !is_known(start, PAGE + 1, false));
        assert!(!is_known(last, 2, false) && !is_known(start, 1, true));
        assert!(is_there(start, end - start, false));
        assert!(!WRITABLE.holds(start, last));
        assert!(!READABLE.holds(start, end));
        assert!(!READABLE.holds(start - 1, last));
        assert!(!is_there(usize::MAX, 2, false));
        forget(end, 0x1000);
        assert!(READABLE.holds(start, last));
        // The others stay, and are found, until there are too many.
        for number in 1..SLOTS {
            let other = end + number * 2 * PAGE;
            READABLE.add(Run::new(other, other + PAGE));
            assert!(is_there(start, end - start, false));
            assert!(is_there(other, PAGE, false));
            assert!(is_known(other, PAGE, false) && !is_known(start, PAGE, false));
        }
        READABLE.add(Run::new(end + PAGE, end + 2 * PAGE));
        assert!(!READABLE.holds(start, start));
        READABLE.add(Run::new(start, end));
        forget(last, 1);
        assert!(!READABLE.holds(start, start));
    }
}
