//! The memory that a context has registered.

use alloc::sync::Arc;
use alloc::vec::Vec;

use client_memory::borrow::Borrowed;
use scif::Memory;
use scif::raw::Range;
use verbs_core::host::Place;
use verbs_core::keys::slot_of;

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

/// The registered memory of a context, by key. Regions may have the same addresses and yet not the
/// same pages and rights: memory is never looked for by its address.
#[derive(Default)]
pub struct Registered {
    /// By the [slot](slot_of) of their key.
    regions: Vec<Option<Held>>,
}

/// The memory of a region.
struct Held {
    key: u32,
    /// The address by which the program names the first byte.
    start: usize,
    backing: Backing,
}

impl Registered {
    /// Adds the memory of a key. `start`: the address by which the program names its first byte;
    /// it differs from the address here if the memory is another program's.
    pub fn insert(&mut self, key: u32, start: usize, backing: Backing) {
        let slot = slot_of(key);
        if slot >= self.regions.len() {
            self.regions.resize_with(slot + 1, || None);
        }
        if let Some(region) = self.regions.get_mut(slot) {
            *region = Some(Held {
                key,
                start,
                backing,
            });
        }
    }

    /// Removes the memory of a key.
    pub fn remove(&mut self, key: u32) -> Option<Backing> {
        let region = self.regions.get_mut(slot_of(key))?;
        let held = region.take_if(|held| held.key == key)?;
        Some(held.backing)
    }

    /// Whether there is memory of a key.
    pub fn holds(&self, key: u32) -> bool {
        self.held(key).is_some()
    }

    #[inline(always)]
    fn held(&self, key: u32) -> Option<&Held> {
        let held = self.regions.get(slot_of(key))?.as_ref()?;
        (held.key == key).then_some(held)
    }

    /// The memory at a place, if it is registered.
    #[inline(always)]
    pub fn range(&self, place: Place) -> Option<Range<'_>> {
        self.find(place).map(|(range, _)| range)
    }

    /// The memory at a place, if it is registered, and whether it is another program's.
    #[inline(always)]
    pub fn find(&self, place: Place) -> Option<(Range<'_>, bool)> {
        let held = self.held(place.key)?;
        let ahead = (place.address as usize).checked_sub(held.start)?;
        let part = held.backing.range().part(ahead, place.length).ok()?;
        Some((part, held.backing.is_borrowed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_its_key_though_other_regions_have_the_same_addresses() {
        let (one, other) = (Range::absent(4096), Range::null(4096));
        let keys = [0x101, 0x201];
        for order in [[0, 1], [1, 0]] {
            let mut memory = Registered::default();
            for index in order {
                let range = [one, other][index];
                memory.insert(keys[index], 0x5000, range.into());
            }
            let find = |memory: &Registered, key, address, length| {
                let place = Place {
                    key,
                    address,
                    length,
                };
                memory.range(place).map(Range::address)
            };
            let ahead = |range: Range<'_>| Some(range.address() + 16);
            assert_eq!(find(&memory, keys[0], 0x5010, 4080), ahead(one));
            assert_eq!(find(&memory, keys[1], 0x5010, 4080), ahead(other));
            // Beyond the end, in front of the beginning, and by an old key.
            assert_eq!(find(&memory, keys[0], 0x5010, 4081), None);
            assert_eq!(find(&memory, keys[0], 0x4fff, 1), None);
            assert_eq!(find(&memory, keys[0] + 1, 0x5010, 1), None);
            assert!(memory.remove(keys[0] + 1).is_none());
            assert!(memory.remove(keys[0]).is_some() && !memory.holds(keys[0]));
            assert_eq!(find(&memory, keys[0], 0x5010, 1), None);
            assert_eq!(find(&memory, keys[1], 0x5010, 1), ahead(other));
        }
    }
}
