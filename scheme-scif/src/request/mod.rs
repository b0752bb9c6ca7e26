//! Requests that wait: the event that each is pending on, the owner for whom it is counted, what
//! wakes it, and which transfers continue by themselves.
//!
//! A request wakes when its endpoint or its handle changes, or by itself. [`Changes`] lists the
//! requests that the caller must retry.

pub(crate) mod transfer_queue;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use hashbrown::HashMap;
use scif_abi::Port;
use scif_core::{EndpointId, Engine, FairQueue, Owner, Resource, Side, Ticket};
use syscall::error::Result;

use crate::access::Caller;
use crate::error::system;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::Token;

/// Requests and handles to retry since the last call; one may be listed more than once.
#[derive(Debug, Eq, PartialEq)]
pub struct Changes<R> {
    /// Handles whose waiting requests may be answered now, and whose readiness may have changed.
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

/// The source of an accept's connections.
#[derive(Clone, Copy)]
pub(crate) enum AcceptSource {
    /// A listening handle.
    Handle(HandleId),
    /// The listener of this port that `accept/<port>` shares.
    Shared(Port),
}

/// The event that a waiting request is pending on.
#[derive(Clone, Copy)]
pub(crate) enum PendingOn {
    /// `open` of a connection; the endpoint has no handle yet.
    OpenConnect { endpoint: EndpointId },
    /// `open` of a connection that carries messages: the handle that it gives once the connection
    /// is set up.
    OpenMessages { handle: HandleId },
    /// `connect` of an endpoint that has a handle.
    Connect { endpoint: EndpointId },
    /// An accept; `granted` is the new endpoint while its connector has not acknowledged.
    Accept {
        source: AcceptSource,
        caller: Caller,
        granted: Option<EndpointId>,
    },
    /// A blocking transfer, in the transfer queue of its handle's side.
    Transfer { handle: HandleId, side: Side },
    /// A call for which the engine has given a ticket.
    Ticket {
        endpoint: EndpointId,
        ticket: Ticket,
    },
    /// A wait until an endpoint is ready; the handle is its own or that of a bypass client.
    Ready {
        handle: HandleId,
        endpoint: EndpointId,
    },
    /// A wait until nothing of a closed endpoint is under way.
    Departure { endpoint: EndpointId },
    /// Making a memory object.
    Memory { handle: HandleId, token: Token },
    /// Pinning pages for a call on the handle's endpoint.
    OwnPages { handle: HandleId, token: Token },
    /// Nothing any more: the request has this answer.
    Ended(Result<usize>),
}

impl PendingOn {
    /// An accept that has taken no connection yet.
    pub fn new_accept(source: AcceptSource, caller: Caller) -> Self {
        Self::Accept {
            source,
            caller,
            granted: None,
        }
    }
}

/// The handle and the requests that a change of an endpoint wakes.
struct Watchers<R> {
    handle: Option<HandleId>,
    requests: BTreeSet<R>,
}

impl<R> Default for Watchers<R> {
    fn default() -> Self {
        Self {
            handle: None,
            requests: BTreeSet::new(),
        }
    }
}

/// All requests that wait.
pub(crate) struct Requests<R> {
    pending: HashMap<R, PendingOn>,
    /// The owner for whom each request is counted.
    charged: HashMap<R, Owner>,
    watchers: BTreeMap<EndpointId, Watchers<R>>,
    /// Transfers whose data is beside their call and which continue at a later iteration, each
    /// with the process for which it is counted.
    stepping: BTreeMap<R, u32>,
    /// The order in which they continue.
    steps: FairQueue<R>,
    changes: Changes<R>,
}

impl<R> Default for Requests<R> {
    fn default() -> Self {
        Self {
            pending: HashMap::new(),
            charged: HashMap::new(),
            watchers: BTreeMap::new(),
            stepping: BTreeMap::new(),
            steps: FairQueue::default(),
            changes: Changes::default(),
        }
    }
}

/// The events that requests are pending on.
impl<R: RequestId> Requests<R> {
    /// The number of waiting requests.
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// The event that a request is pending on; `None` when it has begun nothing.
    pub fn pending(&self, request: R) -> Option<PendingOn> {
        self.pending.get(&request).copied()
    }

    /// Makes the request pending on `on`.
    pub fn suspend(&mut self, request: R, on: PendingOn) {
        self.pending.insert(request, on);
    }

    /// Ends what the request is pending on, and returns it.
    pub fn resume(&mut self, request: R) -> Option<PendingOn> {
        self.pending.remove(&request)
    }

    /// The requests that are pending on an event that `matches`.
    pub fn pending_on(&self, matches: impl Fn(&PendingOn) -> bool) -> Vec<R> {
        let found = self.pending.iter().filter(|(_, on)| matches(on));
        found.map(|(&request, _)| request).collect()
    }

    /// Answers a waiting request: the next retry finds this result.
    pub fn end_with(&mut self, request: R, result: Result<usize>) {
        self.suspend(request, PendingOn::Ended(result));
        self.wake(request);
    }

