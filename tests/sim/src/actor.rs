//! The programs that run on simulated nodes: listeners, connectors, and the two ends of a stream.
//!
//! A program does one thing per turn. When a call finds nothing to do, the program sleeps until an
//! event for one of its endpoints wakes it.

mod stream;

use std::collections::BTreeMap;
use std::task::Poll;

use scif_abi::flags::Readiness;
use scif_abi::{Error, PortId};
use scif_core::{Connect, ConnectMode, EndpointId, Engine, Owner};

use crate::mapping::Held;
use crate::memory::NodeMemory;
use crate::model::Model;
use crate::rng::Rng;
use crate::trace::Trace;

pub use self::stream::Stream;

/// What is known about the bytes of one direction of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// The sending and the receiving node.
    pub nodes: [usize; 2],
    /// Number of bytes that the sender's engine accepted.
    pub sent: u64,
    /// Whether the link broke, so that bytes may have been lost on the way to the receiver.
    pub link_lost: bool,
}

/// Counts of what the ends of streams did around the end of sending.
#[derive(Clone, Copy, Debug, Default)]
pub struct HalfCloses {
    /// Number of ends that announced the end of sending.
    pub said: u64,
    /// Number of ends that learned of it, after all bytes.
    pub heard: u64,
    /// Number of bytes sent in the other direction after that.
    pub bytes: u64,
}

/// The arguments for a turn of a program.
pub struct Context<'a> {
    /// The program's node.
    pub node: usize,
    /// The node's engine.
    pub engine: &'a mut Engine,
    /// The node's memory.
    pub memory: &'a mut NodeMemory,
    /// The source of randomness.
    pub rng: &'a mut Rng,
    /// The ledgers of all streams, by the sender's seed.
    pub ledgers: &'a mut BTreeMap<u64, Ledger>,
    /// The model of registered memory.
    pub model: &'a mut Model,
    /// Counts of streams that continued in one direction only.
    pub half_closes: &'a mut HalfCloses,
    /// The node's mappings whose programs ended.
    pub orphans: &'a mut Vec<Held>,
    /// The trace, for people.
    pub trace: &'a Trace,
    /// Whether programs should use registered memory rather than send.
    pub is_calm: bool,
    /// Whether the simulation winds down: programs finish and begin nothing new.
    pub finishing: bool,
}

/// The result of a turn.
#[derive(Debug)]
pub enum StepResult {
    /// The program has more to do now.
    Again,
    /// The program sleeps until an event for one of its endpoints.
    Sleep,
    /// The program is done and its endpoints are closed.
    Done,
    /// The program has more to do now, and a new program starts.
    Spawn(Box<Program>),
    /// The connector becomes a stream.
    Become(Box<Program>),
    /// A rule was broken.
    Broken(String),
}

impl StepResult {
    /// Returns the words for the trace.
    pub fn name(&self) -> &'static str {
        match self {
            StepResult::Again => "goes on",
            StepResult::Sleep => "sleeps",
            StepResult::Done => "is done",
            StepResult::Spawn(_) => "has accepted",
            StepResult::Become(_) => "is connected",
            StepResult::Broken(_) => "finds a rule broken",
        }
    }
}

/// A program.
#[derive(Debug)]
pub enum Program {
    /// Accepts connections.
    Listener(Listener),
    /// Connects.
    Connector(Connector),
    /// One end of a stream.
    Stream(Stream),
}

impl HalfCloses {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &HalfCloses) {
        self.said += other.said;
        self.heard += other.heard;
        self.bytes += other.bytes;
    }
}

impl Program {
    /// Returns the kind of the program and its endpoint, for the trace.
    pub fn name(&self) -> String {
        let (kind, id) = match self {
            Program::Listener(listener) => ("listener", listener.endpoint),
            Program::Connector(connector) => ("connector", connector.endpoint),
            Program::Stream(stream) => ("stream", stream.endpoint),
        };
        format!("{kind} {:#x}", id.number())
    }

    /// Returns the program's mappings.
    pub(crate) fn held(&self) -> &[Held] {
        match self {
            Program::Stream(stream) => stream.rma.held(),
            _ => &[],
        }
    }

