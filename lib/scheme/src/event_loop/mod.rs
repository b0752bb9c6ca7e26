//! The event loop of a scheme daemon: requests in, handlers called, answers out.
//!
//! A daemon implements redox-scheme's [`SchemeSync`] (its handlers never block) and the small
//! [`SchemeDaemon`] beside it. A handler that cannot answer yet returns `EWOULDBLOCK`: the loop
//! keeps the request and calls the handler again, from its start, after the daemon said through
//! [`SchemeDaemon::changes`] that the handle changed. So a handler must leave no trace before it
//! can succeed, or find its own trace again by `ctx.id`.
//!
//! The duties of the loop, which no daemon has to care about:
//! - a request with `O_NONBLOCK` that would block is answered `EAGAIN`, never kept;
//! - a cancelled request is answered `ECANCELED` (the kernel turns it into `EINTR`);
//! - subscriptions are remembered and events posted when a changed handle is ready;
//! - buffers too short or unaligned for `Stat`, `StatVfs` and `TimeSpec` never reach the decoder
//!   of redox-scheme, which asserts on them; such requests are answered `EINVAL` or copied;
//! - `F_GETFL` and `F_SETFL` succeed unless the daemon refuses them itself (the kernel offers
//!   every `fcntl` to the scheme first and gives up on its error);
//! - `CallerCtx::uid` and `gid` of requests that carry none (`call`, file-system calls) are
//!   [`NO_ID`] instead of whatever the message holds there.

mod dispatch;
#[cfg(not(target_os = "redox"))]
pub mod fake;
mod parked;
mod request_queue;
#[cfg(test)]
mod tests;
mod transport;
mod unclaimed;

use alloc::rc::Rc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use redox_scheme::scheme::{Op, SchemeState, SchemeSync};
use redox_scheme::{CallerCtx, Id, Socket};
use syscall::error::{ECANCELED, EINTR, Error, Result};
use syscall::flag::EventFlags;
use syscall::schemev2::{Cqe, CqeOpcode, Sqe};

use parked::{Parked, ParkedRequests};
use request_queue::RequestQueue;
use unclaimed::UnclaimedHandles;

pub use transport::{SocketTransport, Transport};

/// Requests taken from the socket by one read.
const REQUESTS_PER_READ: usize = 32;
/// Reads in a row before some of what they took is served. A program's thread waits for one answer
/// at a time, so this is more than there are.
const READS_PER_ROUND: usize = 256;
/// Rounds of requests in one [`SchemeLoop::poll`] before the caller gets to serve its other event
/// sources.
const ROUNDS_PER_POLL: usize = 8;
/// Rounds of retries in one [`SchemeLoop::retry_parked`] of an event-driven daemon.
const ROUNDS_PER_RETRY: usize = 64;
/// Rounds of retries without any answer after which pending changes are dropped: a daemon that
/// reports changes for ever without making progress must not keep the loop from its socket.
const IDLE_ROUNDS: usize = 16;

/// User and group id of a request that carries no credentials.
pub const NO_ID: u32 = u32::MAX;

/// A daemon's interface to the loop beside its request handlers.
pub trait SchemeDaemon: SchemeSync {
    /// Reports the handles and requests whose state changed since the last call. Called after
    /// every batch of requests and whenever [`SchemeLoop::retry_parked`] runs.
    fn changes(&mut self, changes: &mut Changes) {
        let _ = changes;
    }

    /// A request is about to be kept, because it cannot be answered yet. `handle` is the one it is
    /// for, `usize::MAX` without one.
    ///
    /// # Errors
    /// The answer, if it may not wait: too many do. What it has begun is then undone by
    /// [`on_cancel`](Self::on_cancel).
    fn on_wait(&mut self, handle: usize, ctx: &CallerCtx) -> Result<()> {
        let _ = (handle, ctx);
        Ok(())
    }

    /// A request that [`on_wait`](Self::on_wait) let wait was answered or given up.
    fn on_waited(&mut self, request: Id) {
        let _ = request;
    }

    /// Whether the process `pid` is no more. Asked before a request that has waited gives a process
    /// a new handle: Redox's kernel does not report that it was killed meanwhile.
    fn is_gone(&mut self, pid: usize) -> bool {
        let _ = pid;
        false
    }

