//! The simulated world: nodes with engines and programs, and the kinds of worlds. `schedule` has
//! what happens in it, `links` how links come and go, `ending` how everything ends, and `rules`
//! what must hold.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use scif_core::{Config, EndpointId, Engine, Memory, Resource, Scope, Stats};

use crate::actor::{Context, HalfCloses, Ledger, Program};
use crate::dma::Copier;
use crate::faults::{Fault, Faults};
use crate::links::{Record, Side};
use crate::mapping::Held;
use crate::memory::{CORRUPTION_INTERVAL, Fabric, LEAK_INTERVAL, LateAsks, NodeMemory};
use crate::model::{Counts, Model};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

/// Bytes in each node's memory in the tests that play many worlds.
const SMALL_RAM_BYTES: usize = 2 << 20;

/// A bug planted in the surroundings of the engine. The simulator must notice each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// One in two doorbells is lost, and no driver ever polls its rings by itself.
    LostDoorbell,
    /// The stores of one node to another arrive out of order.
    StoresOvertake,
    /// Now and then a program is not told that an endpoint changed.
    LostEvent,
    /// Now and then a block of shared memory is not freed.
    LostFree,
    /// Pages of a window are unpinned when it is unregistered, although they are still in use.
    EarlyUnpin,
    /// Memory that a dead driver left behind is used again at once.
    EarlyReuse,
    /// A node never gives up the link with a silent peer.
    NoLinkTimeout,
    /// A driver that asks for doorbells polls its ring before the other side can see the request.
    LateAsk,
    /// Now and then one byte of a transfer is changed on the bus.
    CorruptByte,
    /// A link is taken down although the peer still writes.
    EarlyLinkDown,
    /// Now and then the copy engine skips a copy of registered memory.
    SkippedCopy,
    /// The copy engine reports descriptors as complete before it executes them.
    HastyCompletion,
    /// The copy engine makes the store that follows copies before it makes the copies.
    HastyStore,
}

/// The only fault of a run. A sweep tries all of them in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Refuses the allocation of shared memory with this number, counted from 1.
    Allocation(u64),
    /// Kills the process that made the call with this number, counted from 1, after the call.
    Call(u64),
}

/// The parameters of a world.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The seed of everything random.
    pub seed: u64,
    /// Steps before winding down.
    pub steps: u64,
    /// A planted bug, if any.
    pub canary: Option<Canary>,
    /// The only fault of the run, if there is to be only one.
    pub spoil: Option<Spoil>,
    /// Whether nodes are lost all the time.
    pub is_storm: bool,
}

impl Settings {
    /// Settings for a run with all faults.
    pub fn new(seed: u64, steps: u64) -> Settings {
        Settings {
            seed,
            steps,
            canary: None,
            spoil: None,
            is_storm: false,
        }
    }
}

/// The counts of a run without failure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Report {
    /// Steps taken, including the rounds of winding down.
    pub steps: u64,
    /// Number of allocations of shared memory.
    pub allocations: u64,
    /// Number of turns of programs. In each turn a program calls its engine at most a few times.
    pub calls: u64,
    /// Sum of the engines' counters.
    pub stats: Stats,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Counts of the uses of registered memory.
    pub registered: Counts,
    /// Counts of streams that continued in one direction only.
    pub half_closes: HalfCloses,
}

/// A program, and whether it is awake.
pub(crate) struct Slot {
    pub(crate) program: Program,
    pub(crate) process: u32,
    pub(crate) awake: bool,
}

