//! Queues of events, each with a descriptor that reports whether there are any.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use client_memory::descriptor::read_at_once;
use hal::idle_poll::Watched;
use hal::lock::Mutex;
use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_NONBLOCK, O_RDWR};
use syscall::error::EINTR;
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
    /// The object that it is about; `None`: the port or the device.
    pub subject: Option<Subject>,
    /// The value that the program has given that object; otherwise the number of the port.
    pub user: u64,
}

/// A queue of events. Its descriptor is the reading end of a pipe with a byte for each event, so
/// it works with `poll`, event queues and `O_NONBLOCK`.
pub struct Events<T> {
    /// No other queue has this number, not even one that has ended.
    id: u64,
    reader: Fd,
    writer: Fd,
    waiting: Mutex<Waiting<T>>,
    /// The number of events that threads other than the waiting one have added.
    told: AtomicU32,
}

/// The events that wait. The bytes in the pipe, those that threads have read and not used yet, and
/// those that did not fit are as many as the events that have one, and the missing ones.
struct Waiting<T> {
    events: VecDeque<T>,
    /// Those that have no byte in the pipe, because the thread that waits for events has added
    /// them.
    silent: usize,
    /// Bytes that did not fit into the pipe, and are written when there is room.
    unrung: usize,
    /// Bytes of events that have gone, which threads had read already: so many threads that look
    /// for an event have to wait again.
    missing: usize,
    /// The thread that waits for events is the one that adds them now.
    is_own: bool,
}

impl<T> Waiting<T> {
    /// Takes the next event, and calls `note` with it.
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
        // A thread that adds an event must not wait for room in the pipe: the reader is awake
        // then.
        writer.fcntl(F_SETFL, O_NONBLOCK as usize)?;
        Ok(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            reader,
            writer,
            waiting: Mutex::new(Waiting {
                events: VecDeque::new(),
                silent: 0,
                unrung: 0,
                missing: 0,
                is_own: false,
            }),
            told: AtomicU32::new(0),
        })
    }

    /// Its number. Numbers are not used again, unlike descriptors.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The descriptor, which is readable while there are events.
    pub fn fd(&self) -> usize {
        self.reader.raw()
    }

    /// The descriptor as the value that owns it.
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

    /// Writes the byte of an event, after those that did not fit. When the pipe is full its reader
    /// is awake, and reads a byte for each event.
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

    /// Takes the next event; waits for it unless the descriptor has `O_NONBLOCK`.
    ///
    /// # Errors
    /// `EAGAIN`, `EINTR`.
    pub fn next(&self) -> Result<T> {
        self.next_with(|_| {})
    }

    /// [`next`](Self::next) that also calls `note` with the event, in one step with its taking:
    /// after [`drop_if`](Self::drop_if) an event of the object has been noted, or is never taken.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub fn next_with(&self, note: impl Fn(&T)) -> Result<T> {
        loop {
            self.wait()?;
            // If there is none, the event was dropped with its object.
            if let Some(event) = self.take_with(&note) {
                return Ok(event);
            }
        }
    }

    /// Waits until there may be an event that no other thread was told of.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    pub fn wait(&self) -> Result<()> {
        self.reader.read(&mut [0])?;
        Ok(())
    }

    /// Takes the next event, if there is one, for a caller that has [waited](Self::wait).
    pub fn take(&self) -> Option<T> {
        self.take_with(|_| {})
    }

    fn take_with(&self, note: impl Fn(&T)) -> Option<T> {
        let mut waiting = self.waiting.lock();
        let taken = match waiting.missing {
            0 => waiting.take(note),
            _ => {
                waiting.missing -= 1;
                None
            }
        };
        // No more bytes are needed than there are events.
        waiting.unrung = waiting.unrung.min(waiting.events.len());
        // The caller has read a byte, so the pipe may have room.
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

    /// Runs `work`, which may add events, on the thread that waits for one: this thread needs no
    /// byte in the pipe. Returns the first of these events if the queue was empty before. `note`:
    /// as for [`next_with`](Self::next_with).
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

    /// Drops the waiting events for which `is_unwanted` is true.
    pub fn drop_if(&self, mut is_unwanted: impl FnMut(&T) -> bool) {
        let mut waiting = self.waiting.lock();
        let mut gone = Gone::new(&waiting);
        waiting.events.retain(|event| {
            let is_unwanted = is_unwanted(event);
            gone.pass(is_unwanted);
            !is_unwanted
        });
        self.silence(&mut waiting, &gone);
    }

    /// Moves the waiting events for which `is_wanted` is true to another queue.
    pub fn move_if(&self, to: &Self, mut is_wanted: impl FnMut(&T) -> bool) {
        let mut waiting = self.waiting.lock();
        let mut gone = Gone::new(&waiting);
        let (moved, rest) = waiting.events.drain(..).partition(|event| {
            let is_wanted = is_wanted(event);
            gone.pass(is_wanted);
            is_wanted
        });
        waiting.events = rest;
        self.silence(&mut waiting, &gone);
        drop(waiting);
        let moved: VecDeque<T> = moved;
        moved.into_iter().for_each(|event| to.push(event));
    }

    /// Takes the bytes of events that have gone out of the pipe: the descriptor must not be
    /// readable for them. A byte is missing there if a thread has read it and not taken its event
    /// yet; that thread finds none, and waits again.
    fn silence(&self, waiting: &mut Waiting<T>, gone: &Gone) {
        waiting.silent = waiting.silent.saturating_sub(gone.silent);
        let unrung = waiting.unrung.min(gone.told);
        waiting.unrung -= unrung;
        let mut rest = gone.told - unrung;
        let mut bytes = [0; 64];
        while rest > 0 {
            let most = rest.min(bytes.len());
            match read_at_once(&self.reader, bytes.get_mut(..most).unwrap_or_default()) {
                Ok(count) if count > 0 => rest -= count.min(rest),
                Err(error) if error.errno == EINTR => {}
                _ => {
                    waiting.missing += rest;
                    return;
                }
            }
        }
    }
}

