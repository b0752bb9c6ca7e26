//! A hostile peer: a node without an engine, which stores random messages, indices and queue pairs
//! where a real node would store valid ones.
//!
//! The victim's programs connect to the hostile node and accept connections from it. A stream
//! within the victim, and a third node's connection with the victim, must not be affected.

use std::cell::RefCell;
use std::rc::Rc;

use scif_abi::PortId;
use scif_abi::message::{Extensions, MESSAGE_BYTES, Message, NodeMessage};
use scif_abi::qp::{LOCAL_READ_OFFSET, LOCAL_WRITE_OFFSET};
use scif_core::{Config, ConnectMode, EndpointId, Engine, LinkState, Owner};
use zerocopy::FromZeros;

use crate::bystander::Bystander;
use crate::faults::{Fault, Faults};
use crate::hostile_windows::{self, Neighbours, Registered, Words};
use crate::memory::{Fabric, NodeMemory};
use crate::peer::{RING_BYTES, ScriptedPeer};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

pub(crate) const VICTIM: u16 = 0;
pub(crate) const HOSTILE: u16 = 1;
const PORT: u16 = 2000;

/// The counts of a run with a hostile peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostileReport {
    /// Number of connections established with the hostile node.
    pub connected: u64,
    /// Number of links given up.
    pub links_failed: u64,
    /// Number of rings reset.
    pub rings_reset: u64,
    /// Number of messages ignored for any reason.
    pub ignored: u64,
    /// Number of bytes that passed within the victim undisturbed.
    pub undisturbed_bytes: u64,
    /// Number of copies between windows within the victim.
    pub undisturbed_copies: u64,
    /// Number of bytes that passed between the victim and the third node.
    pub bystander_bytes: u64,
    /// Number of copies between the windows of the victim and the third node.
    pub bystander_copies: u64,
    /// Number of windows the victim registered.
    pub windows: u64,
    /// Number of windows that one of the two refused.
    pub refused_windows: u64,
    /// Number of transfers begun.
    pub transfers: u64,
    /// Number of mappings of the hostile node's windows.
    pub mappings: u64,
    /// The hostile node's acts.
    pub faults: Faults,
}

impl HostileReport {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &HostileReport) {
        self.connected += other.connected;
        self.links_failed += other.links_failed;
        self.rings_reset += other.rings_reset;
        self.ignored += other.ignored;
        self.undisturbed_bytes += other.undisturbed_bytes;
        self.undisturbed_copies += other.undisturbed_copies;
        self.bystander_bytes += other.bystander_bytes;
        self.bystander_copies += other.bystander_copies;
        self.windows += other.windows;
        self.refused_windows += other.refused_windows;
        self.transfers += other.transfers;
        self.mappings += other.mappings;
        self.faults.add(&other.faults);
    }
}

/// The hostile node. It knows what a real peer would know.
struct Hostile {
    peer: ScriptedPeer,
    /// The hostile node's queue pairs: the address of each structure as the victim sees it.
    queue_pairs: Vec<u64>,
    /// The queue pairs that the victim made for connections with the hostile node. The hostile
    /// node spoils only these: the engine cannot decide what other memory a peer may reach.
    victim_pairs: Vec<u64>,
    /// Numbers from the victim's messages: ids and addresses.
    seen: Vec<u64>,
    /// The messages that an honest peer would send next.
    proper: Vec<Words>,
    /// The ids of the victim's ends of connections.
    victim_ids: Vec<u64>,
    /// Messages that were sent, to be sent again.
    said: Vec<Message>,
    faults: Faults,
    rng: Rng,
}

impl Hostile {
    fn new(fabric: &Rc<RefCell<Fabric>>, rng: Rng) -> Hostile {
        Hostile {
            peer: ScriptedPeer::new(fabric, HOSTILE, VICTIM),
            queue_pairs: Vec::new(),
            victim_pairs: Vec::new(),
            seen: vec![0, 1, u64::MAX],
            proper: Vec::new(),
            victim_ids: Vec::new(),
            said: Vec::new(),
            faults: Faults::default(),
            rng,
        }
    }

    /// Makes a block with a queue pair structure that is valid in most cases.
    fn make_queue_pair(&mut self, rng: &mut Rng) -> u64 {
        let pair = self.peer.make_queue_pair(|structure| match rng.below(12) {
            0 => structure.magic = rng.number().into(),
            1 => structure.inbound.size = (rng.number() as u32).into(),
            2 => structure.local_buffer = rng.number().into(),
            3 => structure.extensions = (rng.number() as u32).into(),
            4 => structure.inbound.size = (1 << rng.below(32)).into(),
            _ => {}
        });
        let Some((_, exported)) = pair else { return 0 };
        self.queue_pairs.push(exported);
        exported
    }

