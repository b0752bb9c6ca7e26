//! Transport of management datagrams between the daemons of two nodes, over SCIF connections to
//! port 61.
//!
//! A connection carries records from the node that made it to the node that accepted it. A record
//! that cannot be sent is dropped, as a datagram may be; its sender asks again.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use hal::event::Queue;
use mad_core::frame::FRAME_BYTES;
use scif::{Endpoint, Errno, Error, NodeId, Port, PortId, raw};
use syscall::flag::EventFlags;

use crate::listening::Listening;
use crate::mad::Mads;
use crate::shares::surplus_of_node;

/// The port of the daemon on each node, which only root can bind.
const PORT: Port = 61;
/// Most records that wait for a node.
const MAX_WAITING: usize = 4096;
/// Most connections that are accepted before other work has its turn.
const MOST_ACCEPTED: usize = 64;
/// Nanoseconds until a connection to a node that refused one is tried again.
const PAUSE: u64 = 50_000_000;

/// A connection to the daemon of a node.
enum Outgoing {
    /// It is being made.
    Connecting(Endpoint),
    /// It exists.
    Connected(Endpoint),
    /// It was refused or has ended, and is not tried again before this time, in nanoseconds.
    Refused(u64),
}

/// The connection to a node.
struct Link {
    outgoing: Outgoing,
    waiting: VecDeque<[u8; FRAME_BYTES]>,
    /// Bytes of the first waiting record that were sent.
    sent: usize,
}

/// A connection from the daemon of a node.
struct Incoming {
    endpoint: Endpoint,
    node: NodeId,
    frame: [u8; FRAME_BYTES],
    received: usize,
}

/// The connections to and from the daemons of other nodes.
#[derive(Default)]
pub struct Wire {
    listening: Listening<PORT>,
    links: BTreeMap<NodeId, Link>,
    incoming: Vec<Incoming>,
    /// Bytes sent and received since the start.
    carried: [u64; 2],
}

impl Wire {
    /// Drops all connections, which have ended with the SCIF driver.
    pub fn clear(&mut self) {
        *self = Wire {
            carried: self.carried,
            ..Wire::default()
        };
    }

    /// Bytes sent and bytes received since the start.
    pub fn carried(&self) -> [u64; 2] {
        self.carried
    }

    /// Accepts connections and receives records, after an event. Returns whether more may be
    /// there. `source` names events of connections in the event queue.
    pub fn take<T: Copy + PartialEq>(
        &mut self,
        mads: &mut Mads,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) -> bool {
        self.listening.bind(queue, source, now);
        let others_wait = self.accept(queue, source, now);
        self.receive(mads, now) || others_wait
    }

    /// Sends the records for other nodes.
    pub fn give<T: Copy + PartialEq>(
        &mut self,
        mads: &mut Mads,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) {
        self.post(mads);
        for (node, link) in &mut self.links {
            if !link.waiting.is_empty() {
                link.connect(*node, queue, source, now);
                self.carried[0] += link.send(*node, mads, now);
            }
        }
    }

    /// When to bind the port again, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.listening.deadline()
    }

    /// Accepts connections. Returns whether more may wait.
    fn accept<T: Copy + PartialEq>(&mut self, queue: &mut Queue<T>, source: T, now: u64) -> bool {
        let events = EventFlags::EVENT_READ;
        for _ in 0..MOST_ACCEPTED {
            let accepted = self.listening.accept((queue, source), events, now);
            let Some((endpoint, peer)) = accepted else {
                return false;
            };
            // A daemon's port is root's, so a connection by another user is none of a daemon.
            if !peer.is_of_root() {
                log::debug!("refused a connection of {}/{}", peer.node(), peer.port());
                continue;
            }
            let nodes = self.incoming.iter().map(|incoming| incoming.node);
            if let Some(oldest) = surplus_of_node(nodes, peer.node()) {
                self.incoming.remove(oldest);
            }
            self.incoming.push(Incoming {
                endpoint,
                node: peer.node(),
                frame: [0; FRAME_BYTES],
                received: 0,
            });
        }
        true
    }

    /// Receives records. Returns whether more may be there.
    fn receive(&mut self, mads: &mut Mads, now: u64) -> bool {
        let mut has_more = false;
        let received = &mut self.carried[1];
        self.incoming.retain_mut(|incoming| {
            // A peer that sends without end must not keep the others waiting.
            for _ in 0..64 {
                let room = &mut incoming.frame[incoming.received..];
                match raw::recv(incoming.endpoint.fd(), room, 0) {
                    Ok(0) => return true,
                    Ok(count) => {
                        incoming.received += count;
                        *received += count as u64;
                    }
                    Err(_) => return false,
                }
                if incoming.received == FRAME_BYTES {
                    incoming.received = 0;
                    if !mads.receive(incoming.node, &incoming.frame, now) {
                        // A node may do so with each connection, and must not fill the log.
                        log::debug!("node {} sends what is no record", incoming.node);
                        return false;
                    }
                }
            }
            has_more = true;
            true
        });
        has_more
    }

    /// Queues each record for its node.
    fn post(&mut self, mads: &mut Mads) {
        while let Some((node, frame)) = mads.next_frame() {
            let link = self.links.entry(node).or_insert_with(|| Link {
                outgoing: Outgoing::Refused(0),
                waiting: VecDeque::new(),
                sent: 0,
            });
            match link.waiting.len() < MAX_WAITING {
                true => link.waiting.push_back(frame),
                false => mads.count_discarded(),
            }
        }
    }
}

