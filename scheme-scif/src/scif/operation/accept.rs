//! Accepting: from a listening descriptor, and over the listener that `accept/<port>` shares.

use alloc::collections::BTreeSet;
use core::task::Poll;

use scif_abi::{Port, PortId};
use scif_core::EndpointId;
use syscall::error::{EINVAL, ENFILE, ENODEV, EWOULDBLOCK, Error, Result};

use crate::access::{Access, Caller};
use crate::handle::{Endpoint, HandleId, Kind};
use crate::path::Path;
use crate::scif::{
    Fabric, MAX_HANDLES, RequestId, Scif, SharedListener, Source, Waiting, system, would_block,
};

impl<F: Fabric, R: RequestId> Scif<F, R> {
    pub(crate) fn open_accept(
        &mut self,
        path: Path,
        access: Access,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        let endpoint = self.accept(request)?;
        let endpoint = Endpoint::new(endpoint, false);
        Ok(self.insert_endpoint(path, access, caller, endpoint))
    }

    /// `dup(listener, "accept")`: takes one connection; waits unless the listener has `O_NONBLOCK`.
    /// `"accept-wait"` and `"accept-now"` wait and do not, whatever it has.
    /// `dup(endpoint, "window")`, `"cached-window"`, `"own-window"`, `"bypass"`: a handle for
    /// mappings; `"memory"`: a memory handle, as opening that path gives it; `"end"`: one for
    /// waiting until nothing of the endpoint is under way once it is closed.
    ///
    /// # Errors
    /// `EINVAL` for other names and for handles that do not listen; those of the others.
    pub fn dup(
        &mut self,
        id: HandleId,
        name: &[u8],
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        if let Some(ended) = self.take_ended(request) {
            return ended;
        }
        if self.handles.len() >= MAX_HANDLES {
            return Err(Error::new(ENFILE));
        }
        let synchronous = match name {
            b"accept" => !self.endpoint(id)?.nonblocking,
            b"accept-wait" => true,
            b"accept-now" => false,
            b"window" => return self.window_handle(id, caller, Kind::Window),
            b"cached-window" => return self.window_handle(id, caller, Kind::CachedWindow),
            b"bypass" => return self.direct_handle(id, caller),
            b"own-window" => return self.window_handle(id, caller, Kind::OwnWindow),
            b"memory" => return self.memory_handle(id, caller),
            b"end" => return self.window_handle(id, caller, Kind::End),
            _ => return Err(Error::new(EINVAL)),
        };
        let endpoint = self.accept_from(id, caller, synchronous, request)?;
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        let endpoint = Endpoint::new(endpoint, false);
        Ok(self.insert_endpoint(Path::Accept(port), Access::BOTH, caller, endpoint))
    }

    /// Takes one connection of a listening handle as an endpoint without handle.
    pub(crate) fn accept_from(
        &mut self,
        id: HandleId,
        caller: Caller,
        synchronous: bool,
        request: R,
    ) -> Result<EndpointId> {
        if !self.waiting.contains_key(&request) {
            if !self.endpoint(id)?.listening {
                return Err(Error::new(EINVAL));
            }
            let source = Source::Handle(id);
            self.waiting.insert(
                request,
                Waiting::Accept {
                    source,
                    caller,
                    granted: None,
                },
            );
        }
        let accepted = self.accept(request);
        let idle = matches!(
            self.waiting.get(&request),
            Some(Waiting::Accept { granted: None, .. })
        );
        // A handshake that has begun is waited for even by those who do not want to wait for
        // requests: it ends by itself, and the connector has been told yes.
        if !synchronous && idle {
            self.end_wait(request);
            return Err(system(scif_abi::Error::WouldBlock));
        }
        match accepted {
            // The documents, where nobody waits: the connector did not complete its request.
            Err(Error { errno: ENODEV }) if !synchronous => {
                Err(system(scif_abi::Error::WouldBlock))
            }
            accepted => accepted,
        }
    }

