//! The scheme: handles over endpoints, and requests that wait for the engine.
//!
//! Every function answers at once. One that cannot yet answers `EWOULDBLOCK` and remembers, under the
//! name `request`, what it has begun; the caller keeps the request and calls the same function with
//! the same arguments again when [`Scif::take_changes`] names the request or its handle. A request that
//! is given up meanwhile is told by [`Scif::cancel`], which undoes what was begun.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use core::task::Poll;

use scif_abi::limits::MAX_ENDPOINTS;
use scif_abi::{NodeId, Port, PortId};
use scif_core::{Connect, ConnectMode, EndpointId, Engine, Event, Memory};
use syscall::error::{EBADF, ECANCELED, EINVAL, ENFILE, ENODEV, ENOTDIR, ENOTTY, EWOULDBLOCK};
use syscall::error::{Error, Result};
use syscall::flag::{O_NONBLOCK, O_STAT};

use crate::access::{Access, Caller, not_directory, open_directory, open_text};
use crate::handle::{Endpoint, Handle, HandleId, Kind};
use crate::path::Path;

/// The handle of the scheme's root directory.
pub const ROOT: HandleId = 0;

/// Handles one daemon keeps at most: one for each endpoint there can be, and as many files.
pub const MAX_HANDLES: usize = 2 * MAX_ENDPOINTS;

/// Requests that may wait on a listener opened by path. An operation on an endpoint chooses its own;
/// 128 is what servers usually ask for.
pub const DEFAULT_BACKLOG: i32 = 128;

/// What the engine works on: shared memory, and doorbells to the nodes it shares it with.
pub trait Fabric: Memory {
    /// Rings the doorbell of `node`: there are messages in its ring.
    fn ring(&mut self, node: NodeId);

    /// Bytes of own memory that are handed out at present.
    fn allocated_bytes(&self) -> usize;
}

/// What the node's driver has to know of the engine's events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum News {
    /// The node is online.
    Up(NodeId),
    /// The node is no longer online.
    Down(NodeId),
    /// The link to the node must be reset; see [`Event::LinkFailed`].
    LinkFailed(NodeId),
}

/// What happened since the last look.
#[derive(Debug, Eq, PartialEq)]
pub struct Changes<R> {
    /// Handles whose waiting requests may be answered now, and whose readiness may be another.
    pub handles: BTreeSet<HandleId>,
    /// Requests that may be answered now.
    pub requests: BTreeSet<R>,
    /// Whether data moved, though perhaps no request could be answered.
    pub progress: bool,
}

impl<R> Default for Changes<R> {
    fn default() -> Self {
        Self {
            handles: BTreeSet::new(),
            requests: BTreeSet::new(),
            progress: false,
        }
    }
}

/// Whom a change of an endpoint concerns.
struct Interest<R> {
    handle: Option<HandleId>,
    requests: BTreeSet<R>,
}

impl<R> Default for Interest<R> {
    fn default() -> Self {
        Self {
            handle: None,
            requests: BTreeSet::new(),
        }
    }
}

/// Where an accept takes its connections from.
#[derive(Clone, Copy)]
pub(crate) enum Source {
    /// A listening handle.
    Handle(HandleId),
    /// The listener of this port that `accept/<port>` shares.
    Shared(Port),
}

/// What a waiting request has begun.
#[derive(Clone, Copy)]
pub(crate) enum Waiting {
    /// `open` of a connection; the endpoint has no handle yet.
    Dial { endpoint: EndpointId },
    /// `connect` of an endpoint that has one.
    Connect { endpoint: EndpointId },
    /// An accept; `granted` is the new endpoint while its connector has not acknowledged.
    Accept {
        source: Source,
        caller: Caller,
        granted: Option<EndpointId>,
    },
    /// A blocking transfer, in line in the handle's lane.
    Send { handle: HandleId },
    /// As above.
    Receive { handle: HandleId },
}

/// The listener behind `accept/<port>` and the opens that wait at it.
struct SharedListener<R> {
    endpoint: EndpointId,
    /// The handle it belongs to; without one it is ours and goes with the last open.
    handle: Option<HandleId>,
    owner: Caller,
    opens: BTreeSet<R>,
}

/// A connection that an accept operation has handed out as a number and nobody has fetched.
pub(crate) struct Unclaimed {
    pub endpoint: EndpointId,
    pub listener: HandleId,
    pub caller: Caller,
}

