//! Invariants of registered memory: windows, copies, fences and calls.

use alloc::collections::BTreeMap;

use scif_abi::NodeId;

use crate::base::ids::{ChannelId, ConnectionId, RemoteWindowId, WindowId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::table::Key;
use crate::connection::Connection;
use crate::engine::Engine;
use crate::rma::channel::Channel;
use crate::rma::job::Work;
use crate::rma::span::{Backing, Span};
use crate::window::{PeerUsage, PendingReply, Remote, Space, WindowState};

impl Engine {
    /// Checks everything that belongs to registered memory.
    pub(crate) fn check_memory(&self) -> Result<(), Violation> {
        for (id, connection) in self.connections.iter() {
            self.check_spaces(id, connection)?;
        }
        self.check_local_windows()?;
        self.check_remote_windows()?;
        self.check_uses()?;
        for (id, channel) in self.channels.iter() {
            self.check_channel(id, channel)?;
        }
        self.check_calls()?;
        self.check_accounts()?;
        self.check_peer_usage()
    }

    fn check_spaces(&self, id: ConnectionId, connection: &Connection) -> Result<(), Violation> {
        check_space(&connection.local_space)?;
        check_space(&connection.remote_space)?;
        for (offset, slot) in connection.local_space.iter() {
            let window = self.windows.local.get(slot.id);
            let fits = window.is_some_and(|window| {
                window.connection == Some(id)
                    && (window.offset, window.chunks.bytes()) == (offset, slot.bytes)
            });
            rule(fits, "an own space and its windows agree", slot.id)?;
        }
        for (offset, slot) in connection.remote_space.iter() {
            let window = self.windows.remote(slot.id);
            let fits = window.is_some_and(|window| {
                window.connection == Some(id)
                    && window.pending_reply == PendingReply::None
                    && (window.offset, window.chunks.bytes()) == (offset, slot.bytes)
            });
            rule(fits, "a peer's space and its windows agree", slot.id)?;
        }
        let is_empty = connection.local_space.len() + connection.remote_space.len() == 0
            && connection.channel.is_none()
            && connection.page_references.is_empty();
        rule(
            is_empty || connection.endpoint.is_some(),
            "without an endpoint there is no registered memory",
            id,
        )
    }

    fn check_local_windows(&self) -> Result<(), Violation> {
        for (id, window) in self.windows.local.iter() {
            let connection = window.connection.map(|id| self.connections.get(id));
            let is_listed = connection.is_none_or(|connection| {
                let slot = connection.and_then(|c| c.local_space.holding(window.offset));
                slot.is_some_and(|(_, slot)| slot.id == id)
            });
            rule(is_listed, "a window is in its connection's space", id)?;
            rule(
                window.state != WindowState::Gone || window.jobs > 0,
                "a window that nothing uses is freed",
                id,
            )?;
            rule(
                window.state != WindowState::Live || window.connection.is_some(),
                "a registered window has an endpoint",
                id,
            )?;
        }
        Ok(())
    }

    fn check_remote_windows(&self) -> Result<(), Violation> {
        for (id, remote) in self.windows.remote.iter() {
            let Remote::Window(window) = remote else {
                continue;
            };
            let connection = window.connection.map(|id| self.connections.get(id));
            let is_listed = connection.is_none_or(|connection| {
                let slot = connection.and_then(|c| c.remote_space.holding(window.offset));
                slot.is_some_and(|(_, slot)| slot.id == id)
            });
            rule(
                is_listed,
                "a peer's window is in its connection's space",
                id,
            )?;
            rule(
                !window.can_reply() || self.ended.contains(&id),
                "the owner of a window that nothing uses will be told",
                id,
            )?;
            let node = window.ends.peer.node();
            rule(
                node == self.cx.config.node || self.nodes.state(node).is_some(),
                "windows are of nodes that are there",
                id,
            )?;
        }
        let got = self
            .connections
            .iter()
            .flat_map(|(_, c)| c.page_references.values());
        let mut pages: BTreeMap<RemoteWindowId, u64> = BTreeMap::new();
        for got in got {
            *pages.entry(got.window).or_default() += got.pages;
        }
        for (id, pages) in pages {
            let window = self.windows.remote(id);
            rule(
                window.is_none_or(|window| window.mapped >= pages),
                "pages that were got count as mapped",
                id,
            )?;
        }
        Ok(())
    }

    /// Each window counts the jobs that use it.
    fn check_uses(&self) -> Result<(), Violation> {
        let mut own: BTreeMap<WindowId, u32> = BTreeMap::new();
        let mut remote: BTreeMap<RemoteWindowId, u32> = BTreeMap::new();
        let jobs = self.channels.iter().flat_map(|(_, channel)| &channel.jobs);
        for span in jobs.flat_map(|job| job.work.spans()) {
            count_uses(span, &mut own, &mut remote);
        }
        for (id, window) in self.windows.local.iter() {
            let jobs = own.remove(&id).unwrap_or(0);
            rule(window.jobs == jobs, "a window counts its jobs", id)?;
        }
        rule(
            own.is_empty(),
            "jobs use windows that exist",
            own.len() as u64,
        )?;
        for (id, entry) in self.windows.remote.iter() {
            if let Remote::Window(window) = entry {
                let jobs = remote.remove(&id).unwrap_or(0);
                rule(window.jobs == jobs, "a peer's window counts its jobs", id)?;
            }
        }
        Ok(())
    }

    fn check_channel(&self, id: ChannelId, channel: &Channel) -> Result<(), Violation> {
        let connection = channel.connection.map(|id| self.connections.get(id));
        rule(
            connection.is_none_or(|c| c.is_some_and(|c| c.channel == Some(id))),
            "a channel's connection refers back to it",
            id,
        )?;
        rule(
            channel.submitted <= channel.jobs.len(),
            "no more jobs are submitted than queued",
            id,
        )?;
        let current = channel.jobs.get(channel.submitted);
        let is_virtual = |work: &Work| matches!(work, Work::Virtual(_));
        rule(
            current.is_none_or(|job| self.is_queued(id) || !job.is_over && is_virtual(&job.work)),
            "what can be submitted gets its turn",
            id,
        )?;
        rule(
            !channel.jobs.is_empty() || connection.is_some() || self.is_queued(id),
            "a channel that nobody needs is freed",
            id,
        )?;
        rule(
            channel
                .waits()
                .all(|until| until > channel.retired && until <= channel.issued()),
            "waits are for jobs that are queued",
            id,
        )
    }

    /// Whether a channel gets its turn some time.
    fn is_queued(&self, id: ChannelId) -> bool {
        self.active.contains(&id) || self.full.contains(&id)
    }

    fn check_calls(&self) -> Result<(), Violation> {
        self.calls.check()?;
        for id in self.calls.connections() {
            let connection = self.connections.get(id);
            let has_endpoint = connection.is_some_and(|c| c.endpoint.is_some());
            rule(has_endpoint, "calls wait on connections of endpoints", id)?;
        }
        Ok(())
    }

    fn check_accounts(&self) -> Result<(), Violation> {
        let (mut windows, mut pages, mut transfers) = (0, 0, 0);
        for (_, window) in self.windows.local.iter() {
            windows += 1;
            pages += if window.is_charged {
                window.chunks.pages()
            } else {
                0
            };
        }
        for (_, channel) in self.channels.iter() {
            transfers += channel
                .jobs
                .iter()
                .filter(|job| job.owner.is_some())
                .count() as u64;
        }
        self.check_quota(Resource::Windows, windows)?;
        self.check_quota(Resource::Pages, pages)?;
        self.check_quota(Resource::Transfers, transfers)
    }

    fn check_peer_usage(&self) -> Result<(), Violation> {
        let mut peer_usages: BTreeMap<NodeId, PeerUsage> = BTreeMap::new();
        for (_, remote) in self.windows.remote.iter() {
            match remote {
                Remote::Window(window) => {
                    let peer_usage = peer_usages.entry(window.ends.peer.node()).or_default();
                    peer_usage.windows += 1;
                    peer_usage.chunks += window.chunks.len();
                }
                Remote::Granted(page_list) => {
                    let peer_usage = peer_usages
                        .entry(page_list.node(self.cx.config.node))
                        .or_default();
                    peer_usage.windows += 1;
                    peer_usage.granted_pages += page_list.granted_pages();
                }
            }
        }
        for (_, channel) in self.channels.iter() {
            let fences = channel.jobs.iter().filter(|job| job.is_for_peer).count();
            peer_usages.entry(channel.node).or_default().fences += fences + channel.peer_waits();
        }
        peer_usages.retain(|_, peer_usage| *peer_usage != PeerUsage::default());
        let known = self.windows.peer_usages();
        let known = known.filter(|(_, peer_usage)| *peer_usage != PeerUsage::default());
        rule(
            peer_usages.into_iter().eq(known),
            "what each node makes us keep is counted",
            0,
        )
    }

    /// Pages lent to peers.
    pub(crate) fn granted_pages(&self) -> usize {
        self.windows
            .peer_usages()
            .map(|(_, peer_usage)| peer_usage.granted_pages)
            .sum()
    }
}

fn check_space<K: Key>(space: &Space<K>) -> Result<(), Violation> {
    let mut free = 0;
    for (offset, slot) in space.iter() {
        rule(offset >= free, "windows do not overlap", slot.id)?;
        free = offset.saturating_add_unsigned(slot.bytes);
    }
    Ok(())
}

fn count_uses(
    span: &Span,
    own: &mut BTreeMap<WindowId, u32>,
    remote: &mut BTreeMap<RemoteWindowId, u32>,
) {
    match &span.backing {
        Backing::Local(ids) => ids.iter().for_each(|id| *own.entry(*id).or_default() += 1),
        Backing::Remote(ids) => ids
            .iter()
            .for_each(|id| *remote.entry(*id).or_default() += 1),
        Backing::Pages(..) => {}
    }
}
