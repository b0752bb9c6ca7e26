//! Connecting: by path, by operation, waiting or in the background.

use core::task::Poll;

use scif_abi::PortId;
use scif_core::{Connect, ConnectMode, EndpointId};
use syscall::error::Result;

use crate::access::{Access, Caller};
use crate::error::{system, would_block};
use crate::handle::Endpoint;
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::path::Path;
use crate::request::PendingOn;
use crate::scif::Scif;

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    pub(in crate::scif) fn open_connect(
        &mut self,
        to: PortId,
        access: Access,
        caller: Caller,
        nonblocking: bool,
        request: R,
    ) -> Result<HandleId> {
        let path = Path::Connect {
            node: to.node(),
            port: to.port(),
        };
        let id = self.engine.open(caller.owner()).map_err(system)?;
        let mode = if nonblocking {
            ConnectMode::NonBlocking
        } else {
            ConnectMode::Blocking
        };
        match self.engine.connect(&mut self.memory, id, to, mode) {
            Ok(_) | Err(scif_abi::Error::InProgress) => {}
            Err(error) => {
                self.drop_endpoint(id);
                return Err(system(error));
            }
        }
        if nonblocking {
            let mut endpoint = Endpoint::new(id, true);
            endpoint.connecting = Some(to);
            return Ok(self.insert_endpoint(path, access, caller, endpoint));
        }
        self.requests
            .suspend(request, PendingOn::OpenConnect { endpoint: id });
        self.requests.watch(id, request);
        self.finish_open_connect(id, path, access, caller, request)
    }

    pub(in crate::scif) fn finish_open_connect(
        &mut self,
        id: EndpointId,
        path: Path,
        access: Access,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        let Poll::Ready(result) = self.engine.connect_result(id) else {
            return would_block();
        };
        self.requests.resume(request);
        match result {
            Ok(_) => {
                let endpoint = Endpoint::new(id, false);
                Ok(self.insert_endpoint(path, access, caller, endpoint))
            }
            Err(error) => {
                self.drop_endpoint(id);
                Err(system(error))
            }
        }
    }

    /// `connect` of a handle's endpoint: the call operation.
    pub(in crate::scif) fn connect(
        &mut self,
        id: HandleId,
        to: PortId,
        request: R,
    ) -> Result<usize> {
        let endpoint = self.handles.endpoint(id)?;
        let (endpoint, nonblocking) = (endpoint.id, endpoint.nonblocking);
        if !matches!(
            self.requests.pending(request),
            Some(PendingOn::Connect { .. })
        ) {
            let mode = if nonblocking {
                ConnectMode::NonBlocking
            } else {
                ConnectMode::Blocking
            };
            match self.engine.connect(&mut self.memory, endpoint, to, mode) {
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

    /// Collects the connect that `open` started with `O_NONBLOCK`, before the first transfer.
    ///
    /// # Errors
    /// `EWOULDBLOCK` while it is under way, or what the connect ended with.
    pub(in crate::scif) fn collect_connect(&mut self, id: HandleId) -> Result<()> {
        let endpoint = self.handles.endpoint(id)?;
        let Some(to) = endpoint.connecting else {
            return Ok(());
        };
        let endpoint_id = endpoint.id;
        let mode = ConnectMode::NonBlocking;
        match self.engine.connect(&mut self.memory, endpoint_id, to, mode) {
            Err(scif_abi::Error::InProgress) | Ok(Connect::Started) => would_block(),
            Ok(Connect::Done(_)) => {
                self.handles.endpoint(id)?.connecting = None;
                Ok(())
            }
            Err(error) => {
                self.handles.endpoint(id)?.connecting = None;
                Err(system(error))
            }
        }
    }
}
