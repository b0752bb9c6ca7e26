//! The aperture of one link: the PCI function whose BAR is the peer's memory, and the address of
//! that BAR, which changes whenever a link ends.

use hal::aperture::Aperture;
use hal::mem::{Cache, PhysicalMemory};
use hal::pci::Function;
use hal::pci::protocol::{Address, Bar};
use hal::{Error, Result};
use syscall::error::{ENODEV, EOVERFLOW};

use super::address_pool::{AddressPool, AddressSlot};

/// The BAR with the shared memory, of both kinds of ivshmem.
pub const MEMORY_BAR: usize = 2;

/// An aperture that can be moved.
pub struct ApertureWindow {
    function: Function,
    memory: PhysicalMemory,
    addresses: AddressPool,
    bytes: usize,
    /// The BAR's address; `None` when there was none left for it and it decodes nothing.
    address: Option<u64>,
    /// The mapping at the present address, once it has been requested.
    aperture: Option<Aperture>,
    /// Whether no program has got the present address.
    is_fresh: bool,
}

impl ApertureWindow {
    /// Takes the function, and cuts off what programs have mapped of it under a previous driver.
    ///
    /// # Errors
    /// `ENODEV` when the function has no memory; those of the `pci` scheme; `EIO` when it cannot
    /// be moved.
    pub fn new(place: Address, slot: &AddressSlot) -> Result<Self> {
        let mut function = Function::open(place)?;
        function.enable()?;
        let bar = function.config().bars.get(MEMORY_BAR);
        let (found, bytes) = bar.and_then(Bar::memory).ok_or(Error::new(ENODEV))?;
        let mut window = Self {
            function,
            // Ordinary memory of the host: caches are coherent with the peer's. Gathering stores
            // (`Cache::WriteCombining`) is for memory across a real bus. Here it makes nothing
            // faster: translated code ignores the attribute, and KVM overrides it for memory. But
            // it would let an index overtake the data before it.
            memory: PhysicalMemory::open(Cache::WriteBack)?,
            addresses: AddressPool::new(slot, bytes, found),
            bytes: usize::try_from(bytes).map_err(|_| Error::new(EOVERFLOW))?,
            address: None,
            aperture: None,
            is_fresh: false,
        };
        window.detach();
        if window.address.is_none() {
            return Err(Error::new(ENODEV));
        }
        Ok(window)
    }

    /// Bytes of the peer's memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Cuts the peer's memory off from everything that programs have mapped. `false`: that is not
    /// possible.
    pub fn detach(&mut self) -> bool {
        if self.is_fresh {
            return true;
        }
        self.aperture = None;
        self.address = None;
        let moved = match self.addresses.advance() {
            Some(address) => self.move_to(address),
            None => {
                log::error!(
                    "{}: no address is left to move the aperture to: the link stays down until no \
                     program maps the peer's memory any more",
                    self.function.config().address
                );
                false
            }
        };
        moved || self.stop()
    }

    /// The peer's memory at its present address. `is_mapped`: some program still maps it at an
    /// earlier address.
    ///
    /// # Errors
    /// `ENODEV` when the aperture has no address; `ENOMEM`.
    pub fn get(&mut self, is_mapped: bool) -> Result<Aperture> {
        if let Some(aperture) = &self.aperture
            && !self.is_fresh
        {
            return Ok(aperture.clone());
        }
        let back = match self.address {
            _ if is_mapped => None,
            Some(_) => self.addresses.rewind(),
            None => self.addresses.restart(),
        };
        if let Some(first) = back
            && !self.move_to(first)
        {
            self.stop();
        }
        let address = self.address.ok_or(Error::new(ENODEV))?;
        let aperture = Aperture::new(self.memory.map(address, self.bytes)?, address);
        self.aperture = Some(aperture.clone());
        self.is_fresh = false;
        Ok(aperture)
    }

    fn move_to(&mut self, address: u64) -> bool {
        match self.function.move_bar(MEMORY_BAR, address) {
            Ok(()) => {
                self.address = Some(address);
                self.is_fresh = true;
                true
            }
            Err(error) => {
                log::error!(
                    "{}: the aperture cannot be moved to {address:#x}: {error}",
                    self.function.config().address
                );
                self.address = None;
                false
            }
        }
    }

    /// Turns the aperture off. Returns whether that succeeded.
    fn stop(&mut self) -> bool {
        let stopped = self.function.stop_decoding();
        if let Err(error) = stopped {
            log::error!(
                "{}: the aperture cannot be turned off: {error}",
                self.function.config().address
            );
        }
        self.is_fresh = stopped.is_ok();
        stopped.is_ok()
    }
}
