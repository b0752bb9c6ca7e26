//! Finds the functions of a machine.

use alloc::collections::BTreeMap;

use hal::pci::config::ConfigSpace;
use hal::pci::protocol::Address;
use pci_types::{PciAddress, PciHeader};

use crate::function::Function;

/// Vendor number that is read where no device is.
const NOBODY: u16 = 0xffff;

/// Checks every device of every bus that the configuration space covers. Buses are not found by
/// following bridges, because machines with several processors have more than one root bus.
pub fn scan(space: &ConfigSpace) -> BTreeMap<Address, Function> {
    let mut found = BTreeMap::new();
    for (segment, first_bus, last_bus) in space.buses() {
        for bus in first_bus..=last_bus {
            for device in 0..32 {
                scan_device(space, (segment, bus, device), &mut found);
            }
        }
    }
    found
}

fn scan_device(
    space: &ConfigSpace,
    (segment, bus, device): (u16, u8, u8),
    found: &mut BTreeMap<Address, Function>,
) {
    let mut functions = 1;
    for number in 0..8 {
        if number >= functions {
            break;
        }
        let address = PciAddress::new(segment, bus, device, number);
        let header = PciHeader::new(address);
        if header.id(space).0 == NOBODY {
            continue;
        }
        if number == 0 && header.has_multiple_functions(space) {
            functions = 8;
        }
        let function = Function::read(space, address);
        found.insert(function.config.address, function);
    }
}
