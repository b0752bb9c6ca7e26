//! The interface of a place where rows are run.

use alloc::string::String;

use super::call::{Call, Reply};

/// Where rows run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Two programs with the machine of `st-core`, in the simulator.
    Sim,
    /// Two programs in one node.
    Node,
    /// Between host and card.
    Pair,
    /// From card to card; the host runs the rows.
    Cards,
}

impl Place {
    /// All of them.
    pub const ALL: [Place; 4] = [Place::Sim, Place::Node, Place::Pair, Place::Cards];

    /// Its name in reports and on the page.
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
    /// The one that connects.
    A,
    /// The one that listens.
    B,
    /// A third program, not root's.
    User,
}

/// A call that is under way at a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Where.
    pub side: Side,
    /// Its number there.
    pub number: u32,
}

/// The fault that a step can end with instead of its value.
pub type Checked<T = ()> = Result<T, String>;

/// A request to the launcher of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFailure {
    /// B's node loses its power.
    Power,
    /// B's node stops, until it is lost.
    Freeze,
    /// The link between both nodes is cut.
    Cut,
}

/// A place's way to make calls. An `Err` means that the place itself failed.
pub trait Driver {
    /// Which place this is.
    fn place(&self) -> Place;
    /// The node of a side.
    fn node(&self, side: Side) -> u16;
    /// The number of calls of those rows that make very many.
    fn many(&self) -> u64;
    /// The number of this run from which random ones are made; a run with the same number makes the
    /// same ones.
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
    /// A side's program dies now; another one takes its place.
    fn kill(&mut self, side: Side) -> Checked;
    /// The same after this number of milliseconds, or of stores to the peer; waits for it.
    fn kill_later(&mut self, side: Side, when: u64) -> Checked;
    /// The driver of A's node dies, and comes back.
    fn kill_driver(&mut self) -> Checked;
    /// B's node is lost for A's.
    fn lose(&mut self, loss: NodeFailure) -> Checked;
    /// It comes back, and with it the program, a new one after a loss of power.
    fn restore(&mut self, loss: NodeFailure) -> Checked;
}
