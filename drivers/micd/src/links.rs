//! The links of a node. Carries out the steps that the links' functions ask for.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use hal::mem::Region;
use hal::{Error, Result};
use scheme_scif::{Card, CardCommand};
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use scif_core::Engine;
use syscall::error::{EAGAIN, ENODEV};

use crate::copy_router::CopyRouter;
use crate::function::{LinkStep, MicFunction, Outcome};
use crate::memory::{Peer, PeerMemory};

/// Most steps of one link in one iteration. A whole cycle has five; more than two cycles mean that
/// the peer keeps changing its record.
const MAX_STEPS: usize = 12;

/// The links of a node.
pub struct Links {
    functions: Vec<Box<dyn MicFunction>>,
    /// Whether each function's doorbell rang since the last iteration.
    rang: Vec<bool>,
    /// Whether this machine has a function that is not among these and may still write to memory.
    has_unmanaged: bool,
}

impl Links {
    /// Takes the functions. A second function for the same node is left out, and so is one that
    /// gives this node another number than the first does.
    ///
    /// `is_complete`: this machine has no other function that a previous driver may have left
    /// working.
    pub fn new(functions: Vec<Box<dyn MicFunction>>, is_complete: bool) -> Self {
        let mut kept: Vec<Box<dyn MicFunction>> = Vec::new();
        let mut has_unmanaged = !is_complete;
        for mut function in functions {
            let (node, peer) = (function.node(), function.peer());
            let own = kept.first().map_or(node, |first| first.node());
            if own != node {
                log::error!("a link of node {node} with node {peer} is left out: this is {own}");
            } else if kept.iter().any(|other| other.peer() == peer) {
                log::error!("a second link of node {node} with node {peer} is left out");
            } else {
                kept.push(function);
                continue;
            }
            function.leave();
            has_unmanaged |= !function.predecessor_is_quiesced();
        }
        let rang = vec![false; kept.len()];
        Self {
            functions: kept,
            rang,
            has_unmanaged,
        }
    }

    /// This node's number; 0, the host, when there are no links.
    pub fn node(&self) -> NodeId {
        self.functions.first().map_or(0, |function| function.node())
    }

