//! Configuration space, for the program that owns it (pcid): memory-mapped (ECAM) where the
//! firmware describes it, else through the ports of the original mechanism.
//!
//! Implements the access trait of the crate `pci_types`, whose methods are unsafe because
//! configuration writes can do anything to the machine. Reads of what does not exist give all
//! ones, as on the bus; writes to it go nowhere.

use alloc::vec::Vec;

use pci_types::{ConfigRegionAccess, PciAddress};

use super::protocol::Address;
use super::simulated::SimulatedMachine;
use crate::mem::{Cache, Region, map_physical};
use crate::port::Ports;

/// Bytes of one bus in an ECAM range: 32 devices × 8 functions × 4 KiB.
const BUS_BYTES: usize = 1 << 20;
/// Bytes of a function's configuration space that the ports reach.
const PORT_CONFIG_BYTES: u16 = 256;
/// Bytes of a function's configuration space in an ECAM range.
const ECAM_CONFIG_BYTES: u16 = 4096;
const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
const CONFIG_ENABLE: u32 = 1 << 31;

/// An allocation of the MCFG table: where the configuration spaces of some buses are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct EcamRange {
    /// Physical address of **bus 0**, whether or not the range begins with it.
    pub base: u64,
    /// Segment group.
    pub segment: u16,
    /// First bus.
    pub first_bus: u8,
    /// Last bus.
    pub last_bus: u8,
}

/// The machine's configuration space.
pub struct ConfigSpace {
    access: Access,
}

enum Access {
    /// The ranges with their mappings. Each is mapped as a whole: mapping one bus after the other
    /// to look at it takes several times as long.
    Ecam(Vec<(EcamRange, Region)>),
    Ports(Ports),
    Simulated(SimulatedMachine),
}

impl ConfigSpace {
    /// Memory-mapped access. Ranges that cannot be mapped are reported and left out.
    pub fn ecam(ranges: Vec<EcamRange>) -> Self {
        let mapped = ranges.into_iter().filter_map(|range| {
            let buses = usize::from(range.last_bus.checked_sub(range.first_bus)?) + 1;
            let start = range
                .base
                .checked_add(u64::from(range.first_bus) * BUS_BYTES as u64)?;
            match map_physical(start, buses * BUS_BYTES, Cache::Uncached) {
                Ok(region) => Some((range, region)),
                Err(error) => {
                    log::error!("pci: cannot map configuration space at {start:#x}: {error}");
                    None
                }
            }
        });
        Self {
            access: Access::Ecam(mapped.collect()),
        }
    }

    /// Access through ports 0xCF8 and 0xCFC: segment 0 only, 256 bytes per function.
    pub fn ports(ports: Ports) -> Self {
        Self {
            access: Access::Ports(ports),
        }
    }

    /// A machine in memory, for tests.
    pub fn simulated(machine: SimulatedMachine) -> Self {
        Self {
            access: Access::Simulated(machine),
        }
    }

    /// The segments and buses to look at: (segment, first bus, last bus).
    pub fn buses(&self) -> Vec<(u16, u8, u8)> {
        match &self.access {
            Access::Ecam(ranges) => ranges
                .iter()
                .map(|(range, _)| (range.segment, range.first_bus, range.last_bus))
                .collect(),
            Access::Ports(_) | Access::Simulated(_) => alloc::vec![(0, 0, 255)],
        }
    }

    /// Bytes of configuration space a function has here.
    pub fn function_bytes(&self) -> u16 {
        match self.access {
            Access::Ecam(_) => ECAM_CONFIG_BYTES,
            Access::Ports(_) | Access::Simulated(_) => PORT_CONFIG_BYTES,
        }
    }
}

/// The mapping that holds a register, and the register's offset in it.
fn ecam_place(
    ranges: &[(EcamRange, Region)],
    address: PciAddress,
    offset: u16,
) -> Option<(&Region, usize)> {
    let bus = address.bus();
    let covers = |range: &EcamRange| {
        range.segment == address.segment() && (range.first_bus..=range.last_bus).contains(&bus)
    };
    let (range, region) = ranges.iter().find(|(range, _)| covers(range))?;
    let place = usize::from(bus - range.first_bus) << 20
        | usize::from(address.device()) << 15
        | usize::from(address.function()) << 12
        | usize::from(offset & !3);
    (offset < ECAM_CONFIG_BYTES).then_some((region, place))
}

fn port_address(address: PciAddress, offset: u16) -> Option<u32> {
    let reachable = address.segment() == 0 && offset < PORT_CONFIG_BYTES;
    reachable.then(|| {
        CONFIG_ENABLE
            | u32::from(address.bus()) << 16
            | u32::from(address.device()) << 11
            | u32::from(address.function()) << 8
            | u32::from(offset & !3)
    })
}

impl ConfigRegionAccess for ConfigSpace {
    unsafe fn read(&self, address: PciAddress, offset: u16) -> u32 {
        match &self.access {
            Access::Ecam(ranges) => ecam_place(ranges, address, offset)
                .and_then(|(region, place)| region.read(place).ok())
                .unwrap_or(u32::MAX),
            Access::Ports(ports) => {
                let Some(selector) = port_address(address, offset) else {
                    return u32::MAX;
                };
                ports.write32(CONFIG_ADDRESS, selector);
                ports.read32(CONFIG_DATA)
            }
            Access::Simulated(machine) => machine.read(address_of(address), offset),
        }
    }

    unsafe fn write(&self, address: PciAddress, offset: u16, value: u32) {
        match &self.access {
            Access::Ecam(ranges) => {
                if let Some((region, place)) = ecam_place(ranges, address, offset) {
                    // Cannot fail: the place lies inside the range.
                    let _ = region.write(place, value);
                }
            }
            Access::Ports(ports) => {
                if let Some(selector) = port_address(address, offset) {
                    ports.write32(CONFIG_ADDRESS, selector);
                    ports.write32(CONFIG_DATA, value);
                }
            }
            Access::Simulated(machine) => machine.write(address_of(address), offset, value),
        }
    }
}

/// The address in the form that messages use.
pub fn address_of(address: PciAddress) -> Address {
    Address {
        segment: address.segment(),
        bus: address.bus(),
        device: address.device(),
        function: address.function(),
    }
}

/// Reads 32 bits of a function's configuration space.
pub fn read(space: &ConfigSpace, address: PciAddress, offset: u16) -> u32 {
    // SAFETY: reads of configuration space have no effect on memory; the access checks its place.
    unsafe { space.read(address, offset) }
}

/// Writes 32 bits of a function's configuration space. What that does to the machine is the
/// caller's decision: only the program that owns the `pci` scheme has a [`ConfigSpace`].
pub fn write(space: &ConfigSpace, address: PciAddress, offset: u16, value: u32) {
    // SAFETY: the access checks its place; devices that can reach memory are trusted by the
    // program that drives them, and drivers hold the exclusive channel through which these writes
    // come.
    unsafe { space.write(address, offset, value) }
}
