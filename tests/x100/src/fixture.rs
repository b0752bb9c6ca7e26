//! The fixture: a host with micd's parts (links, memory, engine, copier), a card in one of its
//! slots, and simulated time.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hal::aperture::Aperture;
use hal::irq::Interrupt;
use hal::mem::{PAGE, Region};
use hal::mmio::Mmio;
use hal::testing::counting::drains;
use hal::{Error, Result};
use micd::copy_router::CopyRouter;
use micd::function::MicFunction;
use micd::links::Links;
use micd::memory::NodeMemory;
use micd::x100::X100;
use micd::x100::dma::Counters;
use micd::x100::image::Files;
use micd::x100::slot::{Interrupts, Slot};
use scheme_scif::{Card as CardInfo, CardCommand, Doorbells, NodeMemory as _};
use scif_abi::{NodeId, PortId};
use scif_core::{
    Config, ConnectMode, EndpointId, Engine, Event, Memory, Owner, Pages, PinId, Run, Ticket,
};
use syscall::error::{EIO, ENOSPC};

use crate::card::{self, Accesses, Card};
use crate::host::{HostRam, Source};
use crate::uos::{Behaviour, Uos, checksum};

/// The card's node.
pub const CARD: NodeId = 1;
/// Nanoseconds of one turn.
const TURN_NS: u64 = 10_000;
/// Turns without an event after which time jumps to the next deadline.
const QUIET_TURNS: u32 = 3;

/// The user that opens endpoints.
pub const USER: Owner = Owner {
    process: 7,
    user: 1000,
};

/// The fault of the slot.
#[derive(Clone, Copy, Debug, Default)]
pub struct SlotFaults {
    /// No MSI-X vector is free.
    pub no_vector: bool,
}

/// The registers as the driver reaches them.
pub struct Window(pub Rc<RefCell<Card>>);

impl Mmio for Window {
    fn read32(&self, offset: usize) -> u32 {
        self.0.borrow_mut().read(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.0.borrow_mut().write(offset, value);
    }
}

/// No files: the fixture looks for messages itself.
struct NoInterrupts;

impl Interrupts for NoInterrupts {
    fn files(&self) -> &[Interrupt] {
        &[]
    }

    fn unmask(&self) -> Result<()> {
        Ok(())
    }
}

/// The slot of the card.
pub struct ModelSlot {
    /// The card in it.
    pub card: Rc<RefCell<Card>>,
    /// The machine's memory.
    pub host: Rc<HostRam>,
    /// The image to be booted.
    pub files: Rc<RefCell<Files>>,
    /// Its fault.
    pub faults: SlotFaults,
}

impl Slot for ModelSlot {
    fn name(&self) -> String {
        "0000--03--00.0".into()
    }

    fn registers(&mut self) -> Result<Rc<dyn Mmio>> {
        Ok(Rc::new(Window(self.card.clone())))
    }

    fn aperture(&mut self) -> Result<Aperture> {
        let memory = self.card.borrow().memory.clone();
        Ok(Aperture::new(memory, 0x38_0000_0000))
    }

    fn interrupts(&mut self) -> Result<Box<dyn Interrupts>> {
        match self.faults.no_vector {
            true => Err(Error::new(ENOSPC)),
            false => Ok(Box::new(NoInterrupts)),
        }
    }

    fn memory(&mut self, bytes: usize) -> Result<(Region, u64)> {
        self.host.allocate(bytes).ok_or(Error::new(ENOSPC))
    }

    fn set_bus_master(&mut self, is_master: bool) -> Result<()> {
        let mut card = self.card.borrow_mut();
        if card.faults.no_config {
            return Err(Error::new(EIO));
        }
        card.is_master = is_master;
        Ok(())
    }

