//! Nodes that start, leave and die, and the drivers' side of the links between them.
//!
//! The steps of a link are those of `scif_abi::link`: publish a queue pair, bind it to the peer's
//! incarnation, use the peer's queue pair once both are bound to each other, and start again when
//! the peer has.

use scif_core::{DownReason, LinkError, LinkState};

use crate::dma::Copier;
use crate::faults::Fault;
use crate::rng::Rng;
use crate::world::{Canary, World};

/// Time in nanoseconds without a sign of life after which a node gives up a link.
pub(crate) const SILENCE_NS: u64 = 5_000_000;

/// A node's record of its side of a link; see `scif_abi::link`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    pub(crate) generation: u64,
    /// The generation of the peer that this side's queue pair belongs to; 0 before there is one.
    pub(crate) bound: u64,
    pub(crate) ready: bool,
    pub(crate) queue_pair: u64,
}

/// The state of a node's side of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Idle,
    Attached,
    /// This side's queue pair is for this generation of the peer only.
    Bound(u64),
    /// The link is up with this generation of the peer.
    Connected(u64),
    /// This side has stopped, and waits until this generation of the peer stops too.
    Stopped(u64),
}

impl World {
    /// Simulates a power failure: the engine, the programs and the memory are gone.
    pub(crate) fn switch_off(&mut self, number: usize) {
        if self.nodes[number].engine.is_none() {
            return;
        }
        self.end_driver(number);
        let mut fabric = self.fabric.borrow_mut();
        fabric.cut_stores(number, &mut self.rng);
        fabric.restart(number);
        drop(fabric);
        self.nodes[number].left = None;
        // The fabric server notices that the machine is gone.
        for record in &mut self.records[number] {
            record.ready = false;
        }
        self.report.faults.note(Fault::NodeKilled);
        self.trace.note(|| format!("node {number} loses its power"));
    }

    /// Ends everything on a node: the engine, the programs, and what they pinned.
    fn end_driver(&mut self, number: usize) {
        self.collect_stats(number);
        let node = &mut self.nodes[number];
        node.engine = None;
        node.programs.clear();
        node.dead.clear();
        node.orphans.clear();
        node.copier = Copier::new(Rng::new(0), false, None);
        node.bells.fill(None);
        node.sides.fill(Side::Idle);
        node.is_away = true;
        node.frozen_since = None;
        self.lose_ledgers(number, None);
        self.model.forget_node(number);
    }

    /// Kills the driver of a node, and starts another one at once. The pages stay until no peer
    /// can store there any more; what the peers know of the link stays too.
    pub(crate) fn kill_driver(&mut self, number: usize) {
        if self.nodes[number].engine.is_none() || self.nodes[number].left.is_some() {
            return;
        }
        self.end_driver(number);
        let mut fabric = self.fabric.borrow_mut();
        for other in 0..self.nodes.len() {
            fabric.land(number, other);
            fabric.set_reach(number, other, false);
        }
        fabric.leave_pages(number);
        drop(fabric);
        let theirs = |other: usize| self.records[other][number].generation;
        let generations = self.records[number].iter().enumerate();
        let generations = generations.map(|(other, own)| (own.generation, theirs(other)));
        self.nodes[number].left = Some(generations.collect());
        self.report.faults.note(Fault::DriverKilled);
        self.trace
            .note(|| format!("the driver of node {number} dies"));
        self.free_left();
        self.switch_on(number);
    }

    /// Frees what a dead driver left as soon as no peer can use its link with that driver any
    /// more: each peer is off, or has bound itself to the next driver, or has published a queue
    /// pair since.
    pub(crate) fn free_left(&mut self) {
        for number in 0..self.nodes.len() {
            let Some(left) = &self.nodes[number].left else {
                continue;
            };
            // A peer that has not started the link again may still connect to the old driver's
            // queue pair.
            let uses = |other: usize| {
                let (own, theirs) = left[other];
                let record = self.records[other][number];
                let is_new = record.bound > own || record.generation > theirs;
                other != number && self.nodes[other].engine.is_some() && !is_new
            };
            let is_early = self.settings.canary == Some(Canary::EarlyReuse);
            if is_early || !(0..self.nodes.len()).any(uses) {
                self.nodes[number].left = None;
                self.fabric.borrow_mut().free_left(number);
                self.trace
                    .note(|| format!("what the last driver of node {number} left is free"));
            }
        }
    }

