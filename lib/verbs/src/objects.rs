//! The verbs with objects as values: dropping a value destroys its object, and an object keeps
//! those alive that it needs.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use scif::{Memory, View};
use verbs_core::address::lid;
use verbs_core::keys::Region;
use verbs_core::table::Id;
use verbs_core::types::Access;
use verbs_core::work::{ReceiveRequest, Remote, Segment, WorkCompletion};

use crate::error::{Error, Result};
use crate::raw::{self, AsyncEvent};
use crate::worker::Worker;

/// A program's use of the device. Clones are the same context.
#[derive(Clone)]
pub struct Context {
    raw: raw::Context,
}

impl Context {
    pub(crate) fn open(start: impl FnOnce(Worker) -> Result<()>) -> Result<Self> {
        let raw = raw::Context::open(start)?;
        Ok(Self { raw })
    }

    /// This context with objects by handle.
    pub fn raw(&self) -> &raw::Context {
        &self.raw
    }

    /// The local identifier of this node's port, by which peers name the node.
    pub fn lid(&self) -> u16 {
        lid(self.raw.node())
    }

    /// Makes a protection domain. Objects that are used together have to belong to the same one.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn protection_domain(&self) -> Result<ProtectionDomain> {
        let raw = self.raw.clone();
        let id = raw.alloc_pd()?;
        Ok(ProtectionDomain(Arc::new(Domain { raw, id })))
    }

    /// Makes a completion queue for `size` completions.
    ///
    /// # Errors
    /// `Invalid`: the size is out of range. `NoMemory`.
    pub fn completion_queue(&self, size: u32) -> Result<CompletionQueue> {
        self.make_queue(size, None)
    }

    /// Makes a completion queue whose events go to a channel, where `name` stands for it.
    ///
    /// # Errors
    /// Those of [`completion_queue`](Self::completion_queue).
    pub fn completion_queue_with(
        &self,
        size: u32,
        channel: &CompletionChannel,
        name: u64,
    ) -> Result<CompletionQueue> {
        self.make_queue(size, Some((channel, name)))
    }

    fn make_queue(
        &self,
        size: u32,
        channel: Option<(&CompletionChannel, u64)>,
    ) -> Result<CompletionQueue> {
        let raw = self.raw.clone();
        let name = channel.map_or(0, |(_, name)| name);
        let id = raw.create_cq(size, channel.map(|(channel, _)| &channel.events), name)?;
        Ok(CompletionQueue(Arc::new(Completions { raw, id })))
    }

    /// Makes a completion channel.
    ///
    /// # Errors
    /// Those of opening a pipe.
    pub fn completion_channel(&self) -> Result<CompletionChannel> {
        Ok(CompletionChannel {
            events: Arc::new(raw::Channel::new()?),
            context: self.raw.downgrade(),
        })
    }

    /// Waits for the next asynchronous event.
    ///
    /// # Errors
    /// Those of reading a pipe.
    pub fn next_event(&self) -> Result<AsyncEvent> {
        self.raw.events().next()
    }

    /// The descriptor of asynchronous events, which is readable while there are some.
    pub fn event_fd(&self) -> usize {
        self.raw.events().fd()
    }
}

// ---- Protection domains and memory regions ----

pub(crate) struct Domain {
    pub raw: raw::Context,
    pub id: Id,
}

impl Drop for Domain {
    fn drop(&mut self) {
        // Everything that belongs to it has been destroyed: it keeps the domain alive.
        let _ = self.raw.dealloc_pd(self.id);
    }
}

/// A protection domain. Clones are the same one.
#[derive(Clone)]
pub struct ProtectionDomain(pub(crate) Arc<Domain>);

impl ProtectionDomain {
    /// Registers memory.
    ///
    /// # Errors
    /// `Invalid`: access for peers that the owner does not have. `NoMemory`.
    pub fn register(&self, memory: Memory, access: Access) -> Result<MemoryRegion> {
        let memory = Arc::new(memory);
        let start = memory.address() as u64;
        let region = Region {
            pd: self.0.id,
            start,
            length: memory.len() as u64,
            iova: start,
            access,
        };
        let key = self.0.raw.register(region, memory.clone().into())?;
        Ok(MemoryRegion {
            memory,
            key,
            domain: self.0.clone(),
        })
    }

    /// Makes a shared receive queue for `max_wr` receives of at most `max_sge` segments each.
    ///
    /// # Errors
    /// `Invalid`: sizes out of range. `NoMemory`.
    pub fn shared_receive_queue(&self, max_wr: u32, max_sge: u32) -> Result<SharedReceiveQueue> {
        let id = self.0.raw.create_srq(self.0.id, (max_wr, max_sge), 0, 0)?;
        let domain = self.0.clone();
        Ok(SharedReceiveQueue(Arc::new(Receives { domain, id })))
    }
}

