//! The other end: `scif-peer` serves one connection after the other, each saying in its first
//! record what it wants. Tests use it through [`Peer`].

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use runtime::process::{Child, Command};
use runtime::time::{Duration, sleep};
use scif::{Endpoint, Errno, Error, Listener, NodeId, PortId, RecvFlags, SendFlags, Waiting};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{connect_patiently, pattern, text};

/// The port `scif-peer` listens on.
pub const PORT: u16 = 3000;

/// Largest piece it sends or receives at a time, in bytes.
pub const MAX_PIECE: usize = 256 * 1024;

/// The order to the peer for a connection.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Request {
    /// One of the numbers below.
    pub verb: U32,
    /// Bytes of a piece at most; 0: always [`MAX_PIECE`]. Sizes vary from 1 to this.
    pub piece: U32,
    /// Milliseconds of sleep after each piece.
    pub delay_ms: U32,
    /// Bytes per message ([`ECHO`], [`ECHO_AWAKE`]).
    pub message: U32,
    /// Bytes of the stream.
    pub bytes: U64,
    /// Which pattern.
    pub seed: U64,
}

/// Send every message back until the end.
pub const ECHO: u32 = 1;
/// Receive the pattern until all bytes have come, then answer with a [`Report`].
pub const SINK: u32 = 2;
/// Send the pattern.
pub const SOURCE: u32 = 3;
/// Send the [`Report`] of the last [`SINK`] or [`SOURCE`].
pub const REPORT: u32 = 4;
/// End.
pub const QUIT: u32 = 5;
/// Do with memory what commands say (see [`windows`](crate::windows)).
pub const WINDOWS: u32 = 6;

/// As [`ECHO`], without ever sleeping.
pub const ECHO_AWAKE: u32 = 7;

/// How a stream ended.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    PartialEq,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(C)]
pub struct Report {
    /// Bytes moved.
    pub bytes: U64,
    /// Position of the first wrong byte, all ones when none was wrong.
    pub mismatch: U64,
    /// The error that ended it before its time, 0 when none did.
    pub errno: U32,
    /// Zero.
    pub reserved: U32,
}

impl Report {
    fn new(bytes: u64, mismatch: Option<u64>, errno: i32) -> Self {
        Self {
            bytes: bytes.into(),
            mismatch: mismatch.unwrap_or(u64::MAX).into(),
            errno: (errno as u32).into(),
            reserved: 0.into(),
        }
    }

    /// Whether `bytes` bytes arrived, all as they should be.
    pub fn is_whole(&self, bytes: u64) -> bool {
        *self == Self::new(bytes, None, 0)
    }
}

/// Sizes of pieces as a request asks for.
struct Pieces {
    random: Option<pattern::Random>,
    limit: u64,
    delay: Duration,
}

impl Pieces {
    fn new(request: &Request) -> Self {
        let piece = u64::from(request.piece.get());
        Self {
            random: (piece != 0).then(|| pattern::Random::new(request.seed.get() + 77)),
            limit: piece.min(MAX_PIECE as u64),
            delay: Duration::from_millis(request.delay_ms.get().into()),
        }
    }

    fn next(&mut self, left: u64) -> usize {
        let size = match &mut self.random {
            Some(random) => random.up_to(self.limit),
            None => MAX_PIECE as u64,
        };
        size.min(left) as usize
    }

    fn pause(&self) {
        if !self.delay.is_zero() {
            sleep(self.delay);
        }
    }
}

/// Receives the pattern as `request` describes it, by `read`.
pub fn sink(endpoint: &Endpoint, request: &Request) -> Report {
    let (bytes, seed) = (request.bytes.get(), request.seed.get());
    let mut pieces = Pieces::new(request);
    let mut buffer = vec![0; MAX_PIECE];
    let (mut done, mut mismatch) = (0, None);
    while done < bytes {
        let piece = pieces.next(bytes - done);
        match endpoint.read(&mut buffer[..piece]) {
            Ok(count) => {
                mismatch = mismatch.or(pattern::mismatch(seed, done, &buffer[..count]));
                done += count as u64;
            }
            Err(error) => return Report::new(done, mismatch, error.errno()),
        }
        pieces.pause();
    }
    Report::new(done, mismatch, 0)
}

/// Sends the pattern as `request` describes it, by blocking sends.
pub fn source(endpoint: &Endpoint, request: &Request) -> Report {
    let (bytes, seed) = (request.bytes.get(), request.seed.get());
    let mut pieces = Pieces::new(request);
    let mut buffer = vec![0; MAX_PIECE];
    let mut done = 0;
    while done < bytes {
        let piece = pieces.next(bytes - done);
        pattern::fill(seed, done, &mut buffer[..piece]);
        match endpoint.send(&buffer[..piece], SendFlags::BLOCK) {
            Ok(count) => done += count as u64,
            Err(error) => return Report::new(done, None, error.errno()),
        }
        pieces.pause();
    }
    Report::new(done, None, 0)
}

