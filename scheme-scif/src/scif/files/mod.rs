//! The readable state of the scheme: its text files. [`status`] answers questions about a handle.

mod cards;
mod limits;
mod peers;
mod status;
mod text;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{Display, Formatter};

use scif_abi::flags::Protection;
use scif_abi::limits::HOST_NODE;
use scif_core::{ConnectionInfo, LinkState, MappingInfo, PortInfo, Traffic, WindowInfo};

use crate::access::Caller;
use crate::handle::{Handle, Kind};
use crate::ids::RequestId;
use crate::memory::MemoryObject;
use crate::node_memory::{NodeMemory, PAGE};
use crate::path::TextFile;
use crate::scif::Scif;
use crate::scif::files::text::Table;

pub use status::DirectoryEntry;

/// The scheme's name, under which it is registered.
pub const SCHEME: &str = "scif";

impl<M: NodeMemory, R: RequestId> Scif<M, R> {
    /// The present content of a text file for `viewer`: only root sees what belongs to other
    /// users.
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
            TextFile::Traffic => self.traffic(),
            TextFile::Version => version(),
        }
    }

    /// The nodes that are online, and those that were online and are lost.
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

    /// Own windows, and windows of peers that this node uses.
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
                // The peer does not report it.
                &"",
            ]);
        }
        let mut peers: Vec<MappingInfo> = self.engine.mappings().collect();
        // A window whose connection is gone has no owner any more.
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

    /// One line for each mapped piece of a window or of a memory object.
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

    /// The traffic between this node and each other one.
    fn traffic(&self) -> String {
        let mut table = Table::new(["node", "out", "in", "written", "read"]);
        for (node, traffic) in self.engine.traffic() {
            let Traffic {
                sent,
                received,
                written,
                read,
            } = traffic;
            table.row([&node, &sent, &received, &written, &read]);
        }
        table.finish()
    }

    fn stats(&self) -> String {
        let mut table = Table::new(["counter", "value"]);
        // The root is always there and has no owner.
        table.row([&"handles", &(self.handles.len() - 1)]);
        table.row([&"waiting", &self.requests.len()]);
        table.row([&"shared_bytes", &self.memory.allocated_bytes()]);
        table.row([&"spare_bytes", &self.memory.spare_bytes()]);
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
}

fn version() -> String {
    alloc::format!("skiff {} scif 1\n", env!("CARGO_PKG_VERSION"))
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

/// An offset in hexadecimal, as in programs.
struct Hex(u64);

impl Display for Hex {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// A time in nanoseconds, shown in seconds with one decimal.
struct Seconds(u64);

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let tenths = self.0 / 100_000_000;
        write!(f, "{}.{}", tenths / 10, tenths % 10)
    }
}
