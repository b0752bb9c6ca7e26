//! Handles: the object behind each file descriptor of the scheme, and the table of all handles.

pub(crate) mod endpoint;
pub(crate) mod messages;
pub(crate) mod peer_lines;
pub(crate) mod ranges;
pub(crate) mod table;

use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::bypass::BypassRecord;
use scif_core::{BypassId, EndpointId, RemoteWindowId};
use syscall::error::{EBUSY, Error, Result};
use syscall::flag::{MODE_CHR, MODE_DIR, MODE_FILE};

use crate::access::{Access, Caller};
use crate::handle::endpoint::Endpoint;
use crate::handle::peer_lines::PeerLines;
use crate::handle::ranges::{Range, Ranges};
use crate::node_memory::{JoinId, Token};
use crate::path::{Content, Name, Path};

/// The opened object, its access mode and its opener.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    name: Name,
    access: Access,
    caller: Caller,
}

impl Opening {
    pub fn new(name: Name, access: Access, caller: Caller) -> Self {
        Self {
            name,
            access,
            caller,
        }
    }

    /// The opening with another path: a listener's port is known only once it is bound.
    pub fn at(self, path: Path) -> Self {
        let name = self.name.with(path);
        Self { name, ..self }
    }

    /// The opened object.
    pub fn name(&self) -> Name {
        self.name
    }

    /// The caller whose rights count, whatever process uses the descriptor.
    pub fn caller(&self) -> Caller {
        self.caller
    }
}

/// One open file.
pub(crate) struct Handle<R> {
    opening: Opening,
    kind: Kind<R>,
    /// The pages that programs have mapped through it, by page of the mapping's offset. (Memory
    /// handles keep them with their object.)
    mapped: Ranges<PageKind>,
    /// The number of files that its caller is charged for it. Endpoints and bypass handles have
    /// limits of their own.
    files: u64,
}

/// The object that a mapped page belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PageKind {
    /// A window of the peer, and the range of addresses that was joined for the mapping.
    Peer(RemoteWindowId, Option<JoinId>),
    /// A window of the peer in a mapping that a library caches.
    Cached(RemoteWindowId, Option<JoinId>),
    /// The memory object of an own window.
    Own(Token),
    /// Pages of this node that bypass clients map.
    LocalPart,
    /// Pages of the peer that bypass clients map.
    PeerPart(BypassId),
}

impl PageKind {
    /// Whether pages of both kinds are of the same object, whatever was joined for each mapping.
    fn is_same_object(self, other: PageKind) -> bool {
        match (self, other) {
            (PageKind::Peer(one, _), PageKind::Peer(other, _))
            | (PageKind::Cached(one, _), PageKind::Cached(other, _)) => one == other,
            _ => self == other,
        }
    }

    /// The kind's name in the file `mappings`.
    pub fn name(self) -> &'static str {
        match self {
            PageKind::Peer(..) => "window",
            PageKind::Cached(..) => "cached-window",
            PageKind::Own(_) => "own-window",
            PageKind::LocalPart | PageKind::PeerPart(_) => "bypass",
        }
    }
}

/// A connection's rings, for a client that works on them by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bypass {
    id: BypassId,
    endpoint: EndpointId,
    record: BypassRecord,
}

impl Bypass {
    pub fn new(id: BypassId, endpoint: EndpointId, record: BypassRecord) -> Self {
        Self {
            id,
            endpoint,
            record,
        }
    }

    /// The engine's name for the client.
    pub fn id(&self) -> BypassId {
        self.id
    }

    /// The endpoint of the rings, which may be closed by now.
    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// The record for the client.
    pub fn record(&self) -> &BypassRecord {
        &self.record
    }
}