/// One node.
pub(crate) struct Node {
    /// `None` while it is switched off.
    pub(crate) engine: Option<Engine>,
    pub(crate) memory: NodeMemory,
    pub(crate) programs: Vec<Slot>,
    /// Programs whose processes died, and the endpoints of each that are not closed yet.
    pub(crate) dead: Vec<(Slot, Vec<EndpointId>)>,
    /// Mappings whose programs ended.
    pub(crate) orphans: Vec<Held>,
    pub(crate) copier: Copier,
    /// For each node, the step in which it rang a doorbell that is not delivered yet.
    pub(crate) bells: Vec<Option<u64>>,
    pub(crate) sides: Vec<Side>,
    /// Whether the node is switched off or has left.
    pub(crate) is_away: bool,
    /// The time in nanoseconds since when the node is frozen.
    pub(crate) frozen_since: Option<u64>,
    /// Whether the driver polls its rings while it is awake.
    pub(crate) watches: bool,
    /// The time in nanoseconds at which the driver of a lossy world next polls all rings, whether
    /// or not a doorbell rang.
    pub(crate) next_look: u64,
    /// While peers may still store into the memory that the last driver left: for each link, the
    /// generations of this side and of the peer when that driver died.
    pub(crate) left: Option<Vec<(u64, u64)>>,
    pub(crate) next_process: u32,
}

/// The whole simulation.
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) rng: Rng,
    pub(crate) fabric: Rc<RefCell<Fabric>>,
    pub(crate) trace: Trace,
    pub(crate) nodes: Vec<Node>,
    /// `records[a][b]`: the record of `a` for its link with `b`.
    pub(crate) records: Vec<Vec<Record>>,
    pub(crate) ledgers: BTreeMap<u64, Ledger>,
    pub(crate) model: Model,
    /// Simulated time in nanoseconds.
    pub(crate) now: u64,
    pub(crate) step: u64,
    pub(crate) finishing: bool,
    /// Whether the world has few programs with much registered memory, on nodes that are seldom
    /// lost, rather than many programs that send and receive.
    pub(crate) is_calm: bool,
    /// Whether doorbells get lost and drivers poll all rings now and then.
    pub(crate) is_lossy: bool,
    /// Whether nodes are lost and come back all the time.
    pub(crate) is_stormy: bool,
    pub(crate) report: Report,
}

/// Runs one simulation.
///
/// # Errors
/// The first rule that was broken, with what happened before.
pub fn run(settings: Settings) -> Result<Report, Failure> {
    let name = match settings.spoil {
        None if settings.is_storm => "storm",
        None => "nodes",
        Some(Spoil::Allocation(_)) => "one allocation refused",
        Some(Spoil::Call(_)) => "one client killed",
    };
    play(name, settings.seed, |trace| {
        let mut world = World::new(settings, trace);
        let place = |what| match settings.spoil {
            None => what,
            Some(spoil) => format!("{spoil:?}: {what}"),
        };
        world.run().map_err(place)
    })
}