    /// A kept request was given up by its caller; `request` is the `ctx.id` its handler saw. The
    /// place to drop what the handler remembered under that id. Returns the answer: usually
    /// `ECANCELED`, or the count of what a transfer had moved before, which then is not lost.
    fn on_cancel(&mut self, request: Id) -> Result<usize> {
        let _ = request;
        Err(Error::new(ECANCELED))
    }
}

/// Collects what changed; see [`SchemeDaemon::changes`].
#[derive(Default)]
pub struct Changes {
    handles: Vec<usize>,
    requests: Vec<Id>,
    events: Vec<(usize, EventFlags)>,
    everything: bool,
    progress: bool,
}

impl Changes {
    /// The handle's readiness changed: its kept requests are tried again, and subscribers get an
    /// event if `fevent` now reports something ready.
    pub fn handle(&mut self, id: usize) {
        self.handles.push(id);
    }

    /// One kept request (the `ctx.id` its handler saw) can be tried again.
    pub fn request(&mut self, request: Id) {
        self.requests.push(request);
    }

    /// All kept requests are to be tried again. For daemons with few clients.
    pub fn everything(&mut self) {
        self.everything = true;
    }

    /// Data moved although no request could be answered yet: the round of retries that led here
    /// was not in vain.
    pub fn progress(&mut self) {
        self.progress = true;
    }

    /// Posts an event as it is, whether or not the handle is ready.
    pub fn event(&mut self, id: usize, flags: EventFlags) {
        self.events.push((id, flags));
    }

    fn is_empty(&self) -> bool {
        self.handles.is_empty()
            && self.requests.is_empty()
            && self.events.is_empty()
            && !self.everything
    }

    /// Forgets everything but the memory it took.
    fn clear(&mut self) {
        self.handles.clear();
        self.requests.clear();
        self.events.clear();
        self.everything = false;
        self.progress = false;
    }
}

/// How a [`SchemeLoop::poll`] ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// All requests that waited were taken, and nothing is left to be tried.
    Idle,
    /// More requests may wait, or changes are left; poll again after the other event sources were
    /// served.
    More,
    /// The socket is closed: the daemon should end.
    Closed,
}

/// Counters of a loop since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    /// Requests taken, notices of closed handles and cancellations included.
    pub requests: u64,
    /// Reads of the socket, those that found nothing included.
    pub reads: u64,
    /// Answers and events given.
    pub answers: u64,
    /// Writes to the socket.
    pub writes: u64,
    /// Times a kept request was tried again.
    pub retries: u64,
    /// The most requests of other processes that were served while the only request of a process
    /// waited for its turn.
    pub others_first: u64,
    /// Not since the start but now: open files that were given to an event queue.
    pub watched: u64,
}

/// The requests that a round begins with.
enum Taken {
    /// All requests that waited; whether there were any, or some wait for their turn.
    All(bool),
    /// Some, and more may wait.
    Some,
    /// The socket is closed.
    Closed,
}

/// The event loop; `T` is the socket, or a fake one in tests.
pub struct SchemeLoop<T = SocketTransport> {
    transport: T,
    incoming: Vec<Sqe>,
    queue: RequestQueue,
    /// Requests that have their turn, empty between two rounds.
    round: Vec<Sqe>,
    answers: Vec<Cqe>,
    parked: ParkedRequests,
    unclaimed: UnclaimedHandles,
    /// The subscribed events of each handle, with the last subscriber's identity.
    subscriptions: HashMap<usize, (EventFlags, CallerCtx)>,
    changes: Changes,
    /// The changes that are being applied: the other of two lists that are swapped.
    applied: Changes,
    /// Requests to be tried again, empty between two calls.
    again: Vec<Id>,
    counters: Counters,
    /// The process that was asked about last; see [`Self::give_up_the_gone`].
    last_asked: usize,
    state: SchemeState,
}

impl SchemeLoop {
    /// A loop over a scheme socket. With a blocking socket [`poll`](Self::poll) waits for a
    /// request; with a non-blocking one it takes what is there.
    pub fn new(socket: Rc<Socket>, blocking: bool) -> Self {
        Self::with_transport(SocketTransport::new(socket, blocking))
    }

    /// The socket: for event queues (`inner().raw()`), for taking file descriptors that clients
    /// sent, and for making descriptors of the own scheme.
    pub fn socket(&self) -> &Rc<Socket> {
        self.transport.socket()
    }

