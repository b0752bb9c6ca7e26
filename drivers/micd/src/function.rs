//! A MIC function: a PCI function that joins this node with one other, whatever its kind, with the
//! state machine of its link.
//!
//! A function knows registers and how two nodes find each other's queue pairs over them. It knows
//! neither endpoints nor messages: it asks for steps ([`LinkStep`]) and gets the outcome of each
//! ([`Outcome`]). Kinds: `vmic` (two virtual machines) and `x100` (the Xeon Phi coprocessor).

use hal::{Error, Result};
use scheme_scif::{Card, CardCommand};
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use scif_core::DownReason;
use syscall::error::EOPNOTSUPP;

use crate::hardware::Hardware;

/// A step that a link needs. Each step that was done has one [`Outcome`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkStep {
    /// Make a queue pair for the peer: [`Outcome::Attached`].
    Attach,
    /// Connect to the peer's queue pair: [`Outcome::Connected`].
    Connect {
        /// Its bus address for the peer, as the peer published it.
        queue_pair: u64,
    },
    /// Ask the peer to show that it is alive: [`Outcome::Probed`].
    Probe,
    /// The peer does not answer, but may still write to our memory: end what programs see of the
    /// link and keep its memory: [`Outcome::Failed`].
    Fail {
        /// The reason.
        reason: DownReason,
    },
    /// The peer can no longer write to our memory: forget the link and its memory:
    /// [`Outcome::Detached`].
    Detach,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Of [`LinkStep::Attach`].
    Attached {
        /// The bus address of the queue pair; `None`: there was no memory, and the function asks
        /// again later.
        queue_pair: Option<u64>,
    },
    /// Of [`LinkStep::Connect`].
    Connected {
        /// Whether the peer's queue pair is one.
        is_usable: bool,
    },
    /// Of [`LinkStep::Probe`], unless one side has left meanwhile.
    Probed {
        /// Messages that have come from the peer over this link so far; the answer to this probe is
        /// not among them.
        messages: u64,
    },
    /// Of [`LinkStep::Fail`]: programs know that the peer is lost. A function that can do so cuts
    /// off what they have mapped of it before the peer learns that the link failed.
    Failed,
    /// Of [`LinkStep::Detach`]. Likewise.
    Detached,
}

/// The link with one other node, over the hardware that joins the two.
pub trait MicFunction: Hardware {
    /// This node's number.
    fn node(&self) -> NodeId;

    /// The other node's number.
    fn peer(&self) -> NodeId;

    /// Sets the time between two checks of the link, and the time to wait for the peer.
    fn set_timing(&mut self, timing: LinkTiming);

    /// The next step; `now` is the time in nanoseconds of any monotonic clock. To be
    /// called after an interrupt and at [`deadline`](Self::deadline), until it returns `None`.
    fn step(&mut self, now: u64) -> Option<LinkStep>;

    /// A step was done.
    fn done(&mut self, outcome: Outcome);

    /// When [`step`](Self::step) must be called at the latest.
    fn deadline(&self) -> u64;

    /// The engine gave the link up because of what the peer did.
    fn link_failed(&mut self);

    /// This node leaves: the peer's memory is not written to any more.
    fn leave(&mut self);

    /// Whether the peer writes no more to the memory of the driver before this one: of a
    /// driver that ended without leaving. Once true it stays so.
    fn predecessor_is_quiesced(&self) -> bool;

    /// The card behind it, if there is one.
    fn card(&self) -> Option<Card> {
        None
    }

    /// Does what an administrator wants of the card; what comes of it is seen by and by. `now` as
    /// for [`step`](Self::step), which may not have been called for long.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when there is no card that takes commands; `EBUSY` when its state does not
    /// allow this one.
    fn command(&mut self, _now: u64, _command: CardCommand) -> Result<()> {
        Err(Error::new(EOPNOTSUPP))
    }
}
