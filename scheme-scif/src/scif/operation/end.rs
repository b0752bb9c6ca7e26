//! Ends: of waits, of requests that are given up, of handles.

use alloc::vec::Vec;

use scif_abi::PortId;
use scif_core::{EndpointId, Resource};
use syscall::error::{ECANCELED, Error, Result};

use crate::handle::{Endpoint, HandleId, Kind};
use crate::scif::{Fabric, ROOT, RequestId, Scif, Source, Waiting, would_block};

impl<F: Fabric, R: RequestId> Scif<F, R> {
    /// Forgets what `request` has begun, apart from endpoints it may have made.
    pub(crate) fn end_wait(&mut self, request: R) {
        self.stop_stepping(request);
        match self.waiting.remove(&request) {
            Some(Waiting::Accept {
                source: Source::Shared(port),
                ..
            }) => {
                self.leave_shared(port, request);
            }
            Some(Waiting::Accept {
                source: Source::Handle(id),
                ..
            }) => {
                if let Ok(endpoint) = self.endpoint(id).map(|endpoint| endpoint.id) {
                    self.lose_interest(endpoint, request);
                }
            }
            Some(
                Waiting::Connect { endpoint }
                | Waiting::Ticket { endpoint, .. }
                | Waiting::Ready { endpoint, .. },
            ) => {
                self.lose_interest(endpoint, request);
            }
            Some(Waiting::Departure { endpoint }) => {
                self.lose_interest(endpoint, request);
                // Nobody else removes what is kept for an endpoint that is closed.
                let interest = self.interest.get(&endpoint);
                if interest.is_some_and(|interest| interest.requests.is_empty()) {
                    self.interest.remove(&endpoint);
                }
            }
            _ => {}
        }
    }

    /// Answers a waiting request: the next look at it finds this.
    pub(crate) fn end_with(&mut self, request: R, result: Result<usize>) {
        self.waiting.insert(request, Waiting::Ended(result));
        self.changes.requests.push(request);
    }

    /// The answer to a request that has ended while nobody looked.
    pub(crate) fn take_ended(&mut self, request: R) -> Option<Result<usize>> {
        let &Waiting::Ended(result) = self.waiting.get(&request)? else {
            return None;
        };
        self.waiting.remove(&request);
        Some(result)
    }

    fn lose_interest(&mut self, endpoint: EndpointId, request: R) {
        if let Some(interest) = self.interest.get_mut(&endpoint) {
            interest.requests.remove(&request);
        }
    }

    /// The caller of a waiting request gave it up: undoes what it has begun. A transfer that has
    /// moved bytes returns their count, so that nobody sends them again.
    ///
    /// # Errors
    /// `ECANCELED` when nothing had been moved.
    pub fn cancel(&mut self, request: R) -> Result<usize> {
        if let Some(ended) = self.take_ended(request) {
            return ended;
        }
        self.stop_stepping(request);
        let mut moved = 0;
        match self.waiting.get(&request).copied() {
            Some(Waiting::Dial { endpoint }) => {
                self.waiting.remove(&request);
                self.drop_endpoint(endpoint);
            }
            Some(Waiting::Connect { endpoint }) => {
                self.engine.connect_cancel(&mut self.fabric, endpoint);
                self.end_wait(request);
            }
            Some(Waiting::Accept { granted, .. }) => {
                if let Some(endpoint) = granted {
                    self.drop_endpoint(endpoint);
                }
                self.end_wait(request);
            }
            Some(Waiting::Send { handle } | Waiting::Receive { handle }) => {
                moved = self.leave_lane(handle, request);
            }
            Some(Waiting::Ready { .. } | Waiting::Departure { .. }) => self.end_wait(request),
            Some(Waiting::Ticket { ticket, .. }) => {
                self.engine.abandon(&mut self.fabric, ticket);
                self.end_wait(request);
            }
            Some(Waiting::Memory { handle, token }) => {
                self.waiting.remove(&request);
                self.cancel_make(handle, token);
            }
            Some(Waiting::Ended(_)) | None => {}
        }
        if moved > 0 {
            Ok(moved)
        } else {
            Err(Error::new(ECANCELED))
        }
    }

