//! Ends waits, cancelled requests and handles.

use core::task::Poll;

use scif_abi::PortId;
use scif_core::{EndpointId, Side};
use syscall::error::{ECANCELED, Error, Result};

use crate::error::{system, would_block};
use crate::handle::Kind;
use crate::handle::endpoint::Endpoint;
use crate::handle::table::ROOT;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::request::{AcceptSource, PendingOn};
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Forgets what `request` has begun, except for endpoints that it may have made.
    pub(in crate::scif) fn end_wait(&mut self, request: R) {
        self.requests.stop_stepping(request);
        match self.requests.resume(request) {
            Some(PendingOn::Accept {
                source: AcceptSource::Shared(port),
                ..
            }) => {
                let left = self
                    .listeners
                    .leave_shared(port, request, &mut self.requests);
                if let Some(endpoint) = left {
                    self.drop_endpoint(endpoint);
                }
            }
            Some(PendingOn::Accept {
                source: AcceptSource::Handle(id),
                ..
            }) => {
                if let Ok(endpoint) = self.handles.endpoint_id(id) {
                    self.requests.unwatch(endpoint, request);
                }
            }
            Some(
                PendingOn::Connect { endpoint }
                | PendingOn::Ticket { endpoint, .. }
                | PendingOn::Ready { endpoint, .. },
            ) => {
                self.requests.unwatch(endpoint, request);
            }
            Some(PendingOn::OpenMessages { handle }) => {
                if let Ok(endpoint) = self.handles.endpoint_id(handle) {
                    self.requests.unwatch(endpoint, request);
                }
            }
            Some(PendingOn::Departure { endpoint }) => {
                self.requests.unwatch_closed(endpoint, request);
            }
            _ => {}
        }
    }

    /// Undoes what a waiting request has begun, because its caller has given it up. If a transfer
    /// has moved bytes, returns their count, so that they are not sent again; if a connect has
    /// ended, its result.
    ///
    /// # Errors
    /// `ECANCELED` when nothing had been moved. Those of a connect.
    pub fn cancel(&mut self, request: R) -> Result<usize> {
        if let Some(ended) = self.requests.take_ended(request) {
            return ended;
        }
        self.requests.stop_stepping(request);
        let mut moved = 0;
        match self.requests.pending(request) {
            Some(PendingOn::OpenConnect { endpoint }) => {
                self.requests.resume(request);
                self.drop_endpoint(endpoint);
            }
            Some(PendingOn::OpenMessages { handle }) => {
                self.end_wait(request);
                self.give_up(handle);
            }
            Some(PendingOn::Connect { endpoint }) => {
                // It may have ended since the last look, and its result is to be had once only.
                if let Poll::Ready(result) = self.engine.connect_result(endpoint) {
                    self.end_wait(request);
                    return result.map(usize::from).map_err(system);
                }
                self.engine.connect_cancel(endpoint);
                self.end_wait(request);
            }
            Some(PendingOn::Accept {
                source, granted, ..
            }) => {
                if let Some(endpoint) = granted {
                    self.leave_to_next_accept(source, endpoint);
                }
                self.end_wait(request);
            }
            Some(PendingOn::Transfer { handle, side }) => {
                moved = self.leave_queue(handle, request);
                if moved > 0 && side == Side::Send && self.has_messages(handle) {
                    // A part of a message is of no use to its receiver.
                    self.cut_message(handle);
                    moved = 0;
                }
            }
            Some(PendingOn::Ready { .. } | PendingOn::Departure { .. }) => self.end_wait(request),
            Some(PendingOn::Ticket { ticket, .. }) => {
                self.engine.abandon(&mut self.memory, ticket);
                self.end_wait(request);
            }
            Some(PendingOn::Memory { handle, token }) => {
                self.requests.resume(request);
                self.cancel_make(handle, token);
            }
            Some(PendingOn::OwnPages { token, .. }) => {
                self.requests.resume(request);
                self.objects.release(&mut self.memory, token);
            }
            Some(PendingOn::Ended(_)) | None => {}
        }
        if moved > 0 {
            Ok(moved)
        } else {
            Err(Error::new(ECANCELED))
        }
    }

    /// Leaves a connection that was granted to an accept to the next one of its listener.
    fn leave_to_next_accept(&mut self, source: AcceptSource, new: EndpointId) {
        let listener = match source {
            AcceptSource::Handle(id) => self.handles.endpoint_id(id).ok(),
            AcceptSource::Shared(port) => self.listeners.shared(port),
        };
        match listener {
            Some(listener) => {
                self.requests.unwatch_all(new);
                self.engine.accept_abandon(&mut self.memory, listener, new);
            }
            None => self.drop_endpoint(new),
        }
    }

    /// Closes a handle whose last descriptor is gone. Its waiting requests were cancelled before.
    pub fn close(&mut self, id: HandleId) {
        if id == ROOT {
            return;
        }
        let Some(handle) = self.handles.remove(&mut self.engine, id) else {
            return;
        };
        // There are none unless the kernel lost count; otherwise they would never be released.
        for &range in handle.mapped() {
            self.forget_mapped(range);
        }
        for space in self.spaces.take_of_handle(id) {
            self.memory.release_space(space);
        }
        match handle.into_kind() {
            Kind::Endpoint(mut endpoint) => self.close_endpoint(id, &mut endpoint),
            Kind::Memory(Some(token)) => self.objects.release(&mut self.memory, token),
            Kind::Bypass(bypass) => self.engine.close_bypass(&mut self.memory, bypass.id()),
            _ => {}
        }
    }

    fn close_endpoint(&mut self, id: HandleId, endpoint: &mut Endpoint<R>) {
        self.end_messages(endpoint);
        if endpoint.is_listening() {
            self.close_listener(id, endpoint.id());
        }
        self.drop_endpoint(endpoint.id());
    }

    /// `scif_close` for a file that lives on in mappings: closes the endpoint and interrupts the
    /// requests that wait on it. The handle keeps only what is mapped through it. Waits until
    /// nothing of the endpoint is under way. On an `"end"` handle that wait is all, and it ends at
    /// once while the endpoint is not closed.
    pub(in crate::scif) fn shut_down(&mut self, id: HandleId, request: R) -> Result<usize> {
        let endpoint = match (self.requests.pending(request), self.handles.get(id)?.kind()) {
            (Some(PendingOn::Departure { endpoint }), _) | (_, &Kind::End(endpoint)) => endpoint,
            _ => self.close_early(id)?,
        };
        if self.engine.is_departing(endpoint) {
            self.requests.watch(endpoint, request);
            self.requests
                .suspend(request, PendingOn::Departure { endpoint });
            return would_block();
        }
        self.end_wait(request);
        Ok(0)
    }

    /// Closes the endpoint of a handle that stays.
    pub(in crate::scif) fn close_early(&mut self, id: HandleId) -> Result<EndpointId> {
        let endpoint = self.handles.endpoint_id(id)?;
        let here = |on: &PendingOn| match *on {
            PendingOn::Connect { endpoint: at } => at == endpoint,
            PendingOn::Accept {
                source: AcceptSource::Handle(at),
                ..
            }
            | PendingOn::Transfer { handle: at, .. }
            | PendingOn::OwnPages { handle: at, .. }
            | PendingOn::Ready { handle: at, .. } => at == id,
            // Tickets end with the endpoint.
            _ => false,
        };
        for request in self.requests.pending_on(here) {
            let moved = self.cancel(request);
            // Not EINTR: a kernel takes that as the answer to an interruption, which did not
            // happen.
            self.requests
                .end_with(request, moved.map_err(|_| Error::new(ECANCELED)));
        }
        if let Some(mut endpoint) = self.handles.take_endpoint(&mut self.engine, id)? {
            self.close_endpoint(id, &mut endpoint);
        }
        self.requests.wake_handle(id);
        Ok(endpoint)
    }

    /// Ends the connections that processes have taken with `AcceptRequest` and ended without
    /// claiming them; `is_gone` says whether a process has ended. Call this now and then; each call
    /// asks about at most `most` processes, the next call about the next ones.
    pub fn end_unclaimed(&mut self, most: usize, is_gone: impl FnMut(usize) -> bool) {
        for endpoint in self.listeners.take_of_the_gone(most, is_gone) {
            self.drop_endpoint(endpoint);
        }
    }

    /// Whether [`end_unclaimed`](Self::end_unclaimed) has to be called again.
    pub fn holds_unclaimed(&self) -> bool {
        self.listeners.has_unclaimed()
    }

    fn close_listener(&mut self, id: HandleId, endpoint: EndpointId) {
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        let (opens, unclaimed) = self.listeners.remove(port, id);
        // Requests that wait at accept/<port> listen on their own from now on.
        for request in opens {
            self.requests.wake(request);
        }
        for endpoint in unclaimed {
            self.drop_endpoint(endpoint);
        }
    }
}