/// Sends every message back until the connection ends.
pub fn echo(endpoint: &Endpoint, request: &Request) {
    let size = (request.message.get() as usize).clamp(1, MAX_PIECE);
    let mut buffer = vec![0; size];
    while let Ok(count) = endpoint.recv(&mut buffer, RecvFlags::BLOCK) {
        if count < size || endpoint.send(&buffer, SendFlags::BLOCK).is_err() {
            return;
        }
    }
}

/// Serves until a connection says [`QUIT`].
///
/// # Errors
/// Those of listening and accepting.
pub fn serve(port: u16) -> scif::Result<()> {
    let listener = Listener::bind(port)?;
    let (mut last, mut kept) = (Report::default(), BTreeMap::new());
    loop {
        let (endpoint, from) = listener.accept()?;
        let mut bytes = [0; size_of::<Request>()];
        match endpoint.recv(&mut bytes, RecvFlags::BLOCK) {
            Ok(count) if count == bytes.len() => {}
            // A client that only tried whether the port is served.
            _ => continue,
        }
        let Ok(request) = Request::read_from_bytes(&bytes) else {
            continue;
        };
        match request.verb.get() {
            ECHO => echo(&endpoint, &request),
            ECHO_AWAKE => {
                endpoint.set_waiting(Waiting::Poll);
                echo(&endpoint, &request);
            }
            SINK => {
                last = sink(&endpoint, &request);
                let _ = endpoint.send(last.as_bytes(), SendFlags::BLOCK);
            }
            SOURCE => last = source(&endpoint, &request),
            REPORT => {
                let _ = endpoint.send(last.as_bytes(), SendFlags::BLOCK);
            }
            WINDOWS => crate::windows::serve(&endpoint, kept.entry(from.node()).or_default()),
            QUIT => return Ok(()),
            other => runtime::eprintln!("scif-peer: no request has the number {other}"),
        }
    }
}

/// A `scif-peer`, here or on another node.
pub struct Peer {
    /// Where it listens.
    pub at: PortId,
    child: Option<Child>,
}

impl Peer {
    /// The peer on the node that the program's first argument names; without one a peer on the own
    /// node, started here.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn from_arguments() -> Result<Self, String> {
        let own = scif::nodes().map_err(text("node ids"))?.own;
        let node = runtime::env::args().nth(1);
        let node: Option<NodeId> = match &node {
            Some(word) => Some(word.parse().map_err(text("the node number"))?),
            None => None,
        };
        let child = match node {
            Some(_) => None,
            None => {
                let mut command = Command::new("scif-peer");
                Some(command.spawn().map_err(text("starting scif-peer"))?)
            }
        };
        Ok(Self {
            at: PortId::new(node.unwrap_or(own), PORT),
            child,
        })
    }

    /// A peer that another program has started.
    pub const fn known(at: PortId) -> Self {
        Self { at, child: None }
    }

    /// A connection with a request said.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn connect(&self, request: &Request) -> Result<Endpoint, String> {
        let endpoint = connect_patiently(self.at).map_err(text("connecting to scif-peer"))?;
        endpoint
            .send(request.as_bytes(), SendFlags::BLOCK)
            .map_err(text("request"))?;
        Ok(endpoint)
    }

    /// The report at the end of a [`SINK`] connection.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn report(endpoint: &Endpoint) -> Result<Report, String> {
        let mut bytes = [0; size_of::<Report>()];
        let count = endpoint
            .recv(&mut bytes, RecvFlags::BLOCK)
            .map_err(text("report"))?;
        if count < bytes.len() {
            return Err(alloc::format!("the report ends after {count} bytes"));
        }
        Report::read_from_bytes(&bytes).map_err(|_| "the report has a wrong length".into())
    }

    /// The report of the last stream, over a connection of its own.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn last_report(&self) -> Result<Report, String> {
        let request = Request {
            verb: REPORT.into(),
            ..Request::default()
        };
        Self::report(&self.connect(&request)?)
    }

    /// Ends the peer if it was started here; one on another node serves on.
    pub fn dismiss(mut self) {
        if self.child.is_some() {
            let request = Request {
                verb: QUIT.into(),
                ..Request::default()
            };
            drop(self.connect(&request));
        }
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }
}

/// The error of a transfer whose peer has gone.
pub fn is_reset<T>(result: &scif::Result<T>) -> bool {
    matches!(result, Err(Error::Scif(Errno::ConnectionReset)))
}

/// Words of a command line after the program's name.
pub fn arguments() -> Vec<String> {
    runtime::env::args().skip(1).collect()
}
