//! The event loop of a scheme daemon: it reads requests, calls handlers, writes answers.
//!
//! A daemon implements redox-scheme's [`SchemeSync`] (its handlers never block) and the small
//! [`SchemeDaemon`] beside it. A handler that cannot answer yet returns `EWOULDBLOCK`. The loop
//! then keeps the request and calls the handler again, from its start, once the daemon has
//! reported through [`SchemeDaemon::changes`] that the handle changed. So a handler must leave no
//! trace before it can succeed, or find its own trace again by `ctx.id`.
//!
//! The loop does the following for every daemon:
//! - a request with `O_NONBLOCK` that would block is answered `EAGAIN`, never kept;
//! - a cancelled request is answered `ECANCELED` (the kernel turns it into `EINTR`);
//! - subscriptions are recorded, and events posted when a changed handle is ready;
//! - buffers too short or unaligned for `Stat`, `StatVfs` and `TimeSpec` never reach the decoder
//!   of redox-scheme, which asserts on them; such requests are answered `EINVAL` or copied;
//! - `F_GETFL` and `F_SETFL` succeed unless the daemon refuses them itself (the kernel offers
//!   an `fcntl` to the scheme first and gives up on its error; only Redox's offers `F_GETFL`);
//! - `CallerCtx::uid` and `gid` of requests that carry none (`call`, file-system calls) are
//!   [`NO_ID`], not what the message happens to hold there.

mod dispatch;
#[cfg(not(target_os = "redox"))]
pub mod fake;
mod interface;
mod locking;
mod names;
mod parked;
mod request_queue;
#[cfg(test)]
mod tests;
mod transport;
mod unclaimed;

use alloc::rc::Rc;
use alloc::vec::Vec;

use hashbrown::HashMap;
use redox_scheme::scheme::{Op, SchemeState};
use redox_scheme::{CallerCtx, Id, Socket};
use syscall::error::{EINTR, Error, Result};
use syscall::flag::EventFlags;
use syscall::schemev2::{Cqe, CqeOpcode, Sqe};

use parked::{Parked, ParkedRequests};
use request_queue::RequestQueue;
use unclaimed::UnclaimedHandles;

pub use interface::{Changes, SchemeDaemon};
pub use locking::WAITS;
pub use transport::{SocketTransport, Transport};

/// Most requests that one read takes from the socket.
const REQUESTS_PER_READ: usize = 32;
/// Reads in a row before some of the requests are served. A thread waits for one answer at a time,
/// so this covers more requests than there are.
const READS_PER_ROUND: usize = 256;
/// Rounds of requests in one [`SchemeLoop::poll`] before the caller can serve its other event
/// sources.
const ROUNDS_PER_POLL: usize = 8;
/// Rounds of retries in one [`SchemeLoop::retry_parked`] of an event-driven daemon.
const ROUNDS_PER_RETRY: usize = 64;
/// Rounds of retries without any answer after which pending changes are dropped: a daemon that
/// reports changes for ever without making progress must not keep the loop from its socket.
const IDLE_ROUNDS: usize = 16;

/// User and group id of a request that carries no credentials.
pub const NO_ID: u32 = u32::MAX;

/// How a [`SchemeLoop::poll`] ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Status {
    /// All waiting requests were taken, and nothing is left to try again.
    Idle,
    /// More requests may wait, or changes are left: poll again after serving the other event
    /// sources.
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
    /// Answers and events that were queued.
    pub answers: u64,
    /// Writes to the socket.
    pub writes: u64,
    /// Retries of kept requests.
    pub retries: u64,
    /// The most requests of other processes that were served while the only request of a process
    /// waited for its turn.
    pub others_first: u64,
    /// Open files that event queues watch, at present rather than since the start.
    pub watched: u64,
}

/// How much of the waiting requests was read for a round.
enum Taken {
    /// All of them. Whether any request was read or waits for its turn.
    All(bool),
    /// A part of them: more may wait.
    Some,
    /// The socket is closed.
    Closed,
}

/// The event loop; `T` is the socket, or a fake one in tests.
pub struct SchemeLoop<T = SocketTransport> {
    transport: T,
    incoming: Vec<Sqe>,
    queue: RequestQueue,
    /// Requests whose turn it is; empty between two rounds.
    round: Vec<Sqe>,
    answers: Vec<Cqe>,
    parked: ParkedRequests,
    unclaimed: UnclaimedHandles,
    /// The events that each handle is watched for, with the last subscriber's identity.
    subscriptions: HashMap<usize, (EventFlags, CallerCtx)>,
    changes: Changes,
    /// The changes that are being applied. This list and `changes` are swapped.
    applied: Changes,
    /// Requests to try again; empty between two calls.
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
    /// have sent, and for making descriptors of the daemon's own scheme.
    pub fn socket(&self) -> &Rc<Socket> {
        self.transport.socket()
    }