    /// Runs one turn of the program.
    pub fn turn(&mut self, context: &mut Context<'_>) -> StepResult {
        match self {
            Program::Listener(listener) => listener.turn(context),
            Program::Connector(connector) => connector.turn(context),
            Program::Stream(stream) => stream.turn(context),
        }
    }

    /// Returns whether an event for `id` concerns this program.
    pub fn waits_for(&self, id: EndpointId) -> bool {
        match self {
            Program::Listener(listener) => {
                listener.endpoint == id || listener.accepting == Some(id)
            }
            Program::Connector(connector) => connector.endpoint == id,
            Program::Stream(stream) => stream.endpoint == id,
        }
    }

    /// Checks for the signals that the program waits for.
    ///
    /// # Errors When a signal arrived before the transfers it stands for.
    pub fn look_for_signals(&mut self, model: &mut Model) -> Result<(), String> {
        match self {
            Program::Stream(stream) => stream.rma.look_for_signals(model),
            _ => Ok(()),
        }
    }

    /// Marks what the program has across the link between two nodes, or across any link of `node`,
    /// as lost.
    pub fn lose(&mut self, node: usize, other: Option<usize>) {
        if let Program::Stream(stream) = self {
            stream.rma.lose(node, other);
        }
    }

    /// Handles the death of the process, whose endpoints are closed by now.
    ///
    /// # Errors When a call is still in progress.
    pub fn died(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        match self {
            Program::Stream(stream) => stream.rma.closed(context),
            _ => Ok(()),
        }
    }

    /// Checks a program that sleeps while nothing in the world has anything to do.
    ///
    /// # Errors When the program missed a notification.
    pub fn check_asleep(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        match self {
            Program::Stream(stream) => stream.rma.check_asleep(context),
            _ => Ok(()),
        }
    }

    /// Returns the endpoints to close when the process dies.
    pub fn endpoints(&self) -> Vec<EndpointId> {
        match self {
            Program::Listener(listener) => [Some(listener.endpoint), listener.accepting]
                .into_iter()
                .flatten()
                .collect(),
            Program::Connector(connector) => vec![connector.endpoint],
            Program::Stream(stream) => vec![stream.endpoint],
        }
    }
}

/// Accepts connections until it has accepted enough.
#[derive(Debug)]
pub struct Listener {
    endpoint: EndpointId,
    accepting: Option<EndpointId>,
    owner: Owner,
    accepts_left: u64,
}

impl Listener {
    /// Starts a listener at `port`; `None` if the port is taken.
    pub fn start(context: &mut Context<'_>, owner: Owner, port: u16) -> Option<Listener> {
        let endpoint = context.engine.open(owner).ok()?;
        let backlog = 1 + context.rng.below(4) as i32;
        let bound = context.engine.bind(endpoint, port);
        if bound.is_err() || context.engine.listen(endpoint, backlog).is_err() {
            context.engine.close(context.memory, endpoint);
            return None;
        }
        let accepts_left = context.rng.size(30);
        if context.rng.one_in(4) {
            context.engine.grant_at_once(endpoint);
        }
        Some(Listener {
            endpoint,
            accepting: None,
            owner,
            accepts_left,
        })
    }

    fn turn(&mut self, context: &mut Context<'_>) -> StepResult {
        if let Some(new) = self.accepting {
            return self.finish(context, new);
        }
        if context.finishing || self.accepts_left == 0 {
            context.engine.close(context.memory, self.endpoint);
            return StepResult::Done;
        }
        match context
            .engine
            .accept_start(context.memory, self.endpoint, self.owner)
        {
            Ok(new) => {
                self.accepts_left -= 1;
                self.accepting = Some(new);
                StepResult::Again
            }
            Err(Error::WouldBlock) => {
                if context.engine.poll(context.memory, self.endpoint) != Readiness::empty() {
                    return StepResult::Broken("nothing to accept, but poll says so".into());
                }
                StepResult::Sleep
            }
            Err(Error::NoMemory) => StepResult::Again,
            Err(error) => StepResult::Broken(format!("accept_start: {error}")),
        }
    }

