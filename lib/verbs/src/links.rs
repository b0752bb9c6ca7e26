//! How lanes are made: listeners, connections in the making, and which queue pair needs which
//! lane.
//!
//! The number of a queue pair is the SCIF port of a listener of its protection domain, and an
//! index: so the number and the node tell a peer where to connect. A lane connects two such
//! listeners, and so two protection domains. The one with the smaller address connects, and says
//! in its first bytes which listener it belongs to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use scif::{Endpoint, Errno, Listener, NodeId, Port, PortId, RecvFlags, SendFlags};
use syscall::error::ENODEV;
use verbs_core::host::LaneId;
use verbs_core::table::Id;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};
use crate::shares::surplus;

/// Bits of a queue pair's number that are the index.
const INDEX_BITS: u32 = 8;
/// Most queue pairs of a listener.
const INDICES: u32 = 1 << INDEX_BITS;
/// The first four bytes of a lane.
const MAGIC: u32 = u32::from_le_bytes(*b"VRBS");
const VERSION: u32 = 2;
/// Most accepted connections whose peers have not said what they are for, and most that a listener
/// accepts before others have their turn.
const MOST_SILENT: usize = 128;
/// Pauses between attempts to connect, in nanoseconds: the first, and the longest.
const FIRST_PAUSE: u64 = 5_000_000;
const LONGEST_PAUSE: u64 = 500_000_000;

/// The greeting: the first bytes of a lane.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Hello {
    magic: u32,
    version: u32,
    /// The ports of the listeners: of the end that connects, and of the end that accepts.
    from: u32,
    to: u32,
}

/// The length of a greeting.
pub const HELLO_BYTES: usize = size_of::<Hello>();

/// The greeting on a lane from one listener to another.
pub fn hello(from: Port, to: Port) -> [u8; HELLO_BYTES] {
    zerocopy::transmute!(Hello {
        magic: MAGIC.to_le(),
        version: VERSION.to_le(),
        from: u32::from(from).to_le(),
        to: u32::from(to).to_le(),
    })
}

/// In place of this end's port: the lane is for datagrams, and belongs to no protection domain.
pub const DATAGRAMS: Port = 0;

/// A lane, by the two protection domains or programs that it connects.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The port of this end's listener; 0 for datagrams.
    pub own: Port,
    /// The peer's node.
    pub node: NodeId,
    /// The port of the peer's listener.
    pub peer: Port,
}

impl Key {
    /// The lane from a queue pair of this context to another one.
    pub fn new(own: u32, node: NodeId, peer: u32) -> Key {
        Key {
            own: (own >> INDEX_BITS) as Port,
            node,
            peer: (peer >> INDEX_BITS) as Port,
        }
    }

    /// The lane for datagrams to a queue pair.
    pub fn datagrams(node: NodeId, peer: u32) -> Key {
        Key {
            own: DATAGRAMS,
            node,
            peer: (peer >> INDEX_BITS) as Port,
        }
    }

    /// Whether it is a lane for datagrams.
    pub fn is_for_datagrams(self) -> bool {
        self.own == DATAGRAMS
    }

    /// Whether this end, on the node `node`, is the one that connects.
    pub fn connects(self, node: NodeId) -> bool {
        match self.is_for_datagrams() {
            // On a lane that a peer has made, the peer's port is not known.
            true => self.peer != 0,
            false => (node, self.own) < (self.node, self.peer),
        }
    }
}

/// A listener of a protection domain.
pub struct Listening {
    /// `None`: the owner has chosen the port, and it cannot be bound yet, because there is no SCIF
    /// driver.
    pub listener: Option<Listener>,
    pub port: Port,
    /// The owner of the context has chosen the port. It is bound again when there is a driver
    /// again.
    is_given: bool,
    pub pd: Id,
    /// Indices that are in use.
    used: BTreeSet<u32>,
    next: u32,
    /// The event queue of the engine's owner has it.
    pub is_watched: bool,
    /// The driver has died, and no peer can reach the listener any more.
    is_dead: bool,
}

