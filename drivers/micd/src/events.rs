//! The event queue of the driver: interrupts, requests and the clock.

use alloc::vec::Vec;

use hal::Result;
use hal::event::{Queue, Ready};
use libredox::Fd;
use micd::links::Links;
use syscall::flag::EventFlags;

/// An event of the queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EventSource {
    /// Requests wait in the scheme's socket.
    Requests,
    /// The interrupt of the link with this index.
    Link(usize),
    /// Borrowings of the thread that borrows programs' pages have ended.
    Pinner,
    /// The machine is about to be switched off.
    PowerOff,
}

/// The event queue, and the events that it reported last.
pub struct Events {
    queue: Queue<EventSource>,
    ready: Vec<Ready<EventSource>>,
    /// The pipe that the thread that borrows programs' pages writes to.
    pins_ended: Fd,
}

impl Events {
    /// A queue that reports the clock, the interrupts of all links, and, through the file
    /// `pins_ended`, pages that were borrowed.
    ///
    /// # Errors
    /// Those of the event scheme.
    pub fn new(links: &Links, pins_ended: Fd) -> Result<Self> {
        let mut queue = Queue::new()?;
        queue.open_clock()?;
        for (index, fd) in links.interrupts() {
            queue.subscribe(fd, EventFlags::EVENT_READ, EventSource::Link(index))?;
        }
        let pins = pins_ended.raw();
        queue.subscribe(pins, EventFlags::EVENT_READ, EventSource::Pinner)?;
        Ok(Self {
            queue,
            ready: Vec::new(),
            pins_ended,
        })
    }

    /// Also reports, as `source`, that the file `fd` can be read.
    ///
    /// # Errors
    /// Those of the event scheme.
    pub fn subscribe(&mut self, fd: usize, source: EventSource) -> Result<()> {
        self.queue.subscribe(fd, EventFlags::EVENT_READ, source)
    }

    /// Sleeps until an event comes, or until the deadline; `now` is the present time. Returns
    /// whether a link's interrupt was among the events.
    ///
    /// # Errors
    /// Those of the event scheme.
    pub fn wait(&mut self, deadline: Option<u64>, now: u64) -> Result<bool> {
        self.queue.wait_until(deadline, now, &mut self.ready)?;
        let sources = || self.ready.iter().map(|event| event.source);
        if sources().any(|source| source == EventSource::Pinner) {
            while let Ok(1..) = self.pins_ended.read(&mut [0; 64]) {}
        }
        Ok(sources().any(|source| matches!(source, EventSource::Link(_))))
    }

    /// Takes the events that came while the driver slept.
    pub fn take(&mut self) -> impl Iterator<Item = EventSource> {
        self.ready.drain(..).map(|event| event.source)
    }
}
