//! Channels: the queue of jobs of each connection, and the waiters for its jobs.
//!
//! The jobs of a channel are done in order. A job is *submitted* when all its descriptors were
//! given to the copy engine, and *retired* when they have completed and so have all jobs before
//! it. A channel outlives its connection until it is empty.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use scif_abi::limits::{MAX_JOBS, MAX_PEER_FENCES};
use scif_abi::message::NodeMessage;
use scif_abi::{Error, NodeId};

use crate::base::context::{Context, Identity};
use crate::base::ids::{ChannelId, ConnectionId, EndpointId, Ticket};
use crate::base::owner::Owner;
use crate::base::quota::Resource;
use crate::base::rule::{Violation, rule};
use crate::call::Calls;
use crate::rma::Transfers;
use crate::rma::job::Job;
use crate::rma::marks::{Marked, Marks};
use crate::window::Windows;

/// From this number of queued jobs on a caller waits for its transfer, so that it does not reach
/// the limit.
const CROWDED_JOBS: usize = MAX_JOBS / 2;

/// Waits for jobs to be retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A call.
    Call(Ticket),
    /// The peer, which sent WAIT with this number.
    Peer(u64),
}

/// A connection's queue of jobs.
#[derive(Debug)]
pub(super) struct Channel {
    /// The connection, even after it has gone.
    peer: Identity,
    /// Whether the endpoint of the connection is open.
    is_attached: bool,
    /// The endpoint that was closed while jobs were queued.
    departing: Option<EndpointId>,
    /// The process whose turns the channel shares: the one that owned the endpoint when the first
    /// job was queued.
    pub(super) process: u32,
    pub(super) jobs: VecDeque<Job>,
    /// How many jobs at the front are submitted.
    pub(super) submitted: usize,
    /// How many jobs have been retired.
    retired: u64,
    /// The cookie of the last submitted descriptor that completes later.
    pub(super) last_cookie: u64,
    /// The cookie up to which descriptors have completed.
    pub(super) completed: u64,
    marks: Marks,
    /// The waiters, by the number of jobs that must be retired. The second number only tells them
    /// apart.
    waiters: BTreeMap<(u64, u64), Waiter>,
    /// Whether the channel is in the queue of channels that have something to submit, or among
    /// those for which the copy engine has no room.
    pub(super) is_active: bool,
    /// Whether the channel is in the list of those with descriptors that complete later.
    pub(super) is_busy: bool,
    /// How many fences of the peer wait for the channel.
    peer_fences: usize,
}

impl Channel {
    fn new(peer: Identity, process: u32) -> Channel {
        Channel {
            peer,
            is_attached: true,
            departing: None,
            process,
            jobs: VecDeque::new(),
            submitted: 0,
            retired: 0,
            last_cookie: 0,
            completed: 0,
            marks: Marks::default(),
            waiters: BTreeMap::new(),
            is_active: false,
            is_busy: false,
            peer_fences: 0,
        }
    }

    /// The peer's node.
    pub(super) fn node(&self) -> NodeId {
        self.peer.ends.peer.node()
    }

    /// The connection, until its endpoint is closed.
    pub(super) fn connection(&self) -> Option<ConnectionId> {
        self.is_attached.then_some(self.peer.id)
    }

    /// The jobs that are not retired.
    pub(super) fn jobs(&self) -> &VecDeque<Job> {
        &self.jobs
    }

    /// How many jobs have ever been queued.
    fn issued(&self) -> u64 {
        self.retired + self.jobs.len() as u64
    }

    /// The job with this number, unless it is retired.
    pub(super) fn job_mut(&mut self, number: u64) -> Option<&mut Job> {
        let index = number.checked_sub(self.retired)?;
        self.jobs.get_mut(usize::try_from(index).ok()?)
    }

    /// Whether the job with this number is the first that is not submitted.
    pub(super) fn is_current(&self, number: u64) -> bool {
        self.retired + self.submitted as u64 == number
    }

    /// Removes the job at the front and returns it, if it has completed.
    fn pop_completed(&mut self) -> Option<Job> {
        let completed = self.completed;
        if self.submitted == 0 {
            return None;
        }
        let job = self.jobs.pop_front_if(|job| job.cookie <= completed)?;
        self.submitted -= 1;
        self.retired += 1;
        Some(job)
    }

