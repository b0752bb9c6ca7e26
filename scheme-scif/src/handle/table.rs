//! The table of handles.

use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::limits::{MAX_ENDPOINTS, TEXT_UNIT_BYTES};
use scif_core::{EndpointId, Engine, Resource};
use syscall::error::{EBADF, ENOTTY, Error, Result};

use crate::access::{Access, Caller};
use crate::error::system;
use crate::handle::endpoint::Endpoint;
use crate::handle::{Handle, Kind, Opening};
use crate::ids::HandleId;
use crate::node_memory::Token;
use crate::path::{Name, Path, TextFile};

/// The handle of the scheme's root directory.
pub const ROOT: HandleId = scheme::ROOT;

/// Most handles of one daemon: one for each possible endpoint, and as many files.
pub const MAX_HANDLES: usize = 2 * MAX_ENDPOINTS;

/// All handles.
pub(crate) struct Handles<R> {
    table: scheme::Handles<Handle<R>>,
    /// Handles of the file `peers`.
    peers: Vec<HandleId>,
}

impl<R> Handles<R> {
    /// A table with the root directory alone.
    pub fn new() -> Self {
        let nobody = Caller {
            pid: 0,
            uid: 0,
            gid: 0,
        };
        let opening = Opening::new(Name::of(Path::Root), Access::of_flags(0), nobody);
        Self {
            table: scheme::Handles::with_root(Handle::new(opening, Kind::Directory)),
            peers: Vec::new(),
        }
    }

    /// The number of handles, including the root.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is no room for one more.
    pub fn is_full(&self) -> bool {
        self.table.len() >= MAX_HANDLES
    }

    /// All handles.
    pub fn iter(&self) -> impl Iterator<Item = (HandleId, &Handle<R>)> {
        self.table.iter()
    }

    /// # Errors
    /// `EBADF`.
    pub fn get(&self, id: HandleId) -> Result<&Handle<R>> {
        self.table.get(id)
    }

    /// # Errors
    /// `EBADF`.
    pub fn get_mut(&mut self, id: HandleId) -> Result<&mut Handle<R>> {
        self.table.get_mut(id)
    }

    /// The opener of a handle.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn caller(&self, id: HandleId) -> Result<Caller> {
        self.get(id).map(Handle::caller)
    }

    /// The handle's endpoint.
    ///
    /// # Errors
    /// `EBADF`, also when it was shut down; `ENOTTY` when it is something else.
    pub fn endpoint(&mut self, id: HandleId) -> Result<&mut Endpoint<R>> {
        match self.get_mut(id)?.kind_mut() {
            Kind::Endpoint(endpoint) => Ok(endpoint),
            Kind::Closed => Err(Error::new(EBADF)),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    /// The engine's name for the handle's endpoint.
    ///
    /// # Errors
    /// Those of [`endpoint`](Self::endpoint).
    pub fn endpoint_id(&self, id: HandleId) -> Result<EndpointId> {
        match self.get(id)?.kind() {
            Kind::Endpoint(endpoint) => Ok(endpoint.id()),
            Kind::Closed => Err(Error::new(EBADF)),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    /// The memory object behind a memory handle: `None` until one is being made.
    ///
    /// # Errors
    /// `EBADF`; `ENOTTY` when it is something else.
    pub fn object(&mut self, id: HandleId) -> Result<&mut Option<Token>> {
        match self.get_mut(id)?.kind_mut() {
            Kind::Memory(object) => Ok(object),
            _ => Err(Error::new(ENOTTY)),
        }
    }

    /// Adds a handle of an endpoint or of its rings: other limits apply to those.
    pub fn insert(&mut self, handle: Handle<R>) -> HandleId {
        let is_of_peers = matches!(handle.kind(), Kind::Peers(_));
        let id = self.table.add(handle);
        if is_of_peers {
            self.peers.push(id);
        }
        id
    }

    /// Adds any other handle, and charges its caller for it. A long text counts as more than one
    /// file.
    ///
    /// # Errors
    /// `ENOMEM` when the caller has too many. Root can open the limits in any case.
    pub fn insert_file(&mut self, engine: &mut Engine, mut handle: Handle<R>) -> Result<HandleId> {
        let texts = handle.size() as usize / TEXT_UNIT_BYTES;
        let files = 1 + texts as u64;
        let caller = handle.caller();
        if handle.path() == Path::Text(TextFile::Limits) && caller.uid == 0 {
            engine.charge_anyway(caller.owner(), Resource::Files, files);
        } else {
            let charged = engine.charge(caller.owner(), Resource::Files, files);
            charged.map_err(system)?;
        }
        handle.files = files;
        Ok(self.insert(handle))
    }

    /// Takes the endpoint of a handle, which stays and now counts as a file. `None` when it has
    /// none.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn take_endpoint(
        &mut self,
        engine: &mut Engine,
        id: HandleId,
    ) -> Result<Option<Endpoint<R>>> {
        let handle = self.get_mut(id)?;
        let is_endpoint = |kind: &&mut Kind<R>| matches!(kind, Kind::Endpoint(_));
        let taken = Some(handle.kind_mut()).filter(is_endpoint);
        let taken = taken.map(|kind| core::mem::replace(kind, Kind::Closed));
        let Some(Kind::Endpoint(endpoint)) = taken else {
            return Ok(None);
        };
        handle.files = 1;
        engine.charge_anyway(handle.caller().owner(), Resource::Files, 1);
        Ok(Some(endpoint))
    }

    /// Removes a handle and ends the charge for it.
    pub fn remove(&mut self, engine: &mut Engine, id: HandleId) -> Option<Handle<R>> {
        let handle = self.table.remove(id)?;
        if handle.files > 0 {
            engine.discharge(handle.caller().owner(), Resource::Files, handle.files);
        }
        self.peers.retain(|&peers| peers != id);
        Some(handle)
    }

    /// Adds a line for all readers of the file `peers`: a node came or went. Returns the readers.
    pub fn notify_peers(&mut self, node: NodeId, added: bool) -> Vec<HandleId> {
        for &id in &self.peers {
            if let Ok(handle) = self.table.get_mut(id)
                && let Kind::Peers(lines) = handle.kind_mut()
            {
                lines.notify(node, added);
            }
        }
        self.peers.clone()
    }
}
