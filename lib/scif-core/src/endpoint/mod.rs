//! Endpoints: what a descriptor of a program refers to, and the states it goes through.

pub(crate) mod ports;

use alloc::collections::VecDeque;

use scif_abi::{Error, Port, PortId};

use crate::base::config::Owner;
use crate::base::ids::ConnectionId;
use crate::flow::connect::ConnectMode;

/// State of an endpoint. Closing and zombie states do not exist here: a closed endpoint is gone,
/// what is left to do for its peer belongs to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// Fresh.
    Unbound,
    /// Has a port.
    Bound,
    /// Takes connection requests.
    Listening,
    /// A request was sent and is not answered.
    Connecting,
    /// The new endpoint of an accept whose grant is not acknowledged. Not visible to programs.
    Accepting,
    /// As `Accepting`, but the connector withdrew or is lost.
    AcceptFailed(Error),
    /// One end of a connection.
    Connected,
    /// The peer is gone; what it sent can still be received.
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

/// A connection request that waits to be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// Where it came from. The node is certain, everything else is what the peer says.
    pub(crate) source: PortId,
    /// The connector's id, to be echoed.
    pub(crate) connector: u64,
    /// Bus address of the connector's queue pair.
    pub(crate) queue_pair: u64,
    /// When (ns) it is void: its connector cannot withdraw it, and may have given up from then on.
    pub(crate) void_at: Option<u64>,
}

impl Request {
    /// Whether its connector may have freed what it names: not even a refusal may be sent.
    pub(crate) fn is_void(&self, now: u64) -> bool {
        self.void_at.is_some_and(|at| at <= now)
    }
}

/// A connect that was started and whose result has not been taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) mode: ConnectMode,
    /// `None` while it is under way.
    pub(crate) result: Option<Result<(), Error>>,
}

/// One endpoint.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) owner: Owner,
    pub(crate) state: EndpointState,
    /// 0 when not bound.
    pub(crate) port: Port,
    /// Whether closing frees the port. Accepted endpoints carry their listener's port, but a new
    /// listener may bind it while they live.
    pub(crate) owns_port: bool,
    /// The other end, from the connect or accept on.
    pub(crate) peer: PortId,
    pub(crate) connection: Option<ConnectionId>,
    pub(crate) attempt: Option<Attempt>,
    pub(crate) backlog: usize,
    pub(crate) requests: VecDeque<Request>,
}

impl Endpoint {
    pub(crate) fn new(owner: Owner) -> Endpoint {
        Endpoint {
            owner,
            state: EndpointState::Unbound,
            port: 0,
            owns_port: false,
            peer: PortId::default(),
            connection: None,
            attempt: None,
            backlog: 0,
            requests: VecDeque::new(),
        }
    }

    /// Ends the connect that is under way with `result`.
    pub(crate) fn finish_attempt(&mut self, result: Result<(), Error>) {
        if let Some(attempt) = &mut self.attempt {
            attempt.result = Some(result);
        }
    }
}
