//! Opens paths: what each of them makes, and the meaning of a relative path.

use scif_abi::{Port, PortId};
use scif_core::EndpointId;
use syscall::error::{EINVAL, ENFILE, ENODEV, ENOTDIR, Error, Result};
use syscall::flag::{O_NONBLOCK, O_STAT};

use crate::access::{Access, Caller, not_directory, open_directory, open_text};
use crate::error::system;
use crate::handle::endpoint::Endpoint;
use crate::handle::{Handle, Kind, Opening};
use crate::ids::{HandleId, RequestId};
use crate::node_memory::NodeMemory;
use crate::path::{Content, Name, Path};
use crate::request::{AcceptSource, PendingOn};
use crate::scif::{DEFAULT_BACKLOG, Scif};

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// Opens `path` below the directory `directory`. `flags` are the open flags, `status` the
    /// flags that can change later (`O_NONBLOCK`).
    ///
    /// # Errors
    /// Those in the table of docs/scheme.md; `EWOULDBLOCK` as for every function of [`Scif`] that
    /// waits.
    pub fn open(
        &mut self,
        directory: HandleId,
        path: &str,
        flags: usize,
        status: usize,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        if let Some(ended) = self.requests.take_ended(request) {
            return ended;
        }
        let name = self.resolve(directory, path)?;
        let path = name.path;
        let opening = Opening::new(name, Access::of_flags(flags), caller);
        let nonblocking = (flags | status) & O_NONBLOCK != 0;
        if let Some(pending) = self.requests.pending(request) {
            return self.resume_open(pending, opening, request);
        }
        self.check_node(path)?;
        if self.handles.is_full() {
            return Err(Error::new(ENFILE));
        }
        if let Some(kind) = self.file(path, flags, caller)? {
            let handle = Handle::new(opening, kind);
            return self.handles.insert_file(&mut self.engine, handle);
        }
        match path {
            Path::Connect { node, port } => {
                self.open_connect(PortId::new(node, port), opening, nonblocking, request)
            }
            Path::Listen(port) => self.open_listener(port, opening, nonblocking),
            Path::Accept(_) if nonblocking => Err(Error::new(EINVAL)),
            Path::Accept(port) => {
                let source = AcceptSource::Shared(port);
                self.requests
                    .suspend(request, PendingOn::new_accept(source, caller));
                self.open_accept(opening, request)
            }
            _ => {
                let endpoint = self.engine.open(caller.owner()).map_err(system)?;
                Ok(self.insert_endpoint(opening, Endpoint::new(endpoint, nonblocking)))
            }
        }
    }

    /// The object behind a handle for `path`; `None` for an endpoint that is still to be made.
    ///
    /// # Errors
    /// Those of flags that do not suit the path.
    fn file(&mut self, path: Path, flags: usize, caller: Caller) -> Result<Option<Kind<R>>> {
        Ok(Some(match path {
            Path::Root | Path::Node(_) | Path::ListenDirectory | Path::AcceptDirectory => {
                open_directory(flags)?;
                Kind::Directory
            }
            Path::Text(file) => {
                if file.is_writable() && caller.uid == 0 {
                    not_directory(flags)?;
                } else {
                    open_text(flags)?;
                }
                // Count the bytes that bypass clients have moved, and waiting requests, at the
                // open.
                self.engine.refresh(&mut self.memory);
                Kind::Text(self.text(file, caller))
            }
            Path::Peers => {
                open_text(flags)?;
                Kind::Peers(self.present_peers())
            }
            Path::Memory => {
                not_directory(flags)?;
                Kind::Memory(None)
            }
            Path::Connect { .. } | Path::Listen(_) | Path::Accept(_) | Path::Endpoint => {
                not_directory(flags)?;
                if flags & O_STAT == 0 {
                    return Ok(None);
                }
                Kind::Name
            }
        }))
    }

    fn resume_open(
        &mut self,
        waiting: PendingOn,
        opening: Opening,
        request: R,
    ) -> Result<HandleId> {
        match waiting {
            PendingOn::OpenConnect { endpoint } => {
                self.finish_open_connect(endpoint, opening, request)
            }
            PendingOn::OpenMessages { handle } => self.finish_open_messages(handle, request),
            _ => self.open_accept(opening, request),
        }
    }

    /// The object that `path` names relative to a directory.
    fn resolve(&self, directory: HandleId, path: &str) -> Result<Name> {
        let here = self.handles.get(directory)?.name();
        match (here.content, here.path) {
            (Content::Bytes, Path::Root) => Name::parse(path),
            _ if path.is_empty() => Ok(here),
            (_, Path::Root | Path::Node(_) | Path::ListenDirectory | Path::AcceptDirectory) => {
                let name = alloc::format!("{here}/{path}");
                Name::parse(name.trim_start_matches('/'))
            }
            _ => Err(Error::new(ENOTDIR)),
        }
    }

    /// # Errors
    /// `ENODEV` when the path names a node that is not online.
    fn check_node(&self, path: Path) -> Result<()> {
        let (Path::Node(node) | Path::Connect { node, .. }) = path else {
            return Ok(());
        };
        if self.engine.online_nodes().any(|online| online == node) {
            Ok(())
        } else {
            Err(Error::new(ENODEV))
        }
    }

    fn open_listener(
        &mut self,
        port: Port,
        opening: Opening,
        nonblocking: bool,
    ) -> Result<HandleId> {
        let (endpoint, port) = self.listen_on(port, opening.caller())?;
        let mut endpoint = Endpoint::new(endpoint, nonblocking);
        endpoint.listen();
        let id = self.insert_endpoint(opening.at(Path::Listen(port)), endpoint);
        self.listeners.insert(port, id);
        Ok(id)
    }

    pub(in crate::scif) fn listen_on(
        &mut self,
        port: Port,
        caller: Caller,
    ) -> Result<(EndpointId, Port)> {
        let endpoint = self.engine.open(caller.owner()).map_err(system)?;
        let bound = self.engine.bind(endpoint, port);
        let listening = bound.and_then(|port| {
            self.engine.listen(endpoint, DEFAULT_BACKLOG)?;
            Ok((endpoint, port))
        });
        listening.map_err(|error| {
            self.drop_endpoint(endpoint);
            system(error)
        })
    }
}
