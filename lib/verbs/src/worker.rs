//! The progress thread of a context: makes connections, and serves the lanes while the program
//! does not.
//!
//! A program that polls its completion queues does all the work in its own calls. Then the thread
//! has no lane in its event queue, so that no peer wakes it; it only looks every few milliseconds
//! whether the program still polls. If the program does not and a peer has sent something, or if
//! it waits for a completion event without serving the lanes itself, the thread sleeps on the
//! lanes. A pause in polling alone is no reason for that: to have the lanes watched and no longer
//! watched takes requests to the driver, which take longer than a thousand messages.

use alloc::sync::Weak;
use alloc::vec::Vec;
use core::time::Duration;

use hal::event::{Queue, Ready};
use libredox::Fd;
use syscall::flag::EventFlags;

use crate::daemon::{self, PORT};
use crate::error::Result;
use crate::events::AsyncEvent;
use crate::links::Watched;
use crate::open_context::SharedContext;
use crate::state::State;

/// How often the thread looks whether the program polls, in nanoseconds.
const LOOK_NS: u64 = 4_000_000;
/// After so many looks without a poll it has the lanes in its event queue, even if nothing has
/// come.
const MOST_LOOKS: u32 = 64;
/// Its longest sleep, in nanoseconds. Then it looks whether the driver is alive.
const LONGEST_NS: u64 = 1_000_000_000;
/// How often it reports to the daemon what the objects have done, in nanoseconds.
const REPORT_NS: u64 = LONGEST_NS;

/// The sources of the event queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    Bell,
    /// The device: an event, or its end.
    Device,
    /// A lane: all of them are looked at.
    Lane,
    /// A listener or a connection in the making: all are looked at.
    Link,
}

/// The work of the progress thread.
pub struct Worker {
    shared: Weak<SharedContext>,
    queue: Queue<Source>,
    bell: Fd,
    /// The device's events, while its daemon lives.
    device: Option<Fd>,
    /// When it last reported to the daemon, in nanoseconds.
    reported_at: u64,
    /// The program's polls and waits so far, when the thread last looked.
    polls: u32,
    waits: u32,
}

impl Worker {
    pub(crate) fn new(shared: Weak<SharedContext>, bell: Fd, device: Fd) -> Result<Self> {
        let mut queue = Queue::new()?;
        queue.subscribe(bell.raw(), EventFlags::EVENT_READ, Source::Bell)?;
        queue.subscribe(device.raw(), EventFlags::EVENT_READ, Source::Device)?;
        Ok(Self {
            shared,
            queue,
            bell,
            device: Some(device),
            reported_at: 0,
            polls: 0,
            waits: 0,
        })
    }

    /// Works until the context ends.
    ///
    /// # Errors
    /// Those of the event queue.
    pub fn run(mut self) -> Result<()> {
        let mut ready: Vec<Ready<Source>> = Vec::new();
        while let Some(shared) = self.shared.upgrade() {
            if ready.iter().any(|of| of.source == Source::Device) {
                self.take_events(&shared);
            }
            let has_news = ready
                .iter()
                .any(|of| matches!(of.source, Source::Link | Source::Device));
            let limit = self.turn(&shared, has_news);
            drop(shared);
            self.queue
                .wait(Some(Duration::from_nanos(limit)), &mut ready)?;
        }
        Ok(())
    }

    /// Passes on events of the port. If the daemon has died, the context loses its device.
    fn take_events(&mut self, shared: &SharedContext) {
        let Some(device) = &self.device else {
            return;
        };
        let pass = |kind| {
            shared.events.push(AsyncEvent {
                kind,
                subject: None,
                user: PORT.into(),
            });
        };
        if !daemon::take_events(device, pass) {
            self.device = None;
            shared.daemon.lock().lose();
        }
    }

    /// Reports to the daemon what the objects have done, once a second.
    fn report(&mut self, shared: &SharedContext, now: u64) {
        if now.saturating_sub(self.reported_at) >= REPORT_NS {
            self.reported_at = now;
            shared.report();
        }
    }

    /// One turn. Returns how long to sleep after it, in nanoseconds. `has_news`: the device, a
    /// listener or a connection in the making has an event.
    fn turn(&mut self, shared: &SharedContext, has_news: bool) -> u64 {
        shared.bell.quiet(&self.bell);
        let mut state = shared.state.lock();
        state.time.distrust();
        let count = state.polls;
        let has_polled = core::mem::replace(&mut self.polls, count) != count;
        let has_begun = core::mem::replace(&mut self.waits, state.waits) != state.waits;
        let has_waited = (has_begun || state.is_waiting) && state.sleepers == 0;
        state.looks = match has_polled {
            true => 0,
            false => state.looks.saturating_add(1),
        };
        // Acknowledgements that are owed to peers are sent below.
        let engine = &state.engine;
        let is_alone = engine.lanes.are_quiet() && !engine.left.waits_for_room;
        let polls = has_polled || state.is_polled && is_alone && state.looks < MOST_LOOKS;
        state.is_polled = polls && state.armed.is_empty() && !has_waited;
        state.sleeps_long = has_waited && !has_begun;
        if state.is_polled
            && let Some(mut waiter) = shared.waiter.try_lock()
            && let Some(waiter) = &mut *waiter
        {
            // Nothing is added to the event queue, so nothing can fail.
            let _ = waiter.watch(&mut state.engine, None);
        }
        for stream in state.engine.lanes.streams() {
            stream.check();
        }
        state.advance_links(has_news);
        self.watch(&mut state, has_waited);
        state.advance();
        // Records may have found no room, or room may have come.
        self.watch(&mut state, has_waited);
        let now = state.time.now();
        let limit = self.limit(&state, now, has_waited);
        state.wakes_at = now.saturating_add(limit);
        drop(state);
        self.report(shared, now);
        limit
    }

    fn limit(&self, state: &State, now: u64, has_waited: bool) -> u64 {
        let longest = match state.is_polled || has_waited && !state.sleeps_long {
            true => LOOK_NS,
            false => LONGEST_NS,
        };
        if state.engine.left.is_busy {
            return 0;
        }
        let timer = state.engine.left.until.into_iter();
        let times = timer.chain(state.engine.links.next_try());
        let next = times.map(|time| time.saturating_sub(now)).min();
        next.map_or(longest, |next| next.min(longest))
    }

    /// Makes the event queue report what the thread has to look at, and nothing else.
    fn watch(&mut self, state: &mut State, has_waited: bool) {
        let queue = &mut self.queue;
        let subscribe = |fd, flags, what| {
            let source = match what {
                Watched::Lane => Source::Lane,
                Watched::Link => Source::Link,
            };
            queue.subscribe(fd, flags, source)
        };
        // The kernel cannot look for room on behalf of the waiting thread: no word changes with
        // it.
        let looks = has_waited && state.sleeps_shortly && !state.engine.left.waits_for_room;
        let is_polled = state.is_polled || looks;
        state.engine.watch(subscribe, is_polled, has_waited);
    }
}
