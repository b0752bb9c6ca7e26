//! Listeners: those that programs opened, those that `accept/<port>` shares, and accepted
//! connections that no program has claimed yet.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use scif_abi::Port;
use scif_core::EndpointId;
use syscall::error::{EINVAL, ENOENT, Error, Result};

use crate::access::Caller;
use crate::ids::{HandleId, RequestId};
use crate::request::Requests;

/// The listener behind `accept/<port>` and the opens that wait at it.
struct SharedListener<R> {
    endpoint: EndpointId,
    /// The handle that the listener belongs to; `None`: it is the daemon's and goes with the last
    /// open.
    handle: Option<HandleId>,
    owner: Caller,
    opens: BTreeSet<R>,
}

/// A connection that an accept operation has returned as a number, and that is not claimed yet.
struct Unclaimed {
    endpoint: EndpointId,
    listener: HandleId,
    caller: Caller,
    /// The process that has the number.
    taker: usize,
}

/// All listeners.
pub(crate) struct Listeners<R> {
    /// Listening handles by port.
    handles: BTreeMap<Port, HandleId>,
    shared: BTreeMap<Port, SharedListener<R>>,
    unclaimed: BTreeMap<u64, Unclaimed>,
    last_claim: u64,
    /// The last process that `end_unclaimed` asked about.
    last_asked: usize,
}

impl<R> Default for Listeners<R> {
    fn default() -> Self {
        Self {
            handles: BTreeMap::new(),
            shared: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            last_claim: 0,
            last_asked: 0,
        }
    }
}

impl<R: RequestId> Listeners<R> {
    /// Records that a handle listens on a port.
    pub fn insert(&mut self, port: Port, id: HandleId) {
        self.handles.insert(port, id);
    }

    /// The handle that listens on a port.
    pub fn handle(&self, port: Port) -> Option<HandleId> {
        self.handles.get(&port).copied()
    }

    /// The ports that handles listen on.
    pub fn ports(&self) -> impl Iterator<Item = (Port, HandleId)> {
        self.handles.iter().map(|(&port, &id)| (port, id))
    }

    /// Records that a handle no longer listens. Returns the opens that shared its listener, which
    /// listen on their own from now on, and the unclaimed connections, which the caller closes.
    pub fn remove(&mut self, port: Port, id: HandleId) -> (BTreeSet<R>, Vec<EndpointId>) {
        self.handles.remove(&port);
        let shared = self.shared.get(&port);
        let is_its = shared.is_some_and(|shared| shared.handle == Some(id));
        let opens = match is_its {
            true => self.shared.remove(&port).map(|shared| shared.opens),
            false => None,
        };
        let closed = self.take_unclaimed(|unclaimed| unclaimed.listener == id);
        (opens.unwrap_or_default(), closed)
    }

    fn take_unclaimed(&mut self, which: impl Fn(&Unclaimed) -> bool) -> Vec<EndpointId> {
        let taken = self
            .unclaimed
            .extract_if(.., |_, unclaimed| which(unclaimed));
        taken.map(|(_, unclaimed)| unclaimed.endpoint).collect()
    }

    /// Takes the unclaimed connections of processes that have ended, which the caller closes. Asks
    /// about at most `most` processes; the next call asks about the next ones.
    pub fn take_of_the_gone(
        &mut self,
        most: usize,
        mut is_gone: impl FnMut(usize) -> bool,
    ) -> Vec<EndpointId> {
        let takers = self.unclaimed.values().map(|unclaimed| unclaimed.taker);
        let takers: BTreeSet<usize> = takers.collect();
        let first = self.last_asked.saturating_add(1);
        let turn = takers.range(first..).chain(takers.range(..first));
        let (mut gone, mut last) = (Vec::new(), self.last_asked);
        for &taker in turn.take(most) {
            last = taker;
            if is_gone(taker) {
                gone.push(taker);
            }
        }
        self.last_asked = last;
        self.take_unclaimed(|unclaimed| gone.contains(&unclaimed.taker))
    }

    /// Whether a connection waits to be claimed.
    pub fn has_unclaimed(&self) -> bool {
        !self.unclaimed.is_empty()
    }

    /// The endpoint of the shared listener of a port.
    pub fn shared(&self, port: Port) -> Option<EndpointId> {
        self.shared.get(&port).map(|shared| shared.endpoint)
    }

    /// Adds an open to the shared listener of a port, if there is one. Returns the listener's
    /// endpoint.
    ///
    /// # Errors
    /// `EINVAL` when the listener is another user's.
    pub fn join_shared(
        &mut self,
        port: Port,
        caller: Caller,
        request: R,
    ) -> Result<Option<EndpointId>> {
        let Some(shared) = self.shared.get_mut(&port) else {
            return Ok(None);
        };
        if !caller.may_share(shared.owner) {
            return Err(Error::new(EINVAL));
        }
        shared.opens.insert(request);
        Ok(Some(shared.endpoint))
    }

    /// Shares a listener between this open and later ones. With a `handle` it belongs to that
    /// handle.
    pub fn share(
        &mut self,
        port: Port,
        (endpoint, handle): (EndpointId, Option<HandleId>),
        owner: Caller,
        request: R,
    ) {
        let shared = SharedListener {
            endpoint,
            handle,
            owner,
            opens: BTreeSet::from([request]),
        };
        self.shared.insert(port, shared);
    }

    /// Removes an open from the shared listener of a port. Returns the endpoint to close if it was
    /// the last open at a listener of the daemon's own.
    pub fn leave_shared(
        &mut self,
        port: Port,
        request: R,
        requests: &mut Requests<R>,
    ) -> Option<EndpointId> {
        let shared = self.shared.get_mut(&port)?;
        shared.opens.remove(&request);
        requests.unwatch(shared.endpoint, request);
        if let Some(&next) = shared.opens.first() {
            // The accept that took the first request may leave others in the queue.
            requests.wake(next);
            return None;
        }
        let shared = self.shared.remove(&port)?;
        shared.handle.is_none().then_some(shared.endpoint)
    }

    /// Ports on which `accept/<port>` listens on its own, with the first opener.
    pub fn own_shared(&self) -> impl Iterator<Item = (Port, Caller)> {
        let shared = self.shared.iter();
        let own = shared.filter(|(_, shared)| shared.handle.is_none());
        own.map(|(&port, shared)| (port, shared.owner))
    }

    /// Keeps a connection until a program claims it by the returned number, which the process
    /// `taker` gets.
    pub fn keep(
        &mut self,
        endpoint: EndpointId,
        listener: HandleId,
        caller: Caller,
        taker: usize,
    ) -> u64 {
        self.last_claim += 1;
        let unclaimed = Unclaimed {
            endpoint,
            listener,
            caller,
            taker,
        };
        self.unclaimed.insert(self.last_claim, unclaimed);
        self.last_claim
    }

    /// Takes the connection with this number.
    ///
    /// # Errors
    /// `ENOENT` when there is none, or it is another user's.
    pub fn claim(&mut self, claim: u64, caller: Caller) -> Result<EndpointId> {
        let unclaimed = self.unclaimed.get(&claim).ok_or(Error::new(ENOENT))?;
        if !caller.may_share(unclaimed.caller) {
            return Err(Error::new(ENOENT));
        }
        let endpoint = unclaimed.endpoint;
        self.unclaimed.remove(&claim);
        Ok(endpoint)
    }

    /// Whether no handle listens, and no connection waits to be claimed.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.handles.is_empty() && self.unclaimed.is_empty()
    }
}
