//! The readable state of the scheme: text files, directories, names and status of handles, and
//! readiness.

mod cards;
mod limits;
mod peers;
mod text;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{Display, Formatter, Write};

use scif_abi::flags::{Protection, Readiness};
use scif_abi::limits::HOST_NODE;
use scif_core::{ConnectionInfo, EndpointState, LinkState, MappingInfo, PortInfo, WindowInfo};
use syscall::data::Stat;
use syscall::dirent::DirentKind;
use syscall::error::{EINVAL, ENOTDIR, Error, Result};
use syscall::flag::{EventFlags, F_GETFL, F_SETFL, O_NONBLOCK};

use crate::access::Caller;
use crate::handle::{Handle, Kind};
use crate::ids::{HandleId, RequestId};
use crate::memory::MemoryObject;
use crate::node_memory::{NodeMemory, PAGE};
use crate::path::{Path, TextFile};
use crate::scif::Scif;
use crate::scif::files::text::Table;

/// The scheme's name, under which it is registered.
pub const SCHEME: &str = "scif";

/// One line of a directory listing.
pub type Entry = (String, DirentKind);

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// The content of a text file as of now, for `viewer`: what others have is shown to root only.
    pub(in crate::scif) fn text(&self, file: TextFile, viewer: Caller) -> String {
        match file {
            TextFile::Nodes => self.nodes(),
            TextFile::Ports => self.ports(viewer),
            TextFile::Connections => self.connections(viewer),
            TextFile::Windows => self.windows(viewer),
            TextFile::Mappings => self.mappings(viewer),
            TextFile::Pins => self.pins(viewer),
            TextFile::Cards => self.card_table(),
            TextFile::Limits => self.limits(),
            TextFile::Stats => self.stats(),
            TextFile::Version => version(),
        }
    }

    /// The nodes that are online, and those that were and are lost.
    fn nodes(&self) -> String {
        let mut rows = BTreeMap::new();
        for lost in self.engine.lost_nodes() {
            let since = Seconds(self.engine.now().saturating_sub(lost.since));
            rows.insert(lost.node, ("lost", since.to_string(), lost.reason.name()));
        }
        for info in self.engine.nodes() {
            if info.state == LinkState::Online {
                rows.insert(info.node, (info.state.name(), "-".to_string(), "-"));
            }
        }
        let mut table = Table::new(["node", "role", "state", "self", "since", "why"]);
        for (node, (state, since, why)) in &rows {
            let role = if *node == HOST_NODE { "host" } else { "card" };
            let own = if *node == self.engine.node() {
                "*"
            } else {
                "-"
            };
            table.row([node, &role, state, &own, since, why]);
        }
        table.finish()
    }

    fn ports(&self, viewer: Caller) -> String {
        let mut rows: Vec<PortInfo> = self.engine.ports().collect();
        rows.retain(|info| viewer.sees(info.owner.user));
        rows.sort_by_key(|info| info.port);
        let mut table = Table::new(["port", "state", "waiting", "pid", "endpoint"]);
        for info in &rows {
            let (endpoint, pid) = (info.endpoint.number(), info.owner.process);
            table.row([
                &info.port,
                &info.state.name(),
                &info.requests,
                &pid,
                &endpoint,
            ]);
        }
        table.finish()
    }

    fn connections(&self, viewer: Caller) -> String {
        let mut rows: Vec<ConnectionInfo> = self.engine.connections().collect();
        rows.retain(|info| viewer.sees(info.owner.user));
        rows.sort_by_key(|info| info.endpoint);
        let mut table = Table::new([
            "id", "local", "peer", "state", "unread", "unacked", "in", "out", "pid",
        ]);
        for info in &rows {
            table.row([
                &info.endpoint.number(),
                &info.local,
                &info.peer,
                &info.state.name(),
                &info.bytes_unread,
                &info.bytes_unacknowledged,
                &info.bytes_received,
                &info.bytes_sent,
                &info.owner.process,
            ]);
        }
        table.finish()
    }

    /// Own windows, and those of peers that this node knows of.
    fn windows(&self, viewer: Caller) -> String {
        let columns = [
            "side",
            "local",
            "peer",
            "offset",
            "pages",
            "protection",
            "state",
            "mapped",
        ];
        let mut table = Table::new(columns);
        let mut own: Vec<WindowInfo> = self.engine.windows().collect();
        own.retain(|info| viewer.sees(info.user));
        own.sort_by_key(|info| (info.local, info.peer, info.offset));
        for info in &own {
            let (offset, state) = (Hex(info.offset as u64), info.state.name());
            let rights = rights(info.protection);
            table.row([
                &"own",
                &info.local,
                &info.peer,
                &offset,
                &info.pages,
                &rights,
                &state,
                // The peer does not tell.
                &"",
            ]);
        }
        let mut peers: Vec<MappingInfo> = self.engine.mappings().collect();
        // One whose connection has gone has no owner any more.
        peers.retain(|info| viewer.sees(info.user.unwrap_or(0)));
        peers.sort_by_key(|info| (info.local, info.peer, info.offset));
        for info in &peers {
            let offset = Hex(info.offset as u64);
            let rights = rights(info.protection);
            let state = if info.is_registered {
                "registered"
            } else {
                "used"
            };
            table.row([
                &"peer",
                &info.local,
                &info.peer,
                &offset,
                &info.pages,
                &rights,
                &state,
                &info.mapped_pages,
            ]);
        }
        table.finish()
    }

    /// One line for each piece that is mapped, of a window or of a memory object.
    fn mappings(&self, viewer: Caller) -> String {
        let mut table = Table::new(["handle", "pid", "what", "offset", "pages"]);
        let seen = |handle: &Handle<R>| viewer.sees(handle.caller().uid);
        for (id, handle) in self.handles.iter().filter(|(_, handle)| seen(handle)) {
            let pid = handle.caller().pid;
            for range in handle.mapped() {
                let offset = Hex(range.first * PAGE);
                table.row([&id, &pid, &range.mark.name(), &offset, &range.pages]);
            }
            if let Kind::Memory(Some(token)) = handle.kind()
                && let Some(object) = self.objects.get(*token)
            {
                for range in object.mapped().iter() {
                    let offset = Hex(range.first * PAGE);
                    table.row([&id, &pid, &"memory", &offset, &range.pages]);
                }
            }
        }
        table.finish()
    }

    /// One line for each object of a program's own pages.
    fn pins(&self, viewer: Caller) -> String {
        let mut table = Table::new(["uid", "pid", "pages", "uses"]);
        let seen = |object: &&MemoryObject| object.is_pinned() && viewer.sees(object.owner());
        for object in self.objects.iter().filter(seen) {
            table.row([
                &object.owner(),
                &object.process(),
                &object.pages(),
                &object.uses(),
            ]);
        }
        table.finish()
    }

    fn stats(&self) -> String {
        let mut table = Table::new(["counter", "value"]);
        // The root is always there and has no owner.
        table.row([&"handles", &(self.handles.len() - 1)]);
        table.row([&"waiting", &self.requests.len()]);
        table.row([&"shared_bytes", &self.memory.allocated_bytes()]);
        let object_pages: u64 = self.objects.iter().map(MemoryObject::pages).sum();
        table.row([&"memory_objects", &self.objects.iter().count()]);
        table.row([&"memory_pages", &object_pages]);
        for (name, value) in self.engine.stats().lines() {
            table.row([&name, &value]);
        }
        for (name, value) in self.loop_counters.lines() {
            table.row([&name, &value]);
        }
        table.finish()
    }

    /// The entries of a directory.
    ///
    /// # Errors
    /// `ENOTDIR`.
    pub fn list(&self, id: HandleId) -> Result<Vec<Entry>> {
        let handle = self.handles.get(id)?;
        if !matches!(handle.kind(), Kind::Directory) {
            return Err(Error::new(ENOTDIR));
        }
        let device = |port: u16| (port.to_string(), DirentKind::CharDev);
        Ok(match handle.path() {
            Path::Root => {
                let directory = |name: String| (name, DirentKind::Directory);
                let nodes = self
                    .engine
                    .online_nodes()
                    .map(|node| directory(node.to_string()));
                let files =
                    TextFile::ALL.map(|file| (file.name().to_string(), DirentKind::Regular));
                let devices = ["endpoint", "memory", "peers"];
                nodes
                    .chain([directory("accept".into()), directory("listen".into())])
                    .chain(devices.map(|name| (name.to_string(), DirentKind::CharDev)))
                    .chain(files)
                    .collect()
            }
            // The listeners of other nodes are not known here.
            Path::Node(node) if node != self.engine.node() => Vec::new(),
            Path::AcceptDirectory => self
                .listeners
                .own_shared()
                .filter(|(_, owner)| handle.caller().sees(owner.uid))
                .map(|(port, _)| device(port))
                .collect(),
            _ => {
                let viewer = handle.caller();
                let owner = |id| self.handles.caller(id);
                let seen = |id| owner(id).is_ok_and(|owner| viewer.sees(owner.uid));
                let seen = self.listeners.ports().filter(|&(_, id)| seen(id));
                seen.map(|(port, _)| device(port)).collect()
            }
        })
    }

    /// The full name of what a handle stands for: for a connection its peer, for a listener the
    /// port it was given.
    pub fn name(&self, id: HandleId) -> Result<String> {
        let handle = self.handles.get(id)?;
        let mut name = String::from("/scheme/scif");
        let _ = match (handle.kind(), handle.path()) {
            (Kind::Endpoint(endpoint), path) => {
                let local = self.engine.local_port(endpoint.id()).unwrap_or_default();
                match self.engine.peer(endpoint.id()) {
                    Some(peer) => write!(name, "/{peer}"),
                    None if endpoint.is_listening() => write!(name, "/listen/{}", local.port()),
                    None => write_path(&mut name, path),
                }
            }
            (_, path) => write_path(&mut name, path),
        };
        Ok(name)
    }

    /// Whether the kernel should keep a position for the handle.
    pub fn is_positioned(&self, id: HandleId) -> bool {
        self.handles
            .get(id)
            .is_ok_and(|handle| matches!(handle.kind(), Kind::Text(_)))
    }

    /// Fills in the status of a handle.
    pub fn status(&self, id: HandleId, stat: &mut Stat) -> Result<()> {
        let handle = self.handles.get(id)?;
        *stat = Stat {
            st_ino: id as u64,
            st_mode: handle.mode(),
            st_nlink: 1,
            st_uid: handle.caller().uid,
            st_gid: handle.caller().gid,
            st_size: handle.size(),
            st_blksize: 4096,
            ..Stat::default()
        };
        Ok(())
    }

    /// `F_GETFL` and `F_SETFL`. The kernel keeps the flags; the scheme needs to know `O_NONBLOCK`,
    /// because requests other than read and write do not carry it.
    ///
    /// # Errors
    /// `EINVAL` for every other command.
    pub fn control(&mut self, id: HandleId, command: usize, argument: usize) -> Result<usize> {
        self.handles.get(id)?;
        match command {
            F_GETFL => Ok(0),
            F_SETFL => {
                if let Ok(endpoint) = self.handles.endpoint(id) {
                    endpoint.set_nonblocking(argument & O_NONBLOCK != 0);
                }
                Ok(0)
            }
            _ => Err(Error::new(EINVAL)),
        }
    }

    /// Notes which events the subscribers of an endpoint wait for, so that each change is reported,
    /// whoever moves the bytes that are there by then.
    fn subscribe(&mut self, id: HandleId, wanted: EventFlags) -> Result<()> {
        let mut events = Readiness::empty();
        events.set(Readiness::IN, wanted.contains(EventFlags::EVENT_READ));
        events.set(Readiness::OUT, wanted.contains(EventFlags::EVENT_WRITE));
        let number = self.handles.endpoint_id(id)?;
        // Only a connection has rings. Set once, as setting it counts as a change.
        let connected = self.engine.state(number) == Some(EndpointState::Connected);
        let events = connected.then_some(events);
        if let Some(events) = self.handles.endpoint(id)?.subscribe(events) {
            self.engine.set_waiting(&mut self.memory, number, events);
        }
        Ok(())
    }

    /// What of `wanted` a handle is ready for now, for subscribers: `wanted` is what they are told
    /// of from now on.
    pub fn ready(&mut self, id: HandleId, wanted: EventFlags) -> Result<EventFlags> {
        let endpoint = match self.handles.get(id)?.kind() {
            Kind::Endpoint(endpoint) => endpoint.id(),
            Kind::Peers(peers) if peers.is_empty() => return Ok(EventFlags::empty()),
            // Whatever is tried fails at once.
            Kind::Closed => return Ok(wanted),
            _ => return Ok(wanted & EventFlags::EVENT_READ),
        };
        self.subscribe(id, wanted)?;
        let ready = self.engine.poll(&mut self.memory, endpoint);
        // After a hang-up or in a state without transfers, a read or write ends at once.
        let ended = ready.intersects(Readiness::HUP | Readiness::ERR);
        let mut flags = EventFlags::empty();
        flags.set(
            EventFlags::EVENT_READ,
            ended || ready.contains(Readiness::IN),
        );
        flags.set(
            EventFlags::EVENT_WRITE,
            ended || ready.contains(Readiness::OUT),
        );
        Ok(flags & wanted)
    }
}