    /// The last descriptor of a handle is gone. Its waiting requests have been cancelled before.
    pub fn close(&mut self, id: HandleId) {
        if id == ROOT {
            return;
        }
        let Some(handle) = self.handles.remove(&id) else {
            return;
        };
        // There are none unless the kernel lost count; nobody would ever give them back.
        for &range in handle.mapped.iter() {
            self.forget_mapped(range);
        }
        if handle.files > 0 {
            let owner = handle.caller.owner();
            self.engine.discharge(owner, Resource::Files, handle.files);
        }
        let space = self.spaces.remove(&id);
        self.refuse_space(space);
        match handle.kind {
            Kind::Endpoint(endpoint) => self.close_endpoint(id, &endpoint),
            Kind::Memory(Some(token)) => self.let_go(token),
            Kind::Direct(direct) => self.engine.close_bypass(&mut self.fabric, direct.id),
            Kind::Peers(_) => {
                self.peers.remove(&id);
            }
            _ => {}
        }
    }

    fn close_endpoint(&mut self, id: HandleId, endpoint: &Endpoint<R>) {
        if endpoint.listening {
            self.close_listener(id, endpoint.id);
        }
        self.drop_endpoint(endpoint.id);
    }

    /// `scif_close` for a file that lives on in mappings: the endpoint is closed, those who wait on
    /// it are interrupted, and the handle keeps nothing but what is mapped through it. Waits until
    /// nothing of the endpoint is under way; on a handle for its end that is all, and there is
    /// nothing to wait for while the endpoint is not closed.
    pub(crate) fn shut_down(&mut self, id: HandleId, request: R) -> Result<usize> {
        let endpoint = match (self.waiting.get(&request), &self.handle(id)?.kind) {
            (Some(&Waiting::Departure { endpoint }), _) | (_, &Kind::End(endpoint)) => endpoint,
            _ => self.close_early(id)?,
        };
        if self.engine.is_departing(endpoint) {
            self.wake_with(endpoint, request);
            self.waiting
                .insert(request, Waiting::Departure { endpoint });
            return would_block();
        }
        self.end_wait(request);
        Ok(0)
    }

    /// Closes the endpoint of a handle that stays.
    fn close_early(&mut self, id: HandleId) -> Result<EndpointId> {
        let endpoint = self.endpoint(id)?.id;
        let here = |waiting: &Waiting| match *waiting {
            Waiting::Connect { endpoint: at } => at == endpoint,
            Waiting::Accept {
                source: Source::Handle(at),
                ..
            }
            | Waiting::Send { handle: at }
            | Waiting::Receive { handle: at }
            | Waiting::Ready { handle: at, .. } => at == id,
            // Tickets end with the endpoint.
            _ => false,
        };
        let waiting = self.waiting.iter().filter(|(_, waiting)| here(waiting));
        let requests: Vec<R> = waiting.map(|(&request, _)| request).collect();
        for request in requests {
            let moved = self.cancel(request);
            // Not EINTR: a kernel takes that for the answer to an interruption that did not happen.
            self.end_with(request, moved.map_err(|_| Error::new(ECANCELED)));
        }
        let handle = self.handle_mut(id)?;
        if let Kind::Endpoint(endpoint) = core::mem::replace(&mut handle.kind, Kind::Closed) {
            // What is left of it is a file like others.
            handle.files = 1;
            let owner = handle.caller.owner();
            self.engine.charge_anyway(owner, Resource::Files, 1);
            self.close_endpoint(id, &endpoint);
        }
        self.changes.handles.push(id);
        Ok(endpoint)
    }

    fn close_listener(&mut self, id: HandleId, endpoint: EndpointId) {
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        self.listeners.remove(&port);
        if self
            .shared
            .get(&port)
            .is_some_and(|shared| shared.handle == Some(id))
        {
            // Those who wait at accept/<port> listen by themselves from now on.
            if let Some(shared) = self.shared.remove(&port) {
                self.changes.requests.extend(shared.opens);
            }
        }
        let stale: Vec<u64> = self
            .unclaimed
            .iter()
            .filter(|(_, unclaimed)| unclaimed.listener == id)
            .map(|(&claim, _)| claim)
            .collect();
        for claim in stale {
            if let Some(unclaimed) = self.unclaimed.remove(&claim) {
                self.drop_endpoint(unclaimed.endpoint);
            }
        }
    }
}