/// The scheme's state. `F` is memory and doorbells, `R` names requests.
pub struct Scif<F, R> {
    pub(crate) engine: Engine,
    pub(crate) fabric: F,
    pub(crate) handles: BTreeMap<HandleId, Handle<R>>,
    last_handle: HandleId,
    interest: BTreeMap<EndpointId, Interest<R>>,
    pub(crate) waiting: BTreeMap<R, Waiting>,
    shared: BTreeMap<Port, SharedListener<R>>,
    /// Listening handles by port.
    pub(crate) listeners: BTreeMap<Port, HandleId>,
    pub(crate) unclaimed: BTreeMap<u64, Unclaimed>,
    pub(crate) last_claim: u64,
    pub(crate) changes: Changes<R>,
    news: VecDeque<News>,
}

/// The engine's error as the system's.
pub(crate) fn system(error: scif_abi::Error) -> Error {
    Error::new(error.errno())
}

pub(crate) const fn would_block<T>() -> Result<T> {
    Err(Error { errno: EWOULDBLOCK })
}

impl<F: Fabric, R: Copy + Ord> Scif<F, R> {
    /// A scheme without open handles except its root.
    pub fn new(engine: Engine, fabric: F) -> Self {
        let root = Handle {
            path: Path::Root,
            access: Access::of_flags(0),
            caller: Caller {
                pid: 0,
                uid: 0,
                gid: 0,
            },
            kind: Kind::Directory,
        };
        Self {
            engine,
            fabric,
            handles: BTreeMap::from([(ROOT, root)]),
            last_handle: ROOT,
            interest: BTreeMap::new(),
            waiting: BTreeMap::new(),
            shared: BTreeMap::new(),
            listeners: BTreeMap::new(),
            unclaimed: BTreeMap::new(),
            last_claim: 0,
            changes: Changes::default(),
            news: VecDeque::new(),
        }
    }

    /// The engine and its memory, for those who bring links up and down. Events that follow from what
    /// is done with them are taken by the next [`take_changes`](Self::take_changes).
    pub fn engine(&mut self) -> (&mut Engine, &mut F) {
        (&mut self.engine, &mut self.fabric)
    }

    /// What happened to nodes, oldest first.
    pub fn take_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Takes the engine's events (which rings doorbells) and tells what to look at again.
    pub fn take_changes(&mut self) -> Changes<R> {
        while let Some(event) = self.engine.next_event(&mut self.fabric) {
            match event {
                Event::Changed(endpoint) => {
                    if let Some(interest) = self.interest.get(&endpoint) {
                        self.changes.handles.extend(interest.handle);
                        self.changes.requests.extend(&interest.requests);
                    }
                }
                Event::Ring(node) => self.fabric.ring(node),
                Event::NodeUp(node) => self.news.push_back(News::Up(node)),
                Event::NodeDown(node) => self.news.push_back(News::Down(node)),
                Event::LinkFailed(node) => self.news.push_back(News::LinkFailed(node)),
            }
        }
        core::mem::take(&mut self.changes)
    }

    // ---- handles ----

    pub(crate) fn handle(&self, id: HandleId) -> Result<&Handle<R>> {
        self.handles.get(&id).ok_or(Error::new(EBADF))
    }

    /// The handle's endpoint.
    ///
    /// # Errors
    /// `EBADF`; `ENOTTY` when it is something else.
    pub(crate) fn endpoint(&mut self, id: HandleId) -> Result<&mut Endpoint<R>> {
        match self.handles.get_mut(&id) {
            Some(Handle {
                kind: Kind::Endpoint(endpoint),
                ..
            }) => Ok(endpoint),
            Some(_) => Err(Error::new(ENOTTY)),
            None => Err(Error::new(EBADF)),
        }
    }

    fn insert(&mut self, handle: Handle<R>) -> HandleId {
        self.last_handle += 1;
        self.handles.insert(self.last_handle, handle);
        self.last_handle
    }

    fn insert_endpoint(
        &mut self,
        path: Path,
        access: Access,
        caller: Caller,
        endpoint: Endpoint<R>,
    ) -> HandleId {
        let endpoint_id = endpoint.id;
        let id = self.insert(Handle {
            path,
            access,
            caller,
            kind: Kind::Endpoint(endpoint),
        });
        self.interest.insert(
            endpoint_id,
            Interest {
                handle: Some(id),
                requests: BTreeSet::new(),
            },
        );
        id
    }

