//! Channels: the queue of jobs of each connection, and the pump that works on all of them in turn:
//! on those of each process, in the turns of the processes.
//!
//! Jobs of a channel are done in order. A job is *submitted* when all its descriptors were given to
//! the copy engine, and *retired* when they have completed and so have all jobs before it. A
//! channel outlives its connection until it is empty.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use scif_abi::limits::MAX_JOBS;
use scif_abi::message::NodeMessage;
use scif_abi::trace::What;
use scif_abi::{Error, NodeId};

use crate::base::config::Owner;
use crate::base::ids::{ChannelId, ConnectionId, EndpointId, Ticket};
use crate::base::memory::{Memory, Place};
use crate::base::quota::Resource;
use crate::engine::Engine;
use crate::flow::fence::Marks;
use crate::rma::copy_engine::{CopyEngine, CpuEngine, SubmitError, Submitted};
use crate::rma::job::{Job, Step};
use crate::rma::span::{Backing, Span};
use crate::window::Windows;

/// Bytes copied for one channel before the next one gets its turn.
const SLICE_BYTES: u64 = 64 << 10;

/// What a descriptor costs at least, in bytes, so that many small ones are bounded too.
const MIN_COST_BYTES: u64 = 512;

/// Jobs from which on a caller waits for its transfer, so that it does not run into the limit.
const CROWDED_JOBS: usize = MAX_JOBS / 2;

/// Who waits for jobs to be retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A call.
    Call(Ticket),
    /// The peer, which sent WAIT with this word.
    Peer(u64),
}

/// A connection's queue of jobs.
#[derive(Debug)]
pub(crate) struct Channel {
    /// The peer's node.
    pub(crate) node: NodeId,
    /// The connection, until its endpoint is closed.
    pub(crate) connection: Option<ConnectionId>,
    /// The endpoint that was closed while jobs were queued.
    pub(crate) departing: Option<EndpointId>,
    /// The process with which it shares its turns: the one that owned the endpoint when the first
    /// job came.
    process: u32,
    pub(crate) jobs: VecDeque<Job>,
    /// How many jobs at the front are submitted.
    pub(crate) submitted: usize,
    /// How many jobs have been retired.
    pub(crate) retired: u64,
    /// Cookie of the last descriptor that was submitted and completes later.
    last_cookie: u64,
    /// Cookie up to which descriptors have completed.
    completed: u64,
    pub(crate) marks: Marks,
    /// Who waits until so many jobs are retired; the second number only tells them apart.
    waiters: BTreeMap<(u64, u64), Waiter>,
    /// It is in the queue of channels that have something to submit, or among those for which the
    /// copy engine has no room.
    is_active: bool,
    /// It is in the list of channels with descriptors that complete later.
    is_busy: bool,
}

impl Channel {
    /// Number of jobs ever queued.
    pub(crate) fn issued(&self) -> u64 {
        self.retired + self.jobs.len() as u64
    }

    /// The job with this number, unless it is retired.
    pub(crate) fn job_mut(&mut self, number: u64) -> Option<&mut Job> {
        let index = number.checked_sub(self.retired)?;
        self.jobs.get_mut(usize::try_from(index).ok()?)
    }

    /// Whether the job with this number is the first that is not submitted.
    pub(crate) fn is_current(&self, number: u64) -> bool {
        self.retired + self.submitted as u64 == number
    }

    /// How many jobs each waiter waits for.
    pub(crate) fn waits(&self) -> impl Iterator<Item = u64> {
        self.waiters.keys().map(|(until, _)| *until)
    }

    /// How many waiters are the peer's.
    pub(crate) fn peer_waits(&self) -> usize {
        let is_peer = |waiter: &&Waiter| matches!(waiter, Waiter::Peer(_));
        self.waiters.values().filter(is_peer).count()
    }

    /// Whether a caller should wait for what it queues now.
    pub(crate) fn is_crowded(&self) -> bool {
        self.jobs.len() >= CROWDED_JOBS
    }
}

