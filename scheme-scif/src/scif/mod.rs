//! The scheme: handles over endpoints, and requests that wait for the engine.
//!
//! Every function answers at once. One that cannot yet answers `EWOULDBLOCK` and remembers, under
//! the name `request`, what it has begun; the caller keeps the request and calls the same function
//! with the same arguments again when [`Scif::take_changes`] names the request or its handle. A
//! request that is given up meanwhile is ended by [`Scif::cancel`], which undoes what was begun.
//!
//! The state is in parts, each with an owner: handles, requests, listeners, memory objects. What
//! needs several of them is a flow: one file below `operation` for each group of operations, and
//! one below `files` for each text file.

pub(crate) mod files;
mod operation;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::limits::LinkTiming;
use scif_core::{CopyEngine, EndpointId, Engine, Event, Owner};
use syscall::error::Result;

use crate::card::{Card, CardCommand};
use crate::handle::endpoint::Endpoint;
use crate::handle::table::Handles;
use crate::handle::{Handle, Kind, Opening};
use crate::ids::{HandleId, RequestId};
use crate::listener::Listeners;
use crate::memory::MemoryObjects;
use crate::node_memory::NodeMemory;
use crate::path::{Content, Path};
use crate::request::{Changes, Requests};

/// Requests that may wait on a listener opened by path. An operation on an endpoint chooses its
/// own; 128 is what servers usually ask for.
pub const DEFAULT_BACKLOG: i32 = 128;

/// Bytes copied in one go, and how many times in one iteration of the event loop: a few hundred
/// microseconds, so that other callers wait only briefly.
const COPY_SLICE_BYTES: usize = 256 * 1024;
/// As above.
const COPY_SLICES: usize = 4;

/// Events of the engine for the node's driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeEvent {
    /// The node is online.
    Up(NodeId),
    /// The node is no longer online.
    Down(NodeId),
    /// The link to the node must be reset; see [`Event::LinkFailed`].
    LinkFailed(NodeId),
    /// An administrator wants this of the card that is this node.
    Card(NodeId, CardCommand),
}

/// Counters of the driver's event loop since its start, shown by the file `stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCounters {
    /// Iterations of the loop: each begins with what the event queue reported.
    pub turns: u64,
    /// Interrupts of links.
    pub interrupts: u64,
    /// The counters of the scheme's socket.
    pub socket: scheme::Counters,
}

impl LoopCounters {
    /// Names and values for the file.
    pub(crate) fn lines(&self) -> [(&'static str, u64); 9] {
        [
            ("turns", self.turns),
            ("interrupts", self.interrupts),
            ("requests", self.socket.requests),
            ("request_reads", self.socket.reads),
            ("answers", self.socket.answers),
            ("answer_writes", self.socket.writes),
            ("retries", self.socket.retries),
            ("others_first", self.socket.others_first),
            ("watched", self.socket.watched),
        ]
    }
}

/// The scheme's state. `M` is the node's memory, `R` names requests.
pub struct Scif<M: NodeMemory, R> {
    engine: Engine,
    memory: M,
    handles: Handles<R>,
    requests: Requests<R>,
    listeners: Listeners<R>,
    objects: MemoryObjects<R, M::Space>,
    /// Slices of copying that this iteration still has.
    slices_left: usize,
    /// Connections that carry messages and are not set up yet, with their handles.
    greeting: BTreeMap<EndpointId, HandleId>,
    node_events: VecDeque<NodeEvent>,
    cards: Vec<Card>,
    loop_counters: LoopCounters,
    timing: LinkTiming,
}

/// The interface to the driver's event loop.
impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// A scheme without open handles except its root.
    pub fn new(engine: Engine, memory: M) -> Self {
        Self {
            engine,
            memory,
            handles: Handles::new(),
            requests: Requests::default(),
            listeners: Listeners::default(),
            objects: MemoryObjects::default(),
            slices_left: 0,
            greeting: BTreeMap::new(),
            node_events: VecDeque::new(),
            cards: Vec::new(),
            loop_counters: LoopCounters::default(),
            timing: LinkTiming::default(),
        }
    }

    /// The engine and its memory, for those who bring links up and down. Events that follow from
    /// what is done with them are taken by the next [`take_changes`](Self::take_changes).
    pub fn engine(&mut self) -> (&mut Engine, &mut M) {
        (&mut self.engine, &mut self.memory)
    }

    /// Begins an iteration of the event loop, which has its share of the work that goes on by
    /// itself: copies, transfers whose data is beside their call, objects to be completed.
    pub fn begin_iteration(&mut self) {
        self.slices_left = COPY_SLICES;
        self.build_all();
        self.requests.wake_steps(COPY_SLICES);
    }

    /// Whether there is more work to do right away, so that the loop should not sleep but begin
    /// its next iteration.
    pub fn is_busy(&self) -> bool {
        self.engine.has_work() || self.objects.has_work() || self.requests.has_steps()
    }

