//! The scheme: handles over endpoints, and requests that wait for the engine.
//!
//! Every function answers at once. One that cannot yet answers `EWOULDBLOCK` and remembers, under
//! the name `request`, what it has begun; the caller keeps the request and calls the same function
//! with the same arguments again when [`Scif::take_changes`] names the request or its handle. A
//! request that is given up meanwhile is told by [`Scif::cancel`], which undoes what was begun.

pub(crate) mod files;
pub(crate) mod operation;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::Hash;

use hashbrown::HashMap;
use scif_abi::call::PinRecord;
use scif_abi::limits::{LinkTiming, MAX_ENDPOINTS, TEXT_UNIT_BYTES};
use scif_abi::{NodeId, Port};
use scif_core::{
    CopyEngine, EndpointId, Engine, Event, FairQueue, Memory, Owner, Place, Resource, Run, Ticket,
};
use syscall::error::{EBADF, ENOTTY, EWOULDBLOCK, Error, Result};

use crate::access::{Access, Caller};
use crate::handle::{Endpoint, Handle, HandleId, Kind};
use crate::memory::{Building, Object, Token};
use crate::path::{Path, TextFile};
use crate::scif::files::cards::{Card, CardCommand};

/// The handle of the scheme's root directory.
pub const ROOT: HandleId = 0;

/// Handles one daemon keeps at most: one for each endpoint there can be, and as many files.
pub const MAX_HANDLES: usize = 2 * MAX_ENDPOINTS;

/// Requests that may wait on a listener opened by path. An operation on an endpoint chooses its
/// own; 128 is what servers usually ask for.
pub const DEFAULT_BACKLOG: i32 = 128;

/// Bytes copied in one go, and how many times in one turn of the event loop: a few hundred
/// microseconds, so that nobody else has to wait for long.
const COPY_SLICE_BYTES: usize = 256 * 1024;
/// As above.
const COPY_SLICES: usize = 4;

/// What names a request: unique among those that wait.
pub trait RequestId: Copy + Ord + Hash {}

impl<T: Copy + Ord + Hash> RequestId for T {}

/// What the engine works on: shared memory, and doorbells to the nodes it shares it with. Beside
/// that the memory of objects, which programs map and the engine knows as runs of pages; an object
/// is named by its token.
pub trait Fabric: Memory {
    /// A program's address space, as the program sent it.
    type Space;

    /// Rings the doorbell of `node`: there are messages in its ring.
    fn ring(&mut self, node: NodeId);

    /// 64 random bits that nobody can guess.
    fn random(&mut self) -> u64;

    /// Bytes of own memory that are handed out to the engine at present.
    fn allocated_bytes(&self) -> usize;

    /// Begins an object of `pages` zeroed pages; [`build`](Self::build) completes it.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn provide(&mut self, token: Token, pages: u64) -> Result<()>;

    /// Lets go of a space that nothing is to be pinned of. Whoever holds the last reference to one
    /// may have to tear it down, so this is not for the task that serves the scheme to do.
    fn let_go(&mut self, space: Self::Space);

    /// Begins an object of pages of the program behind `space`, whole ones; [`build`](Self::build)
    /// completes it.
    ///
    /// # Errors
    /// `ENOMEM`.
    fn pin(&mut self, token: Token, space: Self::Space, record: &PinRecord) -> Result<()>;

    /// Does a bounded piece of the work on an object.
    ///
    /// # Errors
    /// `ENOMEM`; `EINVAL` when what was sent is no address space; `EFAULT` when a page to be pinned
    /// is not there, does not allow what the record says, or is no ordinary memory.
    fn build(&mut self, token: Token) -> Result<Progress>;

    /// Gives up an object, complete or not.
    fn discard(&mut self, token: Token);

    /// Address of an object's first byte in this task; the others follow.
    fn view(&self, token: Token) -> Option<usize>;

    /// Address in this task of `bytes` contiguous bytes at a place; `None` when it has none.
    fn view_of(&self, place: Place, bytes: usize) -> Option<usize>;

