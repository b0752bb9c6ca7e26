//! A daemon's interface to the loop beside its request handlers.

use alloc::vec::Vec;

use redox_scheme::scheme::SchemeSync;
use redox_scheme::{CallerCtx, Id};
use syscall::error::{ECANCELED, EOPNOTSUPP, Error, Result};
use syscall::flag::EventFlags;

use crate::locks::Locks;

/// What a daemon tells the loop, and the loop the daemon.
pub trait SchemeDaemon: SchemeSync {
    /// Reports the handles and requests whose state changed since the last call. Called after
    /// every batch of requests and whenever
    /// [`retry_parked`](super::SchemeLoop::retry_parked) runs.
    fn changes(&mut self, changes: &mut Changes) {
        let _ = changes;
    }

    /// Reports that a request is about to be kept, because it cannot be answered yet. `handle` is
    /// the request's handle, `usize::MAX` without one.
    ///
    /// # Errors
    /// The answer to the request, if it may not wait because too many do. What it has begun is
    /// then undone by [`on_cancel`](Self::on_cancel).
    fn on_wait(&mut self, handle: usize, ctx: &CallerCtx) -> Result<()> {
        let _ = (handle, ctx);
        Ok(())
    }

    /// Reports that a request which [`on_wait`](Self::on_wait) let wait was answered or given up.
    fn on_waited(&mut self, request: Id) {
        let _ = request;
    }

    /// Whether the process `pid` has ended. The loop asks before a request that has waited gives a
    /// process a new handle: Redox's kernel does not report a process killed meanwhile.
    fn is_gone(&mut self, pid: usize) -> bool {
        let _ = pid;
        false
    }

    /// The table of file locks, and the number of the file behind a handle; see
    /// [`Locks`](crate::locks::Locks). The loop answers all requests for locks.
    ///
    /// # Errors
    /// The answer to such a request: the scheme keeps no locks, or none of this file.
    fn locks(&mut self, handle: usize) -> Result<(&mut Locks, u64)> {
        let _ = handle;
        Err(Error::new(EOPNOTSUPP))
    }

    /// Reports that the caller has given up a kept request; `request` is the `ctx.id` that its
    /// handler saw. Drop here what the handler remembered under that id. Returns the count of what
    /// a transfer had moved before, which then is not lost.
    ///
    /// # Errors
    /// The answer if nothing was moved: usually `ECANCELED`.
    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        let _ = request;
        Err(Error::new(ECANCELED))
    }
}

/// Collects what changed; see [`SchemeDaemon::changes`].
#[derive(Default)]
pub struct Changes {
    pub(super) handles: Vec<usize>,
    pub(super) requests: Vec<Id>,
    pub(super) events: Vec<(usize, EventFlags)>,
    pub(super) everything: bool,
    pub(super) progress: bool,
}

impl Changes {
    /// Reports that a handle's readiness changed: the loop tries its kept requests again, and
    /// posts an event to subscribers if `fevent` now reports something ready.
    pub fn handle(&mut self, id: usize) {
        self.handles.push(id);
    }

    /// Reports that one kept request (the `ctx.id` its handler saw) can be tried again.
    pub fn request(&mut self, request: Id) {
        self.requests.push(request);
    }

    /// Has all kept requests tried again. For daemons with few clients.
    pub fn everything(&mut self) {
        self.everything = true;
    }

    /// Reports that data moved although no request could be answered yet: the round of retries
    /// that led here was not in vain.
    pub fn progress(&mut self) {
        self.progress = true;
    }

    /// Posts an event as it is, whether or not the handle is ready.
    pub fn event(&mut self, id: usize, flags: EventFlags) {
        self.events.push((id, flags));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.handles.is_empty()
            && self.requests.is_empty()
            && self.events.is_empty()
            && !self.everything
    }

    /// Empties the lists but keeps their memory.
    pub(super) fn clear(&mut self) {
        self.handles.clear();
        self.requests.clear();
        self.events.clear();
        self.everything = false;
        self.progress = false;
    }
}
