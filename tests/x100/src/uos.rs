//! The card's software: firmware that starts an image, and a system on it that runs SCIF as a node
//! of its own. Its protocol is that of the mainline driver's card side.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use hal::mem::Region;
use micd::x100::image::{AT_RAM_DISK, AT_RAM_DISK_BYTES};
use micd::x100::page::{
    AT_CARD_DOORBELL, AT_CARD_QUEUE_PAIR, AT_HEARTBEAT, AT_HOST_DOORBELL, AT_HOST_QUEUE_PAIR,
    AT_MAGIC, AT_NODE, is_magic,
};
use scif_abi::NodeId;
use scif_core::{BadAddress, Config, CpuEngine, Engine, Event, Memory, PinId, Place};

use crate::card::{Card, Interrupt, LOAD};

/// Where the system's own memory begins.
const FIRST_PAGE: u64 = 48 << 20;

/// How the system behaves.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// The doorbell it listens to: 0 to 7 APICICR, 8 to 15 RDMASR.
    pub doorbell: u8,
    /// Whether each index is stored twice, as a doorbell may overtake the last store.
    pub stores_twice: bool,
    /// Whether it counts its heartbeat.
    pub has_heart: bool,
    /// Whether it does anything at all.
    pub is_alive: bool,
    /// The address that it publishes as that of its queue pair instead.
    pub queue_pair: Option<u64>,
    /// Whether it heeds a request to shut down.
    pub is_polite: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            doorbell: 8,
            stores_twice: true,
            has_heart: true,
            is_alive: true,
            queue_pair: None,
            is_polite: true,
        }
    }
}

/// Memory of the card, and the host's through the SMPT.
pub struct CardMemory {
    card: Rc<RefCell<Card>>,
    own: Region,
    next: u64,
    free: BTreeMap<u64, usize>,
    /// The last index stored in the host's memory: it is on its way, and a doorbell is faster.
    late: Option<(u64, u32)>,
    /// Whether each index is stored twice.
    pub stores_twice: bool,
}

fn sure<T, E: core::fmt::Debug>(result: Result<T, E>) -> T {
    result.expect("the card's own memory")
}

impl CardMemory {
    fn host(&self, address: u64, bytes: usize) -> Result<Region, BadAddress> {
        if address < micd::x100::registers::SMPT_WINDOW {
            return Err(BadAddress);
        }
        let region = self.card.borrow_mut().reach(address, bytes);
        region.ok_or(BadAddress)
    }

    fn place(&self, place: Place, bytes: usize) -> Result<Region, BadAddress> {
        match place {
            Place::Own(address) => {
                let region = self.own.part(address as usize, bytes);
                region.map_err(|_| BadAddress)
            }
            Place::Peer(_, address) => self.host(address, bytes),
        }
    }

    /// A store on its way arrives.
    fn deliver_late_store(&mut self) {
        if let Some((address, value)) = self.late.take()
            && let Ok(word) = self.host(address, 4)
        {
            sure(word.store_release_u32(0, value));
        }
    }
}

