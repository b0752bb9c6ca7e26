//! Endpoints and listeners.

use alloc::vec::Vec;

use client_memory::descriptor::Descriptor;
use hal::idle_poll::Watched;
use libredox::Fd;
use scif_abi::error::Error as Errno;
use scif_abi::flags::{AcceptFlags, Readiness, RecvFlags, SendFlags};
use scif_abi::limits::{MAX_NODE, PRIVILEGED_PORT_END};
use scif_abi::{NodeId, Port, PortId};

use crate::bypass::{Bypass, Peeked, Waiting};
use crate::error::{Error, Result};
use crate::raw;

/// Requests that wait on a listener at most, unless [`Endpoint::listen`] says otherwise.
pub const DEFAULT_BACKLOG: i32 = 128;

/// Ports for connections that root makes. Those below are for servers.
const ROOTS_OWN: core::ops::Range<Port> = 512..PRIVILEGED_PORT_END;

/// An endpoint: unbound, bound, or one end of a connection. Threads may share it: blocking sends do
/// not mix, and neither do blocking receives.
pub struct Endpoint {
    /// Before the descriptor, so that what is mapped goes before the connection ends.
    bypass: Bypass,
    file: Descriptor,
}

/// As `scif_close` does it. The error says that it is no endpoint (any more); a drop cannot report
/// it.
fn close(number: usize) {
    let _ = raw::close(number);
}

/// An endpoint that listens.
pub struct Listener {
    endpoint: Endpoint,
}

/// A mark in the bytes that arrive at an endpoint: [`Endpoint::arrived`].
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

/// A new endpoint, connected to `to`: waits until the other side has accepted.
///
/// # Errors
/// As [`Endpoint::connect`].
pub fn connect(to: PortId) -> Result<Endpoint> {
    let endpoint = Endpoint::open()?;
    endpoint.connect(to)?;
    Ok(endpoint)
}

