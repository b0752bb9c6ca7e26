//! Connections: listening, connecting, and what both ends tell each other first.

use alloc::sync::Arc;
use core::time::Duration;

use hal::mem::PAGE;
use scif::raw;
use scif::{
    Endpoint, Mapping, Memory, PollEntry, Port, PortId, Protection, Readiness, RecvFlags,
    SendFlags, poll,
};
use st_core::connection::Connection;
use st_core::record::{Parameters, RECORD_BYTES, Record};
use st_core::setup::{self, Agreed, Refused};

use crate::channel::Channel;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::shared::Shared;

/// How long a server waits for the request of a peer that has connected.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long a client waits for the answer to its request.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// An endpoint at which connections are accepted.
pub struct Listener {
    listener: scif::Listener,
    options: Options,
}

impl Listener {
    /// Listens at a port (0: any free one) with the default options.
    ///
    /// # Errors
    /// Those of SCIF's bind: `EACCES`, `EINVAL` when the port is in use, `ENOSPC`.
    pub fn bind(port: Port) -> Result<Self> {
        Self::with_options(&Options::new().port(port))
    }

    /// Listens with these options, which every accepted connection gets.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); `Refused(OwnOptions)`.
    pub fn with_options(options: &Options) -> Result<Self> {
        setup::layout(options.setup)?;
        let scif = scif::Options::new().port(options.port);
        Ok(Self {
            listener: scif.backlog(options.backlog).listen()?,
            options: *options,
        })
    }

    /// The port.
    ///
    /// # Errors
    /// Those of the call.
    pub fn port(&self) -> Result<Port> {
        Ok(self.listener.port()?)
    }

    /// The descriptor, for event queues.
    pub fn fd(&self) -> usize {
        self.listener.fd()
    }

    /// Waits for a connection.
    ///
    /// # Errors
    /// Those of SCIF's accept. `Refused` when a peer's parameters cannot be agreed on, `TimedOut`
    /// when it says nothing for 10 s: that connection is closed, and the listener goes on.
    pub fn accept(&self) -> Result<Link> {
        let (endpoint, _) = self.listener.accept()?;
        Link::answer(endpoint, &self.options)
    }

    /// As [`accept`](Self::accept), without waiting for a connection to come; `None`: there is
    /// none.
    ///
    /// # Errors
    /// As there.
    pub fn try_accept(&self) -> Result<Option<Link>> {
        match self.listener.try_accept()? {
            Some((endpoint, _)) => Link::answer(endpoint, &self.options).map(Some),
            None => Ok(None),
        }
    }
}

/// Connects to a listener of another program: waits until it accepts.
///
/// # Errors
/// Those of SCIF's connect: `ECONNREFUSED` when no program listens there, `ENODEV` when there is no
/// such node, …; `Refused` when the options of both ends do not agree.
pub fn connect(to: PortId, options: &Options) -> Result<Link> {
    setup::layout(options.setup)?;
    let scif = scif::Options::new().port(options.port);
    Link::request(scif.retry_for(options.retry_for).connect(to)?, options)
}

/// One end of a connection. Its channels are attached one by one; the connection lives as long as
/// any of them does.
pub struct Link {
    shared: Arc<Shared>,
    options: Options,
}

impl Link {
    /// Opens the conversation over a connected endpoint, whose other end calls
    /// [`answer`](Self::answer).
    ///
    /// # Errors
    /// As [`connect`].
    pub fn request(endpoint: Endpoint, options: &Options) -> Result<Self> {
        let (window, own) = prepare(&endpoint, options)?;
        send(&endpoint, &Record::Request(own))?;
        let answer = receive(&endpoint, ANSWER_TIME)?;
        let agreed = setup::connected(own, answer)?;
        let peer = map(&endpoint, &agreed)?;
        Self::new(
            endpoint,
            window,
            peer,
            Connection::new(own, agreed),
            options,
        )
    }