    fn files(&mut self) -> Result<Rc<Files>> {
        Ok(Rc::new(self.files.borrow().clone()))
    }
}

/// A kernel image of `bytes` bytes with a correct header.
pub fn kernel(bytes: usize) -> Vec<u8> {
    let mut kernel: Vec<u8> = (0..bytes).map(|i| (i * 7 + (i >> 9)) as u8).collect();
    kernel[0x1f1] = 4;
    let paragraphs = (bytes as u32 - 5 * 512) / 16;
    kernel[0x1f4..0x1f8].copy_from_slice(&paragraphs.to_le_bytes());
    kernel[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    kernel[0x202..0x206].copy_from_slice(b"HdrS");
    kernel[0x218..0x220].fill(0);
    kernel
}

/// A host and a card.
pub struct Fixture {
    /// The hardware.
    pub card: Rc<RefCell<Card>>,
    /// The system that runs on it.
    pub uos: Option<Uos>,
    /// How the next system behaves.
    pub behaviour: Behaviour,
    /// The files in the host's file system.
    pub files: Rc<RefCell<Files>>,
    /// The machine's memory.
    pub host: Rc<HostRam>,
    /// micd's links.
    pub links: Links,
    /// The host's SCIF.
    pub engine: Engine,
    /// The memory that it works on.
    pub memory: NodeMemory<Source>,
    copier: CopyRouter,
    /// The counts of the driver's side of the DMA engine.
    pub counters: Rc<Cell<Counters>>,
    /// Uses of the host's pages that have ended.
    pub released: Vec<PinId>,
    /// Nodes that came and went.
    pub node_events: Vec<Event>,
    /// Checksum of the kernel that the card is to be given.
    sum: u32,
    /// Descriptors that the DMA engine executes in a turn.
    pub dma_per_turn: usize,
    /// Time in nanoseconds.
    pub now: u64,
    pins: u64,
    /// Bytes of the host's engine after the last turn.
    allocated: usize,
}

impl Fixture {
    /// A machine with a card of this stepping (SCRATCH13, bits 7:4) that shall run.
    pub fn new(stepping: u32) -> Self {
        Self::with_memory(stepping, HostRam::new())
    }

    /// The same with other memory of the host.
    pub fn with_memory(stepping: u32, host: Rc<HostRam>) -> Self {
        Self::with_functions(stepping, host, Vec::new())
    }

    /// The same with other functions beside it.
    pub fn with_functions(
        stepping: u32,
        host: Rc<HostRam>,
        others: Vec<Box<dyn MicFunction>>,
    ) -> Self {
        let card = Rc::new(RefCell::new(Card::new(host.clone(), stepping)));
        let kernel = kernel(300_000);
        let sum = checksum(&kernel);
        let files = Rc::new(RefCell::new(Files {
            kernel,
            ram_disk: b"the initial file system".to_vec(),
            command_line: "quiet".into(),
        }));
        let slot = ModelSlot {
            card: card.clone(),
            host: host.clone(),
            files: files.clone(),
            faults: SlotFaults::default(),
        };
        let function = X100::open(Box::new(slot), CARD, true).expect("the card");
        let counters = function.counters();
        let mut functions: Vec<Box<dyn MicFunction>> = vec![Box::new(function)];
        functions.extend(others);
        let mut links = Links::new(functions, true);
        links.start().expect("interrupts");
        let copier = links.copy_router();
        Self {
            card,
            uos: None,
            behaviour: Behaviour::default(),
            files,
            links,
            engine: Engine::new(Config::new(0)),
            memory: NodeMemory::new(Source(host.clone())),
            host,
            copier,
            counters,
            released: Vec::new(),
            node_events: Vec::new(),
            sum,
            dma_per_turn: usize::MAX,
            now: 1,
            pins: 0,
            allocated: 0,
        }
    }

    /// One turn of everything; whether anything happened.
    pub fn turn(&mut self) -> bool {
        self.now += TURN_NS;
        let mut happened = self.turn_card();
        if self.card.borrow_mut().has_message() {
            happened = true;
            self.links.interrupt(0);
        }
        happened |= self.turn_host();
        happened
    }

    fn turn_card(&mut self) -> bool {
        self.card.borrow_mut().set_now(self.now);
        if self.uos.as_ref().is_some_and(Uos::is_dead) {
            self.uos = None;
        }
        if self.uos.is_none() {
            let interrupt = self.card.borrow_mut().take_interrupt();
            match interrupt {
                None => {}
                Some(card::Interrupt::Boot) => {
                    let uos = Uos::start(&self.card, self.behaviour, self.sum);
                    self.uos = Some(uos.expect("the card's system"));
                    return true;
                }
                Some(other) => {
                    let what = format!("{other:?} interrupts a card on which nothing runs");
                    self.card.borrow_mut().complaints.push(what);
                }
            }
        }
        let now = self.now;
        let mut happened = self.uos.as_mut().is_some_and(|uos| uos.turn(now));
        let mut card = self.card.borrow_mut();
        for _ in 0..self.dma_per_turn.min(64) {
            for channel in 0..4 {
                happened |= card.run_channel(channel);
            }
        }
        happened
    }

    /// The host serves the interrupts that have come, and nothing else happens.
    pub fn hear(&mut self) {
        if self.card.borrow_mut().has_message() {
            self.links.interrupt(0);
            self.links
                .poll(self.now, &mut self.engine, &mut self.memory);
        }
    }

    fn turn_host(&mut self) -> bool {
        let Self {
            engine,
            memory,
            copier,
            ..
        } = self;
        engine.tick(memory, self.now);
        self.links.poll(self.now, engine, memory);
        let mut happened = false;
        let released = self.released.len();
        if engine.has_work() || engine.awaits_copies() {
            happened = engine.pump(memory, copier, 1 << 20);
        }
        while let Some(event) = engine.next_event(memory) {
            happened = true;
            match event {
                Event::Ring(node) => memory.ring(node),
                Event::Unpin(pin) => self.released.push(pin),
                Event::LinkFailed(node) => {
                    self.node_events.push(event);
                    self.links.link_failed(node);
                }
                Event::NodeUp(_) | Event::NodeDown(_) => self.node_events.push(event),
                Event::Changed(_) | Event::Departed(_) => {}
            }
        }
        engine.check_invariants().expect("the host's engine");
        let allocated = memory.allocated_bytes();
        let is_freed = allocated < self.allocated || self.released.len() > released;
        self.allocated = allocated;
        let is_linked = engine.online_nodes().any(|node| node == CARD);
        let mut card = self.card.borrow_mut();
        if is_freed && !is_linked && card.may_write() {
            let what = "memory that the card was shown is freed, and the card may write to it";
            card.complaints.push(what.into());
        }
        happened
    }

    /// Runs until nothing happens for some turns.
    pub fn run_until_idle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1_000_000 {
            quiet = if self.turn() { 0 } else { quiet + 1 };
            if quiet >= QUIET_TURNS {
                return;
            }
        }
        panic!("it never gets quiet");
    }

    /// Runs until `is_so`, for at most `seconds` of simulated time, which jumps to the next
    /// deadline when all is quiet. Returns whether it was so.
    pub fn run_until(&mut self, seconds: u64, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + seconds * 1_000_000_000;
        let mut quiet = 0;
        while self.now < end {
            if is_so(self) {
                return true;
            }
            quiet = if self.turn() { 0 } else { quiet + 1 };
            if quiet >= QUIET_TURNS {
                let links = self.links.deadline().unwrap_or(u64::MAX);
                let next = self.engine.next_deadline().unwrap_or(u64::MAX);
                // The card's heart and firmware have times of their own.
                let tenth = self.now + 100_000_000;
                let due = links.min(next).min(tenth);
                self.now = self.now.max(due.saturating_sub(TURN_NS));
            }
        }
        is_so(self)
    }

    /// Whether both are connected.
    pub fn is_online(&self) -> bool {
        self.is_online_with(2)
    }

    /// Whether the host sees this number of nodes, and the card is connected.
    pub fn is_online_with(&self, nodes: usize) -> bool {
        let there = self.engine.online_nodes().count() == nodes;
        there
            && self
                .uos
                .as_ref()
                .is_some_and(|uos| uos.engine.online_nodes().count() == 2)
    }

    /// Runs until the card has booted and is online.
    pub fn boot(&mut self) {
        assert!(
            self.run_until(100, |fixture| fixture.is_online()),
            "{:?}",
            self.info()
        );
        self.run_until_idle();
    }

    /// The row that `scifctl cards` would show.
    pub fn info(&self) -> CardInfo {
        self.links.cards().remove(0)
    }

    /// The state of the card, in one word.
    pub fn state(&self) -> &'static str {
        self.info().state.name()
    }

