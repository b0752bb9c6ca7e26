//! The simulated world: nodes with engines and programs, links that come and go, and the schedule.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use scif_abi::PortId;
use scif_abi::flags::Readiness;
use scif_core::{Config, Engine, Event, Memory, Owner, Stats};

use crate::actor::{Connector, Context, Ledger, Listener, Program, Turn};
use crate::dma::Copier;
use crate::links::{Record, Side};
use crate::mapping::Held;
use crate::memory::{CORRUPTION_INTERVAL, Fabric, LateAsks, NodeMemory};
use crate::model::{Counts, Model};
use crate::rng::Rng;

/// Steps between two times at which late stores arrive.
const LATE_STEPS: u64 = 8;

/// A bug planted in the surroundings of the engine. The simulator must notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// One in two doorbells is lost.
    LostDoorbell,
    /// Who asks for doorbells looks at its ring before the other side has seen that it asks.
    LateAsk,
    /// Now and then one byte of a transfer is changed on the bus.
    CorruptByte,
    /// A link is taken down although the peer still writes.
    ImpatientLink,
    /// Now and then a copy of registered memory is not made.
    SkippedCopy,
    /// The copy engine tells that descriptors have been executed before they are.
    HastyCompletion,
    /// The copy engine stores what shall be stored behind copies before they are made.
    HastyStore,
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
    /// What was done with registered memory.
    pub registered: Counts,
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
    pub(crate) program: Program,
    process: u32,
    awake: bool,
}

