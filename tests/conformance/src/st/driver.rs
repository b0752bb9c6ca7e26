//! The interface to a place where rows run.

use alloc::string::String;

use super::call::{Call, Reply};

/// Where rows run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Two programs with the state machines of `st-core`, in the simulator.
    Sim,
    /// Two programs in one node.
    Node,
    /// Between host and card.
    Pair,
    /// From card to card; the host runs the rows.
    Cards,
}

impl Place {
    /// All places.
    pub const ALL: [Place; 4] = [Place::Sim, Place::Node, Place::Pair, Place::Cards];

    /// The name in reports and on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Place::Sim => "sim",
            Place::Node => "node",
            Place::Pair => "pair",
            Place::Cards => "cards",
        }
    }

    /// The number of calls of those rows that make very many.
    pub const fn many(self) -> u64 {
        match self {
            Place::Sim => 2_000,
            _ => 10_000,
        }
    }
}

/// The program that makes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The program that connects.
    A,
    /// The program that listens.
    B,
    /// A third program, which is not root's.
    User,
}

/// A call that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The side that makes it.
    pub side: Side,
    /// Its number at that side.
    pub number: u32,
}

/// The result of a step; the error says what is wrong.
pub type Checked<T = ()> = Result<T, String>;

/// A request to the launcher of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFailure {
    /// B's node loses its power.
    Power,
    /// B's node stops until the other one has lost it.
    Freeze,
    /// The link between both nodes is cut.
    Cut,
}

/// The means of a place to make calls. An error means that the place itself has failed.
pub trait Driver {
    /// The place.
    fn place(&self) -> Place;
    /// The node of a side.
    fn node(&self, side: Side) -> u16;
    /// The number of calls of those rows that make very many.
    fn many(&self) -> u64;
    /// The seed of this run's random choices; runs with the same seed make the same choices.
    fn seed(&self) -> u64;
    /// Makes a call and waits for its end.
    fn call(&mut self, side: Side, call: &Call) -> Checked<Reply>;
    /// Starts a call.
    fn begin(&mut self, side: Side, call: &Call) -> Checked<Ticket>;
    /// Whether a call has ended.
    fn is_done(&mut self, ticket: Ticket) -> Checked<bool>;
    /// Waits for the end of a call.
    fn finish(&mut self, ticket: Ticket) -> Checked<Reply>;
    /// Lets a little time pass.
    fn pause(&mut self);
    /// Kills a side's program; another one takes its place.
    fn kill(&mut self, side: Side) -> Checked;
    /// Kills a side's program after this number of milliseconds, or of stores to the peer, and
    /// waits for its end.
    fn kill_later(&mut self, side: Side, when: u64) -> Checked;
    /// Kills the driver of A's node, which is restarted.
    fn kill_driver(&mut self) -> Checked;
    /// Makes A's node lose B's.
    fn lose(&mut self, loss: NodeFailure) -> Checked;
    /// Brings B's node back, with its program; after a loss of power that is a new one.
    fn restore(&mut self, loss: NodeFailure) -> Checked;
}
