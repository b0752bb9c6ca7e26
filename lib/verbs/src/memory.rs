//! The memory that a context has registered, by address.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use scif::Memory;
use scif::raw::Range;
use verbs_core::host::Place;

/// Memory of the program that is registered.
pub enum Backing {
    /// The program's, by address.
    Range(Range<'static>),
    /// A mapping of its own.
    Memory(Arc<Memory>),
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
    /// Where it is.
    pub fn range(&self) -> Range<'_> {
        match self {
            Self::Range(range) => *range,
            Self::Memory(memory) => memory.range(),
        }
    }
}

/// See the module.
#[derive(Default)]
pub struct Registered {
    /// By first address and key.
    regions: BTreeMap<(usize, u32), Backing>,
    /// First addresses by key.
    starts: BTreeMap<u32, usize>,
}

impl Registered {
    /// Adds the memory of a key.
    pub fn insert(&mut self, key: u32, held: Backing) {
        let start = held.range().address();
        self.starts.insert(key, start);
        self.regions.insert((start, key), held);
    }

    /// Removes the memory of a key.
    pub fn remove(&mut self, key: u32) -> Option<Backing> {
        let start = self.starts.remove(&key)?;
        self.regions.remove(&(start, key))
    }

    /// A place that lies in registered memory.
    pub fn range(&self, place: Place) -> Option<Range<'_>> {
        let address = place.address as usize;
        let before = self.regions.range(..=(address, u32::MAX)).rev();
        let mut ranges = before.map(|((start, _), held)| (start, held.range()));
        // Regions may overlap; most often the nearest one is it.
        ranges.find_map(|(start, range)| range.part(address - start, place.length).ok())
    }
}
