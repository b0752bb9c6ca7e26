//! Worlds in which some programs work directly on the rings of connections, while others use the
//! engine for the same end. They send, receive, poll, sleep, die in the middle, stop while they
//! hold a lock, and store nonsense wherever they can.
//!
//! The checks: each direction of a connection carries its bytes once and in order, whoever moves
//! them. When nothing happens any more, no program sleeps although it has bytes to read or room to
//! write. A program that stores nonsense spoils its own connection only. No access reaches memory
//! that is not in use (the simulated memory checks that). At the end every page is free again.

mod ending;
mod mapped;
mod rma;
mod work;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::rc::Rc;

use scif_abi::bypass::Part;
use scif_abi::flags::{Kicks, Readiness};
use scif_abi::message::Extensions;
use scif_abi::{Error, NodeId, PortId};
use scif_core::{
    BypassId, Config, ConnectMode, CpuEngine, EndpointId, Engine, Event, Owner, Place,
};
use scif_ring::{Consumer, Producer, Side};

use self::mapped::Mapped;
use self::rma::{Copying, Window};
use crate::faults::Faults;
use crate::memory::{Fabric, NodeMemory};
use crate::rng::{Rng, mix};
use crate::trace::{Failure, Trace, play};

/// Offset of the extension word in a queue pair structure.
const EXTENSION_WORD: u64 = 244;
/// Most bytes that one call transfers.
const MAX_BYTES: u64 = 300;
/// The owner of all endpoints and handles.
const OWNER: Owner = Owner {
    process: 1,
    user: 0,
};

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct BypassReport {
    /// Steps taken.
    pub steps: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Number of bytes moved by the engine, and by programs themselves.
    pub bytes: [u64; 2],
    /// Number of times a program slept.
    pub sleeps: u64,
    /// Number of sleeping programs that were woken.
    pub wakes: u64,
    /// Number of pieces copied by programs themselves.
    pub copies: u64,
    /// Number of times a program found the lock taken.
    pub contended: u64,
    /// Number of messages that programs sent by the short way, and number of those they received
    /// by it.
    pub short: [u64; 2],
    /// Number of handles refused because the peer does not have the extension.
    pub refused: u64,
}

impl BypassReport {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &BypassReport) {
        self.bytes = [0, 1].map(|at| self.bytes[at] + other.bytes[at]);
        self.sleeps += other.sleeps;
        self.copies += other.copies;
        self.wakes += other.wakes;
        self.contended += other.contended;
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.refused += other.refused;
        self.short = [0, 1].map(|at| self.short[at] + other.short[at]);
    }
}

/// A bug planted on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Programs do not notify the peer although it asked for it.
    NoKick,
    /// Programs work without taking the lock.
    NoLock,
    /// A program goes to sleep without polling its ring once more.
    NoArm,
    /// Programs copy without counting themselves as busy.
    NoBusy,
    /// Programs copy without checking whether a window is gone.
    NoEpoch,
}

/// A program at one end of a connection.
struct Program {
    /// The end: the connection, and which of its two ends.
    end: (usize, usize),
    /// The program's handle, if it works on the rings itself.
    bypass: Option<Handle>,
    /// The event for which the program sleeps.
    sleeps: Readiness,
    /// The notifications that the program has not sent yet.
    kicks: Kicks,
    /// The side whose lock the program holds while it does nothing.
    holds: Option<Side>,
    /// Number of bytes left of a send in several parts.
    sending: Option<u64>,
}

struct Handle {
    id: BypassId,
    number: u32,
    mapped: Mapped,
    producer: Producer,
    consumer: Consumer,
    /// The part of the other end's window that is mapped.
    copying: Option<Copying>,
}

/// A program that has died and is not cleaned up yet.
struct Dead {
    node: usize,
    id: BypassId,
    /// The part of the other end's window that was mapped.
    window: Option<scif_core::Mapped>,
}

/// One direction of a connection.
#[derive(Clone, Copy, Default)]
struct Stream {
    seed: u64,
    sent: u64,
    received: u64,
}

