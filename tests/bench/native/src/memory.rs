//! Two nodes in this program: engines over memory as `micd` gives it to them. Each node's RAM is
//! an ordinary piece of memory that the other node sees as its aperture.

use std::mem::offset_of;
use std::rc::Rc;
use std::task::Poll;

use hal::aperture::Aperture;
use hal::copy::Choices;
use hal::dma::Scattered;
use hal::mem::{PAGE, Region};
use micd::hardware::{Doorbell, Identical};
use micd::memory::{NodeMemory, Peer, PeerMemory};
use micd::memory_object::BlockSource;
use scif_abi::qp::QueuePair;
use scif_abi::{NodeId, PortId};
use scif_core::{
    Config, ConnectMode, CpuEngine, EndpointId, Engine, Event, Memory, Owner, Pages, PinId, Run,
};

use crate::Failure;

/// Bytes in a node's RAM: a window of 64 MiB and what the engine needs.
const RAM_BYTES: usize = 80 << 20;

/// Bytes in the endpoints' rings, as in `micd`.
const RING_BYTES: u32 = 256 * 1024;

/// The port on which the second node listens.
pub const PORT: u16 = 2050;

/// Number of turns of both engines after which something must have happened.
const TURNS: usize = 100;

/// A node's own memory, allocated from one end to the other. No memory is freed, because a run is
/// short.
pub struct Ram {
    region: Region,
    used: usize,
}

impl BlockSource for Ram {
    fn allocate(&mut self, bytes: usize) -> Option<(Region, u64)> {
        let start = self.used.next_multiple_of(PAGE);
        let block = self.region.part(start, bytes).ok()?;
        self.used = start + bytes;
        Some((block, start as u64))
    }

    fn reserve(&mut self, _bytes: usize) -> hal::Result<Scattered> {
        Err(hal::Error::new(NO_MEMORY))
    }

    fn fill(&mut self, _scattered: &mut Scattered) -> hal::Result<bool> {
        Err(hal::Error::new(NO_MEMORY))
    }
}

/// `ENOMEM`: there are no memory objects here, only blocks.
const NO_MEMORY: i32 = 12;

/// A doorbell that does nothing. No side sleeps, because both engines are polled in turn.
struct NoBell;

impl Doorbell for NoBell {
    fn ring(&self) {}
}

/// One node.
pub struct Node {
    pub engine: Engine,
    pub memory: NodeMemory<Ram>,
    /// The node's end of the connection.
    pub endpoint: EndpointId,
    /// The other node's number.
    pub peer: NodeId,
    /// All of the node's memory.
    pub ram: Region,
}

/// The kind of the second node.
#[derive(Clone, Copy, PartialEq)]
pub enum Second {
    /// A node like the first one.
    Ours,
    /// A node that has the base protocol only, with rings of 4 KiB, as one with the mainline
    /// driver.
    Base,
}

/// Bytes in a base node's rings.
pub const BASE_RING_BYTES: u32 = 4096;

/// Makes two nodes with a connection between them; the first node connected.
pub fn connected() -> Result<[Node; 2], Failure> {
    connected_to(Second::Ours)
}

/// Makes two nodes with a connection between them, the second one of this kind.
pub fn connected_to(second: Second) -> Result<[Node; 2], Failure> {
    let mut nodes = linked(second)?;
    connect(&mut nodes)?;
    Ok(nodes)
}

/// Makes two nodes with a link between them, whose endpoints are not bound.
pub fn linked(second: Second) -> Result<[Node; 2], Failure> {
    let rams = [aligned(RAM_BYTES)?, aligned(RAM_BYTES)?];
    let make = |node: usize| {
        let is_base = node == 1 && second == Second::Base;
        let config = Config {
            endpoint_ring_bytes: if is_base { BASE_RING_BYTES } else { RING_BYTES },
            ..Config::new(node as NodeId)
        };
        let mut engine = Engine::new(config);
        // As `micd` sets them: the copy routines of its clients,
        engine.set_copy_hints(Choices::applied().numbers());
        // and no gathered stores, as on links between virtual machines.
        engine.set_gathers(false);
        let mut memory = NodeMemory::new(Ram {
            region: rams[node].clone(),
            used: PAGE,
        });
        let peer = 1 - node as NodeId;
        let aperture = Aperture::new(rams[1 - node].clone(), 0);
        let reached = Peer {
            aperture,
            doorbell: Rc::new(NoBell),
            bus: Rc::new(Identical),
            gathers_stores: false,
        };
        memory.add_peer(peer, reached);
        let endpoint = engine.open(Owner::default()).map_err(said("open"))?;
        Ok::<_, Failure>(Node {
            engine,
            memory,
            endpoint,
            peer,
            ram: rams[node].clone(),
        })
    };
    let mut nodes = [make(0)?, make(1)?];
    let mut places = [0; 2];
    for (node, place) in nodes.iter_mut().zip(&mut places) {
        let attached = node.engine.attach(&mut node.memory, node.peer);
        *place = attached.map_err(said("attach"))?;
    }
    if second == Second::Base {
        for (ram, place) in rams.iter().zip(places) {
            let word = place as usize + offset_of!(QueuePair, extensions);
            ram.write_bytes(word, &[0; size_of::<u32>()])
                .map_err(said("extensions"))?;
        }
    }
    for (node, place) in nodes.iter_mut().zip([places[1], places[0]]) {
        let up = node.engine.link_up(&mut node.memory, node.peer, place);
        up.map_err(said("link up"))?;
    }
    turns(&mut nodes);
    Ok(nodes)
}

