//! The wait for a completion event. The thread that waits moves the lanes on by itself, so that
//! what arrives wakes this thread and no other one; the progress thread leaves the lanes alone as
//! long as a program waits so every few milliseconds.

use alloc::vec::Vec;

use hal::event::{Queue, Ready};
use syscall::error::{EINTR, Error};
use syscall::flag::EventFlags;

use crate::engine::Engine;
use crate::error::Result;
use crate::events::Events;
use crate::watch::Watcher;

/// The sources of the event queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// Another thread has added an event.
    Channel,
    Lane,
}

/// See the module.
pub(crate) struct Waiter {
    queue: Queue<Source>,
    ready: Vec<Ready<Source>>,
    /// The channel in the event queue.
    channel: Option<u64>,
}

impl Waiter {
    pub fn new() -> Result<Self> {
        Ok(Self {
            queue: Queue::new()?,
            ready: Vec::new(),
            channel: None,
        })
    }

    /// Has the event queue report what arrives on lanes and at a channel, or at none of them.
    pub fn watch(&mut self, engine: &mut Engine, channel: Option<&Events<u64>>) -> Result<()> {
        let queue = &mut self.queue;
        if let Some(channel) = channel
            && self.channel != Some(channel.id())
        {
            queue.subscribe(channel.fd(), EventFlags::EVENT_READ, Source::Channel)?;
            self.channel = Some(channel.id());
        }
        let subscribe = |fd, flags| queue.subscribe(fd, flags, Source::Lane);
        engine.watch_lanes(Watcher::Waiter, subscribe, channel.is_some(), false);
        Ok(())
    }

    /// Sleeps until something is reported.
    ///
    /// # Errors
    /// `EINTR`; those of the event queue.
    pub fn sleep(&mut self) -> Result<()> {
        self.queue.wait(None, &mut self.ready)?;
        match self.ready.is_empty() {
            true => Err(Error::new(EINTR).into()),
            false => Ok(()),
        }
    }
}
