//! The simulated world: nodes with engines and programs, links that come and go, and the schedule.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use scif_abi::PortId;
use scif_core::{Config, Engine, Event, Memory, Owner, Stats};

use crate::actor::{Connector, Context, Ledger, Listener, Program, Turn};
use crate::links::{Record, Side};
use crate::memory::{CORRUPTION_INTERVAL, Fabric, NodeMemory};
use crate::rng::Rng;

/// A bug planted in the surroundings of the engine. The simulator must notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// One in two doorbells is lost.
    LostDoorbell,
    /// Now and then one byte of a transfer is changed on the bus.
    CorruptByte,
    /// A link is taken down although the peer still writes.
    ImpatientLink,
}

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Determines everything random.
    pub seed: u64,
    /// Steps before winding down.
    pub steps: u64,
    /// A planted bug.
    pub canary: Option<Canary>,
}

/// What a run without failure did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Steps taken, rounds of winding down included.
    pub steps: u64,
    /// Sum of the engines' counters.
    pub stats: Stats,
    /// Nodes that were switched off.
    pub nodes_killed: u64,
    /// Nodes that left in order.
    pub nodes_left: u64,
    /// Processes that were killed.
    pub processes_killed: u64,
    /// Links a driver gave up although the peer was there.
    pub links_lost: u64,
    /// Allocations that were refused.
    pub allocations_refused: u64,
}

/// A broken rule, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The step after which the rule was broken.
    pub step: u64,
    /// The rule.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} step {}: {}", self.seed, self.step, self.what)
    }
}

/// Prints the seed when an assertion or an arithmetic check stops a run.
struct SeedPrinter(u64);

impl Drop for SeedPrinter {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the simulation with seed {} panicked", self.0);
        }
    }
}

/// A program and whether it has something to do.
pub(crate) struct Slot {
    program: Program,
    process: u32,
    awake: bool,
}

/// One node.
pub(crate) struct Node {
    /// `None` while it is switched off.
    pub(crate) engine: Option<Engine>,
    pub(crate) memory: NodeMemory,
    pub(crate) programs: Vec<Slot>,
    /// Doorbells rung by each node and not delivered.
    pub(crate) bells: Vec<bool>,
    pub(crate) sides: Vec<Side>,
    /// Off, or has left.
    pub(crate) is_away: bool,
    next_process: u32,
}

/// The whole simulation.
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) fabric: Rc<RefCell<Fabric>>,
    pub(crate) nodes: Vec<Node>,
    /// `records[a][b]`: what `a` says about its link with `b`.
    pub(crate) records: Vec<Vec<Record>>,
    pub(crate) ledgers: BTreeMap<u64, Ledger>,
    now: u64,
    step: u64,
    finishing: bool,
    pub(crate) report: Report,
}

/// Runs one simulation.
///
/// # Errors
/// The first rule that was broken.
pub fn run(settings: Settings) -> Result<Report, Failure> {
    let _printer = SeedPrinter(settings.seed);
    let mut world = World::new(settings);
    let result = world.run();
    result.map_err(|what| Failure {
        seed: settings.seed,
        step: world.step,
        what,
    })
}

impl World {
    fn new(settings: Settings) -> World {
        let mut rng = Rng::new(settings.seed);
        let count = 2 + rng.below(2) as usize;
        let fabric = Fabric::new(count);
        if settings.canary == Some(Canary::CorruptByte) {
            fabric.borrow_mut().corrupt_after = Some(CORRUPTION_INTERVAL);
        }
        if rng.one_in(4) {
            fabric.borrow_mut().begin_scarcity();
        }
        let node = |number: usize| Node {
            engine: None,
            memory: NodeMemory::new(&fabric, number),
            programs: Vec::new(),
            bells: vec![false; count],
            sides: vec![Side::Idle; count],
            is_away: false,
            next_process: 1,
        };
        let nodes = (0..count).map(node).collect();
        let mut world = World {
            settings,
            rng,
            fabric,
            nodes,
            records: vec![vec![Record::default(); count]; count],
            ledgers: BTreeMap::new(),
            now: 1,
            step: 0,
            finishing: false,
            report: Report::default(),
        };
        for number in 0..count {
            world.switch_on(number);
        }
        world
    }

    fn run(&mut self) -> Result<Report, String> {
        while self.step < self.settings.steps {
            self.step += 1;
            self.random_step()?;
            self.check()?;
        }
        self.wind_down()?;
        self.check_empty()?;
        self.report.steps = self.step;
        Ok(self.report)
    }

    pub(crate) fn switch_on(&mut self, number: usize) {
        let mut config = Config::new(number as u16);
        // Small rings, down to a single message, so that they are full often.
        config.node_ring_bytes = 64 << self.rng.below(7);
        config.endpoint_ring_bytes = 4096 << self.rng.below(2);
        if self.rng.one_in(4) {
            config.endpoint_ring_bytes = 64 << self.rng.below(4);
        }
        let mut engine = Engine::new(config);
        engine.tick(&mut self.nodes[number].memory, self.now);
        self.nodes[number].engine = Some(engine);
        self.nodes[number].is_away = false;
    }