    /// Makes pieces, of own memory or all of one peer's, one range of addresses in this task,
    /// unless they are one already. `None` when that cannot be.
    fn join(&mut self, pieces: &[(Place, u64)]) -> Option<View>;

    /// A range that [`join`](Self::join) made is needed no longer.
    fn end_join(&mut self, id: JoinId);

    /// Address of a place for this node's processors and devices; `None` when it has none.
    fn physical(&self, place: Place) -> Option<u64>;
}

/// Names a range of addresses that was made of pieces.
pub type JoinId = u64;

/// Pieces of memory as one range of addresses in this task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct View {
    /// Of the first byte.
    pub address: usize,
    /// For [`Fabric::end_join`], if the range was made for this.
    pub join: Option<JoinId>,
}

/// How far an object is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Progress {
    /// There is more to do.
    More,
    /// Somebody else is at work; the driver's loop wakes when that has changed.
    Waits,
    /// It is complete: its runs, in order.
    Complete(Vec<Run>),
}

/// What the node's driver has to know of the engine's events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum News {
    /// The node is online.
    Up(NodeId),
    /// The node is no longer online.
    Down(NodeId),
    /// The link to the node must be reset; see [`Event::LinkFailed`].
    LinkFailed(NodeId),
    /// An administrator wants this of the card that is this node.
    Card(NodeId, CardCommand),
}

/// What the driver's event loop has done since its start; shown by the file `stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoopCounters {
    /// Turns of the loop: each begins with what the event queue had to tell.
    pub turns: u64,
    /// Interrupts of links.
    pub interrupts: u64,
    /// Requests taken, notices of closed handles and cancellations included.
    pub requests: u64,
    /// Reads of the scheme's socket.
    pub request_reads: u64,
    /// Answers and events given.
    pub answers: u64,
    /// Writes to the scheme's socket.
    pub answer_writes: u64,
    /// Times a kept request was tried again.
    pub retries: u64,
}

impl LoopCounters {
    /// Names and values for the file.
    pub(crate) fn lines(&self) -> [(&'static str, u64); 7] {
        [
            ("turns", self.turns),
            ("interrupts", self.interrupts),
            ("requests", self.requests),
            ("request_reads", self.request_reads),
            ("answers", self.answers),
            ("answer_writes", self.answer_writes),
            ("retries", self.retries),
        ]
    }
}

/// What happened since the last look; something may be named more than once.
#[derive(Debug, Eq, PartialEq)]
pub struct Changes<R> {
    /// Handles whose waiting requests may be answered now, and whose readiness may be another.
    pub handles: Vec<HandleId>,
    /// Requests that may be answered now.
    pub requests: Vec<R>,
    /// Whether data moved, though perhaps no request could be answered.
    pub progress: bool,
}

impl<R> Default for Changes<R> {
    fn default() -> Self {
        Self {
            handles: Vec::new(),
            requests: Vec::new(),
            progress: false,
        }
    }
}

/// Whom a change of an endpoint concerns.
pub(crate) struct Interest<R> {
    pub handle: Option<HandleId>,
    pub requests: BTreeSet<R>,
}

impl<R> Default for Interest<R> {
    fn default() -> Self {
        Self {
            handle: None,
            requests: BTreeSet::new(),
        }
    }
}

/// Where an accept takes its connections from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A listening handle.
    Handle(HandleId),
    /// The listener of this port that `accept/<port>` shares.
    Shared(Port),
}

