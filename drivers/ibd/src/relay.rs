//! The relay of datagrams for multicast groups: SCIF connections to port 60.
//!
//! A program that is in a group, or sends to one, has a connection to the daemon of its node. The
//! daemon forwards the program's datagrams to all programs of the node that have such a
//! connection, the sender included, and to the daemons of the other nodes, which forward them to
//! their programs. Each program picks the datagrams of its own groups. A datagram that finds no
//! room is dropped, as datagrams may be.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
#[cfg(not(target_os = "redox"))]
use std::fs;

use hal::event::Queue;
#[cfg(target_os = "redox")]
use runtime::fs;
use scif::{Endpoint, Errno, Error, NodeId, Port, PortId, raw};
use syscall::flag::EventFlags;
use verbs::relay::{GREETING_BYTES, PORT, greeting};
use verbs::shares::surplus;
use verbs_core::address;

use crate::group::{Assembly, MOST_BYTES};
use crate::listening::Listening;
use crate::shares::{surplus_of_node, users};

/// Most connections of programs.
const MOST_PROGRAMS: usize = 512;
/// Most connections whose peers have not sent their greeting, and most that are accepted before
/// other work has its turn.
const MOST_SILENT: usize = 64;
/// Tables of the processes that own SCIF ports, and of the users of processes.
const PORTS: &str = "/scheme/scif/ports";
const CONTEXTS: &str = "/scheme/sys/context";
/// Most bytes that wait for a connection, besides one datagram.
const MOST_WAITING: usize = 16 * MOST_BYTES;
/// Bytes to take from all connections together before other work has its turn, and datagrams, each
/// of which is copied for each program. The last bytes that are received may exceed both.
const TURN_BYTES: usize = 64 * 1024;
const TURN_DATAGRAMS: usize = 128;
/// Nanoseconds until a connection to a node that refused one is tried again.
const PAUSE: u64 = 50_000_000;
/// Nanoseconds after which an unused connection to another node is closed.
const IDLE: u64 = 1_000_000_000;

/// A connection that a program or another node's daemon has made.
struct Lane {
    endpoint: Endpoint,
    /// The node and SCIF port of its peer.
    peer: PortId,
    /// Whether its peer is on another node, and so is that node's daemon.
    is_daemon: bool,
    greeting: Vec<u8>,
    assembly: Assembly,
    /// Bytes to send to the peer.
    waiting: Vec<u8>,
    has_ended: bool,
}

/// The state of the connection to another node's daemon.
enum Way {
    Connecting(Endpoint),
    Connected(Endpoint),
    /// It was refused or has ended, and is not tried again before this time, in nanoseconds.
    Refused(u64),
}

/// Another node, with the datagrams for it.
struct Node {
    way: Way,
    waiting: Vec<u8>,
    /// When a datagram for it last arrived, in nanoseconds.
    used: u64,
}

/// What was received in a turn.
#[derive(Default)]
struct Received {
    /// The datagrams, each with whether it is from a daemon.
    datagrams: Vec<(Vec<u8>, bool)>,
    bytes: usize,
}

/// The relay: its connections from programs and daemons, and those to other nodes.
#[derive(Default)]
pub struct Relay {
    listening: Listening<PORT>,
    lanes: Vec<Lane>,
    /// The place in `lanes` of the one that is received from first.
    first: usize,
    nodes: BTreeMap<NodeId, Node>,
}

impl Relay {
    /// Drops all connections, which have ended with the SCIF driver.
    pub fn clear(&mut self) {
        *self = Relay::default();
    }