    /// Freezes a node: its driver does nothing, but its memory can be reached.
    pub(crate) fn freeze(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        if node.engine.is_some() && !node.is_away && node.frozen_since.is_none() {
            node.frozen_since = Some(self.now);
            self.report.faults.note(Fault::NodeFrozen);
            self.trace.note(|| format!("node {number} stands still"));
        }
    }

    /// Lets a frozen node continue where it stopped.
    pub(crate) fn thaw(&mut self, number: usize) {
        self.nodes[number].frozen_since = None;
        self.trace.note(|| format!("node {number} goes on"));
    }

    /// Makes each node give up the peers that were silent for too long. Returns whether any did.
    pub(crate) fn give_up_silent(&mut self) -> bool {
        let is_silent = |number: usize, world: &World| {
            let since = world.nodes[number].frozen_since;
            since.is_some_and(|since| world.now >= since + SILENCE_NS)
        };
        let mut any = false;
        for other in 0..self.nodes.len() {
            if !is_silent(other, self) {
                continue;
            }
            for number in 0..self.nodes.len() {
                any |= self.nodes[number].frozen_since.is_none()
                    && self.fail_silent_link(number, other);
            }
        }
        any
    }

    pub(crate) fn leave(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let Some(engine) = &mut node.engine else {
            return;
        };
        if node.is_away {
            return;
        }
        engine.leave(&mut node.memory);
        node.is_away = true;
        self.lose_ledgers(number, None);
        self.report.faults.note(Fault::NodeLeft);
        self.trace.note(|| format!("node {number} leaves"));
    }

    pub(crate) fn come_back(&mut self, number: usize) {
        if self.nodes[number].engine.is_none() {
            self.switch_on(number);
        }
        self.nodes[number].is_away = false;
    }

    /// Records that messages on their way between these nodes may be lost.
    pub(crate) fn lose_ledgers(&mut self, number: usize, other: Option<usize>) {
        self.model.lose(number, other);
        for node in &mut self.nodes {
            let dead = node.dead.iter_mut().map(|(slot, _)| slot);
            for slot in node.programs.iter_mut().chain(dead) {
                slot.program.lose(number, other);
            }
            for held in &mut node.orphans {
                held.lose(number, other);
            }
        }
        for ledger in self.ledgers.values_mut() {
            let is_remote = ledger.nodes[0] != ledger.nodes[1];
            let concerned = ledger.nodes.contains(&number)
                && other.is_none_or(|other| ledger.nodes.contains(&other));
            ledger.link_lost |= concerned && is_remote;
        }
    }

