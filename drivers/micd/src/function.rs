//! A MIC function: a PCI function of any kind that joins this node with one other, with the state
//! machine of its link.
//!
//! A function handles registers, and the way in which two nodes find each other's queue pairs
//! through them. It has no endpoints or messages: it asks for steps ([`LinkStep`]) and gets the
//! outcome of each ([`Outcome`]). Kinds: `vmic` (two virtual machines) and `x100` (the Xeon Phi
//! coprocessor).

use hal::{Error, Result};
use scheme_scif::{Card, CardCommand};
use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use scif_core::DownReason;
use syscall::error::EOPNOTSUPP;

use crate::hardware::Hardware;

/// A step that a link needs. Every step that was carried out has one [`Outcome`].
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
    /// End what programs see of the link, but keep its memory: the peer does not answer, yet may
    /// still write to our memory. The outcome is [`Outcome::Failed`].
    Fail {
        /// The reason.
        reason: DownReason,
    },
    /// Forget the link and its memory: the peer can no longer write to our memory. The outcome is
    /// [`Outcome::Detached`].
    Detach,
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Of [`LinkStep::Attach`].
    Attached {
        /// The bus address of the queue pair; `None` when there was no memory, and the function
        /// asks again later.
        queue_pair: Option<u64>,
    },
    /// Of [`LinkStep::Connect`].
    Connected {
        /// Whether the peer's address holds a usable queue pair.
        is_usable: bool,
    },
    /// Of [`LinkStep::Probe`], unless one side has left meanwhile.
    Probed {
        /// Messages that have come from the peer over this link so far, without the answer to this
        /// probe.
        messages: u64,
    },
    /// Of [`LinkStep::Fail`]: programs have learned that the peer is lost. A function that can do
    /// so cuts off their mappings of the peer's memory before the peer learns that the link
    /// failed.
    Failed,
    /// Of [`LinkStep::Detach`]. The function cuts off mappings as for [`Outcome::Failed`].
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

    /// The next step; `now` is the time in nanoseconds of any monotonic clock. Call it after an
    /// interrupt and at [`deadline`](Self::deadline), until it returns `None`.
    fn step(&mut self, now: u64) -> Option<LinkStep>;

    /// Reports the outcome of a step.
    fn done(&mut self, outcome: Outcome);

    /// The latest time at which [`step`](Self::step) must be called.
    fn deadline(&self) -> u64;

    /// Reports that the engine gave up the link because of the peer's behaviour.
    fn link_failed(&mut self);

    /// Leaves: this node does not write to the peer's memory any more.
    fn leave(&mut self);

    /// Whether the peer no longer writes to the memory of the previous driver, if that ended
    /// without leaving. Once true, it stays so.
    fn predecessor_is_quiesced(&self) -> bool;

    /// The card behind this function, if there is one.
    fn card(&self) -> Option<Card> {
        None
    }

    /// Carries out an administrator's command for the card; the result shows later. `now` as for
    /// [`step`](Self::step), which may not have been called for long.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when there is no card that takes commands; `EBUSY` when the card's state does
    /// not allow this command.
    fn command(&mut self, _now: u64, _command: CardCommand) -> Result<()> {
        Err(Error::new(EOPNOTSUPP))
    }
}