impl Memory for CardMemory {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        let reuse = self.free.iter().find(|(_, free)| **free == bytes);
        let address = match reuse.map(|(address, _)| *address) {
            Some(address) => {
                self.free.remove(&address);
                address
            }
            None => {
                self.own.part(self.next as usize, bytes).ok()?;
                self.next += bytes as u64;
                self.next - bytes as u64
            }
        };
        sure(self.own.zero(address as usize, bytes));
        Some(address)
    }

    fn free(&mut self, address: u64, bytes: usize) {
        self.free.insert(address, bytes);
    }

    fn export(&self, _node: NodeId, address: u64) -> u64 {
        address
    }

    fn read(&self, address: u64, buffer: &mut [u8]) {
        sure(self.own.read_bytes(address as usize, buffer));
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        sure(self.own.write_bytes(address as usize, bytes));
    }

    fn load_index(&self, address: u64) -> u32 {
        sure(self.own.load_acquire_u32(address as usize))
    }

    fn store_index(&mut self, address: u64, value: u32) {
        sure(self.own.store_release_u32(address as usize, value));
    }

    fn exchange(&mut self, address: u64, expected: u32, new: u32) -> u32 {
        let found = self
            .own
            .compare_exchange_u32(address as usize, expected, new);
        match sure(found) {
            Ok(found) | Err(found) => found,
        }
    }

    fn load_position(&self, address: u64) -> u64 {
        sure(self.own.load_acquire_u64(address as usize))
    }

    fn store_position(&mut self, address: u64, value: u64) {
        sure(self.own.store_release_u64(address as usize, value));
    }

    fn full_fence(&self) {}

    fn peer_reaches(&self, _node: NodeId, address: u64, bytes: usize) -> bool {
        self.host(address, bytes).is_ok()
    }

    fn peer_read(&self, _node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        let region = self.host(address, buffer.len())?;
        region.read_bytes(0, buffer).map_err(|_| BadAddress)
    }

    fn peer_write(&mut self, _node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        self.deliver_late_store();
        let region = self.host(address, bytes.len())?;
        region.write_bytes(0, bytes).map_err(|_| BadAddress)
    }

    fn peer_store_index(&mut self, _: NodeId, address: u64, value: u32) -> Result<(), BadAddress> {
        self.host(address, 4)?;
        for _ in 0..1 + u8::from(self.stores_twice) {
            self.deliver_late_store();
            self.late = Some((address, value));
        }
        Ok(())
    }

    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        self.deliver_late_store();
        let (from, to) = (self.place(from, bytes)?, self.place(to, bytes)?);
        to.copy_from(0, &from, 0, bytes).map_err(|_| BadAddress)
    }

    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        self.deliver_late_store();
        let to = self.place(to, 8)?;
        to.write_bytes(0, &value.to_le_bytes())
            .map_err(|_| BadAddress)
    }

    fn fence(&mut self) {}
}

/// A running system.
pub struct Uos {
    card: Rc<RefCell<Card>>,
    /// Its SCIF.
    pub engine: Engine,
    /// The memory that it works on.
    pub memory: CardMemory,
    /// Uses of pages that have ended.
    pub released: Vec<PinId>,
    behaviour: Behaviour,
    /// Resets of the card when it was started: another one ends it.
    resets: u32,
    /// The device page.
    page: u64,
    beats: u64,
    /// The command line it was given.
    pub command_line: String,
    /// The first bytes of its RAM disk.
    pub ram_disk: Vec<u8>,
}

/// The kernel as the firmware finds it.
fn kernel_sum(memory: &Region, bytes: u32) -> u32 {
    let mut kernel = vec![0; bytes as usize];
    sure(memory.read_bytes(LOAD as usize, &mut kernel));
    // The header says where the RAM disk is; the file does not.
    kernel[AT_RAM_DISK..AT_RAM_DISK_BYTES + 4].fill(0);
    checksum(&kernel)
}

/// A sum that every change of a byte changes (Adler's, of 32 bits).
pub fn checksum(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    high << 16 | low
}

impl Uos {
    /// Starts what the host has loaded, if it is the kernel with this checksum.
    pub fn start(card: &Rc<RefCell<Card>>, behaviour: Behaviour, sum: u32) -> Result<Self, String> {
        let (own, resets, bytes, page) = {
            let card = card.borrow();
            let page = u64::from(card.scratchpad(15)) << 32 | u64::from(card.scratchpad(14));
            (card.memory.clone(), card.resets, card.image_bytes(), page)
        };
        let found = kernel_sum(&own, bytes);
        if found != sum {
            return Err(format!("the kernel's checksum is {found:#x}, not {sum:#x}"));
        }
        let mut line = vec![0; 2048];
        sure(own.read_bytes((LOAD + bytes) as usize, &mut line));
        let end = line.iter().position(|byte| *byte == 0);
        line.truncate(end.ok_or("the command line has no end")?);
        let header = |at: usize| {
            let mut word = [0; 4];
            sure(own.read_bytes(LOAD as usize + at, &mut word));
            u32::from_le_bytes(word) as usize
        };
        let mut ram_disk = vec![0; header(AT_RAM_DISK_BYTES)];
        sure(own.read_bytes(header(AT_RAM_DISK), &mut ram_disk));
        let memory = CardMemory {
            card: card.clone(),
            own,
            next: FIRST_PAGE,
            free: BTreeMap::new(),
            late: None,
            stores_twice: behaviour.stores_twice,
        };
        let mut node = [0];
        let read = memory.peer_read(0, page + AT_NODE as u64, &mut node);
        read.map_err(|_| format!("no device page at {page:#x}"))?;
        let mut uos = Self {
            card: card.clone(),
            engine: Engine::new(Config::new(node[0].into())),
            memory,
            released: Vec::new(),
            behaviour,
            resets,
            page,
            beats: 0,
            command_line: String::from_utf8_lossy(&line).into_owned(),
            ram_disk,
        };
        if behaviour.is_alive {
            uos.join()?;
        }
        Ok(uos)
    }