    /// The socket's descriptor, to be subscribed for reading in an event queue.
    pub fn fd(&self) -> usize {
        self.socket().inner().raw()
    }
}

impl<T: Transport> SchemeLoop<T> {
    /// A loop over any transport.
    pub fn with_transport(transport: T) -> Self {
        Self {
            transport,
            incoming: alloc::vec![Sqe::default(); REQUESTS_PER_READ],
            queue: RequestQueue::default(),
            round: Vec::new(),
            answers: Vec::new(),
            parked: ParkedRequests::new(),
            unclaimed: UnclaimedHandles::default(),
            subscriptions: HashMap::new(),
            changes: Changes::default(),
            applied: Changes::default(),
            again: Vec::new(),
            counters: Counters::default(),
            last_asked: 0,
            state: SchemeState::new(),
        }
    }

    /// Requests that wait for a change.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Looks from now on for handles that were made for processes that were killed before they had
    /// them, of which Redox's kernel reports nothing either.
    pub fn look_for_unclaimed_handles(&mut self) {
        self.unclaimed.start();
    }

    /// Whether [`give_up_the_gone`](Self::give_up_the_gone) has anything to look at.
    pub fn awaits_the_gone(&self) -> bool {
        self.parked.len() > 0 || !self.unclaimed.is_empty()
    }

    /// Gives up the opens of processes that were killed while they waited, of which Redox's kernel
    /// reports nothing, and closes handles that such a process never had: those of processes of
    /// which [`SchemeDaemon::is_gone`] says so. At most `most` processes are asked about, others
    /// with each call, of which there is to be one a second. The answers are written by the next
    /// [`retry_parked`](Self::retry_parked) or [`poll`](Self::poll).
    ///
    /// Other requests need no such care: they end with their handle, which goes with its process.
    /// Opens wait at the directory, which stays.
    pub fn give_up_the_gone<S: SchemeDaemon>(&mut self, most: usize, scheme: &mut S) {
        self.unclaimed.age();
        let opens = || self.parked.iter().filter(|kept| is_open(&kept.op));
        let mut waiting: Vec<usize> = opens().map(|kept| kept.caller.pid).collect();
        waiting.extend(self.unclaimed.makers());
        waiting.sort_unstable();
        waiting.dedup();
        let start = waiting.partition_point(|pid| *pid <= self.last_asked);
        let turn = waiting.iter().cycle().skip(start).take(waiting.len());
        let (mut gone, mut last) = (Vec::new(), self.last_asked);
        for &pid in turn.take(most) {
            last = pid;
            if scheme.is_gone(pid) {
                gone.push(pid);
            }
        }
        let of_gone = opens().filter(|kept| gone.contains(&kept.caller.pid));
        let requests: Vec<Id> = of_gone.map(|kept| kept.caller.id).collect();
        let handles: Vec<usize> = self.unclaimed.of_gone(&gone).collect();
        self.last_asked = last;
        for request in requests {
            self.cancel(request, scheme);
        }
        for handle in handles {
            self.unclaimed.claim(handle);
            self.close(handle, scheme);
        }
    }

    /// The counters of the loop so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Serves requests until the socket is closed. For daemons whose socket blocks and is their
    /// only event source.
    pub fn run<S: SchemeDaemon>(&mut self, scheme: &mut S) -> Result<()> {
        while self.poll(scheme)? != Status::Closed {}
        Ok(())
    }

    /// Takes waiting requests, answers those that can be answered, retries kept ones as the
    /// daemon reports changes, and writes all answers and events. A daemon with an event queue
    /// need not call it before the queue reports the socket: the queue tells of every request that
    /// comes after the socket was found empty. Until then [`retry_parked`](Self::retry_parked) is
    /// enough.
    pub fn poll<S: SchemeDaemon>(&mut self, scheme: &mut S) -> Result<Status> {
        let mut status = Status::More;
        for _ in 0..ROUNDS_PER_POLL {
            let is_all = match self.take(scheme)? {
                Taken::Closed => {
                    status = Status::Closed;
                    break;
                }
                Taken::All(false) => {
                    status = Status::Idle;
                    break;
                }
                Taken::All(true) => true,
                Taken::Some => false,
            };
            self.serve_round(scheme);
            if is_all && self.queue.is_empty() && !self.transport.blocking() {
                status = Status::Idle;
                break;
            }
            self.retry_parked(scheme)?;
            if self.transport.blocking() {
                return Ok(Status::Idle);
            }
        }
        let left = self.retry_parked(scheme)?;
        Ok(if left && status == Status::Idle {
            Status::More
        } else {
            status
        })
    }

