//! The cache of window mappings: the parts of a registered address space that this program has
//! mapped for its transfers.
//!
//! One transfer through the daemon costs less than a mapping, so a range is mapped at its second
//! use. Then up to [`CHUNK`] bytes around it are mapped, so that a program that walks through a
//! large window does not map every step. The number of mappings and of their bytes is limited. At
//! the limit the least recently used mapping is unmapped, and only a page that is used twice is
//! mapped: so the daemon serves a program with random accesses to far more memory than the limit,
//! which would otherwise map and unmap without end.
//!
//! A mapping whose address does not suit the other end of a transfer is made again at another
//! address, a few times at most.
//!
//! A look-up tries the mapping that was found last, then searches the sorted list.

use alloc::sync::Arc;
use alloc::vec::Vec;

use client_memory::rights::Rights;

/// Most bytes of one mapping, and the alignment of such a mapping.
pub const CHUNK: u64 = 4 << 20;

/// Sizes of mappings that are tried, the largest first, before the range itself.
const PIECES: [u64; 4] = [CHUNK, CHUNK >> 2, CHUNK >> 4, CHUNK >> 6];

const PAGE: u64 = hal::mem::PAGE as u64;

/// Most mappings of a cache.
const MAX_ENTRIES: usize = 512;
/// Most bytes that a cache maps.
pub const MAX_BYTES: u64 = 256 << 20;

/// How many times, at most, a mapping is made again because of its address.
const MAX_MOVES: u8 = 3;

/// How many ranges are remembered whose first use was seen.
const CANDIDATES: usize = 64;

/// The access that a transfer makes to the memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Copy out of it.
    Read,
    /// Copy into it.
    Write,
}

impl Use {
    /// The protection that a mapping for this needs.
    const fn rights(self) -> Rights {
        Rights {
            read: matches!(self, Use::Read),
            write: matches!(self, Use::Write),
        }
    }

    #[inline]
    const fn is_allowed(self, rights: Rights) -> bool {
        match self {
            Use::Read => rights.read,
            Use::Write => rights.write,
        }
    }
}

/// The source of mappings of one address space. Offsets and lengths are multiples of a page.
pub trait Mapper {
    /// A mapping, which is unmapped when it is dropped.
    type Pages;

    /// How many bytes from `offset` on, at most `bytes`, one mapping can cover; `None` when not
    /// all of the range is registered.
    fn run(&self, offset: i64, bytes: u64) -> Option<u64>;

    /// Maps one run; the flag says whether it got the address that it asked for. `None` on
    /// failure.
    fn map(&self, offset: i64, bytes: u64, rights: Rights) -> Option<(Self::Pages, bool)>;

    /// Whether the address of a mapping suits the transfer. Byte `at` of the mapping is the one at
    /// `offset`.
    fn suits(&self, pages: &Self::Pages, at: usize, offset: i64) -> bool;
}

/// A mapping of `bytes` bytes from `offset` on.
struct Entry<P> {
    offset: i64,
    bytes: u64,
    rights: Rights,
    pages: Arc<P>,
    used: u64,
    /// How many times the mapping was made again because of its address.
    moves: u8,
}

impl<P> Entry<P> {
    /// The bytes mapped from `offset` on; `None` when `offset` is outside.
    #[inline]
    fn from(&self, offset: i64) -> Option<u64> {
        // An offset before the beginning becomes a large number.
        let inside = offset.wrapping_sub(self.offset) as u64;
        (inside < self.bytes).then(|| self.bytes - inside)
    }
}

/// A part of a mapping.
pub struct Piece<'a, P> {
    /// The mapping.
    pub pages: &'a Arc<P>,
    /// The part's first byte in the mapping.
    pub at: usize,
    /// The part's length in bytes.
    pub bytes: u64,
    /// Whether the mapping may be made again at another address.
    pub can_move: bool,
}

/// Whether all pages of a range are registered.
fn is_registered(mapper: &impl Mapper, offset: i64, bytes: u64) -> bool {
    let first = offset & !(PAGE as i64 - 1);
    let end = offset.wrapping_add_unsigned(bytes);
    let end = end
        .checked_add(PAGE as i64 - 1)
        .map(|end| end & !(PAGE as i64 - 1));
    end.is_some_and(|end| mapper.run(first, (end - first) as u64).is_some())
}

/// The mapped parts of one address space.
pub struct Windows<P> {
    /// By offset; they do not overlap.
    entries: Vec<Entry<P>>,
    /// The index of the entry that was found last; it may be stale.
    last: usize,
    bytes: u64,
    /// Counts uses.
    clock: u64,
    /// Keys of ranges that were used once.
    candidates: [u64; CANDIDATES],
    /// Ranges that are mapped at their first use: first byte and length.
    prepared: Vec<(i64, u64)>,
}