    /// Reads the victim's messages and remembers every number in them.
    fn listen(&mut self) {
        for message in self.peer.receive() {
            let words = message.payload.map(|word| word.get());
            let opcode = message.opcode.get();
            self.seen.extend(words);
            self.plan_answer(opcode, words);
            if opcode == NodeMessage::CONNECT_REQUEST || opcode == NodeMessage::CONNECT_GRANT {
                self.victim_pairs.push(words[1]);
            }
        }
        if self.seen.len() > 200 {
            self.seen.drain(3..100);
        }
    }

    /// Plans the answer of an honest peer. It keeps connections alive long enough to be attacked.
    fn plan_answer(&mut self, opcode: u32, words: [u64; 4]) {
        let [first, second, third, _] = words;
        match opcode {
            NodeMessage::CONNECT_REQUEST => {
                let pair = self.queue_pairs.last().copied().unwrap_or(0);
                self.victim_ids.push(first);
                self.proper
                    .push((NodeMessage::CONNECT_GRANT, [first, pair, first, 0]));
            }
            NodeMessage::CONNECT_GRANT => {
                self.victim_ids.push(third);
                self.proper
                    .push((NodeMessage::CONNECT_GRANT_ACK, [third, 0, 0, 0]));
            }
            NodeMessage::DISCONNECT => {
                self.proper
                    .push((NodeMessage::DISCONNECT_ACK, [first, second, 0, 0]));
            }
            _ => {
                let answer = hostile_windows::answer(&mut self.peer, &mut self.rng, opcode, words);
                self.proper.extend(answer);
            }
        }
    }

    /// Sends one message that an honest peer might send.
    fn speak_properly(&mut self, rng: &mut Rng) {
        let recent = self.victim_ids.len().saturating_sub(4);
        let ids = &self.victim_ids[recent..];
        let request = if ids.is_empty() || rng.one_in(4) {
            let pair = self.make_queue_pair(rng);
            (NodeMessage::CONNECT_REQUEST, [rng.below(100), pair, 0, 0])
        } else {
            let id = ids[rng.below(ids.len() as u64) as usize];
            hostile_windows::request(rng, id)
        };
        let (opcode, words) = self.proper.pop().unwrap_or(request);
        self.send(rng, opcode, words);
    }

    fn number(&mut self, rng: &mut Rng) -> u64 {
        match rng.below(8) {
            0 => rng.number(),
            1 => rng.below(4),
            2 => self.make_queue_pair(rng),
            // The first ids of any table belong to the stream within the victim and to the third
            // node.
            7 => 1 << 32 | rng.below(6),
            3 if !self.queue_pairs.is_empty() => {
                self.queue_pairs[rng.below(self.queue_pairs.len() as u64) as usize]
            }
            _ => self.seen[rng.below(self.seen.len() as u64) as usize],
        }
    }

    /// Sends one message with random words.
    fn speak(&mut self, rng: &mut Rng, opcode: u32) {
        let words = [0; 4].map(|_: u64| self.number(rng));
        self.send(rng, opcode, words);
    }

    fn send(&mut self, rng: &mut Rng, opcode: u32, words: [u64; 4]) {
        let mut message = Message::new_zeroed();
        message.opcode = opcode.into();
        message.payload = words.map(Into::into);
        let port = |rng: &mut Rng| PORT + rng.below(2) as u16;
        message.source = PortId::new(rng.below(3) as u16, port(rng));
        message.destination = PortId::new(VICTIM, port(rng));
        self.say(message);
    }

    fn say(&mut self, message: Message) {
        self.faults.note(Fault::HostileMessage);
        if self.said.len() == 50 {
            self.said.remove(0);
        }
        let trace = self.peer.fabric.borrow().trace.clone();
        trace.note(|| format!("hostile: {:?} {:?}", message.body(), message.payload));
        self.said.push(message);
        self.peer.send(&message);
    }