    fn finish(&mut self, context: &mut Context<'_>, new: EndpointId) -> StepResult {
        match context.engine.accept_finish(new) {
            Poll::Pending if context.rng.one_in(20) => {
                context.engine.close(context.memory, new);
                self.accepting = None;
                StepResult::Again
            }
            Poll::Pending => StepResult::Sleep,
            Poll::Ready(Ok(peer)) => {
                self.accepting = None;
                let stream = Stream::start(context, new, peer, false);
                StepResult::Spawn(Box::new(Program::Stream(stream)))
            }
            Poll::Ready(Err(Error::WouldBlock | Error::NoDevice)) => {
                self.accepting = None;
                StepResult::Again
            }
            Poll::Ready(Err(error)) => StepResult::Broken(format!("accept_finish: {error}")),
        }
    }
}

/// Connects, perhaps several times on one endpoint.
#[derive(Debug)]
pub struct Connector {
    endpoint: EndpointId,
    to: PortId,
    mode: ConnectMode,
    under_way: bool,
    tries_left: u64,
}

impl Connector {
    /// Makes a connector that has not begun to connect.
    pub fn start(context: &mut Context<'_>, owner: Owner, to: PortId) -> Option<Connector> {
        let endpoint = context.engine.open(owner).ok()?;
        if context.rng.one_in(3) {
            // The port may be taken; then the endpoint stays unbound.
            let _ = context
                .engine
                .bind(endpoint, 2000 + context.rng.below(20) as u16);
        }
        let mode = if context.rng.one_in(2) {
            ConnectMode::Blocking
        } else {
            ConnectMode::NonBlocking
        };
        let tries_left = context.rng.below(4);
        Some(Connector {
            endpoint,
            to,
            mode,
            under_way: false,
            tries_left,
        })
    }

    fn turn(&mut self, context: &mut Context<'_>) -> StepResult {
        if !self.under_way {
            return match context
                .engine
                .connect(context.memory, self.endpoint, self.to, self.mode)
            {
                Ok(Connect::Started) => {
                    self.under_way = true;
                    StepResult::Again
                }
                Ok(Connect::Done(_)) => {
                    StepResult::Broken("connect collected what never was".into())
                }
                Err(Error::NoDevice | Error::NoMemory | Error::NoSpace) => self.failed(context),
                Err(error) => StepResult::Broken(format!("connect: {error}")),
            };
        }
        if context.rng.one_in(30) {
            context.engine.connect_cancel(self.endpoint);
            if context.rng.one_in(2) {
                context.engine.close(context.memory, self.endpoint);
                return StepResult::Done;
            }
        }
        match self.result(context) {
            Poll::Pending => StepResult::Sleep,
            Poll::Ready(Ok(_)) => {
                let stream = Stream::start(context, self.endpoint, self.to, true);
                StepResult::Become(Box::new(Program::Stream(stream)))
            }
            Poll::Ready(Err(Error::ConnectionRefused | Error::NoDevice | Error::Interrupted)) => {
                self.failed(context)
            }
            Poll::Ready(Err(error)) => StepResult::Broken(format!("connect ended with {error}")),
        }
    }

    fn result(&self, context: &mut Context<'_>) -> Poll<Result<u16, Error>> {
        if self.mode == ConnectMode::Blocking {
            return context.engine.connect_result(self.endpoint);
        }
        match context.engine.poll(context.memory, self.endpoint) {
            Readiness::OUT => {}
            // The connect was cancelled.
            Readiness::ERR => return Poll::Ready(Err(Error::Interrupted)),
            _ => return Poll::Pending,
        }
        match context
            .engine
            .connect(context.memory, self.endpoint, self.to, self.mode)
        {
            Ok(Connect::Done(port)) => Poll::Ready(Ok(port)),
            Ok(Connect::Started) => Poll::Ready(Err(Error::IsConnected)),
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn failed(&mut self, context: &mut Context<'_>) -> StepResult {
        self.under_way = false;
        if self.tries_left == 0 || context.finishing {
            context.engine.close(context.memory, self.endpoint);
            return StepResult::Done;
        }
        self.tries_left -= 1;
        StepResult::Again
    }
}
