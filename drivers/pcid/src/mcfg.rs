//! The MCFG table: the places of memory-mapped configuration space.

use alloc::vec::Vec;

use hal::pci::config::EcamRange;

/// Bytes before the first allocation: table header and a reserved word.
const ALLOCATIONS: usize = 44;
/// Bytes of an allocation: base, segment, first and last bus, reserved.
const ALLOCATION_BYTES: usize = 16;

/// The allocations of an MCFG table. Invalid ones are left out.
pub fn ranges(table: &[u8]) -> Vec<EcamRange> {
    let allocations = table.get(ALLOCATIONS..).unwrap_or(&[]);
    let range = |entry: &[u8; ALLOCATION_BYTES]| {
        let [
            b0,
            b1,
            b2,
            b3,
            b4,
            b5,
            b6,
            b7,
            s0,
            s1,
            first_bus,
            last_bus,
            ..,
        ] = *entry;
        EcamRange {
            base: u64::from_le_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            segment: u16::from_le_bytes([s0, s1]),
            first_bus,
            last_bus,
        }
    };
    let valid = |range: &EcamRange| {
        range.base != 0 && range.base.is_multiple_of(1 << 20) && range.first_bus <= range.last_bus
    };
    let (entries, _) = allocations.as_chunks::<ALLOCATION_BYTES>();
    entries.iter().map(range).filter(valid).collect()
}
