//! Waiting for a completion event. The thread that waits serves the lanes itself, so what arrives
//! wakes this thread and no other one. The progress thread leaves the lanes alone as long as a
//! program waits like this every few milliseconds.
//!
//! The thread first sleeps for a short time, in which the kernel looks at the words that change
//! when something arrives ([`hal::idle_poll`]). No event queue has the lanes then, so no peer has
//! to ring a doorbell.

use alloc::vec::Vec;

use hal::event::{Queue, Ready};
use hal::idle_poll::{Ended, IdlePoll, MAX_WORDS, Watched};
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

/// The event queue and the words of the thread that waits.
pub(crate) struct Waiter {
    queue: Queue<Source>,
    ready: Vec<Ready<Source>>,
    /// The number of the channel that the event queue has.
    channel: Option<u64>,
    idle_poll: IdlePoll,
    /// The words for the next short sleep.
    words: Vec<Watched>,
}

impl Waiter {
    pub fn new() -> Result<Self> {
        Ok(Self {
            queue: Queue::new()?,
            ready: Vec::new(),
            channel: None,
            idle_poll: IdlePoll::default(),
            words: Vec::with_capacity(MAX_WORDS),
        })
    }

    /// Makes the event queue report what arrives on lanes and at a channel; `None`: nothing on
    /// lanes.
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

    /// Collects the words that change when something arrives, and takes the lanes out of the event
    /// queue; a last look has to follow. Returns whether to sleep shortly: not if that would
    /// hardly pay, or if there are too many lanes.
    pub fn prepare_short_sleep(&mut self, engine: &mut Engine, channel: &Events<u64>) -> bool {
        self.words.clear();
        if !self.idle_poll.may_pay() {
            return false;
        }
        self.words.push(channel.watched());
        for stream in engine.lanes.streams() {
            match stream.watched() {
                Some(words) if self.words.len() + words.len() <= MAX_WORDS => {
                    self.words.extend(words);
                }
                _ => return false,
            }
        }
        let queue = &mut self.queue;
        let subscribe = |fd, flags| queue.subscribe(fd, flags, Source::Lane);
        engine.watch_lanes(Watcher::Waiter, subscribe, false, false);
        true
    }

    /// Sleeps for a short time, at most until one of those words changes.
    ///
    /// # Errors
    /// `EINTR`.
    pub fn sleep_shortly(&self) -> Result<()> {
        match self.idle_poll.sleep(&self.words) {
            Ended::Interrupted => Err(Error::new(EINTR).into()),
            Ended::Changed | Ended::InVain => Ok(()),
        }
    }

    /// Sleeps until the event queue reports something.
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
