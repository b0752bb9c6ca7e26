//! The memory that a context has registered, by address.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use client_memory::borrow::Borrowed;
use scif::Memory;
use scif::raw::Range;
use verbs_core::host::Place;

/// Memory of the program that is registered.
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
    pub fn is_borrowed(&self) -> bool {
        matches!(self, Self::Borrowed(_))
    }

    /// Where it is in this process.
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
    /// By first address and key.
    regions: BTreeMap<(usize, u32), Backing>,
    /// First addresses by key.
    starts: BTreeMap<u32, usize>,
}

impl Registered {
    /// Adds the memory of a key. `start`: the address by which the program names its first byte,
    /// which is another one than here if the memory is another program's.
    pub fn insert(&mut self, key: u32, start: usize, held: Backing) {
        self.starts.insert(key, start);
        self.regions.insert((start, key), held);
    }

    /// Removes the memory of a key.
    pub fn remove(&mut self, key: u32) -> Option<Backing> {
        let start = self.starts.remove(&key)?;
        self.regions.remove(&(start, key))
    }

    /// Whether there is memory of a key.
    pub fn holds(&self, key: u32) -> bool {
        self.starts.contains_key(&key)
    }

    /// A place that lies in registered memory.
    pub fn range(&self, place: Place) -> Option<Range<'_>> {
        self.find(place).map(|(range, _)| range)
    }

    /// The same, and whether it is another program's memory.
    pub fn find(&self, place: Place) -> Option<(Range<'_>, bool)> {
        let address = place.address as usize;
        let mut before = self.regions.range(..=(address, u32::MAX)).rev();
        // Regions may overlap; most often the nearest one is it.
        before.find_map(|((start, _), held)| {
            let part = held.range().part(address - start, place.length).ok()?;
            Some((part, held.is_borrowed()))
        })
    }
}