/// What a waiting request has begun.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    /// `open` of a connection; the endpoint has no handle yet.
    Dial { endpoint: EndpointId },
    /// `connect` of an endpoint that has one.
    Connect { endpoint: EndpointId },
    /// An accept; `granted` is the new endpoint while its connector has not acknowledged.
    Accept {
        source: Source,
        caller: Caller,
        granted: Option<EndpointId>,
    },
    /// A blocking transfer, in line in the handle's lane.
    Send { handle: HandleId },
    /// As above.
    Receive { handle: HandleId },
    /// A call that the engine has given a ticket for.
    Ticket {
        endpoint: EndpointId,
        ticket: Ticket,
    },
    /// Waiting until an endpoint is ready; the handle is its own or that of a direct client.
    Ready {
        handle: HandleId,
        endpoint: EndpointId,
    },
    /// Waiting until nothing of a closed endpoint is under way.
    Departure { endpoint: EndpointId },
    /// Making a memory object.
    Memory { handle: HandleId, token: Token },
    /// Nothing any more: this is the answer.
    Ended(Result<usize>),
}

/// The listener behind `accept/<port>` and the opens that wait at it.
pub(crate) struct SharedListener<R> {
    pub endpoint: EndpointId,
    /// The handle it belongs to; without one it is ours and goes with the last open.
    pub handle: Option<HandleId>,
    pub owner: Caller,
    pub opens: BTreeSet<R>,
}

/// A connection that an accept operation has handed out as a number and nobody has fetched.
pub(crate) struct Unclaimed {
    pub endpoint: EndpointId,
    pub listener: HandleId,
    pub caller: Caller,
}

/// The scheme's state. `F` is memory and doorbells, `R` names requests.
pub struct Scif<F: Fabric, R> {
    pub(crate) engine: Engine,
    pub(crate) fabric: F,
    pub(crate) handles: BTreeMap<HandleId, Handle<R>>,
    last_handle: HandleId,
    pub(crate) interest: BTreeMap<EndpointId, Interest<R>>,
    pub(crate) waiting: HashMap<R, Waiting>,
    /// For whom requests that wait are counted.
    pub(crate) charged: HashMap<R, Owner>,
    pub(crate) shared: BTreeMap<Port, SharedListener<R>>,
    /// Listening handles by port.
    pub(crate) listeners: BTreeMap<Port, HandleId>,
    pub(crate) unclaimed: BTreeMap<u64, Unclaimed>,
    pub(crate) last_claim: u64,
    pub(crate) objects: BTreeMap<Token, Object>,
    /// Objects that are not complete.
    pub(crate) building: BTreeMap<Token, Building<R>>,
    /// Address spaces that programs sent over memory handles, until they say what to pin.
    pub(crate) spaces: BTreeMap<HandleId, F::Space>,
    /// How many pages are mapped of each range that was made of pieces.
    pub(crate) joins: BTreeMap<JoinId, u64>,
    /// Pages of objects by the user they count against.
    pub(crate) provided: BTreeMap<u32, u64>,
    /// Slices of copying that this turn still has.
    slices_left: usize,
    /// Transfers whose data is beside their call and that go on at a later turn, with the process
    /// they are counted for.
    stepping: BTreeMap<R, u32>,
    /// In which order they go on.
    steps: FairQueue<R>,
    /// Handles of the file `peers`.
    pub(crate) peers: BTreeSet<HandleId>,
    pub(crate) changes: Changes<R>,
    pub(crate) news: VecDeque<News>,
    pub(crate) cards: Vec<Card>,
    pub(crate) loop_counters: LoopCounters,
    pub(crate) timing: LinkTiming,
}

/// The engine's error as the system's.
pub(crate) fn system(error: scif_abi::Error) -> Error {
    Error::new(error.errno())
}

pub(crate) const fn would_block<T>() -> Result<T> {
    Err(Error { errno: EWOULDBLOCK })
}

