//! The set-up of a connection, step by step.

use core::time::Duration;

use hal::mem::PAGE;
use scif::raw;
use scif::{
    Endpoint, Mapping, Memory, PollEntry, Protection, Readiness, RecvFlags, SendFlags, poll,
};
use st_core::connection::Connection as ProtocolState;
use st_core::record::{Parameters, RECORD_BYTES, Record};
use st_core::setup::{self, Agreed, Refused};

use crate::connection::Connection;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::shared::Shared;

/// How long a server waits for the request of a peer that has connected.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// How long a client waits for the answer to its request.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// The set-up of a connection over a connected endpoint. No call waits for the peer's program, so
/// one thread can serve many peers: those that are quick are finished first.
///
/// ```no_run
/// # use st::{Endpoint, Handshake, Connection, Options, Result};
/// # fn f(endpoint: Endpoint) -> Result<Option<Connection>> {
/// let mut handshake = Handshake::answer(endpoint, &Options::new())?;
/// // Again whenever `handshake.endpoint()` is readable.
/// if handshake.advance()? {
///     return handshake.finish().map(Some);
/// }
/// # Ok(None) }
/// ```
pub struct Handshake {
    endpoint: Endpoint,
    options: Options,
    side: Side,
    /// The peer's record, as far as it has arrived.
    bytes: [u8; RECORD_BYTES],
    filled: usize,
    /// Until when it has to arrive.
    deadline: Deadline,
}

impl Connection {
    /// Sets up a connection over a connected endpoint, whose other end calls
    /// [`answer`](Self::answer). Programs that must not wait here use a [`Handshake`].
    ///
    /// # Errors
    /// Those of [`connect`](crate::connect).
    pub fn request(endpoint: Endpoint, options: &Options) -> Result<Self> {
        Self::wait_for(Handshake::request(endpoint, options)?)
    }

    /// Answers [`request`](Self::request) over a connected endpoint.
    ///
    /// # Errors
    /// Those of [`Listener::accept`](crate::Listener::accept).
    pub fn answer(endpoint: Endpoint, options: &Options) -> Result<Self> {
        Self::wait_for(Handshake::answer(endpoint, options)?)
    }

    fn wait_for(mut handshake: Handshake) -> Result<Self> {
        while !handshake.advance()? {
            let left = handshake.deadline().left()?;
            let mut entry = [PollEntry::new(handshake.endpoint(), Readiness::IN)];
            poll(&mut entry, left)?;
        }
        handshake.finish()
    }
}

/// Which end this is.
enum Side {
    /// The one that sends the request, with its queue window.
    Client(Memory, Parameters),
    /// The one that answers. Its window is made when the request has arrived: a peer that sends
    /// nothing costs none.
    Server,
}

impl Handshake {
    /// Sends the request. The other end calls [`answer`](Self::answer).
    ///
    /// # Errors
    /// `Refused(OwnOptions)`; those of registering memory and of the end of the connection.
    pub fn request(endpoint: Endpoint, options: &Options) -> Result<Self> {
        let (window, own) = prepare(&endpoint, options)?;
        send(&endpoint, &Record::Request(own))?;
        let side = Side::Client(window, own);
        Self::new(endpoint, options, side, ANSWER_TIME)
    }

    /// Prepares to answer a request, which has to arrive within 10 s.
    ///
    /// # Errors
    /// `Refused(OwnOptions)`.
    pub fn answer(endpoint: Endpoint, options: &Options) -> Result<Self> {
        setup::layout(options.setup)?;
        Self::new(endpoint, options, Side::Server, REQUEST_TIME)
    }

    fn new(endpoint: Endpoint, options: &Options, side: Side, time: Duration) -> Result<Self> {
        Ok(Self {
            endpoint,
            options: *options,
            side,
            bytes: [0; RECORD_BYTES],
            filled: 0,
            deadline: Deadline::after(time)?,
        })
    }

    /// The endpoint, for event queues.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// When [`advance`](Self::advance) gives up.
    pub const fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Receives what the peer has sent. Returns whether its record is complete, so that the set-up
    /// can be [finished](Self::finish).
    ///
    /// # Errors
    /// `TimedOut`: the peer takes longer than 10 s for its request, or 30 s for its answer. Those
    /// of the end of the connection.
    pub fn advance(&mut self) -> Result<bool> {
        while let Some(rest) = self.bytes.get_mut(self.filled..)
            && !rest.is_empty()
        {
            match self.endpoint.recv(rest, RecvFlags::empty())? {
                0 => {
                    self.deadline.left()?;
                    return Ok(false);
                }
                count => self.filled += count,
            }
        }
        Ok(true)
    }

    /// Makes the connection, once [`advance`](Self::advance) has returned `true`.
    ///
    /// # Errors
    /// `Refused`; those of registering and mapping memory and of the end of the connection.
    pub fn finish(self) -> Result<Connection> {
        let record = match self.filled {
            RECORD_BYTES => Record::decode(&self.bytes).map_err(|_| Refused::Protocol),
            _ => Err(Refused::Protocol),
        };
        let (endpoint, options) = (self.endpoint, self.options);
        let (window, peer, connection) = match self.side {
            Side::Client(window, own) => {
                let agreed = setup::connected(own, record?)?;
                let peer = map(&endpoint, &agreed)?;
                (window, peer, ProtocolState::new(own, agreed))
            }
            Side::Server => match answer(&endpoint, record, &options) {
                Ok(parts) => parts,
                Err(error) => {
                    // The caller gets the error; the peer gets the refusal, or the end of the
                    // connection.
                    let _ = send(&endpoint, &Record::Reject);
                    return Err(error);
                }
            },
        };
        let is_local = endpoint.local()?.node() == endpoint.peer()?.node();
        let shared = Shared::new(endpoint, window, peer, connection, is_local);
        Ok(Connection::new(shared, &options))
    }
}

fn answer(
    endpoint: &Endpoint,
    request: Result<Record, Refused>,
    options: &Options,
) -> Result<(Memory, Mapping, ProtocolState)> {
    let request = request?;
    let (window, own) = prepare(endpoint, options)?;
    let (agreed, answer) = setup::accept(own, request)?;
    let peer = map(endpoint, &agreed)?;
    send(endpoint, &answer)?;
    Ok((window, peer, ProtocolState::new(own, agreed)))
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

/// Sends the first record of a stream, which always has room for it.
fn send(endpoint: &Endpoint, record: &Record) -> Result<()> {
    match endpoint.send(&record.encode(), SendFlags::empty())? {
        RECORD_BYTES => Ok(()),
        _ => Err(Error::Ended),
    }
}
