//! Endpoints and listeners.

use alloc::vec::Vec;

use client_memory::descriptor::Descriptor;
use hal::idle_poll::Watched;
use libredox::Fd;
use scif_abi::error::Error as Errno;
use scif_abi::flags::{AcceptFlags, Readiness, RecvFlags, SendFlags};
use scif_abi::limits::{MAX_NODE, PRIVILEGED_PORT_END, USUAL_BACKLOG};
use scif_abi::{NodeId, Port, PortId};

use crate::bypass::{Bypass, Peeked, Waiting};
use crate::error::{Error, Result};
use crate::raw;

/// The backlog of [`Listener::bind`]: how many requests may wait on a listener.
/// [`Endpoint::listen`] takes another number.
pub const DEFAULT_BACKLOG: i32 = USUAL_BACKLOG;

/// The ports that [`Endpoint::bind_as_root`] tries, for connections that root makes. The
/// privileged ports below these are for servers.
const ROOTS_OWN: core::ops::Range<Port> = 512..PRIVILEGED_PORT_END;

/// An endpoint: unbound, bound, or one end of a connection. Threads may share it: the bytes of two
/// blocking sends are not mixed, and neither are those of two blocking receives.
pub struct Endpoint {
    /// Declared before the descriptor, so that the rings are unmapped before the connection ends.
    bypass: Bypass,
    file: Descriptor,
}

/// Closes a descriptor as `scif_close` does. An error means that the descriptor is no endpoint
/// (any more); a drop cannot report it.
fn close(number: usize) {
    let _ = raw::close(number);
}

/// An endpoint that listens.
pub struct Listener {
    endpoint: Endpoint,
}

/// A position in the stream of bytes that arrive at an endpoint; made by [`Endpoint::arrived`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrived(u32);

/// The nodes online.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Nodes {
    /// The node this program runs on.
    pub own: NodeId,
    /// All nodes online, ascending, the own one included.
    pub online: Vec<NodeId>,
}

/// Makes a new endpoint and connects it to `to`. Waits until the other side has accepted.
///
/// # Errors
/// Those of [`Endpoint::open`] and [`Endpoint::connect`].
pub fn connect(to: PortId) -> Result<Endpoint> {
    let endpoint = Endpoint::open()?;
    endpoint.connect(to)?;
    Ok(endpoint)
}

/// `scif_get_node_ids`: the nodes online, and which of them this program runs on.
///
/// # Errors
/// Those of opening the scheme.
pub fn nodes() -> Result<Nodes> {
    let mut ids = [0; MAX_NODE as usize + 1];
    let (count, own) = raw::get_node_ids(&mut ids)?;
    let online = ids.iter().take(count).copied().collect();
    Ok(Nodes { own, online })
}

impl Endpoint {
    /// `scif_open`: a new, unbound endpoint.
    ///
    /// # Errors
    /// `ENOMEM` at a limit; `ENODEV` or `ENOENT` when there is no `scif:` scheme.
    pub fn open() -> Result<Self> {
        Ok(Self::from_file(Fd::new(raw::open()?)))
    }

    /// An endpoint from a file of the scheme, opened by path.
    pub fn from_file(file: Fd) -> Self {
        Self {
            bypass: Bypass::new(),
            file: Descriptor::new(file, close),
        }
    }

    /// For the child of a fork, which has copies of the process's descriptors and none of its
    /// mappings. Closes the copies, which would keep the connection open after its end. Afterwards
    /// the endpoint must be forgotten, neither used nor dropped.
    pub fn close_in_child(&self) {
        self.bypass.close_in_child();
        // A descriptor that was copied can be closed.
        let _ = libredox::call::close(self.fd());
    }

    /// The bypass of this descriptor: its data path.
    #[inline]
    pub(crate) fn bypass(&self) -> &Bypass {
        &self.bypass
    }

    /// The descriptor, for event queues, `fcntl`-like calls and [`raw`].
    #[inline]
    pub fn fd(&self) -> usize {
        self.file.number()
    }