/// One node.
pub(crate) struct Node {
    /// `None` while it is switched off.
    pub(crate) engine: Option<Engine>,
    pub(crate) memory: NodeMemory,
    pub(crate) programs: Vec<Slot>,
    /// Mappings whose programs have ended.
    pub(crate) orphans: Vec<Held>,
    pub(crate) copier: Copier,
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
    pub(crate) model: Model,
    now: u64,
    pub(crate) step: u64,
    finishing: bool,
    /// Few programs with much registered memory, on nodes that seldom go, instead of many that send
    /// and receive.
    pub(crate) is_calm: bool,
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
        if settings.canary == Some(Canary::LateAsk) {
            fabric.borrow_mut().late_asks = Some(LateAsks::default());
        }
        if rng.one_in(4) {
            fabric.borrow_mut().begin_scarcity();
        }
        let node = |number: usize| Node {
            engine: None,
            memory: NodeMemory::new(&fabric, number),
            programs: Vec::new(),
            orphans: Vec::new(),
            copier: Copier::new(Rng::new(settings.seed), false, None),
            bells: vec![false; count],
            sides: vec![Side::Idle; count],
            is_away: false,
            next_process: 1,
        };
        let nodes = (0..count).map(node).collect();
        let registered = [
            Canary::SkippedCopy,
            Canary::HastyCompletion,
            Canary::HastyStore,
        ];
        let must_be_calm = settings.canary.is_some_and(|c| registered.contains(&c));
        let is_calm = must_be_calm || settings.canary.is_none() && rng.one_in(2);
        let mut world = World {
            settings,
            is_calm,
            rng,
            model: Model::new(&fabric),
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
            self.land_asks();
            self.random_step()?;
            self.check()?;
        }
        self.wind_down()?;
        self.check_empty()?;
        self.report.steps = self.step;
        self.report.registered = self.model.counts;
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
        if self.rng.one_in(4) {
            config.pinned_pages_per_user = 10 + self.rng.below(50);
        }
        let mut engine = Engine::new(config);
        engine.tick(&mut self.nodes[number].memory, self.now);
        let hasty = [Canary::HastyCompletion, Canary::HastyStore].map(Some);
        let queues = hasty.contains(&self.settings.canary) || self.rng.one_in(2);
        let rng = Rng::new(self.rng.number());
        self.nodes[number].copier = Copier::new(rng, queues, self.settings.canary);
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
                self.pump(number)?;
            }
            800..900 => {
                self.link_step(number, other)?;
            }
            900..958 => self.start_program(number),
            958.. if self.is_calm && !self.rng.one_in(4) => {}
            958..960 => self.kill_process(number)?,
            960 if self.rng.one_in(6) => self.switch_off(number),
            961 if self.rng.one_in(4) => self.leave(number),
            962..970 => self.come_back(number),
            980 => self.lose_patience(number, other),
            981..990 => {
                self.touch_orphan(number)?;
            }
            990..1000 => {
                let node = &mut self.nodes[number];
                node.copier.step(&mut node.memory);
            }
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
            model: &mut self.model,
            orphans: &mut node.orphans,
            is_calm: self.is_calm,
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

    /// A turn of a node's driver: tells it the time, lets it copy and carries out its events; false
    /// when there was nothing to do.
    pub(crate) fn pump(&mut self, number: usize) -> Result<bool, String> {
        let node = &mut self.nodes[number];
        let Some(engine) = &mut node.engine else {
            return Ok(false);
        };
        engine.tick(&mut node.memory, self.now);
        let budget = 1 + self.rng.size(30_000) as usize;
        let mut any = node.copier.step(&mut node.memory);
        any |= engine.pump(&mut node.memory, &mut node.copier, budget);
        any |= node.copier.is_busy();
        self.look_for_signals()?;
        loop {
            let node = &mut self.nodes[number];
            let Some(engine) = &mut node.engine else {
                return Ok(any);
            };
            let Some(event) = engine.next_event(&mut node.memory) else {
                return Ok(any);
            };
            any = true;
            match event {
                Event::Changed(id) => {
                    for slot in node.programs.iter_mut().filter(|s| s.program.waits_for(id)) {
                        slot.awake = true;
                    }
                }
                Event::Ring(to) => self.ring(number, usize::from(to)),
                Event::Released(pin) => self.model.released(number, pin, |endpoint| {
                    let ready = engine.poll(&mut node.memory, endpoint);
                    ready.intersects(Readiness::HUP | Readiness::ERR)
                })?,
                Event::NodeUp(_) | Event::NodeDown(_) | Event::LinkFailed(_) => {}
            }
        }
    }

    /// Whoever waits for a signal sees it at once.
    fn look_for_signals(&mut self) -> Result<(), String> {
        let slots = self.nodes.iter_mut().flat_map(|node| &mut node.programs);
        for slot in slots {
            slot.program.look_for_signals(&mut self.model)?;
        }
        Ok(())
    }

    /// Uses or ends a mapping whose program has ended.
    fn touch_orphan(&mut self, number: usize) -> Result<bool, String> {
        let node = &mut self.nodes[number];
        let pick = self.rng.below(node.orphans.len() as u64) as usize;
        let (Some(engine), Some(held)) = (&mut node.engine, node.orphans.get(pick).cloned()) else {
            return Ok(false);
        };
        if !held.is_lost {
            let mut context = Context {
                node: number,
                engine,
                memory: &mut node.memory,
                rng: &mut self.rng,
                ledgers: &mut self.ledgers,
                model: &mut self.model,
                orphans: &mut node.orphans,
                is_calm: self.is_calm,
                finishing: self.finishing,
            };
            held.access(&mut context)?;
        }
        if self.finishing || self.rng.one_in(3) {
            node.orphans
                .swap_remove(pick)
                .unmap(engine, &mut node.memory);
        }
        Ok(true)
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
        let most = if self.is_calm { 4 } else { 12 };
        if self.nodes[number].programs.len() >= most || self.nodes[number].is_away {
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
            model: &mut self.model,
            orphans: &mut node.orphans,
            is_calm: self.is_calm,
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

    fn kill_process(&mut self, number: usize) -> Result<(), String> {
        let node = &mut self.nodes[number];
        let (count, Some(engine)) = (node.programs.len() as u64, &mut node.engine) else {
            return Ok(());
        };
        let Some(victim) = node.programs.get(self.rng.below(count) as usize) else {
            return Ok(());
        };
        let process = victim.process;
        let mut context = Context {
            node: number,
            engine,
            memory: &mut node.memory,
            rng: &mut self.rng,
            ledgers: &mut self.ledgers,
            model: &mut self.model,
            orphans: &mut node.orphans,
            is_calm: self.is_calm,
            finishing: self.finishing,
        };
        for mut slot in node.programs.extract_if(.., |slot| slot.process == process) {
            for endpoint in slot.program.endpoints() {
                context.engine.close(context.memory, endpoint);
            }
            slot.program.died(&mut context)?;
        }
        self.report.processes_killed += 1;
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
            self.land_asks();
            let busy = self.round()?;
            self.check()?;
            if busy {
                continue;
            }
            self.check_quiescent()?;
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

    /// What comes late arrives when others have gone on.
    fn land_asks(&mut self) {
        if self.step.is_multiple_of(LATE_STEPS) {
            self.fabric.borrow_mut().land_asks();
        }
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
            busy |= self.touch_orphan(number)?;
            busy |= self.pump(number)?;
        }
        Ok(busy)
    }
}

/// Memory of a single node that is on its own, for tests of calls rather than of schedules.
pub fn lonely_memory() -> impl Memory {
    NodeMemory::new(&Fabric::new(1), 0)
}
