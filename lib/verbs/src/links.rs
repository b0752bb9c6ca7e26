//! How lanes come about: listeners, connections in the making, and which queue pair wants which
//! lane.
//!
//! The number of a queue pair is the SCIF port of a listener of its protection domain, and an
//! index: the number and the node tell a peer where to connect. A lane is between two such
//! listeners, so between two protection domains; the one with the smaller address connects, and
//! says in its first bytes which listener it belongs to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use scif::{Endpoint, Errno, Listener, NodeId, Port, PortId, RecvFlags, SendFlags};
use syscall::error::ENODEV;
use verbs_core::host::LaneId;
use verbs_core::table::Id;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::error::{Error, Result};

/// Bits of a queue pair's number that are the index.
const INDEX_BITS: u32 = 8;
/// Queue pairs of a listener.
const INDICES: u32 = 1 << INDEX_BITS;
/// The first four bytes of a lane.
const MAGIC: u32 = u32::from_le_bytes(*b"VRBS");
const VERSION: u32 = 2;
/// Connections at most whose peers have said nothing.
const MOST_SILENT: usize = 128;
/// Pauses between tries to connect, in nanoseconds: the first, and the longest.
const FIRST_PAUSE: u64 = 5_000_000;
const LONGEST_PAUSE: u64 = 500_000_000;

/// The first bytes of a lane.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
#[repr(C)]
struct Hello {
    magic: u32,
    version: u32,
    /// The ports of the listeners, of whom connects and of whom accepts.
    from: u32,
    to: u32,
}

/// Its bytes.
pub const HELLO_BYTES: usize = size_of::<Hello>();

/// The first bytes of a lane from one listener to another.
pub fn hello(from: Port, to: Port) -> [u8; HELLO_BYTES] {
    zerocopy::transmute!(Hello {
        magic: MAGIC.to_le(),
        version: VERSION.to_le(),
        from: u32::from(from).to_le(),
        to: u32::from(to).to_le(),
    })
}

/// The own port of a lane for datagrams, which belongs to no protection domain.
pub const DATAGRAMS: Port = 0;

/// The two protection domains, or programs, that a lane joins.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Key {
    /// The port of the own listener; 0 for datagrams.
    pub own: Port,
    /// The peer's node.
    pub node: NodeId,
    /// The port of its listener.
    pub peer: Port,
}

impl Key {
    /// The lane of an own queue pair to another one.
    pub fn new(own: u32, node: NodeId, peer: u32) -> Key {
        Key {
            own: (own >> INDEX_BITS) as Port,
            node,
            peer: (peer >> INDEX_BITS) as Port,
        }
    }

    /// The lane of datagrams to a queue pair.
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

    /// Whether the own end connects.
    pub fn connects(self, node: NodeId) -> bool {
        match self.is_for_datagrams() {
            // That of a peer that has connected does not say the peer's port.
            true => self.peer != 0,
            false => (node, self.own) < (self.node, self.peer),
        }
    }
}

/// A listener of a protection domain.
pub struct Listening {
    /// `None`: the port is given and cannot be bound yet, as the SCIF driver is not there.
    pub listener: Option<Listener>,
    pub port: Port,
    /// The owner of the context has chosen the port: it is bound again when the driver is there
    /// again.
    is_given: bool,
    pub pd: Id,
    /// Indices of queue pairs.
    used: BTreeSet<u32>,
    next: u32,
    /// The event queue of the progress thread has it.
    pub is_watched: bool,
    /// The driver has died, and nobody reaches the listener any more.
    is_dead: bool,
}

/// A connection in the making.
pub enum Pending {
    /// It is to be made at this time.
    Wanted { key: Key, at: u64, pause: u64 },
    /// It is being made.
    Connecting {
        key: Key,
        endpoint: Endpoint,
        pause: u64,
        is_watched: bool,
    },
    /// The peer is to say what it is for.
    Accepted {
        own: Port,
        peer: PortId,
        endpoint: Endpoint,
        hello: Vec<u8>,
        is_watched: bool,
    },
}

/// The state of a connection.
pub enum Established {
    /// A lane of a protection domain.
    Domain(Key, Id, Endpoint),
    /// A lane for datagrams.
    Datagrams(Key, Endpoint),
    /// One for datagrams cannot be made.
    Nothing(Key),
}

/// What an event queue reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Watched {
    /// Something of a lane: it is to be looked for records.
    Lane,
    /// Something of a listener or of a connection in the making, which are to be moved on.
    Link,
}

/// See the module.
pub struct Links {
    pub node: NodeId,
    pub listeners: Vec<Listening>,
    pub pending: Vec<Pending>,
    pub lanes: BTreeMap<Key, LaneId>,
    /// Lanes that queue pairs want or have, by number.
    pub wants: BTreeMap<u32, Key>,
    /// When to accept again, after an accept that has failed: others may wait behind it.
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

