//! Connects: by path or by operation, waiting or in the background.

use core::task::Poll;

use scif_abi::PortId;
use scif_core::{Connect, ConnectMode, EndpointId};
use syscall::error::Result;

use crate::error::{system, would_block};
use crate::handle::Opening;
use crate::handle::endpoint::Endpoint;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::request::PendingOn;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    pub(in crate::scif) fn open_connect(
        &mut self,
        to: PortId,
        opening: Opening,
        nonblocking: bool,
        request: R,
    ) -> Result<HandleId> {
        let owner = opening.caller().owner();
        let id = self.engine.open(owner).map_err(system)?;
        let mode = mode(nonblocking);
        match self.engine.connect(&mut self.memory, id, to, mode) {
            Ok(_) | Err(scif_abi::Error::InProgress) => {}
            Err(error) => {
                self.drop_endpoint(id);
                return Err(system(error));
            }
        }
        if nonblocking {
            return Ok(self.insert_endpoint(opening, Endpoint::connecting(id, to)));
        }
        self.requests
            .suspend(request, PendingOn::OpenConnect { endpoint: id });
        self.requests.watch(id, request);
        self.finish_open_connect(id, opening, request)
    }

    pub(in crate::scif) fn finish_open_connect(
        &mut self,
        id: EndpointId,
        opening: Opening,
        request: R,
    ) -> Result<HandleId> {
        let Poll::Ready(result) = self.engine.connect_result(id) else {
            return would_block();
        };
        self.requests.resume(request);
        match result {
            Ok(_) => {
                let handle = self.insert_endpoint(opening, Endpoint::new(id, false));
                self.finish_open_messages(handle, request)
            }
            Err(error) => {
                self.drop_endpoint(id);
                Err(system(error))
            }
        }
    }

    /// The call operation `connect` on a handle's endpoint.
    pub(in crate::scif) fn connect(
        &mut self,
        id: HandleId,
        to: PortId,
        request: R,
    ) -> Result<usize> {
        let endpoint = self.handles.endpoint(id)?;
        let (endpoint, nonblocking) = (endpoint.id(), endpoint.is_nonblocking());
        if !matches!(
            self.requests.pending(request),
            Some(PendingOn::Connect { .. })
        ) {
            let mode = mode(nonblocking);
            let result = self.engine.connect(&mut self.memory, endpoint, to, mode);
            if result.is_ok() || !self.engine.owes_connect_result(endpoint) {
                // Nothing is left of a connect that `open` has started.
                self.handles.endpoint(id)?.end_connect();
            }
            match result {
                Ok(Connect::Done(port)) => {
                    return Ok(port.into());
                }
                Ok(Connect::Started) if nonblocking => {
                    return Err(system(scif_abi::Error::InProgress));
                }
                Ok(Connect::Started) => {}
                Err(error) => return Err(system(error)),
            }
            self.requests
                .suspend(request, PendingOn::Connect { endpoint });
            self.requests.watch(endpoint, request);
        }
        let Poll::Ready(result) = self.engine.connect_result(endpoint) else {
            return would_block();
        };
        self.end_wait(request);
        match result {
            Ok(port) => Ok(port.into()),
            Err(error) => Err(system(error)),
        }
    }

    /// Collects the result of the connect that `open` started with `O_NONBLOCK`, before the first
    /// transfer.
    ///
    /// # Errors
    /// `EWOULDBLOCK` while it is under way, or the connect's own error.
    pub(in crate::scif) fn collect_connect(&mut self, id: HandleId) -> Result<()> {
        let endpoint = self.handles.endpoint(id)?;
        let Some(to) = endpoint.connects_to() else {
            return Ok(());
        };
        let endpoint_id = endpoint.id();
        let mode = ConnectMode::NonBlocking;
        match self.engine.connect(&mut self.memory, endpoint_id, to, mode) {
            Err(scif_abi::Error::InProgress) | Ok(Connect::Started) => would_block(),
            Ok(Connect::Done(_)) => {
                self.handles.endpoint(id)?.end_connect();
                Ok(())
            }
            Err(error) => {
                self.handles.endpoint(id)?.end_connect();
                Err(system(error))
            }
        }
    }
}

/// The connect mode for an endpoint whose calls wait, or do not.
fn mode(nonblocking: bool) -> ConnectMode {
    match nonblocking {
        true => ConnectMode::NonBlocking,
        false => ConnectMode::Blocking,
    }
}
