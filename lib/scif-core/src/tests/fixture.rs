//! The fixture of the engine's tests: several nodes, each with a vector of bytes as its memory.
//! Local addresses are offsets in it; bus addresses have another base added, so that the two
//! cannot be mixed up.

use super::std::prelude::v1::*;
use super::std::vec;

use super::std::cell::{Cell, RefCell};
use super::std::ops::Range;
use super::std::rc::Rc;

use scif_abi::flags::{MapFlags, Protection};
use scif_abi::limits::{NODE_RING_BYTES, PAGE_BYTES};
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};
use scif_abi::{Error, NodeId, PortId};

use crate::{
    BadAddress, Config, ConnectMode, CopyEngine, CpuEngine, EndpointId, Engine, Event, Memory,
    Owner, Pages, PinId, Place, Run, Ticket,
};

pub const PAGE: u64 = PAGE_BYTES as u64;
pub const READ: u32 = Protection::READ.bits();
pub const WRITE: u32 = Protection::WRITE.bits();
pub const BOTH: u32 = READ | WRITE;
pub const FIXED: u32 = MapFlags::FIXED.bits();
pub const USER: Owner = Owner {
    process: 7,
    user: 1000,
};

/// Bytes of each node.
pub const RAM_BYTES: usize = 32 << 20;
/// The bus address at which they begin for peers.
pub const BUS: u64 = 0x10_0000_0000;

/// The bytes of all nodes.
pub type Rams = Rc<RefCell<Vec<Vec<u8>>>>;

/// One node's memory: pages are given out once and counted.
pub struct PlainMemory {
    node: NodeId,
    rams: Rams,
    next: u64,
    free: Vec<(u64, usize)>,
    pub allocated: usize,
    /// Blocks that were given back for the next use.
    pub recycled: usize,
    /// A word after whose store nothing may be loaded before a full fence, and whether that fence
    /// is still missing.
    pub fenced_word: Cell<Option<u64>>,
    owes_fence: Cell<bool>,
    /// Stores into the memory of peers fail.
    pub is_cut_off: bool,
    /// The most contiguous bytes that can be allocated.
    pub largest: usize,
    /// The next load of this many bytes of own memory finds the second number at their beginning.
    pub lie: Cell<Option<(usize, u64)>>,
    /// The peer fills its node ring anew whenever it is given room.
    pub flood: Option<Flood>,
}

/// A peer that fills our node ring as fast as we read it.
pub struct Flood {
    /// Local address of our queue pair structure for the node.
    pub queue_pair: u64,
    /// Bytes in a full ring of whole messages.
    pub bytes: u32,
    /// How often it still fills the ring.
    pub left: usize,
}

impl PlainMemory {
    fn own(&self, address: u64, bytes: usize) -> Range<usize> {
        address as usize..address as usize + bytes
    }

    fn bus(&self, address: u64, bytes: usize) -> Result<Range<usize>, BadAddress> {
        let start = address.checked_sub(BUS).ok_or(BadAddress)? as usize;
        let end = start.checked_add(bytes).ok_or(BadAddress)?;
        if end > RAM_BYTES {
            return Err(BadAddress);
        }
        Ok(start..end)
    }

    fn locate(&self, place: Place, bytes: usize) -> Result<(usize, usize), BadAddress> {
        match place {
            Place::Own(address) => Ok((self.node.into(), self.own(address, bytes).start)),
            Place::Peer(node, address) => Ok((node.into(), self.bus(address, bytes)?.start)),
        }
    }
}

