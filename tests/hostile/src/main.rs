//! A node that takes the driver's place and breaks the protocol wherever it can: the driver's own
//! parts make a correct link and correct connections, and then spoil what they write into the other
//! node's memory: messages, indexes, bytes of rings, queue pair structures, window structures and
//! tables; and ring its doorbell without end.
//!
//! `scif-hostile SEED ROUNDS [NODE]`: ROUNDS links with the node (0 if not given) are made and
//! spoilt. What is done follows from SEED, as far as the other node's answers come in the same
//! order.
#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use guest_tests::pattern::Random;
use guest_tests::peer::{self, PORT, Request, SINK};
use guest_tests::{Suite, text};
use hal::dma::Allocator;
use micd::function::MicFunction;
use micd::links::Links;
use micd::memory::{NodeMemory, Peer, PeerMemory};
use micd::vmic;
use runtime::time::{Duration, Instant, sleep};
use scheme_scif::{Doorbells, ObjectMemory, Progress};
use scif_abi::limits::LinkTiming;
use scif_abi::message::MESSAGE_BYTES;
use scif_abi::{NodeId, PortId};
use scif_core::{
    BadAddress, Config, Connect, ConnectMode, CpuEngine, EndpointId, Engine, Event, Memory, Owner,
    Pages, PinId, Place,
};
use zerocopy::IntoBytes;

runtime::main!(main);

/// Time of good conduct in each round, in which the connections are made, then of mischief.
const GOOD_MS: u64 = 200;
const BAD_MS: u64 = 600;
/// A link that is not there again after this is not reset as it should be.
const LIMIT_MS: u64 = 30_000;
const CONNECTIONS: usize = 4;
/// Where the other node waits for the end.
const END_PORT: u16 = 2999;
/// Places of the other node that are remembered.
const MAX_PLACES: usize = 4096;
/// The token of the memory that is registered.
const TOKEN: u64 = 1;
const PAGES: u64 = 8;

/// Values that an attacker likes to write into an index, size or address.
const CRAFTED: [u64; 12] = [
    0,
    1,
    43,
    45,
    0xffff,
    0x10_0000,
    0x7fff_ffff,
    0xffff_ffff,
    0x5c1f_0000_0000_5c1f,
    0x7fff_ffff_ffff_f000,
    0xffff_ffff_ffff_f000,
    u64::MAX,
];

/// The memory of this node and the other one's, with a hand that slips.
struct Spoiler {
    memory: NodeMemory<Allocator>,
    random: Random,
    /// One of this number of writes is spoilt; 0: none.
    one_in: u64,
    /// Places of the other node's queue pair of the present link: address and bytes. Others may
    /// belong to another owner by the time they are remembered, and this hardware lets a peer write
    /// anywhere: to show that is no use.
    places: Vec<(NodeId, u64, usize)>,
    /// Index words are those of the node's own queue pair: there are no connections yet.
    is_new: bool,
    spoilt: u64,
}

impl Spoiler {
    fn slips(&mut self) -> bool {
        self.one_in > 0 && self.random.up_to(self.one_in) == 1
    }

    fn note(&mut self, node: NodeId, address: u64, bytes: usize) {
        let place = (node, address, bytes);
        let is_message = bytes == MESSAGE_BYTES;
        let is_index = self.is_new && bytes == size_of::<u32>();
        if !is_message && !is_index {
            return;
        }
        if self.places.len() < MAX_PLACES && !self.places.contains(&place) {
            self.places.push(place);
        }
    }

    fn word(&mut self) -> u64 {
        match self.random.up_to(2) {
            1 => CRAFTED[self.random.up_to(CRAFTED.len() as u64) as usize - 1],
            _ => self.random.up_to(u64::MAX),
        }
    }

    /// Spoils bytes that are about to be written: one word of them, or all.
    fn spoil(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.spoilt += 1;
        let mut bytes = bytes.to_vec();
        let all = self.random.up_to(8) == 1;
        let words = bytes.len().div_ceil(4) as u64;
        let chosen = self.random.up_to(words.max(1)) - 1;
        for (number, part) in (0..).zip(bytes.chunks_mut(4)) {
            if all || number == chosen {
                let word = self.word().to_le_bytes();
                part.copy_from_slice(&word[..part.len()]);
            }
        }
        bytes
    }

