//! `scif_poll`: waiting for several endpoints, at most for a while.

use alloc::vec::Vec;
use core::time::Duration;

use libredox::flag::CLOCK_MONOTONIC;
use platform::event::Queue;
use scif_abi::flags::Readiness;
use syscall::flag::EventFlags;

use crate::endpoint::{Endpoint, Listener};
use crate::error::Result;

/// What can be polled.
pub trait Pollable {
    /// The endpoint behind it.
    fn endpoint(&self) -> &Endpoint;
}

impl Pollable for Endpoint {
    fn endpoint(&self) -> &Endpoint {
        self
    }
}

impl Pollable for Listener {
    fn endpoint(&self) -> &Endpoint {
        self.as_endpoint()
    }
}

/// One endpoint to poll, `struct scif_pollepd`.
pub struct PollEntry<'a> {
    /// The endpoint.
    pub endpoint: &'a dyn Pollable,
    /// What to wait for; `ERR` and `HUP` are always reported.
    pub events: Readiness,
    /// What it is ready for; filled in by [`poll`].
    pub revents: Readiness,
}

impl<'a> PollEntry<'a> {
    /// An entry that waits for `events`.
    pub fn new(endpoint: &'a dyn Pollable, events: Readiness) -> Self {
        Self {
            endpoint,
            events,
            revents: Readiness::empty(),
        }
    }
}

/// Waits until at least one entry is ready, at most for `limit` (none: without limit). Returns the
/// number of entries that are; 0 after the time is over.
///
/// # Errors
/// Those of the event queue.
pub fn poll(entries: &mut [PollEntry<'_>], limit: Option<Duration>) -> Result<usize> {
    let ready = look(entries)?;
    if ready > 0 || limit == Some(Duration::ZERO) {
        return Ok(ready);
    }
    let mut queue = Queue::new()?;
    for entry in entries.iter() {
        let fd = entry.endpoint.endpoint().fd();
        queue.subscribe(fd, EventFlags::EVENT_READ | EventFlags::EVENT_WRITE, fd)?;
    }
    let end = match limit {
        Some(limit) => Some(now()? + limit),
        None => None,
    };
    let mut events = Vec::new();
    loop {
        // After subscribing, so that nothing that happens in between is missed.
        let ready = look(entries)?;
        if ready > 0 {
            return Ok(ready);
        }
        let left = match end {
            None => None,
            Some(end) => match end.checked_sub(now()?) {
                None | Some(Duration::ZERO) => return Ok(0),
                left => left,
            },
        };
        queue.wait(left, &mut events)?;
    }
}

/// Fills in all `revents`; returns how many are not empty.
fn look(entries: &mut [PollEntry<'_>]) -> Result<usize> {
    let mut ready = 0;
    for entry in entries {
        entry.revents = entry.endpoint.endpoint().readiness(entry.events)?;
        ready += usize::from(!entry.revents.is_empty());
    }
    Ok(ready)
}

fn now() -> Result<Duration> {
    let time = libredox::call::clock_gettime(CLOCK_MONOTONIC)?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
