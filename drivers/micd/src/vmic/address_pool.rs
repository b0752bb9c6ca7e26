//! The physical addresses at which the apertures of this node's links may be. Each is reused only
//! when nothing can be mapped there any more.
//!
//! A mapping of a peer's memory cannot be taken away from a program. So the aperture moves to the
//! next address of its slot instead, and old mappings reach nothing. Three rules make that safe
//! without any state that outlives the driver:
//!
//! * No program has an address above the present one mapped.
//! * Each move goes one aperture up.
//! * The aperture goes back to the address where this driver began only while no program maps
//!   anything of the peer. At that address and below it the previous drivers may have been.
//!
//! So a driver that finds the aperture at some address, and has no list of the programs that map
//! it there, simply begins one aperture above.
//!
//! The slots are in the upper half of the physical address space, without its last eighth, which
//! new firmware uses. Under QEMU the root bus decodes every address there that no other function
//! has. On a real machine a function is reached only at addresses that the bridges above it
//! forward, so slots would have to be cut out of their windows. Also, by the bus's rules a load
//! from an empty address gives all ones, while the emulator may give zeros.

use core::ops::Range;

/// The part of the address space for apertures. It ends before the first of the addresses `taken`
/// by other functions.
pub fn space(physical_bits: u32, taken: &[u64]) -> Range<u64> {
    let half = 1_u64 << physical_bits.saturating_sub(1).min(62);
    let end = half / 4 * 7;
    // A BAR that begins below the middle ends there at the latest: its address is a multiple of
    // its size.
    let first = taken.iter().copied().filter(|place| *place >= half).min();
    half..first.map_or(end, |first| first.min(end))
}

/// The part of the address space for the aperture of one link.
#[derive(Clone, Debug)]
pub struct AddressSlot {
    /// The part of the address space for the apertures of all links.
    pub space: Range<u64>,
    /// Number of the link.
    pub index: u64,
    /// Number of links.
    pub count: u64,
}

/// The addresses of one aperture.
#[derive(Debug)]
pub struct AddressPool {
    range: Range<u64>,
    /// Length of the aperture, and so the distance between two addresses.
    bytes: u64,
    /// Index of the address where this driver began.
    first: u64,
    /// Index of the present address; `None` before the first move.
    present: Option<u64>,
}

impl AddressPool {
    /// The addresses in a slot for an aperture of `bytes` bytes (a power of two) that was found at
    /// `found`.
    pub fn new(slot: &AddressSlot, bytes: u64, found: u64) -> Self {
        let AddressSlot {
            space,
            index,
            count,
        } = slot;
        let bytes = bytes.max(1);
        let slot_bytes = (space.end - space.start) / count.max(&1) / bytes * bytes;
        let start = space.start.next_multiple_of(bytes) + index * slot_bytes;
        let range = start..(start + slot_bytes).min(space.end);
        let first = match found.checked_sub(range.start) {
            Some(offset) if found < range.end => offset / bytes + 1,
            // This is the firmware's address.
            _ => 0,
        };
        Self {
            range,
            bytes,
            first,
            present: None,
        }
    }

    /// Goes to the next address. `None` at the end of the slot.
    pub fn advance(&mut self) -> Option<u64> {
        self.enter(self.present.map_or(self.first, |present| present + 1))
    }

    /// Goes back to the first address, because nothing is mapped. `None` when the aperture is
    /// there.
    pub fn rewind(&mut self) -> Option<u64> {
        match self.present {
            Some(present) if present > self.first => self.restart(),
            _ => None,
        }
    }

    /// Goes to the first address, because nothing is mapped and the aperture is nowhere. `None`
    /// when the slot has none.
    pub fn restart(&mut self) -> Option<u64> {
        self.enter(self.first)
    }

    fn enter(&mut self, index: u64) -> Option<u64> {
        let offset = index.checked_mul(self.bytes)?;
        let address = self.range.start.checked_add(offset)?;
        let end = address.checked_add(self.bytes)?;
        if end > self.range.end {
            return None;
        }
        self.present = Some(index);
        Some(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn pool((space, index, count): (&Range<u64>, u64, u64), bytes: u64, found: u64) -> AddressPool {
        let space = space.clone();
        let slot = AddressSlot {
            space,
            index,
            count,
        };
        AddressPool::new(&slot, bytes, found)
    }

    #[test]
    fn the_space_is_free_of_what_is_known() {
        assert_eq!(space(40, &[]), 1 << 39..7 << 37);
        assert_eq!(space(40, &[0xfebf_0000, 1 << 38]), 1 << 39..7 << 37);
        assert_eq!(space(40, &[3 << 38, 5 << 37]), 1 << 39..5 << 37);
        assert!(space(40, &[1 << 39]).is_empty());
    }

    #[test]
    fn slots_do_not_meet() {
        let space = space(40, &[]);
        let mut end = space.start;
        for index in 0..3 {
            let mut addresses = pool((&space, index, 3), 256 * MIB, 0xc000_0000);
            let mut count = 0;
            while let Some(address) = addresses.advance() {
                assert!(address >= end && address.is_multiple_of(256 * MIB));
                end = address + 256 * MIB;
                count += 1;
            }
            assert!(count >= 500 && end <= space.end, "{count} addresses");
        }
    }

    #[test]
    fn a_new_driver_begins_above_all_that_may_be_mapped() {
        let space = space(40, &[]);
        let mut addresses = pool((&space, 0, 1), MIB, 0xc000_0000);
        let start = space.start;
        assert_eq!(addresses.advance(), Some(start));
        assert_eq!(addresses.rewind(), None);
        assert_eq!(addresses.advance(), Some(start + MIB));
        assert_eq!(addresses.advance(), Some(start + 2 * MIB));
        // Nothing is mapped at this moment.
        assert_eq!(addresses.rewind(), Some(start));
        assert_eq!(addresses.advance(), Some(start + MIB));
        // The driver dies here, and this address and the one before may still be mapped.
        let mut addresses = pool((&space, 0, 1), MIB, start + MIB);
        assert_eq!(addresses.advance(), Some(start + 2 * MIB));
        assert_eq!(addresses.advance(), Some(start + 3 * MIB));
        assert_eq!(addresses.rewind(), Some(start + 2 * MIB));
    }

    #[test]
    fn a_slot_has_an_end() {
        let space = 0..4 * MIB;
        let mut addresses = pool((&space, 0, 1), MIB, 2 * MIB);
        assert_eq!(addresses.advance(), Some(3 * MIB));
        assert_eq!(addresses.advance(), None);
        assert_eq!(addresses.restart(), Some(3 * MIB), "nothing is mapped");
        let mut addresses = pool((&(0..MIB / 2), 0, 1), MIB, 9 * MIB);
        assert_eq!(addresses.advance(), None);
    }
}