    /// Removes a waiter whose jobs are retired, and returns it.
    fn pop_waiter(&mut self) -> Option<Waiter> {
        self.marks.forget(self.retired);
        let entry = self.waiters.first_entry()?;
        (entry.key().0 <= self.retired).then(|| entry.remove())
    }

    /// Lets all jobs fail, and removes and returns those without descriptors under way.
    fn cancel(&mut self) -> Vec<Job> {
        let (mut kept, mut ended) = (VecDeque::new(), Vec::new());
        for mut job in core::mem::take(&mut self.jobs) {
            job.fail(Error::ConnectionReset);
            if job.cookie > self.completed {
                kept.push_back(job);
            } else {
                ended.push(job);
            }
        }
        self.submitted = kept.len();
        self.jobs = kept;
        self.retired += ended.len() as u64;
        ended
    }

    /// Whether the channel is no longer needed.
    fn is_done(&self) -> bool {
        self.jobs.is_empty() && !self.is_attached && !self.is_active
    }

    /// How many fences of the peer wait for the channel, counted again.
    fn count_peer_fences(&self) -> usize {
        let is_peer = |waiter: &&Waiter| matches!(waiter, Waiter::Peer(_));
        let waits = self.waiters.values().filter(is_peer).count();
        let stores = self.jobs.iter().filter(|job| job.is_for_peer);
        waits + stores.count()
    }

    /// How many fences of the peer wait for the channel.
    pub(super) fn peer_fences(&self) -> usize {
        self.peer_fences
    }

    /// Checks the channel's state. `is_queued` says that it is in the queue of channels with work.
    pub(super) fn check(&self, id: ChannelId, is_queued: bool) -> Result<(), Violation> {
        rule(
            self.peer_fences == self.count_peer_fences(),
            "fences of the peer are counted",
            id,
        )?;
        rule(
            self.submitted <= self.jobs.len(),
            "no more jobs are submitted than queued",
            id,
        )?;
        let current = self.jobs.get(self.submitted);
        rule(
            current.is_none_or(|job| is_queued || job.awaits_caller()),
            "what can be submitted gets its turn",
            id,
        )?;
        rule(
            !self.jobs.is_empty() || self.is_attached || is_queued,
            "a channel that nobody needs is freed",
            id,
        )?;
        let (retired, issued) = (self.retired, self.issued());
        let mut waits = self.waiters.keys();
        rule(
            waits.all(|(until, _)| (retired + 1..=issued).contains(until)),
            "waits are for jobs that are queued",
            id,
        )
    }
}

// Queueing.
impl Transfers {
    /// The channel of a connection, which is made when it is first needed. A new one shares its
    /// turns with the other channels of `process`.
    ///
    /// # Errors
    /// `ENOMEM`: too many channels.
    pub(crate) fn channel(
        &mut self,
        connection: Identity,
        process: u32,
    ) -> Result<ChannelId, Error> {
        if let Some(id) = self.by_connection.get(&connection.id) {
            return Ok(*id);
        }
        let channel = Channel::new(connection, process);
        let id = self.channels.insert(channel).ok_or(Error::NoMemory)?;
        self.by_connection.insert(connection.id, id);
        Ok(id)
    }

    fn of(&self, connection: ConnectionId) -> Option<&Channel> {
        self.channels.get(*self.by_connection.get(&connection)?)
    }

    /// Whether `jobs` jobs, which count as `cost` transfers, can be queued on a channel and
    /// charged to `owner`.
    pub(crate) fn has_room(
        &self,
        cx: &Context,
        id: ChannelId,
        owner: Option<Owner>,
        (jobs, cost): (usize, u64),
    ) -> bool {
        let channel = self.channels.get(id);
        let may = |owner| {
            let checked = cx.quotas.check(owner, Resource::Transfers, cost);
            checked.is_ok()
        };
        channel.is_some_and(|channel| channel.jobs.len() + jobs <= MAX_JOBS)
            && owner.is_none_or(may)
    }

    /// Whether a caller should wait for the end of what it queues now.
    pub(crate) fn is_crowded(&self, id: ChannelId) -> bool {
        let channel = self.channels.get(id);
        channel.is_some_and(|channel| channel.jobs.len() >= CROWDED_JOBS)
    }

