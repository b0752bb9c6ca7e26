//! The objects that the queue pairs of a context share: keys, completion queues, shared receive
//! queues, lanes and events.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::address::{AddressVector, Gid, LanePeer};
use crate::completion::{Added, CompletionQueue, Slots};
use crate::host::{Host, LaneId, Place};
use crate::keys::{KeyTable, MAX_REGIONS};
use crate::numbered::{LaneTable, Numbered};
use crate::record::{DatagramPiece, Grant, HEADER_BYTES, Record};
use crate::srq::SharedReceiveQueue;
use crate::table::{Id, Table};
use crate::types::EventType;
use crate::work::{QpInit, WorkCompletion};

/// The object that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The queue pair of this number.
    Qp(u32),
    /// A completion queue.
    Cq(Id),
    /// A shared receive queue.
    Srq(Id),
}

/// An event for the program, or for the owner of the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An asynchronous event of the verbs.
    Async(EventType, Subject),
    /// A completion queue that was armed has a completion.
    Completion(Id),
    /// A lane has ended: close its connection. Its number may be used again.
    LaneOver(LaneId),
    /// Datagrams wait for a lane to this destination: answer with
    /// [`Context::route`](crate::context::Context::route).
    LaneWanted(Destination),
}

/// The destination of datagrams: a queue pair of a port, or all members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// The local identifier of its port, or of the group.
    pub lid: u16,
    /// Its queue pair number; [`MULTICAST_QPN`](crate::address::MULTICAST_QPN) for a group.
    pub qpn: u32,
}

/// How datagrams reach a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// The owner was asked for a lane.
    Wanted,
    /// It was asked, and a datagram has waited in vain. Others do not wait until it answers.
    Late,
    /// By this lane.
    Lane(LaneId),
    /// It cannot be reached. This counts for the next datagram only.
    None,
}

/// Most destinations that are remembered: more than there are queue pairs, each of which waits
/// for one at a time.
const MOST_ROUTES: usize = 8192;

/// An address handle.
#[derive(Debug)]
pub(crate) struct AddressHandle {
    pub pd: Id,
    pub vector: AddressVector,
}

/// A datagram that has arrived only in part: its first piece, and the bytes so far.
#[derive(Debug)]
pub(crate) struct Staged {
    pub first: DatagramPiece,
    pub bytes: Vec<u8>,
}

/// Most keys of a lane's peer that are remembered: more than a peer has at a time.
pub(crate) const MOST_KNOWN: usize = 2 * MAX_REGIONS;

/// What is known of a key of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// The peer was asked.
    Asked,
    /// The peer has granted it.
    Given(Grant),
    /// The peer has denied it. This counts for the next request only.
    Denied,
    /// The peer has no room for another window. This counts for the next request only.
    NoResources,
}

/// The window behind a key that a peer may use.
#[derive(Debug)]
pub(crate) struct Exposed {
    pub window: u64,
    /// Windows that were made later have larger stamps.
    pub stamp: u64,
}

/// A lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// The protection domain of the queue pairs and regions that use it; `None`: it is for
    /// datagrams only.
    pub pd: Option<Id>,
    /// Who is at the other end.
    pub peer: LanePeer,
    /// The peer's keys that were asked for.
    pub known: Numbered<Known>,
    /// The keys of this context that the peer may use.
    pub exposed: BTreeMap<u32, Exposed>,
    /// Records that wait for room.
    pub outbox: VecDeque<Record>,
    /// Queue pairs that owe their peers an acknowledgement, and perhaps some that no longer do.
    pub acks: Vec<u32>,
    /// An acknowledgement must not wait for a message that carries it.
    pub is_urgent: bool,
    /// A record whose payload has arrived only in part.
    pub pending: Option<Record>,
    /// The queue pair that has sent part of a datagram.
    pub sender: Option<u32>,
    /// Since when datagrams have found no room, in nanoseconds.
    pub full_since: Option<u64>,
    /// A datagram of the peer that has arrived only in part.
    pub staged: Option<Staged>,
    /// When the datagram that waits for a receive is dropped, in nanoseconds.
    pub held_until: Option<u64>,
    /// The peer has announced that nothing more comes.
    pub has_bye: bool,
}

