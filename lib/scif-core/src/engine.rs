//! The engine: all of a node's SCIF state behind calls that never block.

use core::task::Poll;

use scif_abi::flags::Readiness;
use scif_abi::{Error, NodeId, Port, PortId};

use crate::config::{Config, Owner};
use crate::endpoint::EndpointId;
use crate::event::Event;
use crate::memory::Memory;

/// How a connect behaves towards later calls on the same endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectMode {
    /// The caller waits for the result with `connect_result`; other connects meanwhile are `EISCONN`.
    Blocking,
    /// The result is collected by a second connect; until it is there that gives `EINPROGRESS`.
    NonBlocking,
}

/// What a connect that did not fail has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// The request is on its way.
    Started,
    /// This call collected the success of an earlier non-blocking one; the local port.
    Done(Port),
}

/// Why a link cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkError {
    /// The node number is our own or above the limit.
    BadNode,
    /// No memory for the node queue pair.
    NoMemory,
    /// The calls came in the wrong order (link_up without attach, attach twice).
    WrongState,
    /// The peer's queue pair is not at that address or makes no sense.
    BadQueuePair,
}

/// A node's SCIF state.
pub struct Engine {
    config: Config,
}

impl Engine {
    /// An engine without links. Loopback connections work at once.
    pub fn new(config: Config) -> Engine {
        Engine { config }
    }
    /// This node's number.
    pub fn node(&self) -> NodeId {
        self.config.node
    }
    /// Tells the engine the time (nanoseconds of any monotonic clock) and lets time-outs happen. Call
    /// it at the start of every turn of the event loop.
    pub fn tick(&mut self, _mem: &mut dyn Memory, _now: u64) {}
    /// When `tick` must be called at the latest (same clock); `None`: no time-out is running.
    pub fn next_deadline(&self) -> Option<u64> {
        None
    }
    /// The next thing to do or know. Call it until it returns `None` after any other calls: deferred
    /// notifications are sent here (that is how they merge).
    pub fn next_event(&mut self, _mem: &mut dyn Memory) -> Option<Event> {
        None
    }

