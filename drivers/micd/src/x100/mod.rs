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
//! A card that must no longer write to the host's memory is reset, and that memory is kept until
//! the reset has certainly happened. So every link ends with a reset. A driver begins with one as
//! well, because its predecessor may have left a card running. A card that cannot be reset (it
//! does not answer, or cannot be opened) is kept off the bus: a card is a bus master only from the
//! moment when its firmware is ready.
//!
//! Host and card find each other's queue pairs through a device page ([`page`]). Mappings of the
//! card's memory cannot be cut off, so a card is not booted again until programs have unmapped its
//! memory.
//!
//! The registers are in [`registers`], with their sources. All code here reaches them through
//! [`Mmio`], and the machine through [`Slot`]: `tests/x100` has a model of both.

mod boot;
mod bus;
mod device;
pub mod dma;
mod doorbell;
mod function;
pub mod identity;
pub mod image;
mod interrupts;
mod lifecycle;
mod liveness;
pub mod page;
pub mod registers;
mod resets;
pub mod slot;
pub mod smpt;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use hal::mmio::Mmio;
use hal::{Error, Result};
use scif_abi::NodeId;
use scif_abi::limits::{HOST_NODE, LinkTiming, MAX_NODE};
use scif_core::DownReason;
use syscall::error::ENODEV;

use self::boot::Boot;
use self::device::{Device, failure};
use self::identity::Identity;
use self::liveness::Liveness;
use self::registers::{ALL_ONES, IDENTITY, POSTCODE};
use self::resets::Resets;
use self::slot::Slot;
use crate::function::MicFunction;

const SECOND_NS: u64 = 1_000_000_000;

/// Nanoseconds between the reset and the first access to a register, and between two checks.
const CHECK_NS: u64 = SECOND_NS;
/// Nanoseconds after which a card that does not become ready is given up.
const READY_NS: u64 = 300 * SECOND_NS;
/// Nanoseconds within which a card that was started must answer.
const BOOT_NS: u64 = 180 * SECOND_NS;
/// Nanoseconds after which a card that was asked to shut down is reset anyway.
const SHUTDOWN_NS: u64 = 60 * SECOND_NS;
/// Nanoseconds between two checks whether the DMA engine has finished.
const DRAIN_NS: u64 = SECOND_NS / 100;

/// The card's doorbell with which it reports its state.
const STATE_DOORBELL: u32 = 1;
/// The value that it reports there when its system has crashed.
const CRASHED: u32 = 0xdead;

/// The state of the card.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The driver has not reached the card yet.
    Found,
    /// The card is being reset, for the first time since `since`. The next check is at `check`.
    Resetting { since: u64, check: u64 },
    /// Its firmware waits for an image.
    Ready,
    /// Its system is being written into its memory.
    Loading,
    /// Its system was started, and must answer before `until`.
    Booting { until: u64 },
    /// Its system has answered.
    Running,
    /// Its system was asked to shut down, and has time until `until`.
    Stopping { until: u64 },
    /// It does not become ready.
    Failed,
    /// It no longer answers on the bus. The next check is at `check`.
    Gone { check: u64 },
}

/// The state of the link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LinkState {
    /// There is none; one may be made from `since` on.
    Down { since: u64 },
    /// `LinkStep::Attach` was requested.
    Attaching,
    /// The card may find our queue pair.
    Published,
    /// `LinkStep::Connect` was requested, with the card's queue pair.
    Connecting { queue_pair: u64 },
    /// Both sides use each other's queue pair.
    Connected { queue_pair: u64 },
    /// The link has to be ended.
    ToFail { reason: DownReason },
    /// `LinkStep::Fail` was requested.
    Failing,
    /// The DMA engine finishes its transfers, until `until` at most.
    Draining { until: u64 },
    /// The card is being reset or kept off the bus, which takes effect by `until`.
    Quieting { until: u64 },
    /// The card no longer writes, and `LinkStep::Detach` was requested.
    Detaching,
}

/// A card.
pub struct X100 {
    device: Device,
    identity: Identity,
    state: State,
    link: LinkState,
    boot: Boot,
    liveness: Liveness,
    resets: Resets,
    timing: LinkTiming,
    now: u64,
    next_check: u64,
    /// The time by which the DMA engine must have made progress.
    stall_at: Option<u64>,
}

/// Adds a card to the functions of a machine: it becomes the first node whose number is free. A
/// card that cannot be opened is left out; the reason was logged.
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

impl X100 {
    /// Takes a card, which becomes the node `peer` and is booted if `shall_run`. The first
    /// [`step`](MicFunction::step) resets it.
    ///
    /// # Errors
    /// `ENODEV` when its registers are not there; `ENOSPC` when no interrupt is free; `ENOMEM`.
    /// The cause is logged, and the card left harmless: reset if it answers, and no bus master.
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
            // A system may run on it that the previous driver did not end.
            registers::write_reset(&*registers);
        }
        card
    }

    fn with_registers(
        slot: Box<dyn Slot>,
        registers: Rc<dyn Mmio>,
        peer: NodeId,
        shall_run: bool,
    ) -> Result<Self> {
        let device = Device::open(slot, registers, peer)?;
        log::info!(
            "{}: Xeon Phi x100 as node {peer}, {} MiB reachable",
            device.name(),
            device.aperture().len() >> 20
        );
        Ok(Self {
            device,
            identity: Identity::default(),
            state: State::Found,
            link: LinkState::Down { since: 0 },
            boot: Boot::new(shall_run),
            liveness: Liveness::default(),
            resets: Resets::default(),
            timing: LinkTiming::default(),
            now: 0,
            next_check: 0,
            stall_at: None,
        })
    }

    fn read(&self, register: usize) -> u32 {
        self.device.read(register)
    }

    fn write(&self, register: usize, value: u32) {
        self.device.write(register, value);
    }

    /// The counters of copies by the DMA engine, and by the CPU in its place.
    pub fn counters(&self) -> Rc<Cell<dma::Counters>> {
        self.device.dma().borrow().counters()
    }
}