    /// An administrator's command.
    pub fn command(&mut self, command: CardCommand) -> Result<()> {
        self.links.command(self.now, CARD, command)
    }

    /// Accesses to registers while this is done.
    pub fn count<T>(&mut self, what: impl FnOnce(&mut Self) -> T) -> (Accesses, T) {
        let (before, drained) = (self.card.borrow().accesses, drains());
        let result = what(self);
        let after = self.card.borrow().accesses;
        let counted = Accesses {
            reads: after.reads - before.reads,
            writes: after.writes - before.writes,
            drains: drains() - drained,
        };
        (counted, result)
    }

    /// The driver has done nothing wrong.
    pub fn check(&self) {
        let card = self.card.borrow();
        assert!(card.complaints.is_empty(), "{:#?}", card.complaints);
        assert_eq!((card.done.lost_interrupts, card.done.faults), (0, 0));
        // Nothing is done by the CPU that the engine could have done.
        let counters = self.counters.get();
        assert!(
            counters.repeated == 0 || counters.errors > 0,
            "{counters:?}"
        );
        assert_eq!(counters.errors, card.done.injected);
    }

    /// A connection: the host's end and the card's.
    pub fn connect(&mut self) -> (EndpointId, EndpointId) {
        let uos = self.uos.as_mut().expect("a running card");
        let listener = uos.engine.open(USER).unwrap();
        uos.engine.bind(listener, 2050).unwrap();
        uos.engine.listen(listener, 1).unwrap();
        let id = self.engine.open(USER).unwrap();
        let (to, mode) = (PortId::new(CARD, 2050), ConnectMode::Blocking);
        self.engine.connect(&mut self.memory, id, to, mode).unwrap();
        self.run_until_idle();
        let uos = self.uos.as_mut().unwrap();
        let accepted = uos
            .engine
            .accept_start(&mut uos.memory, listener, USER)
            .unwrap();
        self.run_until_idle();
        let uos = self.uos.as_mut().unwrap();
        assert!(uos.engine.accept_finish(accepted).is_ready());
        assert!(self.engine.connect_result(id).is_ready());
        uos.engine.close(&mut uos.memory, listener);
        (id, accepted)
    }

