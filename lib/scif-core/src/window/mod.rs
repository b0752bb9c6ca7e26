//! Windows: registered memory, at its owner's end and at the other end.
//!
//! Each end of a connection has a registered address space. The owner of a window keeps it in its
//! *local* space; the other end keeps a copy of its page list, the *remote* window. Windows belong
//! to the engine, not to the connection: a window outlives its connection as long as pages of it
//! are mapped or copied.

pub(crate) mod core;
pub(crate) mod local;
pub(crate) mod offsets;
pub(crate) mod page_list;
pub(crate) mod references;
pub(crate) mod remote;
pub(crate) mod space;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::flags::Protection;
use scif_abi::limits::MAX_WINDOWS;
use scif_abi::{Error, NodeId};

use crate::base::context::Context;
use crate::base::ids::{ConnectionId, EndpointId, RemoteWindowId, WindowId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::table::{Key, Table};
use crate::window::core::WindowCore;
use crate::window::local::{Window, WindowInfo};
use crate::window::references::{OrphanedMapping, PageReference};
use crate::window::remote::{MappingInfo, Remote, RemoteWindow};
use crate::window::space::Space;

/// The registered address spaces of a connection, and references to pages in the peer's.
#[derive(Default)]
struct Spaces {
    /// Local windows, including those that are being registered or unregistered.
    local: Space<WindowId>,
    /// The peer's windows that new uses may find.
    remote: Space<RemoteWindowId>,
    /// The offset at which to try the next window without a fixed offset.
    next_offset: i64,
    /// References from get_pages that were not put, by cookie.
    references: BTreeMap<u64, PageReference>,
}

/// The resources that this node holds on behalf of one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PeerUsage {
    /// Pages that were granted for window structures.
    granted_pages: usize,
    /// How many windows and granted structures.
    windows: usize,
    /// How many chunks its windows have.
    chunks: usize,
}

/// All windows of an engine.
pub(crate) struct Windows {
    local: Table<WindowId, Window>,
    remote: Table<RemoteWindowId, Remote>,
    /// The address spaces of connections with an endpoint, once they have had a window.
    spaces: BTreeMap<ConnectionId, Spaces>,
    peer_usages: BTreeMap<NodeId, PeerUsage>,
    /// Mappings of windows whose node is lost.
    orphaned_mappings: BTreeMap<RemoteWindowId, OrphanedMapping>,
    /// Windows of peers whose last use has ended and which must still be reported to their owners.
    ended: Vec<RemoteWindowId>,
    /// The last cookie given out by get_pages.
    last_cookie: u64,
}

impl Windows {
    pub(crate) fn new() -> Windows {
        Windows {
            local: Table::new(MAX_WINDOWS),
            // Each node has a limit of its own; this limit only keeps indices in range.
            remote: Table::new(u32::MAX as usize),
            spaces: BTreeMap::new(),
            peer_usages: BTreeMap::new(),
            orphaned_mappings: BTreeMap::new(),
            ended: Vec::new(),
            last_cookie: 0,
        }
    }

    /// The local window with this id.
    pub(crate) fn local(&self, id: WindowId) -> Option<&WindowCore> {
        self.local.get(id).map(|window| &window.core)
    }

    /// All local windows, in no particular order.
    pub(crate) fn locals(&self) -> impl Iterator<Item = (WindowId, &WindowCore)> {
        self.local.iter().map(|(id, window)| (id, &window.core))
    }

    /// The rows of `windows` on node `own`; `endpoint` finds the endpoint of a connection.
    pub(crate) fn infos(
        &self,
        own: NodeId,
        endpoint: impl Fn(ConnectionId) -> Option<EndpointId>,
    ) -> impl Iterator<Item = WindowInfo> {
        self.local.iter().map(move |(_, window)| {
            let connection = window.core.connection;
            window.info(own, connection.and_then(&endpoint))
        })
    }

    /// The window of a peer with this id.
    pub(crate) fn remote(&self, id: RemoteWindowId) -> Option<&WindowCore> {
        self.remote_window(id).map(|window| &window.core)
    }

    /// Whether programs, or their libraries, have pages of a peer's window mapped.
    pub(crate) fn is_mapped(&self, id: RemoteWindowId) -> bool {
        self.remote_window(id).is_some_and(RemoteWindow::is_mapped)
    }

    fn remote_window(&self, id: RemoteWindowId) -> Option<&RemoteWindow> {
        match self.remote.get(id) {
            Some(Remote::Window(window)) => Some(window),
            _ => None,
        }
    }

    fn remote_mut(&mut self, id: RemoteWindowId) -> Option<&mut RemoteWindow> {
        match self.remote.get_mut(id) {
            Some(Remote::Window(window)) => Some(window),
            _ => None,
        }
    }

    fn remote_windows(&self) -> impl Iterator<Item = (RemoteWindowId, &RemoteWindow)> {
        self.remote.iter().filter_map(|(id, remote)| match remote {
            Remote::Window(window) => Some((id, window)),
            Remote::Granted(_) => None,
        })
    }