/// A connection that is being made.
pub enum Pending {
    /// It is to be made at this time, in nanoseconds.
    Wanted { key: Key, at: u64, pause: u64 },
    /// It is being connected.
    Connecting {
        key: Key,
        endpoint: Endpoint,
        pause: u64,
        is_watched: bool,
    },
    /// It was accepted, and the peer has to say what it is for.
    Accepted {
        own: Port,
        peer: PortId,
        endpoint: Endpoint,
        hello: Vec<u8>,
        is_watched: bool,
    },
}

/// A connection that has been made, or cannot be made.
pub enum Established {
    /// A lane of a protection domain.
    Domain(Key, Id, Endpoint),
    /// A lane for datagrams.
    Datagrams(Key, Endpoint),
    /// A lane for datagrams cannot be made.
    Nothing(Key),
}

/// What an event of an event queue is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watched {
    /// A lane, which may have records.
    Lane,
    /// A listener or a connection in the making, which may have news for [`Links::advance`].
    Link,
}

/// The listeners of a context, and its connections in the making.
pub struct Links {
    pub node: NodeId,
    pub listeners: Vec<Listening>,
    pub pending: Vec<Pending>,
    pub lanes: BTreeMap<Key, LaneId>,
    /// The lane that each queue pair needs or has, by the queue pair's number.
    pub wants: BTreeMap<u32, Key>,
    /// When to accept again after an accept that has failed, or after as many as there may be in a
    /// turn, in nanoseconds: others may wait behind it.
    accept_at: Option<u64>,
}

impl Links {
    pub fn new(node: NodeId) -> Links {
        Links {
            node,
            listeners: Vec::new(),
            pending: Vec::new(),
            lanes: BTreeMap::new(),
            wants: BTreeMap::new(),
            accept_at: None,
        }
    }

    // ---- Numbers ----

    /// Takes a number for a queue pair of a protection domain, at a listener on any port.
    ///
    /// # Errors
    /// Those of making a listener.
    pub fn take_number(&mut self, pd: Id) -> Result<u32> {
        if let Some(number) = self.find_number(pd) {
            return Ok(number);
        }
        let listener = Listener::bind(0)?;
        let port = listener.port()?;
        // A driver that follows a dead one gives the same ports again: queue pairs whose lanes
        // have ended with the dead one keep their numbers until they are destroyed.
        let same = self.listeners.iter().filter(|of| of.port == port);
        let used = same.flat_map(|of| of.used.iter().copied()).collect();
        self.listeners.push(Listening {
            used,
            ..Listening::new(Some(listener), port, pd)
        });
        self.find_number(pd).ok_or(Error::NoMemory)
    }

    /// Takes a number at a listener that exists; `None`: another one is needed.
    pub fn find_number(&mut self, pd: Id) -> Option<u32> {
        let mut listeners = self.listeners.iter_mut();
        let of = listeners.find(|of| of.pd == pd && of.has_room());
        of.and_then(Listening::take_index)
    }

    /// Adds a listener on a port that no other program binds.
    pub fn listen_at(&mut self, port: Port, pd: Id) {
        self.listeners.push(Listening::new(None, port, pd));
    }

    /// Takes back [`listen_at`](Self::listen_at), if no queue pair has a number at the port.
    pub fn unlisten(&mut self, port: Port) {
        self.listeners
            .retain(|of| of.port != port || !of.used.is_empty());
    }

