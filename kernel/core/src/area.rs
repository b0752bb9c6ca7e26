//! Virtual areas: the parts of a user address space.

use alloc::collections::{BTreeMap, BTreeSet};

use bitflags::bitflags;

bitflags! {
    /// A program's rights to a page.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Prot: u8 {
        /// Loads.
        const READ = 1;
        /// Stores.
        const WRITE = 2;
        /// Instruction fetches.
        const EXEC = 4;
    }
}

/// How the processor caches a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Cache {
    /// Ordinary memory.
    #[default]
    WriteBack,
    /// Stores are combined, loads are not cached (frame buffers, apertures).
    WriteCombining,
    /// Not cached, may be overridden to write combining by the MTRRs (`uc` and `dev` of Redox).
    Uncached,
}

/// Where a new mapping goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The smallest hole that is large enough, the lowest of equals, from `MIN_ADDRESS` up.
    Any,
    /// Exactly here; mappings in the way are unmapped first.
    Fixed(usize),
    /// Exactly here; `EEXIST` when anything is mapped there.
    FixedNoReplace(usize),
}

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// The memory behind an area; splitting an area splits it.
pub trait Backing: Sized {
    /// Cuts at `offset` bytes (page aligned, inside the area): `self` keeps the front, the rest is
    /// returned.
    fn split(&mut self, offset: usize) -> Self;
    /// Whether `next`, which begins `len` bytes after the start of `self`, continues it.
    fn continues(&self, len: usize, next: &Self) -> bool;
}

/// A run of pages with one meaning. Its address is its key in the list.
#[derive(Clone, Debug)]
pub struct Area<B> {
    /// Bytes, a multiple of `PAGE`.
    pub len: usize,
    /// Present rights.
    pub prot: Prot,
    /// Rights that it may get later.
    pub max_prot: Prot,
    /// Whether it belongs to the kernel: the program may not unmap or replace it.
    pub pinned: bool,
    /// The memory behind it.
    pub backing: B,
}

/// The areas of an address space: disjoint, sorted.
#[derive(Debug)]
pub struct AreaList<B> {
    areas: BTreeMap<usize, Area<B>>,
    /// The holes between them: length and start. A daemon with thousands of areas gets a buffer
    /// with every request, and a walk along the areas would take longer than everything else.
    holes: BTreeSet<(usize, usize)>,
}

impl<B> Default for AreaList<B> {
    fn default() -> Self {
        AreaList {
            areas: BTreeMap::new(),
            holes: BTreeSet::from([(usize::MAX, 0)]),
        }
    }
}

impl<B: Backing> AreaList<B> {
    /// The area that holds `addr`: its first address and itself.
    pub fn find(&self, addr: usize) -> Option<(usize, &Area<B>)> {
        let (&base, area) = self.areas.range(..=addr).next_back()?;
        (addr - base < area.len).then_some((base, area))
    }

    /// The memory behind the area that holds `addr`, for changes that leave the area's addresses
    /// alone.
    pub fn backing_mut(&mut self, addr: usize) -> Option<&mut B> {
        let (&base, area) = self.areas.range_mut(..=addr).next_back()?;
        (addr - base < area.len).then_some(&mut area.backing)
    }