    /// Sends an earlier message again, at times with ids of another connection.
    fn repeat(&mut self, rng: &mut Rng) {
        let pick = rng.below(self.said.len() as u64) as usize;
        let Some(mut message) = self.said.get(pick).copied() else {
            return;
        };
        let ids = self.victim_ids.len() as u64;
        if rng.one_in(4) {
            message.payload[rng.below(2) as usize] = (1 << 32 | rng.below(6)).into();
        } else if rng.one_in(2)
            && let Some(id) = self.victim_ids.get(rng.below(ids) as usize)
        {
            message.payload[rng.below(2) as usize] = (*id).into();
        }
        for _ in 0..1 + rng.size(40) {
            self.say(message);
        }
    }

    /// Sets the index of the node ring to a place that looks possible: one message back, one
    /// message ahead, a whole ring ahead, or the last byte.
    fn jump(&mut self, rng: &mut Rng) {
        let size = MESSAGE_BYTES as u32;
        let index = match rng.below(4) {
            0 => self.peer.written().wrapping_sub(size) % RING_BYTES,
            1 => (self.peer.written() + size) % RING_BYTES,
            2 => self.peer.written() + RING_BYTES,
            _ => RING_BYTES - 1,
        };
        let address = self.peer.other_qp + LOCAL_WRITE_OFFSET;
        self.faults.note(Fault::HostileStore);
        self.peer.scribble(address, &index.to_le_bytes());
    }

    /// Stores a random index into some queue pair that the victim made for the hostile node.
    fn spoil_index(&mut self, rng: &mut Rng) {
        let pairs = self.victim_pairs.len() as u64;
        let Some(address) = self.victim_pairs.get(rng.below(pairs) as usize).copied() else {
            return;
        };
        // The victim freed it long ago, and a program has pinned the page since.
        if self.peer.fabric.borrow().is_pinned(VICTIM.into(), address) {
            return;
        }
        let offset = if rng.one_in(2) {
            LOCAL_READ_OFFSET
        } else {
            LOCAL_WRITE_OFFSET
        };
        let index = if rng.one_in(3) {
            rng.number()
        } else {
            rng.below(u64::from(RING_BYTES))
        };
        self.faults.note(Fault::HostileStore);
        self.peer
            .scribble(address + offset, &(index as u32).to_le_bytes());
    }
}

/// The engine, programs and memory of the victim.
struct Victim {
    engine: Engine,
    memory: NodeMemory,
    /// Endpoints in any state.
    endpoints: Vec<EndpointId>,
    listener: EndpointId,
    /// The stream within the victim, and the numbers of bytes sent and received.
    pair: [EndpointId; 2],
    sent: u64,
    received: u64,
    registered: Registered,
    neighbours: Neighbours,
    bystander: Bystander,
}

/// Runs one attack.
///
/// # Errors The first rule that the victim broke.
pub fn run_hostile(seed: u64, steps: u64) -> Result<HostileReport, Failure> {
    play("hostile peer", seed, |trace| attack(seed, steps, trace))
}

fn attack(seed: u64, steps: u64, trace: &Trace) -> Result<HostileReport, String> {
    let mut rng = Rng::new(seed);
    let fabric = Fabric::new(3);
    // The addresses that the victim gets from the hostile node are random, so its stores into that
    // node's memory are no errors.
    fabric.borrow_mut().lawless = Some(usize::from(HOSTILE));
    fabric.borrow_mut().trace = trace.clone();
    let mut hostile = Hostile::new(&fabric, Rng::new(rng.number()));
    let mut victim = Victim::new(&fabric, &mut rng)?;
    for step in 0..steps {
        trace.begin(step);
        victim.ensure_link(&mut hostile, step)?;
        match rng.below(10) {
            0..4 => {
                hostile.listen();
                let opcode = if rng.one_in(20) {
                    rng.number() as u32
                } else {
                    rng.below(40) as u32
                };
                let opcode = if rng.one_in(10) {
                    64 + rng.below(2) as u32
                } else {
                    opcode
                };
                // EXIT and NODE_REMOVE would end the link, so they are rare.
                if !matches!(opcode, 2 | 7) || rng.one_in(20) {
                    hostile.speak(&mut rng, opcode);
                }
                victim.engine.doorbell(&mut victim.memory, HOSTILE);
            }
            4 if rng.one_in(4) => hostile.spoil_index(&mut rng),
            4 => {
                hostile.listen();
                hostile.speak_properly(&mut rng);
                victim.engine.doorbell(&mut victim.memory, HOSTILE);
            }
            5 if rng.one_in(10) => {
                hostile.repeat(&mut rng);
                for _ in 0..1 + rng.size(20) {
                    hostile.faults.note(Fault::HostileDoorbell);
                    victim.engine.doorbell(&mut victim.memory, HOSTILE);
                }
            }
            5 if rng.one_in(60) => hostile.jump(&mut rng),
            5 if rng.one_in(40) => {
                hostile.faults.note(Fault::HostileStore);
                // The index is usually not a multiple of the message size.
                let index = rng.below(u64::from(RING_BYTES)) as u32;
                let address = hostile.peer.other_qp + LOCAL_WRITE_OFFSET;
                hostile.peer.scribble(address, &index.to_le_bytes());
            }
            5 => hostile.listen(),
            6 | 7 => victim.memory_step(&mut rng)?,
            _ => victim.client_step(&mut rng)?,
        }
        victim.stream_step(&mut rng)?;
        let broken = victim.engine.check_invariants();
        broken.map_err(|rule| rule.to_string())?;
        if let Some(fault) = fabric.borrow_mut().fault.take() {
            return Err(fault);
        }
    }
    let mut report = victim.finish(&fabric)?;
    report.faults = hostile.faults;
    report
        .faults
        .note_many(Fault::LinkSpoilt, report.links_failed + report.rings_reset);
    Ok(report)
}

