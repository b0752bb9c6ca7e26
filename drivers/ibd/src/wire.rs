//! What carries management datagrams between the daemons of two nodes: SCIF connections to port 61.
//!
//! A connection carries records from the node that made it to the one that accepted it. A record
//! that cannot be carried is dropped, as a datagram may be; who sent it asks again.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use hal::event::Queue;
use mad_core::frame::FRAME_BYTES;
use scif::{Endpoint, Errno, Error, Listener, NodeId, Port, PortId, raw};
use syscall::error::Result;
use syscall::flag::EventFlags;

use crate::mad::Mads;

/// The port of the daemon on each node: only root binds it.
const PORT: Port = 61;
/// Ports that only root binds: a connection from another one is not the peer's daemon's.
const PRIVILEGED: core::ops::Range<Port> = 512..1024;
/// Records that wait for a node.
const MAX_WAITING: usize = 4096;
/// Connections of peers at most.
const MAX_INCOMING: usize = 256;
/// Nanoseconds until a node that refused a connection is tried again.
const PAUSE: u64 = 50_000_000;

/// A connection to the daemon of a node.
enum Outgoing {
    /// It is being made.
    Connecting(Endpoint),
    /// It is there.
    Connected(Endpoint),
    /// It was refused: nothing is tried before this time.
    Refused(u64),
}

/// What goes to a node.
struct Link {
    outgoing: Outgoing,
    waiting: VecDeque<[u8; FRAME_BYTES]>,
    /// Bytes of the first record that were sent.
    sent: usize,
}

/// A connection from the daemon of a node.
struct Incoming {
    endpoint: Endpoint,
    node: NodeId,
    frame: [u8; FRAME_BYTES],
    received: usize,
}

/// All connections.
#[derive(Default)]
pub struct Wire {
    listener: Option<Listener>,
    links: BTreeMap<NodeId, Link>,
    incoming: Vec<Incoming>,
}

impl Wire {
    /// The SCIF driver has gone, and all connections with it.
    pub fn clear(&mut self) {
        *self = Wire::default();
    }

    /// Takes what has come, and sends what is to go. `source`: what events of connections are called
    /// in the queue.
    ///
    /// # Errors
    /// Those of the event queue.
    pub fn run<T: Copy + PartialEq>(
        &mut self,
        mads: &mut Mads,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) -> Result<()> {
        self.listen(queue, source)?;
        self.accept(queue, source)?;
        // What comes may be answered, and answers may come at once.
        loop {
            let has_come = self.receive(mads, now);
            self.post(mads, queue, source, now)?;
            self.send(mads, now);
            if !has_come {
                return Ok(());
            }
        }
    }

    /// When a node is to be tried again for which records wait.
    pub fn deadline(&self) -> Option<u64> {
        let links = self.links.values();
        let until = links.filter_map(|link| match link.outgoing {
            Outgoing::Refused(until) if !link.waiting.is_empty() => Some(until),
            _ => None,
        });
        until.min()
    }

    fn listen<T: Copy + PartialEq>(&mut self, queue: &mut Queue<T>, source: T) -> Result<()> {
        if self.listener.is_none()
            && let Ok(listener) = Listener::bind(PORT)
        {
            queue.subscribe(listener.fd(), EventFlags::EVENT_READ, source)?;
            self.listener = Some(listener);
        }
        Ok(())
    }

    fn accept<T: Copy + PartialEq>(&mut self, queue: &mut Queue<T>, source: T) -> Result<()> {
        while let Some(listener) = &self.listener
            && let Ok(Some((endpoint, peer))) = listener.try_accept()
        {
            let is_daemon = PRIVILEGED.contains(&peer.port());
            if !is_daemon || self.incoming.len() >= MAX_INCOMING {
                log::warn!("refused a connection of {}/{}", peer.node(), peer.port());
                continue;
            }
            queue.subscribe(endpoint.fd(), EventFlags::EVENT_READ, source)?;
            self.incoming.push(Incoming {
                endpoint,
                node: peer.node(),
                frame: [0; FRAME_BYTES],
                received: 0,
            });
        }
        Ok(())
    }

