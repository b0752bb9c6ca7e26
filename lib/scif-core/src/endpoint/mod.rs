//! Endpoints: the objects behind programs' descriptors, their states and their queued requests.

pub(crate) mod ports;
pub(crate) mod requests;

use crate::base::context::{Context, Ends};
use crate::base::ids::{ConnectionId, EndpointId};
use crate::base::owner::Owner;
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::table::Table;
use crate::endpoint::ports::PortTable;
use crate::endpoint::requests::Request;
use alloc::collections::VecDeque;

use scif_abi::limits::{MAX_BACKLOG, MAX_ENDPOINTS, PRIVILEGED_PORT_END};
use scif_abi::{Error, NodeId, Port, PortId};

/// State of an endpoint. There are no closing or zombie states: a closed endpoint is gone, and
/// what remains to be done for its peer belongs to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// New, without a port.
    Unbound,
    /// Has a port.
    Bound,
    /// Accepts connection requests.
    Listening,
    /// A request was sent and is not answered.
    Connecting,
    /// The new endpoint of an accept, until the grant is acknowledged. Programs do not see it.
    Accepting,
    /// As `Accepting`, but the connector has withdrawn or is lost.
    AcceptFailed(Error),
    /// One end of a connection.
    Connected,
    /// The peer is gone. The bytes that it sent can still be received.
    Disconnected,
}

impl EndpointState {
    /// One word for the text files.
    pub fn name(self) -> &'static str {
        match self {
            EndpointState::Unbound => "unbound",
            EndpointState::Bound => "bound",
            EndpointState::Listening => "listening",
            EndpointState::Connecting => "connecting",
            EndpointState::Accepting | EndpointState::AcceptFailed(_) => "accepting",
            EndpointState::Connected => "connected",
            EndpointState::Disconnected => "disconnected",
        }
    }
}

/// How the result of a connect is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectMode {
    /// The caller waits for the result with
    /// [`Engine::connect_result`](crate::Engine::connect_result). Other connects meanwhile fail
    /// with `EISCONN`.
    Blocking,
    /// A second connect collects the result. Until there is one, it fails with `EINPROGRESS`.
    NonBlocking,
}

/// A connect that was started and whose result has not been taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    mode: ConnectMode,
    /// `None` while the connect is under way.
    result: Option<Result<(), Error>>,
}

impl Attempt {
    /// The result, if another connect may collect it.
    pub(crate) fn collectable(&self) -> Option<Result<(), Error>> {
        self.result.filter(|_| self.is_non_blocking())
    }

    /// The result, once there is one.
    pub(crate) fn result(&self) -> Option<Result<(), Error>> {
        self.result
    }

    /// Whether no caller waits for the result.
    pub(crate) fn is_non_blocking(&self) -> bool {
        self.mode == ConnectMode::NonBlocking
    }
}

/// One endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    owner: Owner,
    state: EndpointState,
    /// 0 when not bound.
    port: Port,
    /// Whether closing frees the port. Accepted endpoints have their listener's port, but a new
    /// listener may bind it while they live.
    owns_port: bool,
    /// The address of the other end, from the connect or accept on.
    peer: PortId,
    connection: Option<ConnectionId>,
    attempt: Option<Attempt>,
    backlog: usize,
    requests: VecDeque<Request>,
    /// Whether requests are granted when they come.
    grants_at_once: bool,
    /// Endpoints with granted requests for the next accepts: requests that were granted when they
    /// came, and those whose accepts were given up.
    granted: VecDeque<EndpointId>,
    /// The listener that has this endpoint among those.
    kept_by: Option<EndpointId>,
}

impl Endpoint {
    /// The owner of the endpoint.
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// The state of the endpoint.
    pub(crate) fn state(&self) -> EndpointState {
        self.state
    }

    /// The port; 0 if the endpoint is not bound.
    pub(crate) fn port(&self) -> Port {
        self.port
    }

    /// Whether closing the endpoint frees its port.
    pub(crate) fn owns_port(&self) -> bool {
        self.owns_port
    }

    /// The address of the other end, from the connect or accept on.
    pub(crate) fn peer(&self) -> PortId {
        self.peer
    }

    /// The connection, while the endpoint has one.
    pub(crate) fn connection(&self) -> Option<ConnectionId> {
        self.connection
    }

    /// The connection, while the endpoint is connected or disconnected.
    ///
    /// # Errors
    /// `ENOTCONN`: any other state.
    pub(crate) fn used_connection(&self) -> Result<ConnectionId, Error> {
        match (self.state, self.connection) {
            (EndpointState::Connected | EndpointState::Disconnected, Some(id)) => Ok(id),
            _ => Err(Error::NotConnected),
        }
    }

    /// The connect that was started and whose result has not been taken.
    pub(crate) fn attempt(&self) -> Option<Attempt> {
        self.attempt
    }

    /// How many requests wait, those included that were granted when they came.
    pub(crate) fn queued_requests(&self) -> usize {
        let granted = match self.grants_at_once {
            true => self.granted.len(),
            false => 0,
        };
        self.requests.len() + granted
    }

