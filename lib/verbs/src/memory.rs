//! The memory that a context has registered, by address.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use client_memory::borrow::Borrowed;
use scif::Memory;
use scif::raw::Range;
use verbs_core::host::Place;

/// Memory that the program has registered. Its kind is a word of its own, because every message
/// asks for it: as an impossible value of another field it would take more instructions.
#[repr(C, u8)]
pub enum Backing {
    /// Memory of the program, by address.
    Range(Range<'static>),
    /// A mapping that the region owns.
    Memory(Arc<Memory>),
    /// Memory of another program, mapped here.
    Borrowed(Borrowed),
}

impl From<Range<'static>> for Backing {
    fn from(range: Range<'static>) -> Self {
        Self::Range(range)
    }
}

impl From<Arc<Memory>> for Backing {
    fn from(memory: Arc<Memory>) -> Self {
        Self::Memory(memory)
    }
}

impl Backing {
    /// Whether it is memory of another program.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        matches!(self, Self::Borrowed(_))
    }

    /// Where it lies in this process.
    #[inline]
    pub fn range(&self) -> Range<'_> {
        match self {
            Self::Range(range) => *range,
            Self::Memory(memory) => memory.range(),
            Self::Borrowed(borrowed) => borrowed.range(),
        }
    }
}

/// The registered memory of a context.
#[derive(Default)]
pub struct Registered {
    /// Sorted by first address and key.
    regions: Vec<((usize, u32), Backing)>,
    /// The indices of the regions that were last found for reading and for writing.
    last: [AtomicUsize; 2],
    /// The first address of each key's region.
    starts: BTreeMap<u32, usize>,
}

impl Registered {
    /// Adds the memory of a key. `start`: the address by which the program names its first byte;
    /// it differs from the address here if the memory is another program's.
    pub fn insert(&mut self, key: u32, start: usize, held: Backing) {
        self.starts.insert(key, start);
        let place = (start, key);
        let index = self.regions.partition_point(|(of, _)| *of < place);
        self.regions.insert(index, (place, held));
        // Of regions that overlap, the new one is tried first.
        for last in &self.last {
            last.store(index, Ordering::Relaxed);
        }
    }

    /// Removes the memory of a key.
    pub fn remove(&mut self, key: u32) -> Option<Backing> {
        let start = self.starts.remove(&key)?;
        let index = self
            .regions
            .binary_search_by_key(&(start, key), |(of, _)| *of);
        // Another region may be at that index, which has the same addresses and is older.
        for last in &self.last {
            last.store(usize::MAX, Ordering::Relaxed);
        }
        Some(self.regions.remove(index.ok()?).1)
    }

    /// Whether there is memory of a key.
    pub fn holds(&self, key: u32) -> bool {
        self.starts.contains_key(&key)
    }

    /// The memory at a place, if it is registered.
    #[inline]
    pub fn range(&self, place: Place) -> Option<Range<'_>> {
        self.find(place).map(|(range, _)| range)
    }

    /// [`range`](Self::range) of a place that is read, perhaps followed by others near to it.
    #[inline(always)]
    pub fn read_range(&self, place: Place) -> Option<Range<'_>> {
        self.find_by(place, &self.last[0]).map(|(range, _)| range)
    }

    /// [`range`](Self::range) of a place that is written, perhaps followed by others near to it.
    #[inline(always)]
    pub fn write_range(&self, place: Place) -> Option<Range<'_>> {
        self.find_by(place, &self.last[1]).map(|(range, _)| range)
    }

    /// The memory at a place, if it is registered, and whether it is another program's.
    #[inline]
    pub fn find(&self, place: Place) -> Option<(Range<'_>, bool)> {
        self.find_by(place, &self.last[0])
    }

    /// [`find`](Self::find); `last`: the index of the region to try first.
    #[inline(always)]
    fn find_by(&self, place: Place, last: &AtomicUsize) -> Option<(Range<'_>, bool)> {
        let address = place.address as usize;
        let region = self.regions.get(last.load(Ordering::Relaxed));
        let found = region.and_then(|region| part(region, address, place.length));
        found.or_else(|| self.search(address, place.length, last))
    }

    #[cold]
    fn search(
        &self,
        address: usize,
        length: usize,
        last: &AtomicUsize,
    ) -> Option<(Range<'_>, bool)> {
        let behind = self
            .regions
            .partition_point(|((start, _), _)| *start <= address);
        // Regions may overlap; most often the nearest one is the right one.
        let mut before = self.regions.iter().enumerate().take(behind).rev();
        before.find_map(|(index, region)| {
            let found = part(region, address, length)?;
            last.store(index, Ordering::Relaxed);
            Some(found)
        })
    }
}

/// The part of a region that begins at an address, and whether it is another program's memory.
#[inline(always)]
fn part(
    ((start, _), held): &((usize, u32), Backing),
    address: usize,
    bytes: usize,
) -> Option<(Range<'_>, bool)> {
    let ahead = address.checked_sub(*start)?;
    let part = held.range().part(ahead, bytes).ok()?;
    Some((part, held.is_borrowed()))
}