impl Victim {
    fn new(fabric: &Rc<RefCell<Fabric>>, rng: &mut Rng) -> Result<Victim, String> {
        let mut memory = NodeMemory::new(fabric, usize::from(VICTIM));
        let mut config = Config::new(VICTIM);
        config.node_ring_bytes = RING_BYTES;
        let mut engine = Engine::new(config);
        let text = |error: scif_abi::Error| error.to_string();
        let owner = Owner::default();
        let listener = engine.open(owner).map_err(text)?;
        engine.bind(listener, PORT).map_err(text)?;
        engine.listen(listener, 3).map_err(text)?;
        let own = PortId::new(VICTIM, PORT + 5);
        let pair_listener = engine.open(owner).map_err(text)?;
        engine.bind(pair_listener, own.port()).map_err(text)?;
        engine.listen(pair_listener, 1).map_err(text)?;
        let active = engine.open(owner).map_err(text)?;
        engine
            .connect(&mut memory, active, own, ConnectMode::Blocking)
            .map_err(text)?;
        while engine.next_event(&mut memory).is_some() {}
        let passive = engine
            .accept_start(&mut memory, pair_listener, owner)
            .map_err(text)?;
        while engine.next_event(&mut memory).is_some() {}
        engine.close(&mut memory, pair_listener);
        let pair = [active, passive];
        let neighbours = Neighbours::new(fabric, &mut engine, &mut memory, pair, rng)?;
        let bystander = Bystander::new(fabric, (&mut engine, &mut memory), rng)?;
        Ok(Victim {
            neighbours,
            bystander,
            engine,
            memory,
            endpoints: vec![],
            listener,
            pair,
            sent: 0,
            received: 0,
            registered: Registered::new(fabric, rng),
        })
    }

    /// Brings the link up again whenever it went down, as a driver would.
    fn ensure_link(&mut self, hostile: &mut Hostile, step: u64) -> Result<(), String> {
        let state = self.engine.link_state(HOSTILE);
        if matches!(state, Some(LinkState::Failed | LinkState::Left)) {
            self.registered.abort();
            self.engine.link_down(&mut self.memory, HOSTILE);
            hostile
                .peer
                .fabric
                .borrow_mut()
                .restart(usize::from(HOSTILE));
        } else if state.is_some() {
            return Ok(());
        }
        let address = self.engine.attach(&mut self.memory, HOSTILE);
        let address = address.map_err(|error| format!("step {step}: {error}"))?;
        let (from, to) = (usize::from(HOSTILE), usize::from(VICTIM));
        hostile.peer.fabric.borrow_mut().set_reach(from, to, true);
        let queue_pair = hostile.peer.begin(address, Extensions::all().to_word());
        let result = self.engine.link_up(&mut self.memory, HOSTILE, queue_pair);
        result.map_err(|error| format!("step {step}: {error}"))?;
        hostile.speak(&mut Rng::new(step), 1);
        self.engine.doorbell(&mut self.memory, HOSTILE);
        Ok(())
    }

