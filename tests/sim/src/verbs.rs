//! Worlds of RDMA verbs: programs with connected queue pairs between each two, on the rules of
//! `verbs-core` and nothing else of the project.
//!
//! Programs post sends, writes, reads and atomics of all lengths, with good and bad keys, and
//! receives; they drain queues, fail, begin anew, leave and are killed between any two stores. What
//! they store is under way for some time (`net`).
//!
//! The checks: every request completes once and in order, with a result that what was done
//! allows; a message arrives once, in order, with its bytes, and behind the data that was written
//! before it; what has completed has arrived; memory that no peer may write stays as it was; a peer
//! that sends anything costs itself the lane, and others nothing; in the end no object and no
//! window is left.

mod ending;
mod hostile;
pub mod net;
mod oracle;
mod program;

use std::cell::RefCell;
use std::rc::Rc;

use verbs_core::Event;
use verbs_core::attributes::Attributes;
use verbs_core::host::LaneId;
use verbs_core::types::{Access, AttributeMask as M, QpState, QpType};
use verbs_core::work::{Capacity, QpInit};

use self::net::{Net, Port, lane};
use self::oracle::{Half, Pair};
use self::program::{MEMORY, Program};
use crate::faults::{Fault, Faults};
use crate::rng::Rng;
use crate::trace::{Failure, Trace, play};

/// The filling of memory that nobody may write.
const CANARY: u8 = 0xa5;
/// Pairs of queue pairs of a world at a time.
const PAIRS: usize = 4;
/// Requests in each queue.
const QUEUE: u32 = 12;

/// A mistake planted in the memory or in the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Bytes of a lane overtake stores into windows.
    StoresOvertaken,
    /// A window that was withdrawn stays.
    WindowsStay,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsReport {
    /// Steps taken.
    pub steps: u64,
    /// The faults that the simulator caused.
    pub faults: Faults,
    /// Sends that succeeded.
    pub sent: u64,
    /// Messages that arrived.
    pub received: u64,
    /// Requests that were flushed.
    pub flushed: u64,
    /// Requests that failed for another reason.
    pub failed: u64,
    /// Queue pairs that were made.
    pub pairs: u64,
    /// Lanes that were ended because the peer broke the protocol, or that were over for others.
    pub lanes: u64,
    /// Stores of the first program: steps at which it can be killed.
    pub stores: u64,
}

impl VerbsReport {
    /// Adds another run's.
    pub fn add(&mut self, other: &VerbsReport) {
        self.steps += other.steps;
        self.faults.add(&other.faults);
        self.sent += other.sent;
        self.received += other.received;
        self.flushed += other.flushed;
        self.failed += other.failed;
        self.pairs += other.pairs;
        self.lanes += other.lanes;
    }
}

/// Events of a world beside the usual ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct VerbsSettings {
    /// Steps.
    pub steps: u64,
    /// A planted mistake.
    pub bug: Option<Bug>,
    /// The first program dies after this number of stores; no other one dies.
    pub kill: Option<u64>,
    /// The last program sends and stores anything.
    pub is_hostile: bool,
}

struct World {
    rng: Rng,
    trace: Trace,
    net: Rc<RefCell<Net>>,
    programs: Vec<Option<Program>>,
    pairs: Vec<Pair>,
    settings: VerbsSettings,
    now: u64,
    number: u64,
    next_qp: u32,
    is_ending: bool,
    report: VerbsReport,
}

/// Plays a world.
///
/// # Errors
/// The first rule that was broken.
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