    /// When [`serve`](Relay::serve) has work to do if no event comes: to bind the port again, or
    /// to close an unused connection. In nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        let ends = self.nodes.values().filter_map(Node::end);
        ends.chain(self.listening.deadline()).min()
    }

    /// Receives datagrams and forwards them. Returns whether more may be there. `own` is the
    /// number of this node. `source` names events of connections in the event queue.
    pub fn serve<T: Copy + PartialEq>(
        &mut self,
        own: NodeId,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) -> bool {
        self.listening.bind(queue, source, now);
        let received = self.receive();
        let mut has_more = received.is_enough();
        // Accepting now makes a lane of each program that joined before the datagrams were sent.
        has_more |= self.accept(own, queue, source, now);
        for lane in &mut self.lanes {
            lane.greet();
        }
        if received.datagrams.iter().any(|(_, is_daemons)| !is_daemons) {
            self.find_nodes(own);
        }
        for (records, is_daemons) in received.datagrams {
            for lane in self.lanes.iter_mut().filter(|lane| lane.is_program()) {
                keep(&mut lane.waiting, &records);
            }
            for node in self.nodes.values_mut().filter(|_| !is_daemons) {
                keep(&mut node.waiting, &records);
                node.used = now;
            }
        }
        for lane in &mut self.lanes {
            lane.has_ended |= !flush(&lane.endpoint, &mut lane.waiting);
        }
        self.lanes.retain(|lane| !lane.has_ended);
        for (node, of) in &mut self.nodes {
            of.serve(*node, queue, source, now);
        }
        self.nodes
            .retain(|_, node| node.end().is_none_or(|end| now < end));
        has_more
    }

    /// Receives what there is time for in a turn. It begins with the connection at which the last
    /// turn has ended, so that none waits for the others for ever.
    fn receive(&mut self) -> Received {
        let mut received = Received::default();
        let mut buffer = vec![0; MOST_BYTES];
        let from = self.first.min(self.lanes.len());
        let (last, first) = self.lanes.split_at_mut(from);
        for (at, lane) in (from..).zip(first).chain((0..).zip(last)) {
            if received.is_enough() {
                self.first = at;
                break;
            }
            lane.receive(&mut received, &mut buffer);
        }
        received
    }

    /// Accepts connections. Returns whether more may wait.
    fn accept<T: Copy + PartialEq>(
        &mut self,
        own: NodeId,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) -> bool {
        let mut users = BTreeMap::new();
        let events = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
        for _ in 0..MOST_SILENT {
            let accepted = self.listening.accept((queue, source), events, now);
            let Some((endpoint, peer)) = accepted else {
                return false;
            };
            let is_daemon = peer.node() != own;
            // A daemon's port is root's, so a connection from another node by another user is
            // none.
            let is_allowed = !is_daemon || peer.is_of_root();
            if !is_allowed || endpoint.set_nonblocking(true).is_err() {
                log::debug!("refused {}/{} at the relay", peer.node(), peer.port());
                continue;
            }
            let nodes = self.lanes.iter().map(|lane| lane.peer.node());
            let surplus = surplus_of_node(nodes, peer.node()).filter(|_| is_daemon);
            if let Some(oldest) = surplus {
                self.lanes.remove(oldest);
            }
            self.lanes.push(Lane {
                endpoint,
                peer,
                is_daemon,
                greeting: Vec::new(),
                assembly: Assembly::new(address::lid(peer.node())),
                waiting: Vec::new(),
                has_ended: false,
            });
            self.bound_silent();
            self.bound_programs(&mut users);
        }
        true
    }

    /// If there are too many connections of programs, closes the oldest of the user who has most.
    /// `users` caches the users of ports; it is read again if the last lane's port is not in it.
    fn bound_programs(&mut self, users: &mut BTreeMap<Port, u32>) {
        let all = self.lanes.iter().enumerate();
        let programs = all.filter(|(_, lane)| !lane.is_daemon);
        let places: Vec<usize> = programs.map(|(at, _)| at).collect();
        if places.len() <= MOST_PROGRAMS {
            return;
        }
        let is_known = |lane: &Lane| users.contains_key(&lane.peer.port());
        if !self.lanes.last().is_some_and(is_known) {
            *users = find_users();
        }
        let of: Vec<Option<u32>> = places
            .iter()
            .map(|at| users.get(&self.lanes.get(*at)?.peer.port()).copied())
            .collect();
        if let Some(at) = surplus(&of).and_then(|of| places.get(of)) {
            self.lanes.remove(*at);
        }
    }

    /// Closes the oldest connections without a greeting: they must not crowd out the others.
    fn bound_silent(&mut self) {
        while self.lanes.iter().filter(|lane| lane.is_silent()).count() > MOST_SILENT {
            if let Some(oldest) = self.lanes.iter().position(Lane::is_silent) {
                self.lanes.remove(oldest);
            }
        }
    }

    /// Finds the nodes that are online. Nodes that are not lose the datagrams that wait for them.
    fn find_nodes(&mut self, own: NodeId) {
        // Without an answer the nodes that were online before count as online.
        let Ok(online) = scif::nodes().map(|nodes| nodes.online) else {
            return;
        };
        self.nodes.retain(|node, _| online.contains(node));
        for node in online.into_iter().filter(|node| *node != own) {
            self.nodes.entry(node).or_insert_with(|| Node {
                way: Way::Refused(0),
                waiting: Vec::new(),
                used: 0,
            });
        }
    }
}

