//! Accepts connections: from a listening descriptor, and from the listener that `accept/<port>`
//! shares.

use core::task::Poll;

use scif_abi::{Port, PortId};
use scif_core::EndpointId;
use syscall::error::{EINVAL, ENFILE, ENODEV, EWOULDBLOCK, Error, Result};

use crate::access::{Access, Caller};
use crate::error::{system, would_block};
use crate::handle::endpoint::Endpoint;
use crate::handle::{Kind, Opening};
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::path::{Content, Path};
use crate::request::{AcceptSource, PendingOn};
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    pub(in crate::scif) fn open_accept(
        &mut self,
        opening: Opening,
        request: R,
    ) -> Result<HandleId> {
        let endpoint = self.accept(request)?;
        Ok(self.insert_endpoint(opening, Endpoint::new(endpoint, false)))
    }

    /// `dup(listener, "accept")` takes one connection; it waits unless the listener has
    /// `O_NONBLOCK`. `"accept-wait"` always waits, `"accept-now"` never.
    ///
    /// `dup(endpoint, "window")`, `"cached-window"`, `"own-window"` and `"bypass"` return a handle
    /// for mappings; `"memory"` a memory handle, like opening that path; `"end"` a handle for
    /// waiting until nothing of the closed endpoint is under way. Handles whose connections carry
    /// messages have only the first three names.
    ///
    /// # Errors
    /// `EINVAL` for other names and for handles that do not listen; those of the operation behind
    /// each name.
    pub fn dup(
        &mut self,
        id: HandleId,
        name: &[u8],
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        if let Some(ended) = self.requests.take_ended(request) {
            return ended;
        }
        // A request that has begun keeps its place: its connector may already have the grant.
        if self.requests.pending(request).is_none() && self.handles.is_full() {
            return Err(Error::new(ENFILE));
        }
        let has_messages = self.handles.get(id)?.content() == Content::Messages;
        let synchronous = match name {
            b"accept" => !self.handles.endpoint(id)?.is_nonblocking(),
            b"accept-wait" => true,
            b"accept-now" => false,
            _ if has_messages => return Err(Error::new(EINVAL)),
            b"window" => return self.window_handle(id, caller, Kind::Window),
            b"cached-window" => return self.window_handle(id, caller, Kind::CachedWindow),
            b"bypass" => return self.bypass_handle(id, caller),
            b"own-window" => return self.window_handle(id, caller, Kind::OwnWindow),
            b"memory" => return self.memory_handle(id, caller),
            b"end" => return self.window_handle(id, caller, Kind::End),
            _ => return Err(Error::new(EINVAL)),
        };
        let endpoint = self.accept_from(id, caller, synchronous, request)?;
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        let name = self.handles.get(id)?.name().with(Path::Accept(port));
        let opening = Opening::new(name, Access::BOTH, caller);
        Ok(self.insert_endpoint(opening, Endpoint::new(endpoint, false)))
    }

    /// Takes one connection of a listening handle as an endpoint without a handle.
    pub(in crate::scif) fn accept_from(
        &mut self,
        id: HandleId,
        caller: Caller,
        synchronous: bool,
        request: R,
    ) -> Result<EndpointId> {
        if self.requests.pending(request).is_none() {
            if !self.handles.endpoint(id)?.is_listening() {
                return Err(Error::new(EINVAL));
            }
            let source = AcceptSource::Handle(id);
            self.requests
                .suspend(request, PendingOn::new_accept(source, caller));
        }
        let accepted = self.accept(request);
        let idle = matches!(
            self.requests.pending(request),
            Some(PendingOn::Accept { granted: None, .. })
        );
        // Even an accept that does not wait for connection requests waits for a handshake that has
        // begun: the handshake ends by itself, and the connector already has its grant.
        if !synchronous && idle {
            self.end_wait(request);
            return Err(system(scif_abi::Error::WouldBlock));
        }
        match accepted {
            // As documented for the case that no request waits: the connector did not complete its
            // own.
            Err(Error { errno: ENODEV }) if !synchronous => {
                Err(system(scif_abi::Error::WouldBlock))
            }
            accepted => accepted,
        }
    }

    /// Continues the accept of `request`: takes a connection request, grants it, waits for the
    /// connector. Skips connectors that have withdrawn meanwhile.
    fn accept(&mut self, request: R) -> Result<EndpointId> {
        let accepted = self.try_accept(request);
        if !matches!(accepted, Err(Error { errno: EWOULDBLOCK })) {
            self.end_wait(request);
        }
        accepted
    }

    fn try_accept(&mut self, request: R) -> Result<EndpointId> {
        loop {
            let Some(PendingOn::Accept {
                source,
                caller,
                granted,
            }) = self.requests.pending(request)
            else {
                return Err(Error::new(EINVAL));
            };
            let new = match granted {
                Some(new) => new,
                None => self.grant(source, caller, request)?,
            };
            let Poll::Ready(result) = self.engine.accept_finish(new) else {
                return would_block();
            };
            self.requests
                .suspend(request, PendingOn::new_accept(source, caller));
            self.requests.unwatch_all(new);
            match result {
                Ok(_) => return Ok(new),
                // The connector has withdrawn: take the next one.
                Err(scif_abi::Error::WouldBlock) => {}
                Err(error) => return Err(system(error)),
            }
        }
    }

    /// Takes a connection request and grants it. Returns the new endpoint.
    ///
    /// # Errors
    /// `EWOULDBLOCK` when there is none; the listener then wakes `request`.
    fn grant(&mut self, source: AcceptSource, caller: Caller, request: R) -> Result<EndpointId> {
        let listener = match source {
            AcceptSource::Handle(id) => self.handles.endpoint_id(id)?,
            AcceptSource::Shared(port) => self.shared_listener(port, caller, request)?,
        };
        let started = self
            .engine
            .accept_start(&mut self.memory, listener, caller.owner());
        let new = match started {
            Ok(new) => new,
            Err(scif_abi::Error::WouldBlock) => {
                self.requests.watch(listener, request);
                return would_block();
            }
            Err(error) => return Err(system(error)),
        };
        let granted = PendingOn::Accept {
            source,
            caller,
            granted: Some(new),
        };
        self.requests.suspend(request, granted);
        self.requests.watch(new, request);
        Ok(new)
    }

    /// The listener of `port` that opens of `accept/<port>` share; made if the port has no
    /// listener.
    ///
    /// # Errors
    /// `EINVAL` when the port is bound by something else, or by another user's listener.
    fn shared_listener(&mut self, port: Port, caller: Caller, request: R) -> Result<EndpointId> {
        if let Some(endpoint) = self.listeners.join_shared(port, caller, request)? {
            return Ok(endpoint);
        }
        let existing = self.listeners.handle(port);
        let (endpoint, owner) = match existing {
            Some(id) => {
                let owner = self.handles.caller(id)?;
                if !caller.may_share(owner) {
                    return Err(Error::new(EINVAL));
                }
                (self.handles.endpoint_id(id)?, owner)
            }
            None => (self.listen_on(port, caller)?.0, caller),
        };
        let listener = (endpoint, existing);
        self.listeners.share(port, listener, owner, request);
        Ok(endpoint)
    }
}