impl<F: Fabric, R: RequestId> Scif<F, R> {
    /// A scheme without open handles except its root.
    pub fn new(engine: Engine, fabric: F) -> Self {
        let nobody = Caller {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let root = Handle::new(Path::Root, Access::of_flags(0), nobody, Kind::Directory);
        Self {
            engine,
            fabric,
            handles: BTreeMap::from([(ROOT, root)]),
            last_handle: ROOT,
            interest: BTreeMap::new(),
            waiting: HashMap::new(),
            charged: HashMap::new(),
            shared: BTreeMap::new(),
            listeners: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            last_claim: 0,
            objects: BTreeMap::new(),
            building: BTreeMap::new(),
            spaces: BTreeMap::new(),
            joins: BTreeMap::new(),
            provided: BTreeMap::new(),
            slices_left: 0,
            stepping: BTreeMap::new(),
            steps: FairQueue::default(),
            peers: BTreeSet::new(),
            changes: Changes::default(),
            news: VecDeque::new(),
            cards: Vec::new(),
            loop_counters: LoopCounters::default(),
            timing: LinkTiming::default(),
        }
    }

    /// The engine and its memory, for those who bring links up and down. Events that follow from
    /// what is done with them are taken by the next [`take_changes`](Self::take_changes).
    pub fn engine(&mut self) -> (&mut Engine, &mut F) {
        (&mut self.engine, &mut self.fabric)
    }

    /// Begins a turn of the event loop, which has its share of the work that goes on by itself:
    /// copies, transfers whose data is beside their call, objects to be completed.
    pub fn begin_turn(&mut self) {
        self.slices_left = COPY_SLICES;
        self.build_all();
        for _ in 0..COPY_SLICES {
            let Some(request) = self.steps.pop() else {
                break;
            };
            self.stepping.remove(&request);
            self.changes.requests.push(request);
        }
    }

    /// A transfer made through a handle goes on at a later turn.
    pub(crate) fn step_later(&mut self, id: HandleId, request: R) {
        let charged = self.charged.get(&request).map(|owner| owner.process);
        let opener = || {
            self.handle(id)
                .map_or(0, |handle| handle.caller.owner().process)
        };
        let process = charged.unwrap_or_else(opener);
        if self.stepping.insert(request, process).is_none() {
            self.steps.push(process, request);
        }
    }

    /// A transfer does not go on.
    pub(crate) fn stop_stepping(&mut self, request: R) {
        if let Some(process) = self.stepping.remove(&request) {
            self.steps.remove(process, &request);
        }
    }

    /// Whether there is more work to do right away, so that the loop should not sleep but begin
    /// its next turn.
    pub fn is_busy(&self) -> bool {
        let builds = self.building.values().any(|building| !building.waits);
        self.engine.has_work() || builds || !self.steps.is_empty()
    }

    /// What the file `stats` shall tell of the event loop.
    pub fn set_loop_counters(&mut self, counters: LoopCounters) {
        self.loop_counters = counters;
    }

    /// What happened to nodes, oldest first.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Takes the engine's events (which rings doorbells), lets `copier` do what is left of the
    /// turn's copies, and tells what to look at again. The caller empties what it gets.
    pub fn take_changes(&mut self, copier: &mut dyn CopyEngine) -> &mut Changes<R> {
        self.take_events();
        if self.engine.awaits_copies() {
            // What has completed may be all that there is to do.
            self.engine.pump(&mut self.fabric, copier, COPY_SLICE_BYTES);
            self.take_events();
        }
        while self.slices_left > 0 && self.engine.has_work() {
            self.slices_left -= 1;
            self.engine.pump(&mut self.fabric, copier, COPY_SLICE_BYTES);
            self.take_events();
        }
        &mut self.changes
    }

    fn take_events(&mut self) {
        while let Some(event) = self.engine.next_event(&mut self.fabric) {
            match event {
                Event::Changed(endpoint) => {
                    if let Some(interest) = self.interest.get(&endpoint) {
                        self.changes.handles.extend(interest.handle);
                        self.changes.requests.extend(&interest.requests);
                    }
                }
                Event::Departed(endpoint) => {
                    if let Some(interest) = self.interest.remove(&endpoint) {
                        self.changes.requests.extend(interest.requests);
                    }
                }
                Event::Ring(node) => self.fabric.ring(node),
                Event::NodeUp(node) => {
                    self.tell_peers(node, true);
                    self.news.push_back(News::Up(node));
                }
                Event::NodeDown(node) => {
                    self.tell_peers(node, false);
                    self.news.push_back(News::Down(node));
                }
                Event::LinkFailed(node) => self.news.push_back(News::LinkFailed(node)),
                Event::Unpin(pin) => self.released(pin),
            }
        }
    }

    pub(crate) fn handle(&self, id: HandleId) -> Result<&Handle<R>> {
        self.handles.get(&id).ok_or(Error::new(EBADF))
    }

    pub(crate) fn handle_mut(&mut self, id: HandleId) -> Result<&mut Handle<R>> {
        self.handles.get_mut(&id).ok_or(Error::new(EBADF))
    }

    /// The handle's endpoint.
    ///
    /// # Errors
    /// `EBADF`, also when it was shut down; `ENOTTY` when it is something else.
    pub(crate) fn endpoint(&mut self, id: HandleId) -> Result<&mut Endpoint<R>> {
        match self.handles.get_mut(&id) {
            Some(Handle {
                kind: Kind::Endpoint(endpoint),
                ..
            }) => Ok(endpoint),
            Some(Handle {
                kind: Kind::Closed, ..
            })
            | None => Err(Error::new(EBADF)),
            Some(_) => Err(Error::new(ENOTTY)),
        }
    }

    pub(crate) fn insert(&mut self, handle: Handle<R>) -> HandleId {
        self.last_handle += 1;
        self.handles.insert(self.last_handle, handle);
        self.last_handle
    }

    /// Adds a handle that is neither an endpoint nor a direct one, which count elsewhere. A text
    /// counts for more than one file.
    ///
    /// # Errors
    /// `ENOMEM`: the caller has too many. Root gets at the limits in any case.
    pub(crate) fn insert_file(&mut self, mut handle: Handle<R>) -> Result<HandleId> {
        let texts = handle.size() as usize / TEXT_UNIT_BYTES;
        handle.files = 1 + texts as u64;
        let owner = handle.caller.owner();
        if handle.path == Path::Text(TextFile::Limits) && handle.caller.uid == 0 {
            self.engine
                .charge_anyway(owner, Resource::Files, handle.files);
        } else {
            let charged = self.engine.charge(owner, Resource::Files, handle.files);
            charged.map_err(system)?;
        }
        Ok(self.insert(handle))
    }

    pub(crate) fn insert_endpoint(
        &mut self,
        path: Path,
        access: Access,
        caller: Caller,
        endpoint: Endpoint<R>,
    ) -> HandleId {
        let endpoint_id = endpoint.id;
        let kind = Kind::Endpoint(endpoint);
        let id = self.insert(Handle::new(path, access, caller, kind));
        self.interest.insert(
            endpoint_id,
            Interest {
                handle: Some(id),
                requests: BTreeSet::new(),
            },
        );
        id
    }

    /// Puts `endpoint` behind the handle, whose own endpoint is closed.
    pub(crate) fn replace_endpoint(&mut self, id: HandleId, endpoint: EndpointId) -> Result<()> {
        let handle = self.endpoint(id)?;
        let old = core::mem::replace(&mut handle.id, endpoint);
        handle.subscribed = None;
        self.drop_endpoint(old);
        let interest = Interest {
            handle: Some(id),
            requests: BTreeSet::new(),
        };
        self.interest.insert(endpoint, interest);
        // Whoever has subscribed is asked anew, of this endpoint.
        self.changes.handles.push(id);
        Ok(())
    }

    pub(crate) fn drop_endpoint(&mut self, endpoint: EndpointId) {
        self.engine.close(&mut self.fabric, endpoint);
        if let Some(interest) = self.interest.remove(&endpoint) {
            // Their tickets have ended, and nothing else will tell them.
            self.changes.requests.extend(interest.requests);
        }
    }

    pub(crate) fn wake_with(&mut self, endpoint: EndpointId, request: R) {
        self.interest
            .entry(endpoint)
            .or_default()
            .requests
            .insert(request);
    }
}