impl Lane {
    /// Whether datagrams are forwarded to it.
    fn is_program(&self) -> bool {
        !self.is_daemon && self.greeting.len() == GREETING_BYTES && !self.has_ended
    }

    /// Whether its peer has not sent its whole greeting.
    fn is_silent(&self) -> bool {
        self.greeting.len() < GREETING_BYTES
    }

    /// Receives the greeting, as far as it has come.
    fn greet(&mut self) {
        while self.greeting.len() < GREETING_BYTES && !self.has_ended {
            let mut bytes = [0; GREETING_BYTES];
            let room = &mut bytes[self.greeting.len()..];
            match raw::recv(self.endpoint.fd(), room, 0) {
                Ok(0) => return,
                Ok(count) => {
                    let from = self.greeting.len();
                    self.greeting.extend_from_slice(&bytes[from..from + count]);
                }
                Err(_) => self.has_ended = true,
            }
        }
        self.has_ended |= self.greeting != greeting();
    }

    /// Receives datagrams, until there are none or the turn has enough.
    fn receive(&mut self, into: &mut Received, buffer: &mut [u8]) {
        self.greet();
        while self.greeting.len() == GREETING_BYTES && !self.has_ended && !into.is_enough() {
            match raw::recv(self.endpoint.fd(), &mut buffer[..], 0) {
                Ok(0) => return,
                Ok(count) => {
                    into.bytes += count;
                    let is_daemon = self.is_daemon;
                    let sink = |records| into.datagrams.push((records, is_daemon));
                    self.has_ended |= self.assembly.take(&buffer[..count], sink).is_err();
                }
                Err(_) => self.has_ended = true,
            }
        }
    }
}

impl Received {
    /// Whether other work has its turn, so that more may be left.
    fn is_enough(&self) -> bool {
        self.bytes >= TURN_BYTES || self.datagrams.len() >= TURN_DATAGRAMS
    }
}

impl Node {
    /// When to forget the node and its connection if no datagram for it comes, in nanoseconds.
    fn end(&self) -> Option<u64> {
        match self.way {
            Way::Connected(_) if self.waiting.is_empty() => Some(self.used.saturating_add(IDLE)),
            Way::Connected(_) | Way::Connecting(_) => None,
            Way::Refused(until) => Some(until),
        }
    }

    /// Makes the connection if datagrams wait for it, and sends what there is room for.
    fn serve<T: Copy + PartialEq>(
        &mut self,
        node: NodeId,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) {
        let refused = Way::Refused(now + PAUSE);
        self.way = match core::mem::replace(&mut self.way, refused) {
            Way::Refused(until) if until <= now && !self.waiting.is_empty() => {
                let prepared = prepare().filter(|endpoint| {
                    let events = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
                    queue.subscribe(endpoint.fd(), events, source).is_ok()
                });
                prepared.map_or(Way::Refused(now + PAUSE), Way::Connecting)
            }
            way => way,
        };
        if let Way::Connecting(endpoint) = &self.way {
            match endpoint.connect(PortId::new(node, PORT)) {
                Err(Error::Scif(Errno::InProgress)) => return,
                Ok(_) | Err(Error::Scif(Errno::IsConnected)) => {
                    let greeting = greeting();
                    self.waiting.splice(..0, greeting);
                    if let Way::Connecting(endpoint) =
                        core::mem::replace(&mut self.way, Way::Refused(0))
                    {
                        self.way = Way::Connected(endpoint);
                    }
                }
                Err(_) => self.way = Way::Refused(now + PAUSE),
            }
        }
        if let Way::Connected(endpoint) = &self.way
            && !flush(endpoint, &mut self.waiting)
        {
            self.way = Way::Refused(now + PAUSE);
        }
        if let Way::Refused(_) = self.way {
            self.waiting.clear();
        }
    }
}

