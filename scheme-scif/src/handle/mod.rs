//! Handles: the object behind each file descriptor of the scheme, and the table of all handles.

pub(crate) mod peer_lines;
pub(crate) mod ranges;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use scif_abi::bypass::BypassRecord;
use scif_abi::flags::Readiness;
use scif_abi::limits::{MAX_ENDPOINTS, TEXT_UNIT_BYTES};
use scif_abi::{NodeId, PortId};
use scif_core::{BypassId, EndpointId, Engine, RemoteWindowId, Resource};
use syscall::error::{EBADF, ENOTTY, Error, Result};
use syscall::flag::{MODE_CHR, MODE_DIR, MODE_FILE};

use crate::access::{Access, Caller};
use crate::error::system;
use crate::handle::peer_lines::PeerLines;
use crate::handle::ranges::Ranges;
use crate::ids::HandleId;
use crate::node_memory::{JoinId, Token};
use crate::path::{Path, TextFile};
use crate::request::transfer_queue::TransferQueue;

/// The handle of the scheme's root directory.
pub const ROOT: HandleId = 0;

/// Handles one daemon keeps at most: one for each endpoint there can be, and as many files.
pub const MAX_HANDLES: usize = 2 * MAX_ENDPOINTS;

/// One open file.
pub(crate) struct Handle<R> {
    /// The path it was opened as, which `fpath` gives for all but connections.
    pub path: Path,
    pub access: Access,
    pub caller: Caller,
    pub kind: Kind<R>,
    /// What programs have mapped through it (memory handles keep that with their object), by page
    /// of the offset it was mapped at.
    pub mapped: Ranges<PageKind>,
    /// For how many files it counts for its caller; endpoints and bypass handles have limits of
    /// their own.
    pub files: u64,
}

/// What a mapped page belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PageKind {
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

impl PageKind {
    /// What the file `mappings` calls it.
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
    pub id: BypassId,
    /// Whose rings they are; it may have been closed.
    pub endpoint: EndpointId,
    /// What its client has to know.
    pub record: BypassRecord,
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
    Bypass(Bypass),
    /// A memory object, or nothing yet.
    Memory(Option<Token>),
    /// The nodes that come and go.
    Peers(PeerLines),
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
    pub connecting: Option<PortId>,
    /// Changes in the engine that subscribers are notified of.
    pub subscribed: Option<Readiness>,
    pub outgoing: TransferQueue<R>,
    pub incoming: TransferQueue<R>,
}

impl<R> Endpoint<R> {
    pub fn new(id: EndpointId, nonblocking: bool) -> Self {
        Self {
            id,
            nonblocking,
            listening: false,
            connecting: None,
            subscribed: None,
            outgoing: TransferQueue::default(),
            incoming: TransferQueue::default(),
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

    /// File type and permissions, as `fstat` gives them.
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

/// The table of handles.
pub(crate) struct Handles<R> {
    table: BTreeMap<HandleId, Handle<R>>,
    last: HandleId,
    /// Handles of the file `peers`.
    peers: Vec<HandleId>,
}

impl<R> Handles<R> {
    /// The root directory alone.
    pub fn new() -> Self {
        let nobody = Caller {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let root = Handle::new(Path::Root, Access::of_flags(0), nobody, Kind::Directory);
        Self {
            table: BTreeMap::from([(ROOT, root)]),
            last: ROOT,
            peers: Vec::new(),
        }
    }

    /// Handles there are, the root among them.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.table.len() >= MAX_HANDLES
    }

    /// All handles.
    pub fn iter(&self) -> impl Iterator<Item = (HandleId, &Handle<R>)> {
        self.table.iter().map(|(&id, handle)| (id, handle))
    }

    /// # Errors
    /// `EBADF`.
    pub fn get(&self, id: HandleId) -> Result<&Handle<R>> {
        self.table.get(&id).ok_or(Error::new(EBADF))
    }

    /// # Errors
    /// `EBADF`.
    pub fn get_mut(&mut self, id: HandleId) -> Result<&mut Handle<R>> {
        self.table.get_mut(&id).ok_or(Error::new(EBADF))
    }

    /// The handle's endpoint.
    ///
    /// # Errors
    /// `EBADF`, also when it was shut down; `ENOTTY` when it is something else.
    pub fn endpoint(&mut self, id: HandleId) -> Result<&mut Endpoint<R>> {
        match &mut self.get_mut(id)?.kind {
            Kind::Endpoint(endpoint) => Ok(endpoint),
            Kind::Closed => Err(Error::new(EBADF)),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    /// The memory object behind a memory handle, complete or not, once one is being made.
    ///
    /// # Errors
    /// `EBADF`; `ENOTTY` when it is something else.
    pub fn object(&mut self, id: HandleId) -> Result<&mut Option<Token>> {
        match &mut self.get_mut(id)?.kind {
            Kind::Memory(object) => Ok(object),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    /// Adds a handle of an endpoint or of its rings, which are limited elsewhere.
    pub fn insert(&mut self, handle: Handle<R>) -> HandleId {
        self.last += 1;
        if matches!(handle.kind, Kind::Peers(_)) {
            self.peers.push(self.last);
        }
        self.table.insert(self.last, handle);
        self.last
    }

    /// Adds any other handle, and charges its caller for it. A text counts for more than one file.
    ///
    /// # Errors
    /// `ENOMEM`: the caller has too many. Root gets at the limits in any case.
    pub fn insert_file(&mut self, engine: &mut Engine, mut handle: Handle<R>) -> Result<HandleId> {
        let texts = handle.size() as usize / TEXT_UNIT_BYTES;
        handle.files = 1 + texts as u64;
        let owner = handle.caller.owner();
        if handle.path == Path::Text(TextFile::Limits) && handle.caller.uid == 0 {
            engine.charge_anyway(owner, Resource::Files, handle.files);
        } else {
            let charged = engine.charge(owner, Resource::Files, handle.files);
            charged.map_err(system)?;
        }
        Ok(self.insert(handle))
    }

    /// Takes the endpoint of a handle that stays, as a file like others. `None`: it has none.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn take_endpoint(
        &mut self,
        engine: &mut Engine,
        id: HandleId,
    ) -> Result<Option<Endpoint<R>>> {
        let handle = self.get_mut(id)?;
        let Kind::Endpoint(endpoint) = core::mem::replace(&mut handle.kind, Kind::Closed) else {
            return Ok(None);
        };
        handle.files = 1;
        engine.charge_anyway(handle.caller.owner(), Resource::Files, 1);
        Ok(Some(endpoint))
    }

    /// Takes a handle out, and what its caller was charged for it back.
    pub fn remove(&mut self, engine: &mut Engine, id: HandleId) -> Option<Handle<R>> {
        let handle = self.table.remove(&id)?;
        if handle.files > 0 {
            engine.discharge(handle.caller.owner(), Resource::Files, handle.files);
        }
        self.peers.retain(|&peers| peers != id);
        Some(handle)
    }

    /// Notes for all readers of the file `peers` that a node came or went; which these are.
    pub fn notify_peers(&mut self, node: NodeId, added: bool) -> Vec<HandleId> {
        for id in &self.peers {
            if let Some(Handle {
                kind: Kind::Peers(lines),
                ..
            }) = self.table.get_mut(id)
            {
                lines.notify(node, added);
            }
        }
        self.peers.clone()
    }
}
