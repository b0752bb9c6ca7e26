//! Endpoints and listeners.

use alloc::vec::Vec;
use core::cell::Cell;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDWR};
use scif_abi::call::{AcceptRecord, Call};
use scif_abi::codec::Operation;
use scif_abi::error::Error as Errno;
use scif_abi::flags::{AcceptFlags, Readiness, RecvFlags, SendFlags};
use scif_abi::limits::MAX_NODE;
use scif_abi::{NodeId, Port, PortId};
use syscall::flag::{CallFlags, F_SETFL, O_NONBLOCK};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Error, Result};

/// Requests that wait on a listener at most, unless [`Endpoint::listen`] says otherwise.
pub const DEFAULT_BACKLOG: i32 = 128;

/// Bytes of one non-blocking send at most; a ring of the base protocol takes 4095.
const BOUNCE_BYTES: usize = 4096;

/// An endpoint: unbound, bound, or one end of a connection.
pub struct Endpoint {
    file: Fd,
    nonblocking: Cell<bool>,
}

/// An endpoint that listens.
pub struct Listener {
    endpoint: Endpoint,
}

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
    let endpoint = Endpoint::open()?;
    let mut buffer = [0; 2 * (MAX_NODE as usize + 2)];
    let count = endpoint.call_with(Call::GetNodeIds, &mut buffer)?;
    let mut ids = buffer
        .chunks_exact(2)
        .map(|id| NodeId::from_le_bytes([id[0], id[1]]));
    let own = ids.next().unwrap_or(0);
    Ok(Nodes {
        own,
        online: ids.take(count).collect(),
    })
}

impl Endpoint {
    /// `scif_open`: a new, unbound endpoint.
    ///
    /// # Errors
    /// `ENOMEM` at a limit; `ENODEV` or `ENOENT` when there is no `scif:` scheme.
    pub fn open() -> Result<Self> {
        Ok(Self::from_file(Fd::open(
            "/scheme/scif/endpoint",
            O_RDWR | O_CLOEXEC,
            0,
        )?))
    }

    /// An endpoint from a file of the scheme, opened by path without `O_NONBLOCK`.
    pub fn from_file(file: Fd) -> Self {
        Self {
            file,
            nonblocking: Cell::new(false),
        }
    }

    /// The descriptor, for event queues and `fcntl`-like calls.
    pub fn fd(&self) -> usize {
        self.file.raw()
    }

    /// Sets or clears `O_NONBLOCK`, which concerns [`connect`](Self::connect) only, as in SCIF.
    ///
    /// # Errors
    /// Those of `fcntl`.
    pub fn set_nonblocking(&self, nonblocking: bool) -> Result<()> {
        self.file
            .fcntl(F_SETFL, if nonblocking { O_NONBLOCK } else { 0 })?;
        self.nonblocking.set(nonblocking);
        Ok(())
    }

    /// `scif_bind`: binds to `port`, or to a free one from 1088 if it is 0. Returns the port.
    ///
    /// # Errors
    /// `EACCES`, `EINVAL`, `EISCONN`, `ENOSPC`.
    pub fn bind(&self, port: Port) -> Result<Port> {
        self.call(Call::Bind { port }).map(port_of)
    }

    /// `scif_listen`, with at most `backlog` requests waiting.
    ///
    /// # Errors
    /// `EINVAL`, `EISCONN`.
    pub fn listen(self, backlog: i32) -> Result<Listener> {
        self.call(Call::Listen { backlog })?;
        Ok(Listener { endpoint: self })
    }

    /// `scif_connect`. Returns the local port. With `O_NONBLOCK`: `EINPROGRESS`, and once poll
    /// reports `OUT` the same call again collects the result.
    ///
    /// # Errors
    /// `ECONNREFUSED`, `EINVAL`, `EINPROGRESS`, `EISCONN`, `ENODEV`, `ENOMEM`, `ENOSPC`,
    /// `EOPNOTSUPP`.
    pub fn connect(&self, to: PortId) -> Result<Port> {
        self.call(Call::Connect {
            node: to.node(),
            port: to.port(),
        })
        .map(port_of)
    }

