//! The schedule: the actions of each step, and the faults between them.

use scif_abi::PortId;
use scif_abi::flags::Readiness;
use scif_core::{Event, Owner};

use crate::actor::{Connector, Listener, Program, StepResult};
use crate::faults::Fault;
use crate::links::Side;
use crate::world::{Canary, Slot, Spoil, World};

/// Number of steps after which the stores that a canary holds back arrive.
const LATE_STEPS: u64 = 8;

/// Average number of steps between two losses of a node in a storm.
const STORM_STEPS: u64 = 100;

/// A doorbell that is delivered after more steps than this counts as late.
const LATE_BELL_STEPS: u64 = 40;

/// Time in nanoseconds between two polls of all rings by a driver in a lossy world.
pub(crate) const LOOK_NS: u64 = 2_000_000;

impl World {
    pub(crate) fn random_step(&mut self) -> Result<(), String> {
        self.now += 1 + self.rng.size(1_000_000);
        self.move_stores();
        if self.settings.canary != Some(Canary::NoLinkTimeout) {
            self.give_up_silent();
        }
        let number = self.rng.below(self.nodes.len() as u64) as usize;
        let other = self.rng.below(self.nodes.len() as u64) as usize;
        let choice = self.rng.below(1000);
        if self.settings.is_storm && self.rng.one_in(STORM_STEPS) {
            let which = 960 + self.rng.below(4);
            self.lose_node(number, which);
        }
        if self.nodes[number].frozen_since.is_some() {
            if choice < 30 {
                self.thaw(number);
            }
            return Ok(());
        }
        match choice {
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
                self.link_step(other, number)?;
            }
            900..910 if !self.nodes[number].dead.is_empty() => {
                self.clean_up(number)?;
            }
            900..958 => self.start_program(number),
            // These runs have only one fault.
            958..990 if self.settings.spoil.is_some() => {}
            958.. if self.is_calm && !self.rng.one_in(4) => {}
            958..960 => self.kill_random_process(number),
            960..964 => self.lose_node(number, choice),
            964..970 => self.come_back(number),
            970..980 if self.settings.canary == Some(Canary::EarlyLinkDown) => {
                self.early_link_down(number, other);
            }
            970..976 if self.is_stormy => {
                let which = 960 + self.rng.below(4);
                self.lose_node(number, which);
            }
            980 => {
                self.fail_silent_link(number, other);
            }
            981..990 => {
                self.touch_orphan(number)?;
            }
            990..1000 => {
                let node = &mut self.nodes[number];
                node.copier.step(&mut node.memory);
            }
            _ => {}
        }
        Ok(())
    }

    /// Stops a node in one of several ways.
    fn lose_node(&mut self, number: usize, choice: u64) {
        let is_early = self.settings.canary == Some(Canary::EarlyReuse);
        let often = if self.is_stormy || is_early { 1 } else { 6 };
        if !self.rng.one_in(often) {
            return;
        }
        match choice {
            960 if is_early => self.kill_driver(number),
            960 => self.switch_off(number),
            961 => self.leave(number),
            962 => self.kill_driver(number),
            _ => self.freeze(number),
        }
    }

    /// Lets some of the delayed stores arrive.
    pub(crate) fn move_stores(&mut self) {
        let mut fabric = self.fabric.borrow_mut();
        if self.step.is_multiple_of(LATE_STEPS) {
            fabric.land_asks();
        }
        fabric.land_random(&mut self.rng);
    }

    /// Runs one turn of a program. Returns false if the program sleeps.
    pub(crate) fn turn(&mut self, number: usize, index: usize) -> Result<bool, String> {
        let trace = self.trace.clone();
        let Some((mut context, programs)) = self.context(number) else {
            return Ok(false);
        };
        let Some(slot) = programs.get_mut(index).filter(|slot| slot.awake) else {
            return Ok(false);
        };
        let process = slot.process;
        let name = slot.program.name();
        let turn = slot.program.turn(&mut context);
        trace.note(|| format!("node {number}: {name}: {}", turn.name()));
        match turn {
            StepResult::Again => {}
            StepResult::Sleep => slot.awake = false,
            StepResult::Done => {
                programs.swap_remove(index);
            }
            StepResult::Spawn(program) => {
                programs.push(Slot {
                    program: *program,
                    process,
                    awake: true,
                });
            }
            StepResult::Become(program) => slot.program = *program,
            StepResult::Broken(what) => return Err(format!("node {number}: {what}")),
        }
        self.report.calls += 1;
        if self.settings.spoil == Some(Spoil::Call(self.report.calls)) {
            self.kill_process(number, process);
        }
        Ok(true)
    }

    /// Delivers a doorbell, at times one that no node rang. Returns false if none was rung.
    pub(crate) fn deliver(&mut self, number: usize, from: usize) -> bool {
        let rang = self.nodes[number].bells[from].take();
        // At times the node hears a doorbell that no node rang.
        if rang.is_none() && (self.finishing || number == from || !self.rng.one_in(20)) {
            return false;
        }
        if let Some(since) = rang {
            if self.step - since > LATE_BELL_STEPS {
                self.report.faults.note(Fault::DoorbellLate);
            }
            // A doorbell does not overtake stores.
            self.fabric.borrow_mut().land(from, number);
        } else {
            self.report.faults.note(Fault::DoorbellDoubled);
        }
        let node = &mut self.nodes[number];
        if let Some(engine) = &mut node.engine {
            self.trace
                .note(|| format!("node {number} hears the doorbell of {from}"));
            engine.doorbell(&mut node.memory, from as u16);
        }
        rang.is_some()
    }

    /// Runs a turn of a node's driver: passes the time to the engine, lets it copy and handles its
    /// events. Returns false if there was nothing to do.
    pub(crate) fn pump(&mut self, number: usize) -> Result<bool, String> {
        if self.nodes[number].frozen_since.is_some() {
            return Ok(false);
        }
        let budget = 1 + self.rng.size(30_000) as usize;
        let now = self.now;
        let node = &mut self.nodes[number];
        let Some(engine) = &mut node.engine else {
            return Ok(false);
        };
        if node.watches {
            engine.start_polling();
        }
        engine.tick(&mut node.memory, now);
        if self.is_lossy && node.next_look <= now {
            node.next_look = now + LOOK_NS;
            for (other, side) in node.sides.iter().enumerate() {
                if matches!(side, Side::Connected(_)) {
                    engine.doorbell(&mut node.memory, other as u16);
                }
            }
        }
        if node.watches {
            engine.poll_rings(&mut node.memory);
        }
        let mut any = node.copier.step(&mut node.memory);
        any |= engine.pump(&mut node.memory, &mut node.copier, budget);
        any |= node.copier.is_busy();
        self.look_for_signals()?;
        any |= self.carry_out(number)?;
        // A driver asks for doorbells before it sleeps.
        let node = &mut self.nodes[number];
        if let Some(engine) = &mut node.engine
            && node.watches
            && (self.finishing || self.rng.one_in(3))
        {
            engine.stop_polling(&mut node.memory);
            any |= engine.next_deadline().is_some_and(|at| at <= self.now);
            any |= self.carry_out(number)?;
        }
        Ok(any)
    }

    /// Handles all events of a node's engine. Returns whether there were any.
    fn carry_out(&mut self, number: usize) -> Result<bool, String> {
        let mut any = false;
        loop {
            let node = &mut self.nodes[number];
            let Some(engine) = &mut node.engine else {
                return Ok(any);
            };
            let Some(event) = engine.next_event(&mut node.memory) else {
                return Ok(any);
            };
            any = true;
            self.trace.note(|| format!("node {number}: {event:?}"));
            match event {
                Event::Changed(_)
                    if self.settings.canary == Some(Canary::LostEvent) && self.rng.one_in(8) => {}
                Event::Changed(id) => {
                    for slot in node.programs.iter_mut().filter(|s| s.program.waits_for(id)) {
                        slot.awake = true;
                    }
                }
                Event::Ring(to) => self.ring(number, usize::from(to)),
                Event::Unpin(pin) => self.model.released(number, pin, |endpoint| {
                    let ready = engine.poll(&mut node.memory, endpoint);
                    ready.intersects(Readiness::HUP | Readiness::ERR)
                })?,
                Event::Departed(_)
                | Event::NodeUp(_)
                | Event::NodeDown(_)
                | Event::LinkFailed(_) => {}
            }
        }
    }

    /// Lets each program that waits for a signal check for it at once.
    fn look_for_signals(&mut self) -> Result<(), String> {
        let slots = self.nodes.iter_mut().flat_map(|node| &mut node.programs);
        for slot in slots {
            slot.program.look_for_signals(&mut self.model)?;
        }
        Ok(())
    }

    /// Uses or ends a mapping whose program ended.
    pub(crate) fn touch_orphan(&mut self, number: usize) -> Result<bool, String> {
        let pick = self.rng.below(self.nodes[number].orphans.len() as u64) as usize;
        let ends = self.finishing || self.rng.one_in(3);
        let Some((mut context, _)) = self.context(number) else {
            return Ok(false);
        };
        let Some(held) = context.orphans.get(pick).cloned() else {
            return Ok(false);
        };
        if !held.is_lost {
            held.access(&mut context)?;
        }
        if ends {
            let held = context.orphans.swap_remove(pick);
            held.unmap(context.engine);
        }
        Ok(true)
    }

    fn ring(&mut self, number: usize, to: usize) {
        let is_deaf = self.settings.canary == Some(Canary::LostDoorbell);
        if is_deaf && self.rng.one_in(2) || self.is_lossy && self.rng.one_in(4) {
            self.report.faults.note(Fault::DoorbellLost);
            self.trace
                .note(|| format!("the doorbell of {number} at {to} is lost"));
            return;
        }
        if self.nodes[to].engine.is_some() {
            self.nodes[to].bells[number].get_or_insert(self.step);
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
        node.next_process += self.rng.below(2) as u32;
        let owner = Owner {
            process: node.next_process,
            user: self.rng.below(2) as u32,
        };
        let listens = self.rng.one_in(3);
        let Some((mut context, programs)) = self.context(number) else {
            return;
        };
        let program = if listens {
            Listener::start(&mut context, owner, port).map(Program::Listener)
        } else {
            Connector::start(&mut context, owner, PortId::new(to, port)).map(Program::Connector)
        };
        if let Some(program) = program {
            programs.push(Slot {
                program,
                process: owner.process,
                awake: true,
            });
        }
    }

    fn kill_random_process(&mut self, number: usize) {
        let programs = &self.nodes[number].programs;
        let pick = self.rng.below(programs.len() as u64) as usize;
        if let Some(process) = programs.get(pick).map(|victim| victim.process) {
            self.kill_process(number, process);
        }
    }

    /// Kills a process: its programs run no more. Its endpoints are closed one by one, while all
    /// other programs continue.
    fn kill_process(&mut self, number: usize, process: u32) {
        let node = &mut self.nodes[number];
        let dying = node
            .programs
            .extract_if(.., |slot| slot.process == process)
            .map(|slot| {
                let endpoints = slot.program.endpoints();
                (slot, endpoints)
            });
        node.dead.extend(dying);
        // Programs that start from now on belong to another process.
        node.next_process = node.next_process.max(process + 1);
        self.report.faults.note(Fault::ProcessKilled);
        self.trace
            .note(|| format!("node {number}: process {process} is killed"));
    }

    /// Closes one endpoint of a dead process. Returns false if there is none. After the last one,
    /// nothing of the process may be left.
    pub(crate) fn clean_up(&mut self, number: usize) -> Result<bool, String> {
        let which = self.rng.below(self.nodes[number].dead.len() as u64) as usize;
        let mut dead = std::mem::take(&mut self.nodes[number].dead);
        let Some((slot, endpoints)) = dead.get_mut(which) else {
            return Ok(false);
        };
        let Some((mut context, _)) = self.context(number) else {
            return Ok(false);
        };
        if let Some(endpoint) = endpoints.pop() {
            context.engine.close(context.memory, endpoint);
        }
        if endpoints.is_empty() {
            slot.program.died(&mut context)?;
            let process = slot.process;
            dead.swap_remove(which);
            let is_its = |owner: Owner| owner.process == process;
            let ports = context.engine.ports().filter(|port| is_its(port.owner));
            let connections = context.engine.connections();
            let left = ports.count() + connections.filter(|c| is_its(c.owner)).count();
            if left != 0 && dead.iter().all(|(slot, _)| slot.process != process) {
                return Err(format!(
                    "node {number}: {left} objects of process {process}, which is dead"
                ));
            }
        }
        self.nodes[number].dead = dead;
        Ok(true)
    }
}