/// How a channel's turn ended.
enum SliceEnd {
    /// There is more to submit.
    More,
    /// There is nothing to submit.
    Idle,
    /// The copy engine takes nothing more for now.
    Full,
}

impl Engine {
    /// Does about `budget` bytes of queued work, each process in turn and each of its connections.
    /// Call it once in every turn of the loop, before `next_event`, and whenever the copy engine
    /// has completed something.
    /// True: there is more to do right away, so do not sleep.
    pub fn pump(
        &mut self,
        mem: &mut dyn Memory,
        copier: &mut dyn CopyEngine,
        budget: usize,
    ) -> bool {
        for channel in core::mem::take(&mut self.forgotten) {
            copier.forget(channel.number());
        }
        self.collect(mem, copier);
        for id in core::mem::take(&mut self.full) {
            self.push_active(id);
        }
        let mut left = budget as u64;
        while left > 0
            && let Some(id) = self.active.pop()
        {
            match self.submit_slice(mem, copier, id, &mut left) {
                SliceEnd::More => self.push_active(id),
                SliceEnd::Full => self.full.push(id),
                SliceEnd::Idle => {
                    if let Some(channel) = self.channels.get_mut(id) {
                        channel.is_active = false;
                    }
                    self.drop_channel_if_done(id);
                }
            }
        }
        self.send_kept_exits(mem);
        self.has_work()
    }

    /// Whether [`pump`](Self::pump) would find queued work. Work is queued by calls, but also by
    /// messages that `doorbell` and `next_event` handle. What waits for the copy engine does not
    /// count: its completions ask for a pump themselves.
    pub fn has_work(&self) -> bool {
        !self.active.is_empty()
    }

