//! The rules of verbs together with the lanes of a context: how lanes are made, which queue pair
//! uses which lane, and how datagrams reach their destination. A library has one engine for its
//! program; the device's daemon has one for each context, for the queue pairs that commands post
//! to.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif::{Endpoint, NodeId, Port};
use verbs_core::address::{self, LanePeer};
use verbs_core::context::{Context, Progress, Taken};
use verbs_core::host::{Host, LaneId};
use verbs_core::table::Id;
use verbs_core::types::{AttributeMask, QpState, QpType, Result};
use verbs_core::work::{ReceiveRequest, SendRequest, ShortSend};
use verbs_core::{Destination, Event};

use crate::lanes::Lanes;
use crate::links::{Established, Key, Links};
use crate::relay;
use crate::stream::Stream;

/// How often an owner looks for what no event reports, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;
/// How often it looks whether the driver is alive, in nanoseconds.
pub(crate) const LONGEST_NS: u64 = 1_000_000_000;

/// Most lanes that peers of one node have made and no queue pair needs; for one more the oldest
/// one is ended. Peers that keep to the protocol make it again.
const MOST_IDLE: usize = 128;
/// After so many looks for messages alone, everything else is looked for, too.
const SHORT_TURNS: u32 = 32;

/// The rules of verbs and the lanes of one context; see the module.
pub struct Engine {
    /// The objects, by the rules of verbs.
    pub core: Context,
    /// The lanes, and the registered memory.
    pub lanes: Lanes,
    /// Listeners, and connections in the making.
    pub(crate) links: Links,
    /// Destinations of datagrams that wait for a lane, and the key of that lane.
    wanted: BTreeMap<Destination, Key>,
    /// The lane for datagrams within the context.
    own_datagrams: Option<LaneId>,
    /// Lanes that peers have made, the oldest first.
    greeted: Vec<(Key, LaneId)>,
    /// [`advance_links`](Self::advance_links) has to be called to make a connection.
    pub(crate) wants_links: bool,
    /// The work that is left after the last turn.
    pub left: Progress,
    /// When connections were last looked at, and the time of the last turn, in nanoseconds.
    pub(crate) looked_at: u64,
    now: u64,
    /// Looks for messages alone so far.
    short_turns: u32,
}

impl Engine {
    /// The engine of a context of this node, without objects. `generation`: any number, preferably
    /// not the one of an earlier context at the same ports.
    pub fn new(node: NodeId, generation: u32) -> Self {
        Self {
            core: Context::new(generation),
            lanes: Lanes::default(),
            links: Links::new(node),
            wanted: BTreeMap::new(),
            own_datagrams: None,
            greeted: Vec::new(),
            wants_links: false,
            left: Progress::default(),
            looked_at: 0,
            now: 0,
            short_turns: 0,
        }
    }

    /// One turn: receives, executes requests and completes them. `now`: nanoseconds of a clock
    /// that never goes back.
    pub fn turn(&mut self, now: u64) {
        self.now = now;
        self.left = self.core.progress(&mut self.lanes, now);
        self.left.is_busy |= self.lanes.have_local();
    }

    /// Posts a send, and executes it at once if nothing prevents that. Returns whether a
    /// [`turn`](Self::turn) has to do the rest.
    ///
    /// # Errors
    /// Those of [`Context::post_send`].
    pub fn post_send(&mut self, number: u32, request: SendRequest) -> Result<bool> {
        let is_done = self.core.post_send_now(&mut self.lanes, number, request)?;
        self.left.is_busy |= self.lanes.have_local();
        Ok(!is_done)
    }

    /// [`post_send`](Self::post_send) of one segment or of inline bytes, in fewer instructions.
    ///
    /// # Errors
    /// Those of [`Context::post_send`].
    pub fn post_short(&mut self, number: u32, send: &ShortSend<'_>) -> Result<bool> {
        let is_done = self.core.post_short_now(&mut self.lanes, number, send)?;
        self.left.is_busy |= self.lanes.have_local();
        Ok(!is_done)
    }

    /// Posts a receive. Returns whether a [`turn`](Self::turn) has to tell the peer of it.
    ///
    /// # Errors
    /// Those of [`Context::post_recv`].
    pub fn post_recv(&mut self, number: u32, request: ReceiveRequest) -> Result<bool> {
        let is_done = self.core.post_recv_now(&mut self.lanes, number, request)?;
        self.left.is_busy |= self.lanes.have_local();
        Ok(!is_done)
    }

