//! The physical memory map from a loader, and its free parts.
//!
//! Used before there is a heap, so everything has a fixed capacity.

/// Bytes of a frame.
pub const FRAME: u64 = 4096;

/// Kinds of memory, numbered as in Redox's `KernelArgs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free RAM.
    Free = 1,
    /// RAM that holds loader data or ACPI tables.
    Reclaim = 2,
    /// Everything else.
    Reserved = 3,
}

/// A range of physical addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// The content.
    pub kind: Kind,
}

impl Area {
    /// First byte behind the area.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.size)
    }
}

/// The number of areas that a map can hold.
pub const CAPACITY: usize = 128;

/// A list of areas in no order; touching areas of one kind are merged. Areas of different kinds
/// may overlap, and the less free kind wins.
#[derive(Clone, Debug)]
pub struct MemoryMap {
    areas: [Area; CAPACITY],
    len: usize,
    /// Areas that were dropped because no more fit.
    pub dropped: usize,
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryMap {
    /// An empty map.
    pub const fn new() -> Self {
        let none = Area {
            base: 0,
            size: 0,
            kind: Kind::Reserved,
        };
        MemoryMap {
            areas: [none; CAPACITY],
            len: 0,
            dropped: 0,
        }
    }

    /// Adds an area; empty ones are ignored.
    pub fn push(&mut self, base: u64, size: u64, kind: Kind) {
        if size == 0 {
            return;
        }
        let area = self.absorb(Area { base, size, kind });
        if self.len < CAPACITY {
            self.areas[self.len] = area;
            self.len += 1;
            return;
        }
        // Give up the smallest free area: that is less memory, where a lost reservation would be
        // memory with two owners. Without any free area nothing has to be reserved.
        self.dropped += 1;
        let free = self.areas.iter_mut().filter(|a| a.kind == Kind::Free);
        if let Some(smallest) = free.min_by_key(|a| a.size)
            && (kind != Kind::Free || smallest.size < area.size)
        {
            *smallest = area;
        }
    }

    /// Takes out the areas of the same kind that touch this one, and returns the union. Firmware
    /// lists neighbours by the hundred, not always in order.
    fn absorb(&mut self, mut union: Area) -> Area {
        let mut i = 0;
        while i < self.len {
            let other = self.areas[i];
            let apart = other.end() < union.base || union.end() < other.base;
            if apart || other.kind != union.kind {
                i += 1;
                continue;
            }
            let end = union.end().max(other.end());
            union.base = union.base.min(other.base);
            union.size = end - union.base;
            self.len -= 1;
            self.areas[i] = self.areas[self.len];
            // The larger area may touch ones that were passed.
            i = 0;
        }
        union
    }

    /// The areas.
    pub fn areas(&self) -> &[Area] {
        &self.areas[..self.len]
    }

    /// First byte behind the last RAM (free or reclaimable) below `limit`.
    pub fn ram_end(&self, limit: u64) -> u64 {
        self.areas()
            .iter()
            .filter(|a| a.kind != Kind::Reserved && a.base < limit)
            .map(|a| a.end().min(limit))
            .max()
            .unwrap_or(0)
    }

    /// The first range of free whole frames at or above `from`: (first byte, byte behind).
    pub fn next_free(&self, from: u64) -> Option<(u64, u64)> {
        let mut start = align_up(from);
        'search: loop {
            // The free area that holds `start`, or the nearest one above.
            let area = self
                .areas()
                .iter()
                .filter(|a| a.kind == Kind::Free && align_down(a.end()) > start)
                .min_by_key(|a| a.base.max(start))?;
            start = align_up(area.base.max(start));
            let mut end = align_down(area.end());
            if start >= end {
                start = align_up(area.end());
                continue;
            }
            for taken in self.areas().iter().filter(|a| a.kind != Kind::Free) {
                if taken.base <= start && taken.end() > start {
                    start = align_up(taken.end());
                    continue 'search;
                }
                if taken.base > start && taken.base < end {
                    end = align_down(taken.base);
                }
            }
            if start < end {
                return Some((start, end));
            }
            start += FRAME;
        }
    }

    /// Finds `size` free bytes on a frame boundary below `limit` and reserves them.
    pub fn take(&mut self, size: u64, limit: u64) -> Option<u64> {
        let size = align_up(size);
        let mut from = 0;
        while let Some((start, end)) = self.next_free(from) {
            if start.checked_add(size)? > limit {
                return None;
            }
            if end - start >= size {
                self.push(start, size, Kind::Reserved);
                return Some(start);
            }
            from = end;
        }
        None
    }
}

fn align_up(value: u64) -> u64 {
    value.saturating_add(FRAME - 1) & !(FRAME - 1)
}

