//! What a file descriptor of the scheme stands for.

pub(crate) mod ranges;

use alloc::string::String;

use scif_abi::PortId;
use scif_abi::flags::Readiness;
use scif_core::{BypassId, EndpointId, RemoteWindowId};
use syscall::flag::{MODE_CHR, MODE_DIR, MODE_FILE};

use crate::access::{Access, Caller};
use crate::handle::ranges::Ranges;
use crate::memory::{Made, Token};
use crate::path::Path;
use crate::request::transfer_queue::Lane;
use crate::scif::JoinId;
use crate::scif::files::peers::Peers;
use crate::scif::operation::bypass::Direct;

/// Names a handle: the number the kernel knows it by. Never reused, because the kernel keys events
/// and closes by it.
pub type HandleId = usize;

/// One open file.
pub(crate) struct Handle<R> {
    /// What it was opened as; what `fpath` tells for things that are not connections.
    pub path: Path,
    pub access: Access,
    pub caller: Caller,
    pub kind: Kind<R>,
    /// What programs have mapped through it (memory handles keep that with their object), by page
    /// of the offset it was mapped at.
    pub mapped: Ranges<Mark>,
    /// For how many files it counts for its caller; endpoints and bypass handles have limits of
    /// their own.
    pub files: u64,
}

/// What a mapped page is one of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mark {
    /// A window of the peer, and the range of addresses that was made of its pieces for this.
    Peer(RemoteWindowId, Option<JoinId>),
    /// The same, kept by a library.
    Cached(RemoteWindowId, Option<JoinId>),
    /// A memory object that an own window was made of.
    Own(Token),
    /// What bypass clients map of this node's memory.
    LocalPart,
    /// What they map of the peer's.
    PeerPart(BypassId),
}

impl Mark {
    /// What the file `mappings` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Mark::Peer(..) => "window",
            Mark::Cached(..) => "cached-window",
            Mark::Own(_) => "own-window",
            Mark::LocalPart | Mark::PeerPart(_) => "bypass",
        }
    }
}

/// What lies behind a handle.
pub(crate) enum Kind<R> {
    /// A directory; the path says which.
    Directory,
    /// A text file, as it was when it was opened, so that reading it in pieces gives one picture.
    Text(String),
    /// An endpoint in any state.
    Endpoint(Endpoint<R>),
    /// What an endpoint that was shut down leaves: the mappings made through it.
    Closed,
    /// The windows of an endpoint's peer, for mapping.
    Window(EndpointId),
    /// The same, for a library that keeps what it has mapped.
    CachedWindow(EndpointId),
    /// The endpoint's own windows, for mapping.
    OwnWindow(EndpointId),
    /// What an endpoint leaves when it is closed: for waiting until its copies have ended.
    End(EndpointId),
    /// A connection's rings, for a client that works on them by itself.
    Direct(Direct),
    /// A memory object, or nothing yet.
    Memory(Made),
    /// The nodes that come and go.
    Peers(Peers),
    /// A name only (`O_STAT`): it can be asked for its status and connects to nothing.
    Name,
}

/// An endpoint and what the scheme keeps beside the engine's state.
pub(crate) struct Endpoint<R> {
    pub id: EndpointId,
    /// `O_NONBLOCK` of the descriptor, as last set.
    pub nonblocking: bool,
    pub listening: bool,
    /// Set while a connect that `open` started with `O_NONBLOCK` has not been collected.
    pub dialing: Option<PortId>,
    /// What the engine knows that subscribers want to hear of.
    pub subscribed: Option<Readiness>,
    pub outgoing: Lane<R>,
    pub incoming: Lane<R>,
}

impl<R> Endpoint<R> {
    pub fn new(id: EndpointId, nonblocking: bool) -> Self {
        Self {
            id,
            nonblocking,
            listening: false,
            dialing: None,
            subscribed: None,
            outgoing: Lane::default(),
            incoming: Lane::default(),
        }
    }
}

impl<R> Handle<R> {
    /// A handle without mappings.
    pub fn new(path: Path, access: Access, caller: Caller, kind: Kind<R>) -> Self {
        Self {
            path,
            access,
            caller,
            kind,
            mapped: Ranges::default(),
            files: 0,
        }
    }

    /// File type and permissions, as `fstat` tells them.
    pub fn mode(&self) -> u16 {
        match self.path {
            Path::Root | Path::Node(_) | Path::ListenDirectory | Path::AcceptDirectory => {
                MODE_DIR | 0o555
            }
            Path::Text(file) if file.is_writable() => MODE_FILE | 0o644,
            Path::Text(_) => MODE_FILE | 0o444,
            Path::Peers => MODE_CHR | 0o444,
            Path::Connect { .. }
            | Path::Listen(_)
            | Path::Accept(_)
            | Path::Endpoint
            | Path::Memory => MODE_CHR | 0o666,
        }
    }

    /// Bytes of a text file, 0 for everything else.
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::Text(text) => text.len() as u64,
            _ => 0,
        }
    }
}