    /// Receives messages that have arrived, if there is nothing else to do. With [`Taken::More`] a
    /// [`turn`](Self::turn) has to do the rest; otherwise one would do nothing before the time in
    /// `left`.
    pub fn take_messages(&mut self) -> Taken {
        self.short_turns = self.short_turns.wrapping_add(1);
        let left = &self.left;
        if left.is_busy || left.waits_for_room || self.lanes.have_local() {
            return Taken::More;
        }
        match self.core.take_messages(&mut self.lanes) {
            Taken::Nothing if self.core.owes() => Taken::More,
            Taken::All if self.short_turns.is_multiple_of(SHORT_TURNS) => Taken::More,
            taken => taken,
        }
    }

    /// Whether a [`turn`](Self::turn) before the time in `left` would do nothing.
    pub fn is_quiet(&mut self) -> bool {
        let left = &self.left;
        !left.is_busy && !left.waits_for_room && self.lanes.are_quiet() && !self.core.owes()
    }

    /// The next completion event or asynchronous event. To be called after each turn until there
    /// is none, because it also handles the events of lanes.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            match self.core.next_event()? {
                Event::LaneOver(lane) => self.lane_over(lane),
                Event::LaneWanted(destination) => {
                    self.want_datagrams(destination);
                    // The lane may exist already.
                    self.left.is_busy = true;
                }
                event => return Some(event),
            }
        }
    }

    // ---- Lanes ----

    fn lane_over(&mut self, lane: LaneId) {
        self.own_datagrams.take_if(|own| *own == lane);
        let mut lanes = self.links.lanes.iter();
        let key = lanes.find(|(_, of)| **of == lane).map(|(key, _)| *key);
        self.links.lanes.retain(|_, of| *of != lane);
        self.drop_lane(lane);
        // The driver may have died, and the listeners with it.
        self.wants_links = true;
        if key == Some(self.relay_key()) && self.core.has_groups() {
            self.want_relay();
        }
        // The lane may have ended before the peer of a queue pair was ready.
        if let Some(key) = key {
            for number in self.links.wanting(key) {
                if self.core.awaits_lane(number) {
                    // Later, so that a peer that only ends lanes costs little.
                    let at = self.now.saturating_add(LOOK_NS);
                    self.links.want(number, key, at);
                }
            }
        }
        // The peer may have made another lane before this one was found to be over.
        for (number, key) in &self.links.wants {
            if let Some(lane) = self.links.lanes.get(key)
                && self.core.awaits_lane(*number)
            {
                // The error is that another domain has the port since the driver has died.
                let _ = self.core.attach(*number, *lane);
                self.left.is_busy = true;
            }
        }
    }

    fn drop_lane(&mut self, lane: LaneId) {
        self.greeted.retain(|(_, of)| *of != lane);
        self.lanes.remove(lane);
    }

    /// Ends the oldest lanes that peers of a node have made and no queue pair needs, if there are
    /// too many.
    fn bound_idle(&mut self, node: NodeId) {
        let greeted = self.greeted.iter();
        let idle = greeted.filter(|(key, _)| key.node == node && !self.links.has_user(*key));
        let idle: Vec<LaneId> = idle.map(|(_, lane)| *lane).collect();
        let surplus = idle.len().saturating_sub(MOST_IDLE);
        self.end_lanes(idle.get(..surplus).unwrap_or_default());
    }

    /// Follows a change of a queue pair's state: in RTR it gets a lane to its peer as soon as
    /// there is one, after a reset it needs none.
    pub fn follow(&mut self, number: u32, mask: AttributeMask, state: QpState) {
        if !mask.contains(AttributeMask::STATE) {
            return;
        }
        let view = self.core.query_qp(number).ok();
        match state {
            QpState::Rtr => {
                if let Some(view) = view.filter(|view| view.init.kind != QpType::Ud) {
                    let node = view.attributes.dlid.wrapping_sub(1);
                    self.want(number, Key::new(number, node, view.attributes.dest_qpn));
                }
            }
            QpState::Reset => {
                self.links.wants.remove(&number);
            }
            _ => {}
        }
    }

    /// Makes a queue pair use the lane to its peer, as soon as there is one.
    fn want(&mut self, number: u32, key: Key) {
        self.links.want(number, key, 0);
        self.wants_links = true;
        if let Some(lane) = self.links.lanes.get(&key) {
            // The error is that it has the lane already.
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
            self.drop_lane(lane);
            return;
        }
        self.links.lanes.insert(key, lane);
        for number in self.links.wanting(key) {
            // The error is that it still has a lane, which is about to end.
            let _ = self.core.attach(number, lane);
        }
    }

    /// Takes a number for a queue pair of a protection domain, at a listener on any port.
    ///
    /// # Errors
    /// Those of making a listener.
    pub(crate) fn take_number(&mut self, pd: Id, now: u64) -> crate::error::Result<u32> {
        // A lane may have ended with its driver: listeners that have ended with it give no number.
        if self.wants_links {
            self.advance_links(now);
        }
        self.links.take_number(pd)
    }

    /// Advances the connections that are being made.
    pub fn advance_links(&mut self, now: u64) {
        (self.wants_links, self.looked_at) = (false, now);
        for made in self.links.advance(now) {
            match made {
                // A program has one lane to a protection domain: this is another program that
                // claims its port, unless the first lane has ended.
                Established::Domain(key, ..) if self.has_live_lane(key) => {}
                Established::Domain(key, pd, endpoint) => {
                    let lane = self.insert_stream(key, endpoint);
                    self.open(key, pd, lane);
                }
                // The lane to the relay may have been made by a call while this connection was
                // made.
                Established::Datagrams(key, _) if key == self.relay_key() && self.has_relay() => {
                    let lane = self.links.lanes.get(&key).copied();
                    self.answer(key, lane);
                }
                Established::Datagrams(key, endpoint) => {
                    let lane = self.insert_stream(key, endpoint);
                    self.open_datagrams(key, lane);
                }
                // Without a relay, a group has only the members in this context.
                Established::Nothing(key) if key == self.relay_key() => {
                    let lane = self.own_datagram_lane();
                    self.answer(key, lane);
                }
                Established::Nothing(key) => self.answer(key, None),
            }
        }
    }

    fn has_live_lane(&mut self, key: Key) -> bool {
        let lane = self.links.lanes.get(&key).copied();
        lane.is_some_and(|lane| self.lanes.may_send(lane))
    }

    /// Adds the lane of a new connection.
    fn insert_stream(&mut self, key: Key, endpoint: Endpoint) -> LaneId {
        let lane = self.lanes.insert_stream(Stream::new(endpoint));
        if !key.connects(self.links.node) {
            self.greeted.push((key, lane));
            self.bound_idle(key.node);
        }
        lane
    }

    // ---- Datagrams ----

    /// Finds a lane for datagrams, or begins to make one. The lane of a group is the one to the
    /// relay.
    fn want_datagrams(&mut self, destination: Destination) {
        let key = match address::node(destination.lid) {
            None => self.relay_key(),
            Some(node) => Key::datagrams(node, destination.qpn),
        };
        let key = Some(key).filter(|key| !self.links.is_own(key.node, key.peer));
        let lane = match key {
            None => self.own_datagram_lane(),
            Some(key) => match self.links.lanes.get(&key) {
                Some(lane) => Some(*lane),
                None => {
                    if self.wanted.values().all(|of| *of != key) {
                        self.links.want_datagrams(key);
                        self.wants_links = true;
                    }
                    self.wanted.insert(destination, key);
                    return;
                }
            },
        };
        // It cannot fail: the lane exists.
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

    fn relay_key(&self) -> Key {
        relay::key(self.links.node)
    }

    /// Whether there is a lane to the relay.
    pub(crate) fn has_relay(&self) -> bool {
        self.links.lanes.contains_key(&self.relay_key())
    }

    /// Begins to connect to the relay, because a queue pair has joined a group.
    pub fn want_relay(&mut self) {
        let key = self.relay_key();
        if !self.has_relay() && self.wanted.values().all(|of| *of != key) {
            self.links.want_datagrams(key);
            self.wants_links = true;
        }
    }

    /// Adds a connection to the relay, unless there is one.
    pub(crate) fn add_relay(&mut self, endpoint: Endpoint) {
        if !self.has_relay() {
            let key = self.relay_key();
            let lane = self.insert_stream(key, endpoint);
            self.open_datagrams(key, lane);
        }
    }

    fn open_datagrams(&mut self, key: Key, lane: LaneId) {
        let peer = match key.peer {
            relay::PORT => LanePeer::Relay,
            _ => LanePeer::Port(address::lid(key.node)),
        };
        let opened = self.core.open_datagram_lane(lane);
        let told = opened.and_then(|()| self.core.set_lane_peer(lane, peer));
        if told.is_err() {
            self.drop_lane(lane);
            return;
        }
        // A lane that a peer has made for datagrams leads back to no port: the peer does not name
        // its own.
        if key.peer != 0 {
            self.links.lanes.insert(key, lane);
            self.answer(key, Some(lane));
        }
        // Until now, datagrams to groups have stayed in the context.
        if let Some(own) = self.own_datagrams.filter(|_| peer == LanePeer::Relay) {
            self.core.forget_routes(own);
        }
    }

    /// Tells datagrams that wait by which lane they reach their destination.
    fn answer(&mut self, key: Key, lane: Option<LaneId>) {
        let core = &mut self.core;
        self.wanted.retain(|destination, of| {
            if *of == key {
                // It cannot fail: the lane exists.
                let _ = core.route(*destination, lane);
            }
            *of != key
        });
    }

    // ---- Ends ----

    /// Ends the listeners of a protection domain. Returns its lanes.
    pub(crate) fn close_links(&mut self, pd: Id) -> Vec<LaneId> {
        self.links.close(pd);
        self.core.lanes_of(pd)
    }

    /// Tells the peers of lanes that nothing more comes. The next turns send this.
    pub(crate) fn say_bye(&mut self, lanes: &[LaneId]) {
        for lane in lanes {
            // The error is that it has ended by itself.
            let _ = self.core.say_bye(*lane);
        }
    }

    /// Ends lanes.
    pub(crate) fn end_lanes(&mut self, lanes: &[LaneId]) {
        for lane in lanes {
            // The error is that it has ended by itself.
            let _ = self.core.end_lane(&mut self.lanes, *lane);
        }
    }

    /// Ends the lanes and listeners of a protection domain that has no other objects, and tells
    /// the peers. Returns the ports of the listeners.
    pub fn close(&mut self, pd: Id) -> Vec<Port> {
        let of = self.links.listeners.iter().filter(|of| of.pd == pd);
        let ports = of.map(|of| of.port).collect();
        let lanes = self.close_links(pd);
        self.say_bye(&lanes);
        // What finds no room now is not sent.
        self.turn(self.now);
        self.end_lanes(&lanes);
        ports
    }

    // ---- For an owner that makes the connections ----

    /// Adds a connected endpoint, which must not block, as a lane of a protection domain.
    ///
    /// # Errors
    /// Those of [`Context::open_lane`].
    pub fn add_lane(&mut self, endpoint: Endpoint, pd: Id) -> Result<LaneId> {
        let lane = self.lanes.insert_stream(Stream::new(endpoint));
        if let Err(error) = self.core.open_lane(lane, pd) {
            self.lanes.remove(lane);
            return Err(error);
        }
        Ok(lane)
    }

    // ---- For an owner that chooses the ports ----

    /// Takes a number for a queue pair of a protection domain at one of its listeners; `None`:
    /// another listener is needed.
    pub fn find_number(&mut self, pd: Id) -> Option<u32> {
        self.links.find_number(pd)
    }

    /// Makes peers reach a protection domain at a port that no other program binds, from the next
    /// [`advance_links`](Self::advance_links) on.
    pub fn listen_at(&mut self, port: Port, pd: Id) {
        self.links.listen_at(port, pd);
        self.wants_links = true;
    }

    /// Takes back [`listen_at`](Self::listen_at), before lanes were made at the port.
    pub fn unlisten(&mut self, port: Port) {
        self.links.unlisten(port);
    }

    /// Gives back the number of a queue pair.
    pub fn give_back(&mut self, number: u32) {
        self.links.give_back(number);
    }

    /// Whether a queue pair has a number of a protection domain's listeners.
    pub fn is_used(&self, pd: Id) -> bool {
        self.links.is_used(pd)
    }

    /// Whether there are lanes, or may be some: then [`serve`](Self::serve) has to be called.
    pub fn is_connected(&self) -> bool {
        !self.links.listeners.is_empty()
    }

    /// When to look at connections if no event reports one before, in nanoseconds.
    pub fn next_look(&mut self) -> Option<u64> {
        if self.wants_links || self.left.is_busy {
            return Some(0);
        }
        let behind = |pause| self.looked_at.saturating_add(pause);
        let is_short = self.links.has_unbound() || self.left.waits_for_room;
        let short = is_short.then(|| behind(LOOK_NS));
        // No event reports the death of a driver.
        let has_lanes = self.lanes.streams().next().is_some();
        let long = has_lanes.then(|| behind(LONGEST_NS));
        let times = [self.links.next_try(), short, long];
        times.into_iter().flatten().min()
    }

    /// Looks at connections, after an event of one or at the time of
    /// [`next_look`](Self::next_look). A [`turn`](Self::turn) and [`watch`](Self::watch) have to
    /// follow.
    pub fn serve(&mut self, now: u64) {
        for stream in self.lanes.streams() {
            stream.check();
        }
        self.advance_links(now);
    }
}

#[cfg(test)]
mod tests;
