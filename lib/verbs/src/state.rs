//! Everything of a context that its calls change, behind one lock.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use verbs_core::address::{self, LanePeer};
use verbs_core::context::{Context, Progress};
use verbs_core::host::LaneId;
use verbs_core::table::Id;
use verbs_core::types::QpType;
use verbs_core::{Destination, Event, Subject};

use crate::clock::Time;
use crate::daemon::Changes;
use crate::error::Result;
use crate::events::{AsyncEvent, Events};
use crate::lanes::Lanes;
use crate::links::{Established, Key, Links};
use crate::stream::Stream;

/// Turns in a row while there is something to do.
const TURNS: usize = 16;
/// Turns that wait for a peer to make room for the last records of a lane.
const LAST_TURNS: usize = 1000;

/// The state of a completion queue besides its completions.
pub struct Cq {
    /// Where its events go.
    pub channel: Option<Arc<Events<u64>>>,
    /// The program's word for it.
    pub user: u64,
    /// Completions that it holds.
    pub size: u32,
}

impl Cq {
    /// Its channel, if it has one, and what is said there.
    pub fn target(&self) -> Option<(&Events<u64>, u64)> {
        let channel = self.channel.as_deref();
        channel.map(|channel| (channel, self.user))
    }
}

/// See the module.
pub struct State {
    pub core: Context,
    pub lanes: Lanes,
    pub links: Links,
    pub time: Time,
    /// Regions, queue pairs and shared receive queues of each protection domain.
    pub users: BTreeMap<Id, u32>,
    pub cqs: BTreeMap<Id, Cq>,
    /// The program's words.
    pub qps: BTreeMap<u32, u64>,
    pub srqs: BTreeMap<Id, u64>,
    /// Domains of extended reliable connections, with the protection domain of the first shared
    /// receive queue.
    pub xrcds: BTreeMap<Id, Option<Id>>,
    pub events: Arc<Events<AsyncEvent>>,
    /// Completion queues whose channel is to be told.
    pub armed: BTreeSet<Id>,
    /// Destinations of datagrams that wait for a lane.
    pub wanted: BTreeMap<Destination, Key>,
    /// The lane for datagrams within the context.
    pub own_datagrams: Option<LaneId>,
    /// The progress thread is to make a connection.
    pub wants_links: bool,
    /// The work that is left.
    pub left: Progress,
    /// The program polls: the progress thread leaves the lanes alone.
    pub is_polled: bool,
    /// When the progress thread will look again.
    pub wakes_at: u64,
}

impl State {
    /// Receives, hands over, completes and tells, as long as there is something to do.
    pub fn advance(&mut self) {
        for _ in 0..TURNS {
            let now = self.time.now();
            self.left = self.core.progress(&mut self.lanes, now);
            self.left.is_busy |= self.lanes.have_local();
            self.tell();
            if !self.left.is_busy {
                break;
            }
        }
    }

    /// Once: for a caller that comes again.
    pub fn advance_once(&mut self) {
        let now = self.time.now();
        self.left = self.core.progress(&mut self.lanes, now);
        self.left.is_busy |= self.lanes.have_local();
        self.tell();
    }

    /// Tells of events.
    fn tell(&mut self) {
        while let Some(event) = self.core.next_event() {
            match event {
                Event::Completion(cq) => {
                    self.armed.remove(&cq);
                    let cq = self.cqs.get(&cq);
                    if let Some((channel, user)) = cq.and_then(Cq::target) {
                        channel.push(user);
                    }
                }
                Event::Async(kind, subject) => {
                    let user = self.user(subject);
                    self.events.push(AsyncEvent {
                        kind,
                        subject: Some(subject),
                        user,
                    });
                }
                Event::LaneOver(lane) => self.lane_over(lane),
                Event::LaneWanted(destination) => {
                    self.want_datagrams(destination);
                    // It may be there.
                    self.left.is_busy = true;
                }
            }
        }
    }

    /// The program's word for an object.
    fn user(&self, subject: Subject) -> u64 {
        let user = match subject {
            Subject::Qp(number) => self.qps.get(&number).copied(),
            Subject::Cq(id) => self.cqs.get(&id).map(|cq| cq.user),
            Subject::Srq(id) => self.srqs.get(&id).copied(),
        };
        user.unwrap_or_default()
    }

    // ---- Lanes ----

    fn lane_over(&mut self, lane: LaneId) {
        self.own_datagrams.take_if(|own| *own == lane);
        self.links.lanes.retain(|_, of| *of != lane);
        self.lanes.remove(lane);
    }

    /// Has a queue pair use the lane to its peer, as soon as there is one.
    pub fn want(&mut self, number: u32, key: Key) {
        let now = self.time.now();
        self.links.want(number, key, now);
        if let Some(lane) = self.links.lanes.get(&key) {
            // It may have the lane already.
            let _ = self.core.attach(number, *lane);
        } else if key.node == self.links.node {
            self.join_own(key);
        }
    }

    /// Makes a lane within the context.
    fn join_own(&mut self, key: Key) {
        let there = Key {
            own: key.peer,
            peer: key.own,
            ..key
        };
        let domains = (self.links.domain(key.own), self.links.domain(key.peer));
        let (Some(own), Some(peer)) = domains else {
            return;
        };
        if key.own == key.peer {
            let lane = self.lanes.insert_loop();
            self.open(key, own, lane);
            return;
        }
        let (one, other) = self.lanes.insert_pair();
        self.open(key, own, one);
        self.open(there, peer, other);
    }

