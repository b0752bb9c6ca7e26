//! The end of a run: programs begin nothing new, and every call must end within a known time, also
//! beside a frozen node.

use scif_core::Engine;

use crate::links::SILENCE_NS;
use crate::schedule::LOOK_NS;
use crate::world::{Canary, World};

/// Time in nanoseconds without anything due after which a sleeping program will not be woken any
/// more: full rings are polled after a millisecond, an exit is answered within a second.
const LONGEST_WAIT_NS: u64 = 2_000_000_000;

/// Number of rounds after which a run counts as endless.
const MOST_ROUNDS: u64 = 1_000_000;

impl World {
    /// Lets everything end: programs begin nothing new, links come up, messages arrive.
    pub(crate) fn wind_down(&mut self) -> Result<(), String> {
        self.finishing = true;
        self.fabric.borrow_mut().end_scarcity();
        let is_endless = self.settings.canary == Some(Canary::NoLinkTimeout);
        if is_endless || self.settings.spoil.is_none() && self.rng.one_in(4) {
            self.freeze(0);
        }
        for number in 0..self.nodes.len() {
            if self.nodes[number].frozen_since.is_none() {
                self.come_back(number);
            }
            self.wake_all(number);
        }
        // First everything ends that can end without the frozen nodes.
        self.run_until_idle()?;
        for number in 0..self.nodes.len() {
            if self.nodes[number].frozen_since.is_some() {
                self.thaw(number);
                self.come_back(number);
                self.wake_all(number);
            }
        }
        self.run_until_idle()?;
        self.check_gone()
    }

    fn wake_all(&mut self, number: usize) {
        for slot in &mut self.nodes[number].programs {
            slot.awake = true;
        }
    }

    /// Runs until nothing happens any more and all programs of running nodes have ended.
    fn run_until_idle(&mut self) -> Result<(), String> {
        let mut last_look = self.now;
        for _ in 0..MOST_ROUNDS {
            self.begin_step();
            self.now += 1_000;
            let busy = self.round()?;
            self.check()?;
            if busy {
                last_look = self.now;
                continue;
            }
            // The next poll makes up for a lost doorbell, and the timeout finds a silent node.
            let waits_for = if self.is_lossy { LOOK_NS } else { 0 };
            let waits_for = match self.frozen().next() {
                Some(_) => waits_for.max(SILENCE_NS),
                None => waits_for,
            };
            if self.now < last_look + waits_for {
                self.now = last_look + waits_for;
                continue;
            }
            let running = self.nodes.iter().filter(|node| node.frozen_since.is_none());
            let asleep: usize = running.clone().map(|node| node.programs.len()).sum();
            let engines = running.filter_map(|node| node.engine.as_ref());
            let deadline = engines.filter_map(Engine::next_deadline).min();
            let soon = deadline.filter(|deadline| *deadline <= self.now + LONGEST_WAIT_NS);
            if self.frozen().next().is_none() {
                self.check_asleep()?;
                // Transfers that wait for a full ring, which is polled soon, are still in
                // progress.
                if soon.is_none() {
                    self.model.check_quiescent()?;
                }
            }
            match deadline {
                // Messages for full rings are still to be sent.
                _ if asleep == 0 && soon.is_none() => return Ok(()),
                None => {
                    return Err(format!(
                        "{asleep} programs sleep and nothing will wake them"
                    ));
                }
                Some(_) if soon.is_none() => {
                    return Err(format!(
                        "{asleep} programs sleep, only a long time-out helps"
                    ));
                }
                Some(deadline) => self.now = self.now.max(deadline),
            }
        }
        Err("the simulation does not come to an end".into())
    }

    /// Returns the nodes that are frozen.
    pub(crate) fn frozen(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter_map(|(number, node)| node.frozen_since.map(|_| number))
    }

    /// Lets every node do what it can. Returns false if no node did anything.
    fn round(&mut self) -> Result<bool, String> {
        let mut busy = false;
        self.move_stores();
        for number in 0..self.nodes.len() {
            if self.nodes[number].frozen_since.is_some() {
                continue;
            }
            for index in (0..self.nodes[number].programs.len()).rev() {
                busy |= self.turn(number, index)?;
            }
            for other in 0..self.nodes.len() {
                busy |= self.deliver(number, other);
                busy |= self.link_step(number, other)?;
            }
            busy |= self.clean_up(number)?;
            busy |= self.touch_orphan(number)?;
            busy |= self.pump(number)?;
        }
        if !busy {
            busy = self.fabric.borrow_mut().land_all();
        }
        let is_endless = self.settings.canary == Some(Canary::NoLinkTimeout);
        if !is_endless {
            busy |= self.give_up_silent();
        }
        Ok(busy)
    }
}
