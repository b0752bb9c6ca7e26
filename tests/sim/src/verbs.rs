//! Worlds of RDMA verbs: programs with connected queue pairs between each two, built on
//! `verbs-core` without any other part of the project.
//!
//! Programs post sends, writes, reads and atomics of all lengths, with good and bad keys, and
//! receives, on reliable, unreliable and extended reliable connections. They bind memory windows
//! and take them back (`windows`). They send datagrams (`datagrams`), also to groups of all
//! programs (`relay`). They drain queues, fail, start again, leave and are killed between any two
//! stores. Their stores are on their way for some time (`net`).
//!
//! The checks: every request completes once and in order, with a result that the operations so far
//! allow. A message arrives once, in order, with its bytes, and after the data that was written
//! before it. What has completed has arrived. Memory that no peer may write keeps its content. A
//! peer that sends anything loses its own lane and harms no other. At the end no object and no
//! window is left.

mod datagrams;
mod ending;
mod hostile;
pub mod net;
mod oracle;
mod pairs;
mod program;
mod relay;
mod windows;

use std::cell::RefCell;
use std::rc::Rc;

use verbs_core::Event;
use verbs_core::attributes::Attributes;
use verbs_core::host::LaneId;
use verbs_core::types::{AttributeMask as M, QpState};

use self::datagrams::Letter;
use self::net::{Net, Port, lane};
use self::oracle::Pair;
use self::program::{MEMORY, Program};
use self::relay::Relay;
use crate::faults::{Fault, Faults};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

/// The content of memory that no peer may write.
const CANARY: u8 = 0xa5;
/// Most pairs of queue pairs in a world at a time.
const PAIRS: usize = 4;
/// Capacity of each queue in requests.
const QUEUE: u32 = 12;

/// A bug planted in the memory or in the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Bytes of a lane overtake stores into windows.
    StoresOvertaken,
    /// A withdrawn window stays.
    WindowsStay,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsReport {
    /// Steps taken.
    pub steps: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Number of sends that succeeded.
    pub sent: u64,
    /// Number of messages that arrived.
    pub received: u64,
    /// Number of requests that were flushed.
    pub flushed: u64,
    /// Number of requests that failed for another reason.
    pub failed: u64,
    /// Number of pairs of queue pairs that were made.
    pub pairs: u64,
    /// Number of ends of lanes that ended, because the peer broke the protocol or for another
    /// reason.
    pub lanes: u64,
    /// Number of datagrams sent.
    pub letters: u64,
    /// Number of datagrams that arrived.
    pub letters_received: u64,
    /// Number of datagrams that failed.
    pub letters_failed: u64,
    /// Number of arrivals of datagrams for a group at another program.
    pub letters_relayed: u64,
    /// Number of changes of memory windows.
    pub windows: u64,
    /// Number of stores of the first program, at each of which it can be killed.
    pub stores: u64,
}

impl VerbsReport {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &VerbsReport) {
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.sent += other.sent;
        self.received += other.received;
        self.flushed += other.flushed;
        self.failed += other.failed;
        self.pairs += other.pairs;
        self.lanes += other.lanes;
        self.letters += other.letters;
        self.letters_received += other.letters_received;
        self.letters_failed += other.letters_failed;
        self.letters_relayed += other.letters_relayed;
        self.windows += other.windows;
    }
}

/// The parameters of a world.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsSettings {
    /// Number of steps.
    pub steps: u64,
    /// A planted bug, if any.
    pub bug: Option<Bug>,
    /// The number of stores after which the first program dies. No other program dies.
    pub kill: Option<u64>,
    /// Whether the last program sends and stores anything.
    pub is_hostile: bool,
}

struct World {
    rng: Rng,
    trace: Trace,
    net: Rc<RefCell<Net>>,
    programs: Vec<Option<Program>>,
    pairs: Vec<Pair>,
    /// Datagrams that may arrive, and the lanes that are for datagrams only, with the programs at
    /// their ends.
    letters: Vec<Letter>,
    mail_links: Vec<(usize, [usize; 2])>,
    relay: Relay,
    settings: VerbsSettings,
    now: u64,
    number: u64,
    next_qp: u32,
    is_ending: bool,
    report: VerbsReport,
}