/// Registered memory. Dropping the value deregisters it; then no peer copies to or from it.
pub struct MemoryRegion {
    memory: Arc<Memory>,
    key: u32,
    domain: Arc<Domain>,
}

impl MemoryRegion {
    /// The key, which is both the local and the remote one.
    pub fn key(&self) -> u32 {
        self.key
    }

    /// A range of its bytes as a segment of a request.
    ///
    /// # Errors
    /// `Invalid`: the range is not inside, or too long.
    pub fn segment(&self, range: Range<usize>) -> Result<Segment> {
        let is_inside = range.start <= range.end && range.end <= self.memory.len();
        let length = u32::try_from(range.end.wrapping_sub(range.start));
        Ok(Segment {
            address: (self.memory.address() + range.start) as u64,
            length: length.ok().filter(|_| is_inside).ok_or(Error::Invalid)?,
            key: self.key,
        })
    }

    /// The place `offset` bytes behind its beginning, for the requests of a peer.
    pub fn remote(&self, offset: usize) -> Remote {
        Remote {
            address: (self.memory.address() + offset) as u64,
            key: self.key,
        }
    }
}

impl Deref for MemoryRegion {
    type Target = View;

    fn deref(&self) -> &View {
        &self.memory
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // It is registered: only this value deregisters it.
        let _ = self.domain.raw.deregister(self.key);
    }
}

// ---- Completion queues ----

pub(crate) struct Completions {
    raw: raw::Context,
    pub id: Id,
}

impl Drop for Completions {
    fn drop(&mut self) {
        // The queue pairs that use it have been destroyed: they keep it alive.
        let _ = self.raw.destroy_cq(self.id);
    }
}

/// A completion queue. Clones are the same one.
#[derive(Clone)]
pub struct CompletionQueue(pub(crate) Arc<Completions>);

impl CompletionQueue {
    /// Appends up to `most` completions and returns their number. Never waits.
    ///
    /// # Errors
    /// None.
    pub fn poll(&self, most: usize, into: &mut Vec<WorkCompletion>) -> Result<usize> {
        self.0
            .raw
            .poll_cq(self.0.id, most, |completion| into.push(completion))
    }

    /// Asks for one event on the channel: at the next completion, or with `solicited_only` at the
    /// next solicited one or error. Completions that are there already do not count, so poll once
    /// more after this call.
    ///
    /// # Errors
    /// None.
    pub fn request_notification(&self, solicited_only: bool) -> Result<()> {
        self.0.raw.req_notify_cq(self.0.id, solicited_only)
    }

    /// Changes its size.
    ///
    /// # Errors
    /// `Invalid`: the size is out of range, or the queue holds more completions.
    pub fn resize(&self, size: u32) -> Result<()> {
        self.0.raw.resize_cq(self.0.id, size)
    }
}

/// A completion channel: a descriptor that reports completions. Clones are the same one.
#[derive(Clone)]
pub struct CompletionChannel {
    events: Arc<raw::Channel>,
    /// The context whose lanes a waiting thread serves.
    context: raw::WeakContext,
}

impl CompletionChannel {
    /// Waits for the next event. Returns the name of its completion queue.
    ///
    /// # Errors
    /// Those of reading a pipe; `EAGAIN` with `O_NONBLOCK`.
    pub fn next(&self) -> Result<u64> {
        match self.context.upgrade() {
            Some(context) => context.next_event(&self.events),
            None => self.events.next(),
        }
    }

    /// Its queue of events.
    #[cfg(feature = "std")]
    pub(crate) fn raw(&self) -> &raw::Channel {
        &self.events
    }

    /// The descriptor, which is readable while there are events.
    pub fn fd(&self) -> usize {
        self.events.fd()
    }
}

// ---- Shared receive queues ----

pub(crate) struct Receives {
    domain: Arc<Domain>,
    pub id: Id,
}

impl Drop for Receives {
    fn drop(&mut self) {
        // The queue pairs that use it have been destroyed: they keep it alive.
        let _ = self.domain.raw.destroy_srq(self.id);
    }
}

/// A receive queue that queue pairs share. Clones are the same one.
#[derive(Clone)]
pub struct SharedReceiveQueue(pub(crate) Arc<Receives>);

impl SharedReceiveQueue {
    /// Posts a receive.
    ///
    /// # Errors
    /// `Invalid`: too many segments. `NoMemory`: the queue is full.
    pub fn receive(&self, id: u64, segments: &[Segment]) -> Result<()> {
        let request = ReceiveRequest {
            id,
            segments: segments.into(),
        };
        self.0.domain.raw.post_srq_recv(self.0.id, [request]).1
    }

    /// Sets the limit: an event is raised once when the queue holds fewer receives, also if it
    /// does so already.
    ///
    /// # Errors
    /// `Invalid`: the limit is more than the queue can hold.
    pub fn set_limit(&self, limit: u32) -> Result<()> {
        self.0.domain.raw.modify_srq(self.0.id, None, Some(limit))
    }
}
