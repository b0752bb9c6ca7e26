//! The memory that a context has registered, by address.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use client_memory::borrow::Borrowed;
use scif::Memory;
use scif::raw::Range;
use verbs_core::host::Place;

/// Memory of the program that is registered. Its kind is a word of its own, which each message asks
/// for: in the place of an impossible value of something else it takes more instructions.
#[repr(C, u8)]
pub enum Backing {
    /// The program's, by address.
    Range(Range<'static>),
    /// A mapping of its own.
    Memory(Arc<Memory>),
    /// Another program's, mapped here.
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
    /// Whether it is another program's.
    #[inline]
    pub fn is_borrowed(&self) -> bool {
        matches!(self, Self::Borrowed(_))
    }

    /// Where it is in this process.
    #[inline]
    pub fn range(&self) -> Range<'_> {
        match self {
            Self::Range(range) => *range,
            Self::Memory(memory) => memory.range(),
            Self::Borrowed(borrowed) => borrowed.range(),
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Registered {
    /// By first address and key, in this order.
    regions: Vec<((usize, u32), Backing)>,
    /// The indices of the regions that were found last for reading and for writing.
    last: [AtomicUsize; 2],
    /// First addresses by key.
    starts: BTreeMap<u32, usize>,
}

impl Registered {
    /// Adds the memory of a key. `start`: the address by which the program names its first byte,
    /// which is another one than here if the memory is another program's.
    pub fn insert(&mut self, key: u32, start: usize, held: Backing) {
        self.starts.insert(key, start);
        let place = (start, key);
        let index = self.regions.partition_point(|(of, _)| *of < place);
        self.regions.insert(index, (place, held));
        // Of regions that overlap the new one counts.
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
        // Another one may be at that index, which holds the same addresses and is older.
        for last in &self.last {
            last.store(usize::MAX, Ordering::Relaxed);
        }
        Some(self.regions.remove(index.ok()?).1)
    }

    /// Whether there is memory of a key.
    pub fn holds(&self, key: u32) -> bool {
        self.starts.contains_key(&key)
    }

    /// A place that lies in registered memory.
    #[inline]
    pub fn range(&self, place: Place) -> Option<Range<'_>> {
        self.find(place).map(|(range, _)| range)
    }

    /// The same for a place that is read, and then perhaps others near to it.
    #[inline(always)]
    pub fn read_range(&self, place: Place) -> Option<Range<'_>> {
        self.find_by(place, &self.last[0]).map(|(range, _)| range)
    }

    /// The same for one that is written.
    #[inline(always)]
    pub fn write_range(&self, place: Place) -> Option<Range<'_>> {
        self.find_by(place, &self.last[1]).map(|(range, _)| range)
    }

    /// A place that lies in registered memory, and whether it is another program's memory.
    #[inline]
    pub fn find(&self, place: Place) -> Option<(Range<'_>, bool)> {
        self.find_by(place, &self.last[0])
    }

    /// The same; `last`: the index of the region to look at first.
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
        // Regions may overlap; most often the nearest one is it.
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