/// Plays a world.
///
/// # Errors The first rule that was broken.
pub fn run(seed: u64, settings: VerbsSettings) -> Result<VerbsReport, Failure> {
    let world = match settings.is_hostile {
        true => "verbs, hostile",
        false => "verbs",
    };
    play(world, seed, |trace| {
        let mut world = World::new(seed, settings, trace)?;
        world.play()
    })
}

/// Plays a small world again and again. Each time the first program is killed at another of its
/// stores.
///
/// # Errors The first rule that was broken.
pub fn sweep(seed: u64, steps: u64, mut count: impl FnMut(&VerbsReport)) -> Result<(), Failure> {
    let settings = |kill| VerbsSettings {
        steps,
        kill: Some(kill),
        ..VerbsSettings::default()
    };
    let whole = run(seed, settings(u64::MAX))?;
    for store in 0..whole.stores {
        count(&run(seed, settings(store))?);
    }
    Ok(())
}

impl World {
    fn new(seed: u64, settings: VerbsSettings, trace: &Trace) -> Result<World, String> {
        let mut rng = Rng::new(seed);
        let programs = 2 + rng.below(3) as usize + usize::from(settings.is_hostile);
        let mut net = Net::new(programs, MEMORY, rng.number(), settings.bug);
        net.is_hostile = settings.is_hostile;
        let net = Rc::new(RefCell::new(net));
        let make = |program| {
            let net = Rc::clone(&net);
            Program::new(Port { net, program }).map(Some)
        };
        let made: Result<Vec<_>, String> = (0..programs).map(make).collect();
        net.borrow_mut().programs[0].left = settings.kill;
        Ok(World {
            rng,
            trace: trace.clone(),
            net,
            programs: made?,
            pairs: Vec::new(),
            letters: Vec::new(),
            mail_links: Vec::new(),
            relay: Relay::default(),
            settings,
            now: 0,
            number: 1,
            next_qp: 1,
            is_ending: false,
            report: VerbsReport::default(),
        })
    }

    fn play(&mut self) -> Result<VerbsReport, String> {
        for step in 0..self.settings.steps {
            self.trace.begin(step);
            self.step()?;
            self.check()?;
        }
        self.report.steps = self.settings.steps;
        self.report.stores = self.net.borrow().programs[0].stores;
        self.finish()?;
        self.check()?;
        Ok(self.report)
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(fault) = self.net.borrow_mut().fault.take() {
            return Err(fault);
        }
        for program in 0..self.programs.len() {
            if self.net.borrow().programs[program].is_dead && self.programs[program].is_some() {
                self.bury(program);
            }
        }
        Ok(())
    }

    /// Returns the program that breaks the rules, if there is one.
    fn hostile(&self) -> Option<usize> {
        self.settings.is_hostile.then(|| self.programs.len() - 1)
    }

    fn living(&self) -> Vec<usize> {
        let numbers = 0..self.programs.len();
        numbers
            .filter(|program| self.programs[*program].is_some())
            .collect()
    }

    fn step(&mut self) -> Result<(), String> {
        let living = self.living();
        if living.len() < 2 {
            return Ok(());
        }
        if self.rng.one_in(6) {
            return self.mail(&living);
        }
        if self.pairs.len() < PAIRS && (self.pairs.is_empty() || self.rng.one_in(10)) {
            return self.connect(&living);
        }
        if self.pairs.is_empty() {
            return Ok(());
        }
        let pair = self.rng.below(self.pairs.len() as u64) as usize;
        let side = self.rng.below(2) as usize;
        let program = self.pairs[pair].halves[side].program;
        if self.programs[program].is_none() {
            return self.renew(pair);
        }
        if self.hostile() == Some(program) && self.rng.one_in(3) {
            return self.attack(pair, side);
        }
        match self.rng.below(1000) {
            0..350 => self.post_send(pair, side),
            350..600 => self.post_receive(pair, side),
            600..650 => self.take_messages(program),
            650..820 => self.progress(program),
            820..850 => self.change_window(pair, side),
            850..940 => self.drain(program),
            940..970 => {
                self.now += self.rng.below(2_000_000);
                Ok(())
            }
            970..980 => self.modify(pair, side),
            980..990 => self.renew(pair),
            990..993 => {
                self.pairs[pair].is_troubled = true;
                let lane = lane(self.pairs[pair].link, side);
                for pair in &mut self.pairs {
                    pair.is_troubled |= net::lane(pair.link, side) == lane;
                }
                self.report.faults.note(Fault::ConnectionCut);
                self.net.borrow_mut().cut(lane);
                Ok(())
            }
            993..996 => self.say_bye(pair, side),
            996..998 if self.settings.kill.is_none() && living.len() > 2 => {
                let with_node = self.rng.one_in(2);
                self.report.faults.note(match with_node {
                    true => Fault::NodeKilled,
                    false => Fault::ProcessKilled,
                });
                self.net.borrow_mut().kill(program, with_node);
                Ok(())
            }
            _ => self.progress(program),
        }
    }