impl Stream {
    fn bytes(&self, from: u64, count: u64) -> Vec<u8> {
        (from..from + count)
            .map(|at| mix(self.seed ^ at) as u8)
            .collect()
    }
}

struct Connection {
    nodes: [usize; 2],
    ends: [EndpointId; 2],
    is_open: [bool; 2],
    /// The bytes that each end sends.
    streams: [Stream; 2],
    /// Number of bytes that the engine has sent of a transfer in several parts, while one is in
    /// progress.
    turns: [Option<u64>; 2],
    /// Whether a program has spoilt the connection, so that nothing about it can be checked any
    /// more.
    is_spoilt: bool,
}

struct Node {
    engine: Engine,
    mem: NodeMemory,
    /// The nodes that rang a doorbell here.
    bells: Vec<NodeId>,
}

struct World {
    rng: Rng,
    fabric: Rc<RefCell<Fabric>>,
    nodes: Vec<Node>,
    connections: Vec<Connection>,
    programs: Vec<Program>,
    /// Programs that have died and are not cleaned up yet.
    dead: Vec<Dead>,
    now: u64,
    ring_bytes: u32,
    is_armed: bool,
    bug: Option<Bug>,
    trace: Trace,
    /// The windows that are not gone, by connection and end.
    windows: BTreeMap<(usize, usize), Window>,
    /// The pages that the engines were given, by node and number.
    pins: BTreeMap<(usize, u64), Vec<u64>>,
    last_pin: u64,
    /// Whether ends register windows and programs copy to them.
    has_windows: bool,
    report: BypassReport,
}

/// Runs a world. Returns the counts.
///
/// # Errors The first rule that was broken.
pub fn run(seed: u64, steps: u64, bug: Option<Bug>) -> Result<BypassReport, Failure> {
    play("bypass clients", seed, |trace| {
        let mut world = World::new(seed, bug, trace);
        world.play(steps)?;
        world.end()?;
        world.report.steps = steps;
        Ok(world.report)
    })
}

fn expect<T, E: Debug>(result: Result<T, E>, what: &str) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error:?}"))
}

impl World {
    fn new(seed: u64, bug: Option<Bug>, trace: &Trace) -> World {
        let mut rng = Rng::new(seed);
        let fabric = Fabric::new(2);
        fabric.borrow_mut().trace = trace.clone();
        let ring_bytes = [64, 256, 1024, 8192][rng.below(4) as usize];
        let node = |number: usize| {
            let mut config = Config::new(number as NodeId);
            config.endpoint_ring_bytes = ring_bytes;
            Node {
                engine: Engine::new(config),
                mem: NodeMemory::new(&fabric, number),
                bells: Vec::new(),
            }
        };
        let nodes = vec![node(0), node(1)];
        let has_windows = match bug {
            Some(bug) => [Bug::NoBusy, Bug::NoEpoch].contains(&bug),
            None => rng.one_in(2),
        };
        let is_armed = bug.is_some() || !rng.one_in(6);
        World {
            rng,
            fabric,
            nodes,
            connections: Vec::new(),
            programs: Vec::new(),
            dead: Vec::new(),
            now: 0,
            ring_bytes,
            is_armed,
            bug,
            trace: trace.clone(),
            windows: BTreeMap::new(),
            pins: BTreeMap::new(),
            last_pin: 0,
            has_windows,
            report: BypassReport::default(),
        }
    }

    /// Links the nodes. In some worlds they do not have the extension.
    fn link(&mut self) -> Result<(), String> {
        let mut addresses = Vec::new();
        for at in 0..2 {
            let node = &mut self.nodes[at];
            let other = 1 - at as NodeId;
            addresses.push(expect(node.engine.attach(&mut node.mem, other), "attach")?);
            self.fabric.borrow_mut().set_reach(at, 1 - at, true);
        }
        for (at, address) in addresses.iter().enumerate() {
            if !self.is_armed {
                let word = (Extensions::all() - Extensions::ARMED).to_word();
                let place = address + EXTENSION_WORD;
                self.fabric
                    .borrow_mut()
                    .scribble(at, place, &word.to_le_bytes());
            }
        }
        for at in 0..2 {
            let node = &mut self.nodes[at];
            let up = node
                .engine
                .link_up(&mut node.mem, 1 - at as NodeId, addresses[1 - at]);
            expect(up, "link up")?;
        }
        self.run_until_idle()
    }