    /// A number for a queue pair of a protection domain, at a listener on any port.
    ///
    /// # Errors
    /// Those of making a listener.
    pub fn take_number(&mut self, pd: Id) -> Result<u32> {
        if let Some(number) = self.find_number(pd) {
            return Ok(number);
        }
        let listener = Listener::bind(0)?;
        let port = listener.port()?;
        // A driver after a dead one gives its ports again: queue pairs that have ended with it keep
        // their numbers as long as they are there.
        let same = self.listeners.iter().filter(|of| of.port == port);
        let used = same.flat_map(|of| of.used.iter().copied()).collect();
        self.listeners.push(Listening {
            used,
            ..Listening::new(Some(listener), port, pd)
        });
        self.find_number(pd).ok_or(Error::NoMemory)
    }

    /// A number at a listener that is there; `None`: another one is needed.
    pub fn find_number(&mut self, pd: Id) -> Option<u32> {
        let mut listeners = self.listeners.iter_mut();
        let of = listeners.find(|of| of.pd == pd && of.has_room());
        of.and_then(Listening::take_index)
    }

    /// Adds a listener on a port that nobody else binds.
    pub fn listen_at(&mut self, port: Port, pd: Id) {
        self.listeners.push(Listening::new(None, port, pd));
    }

    /// Whether a queue pair has a number of a protection domain's listeners.
    pub fn is_used(&self, pd: Id) -> bool {
        let mut listeners = self.listeners.iter();
        listeners.any(|of| of.pd == pd && !of.used.is_empty())
    }

    /// Gives a number back.
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

    /// Ends the listeners of a protection domain, and what belongs to them but lanes that are
    /// there.
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

    /// A queue pair wants a lane. If there is one, or one within the context can be made, the
    /// caller does the rest; otherwise a connection is made, by this end from the time `at` on, or
    /// by the peer.
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

    /// Queue pairs that want this lane.
    pub fn wanting(&self, key: Key) -> Vec<u32> {
        let of = self.wants.iter().filter(|(_, wanted)| **wanted == key);
        of.map(|(number, _)| *number).collect()
    }

    /// Whether a queue pair wants this lane.
    pub fn has_user(&self, key: Key) -> bool {
        self.wants.values().any(|wanted| *wanted == key)
    }

    /// When a connection is to be made or accepted that no event tells of.
    pub fn next_try(&self) -> Option<u64> {
        let times = self.pending.iter().filter_map(|pending| match pending {
            Pending::Wanted { at, .. } => Some(*at),
            _ => None,
        });
        times.chain(self.accept_at).min()
    }

    /// Whether something is to be done that no event tells of: the time of a try has come, or an
    /// event queue does not have all of them.
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

    /// A lane for datagrams is wanted that is not there.
    pub fn want_datagrams(&mut self, key: Key) {
        self.want_at(key, 0);
    }

    /// Whether a listener of the own context has this port.
    pub fn is_own(&self, node: NodeId, port: Port) -> bool {
        let is_it = |of: &Listening| of.port == port && !of.is_over();
        node == self.node && self.listeners.iter().any(is_it)
    }

    /// Moves connections on; what has become of those that have ended or are lanes.
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
        self.accept_at = None;
        for listening in &mut self.listeners {
            listening.bind();
            while let Some(listener) = &listening.listener {
                let (endpoint, peer) = match listener.try_accept() {
                    Ok(Some(accepted)) => accepted,
                    Ok(None) => break,
                    Err(error) => {
                        match error.errno() {
                            // The lanes report it.
                            ENODEV => listening.is_dead = true,
                            // Too many descriptors, or no memory.
                            _ => self.accept_at = Some(now.saturating_add(FIRST_PAUSE)),
                        }
                        break;
                    }
                };
                self.pending.push(Pending::Accepted {
                    own: listening.port,
                    peer,
                    endpoint,
                    hello: Vec::new(),
                    is_watched: false,
                });
            }
        }
        // Those that say nothing must not keep out those that do.
        let is_silent = |pending: &Pending| matches!(pending, Pending::Accepted { .. });
        while self.pending.iter().filter(|of| is_silent(of)).count() > MOST_SILENT {
            if let Some(oldest) = self.pending.iter().position(is_silent) {
                self.pending.remove(oldest);
            }
        }
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
        // A new connection has room for it.
        match endpoint.send(&hello(key.own, key.peer), SendFlags::empty()) {
            Ok(HELLO_BYTES) => Step::Established(key, endpoint),
            _ => again(key, pause, now),
        }
    }

    /// The lane that a peer has connected for; `None`: the first bytes are no greeting.
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

/// The outcome of a step of a connection in the making.
enum Step {
    /// It is a lane.
    Established(Key, Endpoint),
    /// It goes on.
    Later(Pending),
    /// Nobody wants it, or the peer has gone.
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

    /// Whether nobody will reach it any more.
    fn is_over(&self) -> bool {
        self.is_dead && !self.is_given
    }

    /// Whether the listener on a given port is still to be bound.
    fn is_unbound(&self) -> bool {
        self.is_given && (self.is_dead || self.listener.is_none())
    }

    /// Binds a given port, if that was not done, or the driver has died since then.
    fn bind(&mut self) {
        if self.is_unbound() {
            // The former driver's is of no use; the error is that there is no driver yet.
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