    /// The answer to a request that ended while it waited.
    pub fn take_ended(&mut self, request: R) -> Option<Result<usize>> {
        let PendingOn::Ended(result) = self.pending(request)? else {
            return None;
        };
        self.resume(request);
        Some(result)
    }

    /// Counts a request that is about to wait, for `owner`.
    ///
    /// # Errors
    /// `ENOMEM` when too many of the owner's requests wait.
    pub fn charge(&mut self, engine: &mut Engine, request: R, owner: Owner) -> Result<()> {
        let charged = engine.charge(owner, Resource::Requests, 1);
        charged.map_err(system)?;
        self.charged.insert(request, owner);
        Ok(())
    }

    /// Ends the count of a request that no longer waits.
    pub fn discharge(&mut self, engine: &mut Engine, request: R) {
        if let Some(owner) = self.charged.remove(&request) {
            engine.discharge(owner, Resource::Requests, 1);
        }
    }
}

/// The wake-ups of requests.
impl<R: RequestId> Requests<R> {
    /// The requests and handles to retry. The caller empties them.
    pub fn changes(&mut self) -> &mut Changes<R> {
        &mut self.changes
    }

    /// Records progress if bytes `moved`, even if no request could be answered.
    pub fn note_progress(&mut self, moved: bool) {
        self.changes.progress |= moved;
    }

    /// Has a request retried.
    pub fn wake(&mut self, request: R) {
        self.changes.requests.push(request);
    }

    /// Has the requests of a handle retried, and the readiness of its subscribers checked again.
    pub fn wake_handle(&mut self, id: HandleId) {
        self.changes.handles.push(id);
    }

    /// Has changes of an endpoint wake the handle, and no request so far.
    pub fn watch_for_handle(&mut self, endpoint: EndpointId, handle: HandleId) {
        let watchers = Watchers {
            handle: Some(handle),
            requests: BTreeSet::new(),
        };
        self.watchers.insert(endpoint, watchers);
    }

    /// Has changes of an endpoint wake the request, too.
    pub fn watch(&mut self, endpoint: EndpointId, request: R) {
        let watchers = self.watchers.entry(endpoint).or_default();
        watchers.requests.insert(request);
    }

    /// Ends the wake-ups of the request by changes of an endpoint.
    pub fn unwatch(&mut self, endpoint: EndpointId, request: R) {
        if let Some(watchers) = self.watchers.get_mut(&endpoint) {
            watchers.requests.remove(&request);
        }
    }

    /// [`unwatch`](Self::unwatch) for a closed endpoint: also removes its entry with its last
    /// request.
    pub fn unwatch_closed(&mut self, endpoint: EndpointId, request: R) {
        self.unwatch(endpoint, request);
        let watchers = self.watchers.get(&endpoint);
        if watchers.is_some_and(|watchers| watchers.requests.is_empty()) {
            self.watchers.remove(&endpoint);
        }
    }

    /// Ends all wake-ups by changes of an endpoint.
    pub fn unwatch_all(&mut self, endpoint: EndpointId) {
        self.watchers.remove(&endpoint);
    }

    /// Wakes the handle and the requests of an endpoint that has changed.
    pub fn endpoint_changed(&mut self, endpoint: EndpointId) {
        if let Some(watchers) = self.watchers.get(&endpoint) {
            self.changes.handles.extend(watchers.handle);
            self.changes.requests.extend(&watchers.requests);
        }
    }

    /// Wakes the requests of an endpoint that is gone. It does not change again.
    pub fn endpoint_gone(&mut self, endpoint: EndpointId) {
        if let Some(watchers) = self.watchers.remove(&endpoint) {
            self.changes.requests.extend(watchers.requests);
        }
    }

    /// Whether no endpoint wakes anything.
    #[cfg(test)]
    pub fn watches_nothing(&self) -> bool {
        self.watchers.is_empty()
    }
}

/// Transfers that continue by themselves.
impl<R: RequestId> Requests<R> {
    /// Has a transfer continue at a later iteration. `process` is that of its handle's opener, for
    /// a request that does not name its own.
    pub fn step_later(&mut self, request: R, process: u32) {
        let charged = self.charged.get(&request).map(|owner| owner.process);
        let process = charged.unwrap_or(process);
        if self.stepping.insert(request, process).is_none() {
            self.steps.push(process, request);
        }
    }

    /// Ends the continuation of a transfer.
    pub fn stop_stepping(&mut self, request: R) {
        if let Some(process) = self.stepping.remove(&request) {
            self.steps.remove(process, &request);
        }
    }

    /// Whether a transfer is waiting to continue.
    pub fn has_steps(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Wakes at most `count` of the transfers that continue.
    pub fn wake_steps(&mut self, count: usize) {
        for _ in 0..count {
            let Some(request) = self.steps.pop() else {
                break;
            };
            self.stepping.remove(&request);
            self.wake(request);
        }
    }
}