fn align_down(value: u64) -> u64 {
    value & !(FRAME - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free_ranges(map: &MemoryMap) -> Vec<(u64, u64)> {
        let mut from = 0;
        let mut out = Vec::new();
        while let Some(range) = map.next_free(from) {
            out.push(range);
            from = range.1;
        }
        out
    }

    #[test]
    fn reserved_areas_cut_holes() {
        let mut map = MemoryMap::new();
        map.push(0, 0x9fc00, Kind::Free);
        map.push(0x100000, 0x700000, Kind::Free);
        map.push(0, 0x1000, Kind::Reserved);
        map.push(0x200000, 0x1234, Kind::Reserved);
        map.push(0x7ff800, 0x1000, Kind::Reclaim);
        assert_eq!(
            free_ranges(&map),
            [
                (0x1000, 0x9f000),
                (0x100000, 0x200000),
                (0x202000, 0x7ff000)
            ]
        );
        assert_eq!(map.ram_end(1 << 32), 0x800800);
    }

    #[test]
    fn overlapping_and_nested_reservations() {
        let mut map = MemoryMap::new();
        map.push(0x10000, 0x10000, Kind::Free);
        map.push(0x12000, 0x6000, Kind::Reserved);
        map.push(0x13000, 0x1000, Kind::Reserved);
        map.push(0x17000, 0x3000, Kind::Reserved);
        map.push(0x0, 0x10800, Kind::Reserved);
        assert_eq!(free_ranges(&map), [(0x11000, 0x12000), (0x1a000, 0x20000)]);
    }

    #[test]
    fn areas_smaller_than_a_frame_give_nothing() {
        let mut map = MemoryMap::new();
        map.push(0x1800, 0x1000, Kind::Free);
        assert_eq!(free_ranges(&map), []);
        map.push(u64::MAX - 100, 100, Kind::Free);
        assert_eq!(free_ranges(&map), []);
    }

    #[test]
    fn take_reserves() {
        let mut map = MemoryMap::new();
        map.push(0x1000, 0x3000, Kind::Free);
        map.push(0x8000, 0x8000, Kind::Free);
        assert_eq!(map.take(0x3800, 1 << 32), Some(0x8000));
        assert_eq!(map.take(1, 1 << 32), Some(0x1000));
        assert_eq!(map.take(0x8000, 1 << 32), None);
        assert_eq!(map.take(0x1000, 0x2800), None);
        assert_eq!(free_ranges(&map), [(0x2000, 0x4000), (0xc000, 0x10000)]);
    }

    #[test]
    fn neighbours_of_one_kind_become_one() {
        let mut map = MemoryMap::new();
        for i in 0..2 * CAPACITY as u64 {
            map.push(i * 0x1000, 0x1000, Kind::Free);
        }
        map.push(0x20_0000, 0x1000, Kind::Reserved);
        map.push(0x20_1000, 0x1000, Kind::Free);
        assert_eq!(map.areas().len(), 3);
        assert_eq!(free_ranges(&map), [(0, 0x10_0000), (0x20_1000, 0x20_2000)]);
        map.push(u64::MAX - 0xFFF, 0x1000, Kind::Free);
        map.push(u64::MAX, 0x1000, Kind::Free);
        assert_eq!(map.dropped, 0);
    }

    #[test]
    fn full_map_prefers_reservations() {
        let mut map = MemoryMap::new();
        map.push(0, 0x1000, Kind::Free);
        for i in 1..CAPACITY as u64 {
            map.push(i * 0x2000, 0x1000, Kind::Reserved);
        }
        map.push(0, 0x1000, Kind::Reserved);
        assert_eq!(map.dropped, 1);
        assert_eq!(free_ranges(&map), []);
    }

    #[test]
    fn neighbours_are_found_in_any_order() {
        let mut map = MemoryMap::new();
        // Every second one first, from the end; then what lies between.
        for i in (0..CAPACITY as u64 - 1).rev() {
            map.push(i * 0x2000, 0x1000, Kind::Reserved);
        }
        for i in (0..CAPACITY as u64 - 2).rev() {
            map.push(i * 0x2000 + 0x1000, 0x1000, Kind::Reserved);
        }
        assert_eq!((map.areas().len(), map.dropped), (1, 0));
        assert_eq!(map.areas()[0].base, 0);
        assert_eq!(map.areas()[0].size, (CAPACITY as u64 * 2 - 3) * 0x1000);
        // Overlapping ones too, but never of different kinds.
        map.push(0x800, 0x1000_0000, Kind::Reserved);
        map.push(0, 0x1000, Kind::Free);
        assert_eq!(map.areas().len(), 2);
    }

    /// The map of a PC with a long list: much memory, and small areas up to the last place.
    fn full_map() -> MemoryMap {
        let mut map = MemoryMap::new();
        for i in 0..CAPACITY as u64 - 1 {
            let kind = match i % 2 {
                0 => Kind::Free,
                _ => Kind::Reserved,
            };
            map.push(i * 0x2000, 0x1000, kind);
        }
        map.push(1 << 32, 1 << 32, Kind::Free);
        assert_eq!((map.areas().len(), map.dropped), (CAPACITY, 0));
        map
    }

    #[test]
    fn a_full_map_gives_up_its_smallest_free_area_only() {
        let mut map = full_map();
        let free = |map: &MemoryMap| free_ranges(map).iter().map(|r| r.1 - r.0).sum::<u64>();
        let before = free(&map);
        // As page tables are built: one page after the other.
        for i in 0..2 * CAPACITY as u64 {
            let page = map.take(0x10_0000, 1 << 36);
            assert_eq!(page, Some((1 << 32) + i * 0x10_0000));
        }
        assert_eq!(map.dropped, 1);
        let taken = 2 * CAPACITY as u64 * 0x10_0000;
        assert_eq!(before - free(&map), taken + 0x1000);
        // The larger one of two free areas is worth more.
        map.push(1 << 40, 1 << 30, Kind::Free);
        assert!(free_ranges(&map).contains(&(1 << 40, (1 << 40) + (1 << 30))));
        map.push(1 << 41, 0x1000, Kind::Free);
        assert_eq!(map.next_free(1 << 41), None);
        assert_eq!(map.dropped, 3);
    }
}