impl Link {
    /// Makes a connection, or finds out whether one has been established.
    fn connect<T: Copy + PartialEq>(
        &mut self,
        node: NodeId,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) {
        let failed = Outgoing::Refused(now + PAUSE);
        self.outgoing = match core::mem::replace(&mut self.outgoing, failed) {
            Outgoing::Refused(until) if until <= now => {
                let Some((endpoint, is_connected)) = connect(node) else {
                    return;
                };
                let events = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
                if queue.subscribe(endpoint.fd(), events, source).is_err() {
                    return;
                }
                match is_connected {
                    true => Outgoing::Connected(endpoint),
                    false => Outgoing::Connecting(endpoint),
                }
            }
            Outgoing::Connecting(endpoint) => match endpoint.connect(PortId::new(node, PORT)) {
                Ok(_) | Err(Error::Scif(Errno::IsConnected)) => Outgoing::Connected(endpoint),
                Err(Error::Scif(Errno::InProgress)) => Outgoing::Connecting(endpoint),
                Err(_) => return,
            },
            outgoing => outgoing,
        };
    }

    /// Sends what there is room for. Returns the number of bytes that were sent.
    fn send(&mut self, node: NodeId, mads: &mut Mads, now: u64) -> u64 {
        let mut gone = 0;
        if let Outgoing::Connected(endpoint) = &self.outgoing
            && !flush(endpoint, &mut self.waiting, &mut self.sent, &mut gone)
        {
            // A record of which a part was sent is lost with the connection.
            if core::mem::take(&mut self.sent) > 0 {
                self.waiting.pop_front();
                mads.count_discarded();
            }
            log::info!("connection to node {node} ended");
            self.outgoing = Outgoing::Refused(now + PAUSE);
        }
        if let Outgoing::Refused(_) = self.outgoing {
            for _ in self.waiting.drain(..) {
                mads.count_discarded();
            }
        }
        gone
    }
}

/// Makes a connection to a node's daemon. Returns whether it is established already.
fn connect(node: NodeId) -> Option<(Endpoint, bool)> {
    let endpoint = Endpoint::open().ok()?;
    endpoint.bind_as_root().ok()?;
    endpoint.set_nonblocking(true).ok()?;
    match endpoint.connect(PortId::new(node, PORT)) {
        Ok(_) => Some((endpoint, true)),
        Err(Error::Scif(Errno::InProgress)) => Some((endpoint, false)),
        Err(_) => None,
    }
}

/// Sends what there is room for. Returns whether the connection still exists. `gone` counts the
/// bytes.
fn flush(
    endpoint: &Endpoint,
    waiting: &mut VecDeque<[u8; FRAME_BYTES]>,
    sent: &mut usize,
    gone: &mut u64,
) -> bool {
    while let Some(frame) = waiting.front() {
        match raw::send(endpoint.fd(), &frame[*sent..], 0) {
            Ok(0) => return true,
            Ok(count) => {
                *sent += count;
                *gone += count as u64;
            }
            Err(_) => return false,
        }
        if *sent == FRAME_BYTES {
            *sent = 0;
            waiting.pop_front();
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::peers::Peers;

    #[test]
    fn a_peer_that_connects_without_end_ends_no_turn() {
        let user = PortId::new(1, 2000);
        let peers = Peers::default();
        peers.come([user; 10 * MOST_ACCEPTED]);
        peers.play(|queue| {
            let mut wire = Wire::default();
            for turn in 1..=3 {
                let has_more = wire.take(&mut Mads::default(), queue, (), 0);
                assert!(has_more, "others wait");
                assert_eq!(peers.waiting(), (10 - turn) * MOST_ACCEPTED);
                assert_eq!(wire.incoming.len(), 0);
            }
        });
    }

    #[test]
    fn no_node_keeps_out_another() {
        let peers = Peers::default();
        peers.come([PortId::new(1, 9); 400]);
        peers.come((2..=128).map(|node| PortId::new(node, 9)));
        peers.come([PortId::new(1, 9); 3]);
        peers.play(|queue| {
            let mut wire = Wire::default();
            while wire.take(&mut Mads::default(), queue, (), 0) {}
            let nodes: Vec<NodeId> = wire.incoming.iter().map(|of| of.node).collect();
            let expected: Vec<NodeId> = (2..=128).chain([1, 1]).collect();
            assert_eq!(nodes, expected);
            // The newest ones are left.
            let last = wire.incoming.last().map(|of| of.endpoint.fd());
            assert_eq!(last, peers.newest());
        });
    }
}
