//! The link between two virtual machines: one PCI device with two functions of QEMU's `ivshmem`.
//!
//! Function 0 is an `ivshmem-doorbell`: registers, MSI-X, and a small memory that both sides see
//! (the link memory, see `scif_abi::link`). Function 1 is an `ivshmem-plain` whose memory is the
//! peer's whole RAM: the offset in the BAR is the physical address at the peer. Its BAR has no
//! fixed address: when a link ends, the BAR moves, and old mappings of it reach nothing any more
//! (`aperture_window`, `address_pool`).
//!
//! Doorbells merge and carry no count: one means "poll the ring". The device drops them while
//! there is no peer or bus mastering is off.

mod address_pool;
mod aperture_window;
mod heartbeat;
pub mod link;

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use hal::aperture::Aperture;
use hal::irq::{self, Interrupt};
use hal::mem::{Cache, Region, physical_bits, write_fence};
use hal::mmio::Registers;
use hal::pci::msix::Vectors;
use hal::pci::protocol::Address;
use hal::pci::{self, Function, RawAccess};
use hal::{Error, Result};
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use syscall::error::{EINVAL, ENODEV};

use self::address_pool::AddressSlot;
use self::aperture_window::{ApertureWindow, MEMORY_BAR};
use self::link::Link;
use crate::function::{LinkStep, MicFunction, Outcome};
use crate::hardware::{Doorbell, Hardware};

/// Vendor and device of both kinds of ivshmem.
pub const IVSHMEM: (u16, u16) = (0x1af4, 0x1110);

/// Registers of `ivshmem-doorbell` (QEMU, docs/specs/ivshmem-spec).
const REGISTERS_BAR: usize = 0;
const REGISTERS_BYTES: usize = 16;
const IV_POSITION: usize = 8;
const DOORBELL: usize = 12;

/// A link device.
pub struct Vmic {
    /// Holds the exclusive right to drive the device.
    _function: Function,
    node: NodeId,
    peer: NodeId,
    link: Link,
    vectors: Vectors,
    aperture: ApertureWindow,
    doorbell: Rc<VmicDoorbell>,
}

/// Rings the peer through the doorbell register.
struct VmicDoorbell {
    registers: Registers,
    peer: NodeId,
    /// The vector that the peer asked for; the device ignores vectors that do not exist.
    vector: Cell<u16>,
}

impl Doorbell for VmicDoorbell {
    fn ring(&self) {
        // Make data and indices in the peer's memory visible before the interrupt that announces
        // them.
        write_fence();
        let place = u32::from(self.peer) << 16 | u32::from(self.vector.get());
        self.registers.write32(DOORBELL, place);
    }
}

/// Finds and opens all link devices of this machine. A device that cannot be used is logged and
/// left out. Returns the devices, and whether none was left out: the peer of a device that was
/// left out may still write to the memory of a previous driver, and nothing on this side can stop
/// it.
///
/// # Errors
/// Those of the `pci` scheme.
pub fn find() -> Result<(Vec<Vmic>, bool)> {
    let access = RawAccess::open()?;
    let mut devices: BTreeMap<(u16, u8, u8), Vec<Address>> = BTreeMap::new();
    for address in pci::list()? {
        if access.identity(address)? == IVSHMEM {
            let device = (address.segment, address.bus, address.device);
            devices.entry(device).or_default().push(address);
        }
    }
    let mut pairs = Vec::new();
    for addresses in devices.into_values() {
        match addresses[..] {
            [doorbell, plain] => pairs.push((doorbell, plain)),
            _ => log::warn!(
                "{}: a shared memory that is no link device: not used",
                addresses[0]
            ),
        }
    }
    let mut taken = Vec::new();
    for address in pci::list()? {
        // Only apertures move, each within its slot.
        if pairs.iter().all(|(_, plain)| *plain != address) {
            taken.extend(access.memory_bars(address)?);
        }
    }
    let space = address_pool::space(physical_bits(), &taken);
    let count = pairs.len() as u64;
    let mut found = Vec::new();
    for (index, (doorbell, plain)) in (0..).zip(pairs) {
        let space = space.clone();
        let slot = AddressSlot {
            space,
            index,
            count,
        };
        match Vmic::open(doorbell, plain, &slot) {
            Ok(vmic) => found.push(vmic),
            Err(error) => log::error!("{doorbell}: this link cannot be used: {error}"),
        }
    }
    let is_complete = found.len() as u64 == count;
    Ok((found, is_complete))
}

