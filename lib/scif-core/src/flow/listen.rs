//! open, bind and listen.

use scif_abi::limits::{MAX_BACKLOG, PRIVILEGED_PORT_END};
use scif_abi::{Error, Port};

use crate::base::config::Owner;
use crate::base::ids::EndpointId;
use crate::base::quota::Resource;
use crate::endpoint::EndpointState;
use crate::engine::Engine;

impl Engine {
    /// `scif_open`: a new, unbound endpoint.
    ///
    /// # Errors
    /// `ENOMEM`: a limit on endpoints is reached.
    pub fn open(&mut self, owner: Owner) -> Result<EndpointId, Error> {
        self.add_endpoint(owner)
    }

    /// `scif_bind`: binds to `port`, 0 for the lowest free one from 1088. Returns the port.
    ///
    /// # Errors
    /// `EACCES` (before anything else): a port below 1024 and the endpoint's owner is not root.
    /// `EINVAL`: bound already, or the port is taken. `EISCONN`: connected or listening. `ENOSPC`:
    /// no port is free.
    pub fn bind(&mut self, id: EndpointId, port: Port) -> Result<Port, Error> {
        let endpoint = self.endpoint(id)?;
        if (1..PRIVILEGED_PORT_END).contains(&port) && !endpoint.owner.is_privileged() {
            return Err(Error::AccessDenied);
        }
        match endpoint.state {
            EndpointState::Unbound => {}
            EndpointState::Bound => return Err(Error::InvalidArgument),
            _ => return Err(Error::IsConnected),
        }
        if port == 0 {
            return self.bind_ephemeral(id);
        }
        if !self.ports.take(port) {
            return Err(Error::InvalidArgument);
        }
        self.set_port(id, port)
    }

    /// Binds to any free port.
    pub(crate) fn bind_ephemeral(&mut self, id: EndpointId) -> Result<Port, Error> {
        let port = self.ports.take_ephemeral().ok_or(Error::NoSpace)?;
        self.set_port(id, port)
    }

    fn set_port(&mut self, id: EndpointId, port: Port) -> Result<Port, Error> {
        let endpoint = self.endpoint_mut(id)?;
        endpoint.port = port;
        endpoint.owns_port = true;
        endpoint.state = EndpointState::Bound;
        Ok(port)
    }

    /// `scif_listen`: takes connection requests, at most `backlog` of which (up to 1024) may wait.
    ///
    /// # Errors
    /// `EINVAL`: `backlog` is not positive, or the endpoint is not bound, or it is disconnected.
    /// `EISCONN`: it is listening, connecting or connected. `ENOMEM`: too many requests may wait at
    /// the listeners of the user or process already.
    pub fn listen(&mut self, id: EndpointId, backlog: i32) -> Result<(), Error> {
        let endpoint = self.endpoint(id)?;
        let backlog = match u32::try_from(backlog) {
            Ok(backlog) if backlog > 0 => backlog.min(MAX_BACKLOG),
            _ => return Err(Error::InvalidArgument),
        };
        let port = endpoint.port;
        match endpoint.state {
            EndpointState::Bound => {}
            EndpointState::Unbound | EndpointState::Disconnected => {
                return Err(Error::InvalidArgument);
            }
            _ => return Err(Error::IsConnected),
        }
        let owner = endpoint.owner;
        self.cx
            .quotas
            .charge(owner, Resource::Backlog, backlog.into())?;
        let endpoint = self.endpoint_mut(id)?;
        endpoint.state = EndpointState::Listening;
        endpoint.backlog = backlog as usize;
        // A result nobody collected belongs to a connect that can no longer be repeated.
        endpoint.attempt = None;
        self.ports.listen(port, id);
        Ok(())
    }
}
