//! Finds the link device to a peer by looking at PCI configuration space, without taking it away
//! from `micd`, which drives it and has given its BARs their addresses.

use platform::mem::{Cache, Region, map_physical};
use platform::pci::protocol::Address;
use platform::pci::{self, RawAccess};
use scif_abi::NodeId;
use scif_abi::link::Header;
use zerocopy::FromBytes;

use crate::meeting::{self, MEETING_END};
use crate::{Failure, failed};

/// Vendor and device of both functions of a link device.
pub const IVSHMEM: (u16, u16) = (0x1af4, 0x1110);
/// The doorbell function's registers, and their length.
pub const REGISTERS_BAR: u16 = 0;
pub const REGISTERS_BYTES: usize = 16;
/// Register with the own node number.
pub const IV_POSITION: usize = 8;
/// BAR with the shared memory: link memory, or the peer's RAM.
pub const MEMORY_BAR: u16 = 2;

/// A link with a peer.
pub struct Link {
    pub peer: NodeId,
    /// Which of the two sides this node is; side 0 measures.
    pub side: usize,
    /// Where both sides leave word for each other.
    pub meeting: Region,
    /// Bus address at which the peer's physical address 0 is seen.
    pub aperture: u64,
}

/// The two functions of each link device: the doorbell and the peer's memory.
pub fn devices(access: &RawAccess) -> platform::Result<alloc::vec::Vec<(Address, Address)>> {
    let mut found = alloc::vec::Vec::new();
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

/// The link with `peer`, or the only one.
pub fn find(peer: Option<NodeId>) -> Result<Link, Failure> {
    let access = RawAccess::open().map_err(failed("PCI configuration space"))?;
    let mut links = alloc::vec::Vec::new();
    for (doorbell, memory) in devices(&access).map_err(failed("looking for link devices"))? {
        let link = look(&access, doorbell, memory)?;
        if peer.is_none_or(|peer| peer == link.peer) {
            links.push(link);
        }
    }
    match links.pop() {
        Some(link) if links.is_empty() => Ok(link),
        Some(_) => Err("there are several links: say which peer".into()),
        None => Err("there is no link to that node".into()),
    }
}

fn look(access: &RawAccess, doorbell: Address, memory: Address) -> Result<Link, Failure> {
    let bar = |address, index| {
        let found = access.memory_bar(address, index);
        found.map_err(failed("a BAR of the link device"))
    };
    let map = |physical, bytes, cache| {
        let mapped = map_physical(physical, bytes, cache);
        mapped.map_err(failed("mapping the link device"))
    };
    let registers = bar(doorbell, REGISTERS_BAR)?;
    let registers = map(registers, REGISTERS_BYTES, Cache::Uncached)?;
    let shared = bar(doorbell, MEMORY_BAR)?;
    let shared = map(shared, MEETING_END, Cache::WriteBack)?;
    let (side, peer) = sides(&registers, &shared)?;
    Ok(Link {
        peer,
        side,
        meeting: meeting::place(&shared)?,
        aperture: bar(memory, MEMORY_BAR)?,
    })
}

/// Which side this node is, and the other node's number.
pub fn sides(registers: &Region, shared: &Region) -> Result<(usize, NodeId), Failure> {
    let position = registers.read::<u32>(IV_POSITION);
    let position = position.map_err(failed("the device's registers"))?;
    let mut header = [0; size_of::<Header>()];
    let read = shared.read_bytes(0, &mut header);
    read.map_err(failed("the link memory"))?;
    let header = Header::read_from_bytes(&header).ok();
    let own = NodeId::try_from(position).ok();
    let sides = header
        .zip(own)
        .and_then(|(header, own)| header.side_of(own));
    sides.ok_or_else(|| "a shared memory is no link of this node".into())
}
