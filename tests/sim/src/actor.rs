//! The programs that run on simulated nodes: listeners, connectors, and the two ends of a stream.
//!
//! A program does one thing per turn and sleeps when a call finds nothing to do, until an event for
//! one of its endpoints wakes it.

use std::collections::BTreeMap;
use std::task::Poll;

use scif_abi::flags::Readiness;
use scif_abi::{Error, PortId};
use scif_core::{Connect, ConnectMode, EndpointId, Engine, Owner};

use crate::mapping::Held;
use crate::memory::NodeMemory;
use crate::model::Model;
use crate::rma::{Progress, RmaEnd};
use crate::rng::{Rng, mix};
use crate::trace::Trace;

/// What is known about the bytes of one direction of one stream.
#[derive(Clone, Copy, Debug)]
pub struct Ledger {
    /// Sending and receiving node.
    pub nodes: [usize; 2],
    /// Bytes the sender's engine took.
    pub sent: u64,
    /// The link broke, so bytes may have been lost on the way to the receiver.
    pub link_lost: bool,
}

/// What a turn of a program is given.
pub struct Context<'a> {
    /// Its node.
    pub node: usize,
    /// The node's engine.
    pub engine: &'a mut Engine,
    /// The node's memory.
    pub memory: &'a mut NodeMemory,
    /// Randomness.
    pub rng: &'a mut Rng,
    /// All streams' ledgers, by the sender's seed.
    pub ledgers: &'a mut BTreeMap<u64, Ledger>,
    /// What registered memory must hold.
    pub model: &'a mut Model,
    /// Mappings of the node whose programs have ended.
    pub orphans: &'a mut Vec<Held>,
    /// What happened, for people.
    pub trace: &'a Trace,
    /// Whether programs shall rather use registered memory than send.
    pub is_calm: bool,
    /// Whether the simulation winds down: finish, begin nothing new.
    pub finishing: bool,
}

/// How a turn ended.
#[derive(Debug)]
pub enum Turn {
    /// Call again.
    Again,
    /// Sleep until an event for one of the endpoints.
    Sleep,
    /// The program is done and its endpoints are closed.
    Done,
    /// As `Again`, and a new program started.
    Spawn(Box<Program>),
    /// The connector became a stream.
    Become(Box<Program>),
    /// A rule is broken.
    Broken(String),
}

