//! Which ranges are pinned for whom, and how many more may be.
//!
//! A range stays in the ledger until its pages are really free again, which is later than its
//! descriptor's end when windows still use them. Whether they are is told by a flag that the
//! range's thread sets.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, Ordering};

use syscall::error::{EAGAIN, Error, Result};

/// Pages of one user at most: 1 GiB. The SCIF daemon has a limit of its own, which can be set.
const PAGES_PER_USER: u64 = 1 << 18;

/// Ranges of one user at most; each one costs a thread.
const RANGES_PER_USER: usize = 256;

/// Set once nobody uses the pages of a range any more.
pub type Freed = Arc<AtomicBool>;

/// Names a range in the ledger.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Entry(u64);

struct Range {
    uid: u32,
    pid: usize,
    pages: u64,
    /// 0 until the range is pinned.
    token: u64,
    freed: Freed,
    /// Its descriptor is closed.
    ended: bool,
}

/// All ranges.
#[derive(Default)]
pub struct Ledger {
    ranges: BTreeMap<Entry, Range>,
    last: u64,
}

impl Ledger {
    /// Enters a range of `pages` pages.
    ///
    /// # Errors
    /// `EAGAIN` at a limit of the user.
    pub fn enter(&mut self, uid: u32, pid: usize, pages: u64) -> Result<(Entry, Freed)> {
        self.reap();
        let own = self.ranges.values().filter(|range| range.uid == uid);
        let (count, sum) = own.fold((0, 0_u64), |(count, sum), range| {
            (count + 1, sum.saturating_add(range.pages))
        });
        if count >= RANGES_PER_USER || sum.saturating_add(pages) > PAGES_PER_USER {
            return Err(Error::new(EAGAIN));
        }
        self.last += 1;
        let entry = Entry(self.last);
        let freed = Freed::default();
        let range = Range {
            uid,
            pid,
            pages,
            token: 0,
            freed: freed.clone(),
            ended: false,
        };
        self.ranges.insert(entry, range);
        Ok((entry, freed))
    }

    /// The range was pinned under `token`.
    pub fn pinned(&mut self, entry: Entry, token: u64) {
        if let Some(range) = self.ranges.get_mut(&entry) {
            range.token = token;
        }
    }

    /// The range was not pinned after all.
    pub fn forget(&mut self, entry: Entry) {
        self.ranges.remove(&entry);
    }

    /// The descriptor of the range is closed; it goes once it is freed.
    pub fn ended(&mut self, entry: Entry) {
        if let Some(range) = self.ranges.get_mut(&entry) {
            range.ended = true;
        }
        self.reap();
    }

    fn reap(&mut self) {
        self.ranges
            .retain(|_, range| !(range.ended && range.freed.load(Ordering::Acquire)));
    }

    /// One line for each range, under a line with the columns' names.
    pub fn text(&mut self) -> String {
        self.reap();
        let mut text = String::from("token uid pid pages state\n");
        for range in self.ranges.values() {
            let state = match (range.freed.load(Ordering::Acquire), range.ended) {
                // The SCIF daemon is gone.
                (true, _) => "lost",
                (false, true) => "ending",
                (false, false) => "pinned",
            };
            let Range {
                token,
                uid,
                pid,
                pages,
                ..
            } = range;
            // Writing to a string does not fail.
            let _ = writeln!(text, "{token} {uid} {pid} {pages} {state}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_limits_of_their_own() {
        let mut ledger = Ledger::default();
        let again = Some(EAGAIN);
        let errno = |result: Result<(Entry, Freed)>| result.err().map(|error| error.errno);
        assert_eq!(errno(ledger.enter(7, 1, PAGES_PER_USER + 1)), again);
        assert_eq!(errno(ledger.enter(7, 1, u64::MAX)), again);
        let (first, _) = ledger.enter(7, 1, PAGES_PER_USER - 1).unwrap();
        assert_eq!(errno(ledger.enter(7, 1, 2)), again);
        assert_eq!(errno(ledger.enter(7, 1, 1)), None);
        assert_eq!(errno(ledger.enter(7, 1, 1)), again);
        assert_eq!(errno(ledger.enter(0, 1, PAGES_PER_USER)), None);
        ledger.forget(first);
        for _ in 0..RANGES_PER_USER - 1 {
            ledger.enter(7, 1, 1).unwrap();
        }
        assert_eq!(errno(ledger.enter(7, 1, 1)), again);
    }

    #[test]
    fn a_range_counts_until_its_pages_are_free() {
        let mut ledger = Ledger::default();
        let (entry, freed) = ledger.enter(7, 33, PAGES_PER_USER).unwrap();
        ledger.pinned(entry, 5);
        let header = "token uid pid pages state\n";
        let line = |state| format!("{header}5 7 33 {PAGES_PER_USER} {state}\n");
        assert_eq!(ledger.text(), line("pinned"));
        ledger.ended(entry);
        assert_eq!(ledger.text(), line("ending"));
        assert!(ledger.enter(7, 1, 1).is_err());
        freed.store(true, Ordering::Release);
        assert!(ledger.enter(7, 1, 1).is_ok());
        assert!(!ledger.text().contains("33"));
    }

    #[test]
    fn a_range_that_was_lost_stays_until_its_descriptor_goes() {
        let mut ledger = Ledger::default();
        let (entry, freed) = ledger.enter(7, 33, 4).unwrap();
        freed.store(true, Ordering::Release);
        assert!(ledger.text().contains("0 7 33 4 lost"));
        ledger.ended(entry);
        assert_eq!(ledger.text(), "token uid pid pages state\n");
    }
}