    fn random_step(&mut self) -> Result<(), String> {
        self.now += 1 + self.rng.size(1_000_000);
        let number = self.rng.below(self.nodes.len() as u64) as usize;
        let other = self.rng.below(self.nodes.len() as u64) as usize;
        match self.rng.below(1000) {
            0..500 => {
                let count = self.nodes[number].programs.len() as u64;
                let index = self.rng.below(count) as usize;
                self.turn(number, index)?;
            }
            500..650 => {
                self.deliver(number, other);
            }
            650..800 => {
                self.pump(number);
            }
            800..900 => {
                self.link_step(number, other)?;
            }
            900..958 => self.start_program(number),
            958..960 => self.kill_process(number),
            960 if self.rng.one_in(6) => self.switch_off(number),
            961 if self.rng.one_in(4) => self.leave(number),
            962..970 => self.come_back(number),
            980 => self.lose_patience(number, other),
            970..980 if self.settings.canary == Some(Canary::ImpatientLink) => {
                self.impatient_link_down(number, other);
            }
            _ => {}
        }
        Ok(())
    }

    /// One turn of a program; false when it sleeps.
    fn turn(&mut self, number: usize, index: usize) -> Result<bool, String> {
        let node = &mut self.nodes[number];
        let (Some(engine), Some(slot)) = (&mut node.engine, node.programs.get_mut(index)) else {
            return Ok(false);
        };
        if !slot.awake {
            return Ok(false);
        }
        let mut context = Context {
            node: number,
            engine,
            memory: &mut node.memory,
            rng: &mut self.rng,
            ledgers: &mut self.ledgers,
            finishing: self.finishing,
        };
        match slot.program.turn(&mut context) {
            Turn::Again => {}
            Turn::Sleep => slot.awake = false,
            Turn::Done => {
                node.programs.swap_remove(index);
            }
            Turn::Spawn(program) => {
                let process = slot.process;
                node.programs.push(Slot {
                    program: *program,
                    process,
                    awake: true,
                });
            }
            Turn::Become(program) => slot.program = *program,
            Turn::Broken(what) => return Err(format!("node {number}: {what}")),
        }
        Ok(true)
    }

    /// Delivers a doorbell; false when there is none.
    fn deliver(&mut self, number: usize, from: usize) -> bool {
        let rang = std::mem::take(&mut self.nodes[number].bells[from]);
        // Now and then one that nobody rang.
        if !rang && (self.finishing || number == from || !self.rng.one_in(20)) {
            return false;
        }
        let node = &mut self.nodes[number];
        if let Some(engine) = &mut node.engine {
            engine.doorbell(&mut node.memory, from as u16);
        }
        rang
    }

    /// Tells a node the time and carries out its events; false when there are none.
    fn pump(&mut self, number: usize) -> bool {
        let mut any = false;
        let node = &mut self.nodes[number];
        if let Some(engine) = &mut node.engine {
            engine.tick(&mut node.memory, self.now);
        }
        loop {
            let node = &mut self.nodes[number];
            let Some(engine) = &mut node.engine else {
                return any;
            };
            let Some(event) = engine.next_event(&mut node.memory) else {
                return any;
            };
            any = true;
            match event {
                Event::Changed(id) => {
                    for slot in node.programs.iter_mut().filter(|s| s.program.waits_for(id)) {
                        slot.awake = true;
                    }
                }
                Event::Ring(to) => self.ring(number, usize::from(to)),
                Event::NodeUp(_)
                | Event::NodeDown(_)
                | Event::LinkFailed(_)
                | Event::Released(_) => {}
            }
        }
    }

    fn ring(&mut self, number: usize, to: usize) {
        if self.settings.canary == Some(Canary::LostDoorbell) && self.rng.one_in(2) {
            return;
        }
        if self.nodes[to].engine.is_some() {
            self.nodes[to].bells[number] = true;
        }
    }

    fn start_program(&mut self, number: usize) {
        if self.nodes[number].programs.len() >= 12 || self.nodes[number].is_away {
            return;
        }
        let to = self.rng.below(self.nodes.len() as u64) as u16;
        let port = 3000 + self.rng.below(4) as u16;
        let node = &mut self.nodes[number];
        let Some(engine) = &mut node.engine else {
            return;
        };
        node.next_process += self.rng.below(2) as u32;
        let owner = Owner {
            process: node.next_process,
            user: self.rng.below(2) as u32,
        };
        let listens = self.rng.one_in(3);
        let mut context = Context {
            node: number,
            engine,
            memory: &mut node.memory,
            rng: &mut self.rng,
            ledgers: &mut self.ledgers,
            finishing: false,
        };
        let program = if listens {
            Listener::start(&mut context, owner, port).map(Program::Listener)
        } else {
            Connector::start(&mut context, owner, PortId::new(to, port)).map(Program::Connector)
        };
        if let Some(program) = program {
            node.programs.push(Slot {
                program,
                process: owner.process,
                awake: true,
            });
        }
    }