    fn page_word<const N: usize>(&self, at: usize) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        let read = self.memory.peer_read(0, self.page + at as u64, &mut bytes);
        read.map_err(|_| format!("no device page at {:#x}", self.page))?;
        Ok(bytes)
    }

    fn set_page(&mut self, at: usize, bytes: &[u8]) {
        let place = self.page + at as u64;
        self.memory
            .peer_write(0, place, bytes)
            .expect("the device page");
    }

    /// Finds the host's queue pair and publishes its own.
    fn join(&mut self) -> Result<(), String> {
        let magic = u32::from_le_bytes(self.page_word(AT_MAGIC)?);
        let host = u64::from_le_bytes(self.page_word(AT_HOST_QUEUE_PAIR)?);
        let [doorbell] = self.page_word(AT_HOST_DOORBELL)?;
        if !is_magic(magic) || host == 0 || doorbell > 3 {
            return Err(format!("device page: {magic:#x}, {host:#x}, {doorbell}"));
        }
        let own = self.engine.attach(&mut self.memory, 0);
        let own = own.map_err(|error| error.to_string())?;
        self.set_page(AT_CARD_DOORBELL, &[self.behaviour.doorbell]);
        let told = self.behaviour.queue_pair.unwrap_or(own);
        self.set_page(AT_CARD_QUEUE_PAIR, &told.to_le_bytes());
        let up = self.engine.link_up(&mut self.memory, 0, host);
        up.map_err(|error| error.to_string())?;
        self.card.borrow_mut().ring_host(doorbell.into(), 0);
        Ok(())
    }

    /// Whether its card was reset.
    pub fn is_dead(&self) -> bool {
        let card = self.card.borrow();
        card.resets != self.resets || card.faults.is_gone
    }

    /// Its system stops with this state.
    pub fn end(&mut self, state: u32) {
        self.behaviour.is_alive = false;
        self.card.borrow_mut().ring_host(1, state);
    }

    /// It hangs: nothing is done any more.
    pub fn hang(&mut self) {
        self.behaviour.is_alive = false;
    }

    /// It takes its queue pair back.
    pub fn withdraw(&mut self) {
        self.set_page(AT_CARD_QUEUE_PAIR, &[0; 8]);
    }

    /// One turn of its loop; whether anything happened.
    pub fn turn(&mut self, now: u64) -> bool {
        if !self.behaviour.is_alive {
            return false;
        }
        self.memory.deliver_late_store();
        let mut happened = false;
        loop {
            let interrupt = self.card.borrow_mut().take_interrupt();
            let Some(interrupt) = interrupt else {
                break;
            };
            happened = true;
            let own = match self.behaviour.doorbell {
                number @ 0..8 => Interrupt::Apic(number.into()),
                number => Interrupt::Rdma(usize::from(number) - 8),
            };
            if interrupt == own {
                self.engine.doorbell(&mut self.memory, 0);
            } else if interrupt == Interrupt::Apic(1) && self.behaviour.is_polite {
                self.end(3);
                return true;
            }
        }
        if self.behaviour.has_heart {
            self.beats += 1;
            let beats = self.beats;
            self.set_page(AT_HEARTBEAT, &beats.to_le_bytes());
        }
        self.engine.tick(&mut self.memory, now);
        happened |= self.engine.pump(&mut self.memory, &mut CpuEngine, 1 << 20);
        while let Some(event) = self.engine.next_event(&mut self.memory) {
            happened = true;
            match event {
                Event::Ring(_) => self.card.borrow_mut().ring_host(0, 0),
                Event::Unpin(pin) => self.released.push(pin),
                _ => {}
            }
        }
        self.engine.check_invariants().expect("the card's engine");
        happened
    }
}