    /// Puts `endpoint` behind the handle, whose own endpoint is closed.
    pub(crate) fn replace_endpoint(&mut self, id: HandleId, endpoint: EndpointId) -> Result<()> {
        let old = core::mem::replace(&mut self.endpoint(id)?.id, endpoint);
        self.drop_endpoint(old);
        let interest = Interest {
            handle: Some(id),
            requests: BTreeSet::new(),
        };
        self.interest.insert(endpoint, interest);
        Ok(())
    }

    pub(crate) fn drop_endpoint(&mut self, endpoint: EndpointId) {
        self.engine.close(&mut self.fabric, endpoint);
        self.interest.remove(&endpoint);
    }

    fn wake_with(&mut self, endpoint: EndpointId, request: R) {
        self.interest
            .entry(endpoint)
            .or_default()
            .requests
            .insert(request);
    }

    /// Opens `path` below the directory `directory`. `flags` are the open flags, `status` the ones
    /// that can change later (`O_NONBLOCK`).
    ///
    /// # Errors
    /// The table of docs/scheme.md; `EWOULDBLOCK` as explained above.
    pub fn open(
        &mut self,
        directory: HandleId,
        path: &str,
        flags: usize,
        status: usize,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        let path = self.resolve(directory, path)?;
        let access = Access::of_flags(flags);
        let nonblocking = (flags | status) & O_NONBLOCK != 0;
        if let Some(&waiting) = self.waiting.get(&request) {
            return self.resume_open(waiting, path, access, caller, request);
        }
        self.check_node(path)?;
        if self.handles.len() >= MAX_HANDLES {
            return Err(Error::new(ENFILE));
        }
        let kind = match path {
            Path::Root | Path::Node(_) | Path::ListenDirectory | Path::AcceptDirectory => {
                open_directory(flags)?;
                Kind::Directory
            }
            Path::Text(file) => {
                open_text(flags)?;
                Kind::Text(self.text(file))
            }
            _ => {
                not_directory(flags)?;
                Kind::Name
            }
        };
        if flags & O_STAT != 0 || !matches!(kind, Kind::Name) {
            return Ok(self.insert(Handle {
                path,
                access,
                caller,
                kind,
            }));
        }
        match path {
            Path::Connect { node, port } => self.dial(
                PortId::new(node, port),
                access,
                caller,
                nonblocking,
                request,
            ),
            Path::Listen(port) => self.open_listener(port, access, caller, nonblocking),
            Path::Accept(_) if nonblocking => Err(Error::new(EINVAL)),
            Path::Accept(port) => {
                let source = Source::Shared(port);
                self.waiting.insert(
                    request,
                    Waiting::Accept {
                        source,
                        caller,
                        granted: None,
                    },
                );
                self.open_accept(path, access, caller, request)
            }
            _ => {
                let endpoint = self.engine.open(caller.owner()).map_err(system)?;
                let endpoint = Endpoint::new(endpoint, nonblocking);
                Ok(self.insert_endpoint(path, access, caller, endpoint))
            }
        }
    }

    fn resume_open(
        &mut self,
        waiting: Waiting,
        path: Path,
        access: Access,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        match waiting {
            Waiting::Dial { endpoint } => self.finish_dial(endpoint, path, access, caller, request),
            _ => self.open_accept(path, access, caller, request),
        }
    }

    /// The path that `path` names relative to a directory.
    fn resolve(&self, directory: HandleId, path: &str) -> Result<Path> {
        let prefix = match self.handle(directory)?.path {
            Path::Root => return Path::parse(path),
            here if path.is_empty() => return Ok(here),
            Path::Node(node) => alloc::format!("{node}"),
            Path::ListenDirectory => "listen".into(),
            Path::AcceptDirectory => "accept".into(),
            _ => return Err(Error::new(ENOTDIR)),
        };
        Path::parse(&alloc::format!("{prefix}/{path}"))
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
        access: Access,
        caller: Caller,
        nonblocking: bool,
    ) -> Result<HandleId> {
        let (endpoint, port) = self.listen_on(port, caller)?;
        let mut endpoint = Endpoint::new(endpoint, nonblocking);
        endpoint.listening = true;
        let id = self.insert_endpoint(Path::Listen(port), access, caller, endpoint);
        self.listeners.insert(port, id);
        Ok(id)
    }

