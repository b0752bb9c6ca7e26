//! The interface between the backend and the machine: a card's function on the bus, memory that
//! the card reaches, and the files that it boots. Tests put a model of the card behind it.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use hal::aperture::Aperture;
use hal::dma::Allocator;
use hal::irq::{self, Interrupt};
use hal::mem::{Cache, Region};
use hal::mmio::{Mmio, Registers};
use hal::pci::msix::Vectors;
use hal::pci::protocol::{Address, Bar};
use hal::pci::{self, Function, RawAccess};
use hal::{Error, Result};
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDONLY};
use syscall::error::{EINVAL, ENODEV, ENOENT};

use super::image::Files;
use super::registers::{APERTURE_BAR, DEVICES, REGISTERS_BAR, REGISTERS_BYTES, VENDOR};

/// The directory of the files that cards boot.
pub const FILES: &str = "/etc/mic/x100";
/// Bytes that one read of a file asks for.
const CHUNK: usize = 64 << 10;

/// The interrupts of a card.
pub trait Interrupts {
    /// The interrupts' files.
    fn files(&self) -> &[Interrupt];

    /// Unmasks the interrupts.
    ///
    /// # Errors
    /// An error means that the interrupt table is not there.
    fn unmask(&self) -> Result<()>;
}

impl Interrupts for Vectors {
    fn files(&self) -> &[Interrupt] {
        self.interrupts()
    }

    fn unmask(&self) -> Result<()> {
        Vectors::unmask(self)
    }
}

/// A card's place in the machine. At first the card is no bus master, so whatever a previous
/// driver left running on it writes to no memory.
pub trait Slot {
    /// The card's name in messages.
    fn name(&self) -> String;

    /// The card's registers.
    ///
    /// # Errors
    /// `ENODEV` when the BAR has no address, `EINVAL` when it is too short.
    fn registers(&mut self) -> Result<Rc<dyn Mmio>>;

    /// The card's memory.
    ///
    /// # Errors
    /// `ENODEV` when the BAR has no address.
    fn aperture(&mut self) -> Result<Aperture>;

    /// One interrupt for all causes.
    ///
    /// # Errors
    /// `ENOSPC` when no vector is free.
    fn interrupts(&mut self) -> Result<Box<dyn Interrupts>>;

    /// Zeroed memory of the host, contiguous, with its physical address.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn memory(&mut self, bytes: usize) -> Result<(Region, u64)>;

    /// Allows the card to write to the host's memory and send interrupts, or forbids it. When a
    /// call that forbids it returns, everything that the card had written has arrived.
    ///
    /// # Errors
    /// Those of the PCI driver; `EIO` when the card does not take the change.
    fn set_bus_master(&mut self, is_master: bool) -> Result<()>;

    /// The files that the card boots.
    ///
    /// # Errors
    /// `ENOENT` when there are none.
    fn files(&mut self) -> Result<Rc<Files>>;
}

/// A card on the PCI bus.
pub struct PciSlot {
    function: Function,
    files: Option<Rc<Files>>,
}

/// Finds all cards. A card that cannot be opened is logged and left out. Returns the cards, and
/// whether none was left out: such a card may have been left running.
///
/// # Errors
/// Those of the `pci` scheme.
pub fn find() -> Result<(Vec<PciSlot>, bool)> {
    let access = RawAccess::open()?;
    let mut addresses = Vec::new();
    for address in pci::list()? {
        let (vendor, device) = access.identity(address)?;
        if vendor == VENDOR && DEVICES.contains(&device) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Ok((Vec::new(), true));
    }
    // Read the files now, because no file can be opened later.
    let files = match read_files() {
        Ok(files) => Some(Rc::new(files)),
        Err(error) => {
            log::warn!("no files for cards to boot in {FILES}: {error}");
            None
        }
    };
    let open = |address: Address| match PciSlot::open(address, files.clone()) {
        Ok(slot) => Some(slot),
        Err(error) => {
            log::error!("{address}: this card cannot be opened, and may be running: {error}");
            None
        }
    };
    let count = addresses.len();
    let slots: Vec<PciSlot> = addresses.into_iter().filter_map(open).collect();
    let is_complete = slots.len() == count;
    Ok((slots, is_complete))
}

fn read_files() -> Result<Files> {
    let optional = |name: &str| match read_file(name) {
        Err(Error { errno: ENOENT }) => Ok(Vec::new()),
        other => other,
    };
    let line = optional("cmdline")?;
    let line = String::from_utf8(line).map_err(|_| {
        log::error!("{FILES}/cmdline is no text");
        Error::new(EINVAL)
    })?;
    Ok(Files {
        kernel: read_file("kernel")?,
        ram_disk: optional("initrd")?,
        command_line: line.trim().into(),
    })
}

fn read_file(name: &str) -> Result<Vec<u8>> {
    let file = Fd::open(&format!("{FILES}/{name}"), O_CLOEXEC | O_RDONLY, 0)?;
    let mut bytes = Vec::new();
    loop {
        let there = bytes.len();
        bytes.resize(there + CHUNK, 0);
        let count = file.read(&mut bytes[there..])?;
        bytes.truncate(there + count.min(CHUNK));
        if count == 0 {
            return Ok(bytes);
        }
    }
}

impl PciSlot {
    /// Whether there are files to boot.
    pub fn has_files(&self) -> bool {
        self.files.is_some()
    }

    fn open(address: Address, files: Option<Rc<Files>>) -> Result<Self> {
        let mut function = Function::open(address)?;
        function.enable_memory()?;
        Ok(Self { function, files })
    }
}

impl Slot for PciSlot {
    fn name(&self) -> String {
        format!("{}", self.function.config().address)
    }

    fn registers(&mut self) -> Result<Rc<dyn Mmio>> {
        let region = self.function.map_bar(REGISTERS_BAR, Cache::Uncached)?;
        Ok(Rc::new(Registers::new(region, REGISTERS_BYTES)?))
    }

    fn aperture(&mut self) -> Result<Aperture> {
        let bar = self.function.config().bars.get(APERTURE_BAR);
        let (physical, _) = bar.and_then(Bar::memory).ok_or(Error::new(ENODEV))?;
        let region = self.function.map_bar(APERTURE_BAR, Cache::WriteCombining)?;
        Ok(Aperture::new(region, physical))
    }

    fn interrupts(&mut self) -> Result<Box<dyn Interrupts>> {
        let cpu = irq::boot_cpu()?;
        Ok(Box::new(Vectors::set_up(&mut self.function, cpu, 1)?))
    }

    fn memory(&mut self, bytes: usize) -> Result<(Region, u64)> {
        let buffer = Allocator::new()?.allocate(bytes)?;
        Ok((buffer.region().clone(), buffer.physical()))
    }

    fn set_bus_master(&mut self, is_master: bool) -> Result<()> {
        self.function.set_bus_master(is_master)
    }

    fn files(&mut self) -> Result<Rc<Files>> {
        self.files.clone().ok_or(Error::new(ENOENT))
    }
}