    /// All areas in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Area<B>)> {
        self.areas.iter().map(|(&base, area)| (base, area))
    }

    /// Areas that overlap `[addr, addr + len)` in ascending order.
    pub fn overlapping(&self, addr: usize, len: usize) -> impl Iterator<Item = (usize, &Area<B>)> {
        let first = self.find(addr).map_or(addr, |(base, _)| base);
        self.areas
            .range(first..addr.saturating_add(len))
            .map(|(&base, area)| (base, area))
    }

    /// Whether every page of `[addr, addr + len)` is mapped.
    pub fn covers(&self, addr: usize, len: usize) -> bool {
        let Some(end) = addr.checked_add(len) else {
            return false;
        };
        let mut next = addr;
        for (base, area) in self.overlapping(addr, len) {
            if base > next {
                return false;
            }
            next = base + area.len;
        }
        next >= end
    }

    /// The lowest of the smallest holes in `[min, end)` with room for `len` bytes.
    pub fn find_hole(&self, len: usize, min: usize, end: usize) -> Option<usize> {
        let inside = |&(size, start): &(usize, usize)| start >= min && size <= end - start.min(end);
        // By length, then by address: the first one is the result, unless a border makes a smaller
        // one.
        let whole = self.holes.range((len, 0)..).copied().find(inside);
        let cut = |(from, to): (usize, usize)| {
            let (from, to) = (from.max(min), to.min(end));
            (to.saturating_sub(from), from)
        };
        let borders = [self.around(min, min), self.around(end, end)].map(cut);
        let borders = borders.into_iter().filter(|&(size, _)| size >= len);
        let (_, start) = borders.chain(whole).min()?;
        (len <= end.saturating_sub(start)).then_some(start)
    }

    /// The free range around `[addr, end)`, which is itself free, or empty and perhaps inside an
    /// area: from the end of the area before it to the start of the next one.
    fn around(&self, addr: usize, end: usize) -> (usize, usize) {
        let before = self.areas.range(..addr).next_back();
        let from = before.map_or(0, |(&base, area)| base.saturating_add(area.len));
        let to = self.areas.range(end..).next();
        (from, to.map_or(usize::MAX, |(&base, _)| base))
    }

    /// Records that `[addr, addr + len)` is no longer a hole, or part of one.
    fn fill(&mut self, addr: usize, len: usize) {
        let end = addr + len;
        let (from, to) = self.around(addr, end);
        self.holes.remove(&(to - from, from));
        self.holes.extend(
            [(addr - from, from), (to - end, end)]
                .iter()
                .filter(|hole| hole.0 > 0),
        );
    }

    /// Records that `[addr, addr + len)` is now a hole, or part of one.
    fn dig(&mut self, addr: usize, len: usize) {
        let end = addr + len;
        let (from, to) = self.around(addr, end);
        self.holes.remove(&(addr - from, from));
        self.holes.remove(&(to - end, end));
        self.holes.insert((to - from, from));
    }

    /// Adds an area where nothing is mapped, and joins it with a neighbour that it continues.
    /// Panics on overlap: callers make room first.
    pub fn insert(&mut self, addr: usize, mut area: Area<B>) {
        assert!(
            self.overlapping(addr, area.len).next().is_none(),
            "areas overlap at {addr:#x}, length {:#x}",
            area.len
        );
        let joins = |front: &Area<B>, back: &Area<B>| {
            front.prot == back.prot
                && front.max_prot == back.max_prot
                && front.pinned == back.pinned
                && front.backing.continues(front.len, &back.backing)
        };
        let end = addr + area.len;
        self.fill(addr, area.len);
        if let Some(next) = self.areas.get(&end)
            && joins(&area, next)
        {
            area.len += next.len;
            self.areas.remove(&end);
        }
        if let Some((&base, previous)) = self.areas.range_mut(..addr).next_back()
            && base + previous.len == addr
            && joins(previous, &area)
        {
            previous.len += area.len;
            return;
        }
        self.areas.insert(addr, area);
    }

    /// Number of areas.
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// Whether there is no area.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// Takes out everything in `[addr, addr + len)`, cutting areas at its borders. There may be
    /// more than contiguous memory has room for.
    pub fn remove(&mut self, addr: usize, len: usize) -> BTreeMap<usize, Area<B>> {
        let mut taken = BTreeMap::new();
        self.remove_each(addr, len, |base, area| {
            taken.insert(base, area);
        });
        taken
    }

    /// [`remove`](Self::remove) that hands out area after area, in ascending order. A list of all
    /// would take memory, which may be used up when a program ends.
    pub fn remove_each(&mut self, addr: usize, len: usize, mut each: impl FnMut(usize, Area<B>)) {
        let (mut at, end) = (addr, addr.saturating_add(len));
        while let Some((base, area)) = self.take_first(at, end) {
            at = base + area.len;
            each(base, area);
        }
    }

    /// Sets the rights of everything in `[addr, addr + len)`, cutting areas at its borders.
    pub fn protect(&mut self, addr: usize, len: usize, prot: Prot) {
        let (mut at, end) = (addr, addr.saturating_add(len));
        while let Some((base, mut area)) = self.take_first(at, end) {
            at = base + area.len;
            area.prot = prot;
            self.insert(base, area);
        }
    }

    /// Takes out the first area in `[addr, end)`, cutting it at the borders.
    fn take_first(&mut self, addr: usize, end: usize) -> Option<(usize, Area<B>)> {
        let len = end.checked_sub(addr).filter(|&len| len > 0)?;
        // Most ranges are taken out as they were put in.
        if self.areas.get(&addr).is_none_or(|area| area.len != len) {
            self.cut(addr);
            self.cut(end);
        }
        let (&base, _) = self.areas.range(addr..end).next()?;
        let area = self.areas.remove(&base)?;
        self.dig(base, area.len);
        Some((base, area))
    }

    /// Cuts the area around `addr`, if there is one, so that `addr` becomes a border.
    fn cut(&mut self, addr: usize) {
        let Some((&base, area)) = self.areas.range_mut(..addr).next_back() else {
            return;
        };
        if addr - base >= area.len {
            return;
        }
        let back = Area {
            len: area.len - (addr - base),
            prot: area.prot,
            max_prot: area.max_prot,
            pinned: area.pinned,
            backing: area.backing.split(addr - base),
        };
        area.len = addr - base;
        self.areas.insert(addr, back);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// `Plain` continues anything plain; `File(offset)` only the same file.
    #[derive(Clone, Debug, PartialEq)]
    enum Test {
        Plain,
        File(usize),
    }

    impl Backing for Test {
        fn split(&mut self, offset: usize) -> Self {
            match self {
                Test::Plain => Test::Plain,
                Test::File(start) => Test::File(*start + offset),
            }
        }
        fn continues(&self, len: usize, next: &Self) -> bool {
            match (self, next) {
                (Test::Plain, Test::Plain) => true,
                (Test::File(a), Test::File(b)) => a + len == *b,
                _ => false,
            }
        }
    }

    fn area(pages: usize, prot: Prot, backing: Test) -> Area<Test> {
        Area {
            len: pages * PAGE,
            prot,
            max_prot: Prot::all(),
            pinned: false,
            backing,
        }
    }

    fn list(list: &AreaList<Test>) -> Vec<(usize, usize, Prot, Test)> {
        list.iter()
            .map(|(b, a)| (b / PAGE, a.len / PAGE, a.prot, a.backing.clone()))
            .collect()
    }

    const RW: Prot = Prot::READ.union(Prot::WRITE);

    #[test]
    fn neighbours_join() {
        let mut l = AreaList::default();
        l.insert(PAGE, area(1, RW, Test::Plain));
        l.insert(3 * PAGE, area(1, RW, Test::Plain));
        l.insert(2 * PAGE, area(1, RW, Test::Plain));
        l.insert(4 * PAGE, area(1, Prot::READ, Test::Plain));
        l.insert(5 * PAGE, area(2, RW, Test::File(0)));
        l.insert(7 * PAGE, area(1, RW, Test::File(2 * PAGE)));
        l.insert(8 * PAGE, area(1, RW, Test::File(9 * PAGE)));
        assert_eq!(
            list(&l),
            [
                (1, 3, RW, Test::Plain),
                (4, 1, Prot::READ, Test::Plain),
                (5, 3, RW, Test::File(0)),
                (8, 1, RW, Test::File(9 * PAGE)),
            ]
        );
    }

    #[test]
    fn what_is_behind_an_area_can_change() {
        let mut l = AreaList::default();
        l.insert(2 * PAGE, area(2, RW, Test::File(0)));
        for outside in [PAGE, 2 * PAGE - 1, 4 * PAGE] {
            assert!(l.backing_mut(outside).is_none());
        }
        *l.backing_mut(4 * PAGE - 1).unwrap() = Test::File(7);
        assert_eq!(list(&l), [(2, 2, RW, Test::File(7))]);
    }

    #[test]
    fn removing_the_middle_splits() {
        let mut l = AreaList::default();
        l.insert(10 * PAGE, area(10, RW, Test::File(0)));
        let out = l.remove(12 * PAGE, 3 * PAGE);
        let out: Vec<_> = out
            .iter()
            .map(|(base, area)| (*base, &area.backing))
            .collect();
        assert_eq!(out, [(12 * PAGE, &Test::File(2 * PAGE))]);
        assert_eq!(
            list(&l),
            [
                (10, 2, RW, Test::File(0)),
                (15, 5, RW, Test::File(5 * PAGE))
            ]
        );
        assert!(l.find(12 * PAGE).is_none());
        assert_eq!(l.find(15 * PAGE + 5).map(|f| f.0), Some(15 * PAGE));
        assert!(l.remove(0, 5 * PAGE).is_empty());
        assert_eq!(l.remove(0, usize::MAX).len(), 2);
        assert!(list(&l).is_empty());
    }

    #[test]
    fn areas_come_out_one_by_one() {
        let mut l = AreaList::default();
        for (page, pages) in [(10, 4), (14, 1), (20, 4)] {
            l.insert(page * PAGE, area(pages, RW, Test::File(0)));
        }
        let mut out = Vec::new();
        l.remove_each(11 * PAGE, 10 * PAGE, |base, area| {
            out.push((base / PAGE, area.len / PAGE, area.backing));
        });
        let file = |page| Test::File(page * PAGE);
        assert_eq!(out, [(11, 3, file(1)), (14, 1, file(0)), (20, 1, file(0))]);
        assert_eq!(list(&l), [(10, 1, RW, file(0)), (21, 3, RW, file(1))]);
        l.remove_each(0, usize::MAX, |_, _| ());
        assert!(l.is_empty() && l.find_hole(usize::MAX, 0, usize::MAX) == Some(0));
    }

    #[test]
    fn protect_splits_and_joins() {
        let mut l = AreaList::default();
        l.insert(0, area(6, RW, Test::Plain));
        l.protect(2 * PAGE, 2 * PAGE, Prot::READ);
        assert_eq!(
            list(&l),
            [
                (0, 2, RW, Test::Plain),
                (2, 2, Prot::READ, Test::Plain),
                (4, 2, RW, Test::Plain)
            ]
        );
        l.protect(0, 100 * PAGE, RW);
        assert_eq!(list(&l), [(0, 6, RW, Test::Plain)]);
    }

    /// The result of `find_hole`, by a walk along all areas.
    fn find_by_walk(l: &AreaList<Test>, len: usize, min: usize, end: usize) -> Option<usize> {
        let mut best: Option<(usize, usize)> = None;
        let mut start = min;
        let stop = core::iter::once((end, 0));
        for (base, size) in l.iter().map(|(b, a)| (b, a.len)).chain(stop) {
            let hole = base.min(end).saturating_sub(start);
            if hole >= len && best.is_none_or(|(smallest, _)| hole < smallest) {
                best = Some((hole, start));
            }
            start = start.max(base.saturating_add(size));
        }
        best.map(|(_, start)| start)
    }

    #[test]
    fn holes_are_those_a_walk_along_the_areas_finds() {
        const PAGES: u64 = 64;
        let mut l = AreaList::default();
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 33) % below) as usize
        };
        for step in 0..20_000 {
            let (addr, pages) = (random(PAGES) * PAGE, random(6) + 1);
            match random(3) {
                0 => drop(l.remove(addr, pages * PAGE)),
                1 => l.protect(addr, pages * PAGE, Prot::READ),
                _ if l.overlapping(addr, pages * PAGE).next().is_none() => {
                    let backing = if random(2) == 0 {
                        Test::Plain
                    } else {
                        Test::File(addr)
                    };
                    l.insert(addr, area(pages, RW, backing));
                }
                _ => {}
            }
            let (min, end) = (random(PAGES) * PAGE, random(PAGES + 8) * PAGE);
            let (len, end) = ((random(9) + 1) * PAGE, end.max(min));
            let walked = find_by_walk(&l, len, min, end);
            assert_eq!(
                l.find_hole(len, min, end),
                walked,
                "step {step}: {len:#x} {min:#x} {end:#x}"
            );
        }
    }

    #[test]
    fn smallest_hole_wins_then_the_lowest() {
        let end = 100 * PAGE;
        let mut l = AreaList::default();
        assert_eq!(l.find_hole(PAGE, PAGE, end), Some(PAGE));
        assert_eq!(l.find_hole(99 * PAGE, PAGE, end), Some(PAGE));
        assert_eq!(l.find_hole(100 * PAGE, PAGE, end), None);
        l.insert(10 * PAGE, area(2, RW, Test::Plain));
        l.insert(15 * PAGE, area(2, RW, Test::Plain));
        l.insert(20 * PAGE, area(2, RW, Test::Plain));
        assert_eq!(l.find_hole(2 * PAGE, PAGE, end), Some(12 * PAGE));
        assert_eq!(l.find_hole(4 * PAGE, PAGE, end), Some(PAGE));
        assert_eq!(l.find_hole(10 * PAGE, PAGE, end), Some(22 * PAGE));
        // Areas below the minimum or across it do not confuse the search.
        l.insert(0, area(3, RW, Test::Plain));
        assert_eq!(l.find_hole(4 * PAGE, PAGE, end), Some(3 * PAGE));
        l.insert(98 * PAGE, area(4, RW, Test::Plain));
        assert_eq!(l.find_hole(77 * PAGE, PAGE, end), None);
    }

    #[test]
    fn coverage_and_overlap() {
        let mut l = AreaList::default();
        l.insert(2 * PAGE, area(2, RW, Test::Plain));
        l.insert(4 * PAGE, area(2, Prot::READ, Test::Plain));
        l.insert(7 * PAGE, area(1, RW, Test::Plain));
        assert!(l.covers(2 * PAGE, 4 * PAGE));
        assert!(l.covers(3 * PAGE, 1));
        assert!(!l.covers(2 * PAGE, 5 * PAGE));
        assert!(!l.covers(PAGE, 2 * PAGE));
        assert!(!l.covers(6 * PAGE, PAGE));
        // Nothing is mapped behind the last address.
        assert!(!l.covers(usize::MAX, 1));
        assert!(!l.covers(usize::MAX - PAGE, 2 * PAGE));
        let bases: Vec<usize> = l
            .overlapping(3 * PAGE, 4 * PAGE)
            .map(|o| o.0 / PAGE)
            .collect();
        assert_eq!(bases, [2, 4]);
    }

    #[test]
    fn random_operations_against_a_page_array() {
        let mut l = AreaList::default();
        let mut model: Vec<Option<(Prot, usize)>> = vec![None; 64];
        let mut seed = 99u64;
        let mut next = |n: u64| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((seed >> 33) % n) as usize
        };
        for _ in 0..20_000 {
            let (start, count) = (next(60), next(4) + 1);
            match next(3) {
                0 => {
                    l.remove(start * PAGE, count * PAGE);
                    let file = next(8) * PAGE;
                    l.insert(start * PAGE, area(count, RW, Test::File(file)));
                    for i in 0..count {
                        model[start + i] = Some((RW, file + i * PAGE));
                    }
                }
                1 => {
                    l.remove(start * PAGE, count * PAGE);
                    model[start..start + count].fill(None);
                }
                _ => {
                    l.protect(start * PAGE, count * PAGE, Prot::READ);
                    for page in model[start..start + count].iter_mut().flatten() {
                        page.0 = Prot::READ;
                    }
                }
            }
            for (i, expect) in model.iter().enumerate() {
                let found = l.find(i * PAGE).map(|(base, a)| {
                    let Test::File(start) = a.backing else {
                        unreachable!()
                    };
                    (a.prot, start + i * PAGE - base)
                });
                assert_eq!(found, *expect);
            }
        }
    }
}