    /// Reads the requests that wait and puts them in line. What need not wait in line is served at
    /// once.
    fn take<S: SchemeDaemon>(&mut self, scheme: &mut S) -> Result<Taken> {
        let mut is_any = !self.queue.is_empty();
        for _ in 0..READS_PER_ROUND {
            self.counters.reads += 1;
            let count = match self.transport.read(&mut self.incoming) {
                Ok(Some(0)) => return Ok(Taken::Closed),
                Ok(Some(count)) => count,
                Ok(None) => return Ok(Taken::All(is_any)),
                Err(Error { errno: EINTR }) => continue,
                Err(error) => return Err(error),
            };
            self.counters.requests += count as u64;
            is_any = true;
            // A short read has taken all there were.
            let is_all = count < self.incoming.len();
            self.line_up(count, is_all, scheme);
            if is_all || self.transport.blocking() {
                return Ok(Taken::All(true));
            }
        }
        Ok(Taken::Some)
    }

    /// Puts the first `count` requests that came in line behind others, or serves them if nobody
    /// else waits; `is_all` says that no more have come.
    fn line_up<S: SchemeDaemon>(&mut self, count: usize, is_all: bool, scheme: &mut S) {
        let batch = &self.incoming[..count];
        let caller = batch.first().map(|request| request.caller);
        let is_ones = batch.iter().all(|request| Some(request.caller) == caller);
        // The usual case: no other request waits. A blocking socket is read only when nothing is
        // left.
        let is_usual = is_all && is_ones && self.queue.is_empty();
        let in_line = !is_usual && !self.transport.blocking();
        for index in 0..count {
            let request = self.incoming[index];
            if !in_line {
                self.request(request, scheme);
            } else if request_queue::is_notice(&request) {
                if let Some(cancelled) = self.queue.take_cancelled(&request) {
                    self.request(cancelled, scheme);
                }
                self.request(request, scheme);
            } else {
                self.queue.push(request);
            }
        }
    }

    /// Serves the processes that wait: each has a turn.
    fn serve_round<S: SchemeDaemon>(&mut self, scheme: &mut S) {
        let mut round = core::mem::take(&mut self.round);
        self.queue.next_round(&mut round);
        for request in round.drain(..) {
            self.request(request, scheme);
        }
        self.round = round;
        self.counters.others_first = self.queue.others_first();
    }

    /// Retries kept requests for the changes the daemon reports, and writes all answers and
    /// events. To be called after something other than a request changed the daemon's state.
    ///
    /// Returns whether changes are left for the next call: two clients of an event-driven daemon
    /// that move data between each other must not keep it from its other clients.
    pub fn retry_parked<S: SchemeDaemon>(&mut self, scheme: &mut S) -> Result<bool> {
        let mut idle_rounds = 0;
        let mut rounds = 0;
        let left = loop {
            scheme.changes(&mut self.changes);
            if self.changes.is_empty() {
                break false;
            }
            if rounds == ROUNDS_PER_RETRY && !self.transport.blocking() {
                break true;
            }
            rounds += 1;
            core::mem::swap(&mut self.changes, &mut self.applied);
            let answered = self.answers.len();
            let progress = self.applied.progress;
            self.apply(scheme);
            if progress || self.answers.len() > answered {
                idle_rounds = 0;
                continue;
            }
            idle_rounds += 1;
            if idle_rounds == IDLE_ROUNDS {
                log::error!("scheme loop: changes reported {IDLE_ROUNDS} times without effect");
                break false;
            }
        };
        self.write_answers()?;
        Ok(left)
    }