impl Turn {
    /// For the trace.
    pub fn name(&self) -> &'static str {
        match self {
            Turn::Again => "goes on",
            Turn::Sleep => "sleeps",
            Turn::Done => "is done",
            Turn::Spawn(_) => "has accepted",
            Turn::Become(_) => "is connected",
            Turn::Broken(_) => "finds a rule broken",
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

impl Program {
    /// For the trace: what it is, and its endpoint.
    pub fn name(&self) -> String {
        let (kind, id) = match self {
            Program::Listener(listener) => ("listener", listener.endpoint),
            Program::Connector(connector) => ("connector", connector.endpoint),
            Program::Stream(stream) => ("stream", stream.endpoint),
        };
        format!("{kind} {:#x}", id.number())
    }

    /// What it has mapped.
    pub(crate) fn held(&self) -> &[Held] {
        match self {
            Program::Stream(stream) => stream.rma.held(),
            _ => &[],
        }
    }

    /// One turn.
    pub fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        match self {
            Program::Listener(listener) => listener.turn(context),
            Program::Connector(connector) => connector.turn(context),
            Program::Stream(stream) => stream.turn(context),
        }
    }

    /// Whether an event for `id` concerns this program.
    pub fn waits_for(&self, id: EndpointId) -> bool {
        match self {
            Program::Listener(listener) => {
                listener.endpoint == id || listener.accepting == Some(id)
            }
            Program::Connector(connector) => connector.endpoint == id,
            Program::Stream(stream) => stream.endpoint == id,
        }
    }

    /// Looks for signals it waits for.
    ///
    /// # Errors
    /// When one came before what it is a signal of.
    pub fn look_for_signals(&mut self, model: &mut Model) -> Result<(), String> {
        match self {
            Program::Stream(stream) => stream.rma.look_for_signals(model),
            _ => Ok(()),
        }
    }

    /// Links of these nodes broke.
    pub fn lose(&mut self, node: usize, other: Option<usize>) {
        if let Program::Stream(stream) = self {
            stream.rma.lose(node, other);
        }
    }

    /// The process has died and its endpoints are closed.
    ///
    /// # Errors
    /// When a call goes on.
    pub fn died(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        match self {
            Program::Stream(stream) => stream.rma.closed(context),
            _ => Ok(()),
        }
    }

    /// It sleeps and nothing goes on anywhere.
    ///
    /// # Errors
    /// When a notification that it should have got is missing.
    pub fn check_asleep(&mut self, context: &mut Context<'_>) -> Result<(), String> {
        match self {
            Program::Stream(stream) => stream.rma.check_asleep(context),
            _ => Ok(()),
        }
    }

    /// The endpoints to close when the process dies.
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

/// Accepts connections until it has had enough.
#[derive(Debug)]
pub struct Listener {
    endpoint: EndpointId,
    accepting: Option<EndpointId>,
    owner: Owner,
    accepts_left: u64,
}

impl Listener {
    /// A listener at `port`, unless the port is taken.
    pub fn start(context: &mut Context<'_>, owner: Owner, port: u16) -> Option<Listener> {
        let endpoint = context.engine.open(owner).ok()?;
        let backlog = 1 + context.rng.below(4) as i32;
        let bound = context.engine.bind(endpoint, port);
        if bound.is_err() || context.engine.listen(endpoint, backlog).is_err() {
            context.engine.close(context.memory, endpoint);
            return None;
        }
        let accepts_left = context.rng.size(30);
        Some(Listener {
            endpoint,
            accepting: None,
            owner,
            accepts_left,
        })
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        if let Some(new) = self.accepting {
            return self.finish(context, new);
        }
        if context.finishing || self.accepts_left == 0 {
            context.engine.close(context.memory, self.endpoint);
            return Turn::Done;
        }
        match context
            .engine
            .accept_start(context.memory, self.endpoint, self.owner)
        {
            Ok(new) => {
                self.accepts_left -= 1;
                self.accepting = Some(new);
                Turn::Again
            }
            Err(Error::WouldBlock) => {
                if context.engine.poll(context.memory, self.endpoint) != Readiness::empty() {
                    return Turn::Broken("nothing to accept, but poll says so".into());
                }
                Turn::Sleep
            }
            Err(Error::NoMemory) => Turn::Again,
            Err(error) => Turn::Broken(format!("accept_start: {error}")),
        }
    }

    fn finish(&mut self, context: &mut Context<'_>, new: EndpointId) -> Turn {
        match context.engine.accept_finish(new) {
            Poll::Pending if context.rng.one_in(20) => {
                context.engine.close(context.memory, new);
                self.accepting = None;
                Turn::Again
            }
            Poll::Pending => Turn::Sleep,
            Poll::Ready(Ok(peer)) => {
                self.accepting = None;
                let stream = Stream::start(context, new, peer, false);
                Turn::Spawn(Box::new(Program::Stream(stream)))
            }
            Poll::Ready(Err(Error::WouldBlock | Error::NoDevice)) => {
                self.accepting = None;
                Turn::Again
            }
            Poll::Ready(Err(error)) => Turn::Broken(format!("accept_finish: {error}")),
        }
    }
}

/// Connects, perhaps several times on the same endpoint.
#[derive(Debug)]
pub struct Connector {
    endpoint: EndpointId,
    to: PortId,
    mode: ConnectMode,
    under_way: bool,
    tries_left: u64,
}

impl Connector {
    /// A connector that has not begun yet.
    pub fn start(context: &mut Context<'_>, owner: Owner, to: PortId) -> Option<Connector> {
        let endpoint = context.engine.open(owner).ok()?;
        if context.rng.one_in(3) {
            // May be taken; then the endpoint stays unbound.
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

    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        if !self.under_way {
            return match context
                .engine
                .connect(context.memory, self.endpoint, self.to, self.mode)
            {
                Ok(Connect::Started) => {
                    self.under_way = true;
                    Turn::Again
                }
                Ok(Connect::Done(_)) => Turn::Broken("connect collected what never was".into()),
                Err(Error::NoDevice | Error::NoMemory | Error::NoSpace) => self.failed(context),
                Err(error) => Turn::Broken(format!("connect: {error}")),
            };
        }
        if context.rng.one_in(30) {
            context.engine.connect_cancel(self.endpoint);
            if context.rng.one_in(2) {
                context.engine.close(context.memory, self.endpoint);
                return Turn::Done;
            }
        }
        match self.result(context) {
            Poll::Pending => Turn::Sleep,
            Poll::Ready(Ok(_)) => {
                let stream = Stream::start(context, self.endpoint, self.to, true);
                Turn::Become(Box::new(Program::Stream(stream)))
            }
            Poll::Ready(Err(Error::ConnectionRefused | Error::NoDevice | Error::Interrupted)) => {
                self.failed(context)
            }
            Poll::Ready(Err(error)) => Turn::Broken(format!("connect ended with {error}")),
        }
    }

    fn result(&self, context: &mut Context<'_>) -> Poll<Result<u16, Error>> {
        if self.mode == ConnectMode::Blocking {
            return context.engine.connect_result(self.endpoint);
        }
        match context.engine.poll(context.memory, self.endpoint) {
            Readiness::OUT => {}
            // Cancelled.
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

    fn failed(&mut self, context: &mut Context<'_>) -> Turn {
        self.under_way = false;
        if self.tries_left == 0 || context.finishing {
            context.engine.close(context.memory, self.endpoint);
            return Turn::Done;
        }
        self.tries_left -= 1;
        Turn::Again
    }
}

/// The byte at `offset` of the stream with this seed: the seed itself, then noise.
fn stream_byte(seed: u64, offset: u64) -> u8 {
    let word = if offset < 8 {
        seed
    } else {
        mix(seed ^ offset >> 3)
    };
    (word >> (8 * (offset % 8))) as u8
}

/// One end of a connection: sends its own bytes, checks the peer's.
#[derive(Debug)]
pub struct Stream {
    endpoint: EndpointId,
    /// Whether this end connected. It closes first when both have nothing left to say.
    active: bool,
    seed: u64,
    total: u64,
    sent: u64,
    /// The peer's seed as far as received, then whole.
    peer_seed: [u8; 8],
    received: u64,
    /// Close as soon as this much was sent or received.
    close_at: u64,
    /// It acts in one of this number of turns.
    laziness: u64,
    /// Registered memory.
    rma: RmaEnd,
}

impl Stream {
    fn start(
        context: &mut Context<'_>,
        endpoint: EndpointId,
        peer: PortId,
        active: bool,
    ) -> Stream {
        let seed = context.rng.number();
        let nodes = [context.node, usize::from(peer.node())];
        context.ledgers.insert(
            seed,
            Ledger {
                nodes,
                sent: 0,
                link_lost: false,
            },
        );
        let close_at = if !context.is_calm && context.rng.one_in(4) {
            context.rng.size(20_000)
        } else {
            u64::MAX
        };
        let long = context.rng.one_in(3);
        let total = if context.is_calm {
            8 + context.rng.size(5_000)
        } else if long {
            context.rng.below(60_000)
        } else {
            context.rng.size(5_000)
        };
        Stream {
            endpoint,
            active,
            seed,
            total,
            sent: 0,
            peer_seed: [0; 8],
            received: 0,
            close_at,
            laziness: if context.is_calm {
                1
            } else {
                1 + context.rng.size(10)
            },
            rma: RmaEnd::new(context, endpoint, seed, usize::from(peer.node())),
        }
    }

    fn turn(&mut self, context: &mut Context<'_>) -> Turn {
        let peer = (self.received >= 8).then_some(u64::from_le_bytes(self.peer_seed));
        let progress = match self.rma.turn(context, peer) {
            Ok(progress) => progress,
            Err(what) => return Turn::Broken(what),
        };
        let is_busy = matches!(progress, Progress::Some);
        match self.stream_turn(context) {
            Turn::Sleep if is_busy => Turn::Again,
            turn => turn,
        }
    }

    fn stream_turn(&mut self, context: &mut Context<'_>) -> Turn {
        if self.sent + self.received >= self.close_at {
            return self.close(context);
        }
        let is_done = self.active && self.sent == self.total && self.rma.is_done();
        if is_done && (context.finishing || context.rng.one_in(8)) {
            return self.close(context);
        }
        if !context.finishing && !context.rng.one_in(self.laziness) {
            return Turn::Again;
        }
        let send_first = context.rng.one_in(2);
        let first = if send_first {
            self.send(context)
        } else {
            self.recv(context)
        };
        match first {
            // Only a program that can go on in neither direction sleeps.
            Turn::Sleep if send_first => self.recv(context),
            Turn::Sleep => self.send(context),
            _ => first,
        }
    }

    fn close(&mut self, context: &mut Context<'_>) -> Turn {
        context.engine.close(context.memory, self.endpoint);
        match self.rma.closed(context) {
            Ok(()) => Turn::Done,
            Err(what) => Turn::Broken(what),
        }
    }

    fn send(&mut self, context: &mut Context<'_>) -> Turn {
        let size = (1 + context.rng.size(10_000)).min(self.total - self.sent);
        if size == 0 {
            return Turn::Sleep;
        }
        let bytes: Vec<u8> = (self.sent..self.sent + size)
            .map(|at| stream_byte(self.seed, at))
            .collect();
        match context.engine.send(context.memory, self.endpoint, &bytes) {
            Ok(0) => Turn::Sleep,
            Ok(count) => {
                self.sent += count as u64;
                if let Some(ledger) = context.ledgers.get_mut(&self.seed) {
                    ledger.sent = self.sent;
                }
                Turn::Again
            }
            Err(Error::ConnectionReset) => {
                // Nobody is left to send to; what came may still be read.
                self.sent = self.total;
                Turn::Again
            }
            Err(error) => Turn::Broken(format!("send: {error}")),
        }
    }

    fn recv(&mut self, context: &mut Context<'_>) -> Turn {
        let mut buffer = vec![0; 1 + context.rng.size(10_000) as usize];
        let result = context
            .engine
            .recv(context.memory, self.endpoint, &mut buffer);
        match result {
            Ok(0) => Turn::Sleep,
            Ok(count) => match self.check(&buffer[..count]) {
                Ok(()) => match self.check_ledger(context) {
                    Ok(()) => Turn::Again,
                    Err(what) => Turn::Broken(what),
                },
                Err(what) => Turn::Broken(what),
            },
            Err(Error::ConnectionReset) => match self.check_end(context) {
                Ok(()) => self.close(context),
                Err(what) => Turn::Broken(what),
            },
            Err(error) => Turn::Broken(format!("recv: {error}")),
        }
    }

    fn check(&mut self, bytes: &[u8]) -> Result<(), String> {
        for byte in bytes {
            if self.received < 8 {
                self.peer_seed[self.received as usize] = *byte;
            } else {
                let seed = u64::from_le_bytes(self.peer_seed);
                let expected = stream_byte(seed, self.received);
                if *byte != expected {
                    let at = self.received;
                    return Err(format!("byte {at} is {byte:#x}, sent was {expected:#x}"));
                }
            }
            self.received += 1;
        }
        Ok(())
    }

    /// No byte comes that was not sent, and what was sent and has not come is in a ring.
    fn check_ledger(&self, context: &Context<'_>) -> Result<(), String> {
        let seed = u64::from_le_bytes(self.peer_seed);
        let known = (self.received >= 8).then(|| context.ledgers.get(&seed));
        let Some(ledger) = known.flatten() else {
            return Ok(());
        };
        let Some(under_way) = ledger.sent.checked_sub(self.received) else {
            return Err("more bytes received than sent".into());
        };
        let ring = u64::from(context.engine.config().endpoint_ring_bytes);
        if under_way >= ring && !ledger.link_lost {
            return Err(format!("{under_way} bytes in a ring of {ring}"));
        }
        Ok(())
    }

    /// At the end of the stream everything that was sent must have been received.
    fn check_end(&self, context: &Context<'_>) -> Result<(), String> {
        if self.received < 8 {
            return Ok(());
        }
        let seed = u64::from_le_bytes(self.peer_seed);
        let Some(ledger) = context.ledgers.get(&seed) else {
            return Err(format!("a stream with the unknown seed {seed:#x}"));
        };
        let lost = ledger.sent.checked_sub(self.received);
        match lost {
            None => Err("more bytes received than sent".into()),
            Some(lost) if lost > 0 && !ledger.link_lost => {
                Err(format!("{lost} of {} bytes were lost", ledger.sent))
            }
            Some(_) => Ok(()),
        }
    }
}
