//! A MIC function: the piece of hardware that joins this node with one other, whatever its kind.
//!
//! A function knows registers and how two nodes find each other's queue pairs over them. It knows
//! neither endpoints nor messages: it says what is to be done with the link ([`Step`]) and is told
//! what came of it. Kinds: `vmic` (two virtual machines) and `x100` (the Xeon Phi coprocessor).

use alloc::rc::Rc;
use core::cell::RefCell;

use hal::aperture::Aperture;
use hal::irq::Interrupt;
use hal::mem::Region;
use hal::{Error, Result};
use scheme_scif::{Card, CardCommand};
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use scif_core::CopyEngine;
use syscall::error::EOPNOTSUPP;

/// What is to be done with a link.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Make a queue pair for the peer and tell its bus address by
    /// [`attached`](MicFunction::attached).
    Attach,
    /// Connect to the peer's queue pair at this bus address of the peer and tell by
    /// [`connected`](MicFunction::connected) whether it is one.
    Connect {
        /// Where it is, as the peer says.
        queue_pair: u64,
    },
    /// Ask the peer for a sign of life and tell by [`asked`](MicFunction::asked).
    Ask,
    /// The peer does not answer, but may still write to our memory: end what programs see of the
    /// link, keep its memory and tell by [`lost`](MicFunction::lost).
    Lose {
        /// How that was noticed.
        why: Loss,
    },
    /// The peer can no longer write to our memory: forget the link and its memory and tell by
    /// [`detached`](MicFunction::detached).
    Detach,
}

/// How it was noticed that a peer does not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// Its heart does not beat.
    Silence,
    /// The fabric says that the link is cut.
    Cut,
    /// It is a card, and is reset.
    Reset,
}

/// How a peer addresses this node's memory.
pub trait Bus {
    /// The bus address of a byte at this physical address; `None` when the peer cannot reach it.
    /// Neighbours are neighbours for the peer.
    fn address(&self, physical: u64) -> Option<u64>;
}

/// A bus on which addresses are physical ones.
pub struct Identical;

impl Bus for Identical {
    fn address(&self, physical: u64) -> Option<u64> {
        Some(physical)
    }
}

/// Rings a peer's doorbell.
pub trait Doorbell {
    /// Rings it. Everything written before is visible to the peer when it hears it. Nothing
    /// happens when nobody is there.
    fn ring(&self);
}

/// The hardware that joins this node with one other.
pub trait MicFunction {
    /// This node's number.
    fn node(&self) -> NodeId;

    /// The other node's number.
    fn peer(&self) -> NodeId;

    /// The interrupts by which the peer's doorbells and changes of the link arrive. To be
    /// subscribed before [`start`](Self::start).
    fn interrupts(&self) -> &[Interrupt];

    /// Lets interrupts through.
    fn start(&mut self) -> Result<()>;

    /// The peer's memory, for the link that is about to be made: to be asked for at each
    /// [`Step::Attach`]. `is_mapped`: some program still has it mapped since an earlier link. A
    /// function that can do so lets those mappings lead nowhere; the others make no link before
    /// they end.
    ///
    /// # Errors
    /// `ENODEV` when it cannot be reached any more; `EAGAIN`: not now, which was said; `ENOMEM`.
    fn aperture(&mut self, is_mapped: bool) -> Result<Aperture>;

    /// How the peer addresses our memory.
    fn bus(&self) -> Rc<dyn Bus> {
        Rc::new(Identical)
    }

    /// What copies to and from the peer's memory; `None`: the CPU.
    fn copy_engine(&self) -> Option<Rc<RefCell<dyn CopyEngine>>> {
        None
    }

    /// The card behind it, if there is one.
    fn card(&self) -> Option<Card> {
        None
    }

    /// Does what an administrator wants of the card; what comes of it is seen by and by. `now` as
    /// for [`step`](Self::step), which may not have been called for long.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when there is no card that can be told; `EBUSY` when it is not the moment.
    fn command(&mut self, _now: u64, _command: CardCommand) -> Result<()> {
        Err(Error::new(EOPNOTSUPP))
    }

    /// How often to look at the link, and how long to wait for the peer.
    fn set_timing(&mut self, timing: LinkTiming);

    /// Memory behind the same bus as the peer's, whose content nobody needs: for measuring copies,
    /// which must not touch what is the peer's. `None` when there is none.
    fn spare(&self) -> Option<Region>;

    /// Whether stores through the aperture may be gathered on their way, so that later ones
    /// overtake them.
    fn gathers_stores(&self) -> bool;

    /// The peer's doorbell.
    fn doorbell(&self) -> Rc<dyn Doorbell>;

    /// Looks at the link; `now` is the time in nanoseconds of any monotonic clock. To be called
    /// after an interrupt and at [`deadline`](Self::deadline), until it returns `None`.
    fn step(&mut self, now: u64) -> Option<Step>;

    /// When [`step`](Self::step) must be called at the latest.
    fn deadline(&self) -> u64;

    /// Whether the peer writes no more to the memory of whoever drove this function before: of a
    /// driver that ended without leaving. Once true it stays so.
    fn predecessor_is_let_go(&self) -> bool;

    /// [`Step::Attach`] was done: the bus address of the queue pair, `None` when there was no
    /// memory (it is asked for again later).
    fn attached(&mut self, queue_pair: Option<u64>);

    /// [`Step::Connect`] was done.
    fn connected(&mut self, usable: bool);

    /// [`Step::Ask`] was done; not called when one side has left. `heard` messages have come from
    /// the peer over this link so far; the answer to this question is not among them.
    fn asked(&mut self, _heard: u64) {}

    /// [`Step::Lose`] was done: programs know that the peer is lost. A function that can do so cuts
    /// off what they have mapped of it before the peer learns that it is given up.
    fn lost(&mut self);

    /// [`Step::Detach`] was done. Likewise.
    fn detached(&mut self);

    /// The engine gave the link up because of what the peer did.
    fn give_up(&mut self);

    /// This node leaves: the peer's memory is not written to any more.
    fn leave(&mut self);
}
