//! The Xeon Phi coprocessor x100 (PCI 8086:2250 to 225e), driven from its host.
//!
//! ```text
//!   ┌──┐ POST code F2, F4        queue pair, image, start      the card's queue pair
//!   ▼  │                       ┌──────────────────────► Booting ──────────────────► Running
//! Resetting ─── firmware ──► Ready                         │                           │
//!   ▲  │ 300 s                                             │ 180 s, crash       crash, silence,
//!   │  ▼                                                   ▼             command, given up
//!   │ Failed  (the link:) Detaching ◄── Quieting ◄── Draining ◄── Failing ◄────────────┘
//!   │                        1 s later      │
//!   └───────────────────────────────────────┘
//! ```
//!
//! A card that shall not write to the host's memory any more is reset, and the memory kept until
//! the reset has certainly happened. So every link ends with a reset, and a driver begins with one,
//! as its predecessor may have left a card that runs. What cannot be reset (a card that does not
//! answer, one that cannot be opened) is kept from the bus: it is a bus master from the moment its
//! firmware is ready, and not before.
//!
//! Host and card find each other's queue pairs through a device page ([`page`]). Mappings of the
//! card's memory cannot be cut off, so a card is not booted again before programs have unmapped
//! it.
//!
//! Registers are in [`registers`], with their source. Everything here reaches them through
//! [`Mmio`], and the machine through [`Slot`]: `tests/x100` has a model of both.

mod boot;
mod bus;
pub mod dma;
mod function;
pub mod identity;
pub mod image;
mod interrupts;
mod lifecycle;
mod liveness;
pub mod page;
pub mod registers;
pub mod slot;
pub mod smpt;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use hal::aperture::Aperture;
use hal::mem::drain_writes;
use hal::mem::{PAGE, Region};
use hal::mmio::Mmio;
use hal::{Error, Result};
use scif_abi::NodeId;
use scif_abi::limits::{HOST_NODE, LinkTiming, MAX_NODE};
use scif_core::DownReason;
use syscall::error::{EINVAL, ENODEV, ENOMEM};

use self::boot::Boot;
use self::bus::BusState;
use self::dma::Dma;
use self::identity::Identity;
use self::liveness::Liveness;
use self::page::DevicePage;
use self::registers::{ALL_ONES, CARD_INTERRUPTS, ICR_SEND, IDENTITY, POSTCODE, apicicr, rdmasr};
use self::slot::{Interrupts, Slot};
use self::smpt::Smpt;
use crate::function::MicFunction;
use crate::hardware::Doorbell;

const SECOND_NS: u64 = 1_000_000_000;

/// Between the reset and the first look at a register, and between two looks.
const LOOK_NS: u64 = SECOND_NS;
/// Until a card that does not get ready is given up.
const READY_NS: u64 = 300 * SECOND_NS;
/// Until a card that was started must have answered.
const BOOT_NS: u64 = 180 * SECOND_NS;
/// Until a card that was asked to shut down is reset anyway.
const SHUTDOWN_NS: u64 = 60 * SECOND_NS;
/// Between two looks whether the DMA engine is done.
const DRAIN_NS: u64 = SECOND_NS / 100;

/// The card's doorbell for messages, and the one by which it reports its state.
const MESSAGE_DOORBELL: usize = 0;
const STATE_DOORBELL: usize = 1;
/// The value it reports by the latter when its system has crashed.
const CRASHED: u32 = 0xdead;

/// What the card does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// Nothing is known yet.
    Found,
    /// It was reset, the first time then; to be looked at next then.
    Resetting { since: u64, look: u64 },
    /// Its firmware waits for an image.
    Ready,
    /// Its system is written into its memory.
    Loading,
    /// Its system was started and has to answer until then.
    Booting { until: u64 },
    /// Its system has answered.
    Running,
    /// Its system was asked to end, and has time until then.
    Stopping { until: u64 },
    /// It does not get ready.
    Failed,
    /// It does not answer on the bus any more; to be looked for again then.
    Gone { look: u64 },
}

/// How far the link is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Link {
    /// There is none; it may be made from then on.
    Down { since: u64 },
    /// [`Step::Attach`] was asked for.
    Attaching,
    /// The card may find our queue pair.
    Published,
    /// [`Step::Connect`] was asked for, with the card's queue pair.
    Connecting { queue_pair: u64 },
    /// Both use each other's queue pair.
    Connected { queue_pair: u64 },
    /// To be ended.
    ToFail { reason: DownReason },
    /// [`Step::Fail`] was asked for.
    Failing,
    /// The DMA engine ends what it has begun, until then at most.
    Draining { until: u64 },
    /// The card is reset or kept from the bus, and has time until then to notice.
    Quieting { until: u64 },
    /// It writes no more, and [`Step::Detach`] was asked for.
    Detaching,
}

/// A card.
pub struct X100 {
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
    identity: Identity,
    state: State,
    link: Link,
    boot: Boot,
    bus: BusState,
    liveness: Liveness,
    /// That its memory is still mapped was logged since it was reset.
    mapping_is_logged: bool,
    /// Registers may be read: it was not reset in the last second.
    is_settled: bool,
    /// It was reset since this driver runs, long enough ago, or is kept from the bus for good.
    was_reset: bool,
    timing: LinkTiming,
    now: u64,
    next_look: u64,
    /// When the DMA engine must have made progress.
    stall_at: Option<u64>,
}