    /// Runs one step of a node for one of its links. Returns false if there was nothing to do.
    pub(crate) fn link_step(&mut self, number: usize, other: usize) -> Result<bool, String> {
        let peer = self.records[other][number];
        let peer_is_on = self.nodes[other].engine.is_some();
        let node = &mut self.nodes[number];
        let Some(engine) = &mut node.engine else {
            return Ok(false);
        };
        if number == other || node.frozen_since.is_some() {
            return Ok(false);
        }
        let record = &mut self.records[number][other];
        match node.sides[other] {
            Side::Idle if node.is_away => return Ok(false),
            Side::Idle => {
                record.queue_pair = match engine.attach(&mut node.memory, other as u16) {
                    Ok(address) => address,
                    Err(LinkError::NoMemory) => return Ok(false),
                    Err(error) => return Err(format!("attach: {error}")),
                };
                let mut fabric = self.fabric.borrow_mut();
                // A queue pair is published only after the stores before it.
                fabric.land(number, other);
                if let Some(late) = &mut fabric.late_asks {
                    late.watch(number, record.queue_pair);
                }
                drop(fabric);
                record.generation += 1;
                record.bound = 0;
                record.ready = true;
                node.sides[other] = Side::Attached;
            }
            Side::Attached
                if peer.ready
                    && peer_is_on
                    && (peer.bound == 0 || peer.bound == record.generation) =>
            {
                self.fabric.borrow_mut().land(number, other);
                record.bound = peer.generation;
                node.sides[other] = Side::Bound(peer.generation);
            }
            Side::Attached => return Ok(false),
            Side::Bound(generation) => {
                if !peer.ready || peer.generation != generation {
                    self.link_down(number, other);
                    return Ok(true);
                }
                // Wait until the peer has bound its queue pair to this one. What an earlier
                // incarnation of this node may have written into an unbound queue pair would count
                // as written by this one.
                if peer.bound != record.generation {
                    return Ok(false);
                }
                self.fabric.borrow_mut().set_reach(number, other, true);
                node.sides[other] = Side::Connected(generation);
                let result = engine.link_up(&mut node.memory, other as u16, peer.queue_pair);
                result.map_err(|error| format!("link_up: {error}"))?;
            }
            Side::Connected(generation) => {
                let state = engine.link_state(other as u16);
                if !peer.ready || peer.generation != generation {
                    self.link_down(number, other);
                } else if matches!(state, Some(LinkState::Failed | LinkState::Left)) {
                    // From now on the peer may use its memory for something else.
                    node.copier.abort(other as u16);
                    self.fabric.borrow_mut().land(number, other);
                    record.ready = false;
                    node.sides[other] = Side::Stopped(generation);
                    self.lose_ledgers(number, Some(other));
                } else {
                    return Ok(false);
                }
            }
            Side::Stopped(generation) => {
                let writes =
                    peer.ready && peer.generation == generation && peer.bound == record.generation;
                if writes {
                    return Ok(false);
                }
                self.link_down(number, other);
            }
        }
        let (side, record) = (self.nodes[number].sides[other], self.records[number][other]);
        self.trace
            .note(|| format!("node {number}: link with {other}: {side:?}, {record:?}"));
        self.free_left();
        Ok(true)
    }

    pub(crate) fn link_down(&mut self, number: usize, other: usize) {
        let node = &mut self.nodes[number];
        node.copier.abort(other as u16);
        self.fabric.borrow_mut().land(number, other);
        if let Some(engine) = &mut node.engine {
            engine.link_down(&mut node.memory, other as u16);
        }
        node.sides[other] = Side::Idle;
        self.records[number][other].ready = false;
        self.fabric.borrow_mut().set_reach(number, other, false);
        self.lose_ledgers(number, Some(other));
    }

    pub(crate) fn early_link_down(&mut self, number: usize, other: usize) {
        let node = &mut self.nodes[number];
        if let (Some(engine), Side::Connected(_)) = (&mut node.engine, node.sides[other]) {
            engine.link_down(&mut node.memory, other as u16);
            node.sides[other] = Side::Idle;
        }
    }

    /// Makes the driver give up the link because it takes the peer for silent. Returns false if no
    /// link is up.
    pub(crate) fn fail_silent_link(&mut self, number: usize, other: usize) -> bool {
        let node = &mut self.nodes[number];
        let (Some(engine), Side::Connected(_)) = (&mut node.engine, node.sides[other]) else {
            return false;
        };
        if matches!(
            engine.link_state(other as u16),
            Some(LinkState::Failed | LinkState::Left)
        ) {
            return false;
        }
        engine.link_failed(other as u16, DownReason::Silent);
        self.lose_ledgers(number, Some(other));
        self.report.faults.note(Fault::LinkGivenUp);
        self.trace
            .note(|| format!("node {number} gives up its link with {other}"));
        true
    }
}
