//! Invariants of registered memory: windows, copies, fences and calls.

use alloc::collections::BTreeMap;

use crate::base::ids::{ChannelId, RemoteWindowId, WindowId};
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::engine::Engine;
use crate::rma::channel::Channel;
use crate::rma::job::Work;
use crate::rma::span::{Backing, Span};

impl Engine {
    /// Checks everything that belongs to registered memory.
    pub(crate) fn check_memory(&self) -> Result<(), Violation> {
        self.windows.check(&self.cx)?;
        self.check_connections()?;
        self.check_remote_windows()?;
        self.check_uses()?;
        for (id, channel) in self.channels.iter() {
            self.check_channel(id, channel)?;
        }
        self.check_calls()?;
        self.check_fences()
    }

    fn check_connections(&self) -> Result<(), Violation> {
        let with_channel = self.connections.iter().filter(|(_, c)| c.channel.is_some());
        let ids = with_channel.map(|(id, _)| id);
        for id in ids.chain(self.windows.connections()) {
            let connection = self.connections.get(id);
            rule(
                connection.is_some_and(|connection| connection.endpoint.is_some()),
                "without an endpoint there is no registered memory",
                id,
            )?;
        }
        Ok(())
    }

    fn check_remote_windows(&self) -> Result<(), Violation> {
        for (id, window) in self.windows.remotes() {
            let node = window.node();
            rule(
                node == self.cx.config.node || self.nodes.state(node).is_some(),
                "windows are of nodes that are there",
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
        for (id, window) in self.windows.locals() {
            let jobs = own.remove(&id).unwrap_or(0);
            rule(window.jobs() == jobs, "a window counts its jobs", id)?;
        }
        rule(
            own.is_empty(),
            "jobs use windows that exist",
            own.len() as u64,
        )?;
        for (id, window) in self.windows.remotes() {
            let jobs = remote.remove(&id).unwrap_or(0);
            rule(window.jobs() == jobs, "a peer's window counts its jobs", id)?;
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

    fn check_fences(&self) -> Result<(), Violation> {
        let (mut transfers, mut fences) = (0, BTreeMap::new());
        for (_, channel) in self.channels.iter() {
            let owned = channel.jobs.iter().filter(|job| job.owner.is_some());
            transfers += owned.count() as u64;
            let waiting = channel.jobs.iter().filter(|job| job.is_for_peer).count();
            *fences.entry(channel.node).or_default() += waiting + channel.peer_waits();
        }
        self.cx.quotas.check_total(Resource::Transfers, transfers)?;
        fences.retain(|_, count| *count > 0);
        let mut known = self.peer_fences.clone();
        known.retain(|_, count| *count > 0);
        rule(fences == known, "fences of peers are counted", 0)
    }
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