/// Gives an engine's error the name of the operation.
pub fn said<E: std::fmt::Debug>(what: &str) -> impl Fn(E) -> Failure {
    move |error| format!("{what}: {error:?}").into()
}

/// Allocates zeroed memory from a page boundary on.
pub fn aligned(bytes: usize) -> Result<Region, Failure> {
    let region = Region::heap(bytes + PAGE);
    let skip = region.address().next_multiple_of(PAGE) - region.address();
    region.part(skip, bytes).map_err(said("memory"))
}

/// Lets both nodes do everything that is pending.
pub fn turns(nodes: &mut [Node; 2]) {
    for _ in 0..TURNS {
        for node in nodes.iter_mut() {
            let memory = &mut node.memory;
            node.engine.doorbell(memory, node.peer);
            node.engine.pump(memory, &mut CpuEngine, usize::MAX);
            while let Some(event) = node.engine.next_event(memory) {
                if let Event::LinkFailed(peer) = event {
                    eprintln!("bench-native: the link with node {peer} has failed");
                }
            }
        }
    }
}

fn connect(nodes: &mut [Node; 2]) -> Result<(), Failure> {
    let [client, server] = nodes;
    let listener = server.endpoint;
    let bound = server.engine.bind(listener, PORT);
    bound.map_err(said("bind"))?;
    let listening = server.engine.listen(listener, 1);
    listening.map_err(said("listen"))?;
    let to = PortId::new(client.peer, PORT);
    let (memory, mode) = (&mut client.memory, ConnectMode::Blocking);
    let connecting = client.engine.connect(memory, client.endpoint, to, mode);
    connecting.map_err(said("connect"))?;
    turns(nodes);
    let server = &mut nodes[1];
    let owner = Owner::default();
    let accepted = server
        .engine
        .accept_start(&mut server.memory, listener, owner);
    server.endpoint = accepted.map_err(said("accept"))?;
    turns(nodes);
    let [client, server] = nodes;
    match server.engine.accept_finish(server.endpoint) {
        Poll::Ready(result) => result.map_err(said("accept"))?,
        Poll::Pending => return Err("accept does not end".into()),
    };
    match client.engine.connect_result(client.endpoint) {
        Poll::Ready(result) => result.map_err(said("connect"))?,
        Poll::Pending => return Err("connect does not end".into()),
    };
    Ok(())
}

/// Registers a window of `bytes` bytes of new memory on one of the nodes. Returns its offset and
/// the memory.
pub fn register(
    nodes: &mut [Node; 2],
    node: usize,
    bytes: usize,
) -> Result<(i64, Region), Failure> {
    let owner = &mut nodes[node];
    let address = owner
        .memory
        .allocate(bytes)
        .ok_or("no memory for a window")?;
    let region = owner.ram.part(address as usize, bytes);
    let region = region.map_err(said("a window"))?;
    let pages = Pages {
        pin: PinId(address),
        runs: vec![Run {
            address,
            pages: (bytes / PAGE) as u32,
        }],
        is_charged: true,
    };
    let ticket = owner
        .engine
        .register(&mut owner.memory, owner.endpoint, pages, 0, 3, 0);
    let ticket = ticket.map_err(said("register"))?;
    turns(nodes);
    let owner = &mut nodes[node];
    let offset = owner.engine.finish(ticket);
    let offset = offset.ok_or("registering does not end")?;
    Ok((offset.map_err(said("register"))? as i64, region))
}