/// `scif_get_node_ids`.
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

    /// The data path of this descriptor.
    #[inline]
    pub(crate) fn bypass(&self) -> &Bypass {
        &self.bypass
    }

    /// The descriptor, for event queues, `fcntl`-like calls and [`raw`].
    #[inline]
    pub fn fd(&self) -> usize {
        self.file.number()
    }

    /// The descriptor with its owner.
    #[cfg(feature = "std")]
    pub(crate) fn descriptor(&self) -> &Descriptor {
        &self.file
    }

    /// Sets or clears `O_NONBLOCK`, which concerns [`connect`](Self::connect) and
    /// [`read`](Self::read) only, as in SCIF.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        Ok(raw::set_nonblocking(self.fd(), nonblocking)?)
    }

    /// `scif_bind`: binds to `port`, or to a free one from 1088 if it is 0. Returns the port.
    ///
    /// # Errors
    /// `EACCES`, `EINVAL`, `EISCONN`, `ENOSPC`.
    pub fn bind(&self, port: Port) -> Result<Port> {
        Ok(raw::bind(self.fd(), port)?)
    }

    /// Binds to a free one of the ports that only root binds. Servers that serve root only look at
    /// that: [`PortId::is_of_root`].
    ///
    /// # Errors
    /// `EACCES`: for others than root. `ENOSPC`: none is free, or the endpoint is bound.
    pub fn bind_as_root(&self) -> Result<Port> {
        for port in ROOTS_OWN.rev() {
            match self.bind(port) {
                // Another endpoint has it.
                Err(Error::Scif(Errno::InvalidArgument)) => {}
                bound => return bound,
            }
        }
        Err(Error::Scif(Errno::NoSpace))
    }

    /// `scif_listen`, with at most `backlog` requests waiting.
    ///
    /// # Errors
    /// `EINVAL`, `EISCONN`.
    pub fn listen(self, backlog: i32) -> Result<Listener> {
        raw::listen(self.fd(), backlog)?;
        Ok(Listener { endpoint: self })
    }

    /// `scif_connect`. Returns the local port. With `O_NONBLOCK`: `EINPROGRESS`, and once poll
    /// reports `OUT` the same call again collects the result.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `EINVAL`, `EINPROGRESS`, `EISCONN`, `ENODEV`, `ENOMEM`, `ENOSPC`,
    /// `EOPNOTSUPP`.
    pub fn connect(&self, to: PortId) -> Result<Port> {
        Ok(raw::connect(self.fd(), to)?)
    }

    /// `scif_send`: with `BLOCK` all of `bytes`, without as much as fits now, perhaps 0.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`. A connection that ends in the middle of a blocking send gives the
    /// count so far.
    #[inline]
    pub fn send(&self, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        Ok(self.bypass.send(self.fd(), bytes, flags.bits())?)
    }

    /// `scif_recv`: with `BLOCK` fills `buffer`, without gives what is there, perhaps 0.
    ///
    /// # Errors
    /// `ECONNRESET` when the peer is gone and nothing is left, `ENOTCONN`. A connection that ends
    /// in the middle of a blocking receive gives the count so far.
    #[inline]
    pub fn recv(&self, buffer: &mut [u8], flags: RecvFlags) -> Result<usize> {
        Ok(self.bypass.recv(self.fd(), buffer, flags.bits())?)
    }

    /// Sends a head and a body in one step where that is done at once; whether it did. If not,
    /// nothing was sent, and [`send`](Self::send) has to. Unless [prepared](Self::prepare) never.
    #[inline(always)]
    pub fn send_record<'a>(&self, head: &[u8], body: impl raw::Data<'a>) -> bool {
        self.bypass.send_record(head, body)
    }

    /// Copies the first bytes that can be received, which stay there. For programs in which one
    /// thread at a time receives.
    #[inline(always)]
    pub fn peek<const HEAD: usize>(&self, head: &mut [u8; HEAD]) -> Peeked {
        self.bypass.peek(head)
    }

    /// Receives all of `to` from behind `head` bytes that were [peeked](Self::peek) at, which are
    /// dropped; whether it did. If not, nothing was received.
    #[inline(always)]
    pub fn recv_behind<'a>(&self, head: usize, to: impl raw::Room<'a>) -> bool {
        self.bypass.recv_behind(head, to)
    }

    /// Maps the connection's rings into this program now, so that data moves without a system call.
    /// Otherwise that happens after a few calls.
    ///
    /// # Errors
    /// `ENOTCONN`, `EOPNOTSUPP` when it is not possible for this connection, `ENOMEM`.
    pub fn prepare(&self) -> Result<()> {
        Ok(self.bypass.prepare(self.fd())?)
    }

    /// Whether the connection lives, by own memory and, about once a second, by a probe of the
    /// daemon, whose death shows nowhere else. For programs that work on mappings alone. Unless the
    /// endpoint is [prepared](Self::prepare), each call asks the daemon.
    pub fn is_live(&self) -> bool {
        self.bypass.is_live(self.fd())
    }

    /// As [`is_live`](Self::is_live), but by own memory alone, as every [send](Self::send) does:
    /// the loss of the peer's node shows once the daemon has noticed it. A load from the peer's
    /// memory crosses the bus and takes as long as a message.
    #[inline]
    pub fn is_connected(&self) -> bool {
        self.bypass.is_connected(self.fd())
    }

    /// Whether bytes may have arrived, or the connection may have ended, by own memory alone: for
    /// programs that poll between other work. Unlike a [receive](Self::recv) without waiting it
    /// does not notice that the daemon has died ([`is_live`](Self::is_live) does). Always true
    /// unless [prepared](Self::prepare).
    #[inline]
    pub fn may_be_readable(&self) -> bool {
        self.bypass.may_be_readable()
    }

    /// A mark behind the bytes that have arrived, for [`wait_past`](Self::wait_past), by own memory
    /// alone. `None`: that call cannot wait, as the endpoint is not [prepared](Self::prepare), its
    /// connection has ended, or the kernel does not end the requests of a driver that has died.
    #[inline]
    pub fn arrived(&self) -> Option<Arrived> {
        self.bypass.written().map(Arrived)
    }

    /// Sleeps until bytes have arrived since `mark` was made, whichever thread has received them by
    /// now, or the connection ends. It may return earlier. So a thread sleeps until another one, or
    /// itself, has received something of interest to it: it makes a mark, looks at what it waits
    /// for, and sleeps if that is not there.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where [`arrived`](Self::arrived) gives no mark, `ENOMEM` when too many requests
    /// of this program wait, `ENODEV` when the driver has died.
    pub fn wait_past(&self, mark: Arrived) -> Result<()> {
        Ok(self.bypass.wait_past(mark.0)?)
    }

    /// The words of own memory that change when bytes arrive behind a mark, or the connection ends,
    /// for a [short sleep](hal::idle_poll) which needs no wake-up by the peer. `None` where
    /// [`arrived`](Self::arrived) gives no mark.
    pub fn watched(&self, mark: Arrived) -> Option<[Watched; 2]> {
        self.bypass.watched(mark.0)
    }

    /// Whether stores into the peer's memory through mappings may be gathered, so that they arrive
    /// out of order unless a write barrier is between them.
    #[inline]
    pub fn gathers(&self) -> bool {
        self.bypass.gathers()
    }

    /// How blocking calls wait for the peer, once data moves without system calls.
    pub fn set_waiting(&self, waiting: Waiting) {
        self.bypass.set_waiting(waiting);
    }

    /// Waits for at least one byte and gives what is there: `read` of the file. `EAGAIN` instead of
    /// waiting when `O_NONBLOCK` is set.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and `EAGAIN`.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.bypass.read(self.fd(), buffer)?)
    }

    /// Where the endpoint is bound; port 0 when it is not.
    ///
    /// # Errors
    /// Those of the call.
    pub fn local(&self) -> Result<PortId> {
        Ok(raw::local(self.fd())?)
    }

    /// The other end of the connection, also after it has gone.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn peer(&self) -> Result<PortId> {
        Ok(raw::peer(self.fd())?)
    }

    /// `scif_poll` of this endpoint without waiting; see [`poll`](crate::poll()) for more.
    ///
    /// # Errors
    /// Those of the call.
    pub fn readiness(&self, events: Readiness) -> Result<Readiness> {
        let bits = self.bypass.readiness(self.fd(), events.bits())?;
        Ok(Readiness::from_bits_truncate(bits))
    }

    /// `scif_close`: ends the connection now, as dropping the endpoint does, and returns when the
    /// transfers through either end have ended ([`raw::close`] has the details). Mappings of the
    /// peer's windows live on, windows of this endpoint do not.
    ///
    /// # Errors
    /// `ENOTTY`: the file it was made from is no endpoint; it stays open.
    pub fn close(self) -> Result<()> {
        let Self { bypass, file } = self;
        drop(bypass);
        Ok(raw::close(file.into_raw())?)
    }
}

impl Listener {
    /// Binds to `port` (0: any free one) and listens.
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
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

    /// The port it listens on.
    ///
    /// # Errors
    /// Those of the call.
    pub fn port(&self) -> Result<Port> {
        self.endpoint.local().map(PortId::port)
    }

    /// `scif_accept` with `SCIF_ACCEPT_SYNC`: waits for a connection. Returns it and its peer.
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
