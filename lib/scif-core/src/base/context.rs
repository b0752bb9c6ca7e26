//! The context of every call: the state that all parts share.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};

use scif_abi::limits::ANSWER_TIMEOUT_NS;
use scif_abi::message::{Message, NodeMessage};
use scif_abi::trace::{What, is_traced};
use scif_abi::{NodeId, Port, PortId};

use super::config::Config;
use super::event::{Event, Events};
use super::ids::{ConnectionId, EndpointId};
use super::memory::Locality;
use super::quota::Quotas;
use super::stats::{Stats, Traffic};
use super::timers::{Timer, Timers};
use super::trace::{Trace, Tracer};

/// The two ports of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: Port,
    pub(crate) peer: PortId,
}

/// What identifies a connection: our id, the peer's id, and the ports of both ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) id: ConnectionId,
    pub(crate) remote: u64,
    pub(crate) ends: Ends,
}

/// A message to another node that has not been put into its ring.
pub(crate) struct Outgoing {
    pub(crate) node: NodeId,
    pub(crate) message: Message,
    /// When (ns) the message becomes void: from then on it must not be sent.
    pub(crate) void_at: Option<u64>,
}

/// Clock, settings, timers, events, messages to be sent, quotas and counters.
pub(crate) struct Context {
    pub(crate) config: Config,
    /// Time of the last tick (ns).
    pub(crate) now: u64,
    pub(crate) timers: Timers,
    pub(crate) events: Events,
    /// Messages to other nodes that have not been put into their rings, in order.
    pub(crate) outbox: VecDeque<Outgoing>,
    /// Messages from this node to itself.
    pub(crate) loopback: VecDeque<Message>,
    pub(crate) quotas: Quotas,
    pub(crate) stats: Stats,
    /// The traffic between this node and others. Nodes that have gone keep their entry.
    pub(crate) traffic: BTreeMap<NodeId, Traffic>,
    /// How many copies and windows of each closed endpoint are still under way.
    departures: BTreeMap<EndpointId, usize>,
    trace: Trace,
}

impl Context {
    pub(crate) fn new(config: Config) -> Context {
        Context {
            config,
            now: 0,
            timers: Timers::default(),
            events: Events::default(),
            outbox: VecDeque::new(),
            loopback: VecDeque::new(),
            quotas: Quotas::new(config.limits),
            stats: Stats::default(),
            traffic: BTreeMap::new(),
            departures: BTreeMap::new(),
            trace: Trace::default(),
        }
    }

    /// Counts bytes of a stream. For bytes that clients move these are the clients' numbers, which
    /// may be anything.
    pub(crate) fn count_stream(&mut self, node: NodeId, sent: u64, received: u64) {
        self.stats.bytes_sent = self.stats.bytes_sent.wrapping_add(sent);
        self.stats.bytes_received = self.stats.bytes_received.wrapping_add(received);
        if sent | received != 0 {
            let of_node = self.traffic.entry(node).or_default();
            of_node.sent = of_node.sent.wrapping_add(sent);
            of_node.received = of_node.received.wrapping_add(received);
        }
    }

    /// Counts bytes that were copied for a call, into another node's memory and out of it.
    pub(crate) fn count_copied(&mut self, node: NodeId, written: u64, read: u64) {
        if written | read != 0 {
            let of_node = self.traffic.entry(node).or_default();
            of_node.written = of_node.written.wrapping_add(written);
            of_node.read = of_node.read.wrapping_add(read);
        }
    }

    /// The time (ns) that is `wait` ns from now.
    pub(crate) fn after(&self, wait: u64) -> u64 {
        self.now.saturating_add(wait)
    }

    /// How this node reaches the other side's memory when that side is on `node`.
    pub(crate) fn locality(&self, node: NodeId) -> Locality {
        if node == self.config.node {
            Locality::Own
        } else {
            Locality::Peer(node)
        }
    }

    /// Starts the response time-out for a message that is sent now.
    pub(crate) fn expect_response(&mut self) {
        let due = self.after(ANSWER_TIMEOUT_NS);
        self.timers.set_earliest(Timer::Response, due);
    }

    /// Notes that a copy or window of a closed endpoint is still under way.
    pub(crate) fn begin_departure(&mut self, id: EndpointId) {
        *self.departures.entry(id).or_default() += 1;
    }

    /// Notes that one of them has ended. `Event::Departed` follows the last.
    pub(crate) fn end_departure(&mut self, id: EndpointId) {
        if let Some(left) = self.departures.get_mut(&id) {
            *left -= 1;
            if *left == 0 {
                self.departures.remove(&id);
                self.events.push(Event::Departed(id));
            }
        }
    }

    /// Whether copies or windows of a closed endpoint are under way.
    pub(crate) fn is_departing(&self, id: EndpointId) -> bool {
        self.departures.contains_key(&id)
    }

    /// Queues the message `body` from our port to the peer's, to be sent with the next ones to its
    /// node.
    pub(crate) fn post(&mut self, ends: Ends, body: NodeMessage) {
        self.post_until(ends, body, None);
    }

    /// As `post`, for a message that must not be sent from `void_at` (ns) on.
    pub(crate) fn post_until(&mut self, ends: Ends, body: NodeMessage, void_at: Option<u64>) {
        let from = PortId::new(self.config.node, ends.local);
        let message = Message::new(from, ends.peer, body);
        self.push_message(ends.peer.node(), message, void_at);
    }

    /// Queues a message about nodes to `node`: its ports are 0.
    pub(crate) fn post_to_node(&mut self, node: NodeId, body: NodeMessage) {
        let (local, peer) = (0, PortId::new(node, 0));
        self.post(Ends { local, peer }, body);
    }

    /// Queues a message to `node`, to be sent with the next ones.
    pub(crate) fn post_message(&mut self, node: NodeId, message: Message) {
        self.push_message(node, message, None);
    }

    fn push_message(&mut self, node: NodeId, message: Message, void_at: Option<u64>) {
        let ends = [message.source, message.destination];
        self.trace_message(What::Sent, node, ends, &message);
        if node == self.config.node {
            self.loopback.push_back(message);
        } else {
            self.outbox.push_back(Outgoing {
                node,
                message,
                void_at,
            });
        }
    }

    /// Records events with `tracer` from now on.
    pub(crate) fn set_tracer(&mut self, tracer: Box<dyn Tracer>) {
        self.trace.set(tracer);
    }

    /// Records an event of a node.
    pub(crate) fn trace(&mut self, what: What, node: NodeId, value: u64) {
        self.trace.record(self.now, what, node, [0, 0], value);
    }

    /// Records an event between two ports.
    pub(crate) fn trace_ends(&mut self, what: What, ends: Ends, value: u64) {
        let ports = [ends.local, ends.peer.port()];
        self.trace
            .record(self.now, what, ends.peer.node(), ports, value);
    }

    /// Records a message.
    pub(crate) fn trace_message(
        &mut self,
        what: What,
        node: NodeId,
        [own, other]: [PortId; 2],
        message: &Message,
    ) {
        let opcode = message.opcode.get();
        if is_traced(opcode) {
            let ports = [own.port(), other.port()];
            self.trace
                .record(self.now, what, node, ports, opcode.into());
        }
    }
}