    /// Moves the accept of `request` on: takes a request, grants it, waits for the connector. Those
    /// who withdrew meanwhile are passed over.
    fn accept(&mut self, request: R) -> Result<EndpointId> {
        let accepted = self.try_accept(request);
        if !matches!(accepted, Err(Error { errno: EWOULDBLOCK })) {
            self.end_wait(request);
        }
        accepted
    }

    fn try_accept(&mut self, request: R) -> Result<EndpointId> {
        loop {
            let Some(&Waiting::Accept {
                source,
                caller,
                granted,
            }) = self.waiting.get(&request)
            else {
                return Err(Error::new(EINVAL));
            };
            let Some(new) = granted else {
                let listener = match source {
                    Source::Handle(id) => self.endpoint(id)?.id,
                    Source::Shared(port) => self.shared_listener(port, caller, request)?,
                };
                match self
                    .engine
                    .accept_start(&mut self.fabric, listener, caller.owner())
                {
                    Ok(new) => {
                        let granted = Some(new);
                        self.waiting.insert(
                            request,
                            Waiting::Accept {
                                source,
                                caller,
                                granted,
                            },
                        );
                        self.wake_with(new, request);
                        continue;
                    }
                    Err(scif_abi::Error::WouldBlock) => {
                        self.wake_with(listener, request);
                        return would_block();
                    }
                    Err(error) => return Err(system(error)),
                }
            };
            match self.engine.accept_finish(new) {
                Poll::Pending => return would_block(),
                Poll::Ready(result) => {
                    self.waiting.insert(
                        request,
                        Waiting::Accept {
                            source,
                            caller,
                            granted: None,
                        },
                    );
                    self.interest.remove(&new);
                    match result {
                        Ok(_) => {
                            return Ok(new);
                        }
                        Err(scif_abi::Error::WouldBlock) => {}
                        Err(error) => return Err(system(error)),
                    }
                }
            }
        }
    }

    /// The listener of `port` that opens of `accept/<port>` share; made if nobody listens.
    ///
    /// # Errors
    /// `EINVAL` when the port is bound by something else, or by another user's listener.
    fn shared_listener(&mut self, port: Port, caller: Caller, request: R) -> Result<EndpointId> {
        if let Some(shared) = self.shared.get_mut(&port) {
            if !caller.may_share(shared.owner) {
                return Err(Error::new(EINVAL));
            }
            shared.opens.insert(request);
            return Ok(shared.endpoint);
        }
        let existing = self.listeners.get(&port).copied();
        let (endpoint, owner) = match existing {
            Some(id) => {
                let owner = self.handle(id)?.caller;
                if !caller.may_share(owner) {
                    return Err(Error::new(EINVAL));
                }
                (self.endpoint(id)?.id, owner)
            }
            None => (self.listen_on(port, caller)?.0, caller),
        };
        let opens = BTreeSet::from([request]);
        self.shared.insert(
            port,
            SharedListener {
                endpoint,
                handle: existing,
                owner,
                opens,
            },
        );
        Ok(endpoint)
    }

    pub(crate) fn leave_shared(&mut self, port: Port, request: R) {
        let Some(shared) = self.shared.get_mut(&port) else {
            return;
        };
        shared.opens.remove(&request);
        if let Some(interest) = self.interest.get_mut(&shared.endpoint) {
            interest.requests.remove(&request);
        }
        if let Some(&next) = shared.opens.first() {
            // Whoever took the front request may leave others in the queue.
            self.changes.requests.push(next);
            return;
        }
        let (endpoint, ours) = (shared.endpoint, shared.handle.is_none());
        self.shared.remove(&port);
        if ours {
            self.drop_endpoint(endpoint);
        }
    }

    /// Ports that `accept/<port>` listens on by itself, with the first opener.
    pub(crate) fn own_shared_listeners(&self) -> impl Iterator<Item = (Port, Caller)> {
        let own = self
            .shared
            .iter()
            .filter(|(_, shared)| shared.handle.is_none());
        own.map(|(&port, shared)| (port, shared.owner))
    }
}
