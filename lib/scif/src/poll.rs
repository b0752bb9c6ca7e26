//! `scif_poll`: waiting for several endpoints, with an optional time limit.

use alloc::vec::Vec;
use core::time::Duration;

use scif_abi::flags::Readiness;

use crate::endpoint::{Endpoint, Listener};
use crate::error::{Error, Result};
use crate::raw::{self, PollFd, poll_by};

/// An object that can be polled: an endpoint or a listener.
pub trait Pollable {
    /// The endpoint behind it.
    fn endpoint(&self) -> &Endpoint;

    /// Those of `events` that the object is ready for, and `ERR` and `HUP`.
    ///
    /// # Errors
    /// A SCIF error number.
    fn readiness(&self, events: u16) -> raw::Result<u16> {
        let endpoint = self.endpoint();
        endpoint.bypass().readiness(endpoint.fd(), events)
    }
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

    fn readiness(&self, events: u16) -> raw::Result<u16> {
        let endpoint = self.endpoint();
        endpoint
            .bypass()
            .readiness_of_listener(endpoint.fd(), events)
    }
}

/// One endpoint to poll, `struct scif_pollepd`.
pub struct PollEntry<'a> {
    /// The endpoint.
    pub endpoint: &'a dyn Pollable,
    /// The events to wait for; `ERR` and `HUP` are always reported.
    pub events: Readiness,
    /// The events it is ready for; filled in by [`poll`].
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
/// number of entries that are ready; 0 once the time is over.
///
/// # Errors
/// Those of the event queue.
pub fn poll(entries: &mut [PollEntry<'_>], limit: Option<Duration>) -> Result<usize> {
    let by_fd = |entry: &PollEntry<'_>| {
        let epd = entry.endpoint.endpoint().fd();
        PollFd::new(epd, entry.events.bits())
    };
    let mut fds: Vec<PollFd> = entries.iter().map(by_fd).collect();
    let readiness = |index: usize, fd: &PollFd| entries[index].endpoint.readiness(fd.events);
    let sign = |index: usize, _: &PollFd| entries[index].endpoint.endpoint().bypass().sign();
    let ready = poll_by(&mut fds, limit, readiness, sign).map_err(Error::from_errno)?;
    for (entry, fd) in entries.iter_mut().zip(&fds) {
        entry.revents = Readiness::from_bits_truncate(fd.revents);
    }
    Ok(ready)
}
