//! The scheme: handles over endpoints, and requests that wait for the engine.
//!
//! Every function answers at once. A function that cannot finish yet answers `EWOULDBLOCK` and
//! remembers, under the name `request`, what it has begun. The caller keeps the request and calls
//! the same function with the same arguments again when [`Scif::take_changes`] names the request
//! or its handle. If the request is given up meanwhile, [`Scif::cancel`] ends it and undoes what
//! was begun.
//!
//! The state consists of parts, each with an owner: handles, requests, listeners, memory objects.
//! An action on several parts is a flow: one file below `operation` for each group of operations,
//! and one below `files` for each text file.

pub(crate) mod files;
mod operation;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::limits::{LinkTiming, USUAL_BACKLOG};
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
use crate::spaces::Spaces;

/// Connection requests that may wait at a listener opened by path. An operation on an endpoint
/// chooses its own backlog.
pub const DEFAULT_BACKLOG: i32 = USUAL_BACKLOG;

/// Bytes copied in one slice. Together with [`COPY_SLICES`] this limits the copies of one
/// iteration of the event loop to a few hundred microseconds, so that other callers wait only
/// briefly.
const COPY_SLICE_BYTES: usize = 256 * 1024;
/// Slices of copies in one iteration of the event loop.
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
    /// An administrator's command for the card that is this node.
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
    /// Names and values for the file `stats`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self {
            turns,
            interrupts,
            socket,
        } = *self;
        let scheme::Counters {
            requests,
            reads,
            answers,
            writes,
            retries,
            others_first,
            watched,
        } = socket;
        [
            ("turns", turns),
            ("interrupts", interrupts),
            ("requests", requests),
            ("request_reads", reads),
            ("answers", answers),
            ("answer_writes", writes),
            ("retries", retries),
            ("others_first", others_first),
            ("watched", watched),
        ]
        .into_iter()
    }
}

/// The scheme's state. `M` is the node's memory, `R` names requests.
pub struct Scif<M: NodeMemory, R> {
    engine: Engine,
    memory: M,
    handles: Handles<R>,
    requests: Requests<R>,
    listeners: Listeners<R>,
    objects: MemoryObjects<R>,
    spaces: Spaces<M::Space>,
    /// Slices of copies that are left in this iteration.
    slices_left: usize,
    /// Connections that carry messages and whose set-up is not complete, with their handles.
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
            spaces: Spaces::default(),
            slices_left: 0,
            greeting: BTreeMap::new(),
            node_events: VecDeque::new(),
            cards: Vec::new(),
            loop_counters: LoopCounters::default(),
            timing: LinkTiming::default(),
        }
    }

    /// The engine and its memory, for the driver, which brings links up and down. The next
    /// [`take_changes`](Self::take_changes) takes the events that follow from its calls.
    pub fn engine(&mut self) -> (&mut Engine, &mut M) {
        (&mut self.engine, &mut self.memory)
    }

    /// Begins an iteration of the event loop, with its share of the work that continues by itself:
    /// copies, transfers whose data is beside their call, objects that are incomplete.
    pub fn begin_iteration(&mut self) {
        self.slices_left = COPY_SLICES;
        self.build_all();
        self.requests.wake_steps(COPY_SLICES);
    }

    /// Whether work is left, so that the loop should begin its next iteration instead of sleeping.
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

    /// The times after which the driver notices that a node is lost.
    pub fn link_timing(&self) -> LinkTiming {
        self.timing
    }

    /// The next event for the node's driver, oldest first.
    pub fn next_node_event(&mut self) -> Option<NodeEvent> {
        self.node_events.pop_front()
    }

    /// Takes the engine's events (which rings doorbells), lets `copier` do the rest of the
    /// iteration's copies, and returns what to try again. The caller empties the result.
    pub fn take_changes(&mut self, copier: &mut dyn CopyEngine) -> &mut Changes<R> {
        self.take_events();
        if self.engine.awaits_copies() {
            // Perhaps only completed transfers have to be reported.
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

    /// Counts a request that is about to wait, for its process and that process's user. If the
    /// request does not name the user, the handle's opener counts.
    ///
    /// # Errors
    /// `ENOMEM` when too many of theirs wait.
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

    /// Ends the count of a request that no longer waits.
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

    /// Replaces the endpoint behind the handle by `endpoint` and closes the old one.
    fn replace_endpoint(&mut self, id: HandleId, endpoint: EndpointId) -> Result<()> {
        let old = self.handles.endpoint(id)?.replace(endpoint);
        self.drop_endpoint(old);
        self.requests.watch_for_handle(endpoint, id);
        // Ask for the subscribers' readiness again, now of the new endpoint.
        self.requests.wake_handle(id);
        Ok(())
    }

    fn drop_endpoint(&mut self, endpoint: EndpointId) {
        self.greeting.remove(&endpoint);
        self.engine.close(&mut self.memory, endpoint);
        // Tickets of its requests have ended, and no event follows: wake the requests.
        self.requests.endpoint_gone(endpoint);
    }
}

/// Access to the parts, for tests.
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