/// The object behind a handle.
pub(crate) enum Kind<R> {
    /// A directory; the path says which.
    Directory,
    /// A text file with its content at the open, so that reading it in pieces gives a consistent
    /// text.
    Text(String),
    /// An endpoint in any state.
    Endpoint(Endpoint<R>),
    /// An endpoint that was shut down. Mappings made through it may remain.
    Closed,
    /// The windows of an endpoint's peer, for mapping.
    Window(EndpointId),
    /// The windows of an endpoint's peer, for a library that caches its mappings.
    CachedWindow(EndpointId),
    /// The endpoint's own windows, for mapping.
    OwnWindow(EndpointId),
    /// An endpoint, for waiting until its copies have ended once it is closed.
    End(EndpointId),
    /// A connection's rings, for a client that works on them by itself.
    Bypass(Bypass),
    /// A memory object; `None` until it is being made.
    Memory(Option<Token>),
    /// A reader of the nodes that come and go.
    Peers(PeerLines),
    /// A name only (`O_STAT`): for its status, without a connection.
    Name,
}

impl<R> Handle<R> {
    /// A handle without mappings.
    pub fn new(opening: Opening, kind: Kind<R>) -> Self {
        Self {
            opening,
            kind,
            mapped: Ranges::default(),
            files: 0,
        }
    }

    /// Pretends, for tests, that another process has opened it.
    #[cfg(test)]
    pub fn set_process(&mut self, process: usize) {
        self.opening.caller.pid = process;
    }

    /// The path by which it was opened, which `fpath` returns for all but connections.
    pub fn path(&self) -> Path {
        self.opening.name.path
    }

    /// What the stream carries of the connection that the handle is or makes.
    pub fn content(&self) -> Content {
        self.opening.name.content
    }

    /// The name it was opened by.
    pub fn name(&self) -> Name {
        self.opening.name
    }

    /// Its opener.
    pub fn caller(&self) -> Caller {
        self.opening.caller
    }

    /// The opening of a handle that `caller` makes from this one with `dup`.
    pub fn duplicate(&self, caller: Caller) -> Opening {
        Opening {
            caller,
            ..self.opening
        }
    }

    /// # Errors
    /// `EBADF` when it was not opened for reading.
    pub fn to_read(&self) -> Result<()> {
        self.opening.access.to_read()
    }

    /// # Errors
    /// `EBADF` when it was not opened for writing.
    pub fn to_write(&self) -> Result<()> {
        self.opening.access.to_write()
    }

    /// The object behind it.
    pub fn kind(&self) -> &Kind<R> {
        &self.kind
    }

    /// [`kind`](Self::kind) for changing it.
    pub fn kind_mut(&mut self) -> &mut Kind<R> {
        &mut self.kind
    }

    /// The object behind a handle that is being closed.
    pub fn into_kind(self) -> Kind<R> {
        self.kind
    }

    /// The pages that programs have mapped through it.
    pub fn mapped(&self) -> impl Iterator<Item = &Range<PageKind>> {
        self.mapped.iter()
    }

    /// Whether pages can be mapped through it: not as long as pages of another object are mapped
    /// under the same numbers, because the kernel's report of an unmapped page has no more than
    /// the number.
    ///
    /// # Errors
    /// `EBUSY`.
    pub fn to_map(&self, first: u64, pages: u64, kind: PageKind) -> Result<()> {
        let is_such = |other| kind.is_same_object(other);
        match self.mapped.all_are(first, pages, is_such) {
            true => Ok(()),
            false => Err(Error::new(EBUSY)),
        }
    }

    /// Records that a program has mapped pages through it, which [`to_map`](Self::to_map) allows.
    pub fn map(&mut self, first: u64, pages: u64, kind: PageKind) {
        self.mapped.add(first, pages, kind);
    }

    /// Records that pages were unmapped. Returns the pieces that were mapped.
    pub fn unmap(&mut self, first: u64, pages: u64) -> Vec<Range<PageKind>> {
        self.mapped.remove(first, pages)
    }

    /// File type and permissions for `fstat`.
    pub fn mode(&self) -> u16 {
        match self.path() {
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