    /// Writes something into a place that the other node has shown.
    fn scribble(&mut self) {
        if self.places.is_empty() {
            return;
        }
        let chosen = self.random.up_to(self.places.len() as u64) as usize - 1;
        let (node, address, bytes) = self.places[chosen];
        let word = self.word().to_le_bytes();
        let at = match bytes {
            0..8 => 0,
            _ => (self.random.up_to(bytes as u64 / 8) - 1) * 8,
        };
        let count = bytes.min(8);
        // A place may be gone; then nothing is reached.
        let _ = self.memory.peer_write(node, address + at, &word[..count]);
        self.spoilt += 1;
    }
}

impl Memory for Spoiler {
    fn allocate(&mut self, bytes: usize) -> Option<u64> {
        self.memory.allocate(bytes)
    }
    fn free(&mut self, address: u64, bytes: usize) {
        self.memory.free(address, bytes);
    }
    fn export(&self, node: NodeId, address: u64) -> u64 {
        self.memory.export(node, address)
    }
    fn read(&self, address: u64, buffer: &mut [u8]) {
        self.memory.read(address, buffer);
    }
    fn write(&mut self, address: u64, bytes: &[u8]) {
        // The queue pair structure that the other node reads here may be spoilt too; but not so
        // that it is sent to places where it would spoil this node.
        if self.slips() {
            let mut spoilt = self.spoil(bytes);
            for (spoilt, before) in spoilt.chunks_mut(4).zip(bytes.chunks(4)) {
                if spoilt != before && spoilt.len() == 4 {
                    spoilt[3] |= 0xf0;
                }
            }
            return self.memory.write(address, &spoilt);
        }
        self.memory.write(address, bytes);
    }
    fn load_index(&self, address: u64) -> u32 {
        self.memory.load_index(address)
    }
    fn store_index(&mut self, address: u64, value: u32) {
        self.memory.store_index(address, value);
    }
    fn exchange(&mut self, address: u64, expected: u32, new: u32) -> u32 {
        self.memory.exchange(address, expected, new)
    }
    fn load_position(&self, address: u64) -> u64 {
        self.memory.load_position(address)
    }
    fn store_position(&mut self, address: u64, value: u64) {
        self.memory.store_position(address, value);
    }
    fn full_fence(&self) {
        self.memory.full_fence();
    }
    fn peer_reaches(&self, node: NodeId, address: u64, bytes: usize) -> bool {
        self.memory.peer_reaches(node, address, bytes)
    }
    fn peer_read(&self, node: NodeId, address: u64, buffer: &mut [u8]) -> Result<(), BadAddress> {
        self.memory.peer_read(node, address, buffer)
    }
    fn peer_write(&mut self, node: NodeId, address: u64, bytes: &[u8]) -> Result<(), BadAddress> {
        self.note(node, address, bytes.len());
        if self.slips() {
            let bytes = self.spoil(bytes);
            return self.memory.peer_write(node, address, &bytes);
        }
        self.memory.peer_write(node, address, bytes)
    }
    fn peer_store_index(
        &mut self,
        node: NodeId,
        address: u64,
        value: u32,
    ) -> Result<(), BadAddress> {
        self.note(node, address, 4);
        let value = if self.slips() {
            self.spoilt += 1;
            self.word() as u32
        } else {
            value
        };
        self.memory.peer_store_index(node, address, value)
    }
    fn copy(&mut self, from: Place, to: Place, bytes: usize) -> Result<(), BadAddress> {
        self.memory.copy(from, to, bytes)
    }
    fn store_u64(&mut self, to: Place, value: u64) -> Result<(), BadAddress> {
        self.memory.store_u64(to, value)
    }
    fn fence(&mut self) {
        self.memory.fence();
    }
}

impl PeerMemory for Spoiler {
    fn add_peer(&mut self, node: NodeId, peer: Peer) {
        self.places.clear();
        self.is_new = true;
        self.memory.add_peer(node, peer);
    }
}

/// This node.
struct Hostile {
    links: Links,
    engine: Engine,
    memory: Spoiler,
    copier: CpuEngine,
    victim: NodeId,
    endpoints: Vec<EndpointId>,
    is_online: bool,
    /// Links that ended.
    ended: u64,
}