impl Memory for PlainMemory {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        if bytes > self.largest {
            return None;
        }
        self.allocated += bytes;
        let reuse = self.free.iter().position(|(_, length)| *length == bytes);
        let address = match reuse {
            Some(index) => self.free.swap_remove(index).0,
            None => {
                let address = self.next;
                self.next += bytes as u64;
                assert!(
                    self.next as usize <= RAM_BYTES,
                    "the test needs more memory"
                );
                address
            }
        };
        self.write(address, &vec![0; bytes]);
        Some(address)
    }

    fn free(&mut self, address: u64, bytes: usize) {
        self.allocated -= bytes;
        self.free.push((address, bytes));
    }

    fn recycle(&mut self, address: u64, bytes: usize, _used: usize) {
        self.recycled += 1;
        self.free(address, bytes);
    }

    fn export(&self, _node: NodeId, address: u64) -> u64 {
        address + BUS
    }

    fn read(&self, address: u64, buffer: &mut [u8]) {
        let range = self.own(address, buffer.len());
        buffer.copy_from_slice(&self.rams.borrow()[usize::from(self.node)][range]);
        if let Some((bytes, value)) = self.lie.get()
            && buffer.len() == bytes
        {
            self.lie.set(None);
            buffer[..8].copy_from_slice(&value.to_le_bytes());
        }
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let range = self.own(address, bytes.len());
        self.rams.borrow_mut()[usize::from(self.node)][range].copy_from_slice(bytes);
    }

    fn load_index(&self, address: u64) -> u32 {
        assert!(!self.owes_fence.get(), "a load overtakes the store");
        let mut word = [0; 4];
        self.read(address, &mut word);
        u32::from_le_bytes(word)
    }

    fn store_index(&mut self, address: u64, value: u32) {
        if self.fenced_word.get() == Some(address) {
            self.owes_fence.set(true);
        }
        self.write(address, &value.to_le_bytes());
    }

    // All nodes are in one thread: every step is atomic, and visible at once.
    fn exchange(&mut self, address: u64, expected: u32, new: u32) -> u32 {
        let found = self.load_index(address);
        if found == expected {
            self.store_index(address, new);
        }
        found
    }

    fn load_position(&self, address: u64) -> u64 {
        let mut word = [0; 8];
        self.read(address, &mut word);
        u64::from_le_bytes(word)
    }

    fn store_position(&mut self, address: u64, value: u64) {
        self.write(address, &value.to_le_bytes());
    }

    fn full_fence(&self) {
        self.owes_fence.set(false);
    }

    fn peer_reaches(&self, _node: NodeId, address: u64, bytes: usize) -> bool {
        self.bus(address, bytes).is_ok()
    }

    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        let range = self.bus(address, buffer.len())?;
        buffer.copy_from_slice(&self.rams.borrow()[usize::from(node)][range]);
        Ok(())
    }

    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        if self.is_cut_off {
            return Err(BadAddress);
        }
        let range = self.bus(address, bytes.len())?;
        self.rams.borrow_mut()[usize::from(node)][range].copy_from_slice(bytes);
        Ok(())
    }

    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        self.peer_write(node, address, &value.to_le_bytes())?;
        if let Some(flood) = &mut self.flood
            && address % PAGE == LOCAL_READ_OFFSET
            && flood.left > 0
        {
            flood.left -= 1;
            let word = flood.queue_pair + LOCAL_WRITE_OFFSET;
            let full = value.wrapping_add(flood.bytes) % NODE_RING_BYTES;
            self.store_index(word, full);
        }
        Ok(())
    }

    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        let (from_node, from) = self.locate(from, bytes)?;
        let (to_node, to) = self.locate(to, bytes)?;
        let mut rams = self.rams.borrow_mut();
        let data = rams[from_node][from..from + bytes].to_vec();
        rams[to_node][to..to + bytes].copy_from_slice(&data);
        Ok(())
    }

    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        let (node, at) = self.locate(to, 8)?;
        self.rams.borrow_mut()[node][at..at + 8].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn fence(&mut self) {}
}

fn ram(nodes: usize) -> Vec<Vec<u8>> {
    // Allocated one by one, so that the system gives zeroed pages that are not touched here.
    (0..nodes).map(|_| vec![0; RAM_BYTES]).collect()
}

/// One node.
pub struct Node {
    pub engine: Engine,
    pub memory: PlainMemory,
    pub copier: Box<dyn CopyEngine>,
    /// Pins that were released.
    pub released: Vec<PinId>,
    /// Pins given out.
    pins: u64,
    /// Whether `run` pumps.
    pub is_pumped: bool,
}

/// Some nodes.
pub struct Fixture {
    pub nodes: Vec<Node>,
    pub now: u64,
}

/// An endpoint and its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub node: usize,
    pub id: EndpointId,
}

