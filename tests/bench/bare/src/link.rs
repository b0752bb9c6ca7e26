//! Finds the link device to a peer in PCI configuration space, without taking it away from `micd`,
//! which drives it and has assigned the addresses of its BARs.

use alloc::vec::Vec;

use hal::mem::{Cache, Region, map_physical};
use hal::pci::protocol::Address;
use hal::pci::{self, RawAccess};
use scif_abi::NodeId;
use scif_abi::link::Header;
use scif_perf::perf::{Context, Failure, Result};
use zerocopy::FromBytes;

/// Vendor and device of both functions of a link device.
const IVSHMEM: (u16, u16) = (0x1af4, 0x1110);
/// BAR of the doorbell function's registers, and their length in bytes.
const REGISTERS_BAR: u16 = 0;
const REGISTERS_BYTES: usize = 16;
/// Register with this node's number.
const IV_POSITION: usize = 8;
/// BAR with the shared memory: link memory, or the peer's RAM.
const MEMORY_BAR: u16 = 2;

/// Offset of the first capability in configuration space, and the number of the capability for
/// MSI-X.
const CAPABILITIES: u16 = 0x34;
const MSIX: u32 = 0x11;
/// Most capabilities that a function can have: one for each word of the rest of its first 256
/// bytes.
const MAX_CAPABILITIES: usize = 48;
/// Bytes in an entry of the vector table.
const ENTRY_BYTES: usize = 16;

/// A link with a peer.
pub struct Link {
    /// The doorbell function's registers.
    pub registers: Region,
    /// Bus address of the peer's physical address 0.
    aperture: u64,
    access: RawAccess,
    doorbell: Address,
}

/// Returns the two functions of each link device: the doorbell and the peer's memory.
fn devices(access: &RawAccess) -> hal::Result<Vec<(Address, Address)>> {
    let mut found = Vec::new();
    for address in pci::list()? {
        let memory = Address {
            function: 1,
            ..address
        };
        if address.function == 0
            && access.identity(address)? == IVSHMEM
            && access.identity(memory)? == IVSHMEM
        {
            found.push((address, memory));
        }
    }
    Ok(found)
}

impl Link {
    /// Finds the link with `peer`.
    pub fn find(peer: NodeId) -> Result<Self> {
        let access = RawAccess::open().context("PCI configuration space (are you root?)")?;
        let devices = devices(&access).context("looking for link devices")?;
        for (doorbell, memory) in devices {
            let bar = |address, index| access.memory_bar(address, index);
            let registers = bar(doorbell, REGISTERS_BAR).context("the doorbell's registers")?;
            let registers = map(registers, REGISTERS_BYTES, Cache::Uncached)?;
            let shared = bar(doorbell, MEMORY_BAR).context("the link memory")?;
            let shared = map(shared, size_of::<Header>(), Cache::WriteBack)?;
            if peer_of(&registers, &shared)? == Some(peer) {
                let aperture = bar(memory, MEMORY_BAR).context("the aperture")?;
                return Ok(Self {
                    registers,
                    aperture,
                    access,
                    doorbell,
                });
            }
        }
        Err(alloc::format!("there is no link to node {peer}").into())
    }

    /// Maps `bytes` bytes of the peer's memory from one of its physical addresses on.
    pub fn map_peer(&self, physical: u64, bytes: usize) -> Result<Region> {
        let address = self.aperture.checked_add(physical);
        map(
            address.ok_or("the peer has no such address")?,
            bytes,
            Cache::WriteBack,
        )
    }

    /// Maps an entry of the device's table of interrupt vectors.
    pub fn vector(&self, number: usize) -> Result<Region> {
        let read = |offset| self.access.read(self.doorbell, offset);
        let read = |offset| read(offset).context("PCI configuration space");
        let mut at = read(CAPABILITIES)? as u8;
        for _ in 0..MAX_CAPABILITIES {
            // The two lowest bits are reserved.
            let place = u16::from(at & !3);
            if place == 0 {
                break;
            }
            let head = read(place)?;
            if head & 0xff != MSIX {
                at = (head >> 8) as u8;
                continue;
            }
            let last = (head >> 16 & 0x7ff) as usize;
            if number > last {
                return Err("the link device has too few interrupt vectors".into());
            }
            let table = read(place + 4)?;
            let bar = self.access.memory_bar(self.doorbell, (table & 7) as u16);
            let start = bar.context("the vector table")? + u64::from(table & !7);
            let entry = start + (number * ENTRY_BYTES) as u64;
            return map(entry, ENTRY_BYTES, Cache::Uncached);
        }
        Err("the link device has no interrupt vectors".into())
    }
}

fn map(physical: u64, bytes: usize, cache: Cache) -> Result<Region> {
    map_physical(physical, bytes, cache).context("mapping the link device")
}

/// Returns the other node's number, if this memory is a link's.
fn peer_of(registers: &Region, shared: &Region) -> Result<Option<NodeId>> {
    let bounds = |error: hal::mem::BoundsError| Failure::from(alloc::format!("{error}"));
    let position = registers.read::<u32>(IV_POSITION).map_err(bounds)?;
    let mut header = [0; size_of::<Header>()];
    shared.read_bytes(0, &mut header).map_err(bounds)?;
    let header = Header::read_from_bytes(&header).ok();
    let own = NodeId::try_from(position).ok();
    let sides = header
        .zip(own)
        .and_then(|(header, own)| header.side_of(own));
    Ok(sides.map(|(_, peer)| peer))
}
