//! Connecting: by path, by operation, waiting or in the background.

use core::task::Poll;

use scif_abi::PortId;
use scif_core::{Connect, ConnectMode, EndpointId};
use syscall::error::Result;

use crate::access::{Access, Caller};
use crate::handle::{Endpoint, HandleId};
use crate::path::Path;
use crate::scif::{Fabric, RequestId, Scif, Waiting, system, would_block};

impl<F: Fabric, R: RequestId> Scif<F, R> {
    pub(crate) fn dial(
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
        match self.engine.connect(&mut self.fabric, id, to, mode) {
            Ok(_) | Err(scif_abi::Error::InProgress) => {}
            Err(error) => {
                self.drop_endpoint(id);
                return Err(system(error));
            }
        }
        if nonblocking {
            let mut endpoint = Endpoint::new(id, true);
            endpoint.dialing = Some(to);
            return Ok(self.insert_endpoint(path, access, caller, endpoint));
        }
        self.waiting.insert(request, Waiting::Dial { endpoint: id });
        self.wake_with(id, request);
        self.finish_dial(id, path, access, caller, request)
    }

    pub(crate) fn finish_dial(
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
        self.waiting.remove(&request);
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
    pub(crate) fn connect(&mut self, id: HandleId, to: PortId, request: R) -> Result<usize> {
        let endpoint = self.endpoint(id)?;
        let (endpoint, nonblocking) = (endpoint.id, endpoint.nonblocking);
        if !matches!(self.waiting.get(&request), Some(Waiting::Connect { .. })) {
            let mode = if nonblocking {
                ConnectMode::NonBlocking
            } else {
                ConnectMode::Blocking
            };
            match self.engine.connect(&mut self.fabric, endpoint, to, mode) {
                Ok(Connect::Done(port)) => {
                    return Ok(port.into());
                }
                Ok(Connect::Started) if nonblocking => {
                    return Err(system(scif_abi::Error::InProgress));
                }
                Ok(Connect::Started) => {}
                Err(error) => return Err(system(error)),
            }
            self.waiting.insert(request, Waiting::Connect { endpoint });
            self.wake_with(endpoint, request);
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
    pub(crate) fn collect_dial(&mut self, id: HandleId) -> Result<()> {
        let endpoint = self.endpoint(id)?;
        let Some(to) = endpoint.dialing else {
            return Ok(());
        };
        let endpoint_id = endpoint.id;
        let mode = ConnectMode::NonBlocking;
        match self.engine.connect(&mut self.fabric, endpoint_id, to, mode) {
            Err(scif_abi::Error::InProgress) | Ok(Connect::Started) => would_block(),
            Ok(Connect::Done(_)) => {
                self.endpoint(id)?.dialing = None;
                Ok(())
            }
            Err(error) => {
                self.endpoint(id)?.dialing = None;
                Err(system(error))
            }
        }
    }
}