    /// Tries requests and posts events as `applied` says, and empties it.
    fn apply<S: SchemeDaemon>(&mut self, scheme: &mut S) {
        let mut changes = core::mem::take(&mut self.applied);
        let mut again = core::mem::take(&mut self.again);
        changes.handles.sort_unstable();
        changes.handles.dedup();
        if changes.everything {
            self.parked.all(&mut again);
            self.parked.sort(&mut again);
        } else {
            for &id in &changes.handles {
                self.parked.of_handle(id, &mut again);
            }
            let by_handle = again.len();
            again.append(&mut changes.requests);
            // Each once, and in the order in which they came.
            if by_handle < again.len() || changes.handles.len() > 1 {
                self.parked.sort(&mut again);
            }
        }
        for request in again.drain(..) {
            self.retry(request, scheme);
        }
        for &id in &changes.handles {
            if let Some((flags, caller)) = self.subscriptions.get(&id) {
                match scheme.fevent(id, *flags, caller) {
                    Ok(ready) if !ready.is_empty() => self.post_event(id, ready),
                    _ => {}
                }
            }
        }
        for (id, flags) in changes.events.drain(..) {
            self.post_event(id, flags);
        }
        changes.clear();
        self.applied = changes;
        self.again = again;
    }

    /// Queues an event for the subscribers of a handle; written by the next
    /// [`retry_parked`](Self::retry_parked) or [`poll`](Self::poll).
    pub fn post_event(&mut self, id: usize, flags: EventFlags) {
        // The kernel refuses the whole entry when other bits are set.
        let flags = flags & (EventFlags::EVENT_READ | EventFlags::EVENT_WRITE);
        if !flags.is_empty() {
            self.answers.push(Cqe {
                flags: CqeOpcode::SendFevent as u8,
                extra_raw: [0; 3],
                tag: flags.bits() as u32,
                result: id as u64,
            });
        }
    }

    fn write_answers(&mut self) -> Result<()> {
        self.counters.answers += self.answers.len() as u64;
        let mut written = 0;
        while written < self.answers.len() {
            self.counters.writes += 1;
            match self.transport.write(&self.answers[written..]) {
                Ok(0) => {
                    log::error!("scheme loop: the socket takes no answers");
                    break;
                }
                Ok(count) => written += count,
                Err(Error { errno: EINTR }) => {}
                Err(error) => {
                    // The kernel refuses an answer whose request is gone; the others are still
                    // wanted.
                    let entry = self.answers[written];
                    log::warn!(
                        "scheme loop: answer {:#x} for tag {} refused: {error}",
                        entry.result,
                        entry.tag
                    );
                    written += 1;
                }
            }
        }
        self.answers.clear();
        Ok(())
    }

    fn park<S: SchemeDaemon>(&mut self, parked: Parked, scheme: &mut S) {
        let handle = parked.op.file_id().unwrap_or(usize::MAX);
        if let Err(error) = scheme.on_wait(handle, &parked.caller) {
            // The bytes that it has moved already are reported, so that they are not lost.
            let moved = scheme.on_cancel(parked.caller.id);
            let result = moved.map_err(|_| error);
            self.answer(parked.tag, result);
            return;
        }
        self.parked.insert(parked.caller.id, handle, parked);
    }

    fn cancel<S: SchemeDaemon>(&mut self, request: Id, scheme: &mut S) {
        // An unknown request was answered before its cancellation was read.
        if let Some(parked) = self.parked.remove(request) {
            let result = scheme.on_cancel(request);
            scheme.on_waited(request);
            self.answer(parked.tag, result);
        }
    }

    /// Queues an answer.
    fn finish(&mut self, tag: u32, opcode: CqeOpcode, result: Result<usize>, extra: u8) {
        self.answers.push(Cqe {
            flags: opcode as u8,
            extra_raw: [extra, 0, 0],
            tag,
            result: Error::mux(result) as u64,
        });
    }

    fn close<S: SchemeDaemon>(&mut self, id: usize, scheme: &mut S) {
        self.subscriptions.remove(&id);
        self.counters.watched = self.subscriptions.len() as u64;
        let mut left = core::mem::take(&mut self.again);
        self.parked.of_handle(id, &mut left);
        for request in left.drain(..) {
            self.cancel(request, scheme);
        }
        self.again = left;
        scheme.on_close(id);
    }

    fn answer(&mut self, tag: u32, result: Result<usize>) {
        self.finish(tag, CqeOpcode::RespondRegular, result, 0);
    }
}

/// Whether a request is for a new handle of a path.
fn is_open(op: &Op) -> bool {
    matches!(op, Op::OpenAt(_))
}