    /// Takes the endpoints that the next accepts would have got.
    pub(crate) fn into_granted(self) -> VecDeque<EndpointId> {
        self.granted
    }

    /// How many requests may wait.
    pub(crate) fn backlog(&self) -> usize {
        self.backlog
    }

    fn finish_attempt(&mut self, result: Result<(), Error>) {
        if let Some(attempt) = &mut self.attempt {
            attempt.result = Some(result);
        }
    }
}

/// All endpoints of an engine, and the ports that they have.
pub(crate) struct Endpoints {
    table: Table<EndpointId, Endpoint>,
    ports: PortTable,
}

// How endpoints and their ports come and go.
impl Endpoints {
    pub(crate) fn new() -> Endpoints {
        Endpoints {
            table: Table::new(MAX_ENDPOINTS),
            ports: PortTable::new(),
        }
    }

    /// Adds an unbound endpoint.
    ///
    /// # Errors
    /// `ENOMEM`: a limit is reached.
    pub(crate) fn open(&mut self, cx: &mut Context, owner: Owner) -> Result<EndpointId, Error> {
        // Shutting an endpoint down leaves a file, whatever the limit for files is. So an owner of
        // too many files gets no endpoint, of which it could make another file.
        cx.quotas.check(owner, Resource::Files, 0)?;
        cx.quotas.charge(owner, Resource::Endpoints, 1)?;
        let endpoint = Endpoint {
            owner,
            state: EndpointState::Unbound,
            port: 0,
            owns_port: false,
            peer: PortId::default(),
            connection: None,
            attempt: None,
            backlog: 0,
            requests: VecDeque::new(),
            grants_at_once: false,
            granted: VecDeque::new(),
            kept_by: None,
        };
        self.table.insert(endpoint).ok_or_else(|| {
            cx.quotas.discharge(owner, Resource::Endpoints, 1);
            Error::NoMemory
        })
    }

    /// Removes an endpoint and frees its port. The caller must refuse the requests that this
    /// returns.
    pub(crate) fn remove(
        &mut self,
        cx: &mut Context,
        id: EndpointId,
    ) -> Option<(Endpoint, VecDeque<Request>)> {
        let mut endpoint = self.table.remove(id)?;
        if endpoint.owns_port {
            self.ports.release(endpoint.port);
        }
        let (owner, backlog) = (endpoint.owner, endpoint.backlog as u64);
        cx.quotas.discharge(owner, Resource::Endpoints, 1);
        cx.quotas.discharge(owner, Resource::Backlog, backlog);
        let requests = core::mem::take(&mut endpoint.requests);
        Some((endpoint, requests))
    }

    /// Binds to `port`, or to any free port if that is 0. Returns the port.
    ///
    /// # Errors
    /// Those of [`Engine::bind`](crate::Engine::bind).
    pub(crate) fn bind(&mut self, id: EndpointId, port: Port) -> Result<Port, Error> {
        let endpoint = self.get(id)?;
        if (1..PRIVILEGED_PORT_END).contains(&port) && !endpoint.owner.is_privileged() {
            return Err(Error::AccessDenied);
        }
        match endpoint.state {
            EndpointState::Unbound => {}
            EndpointState::Bound => return Err(Error::InvalidArgument),
            _ => return Err(Error::IsConnected),
        }
        let port = if port == 0 {
            self.ports.take_ephemeral().ok_or(Error::NoSpace)?
        } else if self.ports.take(port) {
            port
        } else {
            return Err(Error::InvalidArgument);
        };
        let endpoint = self.get_mut(id)?;
        endpoint.port = port;
        endpoint.owns_port = true;
        endpoint.state = EndpointState::Bound;
        Ok(port)
    }

    /// Begins to accept requests, of which at most `backlog` may wait.
    ///
    /// # Errors
    /// Those of [`Engine::listen`](crate::Engine::listen).
    pub(crate) fn listen(
        &mut self,
        cx: &mut Context,
        id: EndpointId,
        backlog: i32,
    ) -> Result<(), Error> {
        let endpoint = self.get(id)?;
        let backlog = match u32::try_from(backlog) {
            Ok(backlog) if backlog > 0 => backlog.min(MAX_BACKLOG),
            _ => return Err(Error::InvalidArgument),
        };
        match endpoint.state {
            EndpointState::Bound => {}
            EndpointState::Unbound | EndpointState::Disconnected => {
                return Err(Error::InvalidArgument);
            }
            _ => return Err(Error::IsConnected),
        }
        cx.quotas
            .charge(endpoint.owner, Resource::Backlog, backlog.into())?;
        let endpoint = self.get_mut(id)?;
        endpoint.state = EndpointState::Listening;
        endpoint.backlog = backlog as usize;
        // A result that was not collected belongs to a connect that can no longer be repeated.
        endpoint.attempt = None;
        let port = endpoint.port;
        self.ports.listen(port, id);
        Ok(())
    }

    /// Has the requests of a listener granted when they come.
    pub(crate) fn grant_at_once(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id)
            && endpoint.state == EndpointState::Listening
        {
            endpoint.grants_at_once = true;
        }
    }
}