    /// `scif_open`: a new, unbound endpoint.
    ///
    /// # Errors
    /// `ENOMEM`: a limit on endpoints is reached.
    pub fn open(&mut self, _owner: Owner) -> Result<EndpointId, Error> {
        Err(Error::NoMemory)
    }
    /// `scif_bind`: binds to `port`, 0 for the lowest free one from 1088. Returns the port.
    ///
    /// # Errors
    /// `EACCES` (before anything else): a port below 1024 and the endpoint's owner is not root.
    /// `EINVAL`: bound already, or the port is taken. `EISCONN`: connected or listening. `ENOSPC`.
    pub fn bind(&mut self, _id: EndpointId, _port: Port) -> Result<Port, Error> {
        Err(Error::NoMemory)
    }
    /// `scif_listen`.
    ///
    /// # Errors
    /// `EINVAL`: backlog not positive, or not bound, or disconnected. `EISCONN`.
    pub fn listen(&mut self, _id: EndpointId, _backlog: i32) -> Result<(), Error> {
        Err(Error::NoMemory)
    }
    /// `scif_connect`: starts connecting, or collects the result of a non-blocking attempt.
    /// The end of an attempt is told by `Event::Changed`.
    ///
    /// # Errors
    /// As in the header; `EINPROGRESS` when an attempt is under way.
    pub fn connect(
        &mut self,
        _mem: &mut dyn Memory,
        _id: EndpointId,
        _to: PortId,
        _mode: ConnectMode,
    ) -> Result<Connect, Error> {
        Err(Error::NoMemory)
    }
    /// For the caller that waits in a blocking connect: its result, once; the local port on success.
    /// After a failure the endpoint is bound and can connect again.
    pub fn connect_result(&mut self, _id: EndpointId) -> Poll<Result<Port, Error>> {
        Poll::Pending
    }
    /// Gives up a connect that is under way (the waiting caller was interrupted): the endpoint is bound
    /// again. Does nothing when none is under way.
    pub fn connect_cancel(&mut self, _mem: &mut dyn Memory, _id: EndpointId) {}
    /// First half of `scif_accept`: takes the first request, and grants it with a new endpoint that is
    /// not connected yet. `owner` owns the new endpoint. `Event::Changed(new endpoint)` tells when
    /// `accept_finish` has a result.
    ///
    /// # Errors
    /// `EAGAIN`: no request. `EINVAL`: not listening. `ENOMEM`.
    pub fn accept_start(
        &mut self,
        _mem: &mut dyn Memory,
        _listener: EndpointId,
        _owner: Owner,
    ) -> Result<EndpointId, Error> {
        Err(Error::NoMemory)
    }
    /// Second half of `scif_accept`: the peer's port id once the connector has acknowledged. On an error
    /// the new endpoint no longer exists: `EAGAIN` when the connector withdrew (a SYNC accept takes the
    /// next request), `ENODEV` when its node went.
    pub fn accept_finish(&mut self, _new: EndpointId) -> Poll<Result<PortId, Error>> {
        Poll::Pending
    }
    /// `scif_send` without waiting: bytes taken, 0 when there is no room (or `bytes` is empty).
    ///
    /// # Errors
    /// `ENOTCONN`, `ECONNRESET`.
    pub fn send(
        &mut self,
        _mem: &mut dyn Memory,
        _id: EndpointId,
        _bytes: &[u8],
    ) -> Result<usize, Error> {
        Ok(0)
    }
    /// `scif_recv` without waiting: bytes given, 0 when there are none (or `buffer` is empty).
    ///
    /// # Errors
    /// `ENOTCONN`; `ECONNRESET` when the peer is gone and nothing is left.
    pub fn recv(
        &mut self,
        _mem: &mut dyn Memory,
        _id: EndpointId,
        _buffer: &mut [u8],
    ) -> Result<usize, Error> {
        Ok(0)
    }
    /// `scif_poll` for one endpoint.
    pub fn poll(&mut self, _mem: &mut dyn Memory, _id: EndpointId) -> Readiness {
        Readiness::ERR
    }
    /// `scif_close`, also for endpoints of a process that died. Always succeeds; the endpoint is gone
    /// at once, whatever still has to be told to the peer.
    pub fn close(&mut self, _mem: &mut dyn Memory, _id: EndpointId) {}
    /// Where the endpoint is bound; port 0 when it is not.
    pub fn local_port(&self, _id: EndpointId) -> Option<PortId> {
        None
    }
    /// The peer of a connected or disconnected endpoint.
    pub fn peer(&self, _id: EndpointId) -> Option<PortId> {
        None
    }
    /// `scif_get_node_ids`: nodes online, ascending, the own one included.
    pub fn online_nodes(&self) -> impl Iterator<Item = NodeId> {
        core::iter::once(self.config.node)
    }

    /// First step of a link: makes this node's queue pair for `node` and returns its bus address, to be
    /// published to the peer (in the link memory).
    ///
    /// # Errors
    /// See [`LinkError`].
    pub fn attach(&mut self, _mem: &mut dyn Memory, _node: NodeId) -> Result<u64, LinkError> {
        Err(LinkError::NoMemory)
    }
    /// Second step: the peer has published its queue pair at bus address `peer_qp`. Checks it, sends
    /// INIT. The node is online (`Event::NodeUp`) when its INIT has arrived.
    ///
    /// # Errors
    /// See [`LinkError`]; the link is then still attached, and `link_up` may be tried again.
    pub fn link_up(
        &mut self,
        _mem: &mut dyn Memory,
        _node: NodeId,
        _peer_qp: u64,
    ) -> Result<(), LinkError> {
        Err(LinkError::NoMemory)
    }
    /// The link is gone *and the peer can no longer write to our memory* (it is dead, or has said that
    /// it stopped). Resets its connections, frees every page shared with it. Begin again with `attach`.
    pub fn link_down(&mut self, _mem: &mut dyn Memory, _node: NodeId) {}
    /// The node's doorbell rang, or may have: takes and handles the messages in its ring.
    pub fn doorbell(&mut self, _mem: &mut dyn Memory, _node: NodeId) {}
    /// Leaves the network in order: tells every node (EXIT). `Event::NodeDown` for each when it has
    /// answered or a second has passed.
    pub fn leave(&mut self, _mem: &mut dyn Memory) {}
}