/// Plays a small world again and again: at each store of the first program it is killed.
///
/// # Errors
/// The first rule that was broken.
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

    /// The program that keeps to no rules.
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
            600..850 => self.progress(program),
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

    // ---- Connections ----

    /// Connects two queue pairs, on a lane that is there or on a new one.
    fn connect(&mut self, living: &[usize]) -> Result<(), String> {
        let one = living[self.rng.below(living.len() as u64) as usize];
        let others: Vec<_> = living.iter().filter(|other| **other != one).collect();
        let other = *others[self.rng.below(others.len() as u64) as usize];
        let programs = [one, other];
        let is_strict = self.hostile().is_none_or(|bad| !programs.contains(&bad));
        let arena = usize::from(!is_strict);
        let open = self.pairs.iter().find(|pair| {
            let ends = [0, 1].map(|side| pair.halves[side].program);
            ends == programs && pair.is_open && !pair.is_troubled
        });
        let link = match open.map(|pair| pair.link).filter(|_| self.rng.one_in(2)) {
            Some(link) => link,
            None => {
                let link = self.net.borrow_mut().join(programs);
                for (side, program) in programs.into_iter().enumerate() {
                    if let Some(program) = &mut self.programs[program] {
                        let pd = program.arenas[arena].pd;
                        let opened = program.context.open_lane(lane(link, side), pd);
                        opened.map_err(|error| format!("open_lane: {error:?}"))?;
                    }
                }
                link
            }
        };
        let kind = match self.rng.one_in(4) {
            true => QpType::Uc,
            false => QpType::Rc,
        };
        let numbers = [self.next_qp, self.next_qp + 1];
        self.next_qp += 2;
        let rnr_retry = if self.rng.one_in(3) { 2 } else { 7 };
        let mut halves = Vec::new();
        for side in 0..2 {
            let shared = is_strict && self.rng.one_in(3);
            let target = match &mut self.programs[programs[side]] {
                Some(program) => program.arenas[arena].take(),
                None => None,
            };
            let half = Half::new(programs[side], numbers[side], shared, target);
            halves.push(half);
        }
        let Ok(halves) = <[Half; 2]>::try_from(halves) else {
            return Err("two halves".into());
        };
        self.trace
            .note(|| format!("{kind:?} {numbers:?} of {programs:?} on link {link}"));
        let pair = Pair {
            kind,
            link,
            arena,
            halves,
            is_strict,
            is_troubled: !is_strict || rnr_retry != 7,
            is_open: true,
        };
        self.pairs.push(pair);
        self.report.pairs += 1;
        let at = self.pairs.len() - 1;
        for side in 0..2 {
            self.make_ready(at, side, rnr_retry)?;
        }
        Ok(())
    }

    fn make_ready(&mut self, at: usize, side: usize, rnr_retry: u8) -> Result<(), String> {
        let pair = &self.pairs[at];
        let half = &pair.halves[side];
        let Some(program) = &mut self.programs[half.program] else {
            return Ok(());
        };
        if let Some(target) = half.target {
            program.set_word(target + 4096, 0);
        }
        let capacity = Capacity {
            send_wr: QUEUE,
            recv_wr: QUEUE,
            send_sge: 2,
            recv_sge: 2,
            inline: 64,
        };
        let init = QpInit {
            kind: pair.kind,
            pd: program.arenas[pair.arena].pd,
            send_cq: program.send_cq,
            recv_cq: program.recv_cq,
            srq: half.is_shared.then_some(program.srq),
            xrcd: None,
            capacity,
            signal_all: false,
        };
        let mut attributes = Attributes {
            access: Access::REMOTE,
            path_mtu: 5,
            timeout: 20,
            retry_cnt: 2,
            rnr_retry,
            min_rnr_timer: 12,
            max_rd_atomic: 1,
            max_dest_rd_atomic: 1,
            dest_qpn: pair.halves[1 - side].number,
            ..Attributes::default()
        };
        let context = &mut program.context;
        let number = half.number;
        let wrong = |error| format!("set-up of {number}: {error:?}");
        context.create_qp(number, init).map_err(wrong)?;
        let mut rtr = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let mut rts = M::SQ_PSN;
        if pair.kind == QpType::Rc {
            rtr |= M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
            rts |= M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        }
        let init = M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS;
        let states = [
            (QpState::Init, init),
            (QpState::Rtr, rtr),
            (QpState::Rts, rts),
        ];
        for (state, mask) in states {
            attributes.state = state;
            let modified = context.modify_qp(number, &attributes, mask | M::STATE);
            modified.map_err(wrong)?;
        }
        // A lane that has ended meanwhile is none.
        let _gone = context.attach(number, lane(pair.link, side));
        Ok(())
    }

    /// Destroys both ends of a pair; what was posted must have completed, if it could.
    fn renew(&mut self, at: usize) -> Result<(), String> {
        for side in 0..2 {
            self.drain(self.pairs[at].halves[side].program)?;
        }
        let pair = self.pairs.swap_remove(at);
        self.trace
            .note(|| format!("{:?} end", pair.halves.each_ref().map(|half| half.number)));
        // Slots are used again: no store may come later.
        self.net.borrow_mut().bring_home(pair.link);
        for half in pair.halves {
            let Some(program) = &mut self.programs[half.program] else {
                continue;
            };
            let view = program.context.query_qp(half.number);
            let view = view.map_err(|error| format!("query_qp: {error:?}"))?;
            let is_left = half.has_signaled() || !half.receives.is_empty();
            if view.state == QpState::Err && (is_left || view.queued != (0, 0)) {
                return Err(format!("{}: requests were not flushed", half.number));
            }
            let destroyed = program.context.destroy_qp(half.number);
            destroyed.map_err(|error| format!("destroy_qp: {error:?}"))?;
            let arena = &mut program.arenas[pair.arena];
            let sends = half.sends.iter().map(|send| send.slot);
            let receives = half.receives.iter().map(|receive| receive.slot);
            sends
                .chain(receives)
                .chain(half.target)
                .for_each(|slot| arena.give(slot));
        }
        Ok(())
    }

    /// A program is dead: nothing of it acts any more.
    fn bury(&mut self, program: usize) {
        self.trace.note(|| format!("program {program} is dead"));
        self.programs[program] = None;
        for pair in &mut self.pairs {
            let is_its = pair.halves.iter().any(|half| half.program == program);
            pair.is_troubled |= is_its;
        }
    }

    /// A program leaves a lane in order.
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
            // It is over already.
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

    fn progress(&mut self, number: usize) -> Result<(), String> {
        if let Some(program) = &mut self.programs[number] {
            program.context.progress(&mut program.port, self.now);
        }
        self.events(number)
    }

    /// Takes a program's events.
    fn events(&mut self, number: usize) -> Result<(), String> {
        while let Some(program) = &mut self.programs[number] {
            let Some(event) = program.context.next_event() else {
                break;
            };
            if let Event::LaneOver(lane) = event {
                self.report.lanes += 1;
                self.over(lane);
            }
        }
        Ok(())
    }

    /// A lane is over at one end.
    fn over(&mut self, over: LaneId) {
        self.net.borrow_mut().close(over);
        for pair in &mut self.pairs {
            if (0..2).any(|side| lane(pair.link, side) == over) {
                pair.is_troubled = true;
                pair.is_open = false;
            }
        }
    }
}