impl Lane {
    pub fn new(pd: Option<Id>) -> Lane {
        Lane {
            pd,
            peer: LanePeer::Unknown,
            known: Numbered::new(),
            exposed: BTreeMap::new(),
            outbox: VecDeque::new(),
            acks: Vec::new(),
            is_urgent: false,
            pending: None,
            sender: None,
            full_since: None,
            staged: None,
            held_until: None,
            has_bye: false,
        }
    }
}

/// The shared objects of a context; see the module.
pub(crate) struct Objects {
    pub keys: KeyTable,
    pub cqs: Table<CompletionQueue>,
    pub srqs: Table<SharedReceiveQueue>,
    pub lanes: LaneTable<Lane>,
    pub handles: Table<AddressHandle>,
    pub routes: BTreeMap<Destination, Route>,
    /// The queue pairs that are members of each group.
    pub groups: BTreeMap<Gid, BTreeSet<u32>>,
    /// Datagrams whose key was not that of their receiver.
    pub qkey_violations: u32,
    pub events: VecDeque<Event>,
    /// The stamp of the newest window.
    pub stamp: u64,
    /// A lane remembers more than [`MOST_KNOWN`] keys.
    pub has_many_keys: bool,
    /// Keys that have become invalid, and whose windows are still to be withdrawn.
    pub stale: Vec<u32>,
    /// Completion queues that were overrun, and whose queue pairs still have to fail.
    pub overrun: Vec<Id>,
    /// Memory for lists of places, kept for the next use.
    pub places: Vec<Place>,
    /// Queue pairs that owe their peers an acknowledgement.
    pub owed: usize,
    /// One of these peers waits for the acknowledgement.
    pub is_waited_for: bool,
    /// What may still be copied in this half of the turn, in bytes.
    pub budget: Budget,
}

/// What requests may copy in a half of a turn, in bytes. There is no limit by default.
#[derive(Debug)]
pub(crate) struct Budget {
    /// What is left.
    pub left: u64,
    /// What there is at the beginning.
    pub most: u64,
}

impl Default for Budget {
    fn default() -> Self {
        let (left, most) = (u64::MAX, u64::MAX);
        Self { left, most }
    }
}

/// What any request counts for in bytes, however few it copies.
const REQUEST_COST: u64 = 256;
/// The pieces of a long copy begin at multiples of this number of bytes.
const PIECE: u64 = 4096;
/// A copy, or the rest of one, that is not cut in pieces, in bytes: a peer that looks at a word, a
/// lock or a record must not find a half of it.
const WHOLE: u64 = 64 << 10;

impl Objects {
    /// No objects, with these tables.
    pub fn new(
        cqs: Table<CompletionQueue>,
        srqs: Table<SharedReceiveQueue>,
        handles: Table<AddressHandle>,
    ) -> Objects {
        Objects {
            keys: KeyTable::default(),
            cqs,
            srqs,
            lanes: LaneTable::new(),
            handles,
            routes: BTreeMap::new(),
            groups: BTreeMap::new(),
            qkey_violations: 0,
            events: VecDeque::new(),
            stamp: 0,
            has_many_keys: false,
            stale: Vec::new(),
            overrun: Vec::new(),
            places: Vec::new(),
            owed: 0,
            is_waited_for: false,
            budget: Budget::default(),
        }
    }

    /// How many of these bytes, the rest of a copy, may be copied now.
    pub fn piece(&self, rest: u64) -> u64 {
        let most = self.budget.left.max(WHOLE);
        match rest <= most {
            true => rest,
            false => most - most % PIECE,
        }
    }

    /// Whether a request may be executed in this turn; if so, it counts.
    #[inline]
    pub fn may_execute(&mut self) -> bool {
        let may = self.budget.left > 0;
        self.budget.left = self.budget.left.saturating_sub(REQUEST_COST);
        may
    }