    /// `scif_send`: with `BLOCK` all of `bytes`, without as much as fits now, perhaps 0.
    ///
    /// # Errors
    /// `ECONNRESET`, `ENOTCONN`. A connection that ends in the middle of a blocking send gives the
    /// count so far.
    pub fn send(&self, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        if !flags.contains(SendFlags::BLOCK) {
            return self.send_chunk(bytes, flags);
        }
        if !self.nonblocking.get() {
            return Ok(self.file.write(bytes)?);
        }
        // A write would heed O_NONBLOCK, which does not concern scif_send.
        let mut sent = 0;
        for chunk in bytes.chunks(BOUNCE_BYTES) {
            match self.send_chunk(chunk, flags) {
                Ok(count) if count == chunk.len() => sent += count,
                Ok(count) => return Ok(sent + count),
                Err(_) if sent > 0 => return Ok(sent),
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// The payload of a call must be writable memory, which `bytes` may not be.
    fn send_chunk(&self, bytes: &[u8], flags: SendFlags) -> Result<usize> {
        let mut bounce = [0; BOUNCE_BYTES];
        let chunk = &bytes[..bytes.len().min(BOUNCE_BYTES)];
        let bounce = &mut bounce[..chunk.len()];
        bounce.copy_from_slice(chunk);
        self.call_with(
            Call::Send {
                flags: flags.bits(),
            },
            bounce,
        )
    }

    /// `scif_recv`: with `BLOCK` fills `buffer`, without gives what is there, perhaps 0.
    ///
    /// # Errors
    /// `ECONNRESET` when the peer is gone and nothing is left, `ENOTCONN`. A connection that ends
    /// in the middle of a blocking receive gives the count so far.
    pub fn recv(&self, buffer: &mut [u8], flags: RecvFlags) -> Result<usize> {
        self.call_with(
            Call::Recv {
                flags: flags.bits(),
            },
            buffer,
        )
    }

    /// Waits for at least one byte and gives what is there: `read` of the file. `EAGAIN` instead of
    /// waiting when `O_NONBLOCK` is set.
    ///
    /// # Errors
    /// As [`recv`](Self::recv), and `EAGAIN`.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize> {
        Ok(self.file.read(buffer)?)
    }

    /// Where the endpoint is bound; port 0 when it is not.
    ///
    /// # Errors
    /// Those of the call.
    pub fn local(&self) -> Result<PortId> {
        self.call(Call::LocalPort).map(port_id_of)
    }

    /// The other end of the connection, also after it has gone.
    ///
    /// # Errors
    /// `ENOTCONN`.
    pub fn peer(&self) -> Result<PortId> {
        self.call(Call::PeerPort).map(port_id_of)
    }

    /// `scif_poll` of this endpoint without waiting; see [`poll`](crate::poll()) for more.
    ///
    /// # Errors
    /// Those of the call.
    pub fn readiness(&self, events: Readiness) -> Result<Readiness> {
        let bits = self.call(Call::Poll {
            events: events.bits(),
        })?;
        Ok(Readiness::from_bits_truncate(bits as u16))
    }

    fn call(&self, call: Call) -> Result<usize> {
        self.call_with(call, &mut [])
    }

    fn call_with(&self, call: Call, payload: &mut [u8]) -> Result<usize> {
        let [first, second] = call.words();
        let metadata = [call.number(), first, second];
        Ok(self.file.call_rw(payload, CallFlags::empty(), &metadata)?)
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
        let mut record = AcceptRecord::default();
        let request = Call::AcceptRequest {
            flags: flags.bits(),
            record,
        };
        let mut payload = [0; size_of::<AcceptRecord>()];
        self.endpoint.call_with(request, &mut payload)?;
        if let Ok(filled) = AcceptRecord::read_from_bytes(payload.as_bytes()) {
            record = filled;
        }
        let endpoint = Endpoint::open()?;
        endpoint.call(Call::AcceptRegister {
            handle: record.handle.get(),
        })?;
        Ok((endpoint, record.peer))
    }

    /// The listener as an endpoint.
    pub fn as_endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

fn port_of(word: usize) -> Port {
    word as Port
}

/// `node << 16 | port`.
fn port_id_of(word: usize) -> PortId {
    PortId::new((word >> 16) as NodeId, word as Port)
}
