//! The peer's memory as this node reaches it: the aperture's function and the place it is at.

use core::ops::Range;

use hal::aperture::Aperture;
use hal::mem::{Cache, PhysicalMemory};
use hal::pci::Function;
use hal::pci::protocol::{Address, Bar};
use hal::{Error, Result};
use syscall::error::{ENODEV, EOVERFLOW};

use super::MEMORY_BAR;
use super::address_pool::Places;

/// Which lane of the address space a link has.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The part of the address space for the apertures of all links.
    pub space: Range<u64>,
    /// Number of the link.
    pub index: u64,
    /// Number of links.
    pub count: u64,
}

/// The peer's memory.
pub struct Reach {
    function: Function,
    memory: PhysicalMemory,
    places: Places,
    bytes: usize,
    /// Where it is; `None` when it cannot be moved any more, and is nowhere.
    place: Option<u64>,
    /// At the present place, once asked for.
    aperture: Option<Aperture>,
    /// Nobody has been given anything at the present place.
    is_fresh: bool,
}

impl Reach {
    /// Takes the function, and ends what programs of an earlier driver reach through it.
    ///
    /// # Errors
    /// `ENODEV` when it has no memory; those of the `pci` scheme; `EIO` when it cannot be moved.
    pub fn new(address: Address, lane: &Lane) -> Result<Self> {
        let mut function = Function::open(address)?;
        function.enable()?;
        let bar = function.config().bars.get(MEMORY_BAR);
        let (found, bytes) = bar.and_then(Bar::memory).ok_or(Error::new(ENODEV))?;
        let places = Places::new(&lane.space, lane.index, lane.count, bytes, found);
        let mut reach = Self {
            function,
            // Ordinary memory of the host: caches are coherent with the peer's. Gathering stores
            // (`Cache::WriteCombining`) is for memory across a real bus. Here it moves nothing
            // faster: translated code ignores the attribute, and KVM overrides it for memory; but
            // it would let an index overtake the data before it.
            memory: PhysicalMemory::open(Cache::WriteBack)?,
            places,
            bytes: usize::try_from(bytes).map_err(|_| Error::new(EOVERFLOW))?,
            place: None,
            aperture: None,
            is_fresh: false,
        };
        reach.cut();
        if reach.place.is_none() {
            return Err(Error::new(ENODEV));
        }
        Ok(reach)
    }

    /// Bytes of the peer's memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// From here on nothing that anybody has mapped reaches the peer's memory; `false`: that cannot
    /// be achieved.
    pub fn cut(&mut self) -> bool {
        if self.is_fresh {
            return true;
        }
        self.aperture = None;
        self.place = None;
        let moved = match self.places.advance() {
            Some(place) => self.go_to(place),
            None => {
                log::error!(
                    "{}: no address is left to move the aperture to: the link stays down until the \
                     machine is restarted",
                    self.function.config().address
                );
                false
            }
        };
        moved || self.stop()
    }

    /// The peer's memory at its present place. `is_mapped`: some program has it mapped where it was
    /// before.
    ///
    /// # Errors
    /// `ENODEV` when it is nowhere; `ENOMEM`.
    pub fn aperture(&mut self, is_mapped: bool) -> Result<Aperture> {
        let place = self.place.ok_or(Error::new(ENODEV))?;
        if let Some(aperture) = &self.aperture
            && !self.is_fresh
        {
            return Ok(aperture.clone());
        }
        let back = if is_mapped {
            None
        } else {
            self.places.rewind()
        };
        let place = match back {
            Some(first) if self.go_to(first) => first,
            Some(_) => {
                self.stop();
                return Err(Error::new(ENODEV));
            }
            None => place,
        };
        let aperture = Aperture::new(self.memory.map(place, self.bytes)?, place);
        self.aperture = Some(aperture.clone());
        self.is_fresh = false;
        Ok(aperture)
    }

    fn go_to(&mut self, place: u64) -> bool {
        match self.function.move_bar(MEMORY_BAR, place) {
            Ok(()) => {
                self.place = Some(place);
                self.is_fresh = true;
                true
            }
            Err(error) => {
                log::error!(
                    "{}: the aperture cannot be moved to {place:#x}: {error}",
                    self.function.config().address
                );
                self.place = None;
                false
            }
        }
    }

    /// Turns the aperture off; whether that could be done.
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