    fn open(&mut self, key: Key, pd: Id, lane: LaneId) {
        if self.core.open_lane(lane, pd).is_err() {
            self.lanes.remove(lane);
            return;
        }
        self.links.lanes.insert(key, lane);
        for number in self.links.wanting(key) {
            // It may have a lane that is about to end.
            let _ = self.core.attach(number, lane);
        }
    }

    /// Moves connections in the making on.
    pub fn advance_links(&mut self) {
        let now = self.time.now();
        for made in self.links.advance(now) {
            match made {
                Established::Domain(key, pd, endpoint) => {
                    let lane = self.lanes.insert_stream(Stream::new(endpoint));
                    self.open(key, pd, lane);
                }
                Established::Datagrams(key, endpoint) => {
                    let lane = self.lanes.insert_stream(Stream::new(endpoint));
                    self.open_datagrams(key, lane);
                }
                Established::Nothing(key) => self.answer(key, None),
            }
        }
    }

    // ---- Datagrams ----

    /// Finds a lane for datagrams, or begins to make one. The members of a group are those of the
    /// own context, as long as nobody passes datagrams on.
    fn want_datagrams(&mut self, destination: Destination) {
        let key = address::node(destination.lid)
            .map(|node| Key::datagrams(node, destination.qpn))
            .filter(|key| !self.links.is_own(key.node, key.peer));
        let lane = match key {
            None => self.own_datagram_lane(),
            Some(key) => match self.links.lanes.get(&key) {
                Some(lane) => Some(*lane),
                None => {
                    if self.wanted.values().all(|of| *of != key) {
                        let now = self.time.now();
                        self.links.want_datagrams(key, now);
                        self.wants_links = true;
                    }
                    self.wanted.insert(destination, key);
                    return;
                }
            },
        };
        // The lane is there.
        let _ = self.core.route(destination, lane);
    }

    /// The lane for datagrams within the context.
    fn own_datagram_lane(&mut self) -> Option<LaneId> {
        if self.own_datagrams.is_none() {
            let lane = self.lanes.insert_loop();
            self.core.open_datagram_lane(lane).ok()?;
            let own = address::lid(self.links.node);
            self.core.set_lane_peer(lane, LanePeer::Port(own)).ok()?;
            self.own_datagrams = Some(lane);
        }
        self.own_datagrams
    }

    fn open_datagrams(&mut self, key: Key, lane: LaneId) {
        let peer = LanePeer::Port(address::lid(key.node));
        let opened = self.core.open_datagram_lane(lane);
        let told = opened.and_then(|()| self.core.set_lane_peer(lane, peer));
        if told.is_err() {
            self.lanes.remove(lane);
            return;
        }
        // That of a peer that has connected leads back to nobody: it does not say its port.
        if key.peer != 0 {
            self.links.lanes.insert(key, lane);
            self.answer(key, Some(lane));
        }
    }

    /// Says to datagrams that wait by which lane they get to their destination.
    fn answer(&mut self, key: Key, lane: Option<LaneId>) {
        let core = &mut self.core;
        self.wanted.retain(|destination, of| {
            if *of == key {
                // The lane is there.
                let _ = core.route(*destination, lane);
            }
            *of != key
        });
    }

    /// Ends the lanes of a protection domain that nothing else belongs to.
    pub fn close_lanes(&mut self, pd: Id) {
        let lanes = self.links.close(pd);
        self.say_bye(&lanes);
        for lane in lanes {
            // It may have ended by itself.
            let _ = self.core.end_lane(&mut self.lanes, lane);
        }
        self.tell();
    }

    /// Tells the peers of lanes that nothing more comes, if they take it soon.
    fn say_bye(&mut self, lanes: &[LaneId]) {
        for lane in lanes {
            // It may have ended by itself.
            let _ = self.core.say_bye(*lane);
        }
        for _ in 0..LAST_TURNS {
            self.advance();
            if !self.left.waits_for_room && self.lanes.streams().all(|of| of.is_flushed()) {
                break;
            }
            hal::pause::yield_now();
        }
    }

    /// Tells all peers that nothing more comes.
    pub fn leave(&mut self) {
        let lanes = self.lanes.ids();
        self.say_bye(&lanes);
    }

    // ---- Objects ----

    /// The changes of all objects.
    pub fn changes(&self) -> Changes {
        let core = &self.core;
        let qps = self
            .qps
            .keys()
            .map(|number| (*number, core.query_qp(*number)));
        let cqs = self.cqs.keys().map(|id| (*id, core.cq_traffic(*id)));
        let srqs = self.srqs.keys().map(|id| (*id, core.srq(*id)));
        Changes {
            qps: qps
                .filter_map(|(number, view)| Some((number, view.ok()?)))
                .collect(),
            cqs: cqs.filter_map(|(id, of)| Some((id, of.ok()?))).collect(),
            srqs: srqs
                .filter_map(|(id, of)| Some((id, of.ok()?.len())))
                .collect(),
        }
    }

    /// Whether a queue pair has one peer.
    pub fn is_connected_type(&self, number: u32) -> Result<bool> {
        Ok(self.core.query_qp(number)?.init.kind != QpType::Ud)
    }

    /// Counts an object of a protection domain, or no more.
    pub fn count(&mut self, pd: Id, change: i32) {
        let users = self.users.entry(pd).or_default();
        *users = users.saturating_add_signed(change);
    }
}
