//! The server of the `scif:` scheme: its state and its socket.

use alloc::rc::Rc;

use hal::Result;
use micd::copy_router::CopyRouter;
use micd::memory::NodeMemory;
use redox_scheme::{Id, Socket};
use scheme::daemon;
use scheme::{SchemeLoop, Status};
use scheme_scif::{Daemon, LoopCounters, SCHEME, Scif};
use scif_core::Engine;
use syscall::error::{ESRCH, Error};

use crate::pinner::MemorySource;

/// Nanoseconds between two checks for processes that were killed while they waited in an open.
const WATCH_NS: u64 = 1_000_000_000;
/// Most processes that one such check asks about.
const WATCHED: usize = 32;

/// Most iterations in a row that answer requests before the event queue, which may hold more
/// events, is read.
const MAX_ANSWERING: u32 = 16;

/// The memory of this node.
pub type Memory = NodeMemory<MemorySource>;

/// The scheme and its socket.
pub struct Server {
    scheme: Daemon<Memory, CopyRouter>,
    requests: SchemeLoop,
    /// The result of the last read of the socket.
    status: Status,
    /// Whether the socket is read in this iteration.
    reads_requests: bool,
    /// Iterations in a row that answered requests.
    answering: u32,
    /// When to check for killed processes again, if any request waits.
    next_watch: u64,
    counters: LoopCounters,
}

impl Server {
    /// Registers the scheme with this socket, which is non-blocking. `notify` names the program
    /// that registers it.
    ///
    /// # Errors
    /// Those of registering.
    pub fn start(
        socket: Socket,
        scif: Scif<Memory, Id>,
        copier: CopyRouter,
        notify: Option<&str>,
    ) -> Result<Self> {
        let mut scheme = Daemon::new(scif, copier, is_gone);
        let socket = Rc::new(socket);
        daemon::announce(&socket, SCHEME, notify, &mut scheme)?;
        let mut requests = SchemeLoop::new(Rc::clone(&socket), false);
        scheme.set_socket(socket);
        if !hal::kernel::ends_abandoned_requests() {
            requests.look_for_unclaimed_handles();
        }
        Ok(Self {
            scheme,
            requests,
            // Requests may have come before the socket is subscribed.
            status: Status::More,
            reads_requests: false,
            answering: 0,
            next_watch: 0,
            counters: LoopCounters::default(),
        })
    }

    /// The socket's descriptor, to subscribe for reading.
    pub fn fd(&self) -> usize {
        self.requests.fd()
    }

    /// The scheme's state.
    pub fn scif(&mut self) -> &mut Scif<Memory, Id> {
        self.scheme.scif()
    }

    /// The engine, and the memory that it works on.
    pub fn engine(&mut self) -> (&mut Engine, &mut Memory) {
        self.scheme.scif().engine()
    }

    /// The result of the last read of the socket.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Begins an iteration. It reads the socket if more requests may wait there, or if a program
    /// that got an answer may have sent another request.
    pub fn begin_iteration(&mut self) {
        self.counters.turns += 1;
        self.reads_requests = self.status == Status::More || self.answering > 0;
    }

    /// Records that the event queue reported requests.
    pub fn note_requests(&mut self) {
        self.reads_requests = true;
    }

    /// Counts an interrupt that the event queue reported for a link.
    pub fn count_interrupt(&mut self) {
        self.counters.interrupts += 1;
    }

    /// Serves the socket and the kept requests. Returns whether any request was answered.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn serve(&mut self) -> Result<bool> {
        let answers = self.requests.counters().answers;
        // The event queue reports every request that comes after the socket was found empty.
        self.status = if self.status == Status::Closed {
            self.serve_nobody()
        } else if self.reads_requests {
            self.requests.poll(&mut self.scheme)?
        } else if self.requests.retry_parked(&mut self.scheme)? {
            Status::More
        } else {
            Status::Idle
        };
        self.publish_counters();
        Ok(self.requests.counters().answers > answers)
    }

    /// An iteration after the socket was closed: it serves only peers and copies.
    fn serve_nobody(&mut self) -> Status {
        let changes = self.scheme.take_changes();
        changes.handles.clear();
        changes.requests.clear();
        Status::Closed
    }

    /// Updates the loop's counters in the file `stats`.
    fn publish_counters(&mut self) {
        self.counters.socket = self.requests.counters();
        self.scheme.scif().set_loop_counters(self.counters);
    }

    /// Whether to read the socket again at once. A program that got an answer often sends another
    /// request, and reading the socket finds it without the event queue.
    pub fn expects_request(&mut self, has_answered: bool) -> bool {
        let expects = has_answered && self.answering < MAX_ANSWERING;
        self.answering = if expects { self.answering + 1 } else { 0 };
        expects
    }

    /// Ends the opens of processes that have ended, and closes the handles that they never got.
    /// Releases address spaces that are no longer used.
    pub fn watch_processes(&mut self, now: u64) {
        if now >= self.next_watch {
            self.next_watch = now.saturating_add(WATCH_NS);
            self.requests.give_up_the_gone(WATCHED, &mut self.scheme);
            self.scif().end_unclaimed(WATCHED, is_gone);
            self.scif().release_idle_spaces();
        }
    }

    /// The next time-out of the engine or of a request.
    pub fn deadline(&mut self) -> Option<u64> {
        let waits = self.requests.awaits_the_gone()
            || self.scif().holds_unclaimed()
            || self.scif().holds_spaces();
        let engine = self.engine().0.next_deadline();
        let watch = waits.then_some(self.next_watch);
        engine.into_iter().chain(watch).min()
    }
}

/// Whether the process manager has no such process.
fn is_gone(pid: usize) -> bool {
    // Signal 0 is no signal: the manager only checks whether one could be sent.
    let sent = u32::try_from(pid).map(|pid| runtime::process::kill(pid, 0));
    matches!(sent, Ok(Err(Error { errno: ESRCH })))
}
