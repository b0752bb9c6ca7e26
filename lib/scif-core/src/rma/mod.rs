//! Remote memory access: jobs, the channels in which they are queued, and the copy engines.

pub(crate) mod channel;
pub(crate) mod copy_engine;
pub(crate) mod job;
pub(crate) mod marks;
pub(crate) mod pump;
pub(crate) mod span;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use scif_abi::NodeId;
use scif_abi::limits::MAX_CONNECTIONS;

use crate::base::context::Context;
use crate::base::fair_queue::FairQueue;
use crate::base::ids::{ChannelId, ConnectionId, RemoteWindowId, WindowId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::base::table::Table;
use crate::rma::channel::Channel;
use crate::rma::job::Job;
use crate::window::Windows;

/// All transfers and fences of an engine.
pub(crate) struct Transfers {
    channels: Table<ChannelId, Channel>,
    /// The channels of connections whose endpoints are open.
    by_connection: BTreeMap<ConnectionId, ChannelId>,
    /// Channels that have something to submit, in order of their turns.
    active: FairQueue<ChannelId>,
    /// Channels that have something to submit, but the copy engine has no room now.
    full: Vec<ChannelId>,
    /// Channels with descriptors that complete later.
    busy: Vec<ChannelId>,
    /// Channels that have been freed, which the copy engine must forget.
    forgotten: Vec<ChannelId>,
    /// How many waits there were so far, which tells them apart.
    wait_count: u64,
    /// Fences of peers that wait here, by node.
    peer_fences: BTreeMap<NodeId, usize>,
    /// Connections whose first job was queued or whose last one has ended: their clients have to
    /// be shown.
    changed: Vec<ConnectionId>,
}

impl Transfers {
    pub(crate) fn new() -> Transfers {
        Transfers {
            channels: Table::new(2 * MAX_CONNECTIONS),
            by_connection: BTreeMap::new(),
            active: FairQueue::default(),
            full: Vec::new(),
            busy: Vec::new(),
            forgotten: Vec::new(),
            wait_count: 0,
            peer_fences: BTreeMap::new(),
            changed: Vec::new(),
        }
    }

    /// Notes that the clients of a connection have to be shown whether it has jobs.
    pub(crate) fn note_changed(&mut self, connection: ConnectionId) {
        self.changed.push(connection);
    }

    /// Takes a connection whose clients have to be shown whether it has jobs.
    pub(crate) fn take_changed(&mut self) -> Option<ConnectionId> {
        self.changed.pop()
    }

    /// Whether [`take_changed`](Self::take_changed) will return a connection.
    pub(crate) fn is_changed(&self, connection: ConnectionId) -> bool {
        self.changed.contains(&connection)
    }

    /// How many jobs are queued or under way.
    pub(crate) fn jobs(&self) -> usize {
        let channels = self.channels.iter();
        channels.map(|(_, channel)| channel.jobs().len()).sum()
    }

    /// The connections that have a channel.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.by_connection.keys().copied()
    }

    /// Number of channels.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.channels.len()
    }

    /// Checks what must hold between any two calls of the engine.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub(crate) fn check(&self, cx: &Context, windows: &Windows) -> Result<(), Violation> {
        for (id, channel) in self.channels.iter() {
            let is_queued = self.active.contains(&id) || self.full.contains(&id);
            channel.check(id, is_queued)?;
        }
        for (connection, id) in &self.by_connection {
            let channel = self.channels.get(*id);
            rule(
                channel.is_some_and(|channel| channel.connection() == Some(*connection)),
                "a channel's connection refers back to it",
                *id,
            )?;
        }
        let attached = self
            .channels
            .iter()
            .filter(|(_, c)| c.connection().is_some());
        rule(
            attached.count() == self.by_connection.len(),
            "each connection has one channel at most",
            self.by_connection.len() as u64,
        )?;
        self.check_uses(windows)?;
        self.check_accounts(cx)
    }

    /// Checks that each window counts the jobs that use it.
    fn check_uses(&self, windows: &Windows) -> Result<(), Violation> {
        let mut local: BTreeMap<WindowId, u32> = BTreeMap::new();
        let mut remote: BTreeMap<RemoteWindowId, u32> = BTreeMap::new();
        let jobs = self.channels.iter().flat_map(|(_, channel)| channel.jobs());
        for span in jobs.flat_map(|job| job.spans()) {
            span.count_uses(&mut local, &mut remote);
        }
        for (id, window) in windows.locals() {
            let jobs = local.remove(&id).unwrap_or(0);
            rule(window.jobs() == jobs, "a window counts its jobs", id)?;
        }
        rule(
            local.is_empty(),
            "jobs use windows that exist",
            local.len() as u64,
        )?;
        for (id, window) in windows.remotes() {
            let jobs = remote.remove(&id).unwrap_or(0);
            rule(window.jobs() == jobs, "a peer's window counts its jobs", id)?;
        }
        Ok(())
    }

    fn check_accounts(&self, cx: &Context) -> Result<(), Violation> {
        let jobs = self.channels.iter().flat_map(|(_, channel)| channel.jobs());
        let owned = jobs.filter(|job| job.is_owned()).map(Job::cost).sum();
        cx.quotas.check_total(Resource::Transfers, owned)?;
        let mut fences = BTreeMap::new();
        for (_, channel) in self.channels.iter() {
            *fences.entry(channel.node()).or_default() += channel.peer_fences();
        }
        fences.retain(|_, count| *count > 0);
        let mut known = self.peer_fences.clone();
        known.retain(|_, count| *count > 0);
        rule(fences == known, "fences of peers are counted", 0)
    }
}