    /// Connects two endpoints.
    fn connect(&mut self, nodes: [usize; 2]) -> Result<(), String> {
        let port = 2000 + self.connections.len() as u16;
        let [a, b] = nodes;
        let listener = {
            let engine = &mut self.nodes[b].engine;
            let listener = expect(engine.open(OWNER), "open")?;
            expect(engine.bind(listener, port), "bind")?;
            expect(engine.listen(listener, 1), "listen")?;
            listener
        };
        let Node { engine, mem, .. } = &mut self.nodes[a];
        let active = expect(engine.open(OWNER), "open")?;
        let to = PortId::new(b as NodeId, port);
        expect(
            engine.connect(mem, active, to, ConnectMode::Blocking),
            "connect",
        )?;
        self.run_until_idle()?;
        let Node { engine, mem, .. } = &mut self.nodes[b];
        let passive = expect(engine.accept_start(mem, listener, OWNER), "accept")?;
        self.run_until_idle()?;
        let Node { engine, mem, .. } = &mut self.nodes[b];
        engine.close(mem, listener);
        let stream = |rng: &mut Rng| Stream {
            seed: rng.number(),
            ..Stream::default()
        };
        self.connections.push(Connection {
            nodes,
            ends: [active, passive],
            is_open: [true; 2],
            streams: [stream(&mut self.rng), stream(&mut self.rng)],
            turns: [None; 2],
            is_spoilt: false,
        });
        Ok(())
    }