    fn listen_on(&mut self, port: Port, caller: Caller) -> Result<(EndpointId, Port)> {
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

    // ---- connecting ----

    fn dial(
        &mut self,
        to: PortId,
        access: Access,
        caller: Caller,
        nonblocking: bool,
        request: R,
    ) -> Result<HandleId> {
        let path = Path::Connect {
            node: to.node(),
            port: to.port(),
        };
        let id = self.engine.open(caller.owner()).map_err(system)?;
        let mode = if nonblocking {
            ConnectMode::NonBlocking
        } else {
            ConnectMode::Blocking
        };
        match self.engine.connect(&mut self.fabric, id, to, mode) {
            Ok(_) | Err(scif_abi::Error::InProgress) => {}
            Err(error) => {
                self.drop_endpoint(id);
                return Err(system(error));
            }
        }
        if nonblocking {
            let mut endpoint = Endpoint::new(id, true);
            endpoint.dialing = Some(to);
            return Ok(self.insert_endpoint(path, access, caller, endpoint));
        }
        self.waiting.insert(request, Waiting::Dial { endpoint: id });
        self.wake_with(id, request);
        self.finish_dial(id, path, access, caller, request)
    }

    fn finish_dial(
        &mut self,
        id: EndpointId,
        path: Path,
        access: Access,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        let Poll::Ready(result) = self.engine.connect_result(id) else {
            return would_block();
        };
        self.waiting.remove(&request);
        match result {
            Ok(_) => {
                let endpoint = Endpoint::new(id, false);
                Ok(self.insert_endpoint(path, access, caller, endpoint))
            }
            Err(error) => {
                self.drop_endpoint(id);
                Err(system(error))
            }
        }
    }

    /// `connect` of a handle's endpoint: the call operation.
    pub(crate) fn connect(&mut self, id: HandleId, to: PortId, request: R) -> Result<usize> {
        let endpoint = self.endpoint(id)?;
        let (endpoint, nonblocking) = (endpoint.id, endpoint.nonblocking);
        if !matches!(self.waiting.get(&request), Some(Waiting::Connect { .. })) {
            let mode = if nonblocking {
                ConnectMode::NonBlocking
            } else {
                ConnectMode::Blocking
            };
            match self.engine.connect(&mut self.fabric, endpoint, to, mode) {
                Ok(Connect::Done(port)) => {
                    return Ok(port.into());
                }
                Ok(Connect::Started) if nonblocking => {
                    return Err(system(scif_abi::Error::InProgress));
                }
                Ok(Connect::Started) => {}
                Err(error) => return Err(system(error)),
            }
            self.waiting.insert(request, Waiting::Connect { endpoint });
            self.wake_with(endpoint, request);
        }
        let Poll::Ready(result) = self.engine.connect_result(endpoint) else {
            return would_block();
        };
        self.end_wait(request);
        match result {
            Ok(port) => Ok(port.into()),
            Err(error) => Err(system(error)),
        }
    }

    /// Collects the connect that `open` started with `O_NONBLOCK`, before the first transfer.
    ///
    /// # Errors
    /// `EWOULDBLOCK` while it is under way, or what the connect ended with.
    pub(crate) fn collect_dial(&mut self, id: HandleId) -> Result<()> {
        let endpoint = self.endpoint(id)?;
        let Some(to) = endpoint.dialing else {
            return Ok(());
        };
        let endpoint_id = endpoint.id;
        let mode = ConnectMode::NonBlocking;
        match self.engine.connect(&mut self.fabric, endpoint_id, to, mode) {
            Err(scif_abi::Error::InProgress) | Ok(Connect::Started) => would_block(),
            Ok(Connect::Done(_)) => {
                self.endpoint(id)?.dialing = None;
                Ok(())
            }
            Err(error) => {
                self.endpoint(id)?.dialing = None;
                Err(system(error))
            }
        }
    }

    // ---- accepting ----

    fn open_accept(
        &mut self,
        path: Path,
        access: Access,
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        let endpoint = self.accept(request)?;
        let endpoint = Endpoint::new(endpoint, false);
        Ok(self.insert_endpoint(path, access, caller, endpoint))
    }

    /// `dup(listener, "accept")`: takes one connection; waits unless the listener has `O_NONBLOCK`.
    ///
    /// # Errors
    /// `EINVAL` for other names and for handles that do not listen.
    pub fn dup(
        &mut self,
        id: HandleId,
        name: &[u8],
        caller: Caller,
        request: R,
    ) -> Result<HandleId> {
        if name != b"accept" {
            return Err(Error::new(EINVAL));
        }
        if self.handles.len() >= MAX_HANDLES {
            return Err(Error::new(ENFILE));
        }
        let synchronous = !self.endpoint(id)?.nonblocking;
        let endpoint = self.accept_from(id, caller, synchronous, request)?;
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        let endpoint = Endpoint::new(endpoint, false);
        Ok(self.insert_endpoint(Path::Accept(port), Access::BOTH, caller, endpoint))
    }

    /// Takes one connection of a listening handle as an endpoint without handle.
    pub(crate) fn accept_from(
        &mut self,
        id: HandleId,
        caller: Caller,
        synchronous: bool,
        request: R,
    ) -> Result<EndpointId> {
        if !self.waiting.contains_key(&request) {
            if !self.endpoint(id)?.listening {
                return Err(Error::new(EINVAL));
            }
            let source = Source::Handle(id);
            self.waiting.insert(
                request,
                Waiting::Accept {
                    source,
                    caller,
                    granted: None,
                },
            );
        }
        let accepted = self.accept(request);
        let idle = matches!(
            self.waiting.get(&request),
            Some(Waiting::Accept { granted: None, .. })
        );
        // A handshake that has begun is waited for even by those who do not want to wait for
        // requests: it ends by itself, and the connector has been told yes.
        if !synchronous && idle {
            self.end_wait(request);
            return Err(system(scif_abi::Error::WouldBlock));
        }
        accepted
    }

    /// Moves the accept of `request` on: takes a request, grants it, waits for the connector. Those
    /// who withdrew meanwhile are passed over.
    fn accept(&mut self, request: R) -> Result<EndpointId> {
        let accepted = self.try_accept(request);
        if !matches!(accepted, Err(Error { errno: EWOULDBLOCK })) {
            self.end_wait(request);
        }
        accepted
    }

    fn try_accept(&mut self, request: R) -> Result<EndpointId> {
        loop {
            let Some(&Waiting::Accept {
                source,
                caller,
                granted,
            }) = self.waiting.get(&request)
            else {
                return Err(Error::new(EINVAL));
            };
            let Some(new) = granted else {
                let listener = match source {
                    Source::Handle(id) => self.endpoint(id)?.id,
                    Source::Shared(port) => self.shared_listener(port, caller, request)?,
                };
                match self
                    .engine
                    .accept_start(&mut self.fabric, listener, caller.owner())
                {
                    Ok(new) => {
                        let granted = Some(new);
                        self.waiting.insert(
                            request,
                            Waiting::Accept {
                                source,
                                caller,
                                granted,
                            },
                        );
                        self.wake_with(new, request);
                        continue;
                    }
                    Err(scif_abi::Error::WouldBlock) => {
                        self.wake_with(listener, request);
                        return would_block();
                    }
                    Err(error) => return Err(system(error)),
                }
            };
            match self.engine.accept_finish(new) {
                Poll::Pending => return would_block(),
                Poll::Ready(result) => {
                    self.waiting.insert(
                        request,
                        Waiting::Accept {
                            source,
                            caller,
                            granted: None,
                        },
                    );
                    self.interest.remove(&new);
                    match result {
                        Ok(_) => {
                            return Ok(new);
                        }
                        Err(scif_abi::Error::WouldBlock) => {}
                        Err(error) => return Err(system(error)),
                    }
                }
            }
        }
    }

    /// The listener of `port` that opens of `accept/<port>` share; made if nobody listens.
    ///
    /// # Errors
    /// `EINVAL` when the port is bound by something else, or by another user's listener.
    fn shared_listener(&mut self, port: Port, caller: Caller, request: R) -> Result<EndpointId> {
        if let Some(shared) = self.shared.get_mut(&port) {
            if !caller.may_share(shared.owner) {
                return Err(Error::new(EINVAL));
            }
            shared.opens.insert(request);
            return Ok(shared.endpoint);
        }
        let existing = self.listeners.get(&port).copied();
        let (endpoint, owner) = match existing {
            Some(id) => {
                let owner = self.handle(id)?.caller;
                if !caller.may_share(owner) {
                    return Err(Error::new(EINVAL));
                }
                (self.endpoint(id)?.id, owner)
            }
            None => (self.listen_on(port, caller)?.0, caller),
        };
        let opens = BTreeSet::from([request]);
        self.shared.insert(
            port,
            SharedListener {
                endpoint,
                handle: existing,
                owner,
                opens,
            },
        );
        Ok(endpoint)
    }

    fn leave_shared(&mut self, port: Port, request: R) {
        let Some(shared) = self.shared.get_mut(&port) else {
            return;
        };
        shared.opens.remove(&request);
        if let Some(interest) = self.interest.get_mut(&shared.endpoint) {
            interest.requests.remove(&request);
        }
        if let Some(&next) = shared.opens.first() {
            // Whoever took the front request may leave others in the queue.
            self.changes.requests.insert(next);
            return;
        }
        let (endpoint, ours) = (shared.endpoint, shared.handle.is_none());
        self.shared.remove(&port);
        if ours {
            self.drop_endpoint(endpoint);
        }
    }

    /// Ports that `accept/<port>` listens on by itself, with the first opener's process.
    pub(crate) fn own_shared_listeners(&self) -> impl Iterator<Item = (Port, usize)> {
        let own = self
            .shared
            .iter()
            .filter(|(_, shared)| shared.handle.is_none());
        own.map(|(&port, shared)| (port, shared.owner.pid))
    }

    // ---- ends ----

    /// Forgets what `request` has begun, apart from endpoints it may have made.
    pub(crate) fn end_wait(&mut self, request: R) {
        match self.waiting.remove(&request) {
            Some(Waiting::Accept {
                source: Source::Shared(port),
                ..
            }) => {
                self.leave_shared(port, request);
            }
            Some(Waiting::Accept {
                source: Source::Handle(id),
                ..
            }) => {
                if let Ok(endpoint) = self.endpoint(id).map(|endpoint| endpoint.id) {
                    self.lose_interest(endpoint, request);
                }
            }
            Some(Waiting::Connect { endpoint }) => self.lose_interest(endpoint, request),
            _ => {}
        }
    }

    fn lose_interest(&mut self, endpoint: EndpointId, request: R) {
        if let Some(interest) = self.interest.get_mut(&endpoint) {
            interest.requests.remove(&request);
        }
    }

    /// The caller of a waiting request gave it up: undoes what it has begun. A transfer that has moved
    /// bytes returns their count, so that nobody sends them again.
    ///
    /// # Errors
    /// `ECANCELED` when nothing had been moved.
    pub fn cancel(&mut self, request: R) -> Result<usize> {
        let mut moved = 0;
        match self.waiting.get(&request).copied() {
            Some(Waiting::Dial { endpoint }) => {
                self.waiting.remove(&request);
                self.drop_endpoint(endpoint);
            }
            Some(Waiting::Connect { endpoint }) => {
                self.engine.connect_cancel(&mut self.fabric, endpoint);
                self.end_wait(request);
            }
            Some(Waiting::Accept { granted, .. }) => {
                if let Some(endpoint) = granted {
                    self.drop_endpoint(endpoint);
                }
                self.end_wait(request);
            }
            Some(Waiting::Send { handle } | Waiting::Receive { handle }) => {
                moved = self.leave_lane(handle, request);
            }
            None => {}
        }
        if moved > 0 {
            Ok(moved)
        } else {
            Err(Error::new(ECANCELED))
        }
    }

    /// The last descriptor of a handle is gone. Its waiting requests have been cancelled before.
    pub fn close(&mut self, id: HandleId) {
        if id == ROOT {
            return;
        }
        let Some(handle) = self.handles.remove(&id) else {
            return;
        };
        let Kind::Endpoint(endpoint) = handle.kind else {
            return;
        };
        if endpoint.listening {
            self.close_listener(id, endpoint.id);
        }
        self.drop_endpoint(endpoint.id);
    }

    fn close_listener(&mut self, id: HandleId, endpoint: EndpointId) {
        let port = self.engine.local_port(endpoint).map_or(0, PortId::port);
        self.listeners.remove(&port);
        if self
            .shared
            .get(&port)
            .is_some_and(|shared| shared.handle == Some(id))
        {
            // Those who wait at accept/<port> listen by themselves from now on.
            if let Some(shared) = self.shared.remove(&port) {
                self.changes.requests.extend(shared.opens);
            }
        }
        let stale: alloc::vec::Vec<u64> = self
            .unclaimed
            .iter()
            .filter(|(_, unclaimed)| unclaimed.listener == id)
            .map(|(&claim, _)| claim)
            .collect();
        for claim in stale {
            if let Some(unclaimed) = self.unclaimed.remove(&claim) {
                self.drop_endpoint(unclaimed.endpoint);
            }
        }
    }
}