impl Fixture {
    /// Nodes that are linked with each other.
    pub fn new(count: usize) -> Fixture {
        let rams: Rams = Rc::new(RefCell::new(ram(count)));
        let node = |node: usize| Node {
            engine: Engine::new(Config::new(node as NodeId)),
            memory: PlainMemory {
                node: node as NodeId,
                rams: Rc::clone(&rams),
                next: PAGE,
                free: Vec::new(),
                allocated: 0,
                recycled: 0,
                fenced_word: Cell::new(None),
                owes_fence: Cell::new(false),
                is_cut_off: false,
                largest: usize::MAX,
                lie: Cell::new(None),
                flood: None,
            },
            copier: Box::new(CpuEngine),
            released: Vec::new(),
            pins: 0,
            is_pumped: true,
        };
        let mut fixture = Fixture {
            nodes: (0..count).map(node).collect(),
            now: 0,
        };
        for from in 0..count {
            for to in from + 1..count {
                fixture.link(from, to);
            }
        }
        fixture.run();
        fixture
    }

    /// Links two nodes.
    pub fn link(&mut self, a: usize, b: usize) {
        let mut attach = |from: usize, to: usize| {
            let node = &mut self.nodes[from];
            node.engine.attach(&mut node.memory, to as NodeId).unwrap()
        };
        let (at_a, at_b) = (attach(a, b), attach(b, a));
        for (from, to, address) in [(a, b, at_b), (b, a, at_a)] {
            let node = &mut self.nodes[from];
            let to = to as NodeId;
            node.engine.link_up(&mut node.memory, to, address).unwrap();
        }
    }

    /// Runs all nodes until nothing happens any more, and checks them.
    pub fn run(&mut self) {
        loop {
            let mut is_quiet = true;
            for index in 0..self.nodes.len() {
                is_quiet &= !self.iterate(index);
            }
            if is_quiet {
                return;
            }
        }
    }

    /// Runs one iteration of one node. Returns whether anything happened.
    pub fn iterate(&mut self, index: usize) -> bool {
        self.now += 1;
        let now = self.now;
        let mut rings = Vec::new();
        let node = &mut self.nodes[index];
        node.engine.tick(&mut node.memory, now);
        let mut happened = false;
        if node.is_pumped {
            happened = node.engine.pump(&mut node.memory, &mut *node.copier, 4096);
        }
        while let Some(event) = node.engine.next_event(&mut node.memory) {
            happened = true;
            match event {
                Event::Ring(to) => rings.push(to),
                Event::Unpin(pin) => node.released.push(pin),
                _ => {}
            }
        }
        node.engine.check_invariants().unwrap();
        for to in rings {
            let to = &mut self.nodes[usize::from(to)];
            to.engine.doorbell(&mut to.memory, index as NodeId);
            to.engine.check_invariants().unwrap();
        }
        happened
    }

    /// The engine of an end's node.
    pub fn engine(&mut self, end: End) -> &mut Engine {
        &mut self.nodes[end.node].engine
    }

    /// The engine and the memory of an end's node.
    pub fn parts(&mut self, end: End) -> (&mut Engine, &mut PlainMemory) {
        let node = &mut self.nodes[end.node];
        (&mut node.engine, &mut node.memory)
    }

    /// Makes a connection from one node to another.
    pub fn connect(&mut self, from: usize, to: usize) -> (End, End) {
        self.connect_as(from, to, USER)
    }

    /// Makes a connection from an endpoint of `owner` to one of [`USER`].
    pub fn connect_as(&mut self, from: usize, to: usize, owner: Owner) -> (End, End) {
        let port = 2000 + self.now as u16;
        let server = &mut self.nodes[to];
        let listener = server.engine.open(USER).unwrap();
        server.engine.bind(listener, port).unwrap();
        server.engine.listen(listener, 1).unwrap();
        let client = &mut self.nodes[from];
        let id = client.engine.open(owner).unwrap();
        let mode = ConnectMode::Blocking;
        let to_port = PortId::new(to as NodeId, port);
        let memory = &mut client.memory;
        client.engine.connect(memory, id, to_port, mode).unwrap();
        self.run();
        let server = &mut self.nodes[to];
        let memory = &mut server.memory;
        let accepted = server.engine.accept_start(memory, listener, USER).unwrap();
        self.run();
        let server = &mut self.nodes[to];
        assert!(server.engine.accept_finish(accepted).is_ready());
        assert!(self.nodes[from].engine.connect_result(id).is_ready());
        let server = &mut self.nodes[to];
        server.engine.close(&mut server.memory, listener);
        let at = |node, id| End { node, id };
        (at(from, id), at(to, accepted))
    }