fn main() -> i32 {
    let mut suite = Suite::new("scif-hostile");
    let words = peer::arguments();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let (Some(seed), Some(rounds)) = (number(0), number(1)) else {
        runtime::eprintln!("usage: scif-hostile SEED ROUNDS [NODE]");
        return 2;
    };
    let victim = number(2).unwrap_or(0) as NodeId;
    let mut hostile = match Hostile::new(victim, seed) {
        Ok(hostile) => hostile,
        Err(error) => {
            suite.check("takes the driver's place", Err(error));
            return suite.finish();
        }
    };
    for round in 0..rounds {
        suite.check(&alloc::format!("round {round}"), hostile.round());
    }
    runtime::println!(
        "hostile: seed {seed}, {rounds} rounds, {} words spoilt, {} links ended",
        hostile.memory.spoilt,
        hostile.ended
    );
    // The other node is as ready for a good peer as ever.
    suite.check("good again", hostile.good());
    hostile.links.leave();
    suite.finish()
}

impl Hostile {
    fn new(victim: NodeId, seed: u64) -> Result<Self, String> {
        let (functions, _) = vmic::find().map_err(text("finding functions"))?;
        // Only the link with the victim: others are none of our business.
        let functions = functions
            .into_iter()
            .filter(|function| function.peer() == victim)
            .map(|function| Box::new(function) as Box<dyn MicFunction>)
            .collect();
        let mut links = Links::new(functions, true);
        links.set_timing(LinkTiming {
            heartbeat_ns: 2_000_000,
            ..LinkTiming::default()
        });
        let memory = NodeMemory::new(Allocator::new().map_err(text("memory"))?);
        let engine = Engine::new(Config::new(links.node()));
        links.start().map_err(text("starting the link"))?;
        Ok(Self {
            links,
            engine,
            memory: Spoiler {
                memory,
                random: Random::new(seed),
                one_in: 0,
                places: Vec::new(),
                is_new: false,
                spoilt: 0,
            },
            copier: CpuEngine,
            victim,
            endpoints: Vec::new(),
            is_online: false,
            ended: 0,
        })
    }

    /// One iteration of a driver's loop. Interrupts are not waited for here.
    fn turn(&mut self) {
        let now = Instant::now().as_nanos();
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        engine.tick(memory, now);
        self.links.poll(now, engine, memory);
        engine.doorbell(memory, self.victim);
        engine.pump(memory, &mut self.copier, 1 << 20);
        while let Some(event) = engine.next_event(memory) {
            match event {
                Event::Ring(node) => memory.memory.ring(node),
                Event::NodeUp(_) => self.is_online = true,
                Event::NodeDown(_) => self.is_online = false,
                Event::LinkFailed(node) => {
                    self.is_online = false;
                    self.links.link_failed(node);
                }
                Event::Changed(_) | Event::Departed(_) | Event::Unpin(_) => {}
            }
        }
    }

    fn turns(&mut self, milliseconds: u64, mut also: impl FnMut(&mut Self)) {
        let end = Instant::now().as_nanos() + milliseconds * 1_000_000;
        while Instant::now().as_nanos() < end {
            self.turn();
            also(self);
            sleep(Duration::from_micros(200));
        }
    }