    /// Takes the records that have come; whether there were any.
    fn receive(&mut self, mads: &mut Mads, now: u64) -> bool {
        let mut has_come = false;
        self.incoming.retain_mut(|incoming| {
            // A peer that sends without end must not keep the others waiting.
            for _ in 0..64 {
                let room = &mut incoming.frame[incoming.received..];
                match raw::recv(incoming.endpoint.fd(), room, 0) {
                    Ok(0) => return true,
                    Ok(count) => incoming.received += count,
                    Err(_) => return false,
                }
                if incoming.received == FRAME_BYTES {
                    incoming.received = 0;
                    has_come = true;
                    if !mads.receive(incoming.node, &incoming.frame, now) {
                        log::warn!("node {} sends what is no record", incoming.node);
                        return false;
                    }
                }
            }
            has_come = true;
            true
        });
        has_come
    }

    /// Puts records to where they go.
    fn post<T: Copy + PartialEq>(
        &mut self,
        mads: &mut Mads,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) -> Result<()> {
        while let Some((node, frame)) = mads.next_frame() {
            let link = self.links.entry(node).or_insert_with(|| Link {
                outgoing: Outgoing::Refused(0),
                waiting: VecDeque::new(),
                sent: 0,
            });
            if link.waiting.len() >= MAX_WAITING {
                mads.count_discarded();
                continue;
            }
            link.waiting.push_back(frame);
        }
        for (node, link) in &mut self.links {
            if let Outgoing::Refused(until) = link.outgoing
                && until <= now
                && !link.waiting.is_empty()
            {
                link.outgoing = match connect(*node) {
                    Some((endpoint, is_connected)) => {
                        let events = EventFlags::EVENT_READ | EventFlags::EVENT_WRITE;
                        queue.subscribe(endpoint.fd(), events, source)?;
                        match is_connected {
                            true => Outgoing::Connected(endpoint),
                            false => Outgoing::Connecting(endpoint),
                        }
                    }
                    None => Outgoing::Refused(now + PAUSE),
                };
            }
        }
        Ok(())
    }

    fn send(&mut self, mads: &mut Mads, now: u64) {
        for (node, link) in &mut self.links {
            if let Outgoing::Connecting(endpoint) = &link.outgoing {
                let result = endpoint.connect(PortId::new(*node, PORT));
                let is_refused = match result {
                    Ok(_) | Err(Error::Scif(Errno::IsConnected)) => false,
                    Err(Error::Scif(Errno::InProgress)) => continue,
                    Err(_) => true,
                };
                let outgoing = core::mem::replace(&mut link.outgoing, Outgoing::Refused(now));
                link.outgoing = match outgoing {
                    Outgoing::Connecting(endpoint) if !is_refused => Outgoing::Connected(endpoint),
                    _ => Outgoing::Refused(now + PAUSE),
                };
            }
            if let Outgoing::Connected(endpoint) = &link.outgoing
                && !flush(endpoint, &mut link.waiting, &mut link.sent)
            {
                // A record of which a part has gone is lost with the connection.
                if core::mem::take(&mut link.sent) > 0 {
                    link.waiting.pop_front();
                    mads.count_discarded();
                }
                link.outgoing = Outgoing::Refused(now + PAUSE);
            }
        }
    }
}

/// A connection to a node's daemon, and whether it is there already.
fn connect(node: NodeId) -> Option<(Endpoint, bool)> {
    let endpoint = Endpoint::open().ok()?;
    PRIVILEGED.rev().find(|port| endpoint.bind(*port).is_ok())?;
    endpoint.set_nonblocking(true).ok()?;
    match endpoint.connect(PortId::new(node, PORT)) {
        Ok(_) => Some((endpoint, true)),
        Err(Error::Scif(Errno::InProgress)) => Some((endpoint, false)),
        Err(_) => None,
    }
}

/// Sends what there is room for; whether the connection is still there.
fn flush(endpoint: &Endpoint, waiting: &mut VecDeque<[u8; FRAME_BYTES]>, sent: &mut usize) -> bool {
    while let Some(frame) = waiting.front() {
        match raw::send(endpoint.fd(), &frame[*sent..], 0) {
            Ok(0) => return true,
            Ok(count) => *sent += count,
            Err(_) => return false,
        }
        if *sent == FRAME_BYTES {
            *sent = 0;
            waiting.pop_front();
        }
    }
    true
}