impl Vmic {
    fn open(place: Address, plain: Address, slot: &AddressSlot) -> Result<Self> {
        let mut doorbell = Function::open(place)?;
        doorbell.enable()?;
        // Before the link's record ends the connection of a previous driver.
        let aperture = ApertureWindow::new(plain, slot)?;
        let registers = doorbell.map_bar(REGISTERS_BAR, Cache::Uncached)?;
        let registers = Registers::new(registers, REGISTERS_BYTES)?;
        let position = registers.read32(IV_POSITION);
        let node = NodeId::try_from(position).map_err(|_| {
            log::error!("{place}: the fabric server gave no node number ({position:#x})");
            Error::new(ENODEV)
        })?;
        // This is ordinary memory of the host: shared and cached.
        let memory = doorbell.map_bar(MEMORY_BAR, Cache::WriteBack)?;
        let (link, peer) = Link::new(memory, node).map_err(|reason| {
            log::error!("{place}: the shared memory is no link of node {node}: {reason:?}");
            Error::new(EINVAL)
        })?;
        let vectors = Vectors::set_up(&mut doorbell, irq::boot_cpu()?, 1)?;
        log::info!(
            "{place}: link of node {node} with node {peer}, {} MiB reachable",
            aperture.bytes() >> 20
        );
        let vector = Cell::new(0);
        Ok(Self {
            _function: doorbell,
            node,
            peer,
            link,
            vectors,
            aperture,
            doorbell: Rc::new(VmicDoorbell {
                registers,
                peer,
                vector,
            }),
        })
    }

    /// Makes sure that nothing on this node reaches the peer's memory, then changes the link's
    /// record by `publish`.
    fn detach_then(&mut self, publish: impl FnOnce(&mut Link)) {
        if self.aperture.detach() {
            publish(&mut self.link);
            self.announce();
        } else {
            log::error!("the link with node {} cannot be used any more", self.peer);
            self.link.stop_publishing();
        }
    }

    /// Rings the peer if our record has changed.
    fn announce(&mut self) {
        if self.link.take_announcement() {
            let vector = self.link.peer_doorbell();
            self.doorbell.vector.set(u16::try_from(vector).unwrap_or(0));
            self.doorbell.ring();
        }
    }
}

impl Hardware for Vmic {
    fn interrupts(&self) -> &[Interrupt] {
        self.vectors.interrupts()
    }

    fn start(&mut self) -> Result<()> {
        self.vectors.unmask()
    }

    fn aperture(&mut self, is_mapped: bool) -> Result<Aperture> {
        self.aperture.get(is_mapped)
    }

    fn doorbell(&self) -> Rc<dyn Doorbell> {
        self.doorbell.clone()
    }

    fn spare(&self) -> Option<Region> {
        self.link.spare()
    }

    fn gathers_stores(&self) -> bool {
        // Mapped write-back, see `open`.
        false
    }
}

impl MicFunction for Vmic {
    fn node(&self) -> NodeId {
        self.node
    }

    fn peer(&self) -> NodeId {
        self.peer
    }

    fn set_timing(&mut self, timing: LinkTiming) {
        self.link.set_timing(timing);
    }

    fn step(&mut self, now: u64) -> Option<LinkStep> {
        let step = self.link.step(now);
        self.announce();
        step
    }

    fn done(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Attached { .. }
            | Outcome::Connected { is_usable: true }
            | Outcome::Probed { .. } => {
                self.link.done(outcome);
                self.announce();
            }
            Outcome::Connected { is_usable: false } | Outcome::Failed | Outcome::Detached => {
                self.detach_then(|link| link.done(outcome));
            }
        }
    }

    fn deadline(&self) -> u64 {
        self.link.deadline()
    }

    fn link_failed(&mut self) {
        if self.link.is_connected() {
            self.detach_then(Link::link_failed);
        }
    }

    fn leave(&mut self) {
        self.detach_then(Link::leave);
    }

    fn predecessor_is_quiesced(&self) -> bool {
        self.link.predecessor_is_quiesced()
    }
}