    /// Whether the copy engine has taken something that completes later. As long as that is so,
    /// call [`pump`](Self::pump) whenever it may have completed something.
    pub fn awaits_copies(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Asks the copy engine what has completed.
    fn collect(&mut self, mem: &mut dyn Memory, copier: &mut dyn CopyEngine) {
        let mut busy = core::mem::take(&mut self.busy);
        busy.retain(|id| {
            let Some(channel) = self.channels.get_mut(*id) else {
                return false;
            };
            channel.completed = channel.completed.max(copier.completed(mem, id.number()));
            self.retire(*id);
            let stays = self.channels.get_mut(*id).is_some_and(|channel| {
                channel.is_busy = channel.last_cookie > channel.completed;
                channel.is_busy
            });
            if !stays {
                self.drop_channel_if_done(*id);
            }
            stays
        });
        self.busy.append(&mut busy);
    }

    /// Works on one channel until its share or the budget is used up.
    fn submit_slice(
        &mut self,
        mem: &mut dyn Memory,
        copier: &mut dyn CopyEngine,
        id: ChannelId,
        budget: &mut u64,
    ) -> SliceEnd {
        let mut share = SLICE_BYTES.min(*budget);
        while share > 0 {
            let Some(channel) = self.channels.get_mut(id) else {
                return SliceEnd::Idle;
            };
            let Some(job) = channel.jobs.get_mut(channel.submitted) else {
                return SliceEnd::Idle;
            };
            let node = channel.node;
            let mut cost = MIN_COST_BYTES;
            match job.step(&self.windows, copier) {
                Step::Wait => {
                    if let Some(call) = job.call {
                        self.calls.wake(&mut self.cx, call);
                    }
                    return SliceEnd::Idle;
                }
                Step::Over => {
                    channel.submitted += 1;
                    self.retire(id);
                }
                Step::Fail => job.fail(Error::ConnectionReset),
                Step::StoreParts(places, value) => {
                    if channel.submitted > 0 {
                        return SliceEnd::Full;
                    }
                    match store_parts(mem, places, value) {
                        Ok(()) => job.is_over = true,
                        Err(_) => job.fail(Error::NoDevice),
                    }
                }
                Step::Submit(descriptor, by_cpu) => {
                    let mut cpu = CpuEngine;
                    let engine: &mut dyn CopyEngine = if by_cpu { &mut cpu } else { copier };
                    match engine.submit(mem, id.number(), &descriptor) {
                        Ok(Submitted::Done) => {}
                        Ok(Submitted::Later(cookie)) => {
                            job.cookie = cookie;
                            channel.last_cookie = cookie;
                            if !channel.is_busy {
                                channel.is_busy = true;
                                self.busy.push(id);
                            }
                        }
                        Err(SubmitError::Full) => return SliceEnd::Full,
                        Err(SubmitError::Failed) => {
                            self.cx.stats.failed_copies += 1;
                            job.fail(Error::NoDevice);
                            self.cx.trace(What::CopyFailed, node, 0);
                            continue;
                        }
                    }
                    job.advance(&self.windows, &descriptor);
                    let is_cpu = engine.is_cpu(&descriptor);
                    cost = cost.max(self.cx.stats.count_descriptor(&descriptor, is_cpu));
                }
            }
            share = share.saturating_sub(cost);
            *budget = budget.saturating_sub(cost);
        }
        SliceEnd::More
    }

    /// Queues a job on a connection's channel; its number.
    ///
    /// # Errors
    /// `ENOMEM`: too many are queued.
    pub(crate) fn queue(&mut self, connection: ConnectionId, mut job: Job) -> Result<u64, Error> {
        let id = self.channel(connection)?;
        let full = |channel: &Channel| channel.jobs.len() >= MAX_JOBS;
        if self.channels.get(id).is_none_or(full) {
            return Err(Error::NoMemory);
        }
        if !job.is_for_peer {
            job.owner = self.owner_of(connection);
        }
        if let Some(owner) = job.owner {
            self.cx.quotas.charge(owner, Resource::Transfers, 1)?;
        }
        let Some(channel) = self.channels.get_mut(id) else {
            return Err(Error::NoMemory);
        };
        let number = channel.issued();
        let node = channel.node;
        for span in job.work.spans() {
            hold(&mut self.windows, span);
        }
        if job.is_for_peer {
            *self.peer_fences.entry(node).or_default() += 1;
        }
        channel.jobs.push_back(job);
        self.activate(id);
        Ok(number)
    }

    /// Who owns the endpoint of a connection, as long as it has one.
    pub(crate) fn owner_of(&self, id: ConnectionId) -> Option<Owner> {
        let endpoint = self.connections.get(id)?.endpoint?;
        Some(self.endpoints.get(endpoint).ok()?.owner())
    }

    /// Whether so many jobs of a connection's owner can be queued.
    pub(crate) fn has_room(&mut self, id: ConnectionId, jobs: usize) -> Result<bool, Error> {
        let channel = self.channel(id)?;
        let channel = self.channels.get(channel);
        let is_free = channel.is_some_and(|channel| channel.jobs.len() + jobs <= MAX_JOBS);
        let owner = self.owner_of(id);
        let may = |owner| {
            self.cx
                .quotas
                .check(owner, Resource::Transfers, jobs as u64)
        };
        Ok(is_free && owner.is_none_or(|owner| may(owner).is_ok()))
    }

    /// The channel of a connection, made when it is first needed.
    pub(crate) fn channel(&mut self, id: ConnectionId) -> Result<ChannelId, Error> {
        let process = self.owner_of(id).map_or(0, |owner| owner.process);
        let connection = self.connections.get_mut(id).ok_or(Error::NotConnected)?;
        if let Some(channel) = connection.channel {
            return Ok(channel);
        }
        let channel = Channel {
            process,
            node: connection.peer.node(),
            connection: Some(id),
            departing: None,
            jobs: VecDeque::new(),
            submitted: 0,
            retired: 0,
            last_cookie: 0,
            completed: 0,
            marks: Marks::default(),
            waiters: BTreeMap::new(),
            is_active: false,
            is_busy: false,
        };
        let channel = self.channels.insert(channel).ok_or(Error::NoMemory)?;
        connection.channel = Some(channel);
        Ok(channel)
    }

    /// There may be something to submit.
    pub(crate) fn activate(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(id)
            && !channel.is_active
        {
            channel.is_active = true;
            self.push_active(id);
        }
    }

    /// Puts a channel behind those of its process.
    fn push_active(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get(id) {
            self.active.push(channel.process, id);
        }
    }

    /// Ends the jobs at the front that have completed, and the waits for them.
    pub(crate) fn retire(&mut self, id: ChannelId) {
        while let Some(channel) = self.channels.get_mut(id) {
            let completed = channel.completed;
            let is_done = |job: &mut Job| job.cookie <= completed;
            if channel.submitted == 0 {
                break;
            }
            let Some(job) = channel.jobs.pop_front_if(is_done) else {
                break;
            };
            channel.submitted -= 1;
            channel.retired += 1;
            let node = channel.node;
            self.end_job(job, node);
        }
        self.end_waits(id);
    }

    /// Ends a job: its windows, pages and call.
    fn end_job(&mut self, job: Job, node: NodeId) {
        if job.is_for_peer {
            self.end_fence(node);
        }
        if let Some(owner) = job.owner {
            self.cx.quotas.discharge(owner, Resource::Transfers, 1);
        }
        for span in job.work.into_spans() {
            self.release(span);
        }
        if let Some(call) = job.call {
            self.calls
                .complete(&mut self.cx, call, job.error.map_or(Ok(0), Err));
        }
    }

    /// A span is no longer needed.
    fn release(&mut self, span: Span) {
        match span.backing {
            Backing::Local(ids) => {
                for id in ids {
                    if let Some(call) = self.windows.release_local(&mut self.cx, id) {
                        self.calls.count_window(&mut self.cx, call);
                    }
                }
            }
            Backing::Remote(ids) => {
                ids.iter()
                    .for_each(|id| self.windows.release_remote(*id, 0, 1));
            }
            Backing::Pages(pin, _) => self.cx.events.push(crate::Event::Unpin(pin)),
        }
    }

    /// A fence of a node has ended.
    fn end_fence(&mut self, node: NodeId) {
        if let Some(count) = self.peer_fences.get_mut(&node) {
            *count = count.saturating_sub(1);
        }
    }

    /// Notes that `waiter` waits until all jobs up to number `until` are retired.
    pub(crate) fn add_wait(&mut self, id: ChannelId, until: u64, waiter: Waiter) {
        self.wait_count += 1;
        let key = (until, self.wait_count);
        if let Some(channel) = self.channels.get_mut(id) {
            channel.waiters.insert(key, waiter);
        }
    }

    /// Ends the waits for jobs that are retired.
    fn end_waits(&mut self, id: ChannelId) {
        while let Some(channel) = self.channels.get_mut(id) {
            channel.marks.forget(channel.retired);
            let Some(entry) = channel.waiters.first_entry() else {
                break;
            };
            if entry.key().0 > channel.retired {
                break;
            }
            let waiter = entry.remove();
            let (node, connection) = (channel.node, channel.connection);
            match waiter {
                Waiter::Call(call) => self.calls.complete(&mut self.cx, call, Ok(0)),
                Waiter::Peer(waiter) => {
                    self.end_fence(node);
                    self.post_to_peer(connection, |requester| NodeMessage::WaitAck {
                        requester,
                        waiter,
                    });
                }
            }
        }
    }

    /// Sends a message that begins with the peer's id, if the connection is still there.
    pub(crate) fn post_to_peer(
        &mut self,
        connection: Option<ConnectionId>,
        body: impl FnOnce(u64) -> NodeMessage,
    ) {
        let Some(id) = connection else {
            return;
        };
        if let Some(connection) = self.connections.get(id) {
            let body = body(connection.remote);
            self.post_peer(id, body);
        }
    }

    /// The endpoint of a channel was closed: jobs run on, waits end.
    pub(crate) fn detach_channel(&mut self, id: ChannelId, endpoint: EndpointId) {
        self.end_all_waits(id);
        if let Some(channel) = self.channels.get_mut(id) {
            channel.connection = None;
            if !channel.jobs.is_empty() {
                channel.departing = Some(endpoint);
                self.cx.begin_departure(endpoint);
            }
        }
        self.drop_channel_if_done(id);
    }

    /// Forgets who waits for a channel's jobs. Waiting calls have been ended otherwise.
    fn end_all_waits(&mut self, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let node = channel.node;
        for waiter in core::mem::take(&mut channel.waiters).into_values() {
            if matches!(waiter, Waiter::Peer(_)) {
                self.end_fence(node);
            }
        }
    }

    /// Ends all jobs with a node that is lost. Those with descriptors under way end when these
    /// have completed.
    pub(crate) fn cancel_channels(&mut self, node: NodeId) {
        let with_node = self.channels.iter().filter(|(_, c)| c.node == node);
        let ids: Vec<ChannelId> = with_node.map(|(id, _)| id).collect();
        for id in ids {
            self.end_all_waits(id);
            let Some(channel) = self.channels.get_mut(id) else {
                continue;
            };
            let completed = channel.completed;
            let (mut kept, mut ended) = (VecDeque::new(), Vec::new());
            for mut job in core::mem::take(&mut channel.jobs) {
                job.fail(Error::ConnectionReset);
                if job.cookie > completed {
                    kept.push_back(job);
                } else {
                    ended.push(job);
                }
            }
            channel.submitted = kept.len();
            channel.jobs = kept;
            channel.retired += ended.len() as u64;
            for job in ended {
                self.end_job(job, node);
            }
            self.drop_channel_if_done(id);
        }
    }

    /// Whether anything is queued or under way between this node and `node`.
    pub(crate) fn is_copying(&self, node: NodeId) -> bool {
        let mut with_node = self.channels.iter().filter(|(_, c)| c.node == node);
        with_node.any(|(_, channel)| !channel.jobs.is_empty())
    }

    fn drop_channel_if_done(&mut self, id: ChannelId) {
        let done = self.channels.get(id).is_some_and(|channel| {
            channel.jobs.is_empty() && channel.connection.is_none() && !channel.is_active
        });
        if done && let Some(channel) = self.channels.remove(id) {
            self.forgotten.push(id);
            if let Some(endpoint) = channel.departing {
                self.cx.end_departure(endpoint);
            }
        }
    }

    /// Nobody carries out virtual job `number` any more.
    pub(crate) fn end_virtual(&mut self, id: ChannelId, number: u64) {
        let job = self.channels.get_mut(id).and_then(|c| c.job_mut(number));
        if let Some(job) = job {
            job.call = None;
            job.is_over = true;
            self.activate(id);
        }
    }
}

/// Counts a span as a job in its windows.
fn hold(windows: &mut Windows, span: &Span) {
    match &span.backing {
        Backing::Local(ids) => ids.iter().for_each(|id| windows.hold_local(*id)),
        Backing::Remote(ids) => ids.iter().for_each(|id| windows.hold_remote(*id)),
        Backing::Pages(..) => {}
    }
}

/// Stores a value that is half on one page and half on another.
fn store_parts(
    mem: &mut dyn Memory,
    places: [Place; 2],
    value: u64,
) -> Result<(), crate::BadAddress> {
    mem.fence();
    let bytes = value.to_le_bytes();
    for (place, half) in places.into_iter().zip(bytes.chunks_exact(4)) {
        match place {
            Place::Own(address) => mem.write(address, half),
            Place::Peer(node, address) => mem.peer_write(node, address, half)?,
        }
    }
    Ok(())
}