impl<P> Windows<P> {
    /// A cache with nothing mapped.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            last: 0,
            bytes: 0,
            clock: 0,
            candidates: [0; CANDIDATES],
            prepared: Vec::new(),
        }
    }

    /// From now on maps a range at its first use, also after [`clear`](Self::clear).
    pub fn prepare(&mut self, offset: i64, bytes: u64) {
        if !self.prepared.contains(&(offset, bytes)) {
            self.prepared.push((offset, bytes));
        }
    }

    /// Reverts [`prepare`](Self::prepare) for the range that begins at `offset`.
    pub fn forget(&mut self, offset: i64) {
        self.prepared.retain(|(start, _)| *start != offset);
    }

    /// Whether the byte at `offset` is in a prepared range.
    pub fn is_prepared(&self, offset: i64) -> bool {
        let holds = |(start, bytes): &(i64, u64)| (offset.wrapping_sub(*start) as u64) < *bytes;
        self.prepared.iter().any(holds)
    }

    /// Unmaps everything and forgets first uses, so that a window that lives for one transfer is
    /// never mapped and its owner gets its pages back at once.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.candidates = [0; CANDIDATES];
    }

    /// The indices of the last mapping that begins at or before an offset, and of the next one.
    fn position(&self, offset: i64) -> (Option<usize>, usize) {
        let next = self.entries.partition_point(|entry| entry.offset <= offset);
        (next.checked_sub(1), next)
    }

    /// The index of the mapping that holds the byte at `offset`.
    #[inline]
    fn index(&self, offset: i64) -> Option<usize> {
        let holds = |index: &usize| {
            let entry = self.entries.get(*index);
            entry.is_some_and(|entry| entry.from(offset).is_some())
        };
        Some(self.last)
            .filter(holds)
            .or_else(|| self.position(offset).0.filter(holds))
    }

    /// The mapped part from `offset` on, at most `bytes` bytes.
    #[inline]
    pub fn find(&mut self, offset: i64, bytes: u64, what: Use) -> Option<Piece<'_, P>> {
        let index = self.index(offset)?;
        let entry = self.entries.get_mut(index)?;
        let rest = entry
            .from(offset)
            .filter(|_| what.is_allowed(entry.rights))?;
        self.last = index;
        self.clock += 1;
        entry.used = self.clock;
        Some(Piece {
            pages: &entry.pages,
            at: (offset - entry.offset) as usize,
            bytes: rest.min(bytes),
            can_move: entry.moves < MAX_MOVES,
        })
    }

    /// Maps the unmapped parts of a range, if that is worth it. Returns whether all of it is
    /// mapped now.
    pub fn cover(
        &mut self,
        mapper: &impl Mapper<Pages = P>,
        offset: i64,
        bytes: u64,
        what: Use,
    ) -> bool {
        // A range beyond the limit is not even begun.
        if bytes > MAX_BYTES || offset.checked_add_unsigned(bytes).is_none() {
            return false;
        }
        let mut done = 0;
        let mut is_worth_it = false;
        while done < bytes {
            let at = offset.wrapping_add_unsigned(done);
            if let Some(piece) = self.find(at, bytes - done, what) {
                if !piece.can_move || mapper.suits(piece.pages, piece.at, at) {
                    done += piece.bytes;
                } else if !self.map_again(mapper, at, what) {
                    return false;
                }
                continue;
            }
            // A transfer that is going to fail must leave nothing mapped.
            is_worth_it =
                is_worth_it || self.is_used_again(at) && is_registered(mapper, at, bytes - done);
            if !is_worth_it || !self.add(mapper, at, bytes - done, what) {
                return false;
            }
        }
        true
    }

    /// Notes the use of an unmapped range. Returns whether it was used before or is prepared.
    fn is_used_again(&mut self, offset: i64) -> bool {
        if self.is_prepared(offset) {
            return true;
        }
        let is_full = self.entries.len() >= MAX_ENTRIES || self.bytes > MAX_BYTES - CHUNK;
        let unit = if is_full { PAGE } else { CHUNK };
        // The key 0 stands for an empty slot.
        let key = (offset as u64 / unit) + 1;
        let slot = &mut self.candidates[key as usize % CANDIDATES];
        core::mem::replace(slot, key) == key
    }

    /// Makes a mapping that holds the byte at `offset`, and all `bytes` from there on if they are
    /// one run.
    fn add(&mut self, mapper: &impl Mapper<Pages = P>, offset: i64, bytes: u64, what: Use) -> bool {
        let (before, next) = self.position(offset);
        let mut lowest = i64::MIN;
        if let Some(index) = before {
            let entry = &self.entries[index];
            if entry.from(offset).is_some() {
                // It is mapped without the right that is needed: map it again with that right.
                return self.map_again(mapper, offset, what);
            }
            lowest = entry.offset.wrapping_add_unsigned(entry.bytes);
        }
        let highest = self
            .entries
            .get(next)
            .map_or(i64::MAX, |entry| entry.offset);
        let page = offset & !(PAGE as i64 - 1);
        let end = offset.wrapping_add_unsigned(bytes.min(CHUNK));
        let needed = end.saturating_add(PAGE as i64 - 1) & !(PAGE as i64 - 1);
        let around = PIECES.iter().map(|piece| {
            let start = offset & !(*piece as i64 - 1);
            (
                start,
                start.saturating_add(*piece as i64) & !(PAGE as i64 - 1),
            )
        });
        for (start, end) in around.chain([(page, needed)]) {
            let (start, end) = (start.max(lowest), end.min(highest));
            let Ok(length) = u64::try_from(end - start) else {
                continue;
            };
            match mapper.run(start, length) {
                // The run must reach the byte at `offset`.
                Some(run) if start.wrapping_add_unsigned(run) > offset => {
                    return self.insert(mapper, start, run, what, 0);
                }
                Some(_) => return self.map_page_on(mapper, page, end, what),
                None => {}
            }
        }
        false
    }

    /// Makes a mapping of the run that begins at a page.
    fn map_page_on(
        &mut self,
        mapper: &impl Mapper<Pages = P>,
        page: i64,
        end: i64,
        what: Use,
    ) -> bool {
        let run = mapper.run(page, (end - page) as u64);
        run.is_some_and(|run| self.insert(mapper, page, run, what, 0))
    }

    /// Replaces the mapping that holds the byte at `offset` with a new one.
    fn map_again(&mut self, mapper: &impl Mapper<Pages = P>, offset: i64, what: Use) -> bool {
        let Some(index) = self.index(offset) else {
            return false;
        };
        let entry = self.entries.remove(index);
        self.bytes -= entry.bytes;
        let moves = entry.moves.saturating_add(1);
        self.insert(mapper, entry.offset, entry.bytes, what, moves)
    }

    /// Evicts mappings until there is room, then maps a run and notes it.
    fn insert(
        &mut self,
        mapper: &impl Mapper<Pages = P>,
        offset: i64,
        bytes: u64,
        what: Use,
        moves: u8,
    ) -> bool {
        while !self.entries.is_empty()
            && (self.entries.len() >= MAX_ENTRIES || self.bytes + bytes > MAX_BYTES)
        {
            self.evict();
        }
        // With all rights if possible, so that transfers of the other direction can use it, too.
        let mut rights = Rights::ALL;
        let pages = mapper.map(offset, bytes, rights).or_else(|| {
            rights = what.rights();
            mapper.map(offset, bytes, rights)
        });
        let Some((pages, is_placed)) = pages else {
            return false;
        };
        let (_, next) = self.position(offset);
        let entry = Entry {
            offset,
            bytes,
            rights,
            pages: Arc::new(pages),
            used: self.clock,
            // A mapping that did not get its address would not get it next time.
            moves: if is_placed { moves } else { MAX_MOVES },
        };
        self.entries.insert(next, entry);
        self.bytes += bytes;
        true
    }

    /// Unmaps the least recently used mapping.
    fn evict(&mut self) {
        let entries = self.entries.iter().enumerate();
        let oldest = entries.min_by_key(|(_, entry)| entry.used);
        if let Some(index) = oldest.map(|(index, _)| index) {
            let entry = self.entries.remove(index);
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    /// A registered address space: windows (offset, bytes, rights), made of runs of 8 MiB.
    #[derive(Default)]
    struct Space {
        windows: Vec<(i64, u64, Rights)>,
        log: RefCell<Vec<(i64, u64)>>,
        /// Offsets for which a mapping that is there does not suit, once.
        unsuited: RefCell<BTreeSet<i64>>,
    }

    const READ: Rights = Use::Read.rights();
    const RUN: i64 = 8 << 20;

    impl Space {
        fn new(windows: &[(i64, u64, Rights)]) -> Self {
            Self {
                windows: windows.to_vec(),
                ..Self::default()
            }
        }
        fn mapped(&self) -> Vec<(i64, u64)> {
            self.log.take()
        }
        fn window(&self, at: i64) -> Option<&(i64, u64, Rights)> {
            let inside = |window: &&(i64, u64, Rights)| {
                at >= window.0 && at < window.0.wrapping_add_unsigned(window.1)
            };
            self.windows.iter().find(inside)
        }
    }

    impl Mapper for Space {
        type Pages = i64;
        fn run(&self, offset: i64, bytes: u64) -> Option<u64> {
            let mut at = offset;
            while at < offset + bytes as i64 {
                let window = self.window(at)?;
                at = window.0 + window.1 as i64;
            }
            let window = self.window(offset)?;
            let end = window.0 + window.1 as i64;
            let run_end = (offset & !(RUN - 1)) + RUN;
            Some(bytes.min((end.min(run_end) - offset) as u64))
        }
        fn map(&self, offset: i64, bytes: u64, rights: Rights) -> Option<(i64, bool)> {
            assert_eq!(self.run(offset, bytes), Some(bytes), "one run at a time");
            let allowed = self.window(offset)?.2;
            if rights.read && !allowed.read || rights.write && !allowed.write {
                return None;
            }
            self.log.borrow_mut().push((offset, bytes));
            Some((offset, true))
        }
        fn suits(&self, _: &i64, _: usize, offset: i64) -> bool {
            !self.unsuited.borrow_mut().remove(&offset)
        }
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_transfer_that_is_not_all_registered_leaves_nothing_mapped() {
        let space = Space::new(&[(0, MIB, Rights::ALL), (2 * MIB as i64, MIB, Rights::ALL)]);
        let mut windows = Windows::new();
        for _ in 0..3 {
            // Behind the end, and over a hole that begins in another piece.
            assert!(!windows.cover(&space, MIB as i64 - 100, 200, Use::Read));
            assert!(!windows.cover(&space, 0, 3 * MIB, Use::Read));
        }
        assert!(space.mapped().is_empty());
        assert!(windows.cover(&space, MIB as i64 - 100, 100, Use::Read));
    }

    #[test]
    fn a_place_is_mapped_when_it_is_used_again() {
        let space = Space::new(&[(0, 16 * MIB, Rights::ALL)]);
        let mut windows = Windows::new();
        assert!(!windows.cover(&space, 4096, 100, Use::Read));
        assert!(space.mapped().is_empty());
        assert!(windows.cover(&space, 8192, 100, Use::Write));
        assert_eq!(space.mapped(), [(0, CHUNK)]);
        let piece = windows.find(8200, 10, Use::Read).unwrap();
        assert_eq!((**piece.pages, piece.at, piece.bytes), (0, 8200, 10));
        // All the rest of a transfer is mapped with its beginning.
        assert!(
            windows.cover(&space, 100, 10 * MIB, Use::Read) || {
                windows.cover(&space, 100, 10 * MIB, Use::Read)
            }
        );
        assert_eq!(space.mapped(), [(4 << 20, CHUNK), (8 << 20, CHUNK)]);
        let end = windows.find(CHUNK as i64 - 1, 10, Use::Read).unwrap();
        assert_eq!(end.bytes, 1, "up to the end of its mapping");
    }

    #[test]
    fn a_prepared_range_is_mapped_at_its_first_use_until_it_is_forgotten() {
        let space = Space::new(&[(0, 16 * MIB, Rights::ALL)]);
        let mut windows = Windows::new();
        windows.prepare(5 * MIB as i64, MIB);
        assert!(!windows.cover(&space, 5 * MIB as i64 - 8, 8, Use::Read));
        assert!(windows.cover(&space, 5 * MIB as i64, 8, Use::Write));
        assert_eq!(space.mapped(), [(4 * MIB as i64, CHUNK)]);
        windows.clear();
        assert!(windows.cover(&space, 6 * MIB as i64 - 8, 8, Use::Read));
        windows.forget(5 * MIB as i64);
        windows.clear();
        assert!(!windows.cover(&space, 5 * MIB as i64, 8, Use::Read));
    }

    #[test]
    fn small_windows_and_holes_are_mapped_as_far_as_they_go() {
        let page = |n: i64| n * 4096;
        let space = Space::new(&[(page(3), 4096, READ), (page(5), 2 * 4096, Rights::ALL)]);
        let mut windows = Windows::new();
        windows.cover(&space, page(3), 1, Use::Read);
        assert!(windows.cover(&space, page(3), 4096, Use::Read));
        assert_eq!(space.mapped(), [(page(3), 4096)]);
        assert!(!windows.cover(&space, page(3), 1, Use::Write), "no right");
        windows.cover(&space, page(3), 4096, Use::Read);
        assert!(windows.cover(&space, page(3), 4096, Use::Read));
        assert!(!windows.cover(&space, page(3), 4097, Use::Read), "a hole");
        assert!(windows.cover(&space, page(6), 4096, Use::Read));
        assert!(windows.cover(&space, page(5) + 7, 4096, Use::Write));
        assert!(!windows.cover(&space, i64::MAX - 4096, 4096, Use::Read));
        assert!(!windows.cover(&space, i64::MAX, 4096, Use::Read));
    }

    #[test]
    fn mappings_that_do_not_suit_are_made_again_a_few_times() {
        let space = Space::new(&[(0, 16 * MIB, Rights::ALL)]);
        let mut windows = Windows::new();
        windows.cover(&space, 0, 8 * MIB, Use::Read);
        assert!(windows.cover(&space, 0, 8 * MIB, Use::Read));
        assert_eq!(space.mapped().len(), 2);
        for round in 0..5 {
            // The second of two pieces.
            space.unsuited.borrow_mut().insert(CHUNK as i64);
            let piece = windows.find(CHUNK as i64, 1, Use::Read).unwrap();
            assert_eq!(piece.can_move, round < MAX_MOVES);
            assert!(windows.cover(&space, 0, 8 * MIB, Use::Read));
            let again = [(CHUNK as i64, CHUNK)];
            let moved = if round < MAX_MOVES { &again[..] } else { &[] };
            assert_eq!(space.mapped(), moved);
            assert_eq!(windows.bytes, 8 * MIB);
        }
    }

    #[test]
    fn runs_end_where_memory_is_not_contiguous() {
        // The window begins in the middle of a chunk, and a run ends in another.
        let start = 7 << 20;
        let space = Space::new(&[(start, 3 * MIB, Rights::ALL)]);
        let mut windows = Windows::new();
        windows.cover(&space, start, 3 * MIB, Use::Read);
        assert!(windows.cover(&space, start, 3 * MIB, Use::Read));
        let pieces = space.mapped();
        assert_eq!(pieces.iter().map(|piece| piece.1).sum::<u64>(), 3 * MIB);
        for pair in pieces.windows(2) {
            assert_eq!(pair[0].0 + pair[0].1 as i64, pair[1].0);
        }
    }

    #[test]
    fn what_is_mapped_stays_within_limits() {
        let count = MAX_ENTRIES as i64 * 3;
        let spread: Vec<_> = (0..count).map(|n| (n << 23, 4096, Rights::ALL)).collect();
        let space = Space::new(&spread);
        let mut windows = Windows::new();
        for &(offset, ..) in &spread {
            windows.cover(&space, offset, 4096, Use::Read);
            assert!(windows.cover(&space, offset, 4096, Use::Read));
            assert!(windows.entries.len() <= MAX_ENTRIES);
            // The first one is used all the time and stays.
            assert!(windows.cover(&space, 0, 4096, Use::Read));
        }
        assert_eq!(windows.entries.len(), MAX_ENTRIES);
        assert!(windows.find(spread[1].0, 1, Use::Read).is_none());
        windows.clear();
        assert!(windows.find(0, 1, Use::Read).is_none());
        assert_eq!((windows.entries.len(), windows.bytes), (0, 0));
    }

    /// Random transfers over random windows: what is found mapped is what it says.
    #[test]
    fn pieces_lead_to_the_right_bytes() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        let mut spread = Vec::new();
        let mut at = 0;
        for _ in 0..200 {
            at += (random(4) * 4096) as i64;
            let bytes = 4096 * (1 + random(300));
            let rights = [READ, Use::Write.rights(), Rights::ALL][random(3) as usize];
            spread.push((at, bytes, rights));
            at += bytes as i64;
        }
        let space = Space::new(&spread);
        let mut windows = Windows::new();
        for _ in 0..20_000 {
            let offset = random(at as u64) as i64;
            let bytes = 1 + random(3 * MIB);
            let what = [Use::Read, Use::Write][random(2) as usize];
            if !windows.cover(&space, offset, bytes, what) {
                continue;
            }
            let mut done = 0;
            while done < bytes {
                let at = offset + done as i64;
                let piece = windows.find(at, bytes - done, what).unwrap();
                assert_eq!(**piece.pages + piece.at as i64, at);
                assert!(what.is_allowed(space.window(at).unwrap().2));
                done += piece.bytes;
            }
        }
        for pair in windows.entries.windows(2) {
            assert!(pair[0].offset + pair[0].bytes as i64 <= pair[1].offset);
        }
    }
}