    /// Whether a queue pair has a number of a protection domain's listeners.
    pub fn is_used(&self, pd: Id) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|of| of.pd == pd && !of.used.is_empty())
    }

    /// Gives back the number of a queue pair.
    pub fn give_back(&mut self, number: u32) {
        self.wants.remove(&number);
        let port = (number >> INDEX_BITS) as Port;
        for listening in self.listeners.iter_mut().filter(|of| of.port == port) {
            listening.used.remove(&(number % INDICES));
        }
    }

    /// The listener that peers reach at a port.
    fn listening(&mut self, port: Port) -> Option<&mut Listening> {
        let mut alive = self.listeners.iter_mut().filter(|of| !of.is_over());
        alive.find(|of| of.port == port)
    }

    /// The protection domain of a listener.
    pub fn domain(&mut self, port: Port) -> Option<Id> {
        self.listening(port).map(|of| of.pd)
    }

    /// Ends the listeners of a protection domain, and what belongs to them, except existing lanes.
    pub fn close(&mut self, pd: Id) {
        let of = self.listeners.iter().filter(|of| of.pd == pd);
        let ports: Vec<Port> = of.map(|of| of.port).collect();
        self.listeners.retain(|of| of.pd != pd);
        self.pending.retain(|pending| match pending {
            Pending::Wanted { key, .. } | Pending::Connecting { key, .. } => {
                !ports.contains(&key.own)
            }
            Pending::Accepted { own, .. } => !ports.contains(own),
        });
        self.lanes.retain(|key, _| !ports.contains(&key.own));
    }

    // ---- Lanes ----

    /// Notes that a queue pair needs a lane. If there is one, or one within the context can be
    /// made, the caller does the rest. Otherwise a connection is made: by this end from the time
    /// `at` on, or by the peer.
    pub fn want(&mut self, number: u32, key: Key, at: u64) {
        self.wants.insert(number, key);
        let is_local = key.node == self.node && self.listening(key.peer).is_some();
        if is_local || self.lanes.contains_key(&key) || !key.connects(self.node) {
            return;
        }
        let is_its = |pending: &Pending| match pending {
            Pending::Wanted { key: of, .. } | Pending::Connecting { key: of, .. } => *of == key,
            Pending::Accepted { .. } => false,
        };
        if !self.pending.iter().any(is_its) {
            self.want_at(key, at);
        }
    }

    fn want_at(&mut self, key: Key, at: u64) {
        self.pending.push(Pending::Wanted {
            key,
            at,
            pause: FIRST_PAUSE,
        });
    }

    /// The queue pairs that need or have this lane.
    pub fn wanting(&self, key: Key) -> Vec<u32> {
        let of = self.wants.iter().filter(|(_, wanted)| **wanted == key);
        of.map(|(number, _)| *number).collect()
    }

    /// Whether a queue pair needs or has this lane.
    pub fn has_user(&self, key: Key) -> bool {
        self.wants.values().any(|wanted| *wanted == key)
    }

    /// When to connect or accept without an event, in nanoseconds.
    pub fn next_try(&self) -> Option<u64> {
        let times = self.pending.iter().filter_map(|pending| match pending {
            Pending::Wanted { at, .. } => Some(*at),
            _ => None,
        });
        times.chain(self.accept_at).min()
    }

    /// Whether there is work that no event reports: the time of an attempt has come, or an event
    /// queue does not have all listeners and connections.
    pub fn has_to_do(&self, now: u64) -> bool {
        let is_unwatched = |pending: &Pending| match pending {
            Pending::Wanted { .. } => false,
            Pending::Connecting { is_watched, .. } | Pending::Accepted { is_watched, .. } => {
                !is_watched
            }
        };
        self.next_try().is_some_and(|at| at <= now)
            || self.listeners.iter().any(|of| !of.is_watched)
            || self.pending.iter().any(is_unwatched)
    }

    /// Whether a listener is still to be bound.
    pub fn has_unbound(&self) -> bool {
        self.listeners.iter().any(Listening::is_unbound)
    }

    /// Begins to make a lane for datagrams.
    pub fn want_datagrams(&mut self, key: Key) {
        self.want_at(key, 0);
    }

    /// Whether a listener of this context has this port.
    pub fn is_own(&self, node: NodeId, port: Port) -> bool {
        let is_it = |of: &Listening| of.port == port && !of.is_over();
        node == self.node && self.listeners.iter().any(is_it)
    }

    /// Advances all connections. Returns those that have become lanes, or cannot become one.
    pub fn advance(&mut self, now: u64) -> Vec<Established> {
        self.accept(now);
        let mut made = Vec::new();
        for pending in core::mem::take(&mut self.pending) {
            match self.step(pending, now) {
                Step::Established(key, endpoint) if key.is_for_datagrams() => {
                    made.push(Established::Datagrams(key, endpoint));
                }
                Step::Established(key, endpoint) => {
                    if let Some(pd) = self.domain(key.own) {
                        made.push(Established::Domain(key, pd, endpoint));
                    }
                }
                Step::Later(Pending::Wanted { key, .. }) if key.is_for_datagrams() => {
                    made.push(Established::Nothing(key));
                }
                Step::Later(pending) => self.pending.push(pending),
                Step::Over => {}
            }
        }
        made
    }

    fn accept(&mut self, now: u64) {
        let mut again = None;
        for listening in &mut self.listeners {
            listening.bind();
            let mut accepted = 0;
            while let Some(listener) = &listening.listener {
                // A peer that connects without end must not keep this thread here.
                if accepted == MOST_SILENT {
                    again = Some(now);
                    break;
                }
                let (endpoint, peer) = match listener.try_accept() {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    Err(error) => {
                        match error.errno() {
                            // The lanes report the death of the driver.
                            ENODEV => listening.is_dead = true,
                            // Too many descriptors, or no memory.
                            _ => again = again.or(Some(now.saturating_add(FIRST_PAUSE))),
                        }
                        break;
                    }
                };
                accepted += 1;
                self.pending.push(Pending::Accepted {
                    own: listening.port,
                    peer,
                    endpoint,
                    hello: Vec::new(),
                    is_watched: false,
                });
            }
            bound_silent(&mut self.pending);
        }
        self.accept_at = again;
    }

    fn step(&self, pending: Pending, now: u64) -> Step {
        match pending {
            Pending::Wanted { key, .. } if !self.is_wanted(key) => Step::Over,
            Pending::Wanted { at, .. } if now < at => Step::Later(pending),
            Pending::Wanted { key, pause, .. } => {
                let endpoint = Endpoint::open().and_then(|endpoint| {
                    endpoint.set_nonblocking(true)?;
                    Ok(endpoint)
                });
                match endpoint {
                    Ok(endpoint) => self.connect(key, endpoint, pause, false, now),
                    Err(_) => again(key, pause, now),
                }
            }
            Pending::Connecting {
                key,
                endpoint,
                pause,
                is_watched,
            } => self.connect(key, endpoint, pause, is_watched, now),
            Pending::Accepted {
                own,
                peer,
                endpoint,
                mut hello,
                is_watched,
            } => {
                let mut bytes = [0; size_of::<Hello>()];
                let rest = size_of::<Hello>() - hello.len();
                let buffer = bytes.get_mut(..rest).unwrap_or_default();
                match endpoint.recv(buffer, RecvFlags::empty()) {
                    Ok(count) => hello.extend_from_slice(bytes.get(..count).unwrap_or_default()),
                    Err(_) => return Step::Over,
                }
                if hello.len() == size_of::<Hello>() {
                    return match self.greeted(own, peer, &hello) {
                        Some(key) => Step::Established(key, endpoint),
                        None => Step::Over,
                    };
                }
                Step::Later(Pending::Accepted {
                    own,
                    peer,
                    endpoint,
                    hello,
                    is_watched,
                })
            }
        }
    }

    fn is_wanted(&self, key: Key) -> bool {
        key.is_for_datagrams() || self.has_user(key)
    }

    fn connect(
        &self,
        key: Key,
        endpoint: Endpoint,
        pause: u64,
        is_watched: bool,
        now: u64,
    ) -> Step {
        match endpoint.connect(PortId::new(key.node, key.peer)) {
            Ok(_) => {}
            Err(scif::Error::Scif(Errno::InProgress)) => {
                return Step::Later(Pending::Connecting {
                    key,
                    endpoint,
                    pause,
                    is_watched,
                });
            }
            Err(_) => return again(key, pause, now),
        }
        // A new connection has room for the greeting.
        match endpoint.send(&hello(key.own, key.peer), SendFlags::empty()) {
            Ok(HELLO_BYTES) => Step::Established(key, endpoint),
            _ => again(key, pause, now),
        }
    }

    /// The lane that a peer has made; `None`: its first bytes are no valid greeting.
    fn greeted(&self, own: Port, peer: PortId, bytes: &[u8]) -> Option<Key> {
        let mut hello = Hello::new_zeroed();
        hello.as_mut_bytes().copy_from_slice(bytes);
        let is_right = u32::from_le(hello.magic) == MAGIC
            && u32::from_le(hello.version) == VERSION
            && u32::from_le(hello.to) == u32::from(own);
        let from = Port::try_from(u32::from_le(hello.from)).ok()?;
        let key = Key {
            own: if from == DATAGRAMS { DATAGRAMS } else { own },
            node: peer.node(),
            peer: from,
        };
        let is_its_turn = !key.connects(self.node) && (key.node, key.peer) != (self.node, own);
        (is_right && (key.is_for_datagrams() || is_its_turn)).then_some(key)
    }
}