// States.
impl Endpoints {
    /// Notes that a request was sent from a bound endpoint.
    pub(crate) fn connecting(
        &mut self,
        id: EndpointId,
        connection: ConnectionId,
        peer: PortId,
        mode: ConnectMode,
    ) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::Connecting;
            endpoint.attempt = Some(Attempt { mode, result: None });
            endpoint.connection = Some(connection);
            endpoint.peer = peer;
        }
    }

    /// Notes that a request was granted with a new endpoint.
    pub(crate) fn accepting(&mut self, id: EndpointId, connection: ConnectionId, ends: Ends) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::Accepting;
            endpoint.port = ends.local;
            endpoint.peer = ends.peer;
            endpoint.connection = Some(connection);
        }
    }

    /// Notes that an endpoint's connection is established.
    pub(crate) fn connected(&mut self, cx: &mut Context, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::Connected;
            endpoint.finish_attempt(Ok(()));
            cx.events.changed(id);
            // An accept can take it now.
            if let Some(listener) = endpoint.kept_by {
                cx.events.changed(listener);
            }
        }
    }

    /// Notes that an endpoint's connect was withdrawn: it is bound again.
    pub(crate) fn withdrawn(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::Bound;
            endpoint.connection = None;
        }
    }

    /// Notes that an endpoint's connect has failed: it is bound again.
    pub(crate) fn connect_failed(&mut self, cx: &mut Context, id: EndpointId, error: Error) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::Bound;
            endpoint.connection = None;
            endpoint.finish_attempt(Err(error));
            cx.events.changed(id);
        }
    }

    /// Notes that the request for which an endpoint was made does not lead to a connection. An
    /// endpoint that was kept for the next accept goes: that accept takes another request.
    pub(crate) fn accept_failed(&mut self, cx: &mut Context, id: EndpointId, error: Error) {
        if self.forget_granted(id) {
            _ = self.remove(cx, id);
            return;
        }
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::AcceptFailed(error);
            endpoint.connection = None;
            cx.events.changed(id);
        }
    }

    /// Notes that an endpoint's peer has gone.
    pub(crate) fn disconnected(&mut self, cx: &mut Context, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.state = EndpointState::Disconnected;
            cx.events.changed(id);
        }
    }

    /// Forgets a connect whose result was taken, or that was given up.
    pub(crate) fn end_attempt(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.attempt = None;
        }
    }
}

// Views.
impl Endpoints {
    /// The endpoint with this id.
    ///
    /// # Errors
    /// `EBADF`.
    pub(crate) fn get(&self, id: EndpointId) -> Result<&Endpoint, Error> {
        self.table.get(id).ok_or(Error::BadDescriptor)
    }

    fn get_mut(&mut self, id: EndpointId) -> Result<&mut Endpoint, Error> {
        self.table.get_mut(id).ok_or(Error::BadDescriptor)
    }

    /// All endpoints, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (EndpointId, &Endpoint)> {
        self.table.iter()
    }

    /// The number of endpoints.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// Checks what must hold of endpoints and ports between any two calls.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        for (id, endpoint) in self.iter() {
            let listening = endpoint.state == EndpointState::Listening;
            rule(
                listening || endpoint.requests.is_empty(),
                "only a listener has requests",
                id,
            )?;
            rule(
                !listening || self.ports.listener(endpoint.port) == Some(id),
                "a listener is registered at its port",
                id,
            )?;
            rule(
                endpoint.queued_requests() <= endpoint.backlog,
                "no more requests than the backlog",
                id,
            )?;
            let is_kept = |new: &EndpointId| {
                let new = self.table.get(*new);
                new.is_some_and(|new| new.kept_by == Some(id) && new.connection.is_some())
            };
            rule(
                endpoint.granted.iter().all(is_kept),
                "what a listener keeps is granted",
                id,
            )?;
            let attempt = endpoint.attempt;
            let pending = attempt.is_some_and(|attempt| attempt.result.is_none());
            rule(
                pending == (endpoint.state == EndpointState::Connecting),
                "a connect without result is under way",
                id,
            )?;
        }
        self.check_ports()
    }

    fn check_ports(&self) -> Result<(), Violation> {
        let mut count = 0;
        for (id, endpoint) in self.iter().filter(|(_, e)| e.owns_port) {
            count += 1;
            rule(
                self.ports.is_taken(endpoint.port),
                "an owned port is taken",
                id,
            )?;
        }
        rule(
            count == self.ports.count(),
            "taken ports have an owner",
            count as u64,
        )?;
        for (port, listener) in self.ports.listeners() {
            let endpoint = self.table.get(listener);
            rule(
                endpoint.is_some_and(|e| e.port == port && e.state == EndpointState::Listening),
                "a registered listener listens at its port",
                u64::from(port),
            )?;
        }
        Ok(())
    }

    /// The nodes that queued requests came from.
    pub(crate) fn requesting_nodes(&self) -> impl Iterator<Item = NodeId> {
        let endpoints = self.table.iter().map(|(_, endpoint)| endpoint);
        let requests = endpoints.flat_map(|endpoint| &endpoint.requests);
        requests.map(|request| request.source().node())
    }
}
