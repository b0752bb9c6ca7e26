//! Everything of a context that its calls change, behind one lock.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use verbs_core::context::{Context, Progress};
use verbs_core::host::LaneId;
use verbs_core::table::Id;
use verbs_core::types::EventType;
use verbs_core::{Event, Subject};

use crate::clock::Time;
use crate::events::Events;
use crate::lanes::{Lane, Lanes};
use crate::links::{Key, Links, Made};
use crate::stream::Stream;

/// Turns in a row while there is something to do.
const TURNS: usize = 16;
/// Turns that wait for a peer to make room for the last records of a lane.
const LAST_TURNS: usize = 1000;

/// An asynchronous event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AsyncEvent {
    /// What has happened.
    pub kind: EventType,
    /// To what.
    pub subject: Subject,
    /// The program's word for that object.
    pub user: u64,
}

/// What is known of a completion queue besides its completions.
pub struct Cq {
    /// Where its events go.
    pub channel: Option<Arc<Events<u64>>>,
    /// The program's word for it.
    pub user: u64,
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
    pub events: Arc<Events<AsyncEvent>>,
    /// Completion queues whose channel is to be told.
    pub armed: BTreeSet<Id>,
    /// What is left to do.
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
                        subject,
                        user,
                    });
                }
                Event::LaneOver(lane) => self.lane_over(lane),
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
        for Made { key, pd, endpoint } in self.links.advance(now) {
            let lane = self
                .lanes
                .insert(Lane::Stream(Box::new(Stream::new(endpoint))));
            self.open(key, pd, lane);
        }
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
        let lanes: alloc::vec::Vec<LaneId> = self.links.lanes.values().copied().collect();
        self.say_bye(&lanes);
    }

    // ---- Objects ----

    /// Counts an object of a protection domain, or no more.
    pub fn count(&mut self, pd: Id, change: i32) {
        let users = self.users.entry(pd).or_default();
        *users = users.saturating_add_signed(change);
    }
}