/// Ends connections without a greeting, the oldest of the node with most: they must not keep out
/// those that send one.
fn bound_silent(pending: &mut Vec<Pending>) {
    loop {
        let silent = pending.iter().enumerate().filter_map(|(at, of)| match of {
            Pending::Accepted { peer, .. } => Some((at, peer.node())),
            _ => None,
        });
        let (places, nodes): (Vec<usize>, Vec<NodeId>) = silent.unzip();
        let over = surplus(&nodes).filter(|_| nodes.len() > MOST_SILENT);
        match over.and_then(|at| places.get(at)) {
            Some(at) => drop(pending.remove(*at)),
            None => return,
        }
    }
}

/// The result of a step of a connection in the making.
enum Step {
    /// It is a lane now.
    Established(Key, Endpoint),
    /// It is not finished.
    Later(Pending),
    /// No queue pair needs it, or the peer has gone.
    Over,
}

fn again(key: Key, pause: u64, now: u64) -> Step {
    Step::Later(Pending::Wanted {
        key,
        at: now.saturating_add(pause),
        pause: (2 * pause).min(LONGEST_PAUSE),
    })
}

impl Listening {
    fn new(listener: Option<Listener>, port: Port, pd: Id) -> Listening {
        Listening {
            is_given: listener.is_none(),
            listener,
            port,
            pd,
            used: BTreeSet::new(),
            next: 0,
            is_watched: false,
            is_dead: false,
        }
    }

    fn has_room(&self) -> bool {
        !self.is_over() && self.used.len() < INDICES as usize
    }

    /// Whether no peer can reach it any more.
    fn is_over(&self) -> bool {
        self.is_dead && !self.is_given
    }

    /// Whether its port was chosen, and still has to be bound.
    fn is_unbound(&self) -> bool {
        self.is_given && (self.is_dead || self.listener.is_none())
    }

    /// Binds a chosen port, if that was not done, or if the driver has died since then.
    fn bind(&mut self) {
        if self.is_unbound() {
            // The listener of the former driver is useless. An error means that there is no driver
            // yet.
            self.listener = Listener::bind(self.port).ok();
            (self.is_dead, self.is_watched) = (false, false);
        }
    }

    fn take_index(&mut self) -> Option<u32> {
        let (next, used) = (self.next, &self.used);
        let mut indices = (0..INDICES).map(|ahead| (next + ahead) % INDICES);
        let index = indices.find(|index| !used.contains(index))?;
        self.used.insert(index);
        self.next = index + 1;
        Some((u32::from(self.port) << INDEX_BITS) | index)
    }
}

#[cfg(test)]
mod tests;