    /// The number of the next job of a channel.
    pub(crate) fn next_number(&self, id: ChannelId) -> u64 {
        self.channels.get(id).map_or(0, Channel::issued)
    }

    /// Queues a job. It is charged to `owner` unless the peer asked for it.
    ///
    /// # Errors
    /// `ENOMEM`: too many are queued.
    pub(crate) fn queue(
        &mut self,
        cx: &mut Context,
        windows: &mut Windows,
        id: ChannelId,
        mut job: Job,
        owner: Option<Owner>,
    ) -> Result<(), Error> {
        let channel = self.channels.get_mut(id);
        let channel = channel.filter(|channel| channel.jobs.len() < MAX_JOBS);
        let channel = channel.ok_or(Error::NoMemory)?;
        if job.is_for_peer {
            channel.peer_fences += 1;
            *self.peer_fences.entry(channel.node()).or_default() += 1;
        } else if let Some(owner) = owner {
            cx.quotas.charge(owner, Resource::Transfers, job.cost())?;
            job.owner = Some(owner);
        }
        job.spans().for_each(|span| span.hold(windows));
        channel.jobs.push_back(job);
        if channel.jobs.len() == 1 {
            self.changed.extend(channel.connection());
        }
        self.activate(id);
        Ok(())
    }

    /// Detaches a channel, because the endpoint of its connection is closed: jobs run on, waits
    /// end.
    pub(crate) fn detach(
        &mut self,
        cx: &mut Context,
        connection: ConnectionId,
        endpoint: EndpointId,
    ) {
        let Some(id) = self.by_connection.remove(&connection) else {
            return;
        };
        self.end_all_waits(id);
        if let Some(channel) = self.channels.get_mut(id) {
            channel.is_attached = false;
            if !channel.jobs.is_empty() {
                channel.departing = Some(endpoint);
                cx.begin_departure(endpoint);
                // The page of the connection shows transfers, which are not the connection's any
                // more.
                self.changed.push(connection);
            }
        }
        self.drop_if_done(cx, id);
    }

    /// Whether a connection has jobs.
    pub(crate) fn are_under_way(&self, connection: ConnectionId) -> bool {
        let channel = self.of(connection);
        channel.is_some_and(|channel| !channel.jobs.is_empty())
    }

    /// Whether anything is queued or under way between this node and `node`.
    pub(crate) fn is_copying(&self, node: NodeId) -> bool {
        let mut with_node = self.channels.iter().filter(|(_, c)| c.node() == node);
        with_node.any(|(_, channel)| !channel.jobs.is_empty())
    }

    /// Frees a channel that is no longer needed.
    pub(super) fn drop_if_done(&mut self, cx: &mut Context, id: ChannelId) {
        let is_done = self.channels.get(id).is_some_and(Channel::is_done);
        if is_done && let Some(channel) = self.channels.remove(id) {
            self.forgotten.push(id);
            if let Some(endpoint) = channel.departing {
                cx.end_departure(endpoint);
            }
        }
    }
}

// How jobs end.
impl Transfers {
    /// Ends the jobs at the front that have completed, and the waits for them.
    pub(crate) fn retire(
        &mut self,
        cx: &mut Context,
        windows: &mut Windows,
        calls: &mut Calls,
        id: ChannelId,
    ) {
        while let Some(channel) = self.channels.get_mut(id)
            && let Some(job) = channel.pop_completed()
        {
            self.end_job(cx, windows, calls, job, id);
        }
        self.note_if_idle(id);
        self.end_waits(cx, calls, id);
    }

    /// Notes the connection of a channel without jobs.
    fn note_if_idle(&mut self, id: ChannelId) {
        let channel = self.channels.get(id);
        let idle = channel.filter(|channel| channel.jobs.is_empty());
        self.changed.extend(idle.and_then(Channel::connection));
    }

    /// Ends a job: releases its windows and pages, and completes its call.
    fn end_job(
        &mut self,
        cx: &mut Context,
        windows: &mut Windows,
        calls: &mut Calls,
        job: Job,
        id: ChannelId,
    ) {
        if job.is_for_peer {
            self.end_fence(id);
        }
        if let Some(owner) = job.owner {
            cx.quotas.discharge(owner, Resource::Transfers, job.cost());
        }
        for span in job.work.into_spans() {
            for call in span.release(cx, windows) {
                calls.count_window(cx, call);
            }
        }
        if let Some(call) = job.call {
            calls.complete(cx, call, job.error.map_or(Ok(0), Err));
        }
    }