    /// Sets the counters of the event loop that the file `stats` shows.
    pub fn set_loop_counters(&mut self, counters: LoopCounters) {
        self.loop_counters = counters;
    }

    /// Sets the cards that the file `cards` shows.
    pub fn set_cards(&mut self, cards: Vec<Card>) {
        self.cards = cards;
    }

    /// The times by which the driver notices the loss of nodes.
    pub fn link_timing(&self) -> LinkTiming {
        self.timing
    }

    /// Nodes that came or went, oldest first.
    pub fn next_node_event(&mut self) -> Option<NodeEvent> {
        self.node_events.pop_front()
    }

    /// Takes the engine's events (which rings doorbells), lets `copier` do what is left of the
    /// iteration's copies, and names what to try again. The caller empties what it gets.
    pub fn take_changes(&mut self, copier: &mut dyn CopyEngine) -> &mut Changes<R> {
        self.take_events();
        if self.engine.awaits_copies() {
            // The completed transfers may be all that there is to do.
            self.engine.pump(&mut self.memory, copier, COPY_SLICE_BYTES);
            self.take_events();
        }
        while self.slices_left > 0 && self.engine.has_work() {
            self.slices_left -= 1;
            self.engine.pump(&mut self.memory, copier, COPY_SLICE_BYTES);
            self.take_events();
        }
        self.requests.changes()
    }

    fn take_events(&mut self) {
        while let Some(event) = self.engine.next_event(&mut self.memory) {
            match event {
                Event::Changed(endpoint) => {
                    self.requests.endpoint_changed(endpoint);
                    if let Some(&handle) = self.greeting.get(&endpoint) {
                        self.go_on_with_set_up(handle);
                    }
                }
                Event::Departed(endpoint) => self.requests.endpoint_gone(endpoint),
                Event::Ring(node) => self.memory.ring(node),
                Event::NodeUp(node) => {
                    self.notify_peers(node, true);
                    self.node_events.push_back(NodeEvent::Up(node));
                }
                Event::NodeDown(node) => {
                    self.notify_peers(node, false);
                    self.node_events.push_back(NodeEvent::Down(node));
                }
                Event::LinkFailed(node) => {
                    self.node_events.push_back(NodeEvent::LinkFailed(node));
                }
                Event::Unpin(pin) => self.objects.unpin(&mut self.memory, pin),
            }
        }
    }

    /// Counts a request that is to wait, for the process it comes from and its user: the handle's
    /// opener where the request does not say.
    ///
    /// # Errors
    /// `ENOMEM`: too many of theirs wait.
    pub fn begin_wait(
        &mut self,
        handle: HandleId,
        process: usize,
        user: Option<u32>,
        request: R,
    ) -> Result<()> {
        let opener = self.handles.caller(handle).map(|caller| caller.uid);
        let owner = Owner {
            process: process as u32,
            user: user.or(opener.ok()).unwrap_or_default(),
        };
        self.requests.charge(&mut self.engine, request, owner)
    }

    /// A request does not wait any more.
    pub fn end_of_wait(&mut self, request: R) {
        self.requests.discharge(&mut self.engine, request);
    }
}

/// Endpoints and their handles.
impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    fn insert_endpoint(&mut self, opening: Opening, mut endpoint: Endpoint<R>) -> HandleId {
        let endpoint_id = endpoint.id();
        let name = opening.name();
        let has_messages = name.content == Content::Messages && !endpoint.is_listening();
        if has_messages {
            let is_server = matches!(name.path, Path::Accept(_));
            self.carry_messages(&mut endpoint, is_server);
        }
        let handle = Handle::new(opening, Kind::Endpoint(endpoint));
        let id = self.handles.insert(handle);
        self.requests.watch_for_handle(endpoint_id, id);
        if has_messages {
            self.greeting.insert(endpoint_id, id);
            self.go_on_with_set_up(id);
        }
        id
    }

    /// Puts `endpoint` behind the handle, whose own endpoint is closed.
    fn replace_endpoint(&mut self, id: HandleId, endpoint: EndpointId) -> Result<()> {
        let old = self.handles.endpoint(id)?.replace(endpoint);
        self.drop_endpoint(old);
        self.requests.watch_for_handle(endpoint, id);
        // Subscribers are asked anew, of this endpoint.
        self.requests.wake_handle(id);
        Ok(())
    }

    fn drop_endpoint(&mut self, endpoint: EndpointId) {
        self.greeting.remove(&endpoint);
        self.engine.close(&mut self.memory, endpoint);
        // Requests' tickets have ended, and no event follows.
        self.requests.endpoint_gone(endpoint);
    }
}

/// The parts, for tests.
#[cfg(test)]
impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    pub(crate) fn handles(&mut self) -> &mut Handles<R> {
        &mut self.handles
    }

    pub(crate) fn requests(&mut self) -> &mut Requests<R> {
        &mut self.requests
    }

    pub(crate) fn listeners(&self) -> &Listeners<R> {
        &self.listeners
    }
}
