//! open, bind and listen.

use scif_abi::{Error, Port};

use crate::base::ids::EndpointId;
use crate::base::owner::Owner;
use crate::engine::Engine;

impl Engine {
    /// `scif_open`: makes a new, unbound endpoint.
    ///
    /// # Errors
    /// `ENOMEM`: a limit on endpoints is reached.
    pub fn open(&mut self, owner: Owner) -> Result<EndpointId, Error> {
        self.endpoints.open(&mut self.cx, owner)
    }

    /// `scif_bind`: binds to `port`, or to the lowest free one from 1088 on if that is 0. Returns
    /// the port.
    ///
    /// # Errors
    /// `EACCES` (before anything else): a port below 1024 and the endpoint's owner is not root.
    /// `EINVAL`: bound already, or the port is taken. `EISCONN`: connected or listening. `ENOSPC`:
    /// no port is free.
    pub fn bind(&mut self, id: EndpointId, port: Port) -> Result<Port, Error> {
        self.endpoints.bind(id, port)
    }

    /// `scif_listen`: accepts connection requests, of which at most `backlog` (up to 1024) may
    /// wait.
    ///
    /// # Errors
    /// `EINVAL`: `backlog` is not positive, or the endpoint is not bound, or it is disconnected.
    /// `EISCONN`: it is listening, connecting or connected. `ENOMEM`: too many requests may
    /// already wait at the listeners of the user or process.
    pub fn listen(&mut self, id: EndpointId, backlog: i32) -> Result<(), Error> {
        self.endpoints.listen(&mut self.cx, id, backlog)
    }

    /// Grants each further request of a listener when it comes, with an endpoint of the listener's
    /// owner: connectors do not wait for [`Engine::accept_start`], which returns these endpoints
    /// in their order. Has no effect on other endpoints.
    pub fn grant_at_once(&mut self, id: EndpointId) {
        self.endpoints.grant_at_once(id);
    }
}