    /// Pins fresh pages of a node: runs of the given lengths, not neighbours.
    pub fn pin(&mut self, node: usize, runs: &[u32]) -> Pages {
        let node = &mut self.nodes[node];
        node.pins += 1;
        let memory = &mut node.memory;
        let runs = runs.iter().map(|pages| {
            // Memory of the client, not of the engine; the page between keeps the runs apart.
            let address = memory.next;
            memory.next += u64::from(*pages + 1) * PAGE;
            assert!(
                memory.next as usize <= RAM_BYTES,
                "the test needs more memory"
            );
            Run {
                address,
                pages: *pages,
            }
        });
        Pages {
            pin: PinId(node.pins),
            runs: runs.collect(),
            is_charged: true,
        }
    }

    /// Takes the result of a call once there is one.
    pub fn finish(&mut self, end: End, ticket: Result<Ticket, Error>) -> Result<u64, Error> {
        let ticket = ticket?;
        self.run();
        let engine = self.engine(end);
        engine.finish(ticket).expect("the call is done")
    }

    pub fn start_register(
        &mut self,
        end: End,
        pages: &Pages,
        offset: i64,
        protection: u32,
        flags: u32,
    ) -> Result<Ticket, Error> {
        let (engine, memory) = self.parts(end);
        engine.register(memory, end.id, pages.clone(), offset, protection, flags)
    }

    /// Registers pages at a fixed offset and waits.
    pub fn register(&mut self, end: End, pages: &Pages, offset: i64, protection: u32) -> i64 {
        let ticket = self.start_register(end, pages, offset, protection, FIXED);
        self.finish(end, ticket).unwrap().cast_signed()
    }

    /// Unregisters and waits.
    pub fn unregister(&mut self, end: End, offset: i64, length: u64) -> Result<u64, Error> {
        let (engine, memory) = self.parts(end);
        let ticket = engine.unregister(memory, end.id, offset, length);
        self.finish(end, ticket)
    }

    pub fn close(&mut self, end: End) {
        let (engine, memory) = self.parts(end);
        engine.close(memory, end.id);
        self.nodes[end.node].engine.check_invariants().unwrap();
    }

    /// Fills pages with bytes that depend on their place.
    pub fn fill(&mut self, node: usize, pages: &Pages, seed: u8) -> Vec<u8> {
        let mut all = Vec::new();
        for run in &pages.runs {
            let bytes = run.pages as usize * PAGE_BYTES;
            let at = |i: usize| (i % 251) as u8 ^ (i >> 8) as u8 ^ seed;
            let start = all.len();
            let data: Vec<u8> = (start..start + bytes).map(at).collect();
            self.nodes[node].memory.write(run.address, &data);
            all.extend(data);
        }
        all
    }

    /// The contents of pages.
    pub fn content(&self, node: usize, pages: &Pages) -> Vec<u8> {
        let mut all = Vec::new();
        for run in &pages.runs {
            let mut data = vec![0; run.pages as usize * PAGE_BYTES];
            self.nodes[node].memory.read(run.address, &mut data);
            all.extend(data);
        }
        all
    }

    /// Checks that nothing is left of registered memory anywhere.
    pub fn assert_clean(&self) {
        for node in &self.nodes {
            let stats = node.engine.stats();
            assert_eq!((stats.windows, stats.remote_windows), (0, 0));
            assert_eq!(
                (stats.pinned_pages, stats.mapped_pages, stats.jobs),
                (0, 0, 0)
            );
            assert_eq!(stats.pages * PAGE_BYTES, node.memory.allocated);
        }
    }
}