    /// The descriptor, still owned by this endpoint.
    #[cfg(feature = "std")]
    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.file
    }

    /// Sets or clears `O_NONBLOCK`. As in SCIF, it concerns [`connect`](Self::connect) and
    /// [`read`](Self::read) only.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        Ok(raw::set_nonblocking(self.fd(), nonblocking)?)
    }

    /// `scif_bind`: binds to `port`, or to a free port from 1088 on if `port` is 0. Returns the
    /// port.
    ///
    /// # Errors
    /// `EACCES`, `EINVAL`, `EISCONN`, `ENOSPC`.
    pub fn bind(&self, port: Port) -> Result<Port> {
        Ok(raw::bind(self.fd(), port)?)
    }

    /// Binds to a free port that only root may bind. A server that serves root only checks the
    /// peer's port for that: [`PortId::is_of_root`].
    ///
    /// # Errors
    /// `EACCES` for users other than root. `ENOSPC` when no such port is free, or the endpoint is
    /// bound.
    pub fn bind_as_root(&self) -> Result<Port> {
        for port in ROOTS_OWN.rev() {
            match self.bind(port) {
                // Another endpoint has this port.
                Err(Error::Scif(Errno::InvalidArgument)) => {}
                bound => return bound,
            }
        }
        Err(Error::Scif(Errno::NoSpace))
    }

    /// `scif_listen`: from now on at most `backlog` connection requests may wait to be accepted.
    ///
    /// # Errors
    /// `EINVAL`, `EISCONN`.
    pub fn listen(self, backlog: i32) -> Result<Listener> {
        raw::listen(self.fd(), backlog)?;
        Ok(Listener { endpoint: self })
    }

    /// `scif_connect`: waits until the other side has accepted, and returns the local port. With
    /// `O_NONBLOCK` it fails with `EINPROGRESS` instead of waiting. Once poll reports `OUT`, the
    /// same call again returns the result.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `EINVAL`, `EINPROGRESS`, `EISCONN`, `ENODEV`, `ENOMEM`, `ENOSPC`,
    /// `EOPNOTSUPP`.
    pub fn connect(&self, to: PortId) -> Result<Port> {
        Ok(raw::connect(self.fd(), to)?)
    }

    /// `scif_send`: with `BLOCK` sends all of `bytes`, without it as many as fit now, perhaps 0.
    /// Returns the number of bytes sent.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`. If the connection ends in the middle of a blocking send, the call
    /// returns the count so far.
    #[inline]
    pub fn send(&self, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        Ok(self.bypass.send(self.fd(), bytes, flags.bits())?)
    }

    /// `scif_recv`: with `BLOCK` fills `buffer`, without it receives the bytes that have arrived,
    /// perhaps 0. Returns the number of bytes received.
    ///
    /// # Errors
    /// `ECONNRESET` when the peer is gone and no bytes are left, `ENOTCONN`. If the connection
    /// ends in the middle of a blocking receive, the call returns the count so far.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], flags: RecvFlags) -> Result<usize> {
        Ok(self.bypass.recv(self.fd(), buffer, flags.bits())?)
    }

    /// Sends a head and a body in one step, if that can be done at once. Returns whether it was
    /// done; if not, nothing was sent and the caller uses [`send`](Self::send). Always false
    /// unless the endpoint is [prepared](Self::prepare).
    #[inline(always)]
    pub fn send_record<'a>(&self, head: &[u8], body: impl raw::Data<'a>) -> bool {
        self.bypass.send_record(head, body)
    }

    /// Copies the first `HEAD` bytes that can be received, and leaves them there to be received.
    /// For programs in which one thread at a time receives.
    #[inline(always)]
    pub fn peek<const HEAD: usize>(&self, head: &mut [u8; HEAD]) -> Peeked {
        self.bypass.peek(head)
    }

    /// Receives all of `to` from behind `head` bytes that were [peeked](Self::peek) at, and drops
    /// those bytes. Returns whether it did; if not, nothing was received.
    #[inline(always)]
    pub fn recv_behind<'a>(&self, head: usize, to: impl raw::Room<'a>) -> bool {
        self.bypass.recv_behind(head, to)
    }

    /// Maps the connection's rings into this program now, so that data moves without a system
    /// call. Otherwise they are mapped after a few calls.
    ///
    /// # Errors
    /// `ENOTCONN`, `EOPNOTSUPP` when this connection's rings cannot be mapped, `ENOMEM`.
    pub fn prepare(&self) -> Result<()> {
        Ok(self.bypass.prepare(self.fd())?)
    }

    /// Whether the connection is alive. Looks at the mapped pages and, about once a second, asks
    /// the daemon, whose death shows nowhere else. For programs that work on mappings alone.
    /// Unless the endpoint is [prepared](Self::prepare), each call asks the daemon.
    pub fn is_live(&self) -> bool {
        self.bypass.is_live(self.fd())
    }

    /// As [`is_live`](Self::is_live), but without a load from the peer's memory, which crosses the
    /// bus and takes as long as a message. Every [send](Self::send) checks the same. The loss of
    /// the peer's node shows only once the daemon has noticed it.
    #[inline]
    pub fn is_connected(&self) -> bool {
        self.bypass.is_connected(self.fd())
    }

    /// Whether the connection is alive, and stores into the peer's memory arrive in order, by the
    /// fewest looks. `false` says nothing.
    #[inline(always)]
    pub fn can_store_at_once(&self) -> bool {
        self.bypass.can_store_at_once()
    }

    /// Whether bytes may have arrived, or the connection may have ended. Reads own memory alone,
    /// for programs that poll between other work. Unlike a [receive](Self::recv) without waiting
    /// it does not notice that the daemon has died ([`is_live`](Self::is_live) does). Always true
    /// unless the endpoint is [prepared](Self::prepare).
    #[inline]
    pub fn may_be_readable(&self) -> bool {
        self.bypass.may_be_readable()
    }

    /// Makes a mark behind the bytes that have arrived, for [`wait_past`](Self::wait_past). Reads
    /// own memory alone. `None` when that call cannot wait: the endpoint is not
    /// [prepared](Self::prepare), its connection has ended, or the kernel does not end the
    /// requests of a driver that has died.
    #[inline]
    pub fn arrived(&self) -> Option<Arrived> {
        self.bypass.written().map(Arrived)
    }

    /// Sleeps until bytes have arrived since `mark` was made, even if a thread has already
    /// received them, or until the connection ends. It may return earlier. A thread uses it to
    /// sleep until some thread has received what it waits for: it makes a mark, checks for that,
    /// and sleeps if it is not there.
    ///
    /// # Errors
    /// `EOPNOTSUPP` when [`arrived`](Self::arrived) makes no mark, `ENOMEM` when too many requests
    /// of this program wait, `ENODEV` when the driver has died, `EINTR`.
    pub fn wait_past(&self, mark: Arrived) -> Result<()> {
        Ok(self.bypass.wait_past(mark.0)?)
    }

    /// The words of own memory that change when bytes arrive behind `mark` or the connection ends,
    /// for a [short sleep](hal::idle_poll), which needs no wake-up by the peer. `None` when
    /// [`arrived`](Self::arrived) makes no mark.
    pub fn watched(&self, mark: Arrived) -> Option<[Watched; 2]> {
        self.bypass.watched(mark.0)
    }

    /// Whether stores into the peer's memory through mappings may be gathered on their way. Such
    /// stores arrive out of order unless a write barrier is between them.
    #[inline]
    pub fn gathers(&self) -> bool {
        self.bypass.gathers()
    }

    /// Sets how blocking calls wait for the peer, once data moves without system calls.
    pub fn set_waiting(&self, waiting: Waiting) {
        self.bypass.set_waiting(waiting);
    }

    /// `read` of the file: waits for at least one byte and receives the bytes that have arrived.
    /// With `O_NONBLOCK` it fails with `EAGAIN` instead of waiting.
    ///
    /// # Errors
    /// Those of [`recv`](Self::recv), and `EAGAIN`.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.bypass.read(self.fd(), buffer)?)
    }

    /// The address at which the endpoint is bound; its port is 0 if the endpoint is not bound.
    ///
    /// # Errors
    /// Those of [`raw::local`].
    pub fn local(&self) -> Result<PortId> {
        Ok(raw::local(self.fd())?)
    }

    /// The address of the connection's other end, also after that end has gone.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn peer(&self) -> Result<PortId> {
        Ok(raw::peer(self.fd())?)
    }

    /// `scif_poll` of this endpoint without waiting; [`poll`](crate::poll()) waits, also for
    /// several.
    ///
    /// # Errors
    /// Those of [`raw::readiness`].
    pub fn readiness(&self, events: Readiness) -> Result<Readiness> {
        let bits = self.bypass.readiness(self.fd(), events.bits())?;
        Ok(Readiness::from_bits_truncate(bits))
    }

    /// `scif_close`: ends the connection now, as dropping the endpoint does. Returns when the
    /// transfers through either end have ended ([`raw::close`] has the details). Mappings of the
    /// peer's windows stay valid; windows of this endpoint do not.
    ///
    /// # Errors
    /// `ENOTTY`: the file that the endpoint was made from is no endpoint; it stays open.
    pub fn close(self) -> Result<()> {
        let Self { bypass, file } = self;
        drop(bypass);
        Ok(raw::close(file.into_raw())?)
    }
}

