//! The writing side of a trace: a ring of events in memory of the log daemon, where it stays when
//! its writer has ended. `scif_abi::trace` defines the layout.

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_CREAT, O_RDWR};
use scif_abi::trace::{ENTRY_BYTES, Header, TRACE_BYTES, TraceEntry, entry_offset, slots};
use zerocopy::IntoBytes;

use hal::Result;
use hal::mem::{self, BoundsError, Region};

/// The path below which the log daemon keeps traces.
pub const DIRECTORY: &str = "/scheme/log/trace";

/// A trace that is being written, by one writer.
pub struct Ring {
    region: Region,
    slots: u32,
    /// Number of the next entry.
    next: u64,
}

impl Ring {
    /// Begins the trace `name` of a node. The trace that had this name is kept as `name.old`.
    ///
    /// # Errors
    /// Those of opening and mapping the trace; `EACCES` for callers other than root, `ENOENT`
    /// where the log daemon keeps no traces.
    pub fn create(name: &str, node: u16) -> Result<Self> {
        let path = alloc::format!("{DIRECTORY}/{name}");
        let file = Fd::open(&path, O_RDWR | O_CREAT | O_CLOEXEC, 0)?;
        let region = mem::map_shared(&file, TRACE_BYTES)?;
        Ok(Self::begin(region, node)?)
    }

    fn begin(region: Region, node: u16) -> core::result::Result<Self, BoundsError> {
        let bytes = region.len();
        region.zero(0, bytes)?;
        region.write_bytes(0, Header::new(node, bytes).as_bytes())?;
        let slots = slots(bytes).max(1);
        // The last slot is inside, so all are.
        region.part(entry_offset(u64::from(slots) - 1, slots), ENTRY_BYTES)?;
        Ok(Self {
            region,
            slots,
            next: 0,
        })
    }

    /// Writes an entry over the oldest one, and gives it its number.
    pub fn record(&mut self, mut entry: TraceEntry) {
        let place = entry_offset(self.next, self.slots);
        self.next += 1;
        entry.sequence = 0.into();
        // While the entry changes a reader finds no number; when it finds the number, the rest is
        // there. All slots are inside the region.
        let written = self.region.store_release_u64(place, 0).and_then(|()| {
            mem::write_fence();
            self.region.write_bytes(place, entry.as_bytes())?;
            self.region.store_release_u64(place, self.next)
        });
        debug_assert!(written.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use scif_abi::trace::{HEADER_BYTES, What, whole_entries};

    #[test]
    fn the_newest_entries_stay() {
        let region = Region::heap(HEADER_BYTES + 3 * ENTRY_BYTES + 7);
        let mut ring = Ring::begin(region.clone(), 2).expect("room for a ring");
        let read = |region: &Region| {
            let mut bytes = alloc::vec![0; region.len()];
            region.read_bytes(0, &mut bytes).expect("inside");
            let (header, entries) = whole_entries(&bytes).expect("a trace");
            assert_eq!((header.node.get(), header.slots.get()), (2, 3));
            let mut entries: Vec<TraceEntry> = entries.collect();
            entries.sort_by_key(|entry| entry.sequence.get());
            let values = entries.iter().map(|e| (e.sequence.get(), e.value.get()));
            values.collect::<Vec<_>>()
        };
        assert_eq!(read(&region), []);
        for value in 10..15 {
            ring.record(TraceEntry::new(What::Sent, 1, [2, 3], value));
        }
        assert_eq!(read(&region), [(3, 12), (4, 13), (5, 14)]);
    }

    #[test]
    fn a_ring_needs_room() {
        assert!(Ring::begin(Region::heap(HEADER_BYTES + ENTRY_BYTES - 1), 0).is_err());
        assert!(Ring::begin(Region::heap(8), 0).is_err());
    }
}