    fn play(&mut self, steps: u64) -> Result<(), String> {
        self.link()?;
        for at in 0..4 {
            let nodes = if at == 0 {
                [0, 0]
            } else {
                [at % 2, 1 - at % 2]
            };
            self.connect(nodes)?;
            for side in 0..2 {
                for _ in 0..1 + self.rng.below(3) {
                    self.start_program((at, side))?;
                }
            }
        }
        for step in 0..steps {
            self.trace.begin(step);
            self.step()?;
            self.check()?;
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        for (number, node) in self.nodes.iter().enumerate() {
            let rules = node.engine.check_invariants();
            rules.map_err(|broken| format!("node {number}: {broken}"))?;
        }
        match self.fabric.borrow_mut().fault.take() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Starts a program that uses either the engine or the rings.
    fn start_program(&mut self, end: (usize, usize)) -> Result<(), String> {
        let mut program = Program {
            end,
            bypass: None,
            sleeps: Readiness::empty(),
            kicks: Kicks::empty(),
            holds: None,
            sending: None,
        };
        if !self.rng.one_in(3) {
            program.bypass = self.open_bypass(end)?;
        }
        self.programs.push(program);
        Ok(())
    }

    fn open_bypass(&mut self, (at, side): (usize, usize)) -> Result<Option<Handle>, String> {
        let connection = &self.connections[at];
        let (node, id) = (connection.nodes[side], connection.ends[side]);
        let is_within = connection.nodes[0] == connection.nodes[1];
        let Node { engine, mem, .. } = &mut self.nodes[node];
        let (handle, record) = match engine.open_bypass(mem, id, OWNER) {
            Ok(opened) => opened,
            Err(Error::NotSupported) if !self.is_armed && !is_within => {
                self.report.refused += 1;
                return Ok(None);
            }
            Err(Error::NotConnected | Error::BadDescriptor) => return Ok(None),
            Err(error) => return Err(format!("open_bypass: {error:?}")),
        };
        let place = |part| expect(engine.bypass_place(handle, part), "place of a part");
        let (Place::Own(control), _) = place(Part::Control)? else {
            return Err("a control page of somebody else".into());
        };
        let (Place::Own(own), _) = place(Part::Own)? else {
            return Err("a ring of somebody else".into());
        };
        let mapped = Mapped {
            mem: mem.clone(),
            control,
            number: record.handle.get(),
            own,
            peer: place(Part::PeerQueuePair)?.0,
            peer_ring: place(Part::PeerRing)?.0,
            life: None,
            locks: self.bug != Some(Bug::NoLock),
        };
        engine.map_bypass(handle, 2);
        Ok(Some(Handle {
            id: handle,
            number: record.handle.get(),
            mapped,
            producer: Producer::new(record.peer_ring_bytes.get()),
            consumer: Consumer::new(record.own_ring_bytes.get()),
            copying: None,
        }))
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(100) {
            0..30 => {
                let node = self.rng.below(2) as usize;
                self.turn(node)?;
            }
            30..34 => self.now += self.rng.below(2_000_000),
            34 if self.rng.one_in(40) => {
                let at = self.rng.below(self.connections.len() as u64) as usize;
                let side = self.rng.below(2) as usize;
                self.close_end(at, side);
            }
            35 => {
                let at = self.rng.below(self.connections.len() as u64) as usize;
                let side = self.rng.below(2) as usize;
                if self.connections[at].is_open[side] && self.programs.len() < 40 {
                    self.start_program((at, side))?;
                }
            }
            36..38 if self.has_windows => self.window_step()?,
            38..44 if !self.dead.is_empty() => {
                let which = self.rng.below(self.dead.len() as u64) as usize;
                self.clean_up(which);
            }
            _ if self.programs.is_empty() => {}
            _ => {
                let which = self.rng.below(self.programs.len() as u64) as usize;
                self.work(which)?;
            }
        }
        Ok(())
    }

    fn close_end(&mut self, at: usize, side: usize) {
        let connection = &mut self.connections[at];
        if std::mem::replace(&mut connection.is_open[side], false) {
            let Node { engine, mem, .. } = &mut self.nodes[connection.nodes[side]];
            engine.close(mem, connection.ends[side]);
            connection.turns[side] = None;
            // The calls of all programs that sleep there end.
            let programs = self.programs.iter_mut();
            for program in programs.filter(|program| program.end == (at, side)) {
                program.sleeps = Readiness::empty();
                program.sending = None;
            }
        }
    }

    /// Runs one iteration of a node's loop. Events wake the programs that sleep there.
    fn turn(&mut self, number: usize) -> Result<(), String> {
        let Node { engine, mem, bells } = &mut self.nodes[number];
        engine.tick(mem, self.now);
        for from in bells.drain(..) {
            engine.doorbell(mem, from);
        }
        engine.pump(mem, &mut CpuEngine, 1 << 16);
        loop {
            let Node { engine, mem, .. } = &mut self.nodes[number];
            match engine.next_event(mem) {
                None => return self.look_at_windows(),
                Some(Event::Ring(to)) => self.nodes[usize::from(to)].bells.push(number as NodeId),
                Some(Event::Changed(id)) => self.wake(number, id),
                Some(Event::Unpin(pin)) => self.released(number, pin)?,
                Some(Event::LinkFailed(_) | Event::NodeDown(_)) => {
                    return Err("a link failed, though only programs store nonsense".into());
                }
                Some(_) => {}
            }
        }
    }

    fn wake(&mut self, node: usize, id: EndpointId) {
        for program in &mut self.programs {
            let connection = &self.connections[program.end.0];
            let is_its = (
                connection.nodes[program.end.1],
                connection.ends[program.end.1],
            );
            if is_its != (node, id) || program.sleeps.is_empty() {
                continue;
            }
            let Node { engine, mem, .. } = &mut self.nodes[node];
            // The program polls again, as the daemon does for calls that wait.
            let is_blind = self.bug == Some(Bug::NoArm);
            if is_blind || !engine.arm(mem, id, program.sleeps).is_empty() {
                program.sleeps = Readiness::empty();
                self.report.wakes += 1;
            }
        }
    }

    /// Lets everything happen that needs no program.
    fn run_until_idle(&mut self) -> Result<(), String> {
        for _ in 0..12 {
            for node in 0..2 {
                self.turn(node)?;
            }
            self.now += 1_100_000;
        }
        self.check()
    }
}