impl Listener {
    /// Makes an endpoint, binds it to `port` (0: any free one) and listens.
    ///
    /// # Errors
    /// Those of [`Endpoint::open`], [`Endpoint::bind`] and [`Endpoint::listen`].
    pub fn bind(port: Port) -> Result<Self> {
        let endpoint = Endpoint::open()?;
        endpoint.bind(port)?;
        endpoint.listen(DEFAULT_BACKLOG)
    }

    /// The descriptor, for event queues.
    #[inline]
    pub fn fd(&self) -> usize {
        self.endpoint.fd()
    }

    /// The port that it listens on.
    ///
    /// # Errors
    /// Those of [`Endpoint::local`].
    pub fn port(&self) -> Result<Port> {
        self.endpoint.local().map(PortId::port)
    }

    /// `scif_accept` with `SCIF_ACCEPT_SYNC`: waits for a connection. Returns its endpoint and its
    /// peer.
    ///
    /// # Errors
    /// `EINTR`, `ENODEV`, `ENOMEM`.
    pub fn accept(&self) -> Result<(Endpoint, PortId)> {
        self.accept_with(AcceptFlags::SYNC)
    }

    /// `scif_accept` without waiting; `None` when no request waits.
    ///
    /// # Errors
    /// `ENODEV`, `ENOMEM`.
    pub fn try_accept(&self) -> Result<Option<(Endpoint, PortId)>> {
        match self.accept_with(AcceptFlags::empty()) {
            Ok(accepted) => Ok(Some(accepted)),
            Err(Error::Scif(Errno::WouldBlock)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn accept_with(&self, flags: AcceptFlags) -> Result<(Endpoint, PortId)> {
        let (epd, peer) = raw::accept(self.fd(), flags.bits())?;
        Ok((Endpoint::from_file(Fd::new(epd)), peer))
    }

    /// The listener as an endpoint.
    pub fn as_endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}
