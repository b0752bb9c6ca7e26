//! A card as a device: everything through which the driver reaches it, and it reaches the host.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::RefCell;

use hal::aperture::Aperture;
use hal::mem::{PAGE, Region};
use hal::mmio::Mmio;
use hal::{Error, Result};
use scif_abi::NodeId;
use scif_abi::limits::HOST_NODE;
use syscall::error::{EINVAL, ENOMEM};

use super::bus::BusState;
use super::dma::{self, Dma};
use super::doorbell::CardDoorbell;
use super::image::Files;
use super::page::{Answer, DevicePage};
use super::registers::{self, CAUSES, MXAR0, PAGE_HIGH, PAGE_LOW, SICE0};
use super::slot::{Interrupts, Slot};
use super::smpt::Smpt;

/// The card's doorbell for messages.
const MESSAGE_DOORBELL: u8 = 0;

/// A card's device.
pub(super) struct Device {
    slot: Box<dyn Slot>,
    name: String,
    peer: NodeId,
    registers: Rc<dyn Mmio>,
    aperture: Aperture,
    interrupts: Box<dyn Interrupts>,
    page: DevicePage,
    page_at: u64,
    smpt: Rc<Smpt>,
    dma: Rc<RefCell<Dma>>,
    doorbell: Rc<CardDoorbell>,
    bus: BusState,
}

/// Memory of the host that stays until the driver ends, and the card's address of it.
fn shared(slot: &mut dyn Slot, smpt: &Smpt, bytes: usize) -> Result<(Region, u64)> {
    let (region, physical) = slot.memory(bytes)?;
    let address = smpt.keep(physical).ok_or(Error::new(ENOMEM))?;
    Ok((region, address))
}

/// Logs what failed with a card, and passes the error on.
pub(super) fn failure<'a>(name: &'a str, what: &'static str) -> impl FnOnce(Error) -> Error + 'a {
    move |error| {
        log::error!("{name}: {what}: {error}");
        error
    }
}

impl Device {
    /// Maps and allocates what the driver needs for the card that becomes the node `peer`. Writes
    /// nothing to its registers.
    ///
    /// # Errors
    /// `EINVAL` for a number that no card can have; `ENODEV`, `ENOSPC`, `ENOMEM` as the slot's.
    /// The cause is logged.
    pub fn open(mut slot: Box<dyn Slot>, registers: Rc<dyn Mmio>, peer: NodeId) -> Result<Self> {
        let name = slot.name();
        let failed = |what: &'static str| failure(&name, what);
        if peer == HOST_NODE || u8::try_from(peer).is_err() {
            let what = "a card cannot have this node number";
            return Err(failed(what)(Error::new(EINVAL)));
        }
        let aperture = slot.aperture().map_err(failed(
            "its memory (BAR 0) cannot be mapped: does the firmware place BARs above 4 GiB?",
        ))?;
        let smpt = Rc::new(Smpt::new(registers.clone()));
        let (region, page_at) =
            shared(&mut *slot, &smpt, PAGE).map_err(failed("no memory for the device page"))?;
        let page = DevicePage::new(&region)?;
        let (rings, rings_at) = shared(&mut *slot, &smpt, dma::MEMORY_BYTES)
            .map_err(failed("no memory for DMA rings"))?;
        let dma = Dma::new(name.clone(), peer, registers.clone(), &rings, rings_at)?;
        let interrupts = slot
            .interrupts()
            .map_err(failed("no interrupt vector (MSI-X table entry 0)"))?;
        let doorbell = Rc::new(CardDoorbell::new(registers.clone()));
        Ok(Self {
            slot,
            name,
            peer,
            registers,
            aperture,
            interrupts,
            page,
            page_at,
            smpt,
            dma: Rc::new(RefCell::new(dma)),
            doorbell,
            bus: BusState::default(),
        })
    }

    /// The card's name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The card's node number.
    pub fn peer(&self) -> NodeId {
        self.peer
    }

    /// Its registers.
    pub fn registers(&self) -> &dyn Mmio {
        &*self.registers
    }

    /// Reads a register.
    pub fn read(&self, register: usize) -> u32 {
        self.registers.read32(register)
    }

    /// Writes a register.
    pub fn write(&self, register: usize, value: u32) {
        self.registers.write32(register, value);
    }

    /// Its memory.
    pub fn aperture(&self) -> &Aperture {
        &self.aperture
    }

    /// Its interrupts.
    pub fn interrupts(&self) -> &dyn Interrupts {
        &*self.interrupts
    }

    /// The card's fields of the device page.
    pub fn answer(&self) -> Result<Answer> {
        self.page.answer()
    }

    /// The card's heartbeat; 0 when it has none.
    pub fn heartbeat(&self) -> u64 {
        self.page.heartbeat().unwrap_or(0)
    }

    /// The table by which the card sees the host's memory.
    pub fn smpt(&self) -> &Rc<Smpt> {
        &self.smpt
    }

    /// Its DMA engine.
    pub fn dma(&self) -> &Rc<RefCell<Dma>> {
        &self.dma
    }

    /// Its doorbell for messages.
    pub fn doorbell(&self) -> &Rc<CardDoorbell> {
        &self.doorbell
    }

    /// The files that the card boots.
    ///
    /// # Errors
    /// Those of the slot.
    pub fn files(&mut self) -> Result<Rc<Files>> {
        self.slot.files()
    }

    /// Whether the card may write to the host's memory.
    pub fn is_bus_master(&self) -> bool {
        self.bus.is_master()
    }

    /// See [`BusState::set_master`].
    pub fn set_bus_master(&mut self, is_master: bool) {
        self.bus.set_master(&mut *self.slot, &self.name, is_master);
    }

    /// Resets the card. It may still write to the host's memory for a while.
    pub fn reset(&mut self) {
        // An access that fails on our own page can only be logged.
        if let Err(error) = self.page.withdraw() {
            log::error!("{}: the device page: {error}", self.name);
        }
        self.doorbell.set_number(None);
        registers::write_reset(&*self.registers);
        self.dma.borrow_mut().stop();
    }

    /// Ends all use of a card that is gone from the bus.
    pub fn abandon(&mut self) {
        self.set_bus_master(false);
        self.dma.borrow_mut().stop();
        self.doorbell.set_number(None);
    }

    /// Restores what a reset has undone. `is_first`: a card of the first stepping.
    pub fn set_up(&mut self, is_first: bool) {
        self.smpt.write_all();
        // Route all causes to vector 0.
        self.write(MXAR0, CAUSES);
        self.write(SICE0, CAUSES);
        if let Err(error) = self.dma.borrow_mut().set_up(is_first) {
            log::error!("{}: DMA rings: {error}", self.name);
        }
    }

    /// Publishes the host's queue pair to the card.
    pub fn publish(&self, queue_pair: u64) {
        // The number was checked when the card was opened.
        let peer = u8::try_from(self.peer).unwrap_or(u8::MAX);
        let published = self.page.publish(peer, MESSAGE_DOORBELL, queue_pair);
        if let Err(error) = published {
            log::error!("{}: the device page: {error}", self.name);
        }
        self.write(PAGE_LOW, self.page_at as u32);
        self.write(PAGE_HIGH, (self.page_at >> 32) as u32);
    }
}