    /// Waits until something is true; whether it is.
    fn until(&mut self, is_true: impl Fn(&Self) -> bool) -> bool {
        let end = Instant::now().as_nanos() + LIMIT_MS * 1_000_000;
        while !is_true(self) {
            if Instant::now().as_nanos() > end {
                return false;
            }
            self.turn();
            sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits until the link is up.
    fn online(&mut self) -> Result<(), String> {
        match self.until(|hostile| hostile.is_online) {
            true => Ok(()),
            false => Err("the node does not come online".into()),
        }
    }

    /// Asks for connections as a good peer does.
    fn connect(&mut self) -> Result<(), String> {
        self.memory.is_new = false;
        for index in 0..CONNECTIONS {
            let owner = Owner::default();
            let id = self.engine.open(owner).map_err(text("open"))?;
            let to = PortId::new(self.victim, PORT + index as u16);
            let mode = ConnectMode::NonBlocking;
            match self.engine.connect(&mut self.memory, id, to, mode) {
                Ok(Connect::Started | Connect::Done(_)) => self.endpoints.push(id),
                Err(error) => return Err(alloc::format!("connect: {error:?}")),
            }
        }
        Ok(())
    }

    /// Begins a stream on each connection.
    fn ask(&mut self) {
        let request = Request {
            verb: SINK.into(),
            bytes: (1 << 40).into(),
            ..Request::default()
        };
        for id in self.endpoints.clone() {
            // There may be no connection, when the server is busy with what was left before.
            let _ = self.engine.send(&mut self.memory, id, request.as_bytes());
        }
    }

    /// Registers a window on each connection. What does not work need not.
    fn register(&mut self) {
        self.memory.memory.discard(TOKEN);
        if self.memory.memory.provide(TOKEN, PAGES).is_err() {
            return;
        }
        let runs = loop {
            match self.memory.memory.build(TOKEN) {
                Ok(Progress::Complete(runs)) => break runs,
                Ok(_) => {}
                Err(_) => return,
            }
        };
        for (pin, id) in (0..).zip(self.endpoints.clone()) {
            let pages = Pages {
                pin: PinId(pin),
                runs: runs.clone(),
                is_charged: false,
            };
            let (engine, memory) = (&mut self.engine, &mut self.memory);
            let _ = engine.register(memory, id, pages, 0, 3, 0);
        }
    }

    fn send_all(&mut self) {
        for id in self.endpoints.clone() {
            let _ = self.engine.send(&mut self.memory, id, &[0x5a; 512]);
        }
    }

    fn close_all(&mut self) {
        for id in core::mem::take(&mut self.endpoints) {
            self.engine.close(&mut self.memory, id);
        }
    }

    /// One link: made, used, and spoilt until the other node resets it.
    fn round(&mut self) -> Result<(), String> {
        self.online()?;
        self.connect()?;
        self.turns(GOOD_MS, |_| {});
        self.ask();
        self.register();
        self.turns(GOOD_MS, Self::send_all);
        // Messages and structures first, as what follows ends the link soon.
        self.memory.one_in = 4;
        self.turns(BAD_MS, |hostile| {
            hostile.send_all();
            hostile.register();
            for _ in 0..hostile.memory.random.up_to(200) {
                hostile.memory.memory.ring(hostile.victim);
            }
        });
        self.turns(BAD_MS, |hostile| {
            for _ in 0..hostile.memory.random.up_to(8) {
                hostile.memory.scribble();
            }
            hostile.memory.memory.ring(hostile.victim);
        });
        self.memory.one_in = 0;
        // If all that did not do, no index is left whole.
        for (node, address, bytes) in self.memory.places.clone() {
            if bytes == size_of::<u32>() {
                let _ = self.memory.memory.peer_store_index(node, address, u32::MAX);
            }
        }
        self.memory.memory.ring(self.victim);
        self.ended += 1;
        // Our own side may not have noticed; whichever side resets the link, it comes up again.
        self.links.link_failed(self.victim);
        self.is_online = false;
        self.turns(GOOD_MS, |_| {});
        self.close_all();
        self.online()
    }

    /// A link without mischief, over which the other node learns that this was all.
    fn good(&mut self) -> Result<(), String> {
        self.online()?;
        self.connect()?;
        let end = self.engine.open(Owner::default()).map_err(text("open"))?;
        let (to, mode) = (PortId::new(self.victim, END_PORT), ConnectMode::NonBlocking);
        let told = self.engine.connect(&mut self.memory, end, to, mode);
        told.map_err(text("telling the end"))?;
        // The servers first have to see the end of the connections before.
        let ids: Vec<EndpointId> = self.endpoints.iter().copied().chain([end]).collect();
        self.until(|hostile| ids.iter().all(|id| hostile.engine.peer(*id).is_some()));
        self.ask();
        self.turns(GOOD_MS, Self::send_all);
        let connected = self.endpoints.clone().into_iter().filter(|id| {
            let sent = self.engine.send(&mut self.memory, *id, &[0]);
            sent.is_ok()
        });
        let connected = connected.count();
        self.close_all();
        self.engine.close(&mut self.memory, end);
        self.until(|hostile| hostile.engine.connections().next().is_none());
        match connected {
            CONNECTIONS => Ok(()),
            count => Err(alloc::format!("{count} of {CONNECTIONS} connections work")),
        }
    }
}