    /// Adds a completion.
    #[inline(always)]
    pub fn complete(
        &mut self,
        cq: Id,
        completion: WorkCompletion,
        slots: Slots,
        is_solicited: bool,
    ) {
        let Ok(queue) = self.cqs.get_mut(cq) else {
            return;
        };
        match queue.add(completion, slots, is_solicited) {
            Added::Quietly | Added::Lost => {}
            Added::Notify => self.events.push_back(Event::Completion(cq)),
            Added::Overrun => {
                self.event(EventType::CqErr, Subject::Cq(cq));
                self.overrun.push(cq);
            }
        }
    }

    /// Adds an asynchronous event.
    pub fn event(&mut self, kind: EventType, subject: Subject) {
        self.events.push_back(Event::Async(kind, subject));
    }

    /// Drops the asynchronous events of an object that is destroyed.
    pub fn forget(&mut self, subject: Subject) {
        self.events.retain(|event| match event {
            Event::Async(_, of) => *of != subject,
            _ => true,
        });
    }

    /// The XRC domains with shared receive queues that complete in this completion queue.
    pub fn xrc_domains_of(&self, cq: Id) -> Vec<Id> {
        let queues = self.srqs.ids().filter_map(|id| self.srqs.get(id).ok()?.xrc);
        let its = queues.filter(|xrc| xrc.cq == cq);
        its.map(|xrc| xrc.domain).collect()
    }

    /// Withdraws the windows of a key. Once this returns, no peer copies to or from its memory.
    pub fn withdraw<H: Host>(&mut self, host: &mut H, key: u32) {
        for (id, lane) in self.lanes.iter_mut() {
            if let Some(exposed) = lane.exposed.remove(&key) {
                host.withdraw(id, exposed.window);
                lane.outbox.push_back(Record::Revoke(key));
            }
        }
    }

    /// Whether the peer of a queue pair may reach memory of a protection domain by their lane: of
    /// the lane's domain, or, if it is a receiving half of XRC, of those of the shared receive
    /// queues that its XRC domain has now.
    pub fn reaches(&self, of: &QpInit, lane: LaneId, pd: Id) -> bool {
        let Some(xrcd) = of.xrcd else {
            let lane = self.lanes.get(lane);
            return lane.is_some_and(|lane| lane.pd == Some(pd));
        };
        let mut queues = self.srqs.ids().filter_map(|id| self.srqs.get(id).ok());
        queues.any(|queue| queue.pd == pd && queue.xrc.is_some_and(|xrc| xrc.domain == xrcd))
    }

    /// Withdraws the oldest window of all lanes. Returns whether there was one.
    pub fn evict<H: Host>(&mut self, host: &mut H) -> bool {
        let oldest = |lane: &Lane| {
            let exposed = lane.exposed.iter();
            exposed.map(|(key, of)| (of.stamp, *key)).min()
        };
        let lanes = self.lanes.iter_mut();
        let found = lanes.filter_map(|(id, lane)| Some((oldest(lane)?, id, lane)));
        let Some(((_, key), id, lane)) = found.min_by_key(|(oldest, ..)| *oldest) else {
            return false;
        };
        if let Some(exposed) = lane.exposed.remove(&key) {
            host.withdraw(id, exposed.window);
            lane.outbox.push_back(Record::Revoke(key));
        }
        true
    }

    /// Notes how datagrams reach a destination. Before there are too many of them all are
    /// forgotten: who needs one again asks again.
    pub fn set_route(&mut self, destination: Destination, route: Route) {
        if self.routes.len() >= MOST_ROUTES {
            self.routes.clear();
        }
        self.routes.insert(destination, route);
    }

    /// Queues a record, which is sent as soon as the lane has room.
    pub fn tell(&mut self, lane: LaneId, record: Record) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.outbox.push_back(record);
        }
    }
}

/// Bytes of a record with a payload of `payload` bytes.
#[inline]
pub(crate) const fn record_bytes(payload: usize) -> usize {
    HEADER_BYTES + payload
}