/// Interrupts the card.
struct CardDoorbell {
    registers: Rc<dyn Mmio>,
    /// The interrupt that the card handles as its doorbell; `None`: no system runs there.
    number: Cell<Option<usize>>,
}

impl Doorbell for CardDoorbell {
    fn ring(&self) {
        let Some(number) = self.number.get() else {
            return;
        };
        // Data and indices in the card's memory before the interrupt that announces them.
        drain_writes();
        match number.checked_sub(CARD_INTERRUPTS) {
            // Counted from 0 here; the base of 17 belongs to the card's own numbers.
            Some(number) => self.registers.write32(rdmasr(number), 0),
            None => send_interrupt(&*self.registers, number),
        }
    }
}

/// Sends one of the interrupts of the first kind.
fn send_interrupt(registers: &dyn Mmio, number: usize) {
    let word = registers.read32(apicicr(number));
    // A card that is gone is found out by those who look after it.
    if word != ALL_ONES {
        registers.write32(apicicr(number), word | ICR_SEND);
    }
}

/// Memory of the host for as long as the driver lives, and where the card sees it.
fn shared(slot: &mut dyn Slot, smpt: &Smpt, bytes: usize) -> Result<(Region, u64)> {
    let (region, physical) = slot.memory(bytes)?;
    let address = smpt.keep(physical).ok_or(Error::new(ENOMEM))?;
    Ok((region, address))
}

/// Adds a card to the functions of a machine: it becomes the first node whose number is free. One
/// that cannot be opened is left out; what is wrong with it was logged.
pub fn add(functions: &mut Vec<Box<dyn MicFunction>>, slot: Box<dyn Slot>, shall_run: bool) {
    let is_free = |node: &NodeId| functions.iter().all(|function| function.peer() != *node);
    let Some(node) = (HOST_NODE + 1..=MAX_NODE).find(is_free) else {
        log::error!("{}: no node number is free: left out", slot.name());
        return;
    };
    if let Ok(card) = X100::open(slot, node, shall_run) {
        functions.push(Box::new(card));
    }
}

/// Says what is wrong with a card.
fn failure<'a>(name: &'a str, what: &'static str) -> impl FnOnce(Error) -> Error + 'a {
    move |error| {
        log::error!("{name}: {what}: {error}");
        error
    }
}

impl X100 {
    /// Takes a card, which gets the number `peer`, and is booted if `shall_run`. The card is reset
    /// by the first [`step`](MicFunction::step).
    ///
    /// # Errors
    /// `ENODEV` when its registers are not there; `ENOSPC` when no interrupt is free; `ENOMEM`.
    /// What is wrong is logged, and the card left harmless: reset if it answers, and no bus master.
    pub fn open(mut slot: Box<dyn Slot>, peer: NodeId, shall_run: bool) -> Result<Self> {
        let name = slot.name();
        let failed = |what: &'static str| failure(&name, what);
        let registers = slot
            .registers()
            .map_err(failed("its registers (BAR 4) cannot be mapped"))?;
        if registers.read32(IDENTITY) == ALL_ONES && registers.read32(POSTCODE) == ALL_ONES {
            let what = "SCRATCH13 (BAR 4 + 0x1ab54) and POSTCODE (BAR 4 + 0x242c) read all ones: \
                        the card is not on the bus; switch the machine off and on, or seat it anew";
            return Err(failed(what)(Error::new(ENODEV)));
        }
        let card = Self::with_registers(slot, registers.clone(), peer, shall_run);
        if card.is_err() {
            // Something may run on it: the driver before this one did not end it.
            registers::write_reset(&*registers);
        }
        card
    }

    fn with_registers(
        mut slot: Box<dyn Slot>,
        registers: Rc<dyn Mmio>,
        peer: NodeId,
        shall_run: bool,
    ) -> Result<Self> {
        let name = slot.name();
        let failed = |what: &'static str| failure(&name, what);
        if peer == HOST_NODE || u8::try_from(peer).is_err() {
            return Err(failed("a card cannot have this node number")(Error::new(
                EINVAL,
            )));
        }
        let aperture = slot.aperture().map_err(failed(
            "its memory (BAR 0) cannot be mapped: does the firmware place BARs \
                             above 4 GiB?",
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
        let doorbell = Rc::new(CardDoorbell {
            registers: registers.clone(),
            number: Cell::new(None),
        });
        log::info!(
            "{name}: Xeon Phi x100 as node {peer}, {} MiB reachable",
            aperture.len() >> 20
        );
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
            identity: Identity::default(),
            state: State::Found,
            link: Link::Down { since: 0 },
            boot: Boot::new(shall_run),
            bus: BusState::default(),
            liveness: Liveness::default(),
            mapping_is_logged: false,
            is_settled: false,
            was_reset: false,
            timing: LinkTiming::default(),
            now: 0,
            next_look: 0,
            stall_at: None,
        })
    }

    fn read(&self, register: usize) -> u32 {
        self.registers.read32(register)
    }

    fn write(&self, register: usize, value: u32) {
        self.registers.write32(register, value);
    }

    /// What was done by the DMA engine, and in its place, now and later.
    pub fn counters(&self) -> Rc<Cell<dma::Counters>> {
        self.dma.borrow().counters()
    }
}