    /// The nodes to which there are links.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.functions.iter().map(|function| function.peer())
    }

    /// Memory behind a bus to measure copies with; see
    /// [`Hardware::spare`](crate::hardware::Hardware::spare).
    pub fn spare(&self) -> Option<Region> {
        self.functions.iter().find_map(|function| function.spare())
    }

    /// Whether stores into some peer's memory may be gathered; see
    /// [`Hardware::gathers_stores`](crate::hardware::Hardware::gathers_stores).
    pub fn gathers_stores(&self) -> bool {
        self.functions
            .iter()
            .any(|function| function.gathers_stores())
    }

    /// The copy engines for the peers' memory.
    pub fn copy_router(&self) -> CopyRouter {
        let engines = self.functions.iter();
        CopyRouter::new(engines.filter_map(|function| {
            let engine = function.copy_engine()?;
            Some((function.peer(), engine))
        }))
    }

    /// The cards of this node.
    pub fn cards(&self) -> Vec<Card> {
        let functions = self.functions.iter();
        functions.filter_map(|function| function.card()).collect()
    }

    /// Carries out an administrator's command for a card, at the time `now` in nanoseconds.
    ///
    /// # Errors
    /// `ENODEV` when there is no link to that node; those of [`MicFunction::command`].
    pub fn command(&mut self, now: u64, node: NodeId, command: CardCommand) -> Result<()> {
        let mut functions = self.functions.iter_mut();
        let index = functions.position(|function| function.peer() == node);
        let index = index.ok_or(Error::new(ENODEV))?;
        self.rang[index] = true;
        self.functions[index].command(now, command)
    }

    /// The descriptors to subscribe for reading, each with the index of its link.
    pub fn interrupts(&self) -> impl Iterator<Item = (usize, usize)> {
        self.functions
            .iter()
            .enumerate()
            .flat_map(|(index, function)| {
                function
                    .interrupts()
                    .iter()
                    .map(move |interrupt| (index, interrupt.fd()))
            })
    }

    /// Enables the interrupts. They must be subscribed before.
    pub fn start(&mut self) -> Result<()> {
        self.functions
            .iter_mut()
            .try_for_each(|function| function.start())
    }

    /// Sets the time between two checks of a link, and the time that peers may be silent.
    pub fn set_timing(&mut self, timing: LinkTiming) {
        for function in &mut self.functions {
            function.set_timing(timing);
        }
    }

    /// Acknowledges the interrupt of a link. The next [`poll`](Self::poll) handles what it
    /// announced.
    pub fn interrupt(&mut self, index: usize) {
        let (Some(function), Some(rang)) = (self.functions.get(index), self.rang.get_mut(index))
        else {
            return;
        };
        *rang = true;
        for interrupt in function.interrupts() {
            if let Err(error) = interrupt.acknowledge() {
                log::error!(
                    "interrupt of the link with node {}: {error}",
                    function.peer()
                );
            }
        }
    }

    /// Handles all links. Call it after interrupts and at [`deadline`](Self::deadline). `now` is
    /// the time in nanoseconds, the same as for [`Engine::tick`].
    pub fn poll(&mut self, now: u64, engine: &mut Engine, memory: &mut impl PeerMemory) {
        for (function, rang) in self.functions.iter_mut().zip(&mut self.rang) {
            let rang = core::mem::take(rang);
            // A message whose doorbell was lost is found when the function is due.
            if !rang && function.deadline() > now {
                continue;
            }
            for _ in 0..MAX_STEPS {
                let Some(step) = function.step(now) else {
                    break;
                };
                if let Some(outcome) = carry_out(step, &mut **function, engine, memory) {
                    function.done(outcome);
                }
            }
            // In this order, so that nothing is stored in the memory of a peer that has restarted:
            // its first doorbell announces the restart.
            match rang {
                true => engine.doorbell(memory, function.peer()),
                false => engine.poll_node(memory, function.peer()),
            }
        }
    }

    /// The latest time at which [`poll`](Self::poll) must be called, if there are links.
    pub fn deadline(&self) -> Option<u64> {
        self.functions
            .iter()
            .map(|function| function.deadline())
            .min()
    }

    /// Whether no peer writes any more to the memory of a driver that ended without leaving: its
    /// pages may be freed. Ask again after each [`poll`](Self::poll). Once true, it stays so.
    pub fn predecessor_is_quiesced(&self) -> bool {
        let mut functions = self.functions.iter();
        !self.has_unmanaged && functions.all(|function| function.predecessor_is_quiesced())
    }

    /// Reports that the engine gave up the link with a node. The link is reset as soon as the peer
    /// agrees.
    pub fn link_failed(&mut self, node: NodeId) {
        for function in self
            .functions
            .iter_mut()
            .filter(|function| function.peer() == node)
        {
            function.link_failed();
        }
    }

    /// Leaves: this node does not write to any peer's memory any more.
    pub fn leave(&mut self) {
        self.functions
            .iter_mut()
            .for_each(|function| function.leave());
    }
}

/// Carries out a step. `None`: one side has left meanwhile, and there is no outcome.
fn carry_out(
    step: LinkStep,
    function: &mut dyn MicFunction,
    engine: &mut Engine,
    memory: &mut impl PeerMemory,
) -> Option<Outcome> {
    let peer = function.peer();
    log::debug!("link with node {peer}: {step:?}");
    Some(match step {
        LinkStep::Attach => {
            let queue_pair = attach(function, engine, memory);
            Outcome::Attached { queue_pair }
        }
        LinkStep::Connect { queue_pair } => {
            let result = engine.link_up(memory, peer, queue_pair);
            if let Err(error) = result {
                log::warn!("link with node {peer}: {error}");
            }
            let is_usable = result.is_ok();
            Outcome::Connected { is_usable }
        }
        LinkStep::Probe => {
            let messages = engine.probe_peer(memory, peer)?;
            Outcome::Probed { messages }
        }
        LinkStep::Fail { reason } => {
            engine.link_failed(peer, reason);
            Outcome::Failed
        }
        LinkStep::Detach => {
            engine.link_down(memory, peer);
            Outcome::Detached
        }
    })
}

/// Adds the peer's memory, and makes a queue pair for the peer.
fn attach(
    function: &mut dyn MicFunction,
    engine: &mut Engine,
    memory: &mut impl PeerMemory,
) -> Option<u64> {
    let peer = function.peer();
    let aperture = function.aperture(engine.maps_memory_of(peer));
    let aperture = match aperture {
        Ok(aperture) => aperture,
        Err(Error { errno: EAGAIN }) => return None,
        Err(error) => {
            log::warn!("link with node {peer}: the peer's memory is not reached: {error}");
            return None;
        }
    };
    let reached = Peer {
        aperture,
        doorbell: function.doorbell(),
        bus: function.bus(),
        gathers_stores: function.gathers_stores(),
    };
    memory.add_peer(peer, reached);
    let queue_pair = engine.attach(memory, peer);
    if let Err(error) = queue_pair {
        log::warn!("link with node {peer}: {error}");
    }
    queue_pair.ok()
}