    /// Ends all jobs with a node that is lost. Jobs with descriptors under way end when these have
    /// completed.
    pub(crate) fn cancel(
        &mut self,
        cx: &mut Context,
        windows: &mut Windows,
        calls: &mut Calls,
        node: NodeId,
    ) {
        let with_node = self.channels.iter().filter(|(_, c)| c.node() == node);
        for id in with_node.map(|(id, _)| id).collect::<Vec<_>>() {
            self.end_all_waits(id);
            let ended = self.channels.get_mut(id).map(Channel::cancel);
            for job in ended.into_iter().flatten() {
                self.end_job(cx, windows, calls, job, id);
            }
            self.note_if_idle(id);
            self.drop_if_done(cx, id);
        }
    }
}

// Fences.
impl Transfers {
    /// Makes a mark for all jobs of a channel so far.
    pub(crate) fn take_mark(&mut self, id: ChannelId) -> Option<u32> {
        let channel = self.channels.get_mut(id)?;
        let mark = channel.marks.take(channel.issued());
        channel.marks.forget(channel.retired);
        Some(mark)
    }

    /// The transfers that a mark of a connection stands for; `None`: the mark was not given out.
    pub(crate) fn find_mark(&self, connection: ConnectionId, mark: u32) -> Option<Marked> {
        let channel = self.of(connection)?;
        channel.marks.find(mark, channel.retired)
    }

    /// Notes a mark of the peer's channel. Returns the mark for the caller.
    pub(crate) fn note_remote_mark(&mut self, connection: ConnectionId, mark: u64) -> Option<u64> {
        let id = self.by_connection.get(&connection)?;
        self.channels.get_mut(*id)?.marks.note_remote(mark)
    }

    /// Makes `waiter` wait until all jobs of a connection up to number `until` are retired.
    pub(crate) fn add_wait(&mut self, connection: ConnectionId, until: u64, waiter: Waiter) {
        let id = self.by_connection.get(&connection);
        let Some(channel) = id.and_then(|id| self.channels.get_mut(*id)) else {
            return;
        };
        self.wait_count += 1;
        channel.waiters.insert((until, self.wait_count), waiter);
        if matches!(waiter, Waiter::Peer(_)) {
            channel.peer_fences += 1;
            *self.peer_fences.entry(channel.node()).or_default() += 1;
        }
    }

    /// Whether no more fences of the peer may wait for a connection's transfers. A connection may
    /// have as many as its node has left, so that no number of connections that have all they can
    /// leaves nothing for another one.
    pub(crate) fn has_many_fences(&self, connection: ConnectionId) -> bool {
        let id = self.by_connection.get(&connection);
        let Some(channel) = id.and_then(|id| self.channels.get(*id)) else {
            return false;
        };
        let count = self.peer_fences.get(&channel.node()).copied();
        let left = MAX_PEER_FENCES.saturating_sub(count.unwrap_or(0));
        channel.peer_fences >= left
    }

    fn end_fence(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        channel.peer_fences = channel.peer_fences.saturating_sub(1);
        if let Some(count) = self.peer_fences.get_mut(&channel.node()) {
            *count = count.saturating_sub(1);
        }
    }

    /// Ends the waits for jobs that are retired.
    fn end_waits(&mut self, cx: &mut Context, calls: &mut Calls, id: ChannelId) {
        while let Some(channel) = self.channels.get_mut(id)
            && let Some(waiter) = channel.pop_waiter()
        {
            let (peer, is_attached) = (channel.peer, channel.is_attached);
            match waiter {
                Waiter::Call(call) => calls.complete(cx, call, Ok(0)),
                Waiter::Peer(waiter) => {
                    self.end_fence(id);
                    if is_attached {
                        let requester = peer.remote;
                        cx.post(peer.ends, NodeMessage::WaitAck { requester, waiter });
                    }
                }
            }
        }
    }

    /// Forgets the waiters for a channel's jobs. The calls among them have ended in another way.
    fn end_all_waits(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        for waiter in core::mem::take(&mut channel.waiters).into_values() {
            if matches!(waiter, Waiter::Peer(_)) {
                self.end_fence(id);
            }
        }
    }
}
