//! The table of the ranges of this process that are memory of the `scif:` daemon.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hal::lock::Mutex;

/// The table of this process.
static TABLE: Mutex<Table> = Mutex::new(Table::new());

/// Part of [`fork::before`](crate::fork::before).
pub(crate) fn before_fork() {
    TABLE.hold();
}

/// Part of [`fork::after`](crate::fork::after): the child has none of the ranges.
///
/// # Safety
/// As for [`fork::after`](crate::fork::after).
pub(crate) unsafe fn after_fork(in_child: bool) {
    // SAFETY: the caller's promise.
    let mut lock = unsafe { TABLE.regain() };
    if in_child {
        *lock = Table::new();
    }
}

/// Finds the object that holds all of `bytes` bytes at `address`, and their offset in it.
pub fn find(address: usize, bytes: usize) -> Option<(u64, u64)> {
    TABLE.lock().find(address, bytes)
}

/// Records that the range maps an object from `offset` on, whatever it was before.
pub fn insert(address: usize, bytes: usize, token: u64, offset: u64) {
    TABLE.lock().insert(address, bytes, token, offset);
}

/// Records that the range is no longer the daemon's memory.
pub fn remove(address: usize, bytes: usize) {
    TABLE.lock().remove(address, bytes);
}

/// Addresses → (memory object, offset in it); no two entries overlap.
#[derive(Debug, Default)]
struct Table {
    /// By first address.
    entries: BTreeMap<usize, Entry>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Entry {
    /// The address behind the last byte.
    end: usize,
    token: u64,
    /// Offset of the first byte in the object.
    offset: u64,
}

impl Table {
    /// An empty table.
    const fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
        }
    }

    /// Finds the object that holds all of `bytes` bytes at `address`, and their offset in it.
    /// O(log n).
    fn find(&self, address: usize, bytes: usize) -> Option<(u64, u64)> {
        let (start, entry) = self.entries.range(..=address).next_back()?;
        let end = address.checked_add(bytes)?;
        let offset = entry.offset + (address - start) as u64;
        (end <= entry.end).then_some((entry.token, offset))
    }

    /// Records that the range maps an object from `offset` on, whatever it was before.
    fn insert(&mut self, address: usize, bytes: usize, token: u64, offset: u64) {
        self.remove(address, bytes);
        let end = address + bytes;
        self.entries.insert(address, Entry { end, token, offset });
    }

    /// Records that the range is no longer the daemon's memory. Entries that reach beyond it keep
    /// the rest.
    fn remove(&mut self, address: usize, bytes: usize) {
        let end = address.saturating_add(bytes);
        let before = self.entries.range(..address).next_back();
        let before = before.map(|(start, entry)| (*start, *entry));
        if let Some((start, entry)) = before.filter(|(_, entry)| entry.end > address) {
            self.entries.insert(
                start,
                Entry {
                    end: address,
                    ..entry
                },
            );
            self.keep_behind(start, entry, end);
        }
        let inside: Vec<usize> = self
            .entries
            .range(address..end)
            .map(|(at, _)| *at)
            .collect();
        for start in inside {
            if let Some(entry) = self.entries.remove(&start) {
                self.keep_behind(start, entry, end);
            }
        }
    }

    /// Keeps the part from `end` on of an entry that began at `start`.
    fn keep_behind(&mut self, start: usize, entry: Entry, end: usize) {
        if entry.end > end {
            let offset = entry.offset + (end - start) as u64;
            self.entries.insert(end, Entry { offset, ..entry });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn found_is_what_lies_within_one_entry() {
        let mut table = Table::new();
        table.insert(0x5000, 0x3000, 7, 0x1000);
        table.insert(0x8000, 0x1000, 8, 0);
        assert_eq!(table.find(0x5000, 0x3000), Some((7, 0x1000)));
        assert_eq!(table.find(0x6010, 0x20), Some((7, 0x2010)));
        assert_eq!(table.find(0x8000, 0x1000), Some((8, 0)));
        assert_eq!(
            table.find(0x7000, 0x1001),
            None,
            "it ends in another object"
        );
        assert_eq!(table.find(0x4fff, 2), None);
        assert_eq!(table.find(0x9000, 1), None);
        assert_eq!(table.find(usize::MAX, 2), None);
        assert_eq!(Table::new().find(0, 1), None);
    }

    #[test]
    fn removing_keeps_both_sides() {
        let mut table = Table::new();
        table.insert(0x1000, 0x5000, 1, 0);
        table.remove(0x3000, 0x1000);
        assert_eq!(table.find(0x1000, 0x2000), Some((1, 0)));
        assert_eq!(table.find(0x3000, 1), None);
        assert_eq!(table.find(0x4000, 0x2000), Some((1, 0x3000)));
        table.remove(0x2000, 0x3000);
        assert_eq!(table.find(0x1000, 0x1000), Some((1, 0)));
        assert_eq!(table.find(0x2000, 1), None);
        assert_eq!(table.find(0x5000, 0x1000), Some((1, 0x4000)));
        table.remove(0, usize::MAX);
        assert_eq!(table.find(0x1000, 1), None);
        assert_eq!(table.find(0x5000, 1), None);
    }

    #[test]
    fn the_newest_entry_holds() {
        let mut table = Table::new();
        table.insert(0x1000, 0x4000, 1, 0);
        table.insert(0x2000, 0x1000, 2, 0x8000);
        assert_eq!(table.find(0x1000, 0x1000), Some((1, 0)));
        assert_eq!(table.find(0x2000, 0x1000), Some((2, 0x8000)));
        assert_eq!(table.find(0x3000, 0x2000), Some((1, 0x2000)));
        table.insert(0x1000, 0x4000, 3, 0);
        assert_eq!(table.find(0x1000, 0x4000), Some((3, 0)));
    }

    /// Checks every operation against a plain array of pages.
    #[test]
    fn agrees_with_a_plain_array() {
        let mut random = 0x1234_5678_9abc_def1_u64;
        let mut next = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random % limit) as usize
        };
        let mut table = Table::new();
        let mut model = [None; 64];
        for token in 1..2000 {
            let first = next(60);
            let count = 1 + next(64 - first as u64);
            let offset = next(8) as u64;
            if next(3) == 0 {
                table.remove(first, count);
                model[first..first + count].fill(None);
            } else {
                table.insert(first, count, token, offset);
                for (index, place) in model[first..first + count].iter_mut().enumerate() {
                    *place = Some((token, offset + index as u64));
                }
            }
            for (page, wanted) in model.iter().enumerate() {
                assert_eq!(table.find(page, 1), *wanted);
            }
        }
    }
}