impl World {
    fn new(settings: Settings, trace: &Trace) -> World {
        let mut rng = Rng::new(settings.seed);
        let count = 2 + rng.below(2) as usize;
        let fabric = match settings.spoil {
            None => Fabric::new(count),
            Some(_) => Fabric::with_bytes(count, SMALL_RAM_BYTES),
        };
        let registered = [
            Canary::SkippedCopy,
            Canary::HastyCompletion,
            Canary::HastyStore,
            Canary::EarlyUnpin,
        ];
        let must_be_calm = settings.canary.is_some_and(|c| registered.contains(&c));
        let is_calm =
            must_be_calm || settings.canary.is_none() && !settings.is_storm && rng.one_in(2);
        let is_plain = settings.canary.is_some() || settings.spoil.is_some();
        let node = |number: usize| Node {
            engine: None,
            memory: NodeMemory::new(&fabric, number),
            programs: Vec::new(),
            dead: Vec::new(),
            orphans: Vec::new(),
            copier: Copier::new(Rng::new(settings.seed), false, None),
            bells: vec![None; count],
            sides: vec![Side::Idle; count],
            is_away: false,
            frozen_since: None,
            watches: false,
            next_look: 0,
            left: None,
            next_process: 1,
        };
        let nodes = (0..count).map(node).collect();
        let mut world = World {
            settings,
            is_calm,
            is_lossy: !is_plain && rng.one_in(3),
            is_stormy: settings.is_storm || !is_plain && !is_calm && rng.one_in(2),
            rng,
            trace: trace.clone(),
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
        world.set_fabric(is_plain);
        for number in 0..count {
            world.switch_on(number);
        }
        world
    }

    /// Sets how the memory and the links of this world behave.
    fn set_fabric(&mut self, is_plain: bool) {
        let mut fabric = self.fabric.borrow_mut();
        fabric.trace = self.trace.clone();
        match self.settings.canary {
            Some(Canary::CorruptByte) => fabric.corrupt_after = Some(CORRUPTION_INTERVAL),
            Some(Canary::LateAsk) => fabric.late_asks = Some(LateAsks::default()),
            Some(Canary::LostFree) => fabric.leaks_after = Some(LEAK_INTERVAL),
            Some(Canary::EarlyUnpin) => self.model.unpins_early = true,
            Some(Canary::StoresOvertake) => fabric.delay_stores(true),
            _ => {}
        }
        if let Some(Spoil::Allocation(number)) = self.settings.spoil {
            fabric.refuses = Some(number);
        }
        let [is_scarce, is_slow] = [self.rng.one_in(4), self.rng.one_in(2)];
        if is_scarce && !is_plain {
            fabric.begin_scarcity();
        }
        if is_slow && !is_plain {
            fabric.delay_stores(false);
        }
    }

    fn run(&mut self) -> Result<Report, String> {
        while self.step < self.settings.steps {
            self.begin_step();
            self.random_step()?;
            self.check()?;
        }
        self.wind_down()?;
        self.check_empty()?;
        self.report.steps = self.step;
        self.report.registered = self.model.counts;
        let fabric = self.fabric.borrow();
        let faults = &mut self.report.faults;
        faults.note_many(Fault::AllocationRefused, fabric.refused());
        faults.note_many(Fault::StoreDelayed, fabric.stores_delayed());
        self.report.allocations = fabric.allocations();
        Ok(self.report)
    }

    pub(crate) fn begin_step(&mut self) {
        self.step += 1;
        self.trace.begin(self.step);
    }

    pub(crate) fn switch_on(&mut self, number: usize) {
        let mut config = Config::new(number as u16);
        // Small rings, down to a single message, are full often.
        config.node_ring_bytes = 64 << self.rng.below(7);
        config.endpoint_ring_bytes = 4096 << self.rng.below(2);
        if self.rng.one_in(4) {
            config.endpoint_ring_bytes = 64 << self.rng.below(4);
        }
        if self.rng.one_in(4) {
            let pages = 10 + self.rng.below(50);
            config.limits.set(Resource::Pages, Scope::User, pages);
        }
        let mut engine = Engine::new(config);
        engine.tick(&mut self.nodes[number].memory, self.now);
        let hasty = [Canary::HastyCompletion, Canary::HastyStore].map(Some);
        let queues = hasty.contains(&self.settings.canary) || self.rng.one_in(2);
        let rng = Rng::new(self.rng.number());
        self.nodes[number].copier = Copier::new(rng, queues, self.settings.canary);
        self.nodes[number].engine = Some(engine);
        self.nodes[number].is_away = false;
        self.nodes[number].frozen_since = None;
        // A node that polls needs no doorbells, so a canary that spoils doorbells needs nodes that
        // do not poll.
        let needs_bells = [Canary::LostDoorbell, Canary::LateAsk].map(Some);
        let needs_bells = needs_bells.contains(&self.settings.canary);
        self.nodes[number].watches = !needs_bells && self.rng.one_in(2);
        self.trace.note(|| format!("node {number} begins"));
    }

    /// Returns the arguments for a turn of a program on a node, and the node's programs; `None`
    /// while the node is switched off.
    pub(crate) fn context(&mut self, number: usize) -> Option<(Context<'_>, &mut Vec<Slot>)> {
        let node = &mut self.nodes[number];
        let context = Context {
            node: number,
            engine: node.engine.as_mut()?,
            memory: &mut node.memory,
            rng: &mut self.rng,
            ledgers: &mut self.ledgers,
            model: &mut self.model,
            half_closes: &mut self.report.half_closes,
            orphans: &mut node.orphans,
            trace: &self.trace,
            is_calm: self.is_calm,
            finishing: self.finishing,
        };
        Some((context, &mut node.programs))
    }
}

/// Makes the memory of a single node without peers, for tests of calls rather than of schedules.
pub fn lonely_memory() -> impl Memory {
    NodeMemory::new(&Fabric::new(1), 0)
}