    /// Pages at a local address, as a driver hands them over.
    pub fn pages(&mut self, address: u64, bytes: usize) -> Pages {
        self.pins += 1;
        Pages {
            pin: PinId(self.pins),
            runs: vec![Run {
                address,
                pages: (bytes / PAGE) as u32,
            }],
            is_charged: false,
        }
    }

    /// Fresh memory of the host, to be registered at this offset: its local address, and the call.
    pub fn start_register(&mut self, id: EndpointId, bytes: usize, offset: i64) -> (u64, Ticket) {
        let address = self.memory.allocate(bytes).expect("memory of the host");
        let pages = self.pages(address, bytes);
        let memory = &mut self.memory;
        let ticket = self.engine.register(memory, id, pages, offset, 3, 0x10);
        (address, ticket.unwrap())
    }

    /// The same, registered with the card.
    pub fn register_host(&mut self, id: EndpointId, bytes: usize, offset: i64) -> u64 {
        let (address, ticket) = self.start_register(id, bytes, offset);
        self.finish(ticket);
        address
    }

    /// Fresh memory of the card, registered with the host.
    pub fn register_card(&mut self, id: EndpointId, bytes: usize, offset: i64) -> u64 {
        let uos = self.uos.as_mut().unwrap();
        let address = uos.memory.allocate(bytes).expect("memory of the card");
        let pages = self.pages(address, bytes);
        let uos = self.uos.as_mut().unwrap();
        let ticket = uos
            .engine
            .register(&mut uos.memory, id, pages, offset, 3, 0x10);
        let ticket = ticket.unwrap();
        self.run_until_idle();
        let uos = self.uos.as_mut().unwrap();
        let result = uos.engine.finish(ticket);
        result.expect("the call is done").unwrap();
        address
    }

    /// Waits for a call of the host.
    pub fn finish(&mut self, ticket: Ticket) -> u64 {
        self.run_until_idle();
        let result = self.engine.finish(ticket);
        result.expect("the call is done").unwrap()
    }
}

/// Bytes that tell where they are.
pub fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| (i % 251 + (i >> 12) + seed) as u8)
        .collect()
}