    // ---- Programs ----

    /// Removes a program that is dead.
    fn bury(&mut self, program: usize) {
        self.trace.note(|| format!("program {program} is dead"));
        self.programs[program] = None;
        for pair in &mut self.pairs {
            let is_its = pair.halves.iter().any(|half| half.program == program);
            pair.is_troubled |= is_its;
        }
    }

    /// Makes a program leave a lane in an orderly way.
    fn say_bye(&mut self, at: usize, side: usize) -> Result<(), String> {
        let link = self.pairs[at].link;
        for pair in &mut self.pairs {
            if pair.link == link {
                pair.is_troubled = true;
                pair.is_open = false;
            }
        }
        let half = &self.pairs[at].halves[side];
        self.trace
            .note(|| format!("program {} leaves link {link}", half.program));
        let number = half.program;
        let Some(program) = &mut self.programs[number] else {
            return Ok(());
        };
        self.report.faults.note(Fault::NodeLeft);
        let lane = lane(link, side);
        if program.context.say_bye(lane).is_err() {
            // The lane is over already.
            return Ok(());
        }
        self.progress(number)?;
        if let Some(program) = &mut self.programs[number] {
            let _over = program.context.end_lane(&mut program.port, lane);
        }
        self.events(number)
    }

    /// Changes the state of a queue pair.
    fn modify(&mut self, at: usize, side: usize) -> Result<(), String> {
        let pair = &mut self.pairs[at];
        let half = &pair.halves[side];
        let Some(program) = &mut self.programs[half.program] else {
            return Ok(());
        };
        let view = program.context.query_qp(half.number);
        let view = view.map_err(|error| format!("query_qp: {error:?}"))?;
        let state = match view.state {
            QpState::Rts if self.rng.one_in(2) => QpState::Sqd,
            QpState::Sqd => QpState::Rts,
            _ => {
                pair.is_troubled = true;
                QpState::Err
            }
        };
        let attributes = Attributes {
            state,
            ..Attributes::default()
        };
        let modified = program
            .context
            .modify_qp(half.number, &attributes, M::STATE);
        modified.map_err(|error| format!("{:?} to {state:?}: {error:?}", view.state))
    }

    // ---- Moving on ----

    /// Takes the messages that have arrived, by the short way only.
    fn take_messages(&mut self, number: usize) -> Result<(), String> {
        if let Some(program) = &mut self.programs[number] {
            program.context.take_messages(&mut program.port);
        }
        self.events(number)
    }

    fn progress(&mut self, number: usize) -> Result<(), String> {
        if let Some(program) = &mut self.programs[number] {
            program.context.progress(&mut program.port, self.now);
        }
        self.events(number)
    }

    /// Handles the events of a program.
    fn events(&mut self, number: usize) -> Result<(), String> {
        while let Some(program) = &mut self.programs[number] {
            let Some(event) = program.context.next_event() else {
                break;
            };
            match event {
                Event::LaneOver(lane) => {
                    self.report.lanes += 1;
                    self.over(lane);
                }
                Event::LaneWanted(to) => self.find_route(number, to)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Handles the end of a lane at one side.
    fn over(&mut self, over: LaneId) {
        self.net.borrow_mut().close(over);
        let is_over = |link: usize| (0..2).any(|side| lane(link, side) == over);
        self.mail_links.retain(|(link, _)| !is_over(*link));
        self.relay.left(over.0 as usize / 2);
        for pair in &mut self.pairs {
            if is_over(pair.link) {
                pair.is_troubled = true;
                pair.is_open = false;
            }
        }
    }
}