    /// Does something that a program might do, whatever the state of its endpoint.
    fn client_step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        let pick = self
            .endpoints
            .get(rng.below(self.endpoints.len() as u64) as usize)
            .copied();
        let mut buffer = vec![0; rng.size(6000) as usize];
        match (rng.below(10), pick) {
            (0, _) if self.endpoints.len() < 20 => {
                self.endpoints.extend(engine.open(Owner::default()).ok());
            }
            (1 | 2, Some(id)) => {
                let to = PortId::new(HOSTILE, 1 + rng.below(3) as u16);
                let _ = engine.connect(memory, id, to, ConnectMode::NonBlocking);
            }
            (3, _) => {
                if let Ok(new) = engine.accept_start(memory, self.listener, Owner::default()) {
                    self.endpoints.push(new);
                }
            }
            (4, Some(id)) => {
                let _ = engine.send(memory, id, &buffer);
            }
            (5, Some(id)) => {
                let _ = engine.recv(memory, id, &mut buffer);
            }
            (6, Some(id)) => {
                let _ = engine.poll(memory, id);
            }
            (7, Some(id)) if rng.one_in(3) => {
                engine.close(memory, id);
                self.endpoints.retain(|other| *other != id);
            }
            (8, _) => {
                let now = engine.next_deadline().unwrap_or(0);
                engine.tick(memory, now);
            }
            _ => {
                let budget = 1 + rng.size(50_000) as usize;
                self.registered.pump(engine, memory, budget)?;
            }
        }
        Ok(())
    }

    /// Does something that a program might do with registered memory.
    fn memory_step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let pick = rng.below(self.endpoints.len() as u64) as usize;
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        match self.endpoints.get(pick) {
            Some(endpoint) => self.registered.step(engine, memory, *endpoint, rng),
            None => Ok(()),
        }
    }

    /// Continues the stream within the victim, which must go on undisturbed.
    fn stream_step(&mut self, rng: &mut Rng) -> Result<(), String> {
        let [active, passive] = self.pair;
        let size = rng.size(5000);
        let bytes: Vec<u8> = (self.sent..self.sent + size).map(|at| at as u8).collect();
        let count = self.engine.send(&mut self.memory, active, &bytes);
        self.sent += count.map_err(|error| format!("own stream: {error}"))? as u64;
        let mut buffer = vec![0; rng.size(5000) as usize];
        let count = self.engine.recv(&mut self.memory, passive, &mut buffer);
        let count = count.map_err(|error| format!("own stream: {error}"))?;
        for byte in &buffer[..count] {
            if *byte != self.received as u8 {
                return Err(format!("byte {} of the own stream is wrong", self.received));
            }
            self.received += 1;
        }
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        self.neighbours.step(engine, memory, self.pair, rng)?;
        self.bystander.step(engine, memory, rng)
    }

    fn finish(mut self, fabric: &Rc<RefCell<Fabric>>) -> Result<HostileReport, String> {
        let stats = self.engine.stats();
        // The calls that the third node has begun end first.
        for _ in 0..100 {
            let (engine, memory) = (&mut self.engine, &mut self.memory);
            self.registered.pump(engine, memory, 1 << 20)?;
            self.bystander.turn((engine, memory));
        }
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        self.bystander.finish(engine, memory)?;
        for id in self
            .endpoints
            .iter()
            .chain(&self.pair)
            .chain([&self.listener])
        {
            self.engine.close(&mut self.memory, *id);
        }
        let (engine, memory) = (&mut self.engine, &mut self.memory);
        self.registered.pump(engine, memory, 1 << 20)?;
        self.registered.abort();
        self.engine.link_down(&mut self.memory, HOSTILE);
        self.registered.finish(&mut self.engine, &mut self.memory)?;
        self.engine
            .check_invariants()
            .map_err(|violation| violation.to_string())?;
        let left = fabric.borrow().pages_used(usize::from(VICTIM));
        // Grants whose acceptor was closed before the connector answered must have ended with the
        // link.
        if left != 0 || self.engine.stats().connections != 0 {
            return Err(format!("{left} pages left over"));
        }
        Ok(HostileReport {
            connected: stats.connected + stats.accepted,
            links_failed: stats.links_failed,
            rings_reset: stats.rings_reset,
            ignored: stats.unknown_messages + stats.stale_ids + stats.unexpected_messages,
            undisturbed_bytes: self.received,
            undisturbed_copies: self.neighbours.copies,
            bystander_bytes: self.bystander.bytes(),
            bystander_copies: self.bystander.copies,
            windows: self.registered.windows,
            refused_windows: stats.refused_windows + stats.bad_windows,
            transfers: self.registered.transfers,
            mappings: self.registered.mappings,
            faults: Faults::default(),
        })
    }
}