/// The users of the SCIF ports of this node. If the tables cannot be read, no user is known.
fn find_users() -> BTreeMap<Port, u32> {
    let text = |path| fs::read_to_string(path).unwrap_or_default();
    users(&text(PORTS), &text(CONTEXTS))
}

/// An endpoint for a connection to another node's daemon.
fn prepare() -> Option<Endpoint> {
    let endpoint = Endpoint::open().ok()?;
    endpoint.bind_as_root().ok()?;
    endpoint.set_nonblocking(true).ok()?;
    Some(endpoint)
}

/// Queues a datagram for a connection, unless too many bytes wait there.
fn keep(waiting: &mut Vec<u8>, records: &[u8]) {
    if waiting.len() <= MOST_WAITING {
        waiting.extend_from_slice(records);
    }
}

/// Sends what there is room for. Returns whether the connection still exists.
fn flush(endpoint: &Endpoint, waiting: &mut Vec<u8>) -> bool {
    while !waiting.is_empty() {
        match raw::send(endpoint.fd(), &waiting[..], 0) {
            Ok(0) => return true,
            Ok(count) => drop(waiting.drain(..count)),
            Err(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use verbs_core::address::GlobalRoute;
    use verbs_core::record::{DatagramPiece, HEADER_BYTES, Marks, Record};

    use super::*;
    use crate::tests::peers::Peers;

    #[test]
    fn a_peer_that_connects_without_end_ends_no_turn() {
        let peers = Peers::default();
        peers.come([PortId::new(0, 2000); 10 * MOST_SILENT]);
        peers.play(|queue| {
            let mut relay = Relay::default();
            for turn in 1..=3 {
                assert!(relay.serve(0, queue, (), 0), "others wait");
                assert_eq!(peers.waiting(), (10 - turn) * MOST_SILENT);
                assert_eq!(relay.lanes.len(), MOST_SILENT);
            }
        });
    }

    /// A turn ends with the datagrams for which there is time, whoever has sent them, and the next
    /// one begins with another connection.
    #[test]
    fn datagrams_without_end_end_no_turn() {
        const LANES: usize = 40;
        const EACH: usize = 1000;
        let empty = Record::Datagram(DatagramPiece {
            destination: address::MULTICAST_QPN,
            source: 7,
            qkey: 3,
            slid: 0,
            service_level: 0,
            global: Some(GlobalRoute {
                gid: [0xff; 16],
                ..GlobalRoute::default()
            }),
            marks: Marks::FIRST | Marks::LAST,
            total: 0,
            immediate: 0,
            payload: 0,
        });
        let peers = Peers::default();
        peers.come([PortId::new(0, 2000); LANES]);
        peers.say([greeting().to_vec(), empty.encode().repeat(EACH)].concat());
        peers.play(|queue| {
            let mut relay = Relay::default();
            relay.serve(0, queue, (), 0);
            let total = || peers.received().iter().sum::<usize>();
            let mut before = total();
            assert_eq!(before, LANES * GREETING_BYTES);
            for turn in 1.. {
                let has_more = relay.serve(0, queue, (), 0);
                let taken = total() - before;
                assert!(taken <= TURN_DATAGRAMS * HEADER_BYTES + MOST_BYTES);
                before += taken;
                // After a turn for each, each has had one.
                let is_served = |bytes: &usize| *bytes > GREETING_BYTES;
                assert!(turn < LANES || peers.received().iter().all(is_served));
                if !has_more {
                    break;
                }
            }
            let all = GREETING_BYTES + EACH * HEADER_BYTES;
            assert_eq!(peers.received(), [all; LANES]);
        });
    }

    #[test]
    fn no_node_keeps_out_another() {
        let peers = Peers::default();
        peers.come([PortId::new(0, 2000)]);
        peers.come([PortId::new(1, 9); 4 * MOST_SILENT]);
        peers.come([PortId::new(2, 9)]);
        peers.come([PortId::new(1, 9); 4 * MOST_SILENT]);
        peers.play(|queue| {
            let mut relay = Relay::default();
            while relay.serve(0, queue, (), 0) {}
            let nodes: Vec<NodeId> = relay.lanes.iter().map(|of| of.peer.node()).collect();
            assert_eq!(nodes, [0, 2, 1, 1]);
            // The newest ones are left.
            let last = relay.lanes.last().map(|of| of.endpoint.fd());
            assert_eq!(last, peers.newest());
        });
    }
}