fn version() -> String {
    alloc::format!("skiff {} scif 1\n", env!("CARGO_PKG_VERSION"))
}

fn write_path(name: &mut String, path: Path) -> core::fmt::Result {
    match path {
        Path::Root => Ok(()),
        Path::Node(node) => write!(name, "/{node}"),
        Path::Connect { node, port } => write!(name, "/{node}/{port}"),
        Path::ListenDirectory => name.write_str("/listen"),
        Path::Listen(port) => write!(name, "/listen/{port}"),
        Path::AcceptDirectory => name.write_str("/accept"),
        Path::Accept(port) => write!(name, "/accept/{port}"),
        Path::Endpoint => name.write_str("/endpoint"),
        Path::Memory => name.write_str("/memory"),
        Path::Peers => name.write_str("/peers"),
        Path::Text(file) => write!(name, "/{}", file.name()),
    }
}

/// The rights of a window, in letters.
fn rights(protection: Protection) -> &'static str {
    match (
        protection.contains(Protection::READ),
        protection.contains(Protection::WRITE),
    ) {
        (true, true) => "rw",
        (true, false) => "r",
        (false, true) => "w",
        (false, false) => "-",
    }
}

/// An offset, as it is written in programs.
struct Hex(u64);

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A time in nanoseconds, in seconds with one decimal.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let tenths = self.0 / 100_000_000;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}
