//! Events that wait in a queue, and a descriptor that tells that there are some.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hal::idle_poll::Watched;
use hal::lock::Mutex;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use syscall::flag::{F_GETFL, F_SETFL};
use verbs_core::Subject;
use verbs_core::types::EventType;

use crate::error::Result;

/// The number of the next queue.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An asynchronous event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AsyncEvent {
    /// The kind of the event.
    pub kind: EventType,
    /// To what; none: to the port, or the device.
    pub subject: Option<Subject>,
    /// The program's word for that object; the number of the port.
    pub user: u64,
}

/// A queue of events. Its descriptor is the reading end of a pipe with a byte for each event, so
/// that it works with `poll`, event queues and `O_NONBLOCK`.
pub struct Events<T> {
    /// No other queue has it, also of those that have ended.
    id: u64,
    reader: Fd,
    writer: Fd,
    waiting: Mutex<Waiting<T>>,
    /// Events so far that a thread other than the one that waits has added.
    told: AtomicU32,
}

/// The events that wait.
struct Waiting<T> {
    events: VecDeque<T>,
    /// How many of them have no byte in the pipe, as the thread that waits for events adds them.
    silent: usize,
    /// How many bytes did not fit into the pipe: they follow when there is room.
    unrung: usize,
    /// The thread that adds events is the one that waits for them.
    is_own: bool,
}

impl<T> Waiting<T> {
    /// Takes the next event, which `note` sees.
    fn take(&mut self, note: impl Fn(&T)) -> Option<T> {
        let event = self.events.pop_front()?;
        note(&event);
        Some(event)
    }
}

impl<T> Events<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// Those of opening a pipe.
    pub fn new() -> Result<Self> {
        let reader = Fd::open("/scheme/pipe", O_RDWR | O_CLOEXEC, 0)?;
        let writer = Fd::new(reader.dup(b"write")?);
        // An event more than a pipe holds must not stop who adds it: the reader is awake then.
        writer.fcntl(F_SETFL, O_NONBLOCK as usize)?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            reader,
            writer,
            waiting: Mutex::new(Waiting {
                events: VecDeque::new(),
                silent: 0,
                unrung: 0,
                is_own: false,
            }),
            told: AtomicU32::new(0),
        })
    }

    /// Its number: descriptors are used again.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The descriptor, ready to be read while there are events.
    pub fn fd(&self) -> usize {
        self.reader.raw()
    }

    /// The descriptor with its owner.
    #[cfg(feature = "std")]
    pub(crate) fn reader(&self) -> &Fd {
        &self.reader
    }

    /// Adds an event.
    pub fn push(&self, event: T) {
        let mut waiting = self.waiting.lock();
        waiting.events.push_back(event);
        if waiting.is_own {
            waiting.silent += 1;
            return;
        }
        self.ring(&mut waiting);
        self.told.fetch_add(1, Ordering::Release);
    }

    /// The word that changes when another thread adds an event.
    pub(crate) fn watched(&self) -> Watched {
        Watched::new(&self.told, self.told.load(Ordering::Acquire))
    }

    /// Writes the byte of an event, behind those that did not fit. When the pipe is full its reader
    /// is awake, and takes the byte of each event.
    fn ring(&self, waiting: &mut Waiting<T>) {
        waiting.unrung += 1;
        self.ring_rest(waiting);
    }

    /// Writes the bytes that did not fit, as far as there is room.
    fn ring_rest(&self, waiting: &mut Waiting<T>) {
        while waiting.unrung > 0 && self.writer.write(&[1]).is_ok() {
            waiting.unrung -= 1;
        }
    }

    /// Waits for the next event and takes it, unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    pub fn next(&self) -> Result<T> {
        self.next_with(|_| {})
    }

    /// The same. `note` sees the event in one step with its taking: an object whose events were
    /// [dropped](Self::drop_if) since then has been noted, or its event is not taken any more.
    ///
    /// # Errors
    /// As above.
    pub fn next_with(&self, note: impl Fn(&T)) -> Result<T> {
        loop {
            self.wait()?;
            // An event that is not there any more was dropped with its object.
            if let Some(event) = self.take_with(&note) {
                return Ok(event);
            }
        }
    }

    /// Waits until there may be an event that nobody else was told of.
    ///
    /// # Errors
    /// As above.
    pub fn wait(&self) -> Result<()> {
        self.reader.read(&mut [0])?;
        Ok(())
    }

    /// Takes the next event, if there is one.
    pub fn take(&self) -> Option<T> {
        self.take_with(|_| {})
    }

    fn take_with(&self, note: impl Fn(&T)) -> Option<T> {
        let mut waiting = self.waiting.lock();
        let taken = waiting.take(note);
        // Bytes without events are of no use.
        waiting.unrung = waiting.unrung.min(waiting.events.len());
        // Whoever takes an event has read a byte.
        self.ring_rest(&mut waiting);
        taken
    }

    /// Whether there are events.
    pub fn is_ready(&self) -> bool {
        !self.waiting.lock().events.is_empty()
    }

    /// Whether the descriptor has `O_NONBLOCK`.
    pub(crate) fn is_nonblocking(&self) -> bool {
        let flags = self.reader.fcntl(F_GETFL, 0);
        flags.is_ok_and(|flags| flags & O_NONBLOCK as usize != 0)
    }

    /// Runs what may add events on the thread that waits for one, which the pipe then need not
    /// tell; the first one of them, if no other was there before. `note`: as for
    /// [`next_with`](Self::next_with).
    pub(crate) fn collect(&self, note: impl Fn(&T), work: impl FnOnce()) -> Option<T> {
        self.waiting.lock().is_own = true;
        work();
        let mut waiting = self.waiting.lock();
        waiting.is_own = false;
        let is_first = waiting.silent > 0 && waiting.silent == waiting.events.len();
        let taken = match is_first {
            true => waiting.take(note),
            false => None,
        };
        waiting.silent -= usize::from(taken.is_some());
        for _ in 0..core::mem::take(&mut waiting.silent) {
            self.ring(&mut waiting);
        }
        taken
    }

    /// Drops events that wait.
    pub fn drop_if(&self, mut is_unwanted: impl FnMut(&T) -> bool) {
        self.waiting
            .lock()
            .events
            .retain(|event| !is_unwanted(event));
    }

    /// Moves events that wait to another queue.
    pub fn move_if(&self, to: &Self, mut is_wanted: impl FnMut(&T) -> bool) {
        let mut waiting = self.waiting.lock();
        let (moved, rest) = waiting.events.drain(..).partition(|event| is_wanted(event));
        waiting.events = rest;
        drop(waiting);
        let moved: VecDeque<T> = moved;
        moved.into_iter().for_each(|event| to.push(event));
    }
}