    fn kill_process(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let (count, Some(engine)) = (node.programs.len() as u64, &mut node.engine) else {
            return;
        };
        let Some(victim) = node.programs.get(self.rng.below(count) as usize) else {
            return;
        };
        let process = victim.process;
        for slot in node.programs.extract_if(.., |slot| slot.process == process) {
            for endpoint in slot.program.endpoints() {
                engine.close(&mut node.memory, endpoint);
            }
        }
        self.report.processes_killed += 1;
    }

    // Rules.

    fn check(&mut self) -> Result<(), String> {
        if let Some(fault) = self.fabric.borrow_mut().fault.take() {
            return Err(fault);
        }
        for (number, node) in self.nodes.iter().enumerate() {
            let Some(engine) = &node.engine else { continue };
            engine
                .check_invariants()
                .map_err(|what| format!("node {number}: {what}"))?;
            let pages = self.fabric.borrow().pages_used(number);
            if engine.stats().pages != pages {
                let counted = engine.stats().pages;
                return Err(format!(
                    "node {number}: {pages} pages in use, {counted} counted"
                ));
            }
        }
        Ok(())
    }

    /// Lets everything end: programs begin nothing new, links come up, messages arrive.
    fn wind_down(&mut self) -> Result<(), String> {
        self.finishing = true;
        self.report.allocations_refused = self.fabric.borrow_mut().end_scarcity();
        for number in 0..self.nodes.len() {
            self.come_back(number);
            for slot in &mut self.nodes[number].programs {
                slot.awake = true;
            }
        }
        for _ in 0..1_000_000 {
            self.step += 1;
            self.now += 1_000;
            let busy = self.round()?;
            self.check()?;
            if busy {
                continue;
            }
            let asleep: usize = self.nodes.iter().map(|node| node.programs.len()).sum();
            let engines = self.nodes.iter().filter_map(|node| node.engine.as_ref());
            let deadline = engines.filter_map(Engine::next_deadline).min();
            match deadline {
                None if asleep == 0 => return Ok(()),
                None => {
                    return Err(format!(
                        "{asleep} programs sleep and nothing will wake them"
                    ));
                }
                // Full rings are looked at after a millisecond, an exit is answered within one
                // second; no longer time-out is ever needed to get on.
                Some(deadline) if deadline > self.now + 2_000_000_000 => {
                    return Err(format!(
                        "{asleep} programs sleep, only a long time-out helps"
                    ));
                }
                Some(deadline) => self.now = self.now.max(deadline),
            }
        }
        Err("the simulation does not come to an end".into())
    }

    /// Everybody does what there is to do; false when that was nothing.
    fn round(&mut self) -> Result<bool, String> {
        let mut busy = false;
        for number in 0..self.nodes.len() {
            for index in (0..self.nodes[number].programs.len()).rev() {
                busy |= self.turn(number, index)?;
            }
            for other in 0..self.nodes.len() {
                busy |= self.deliver(number, other);
                busy |= self.link_step(number, other)?;
            }
            busy |= self.pump(number);
        }
        Ok(busy)
    }

    /// Nothing may be left over.
    fn check_empty(&mut self) -> Result<(), String> {
        for number in 0..self.nodes.len() {
            for other in 0..self.nodes.len() {
                self.link_down(number, other);
            }
            self.pump(number);
            self.check()?;
            let Some(engine) = &self.nodes[number].engine else {
                continue;
            };
            let stats = engine.stats();
            let ports = engine.ports().count();
            let left = [stats.endpoints, stats.connections, ports, stats.pages];
            if left != [0; 4] {
                return Err(format!(
                    "node {number}: endpoints, connections, ports and pages left over: {left:?}"
                ));
            }
            let complaints = [
                stats.rings_reset,
                // A dead peer's memory reads as ones.
                if self.report.nodes_killed > 0 {
                    0
                } else {
                    stats.bad_queue_pairs
                },
                stats.unknown_messages,
                if self.report.links_lost > 0 {
                    0
                } else {
                    stats.links_failed
                },
            ];
            if complaints != [0; 4] {
                return Err(format!(
                    "node {number} complained about its peers: {complaints:?}"
                ));
            }
            self.collect_stats(number);
        }
        Ok(())
    }

    pub(crate) fn collect_stats(&mut self, number: usize) {
        let Some(engine) = &self.nodes[number].engine else {
            return;
        };
        let (sum, stats) = (&mut self.report.stats, engine.stats());
        sum.bytes_sent += stats.bytes_sent;
        sum.bytes_received += stats.bytes_received;
        sum.connected += stats.connected;
        sum.accepted += stats.accepted;
        sum.refused += stats.refused;
        sum.messages_sent += stats.messages_sent;
        sum.messages_received += stats.messages_received;
        sum.doorbells_rung += stats.doorbells_rung;
        sum.doorbells_received += stats.doorbells_received;
        sum.links_up += stats.links_up;
        sum.stale_ids += stats.stale_ids;
        sum.unexpected_messages += stats.unexpected_messages;
    }
}

/// Memory of a single node that is on its own, for tests of calls rather than of schedules.
pub fn lonely_memory() -> impl Memory {
    NodeMemory::new(&Fabric::new(1), 0)
}