    /// All windows of peers, in no particular order.
    pub(crate) fn remotes(&self) -> impl Iterator<Item = (RemoteWindowId, &WindowCore)> {
        let windows = self.remote_windows();
        windows.map(|(id, window)| (id, &window.core))
    }

    /// The rows of `mappings` on node `own`; `user` finds the user of a connection.
    pub(crate) fn mapping_infos(
        &self,
        own: NodeId,
        user: impl Fn(ConnectionId) -> Option<u32>,
    ) -> impl Iterator<Item = MappingInfo> {
        self.remote_windows().map(move |(id, window)| {
            let connection = window.core.connection;
            window.info(id, own, connection.and_then(&user))
        })
    }

    fn peer_usage(&mut self, node: NodeId) -> &mut PeerUsage {
        self.peer_usages.entry(node).or_default()
    }

    /// The registered local windows that hold `length` bytes at `offset`, and the byte of the
    /// first one at which the range begins.
    ///
    /// # Errors
    /// `ENXIO`: not all of the range is registered. `EACCES`: a window does not allow `need`.
    pub(crate) fn cover_local(
        &self,
        connection: ConnectionId,
        range: (i64, u64),
        need: Protection,
    ) -> Result<(Vec<WindowId>, u64), Error> {
        let spaces = self.spaces.get(&connection);
        let space = &spaces.ok_or(Error::NoSuchAddress)?.local;
        space.cover(range, need, |id| {
            let window = self.local.get(id).filter(|window| window.is_live());
            window.map(|window| window.core.protection)
        })
    }

    /// As `cover_local`, for the peer's windows.
    ///
    /// # Errors
    /// Those of `cover_local`.
    pub(crate) fn cover_remote(
        &self,
        connection: ConnectionId,
        range: (i64, u64),
        need: Protection,
    ) -> Result<(Vec<RemoteWindowId>, u64), Error> {
        let spaces = self.spaces.get(&connection);
        let space = &spaces.ok_or(Error::NoSuchAddress)?.remote;
        space.cover(range, need, |id| {
            self.remote(id).map(|window| window.protection)
        })
    }
}

// Invariants.
impl Windows {
    /// Checks the windows themselves.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self, cx: &Context) -> Result<(), Violation> {
        for (id, spaces) in &self.spaces {
            spaces.local.check(*id, |window| self.local(window))?;
            spaces.remote.check(*id, |window| self.remote(window))?;
        }
        for (id, window) in self.local.iter() {
            let is_listed = |spaces: &Spaces| spaces.local.lists(id, &window.core);
            self.check_listed(&window.core, id, is_listed)?;
            window.check(id)?;
        }
        for (id, window) in self.remote_windows() {
            let is_listed = |spaces: &Spaces| spaces.remote.lists(id, &window.core);
            self.check_listed(&window.core, id, is_listed)?;
            rule(
                !window.can_reply() || self.ended.contains(&id),
                "the owner of a window that nothing uses gets its reply",
                id,
            )?;
            rule(
                window.is_found_rightly(),
                "a peer's space has registered windows only",
                id,
            )?;
        }
        self.check_references()?;
        self.check_accounts(cx)?;
        self.check_peer_usage(cx.config.node)
    }

    fn check_listed(
        &self,
        window: &WindowCore,
        id: impl Key,
        is_listed: impl Fn(&Spaces) -> bool,
    ) -> Result<(), Violation> {
        let connection = window.connection;
        let spaces = connection.map(|connection| self.spaces.get(&connection));
        rule(
            spaces.is_none_or(|spaces| spaces.is_some_and(is_listed)),
            "a window is in its connection's space",
            id,
        )
    }

    fn check_accounts(&self, cx: &Context) -> Result<(), Violation> {
        let pages = self.local.iter().map(|(_, window)| window.charged_pages());
        cx.quotas
            .check_total(Resource::Windows, self.local.len() as u64)?;
        cx.quotas.check_total(Resource::Pages, pages.sum())
    }

    fn check_peer_usage(&self, own: NodeId) -> Result<(), Violation> {
        let mut usages: BTreeMap<NodeId, PeerUsage> = BTreeMap::new();
        for (_, remote) in self.remote.iter() {
            match remote {
                Remote::Window(window) => {
                    let usage = usages.entry(window.core.node()).or_default();
                    usage.windows += 1;
                    usage.chunks += window.core.chunks.len();
                }
                Remote::Granted(page_list) => {
                    let usage = usages.entry(page_list.node(own)).or_default();
                    usage.windows += 1;
                    usage.granted_pages += page_list.granted_pages();
                }
            }
        }
        let mut known = self.peer_usages.clone();
        known.retain(|_, usage| *usage != PeerUsage::default());
        rule(
            usages == known,
            "what each node makes us keep is counted",
            0,
        )
    }

    /// The connections that have registered address spaces.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.spaces.keys().copied()
    }

    /// Pages granted to peers.
    pub(crate) fn granted_pages(&self) -> usize {
        self.peer_usages
            .values()
            .map(|usage| usage.granted_pages)
            .sum()
    }
}