    /// Answers [`request`](Self::request) over a connected endpoint.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn answer(endpoint: Endpoint, options: &Options) -> Result<Self> {
        let (window, own) = prepare(&endpoint, options)?;
        let request = receive(&endpoint, REQUEST_TIME)?;
        let accepted = setup::accept(own, request).map_err(Error::from);
        let mapped = accepted.and_then(|(agreed, answer)| {
            let peer = map(&endpoint, &agreed)?;
            Ok((agreed, answer, peer))
        });
        let (agreed, answer, peer) = match mapped {
            Ok(mapped) => mapped,
            Err(error) => {
                // The error is told here; what the peer hears is the refusal, or the end.
                let _ = send(&endpoint, &Record::Reject);
                return Err(error);
            }
        };
        send(&endpoint, &answer)?;
        Self::new(
            endpoint,
            window,
            peer,
            Connection::new(own, agreed),
            options,
        )
    }

    fn new(
        endpoint: Endpoint,
        own: Memory,
        peer: Mapping,
        connection: Connection,
        options: &Options,
    ) -> Result<Self> {
        let is_local = endpoint.local()?.node() == endpoint.peer()?.node();
        Ok(Self {
            shared: Shared::new(endpoint, own, peer, connection, is_local),
            options: *options,
        })
    }

    /// Attaches a channel.
    ///
    /// # Errors
    /// `Invalid`: there is no such channel. `Busy`: it is attached, or memory is mapped on it
    /// still.
    pub fn channel(&self, channel: u32) -> Result<Channel> {
        Channel::attach(&self.shared, channel, self.options.waiting)
    }

    /// The endpoint below, for its addresses and for event queues. What is sent and received on it
    /// is the library's.
    pub fn endpoint(&self) -> &Endpoint {
        &self.shared.endpoint
    }

    /// What this end has told its peer: its port, key, channels and slots.
    pub fn own(&self) -> Parameters {
        self.shared.with_connection(|connection| *connection.own())
    }

    /// What the peer has told.
    pub fn peer(&self) -> Parameters {
        let agreed = |connection: &mut Connection| connection.agreed().parameters;
        self.shared.with_connection(agreed)
    }
}

/// Maps the rings and registers the queue window of a new connection.
fn prepare(endpoint: &Endpoint, options: &Options) -> Result<(Memory, Parameters)> {
    let layout = setup::layout(options.setup)?;
    endpoint.prepare()?;
    let window = Memory::new(layout.bytes().next_multiple_of(PAGE))?;
    let protection = Protection::all().bits();
    let offset = raw::register(endpoint.fd(), window.range(), 0, protection, 0);
    let parameters = Parameters {
        port: endpoint.local()?.port(),
        key: key(),
        bypass: options.setup.bypass,
        channels: options.setup.channels,
        slots: options.setup.slots,
        window: offset.map_err(scif::Error::from)?,
    };
    Ok((window, parameters))
}

/// A random number that is not 0.
fn key() -> u32 {
    (hal::random::word() as u32).max(1)
}

/// Maps the peer's queue window.
fn map(endpoint: &Endpoint, agreed: &Agreed) -> Result<Mapping> {
    let bytes = agreed.peer.bytes().next_multiple_of(PAGE);
    let offset = agreed.parameters.window;
    Ok(endpoint.map(offset, bytes, Protection::all())?)
}

fn send(endpoint: &Endpoint, record: &Record) -> Result<()> {
    let sent = endpoint.send(&record.encode(), SendFlags::BLOCK)?;
    match sent {
        RECORD_BYTES => Ok(()),
        _ => Err(Error::Ended),
    }
}

fn receive(endpoint: &Endpoint, limit: Duration) -> Result<Record> {
    let deadline = Deadline::after(limit)?;
    let mut bytes = [0; RECORD_BYTES];
    let mut filled = 0;
    while filled < RECORD_BYTES {
        filled += endpoint.recv(&mut bytes[filled..], RecvFlags::empty())?;
        if filled < RECORD_BYTES {
            poll(
                &mut [PollEntry::new(endpoint, Readiness::IN)],
                deadline.left()?,
            )?;
        }
    }
    Record::decode(&bytes).map_err(|_| Refused::Protocol.into())
}