    /// The socket's descriptor. Subscribe it for reading in an event queue.
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

    /// The number of requests that wait for a change.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// From now on, looks for handles made for processes that were killed before they got them.
    /// Redox's kernel does not report those either.
    pub fn look_for_unclaimed_handles(&mut self) {
        self.unclaimed.start();
    }

    /// Whether [`give_up_the_gone`](Self::give_up_the_gone) has anything to check.
    pub fn awaits_the_gone(&self) -> bool {
        self.parked.len() > 0 || !self.unclaimed.is_empty()
    }

    /// Gives up the opens of processes that were killed while they waited, and closes handles that
    /// a killed process never got. Redox's kernel reports neither. [`SchemeDaemon::is_gone`] says
    /// whether a process has ended. Call this once a second; each call asks about at most `most`
    /// processes, the next call about the next ones. The next [`retry_parked`](Self::retry_parked)
    /// or [`poll`](Self::poll) writes the answers.
    ///
    /// Other requests need no such care: they end with their handle, which goes with its process.
    /// An open waits at the directory, which stays.
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
    ///
    /// # Errors
    /// Those of [`poll`](Self::poll).
    pub fn run<S: SchemeDaemon>(&mut self, scheme: &mut S) -> Result<()> {
        while self.poll(scheme)? != Status::Closed {}
        Ok(())
    }

    /// Takes waiting requests, answers those that can be answered, retries kept ones as the daemon
    /// reports changes, and writes all answers and events. A daemon with an event queue need not
    /// call it before the queue reports the socket: the queue reports every request that comes
    /// after the socket was found empty. Until then [`retry_parked`](Self::retry_parked) is
    /// enough.
    ///
    /// # Errors
    /// Those of [`Transport::read`] except for `EINTR`, after which it reads again.
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

    /// Reads the waiting requests and puts them in line. Requests that need not wait in line are
    /// served at once.
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
            // A short read has taken all that waited.
            let is_all = count < self.incoming.len();
            self.line_up(count, is_all, scheme);
            if is_all || self.transport.blocking() {
                return Ok(Taken::All(true));
            }
        }
        Ok(Taken::Some)
    }

    /// Puts the first `count` requests of `incoming` in line behind others, or serves them if
    /// nobody else waits. `is_all`: no more have come.
    fn line_up<S: SchemeDaemon>(&mut self, count: usize, is_all: bool, scheme: &mut S) {
        let batch = &self.incoming[..count];
        let caller = batch.first().map(|request| request.caller);
        let is_ones = batch.iter().all(|request| Some(request.caller) == caller);
        // The usual case: no other request waits. A blocking socket is read only when none is
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

    /// Serves one round: each waiting process has a turn.
    fn serve_round<S: SchemeDaemon>(&mut self, scheme: &mut S) {
        let mut round = core::mem::take(&mut self.round);
        self.queue.next_round(&mut round);
        for request in round.drain(..) {
            self.request(request, scheme);
        }
        self.round = round;
        self.counters.others_first = self.queue.others_first();
    }

    /// Retries kept requests for the changes that the daemon reports, and writes all answers and
    /// events. Call it after something other than a request changed the daemon's state.
    ///
    /// Returns whether changes are left for the next call: two clients of an event-driven daemon
    /// that move data between each other must not keep it from its other clients.
    ///
    /// # Errors
    /// None at present: an answer that the kernel refuses is logged and left out.
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

    /// Retries requests and posts events as `applied` says, and empties `applied`.
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
            // Each request once, in order of arrival.
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

    /// Queues an event for the subscribers of a handle. The next
    /// [`retry_parked`](Self::retry_parked) or [`poll`](Self::poll) writes it.
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
                    // The kernel refuses an answer whose request is gone; the others remain.
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
            // Report the bytes that it has moved already, so that they are not lost.
            let moved = scheme.on_cancel(parked.caller.id);
            let result = moved.map_err(|_| error);
            self.answer(parked.tag, result);
            return;
        }
        self.parked.insert(parked.caller.id, handle, parked);
    }

    fn cancel<S: SchemeDaemon>(&mut self, request: Id, scheme: &mut S) {
        // An unknown request was answered before the loop read its cancellation.
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

    fn answer(&mut self, tag: u32, result: Result<usize>) {
        self.finish(tag, CqeOpcode::RespondRegular, result, 0);
    }
}

/// Whether a request opens a path.
fn is_open(op: &Op) -> bool {
    matches!(op, Op::OpenAt(_))
}