/// A count of the events that leave a queue.
struct Gone {
    /// The number of events at the front of the queue, not passed yet, that are not silent.
    told_ahead: usize,
    /// Those with a byte in the pipe, or one that did not fit.
    told: usize,
    /// Those without, which are the last ones of the queue.
    silent: usize,
}

impl Gone {
    fn new<T>(waiting: &Waiting<T>) -> Self {
        Self {
            told_ahead: waiting.events.len().saturating_sub(waiting.silent),
            told: 0,
            silent: 0,
        }
    }

    /// Passes the next event, which leaves the queue if `leaves`.
    fn pass(&mut self, leaves: bool) {
        let is_told = self.told_ahead > 0;
        self.told_ahead = self.told_ahead.saturating_sub(1);
        match is_told {
            true => self.told += usize::from(leaves),
            false => self.silent += usize::from(leaves),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use hal::testing::host::{self, Request};
    use syscall::error::{EAGAIN, EINVAL, Error};

    use super::*;

    /// Runs a test with a pipe; tells it how many bytes are there.
    fn with_pipe(test: impl FnOnce(&dyn Fn() -> usize)) {
        let bytes = Rc::new(Cell::new(0));
        let pipe = bytes.clone();
        let system = move |request: Request<'_>| match request {
            Request::Open(_) | Request::Dup(..) => Ok(1),
            Request::Control(..) | Request::Close(_) => Ok(0),
            Request::Write(_, more) => {
                pipe.set(pipe.get() + more.len());
                Ok(more.len())
            }
            Request::Read(..) if pipe.get() == 0 => Err(Error::new(EAGAIN)),
            Request::Read(_, to) => {
                let count = to.len().min(pipe.get());
                pipe.set(pipe.get() - count);
                Ok(count)
            }
            _ => Err(Error::new(EINVAL)),
        };
        host::play(system, || test(&|| bytes.get()));
    }

    #[test]
    fn a_thread_whose_event_has_gone_takes_no_other_ones() {
        with_pipe(|bytes| {
            let events = Events::new().expect("a pipe");
            for number in [1, 2, 3] {
                events.push(number);
            }
            // Two threads have read their bytes when the events go.
            for _ in 0..2 {
                events.wait().expect("a byte");
            }
            events.drop_if(|number| *number < 3);
            events.push(4);
            assert_eq!(bytes(), 2);
            assert_eq!([events.take(), events.take()], [None, None]);
            // Each of the others has a byte, and there are no more.
            for number in [3, 4] {
                assert_eq!(events.next(), Ok(number));
            }
            assert_eq!(bytes(), 0);
        });
    }
}
