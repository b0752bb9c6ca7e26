//! The options of one end of a connection.

use core::time::Duration;

use scif::{Port, Waiting};
use st_core::{reliable, setup};

/// Most clients of a listener that are waited for, each of which takes a descriptor.
const MOST_CLIENTS: usize = 63;

/// The options of an end: by default any port, 4 channels of 64 slots and adaptive waiting, and
/// for sessions 64 kept transfers and 30 s to connect again.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) setup: setup::Options,
    pub(crate) scif: scif::Options,
    pub(crate) waiting: Waiting,
    kept: usize,
    reconnect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults.
    pub fn new() -> Self {
        Self {
            setup: setup::Options::default(),
            scif: scif::Options::new(),
            waiting: Waiting::Adaptive,
            kept: 64,
            reconnect_timeout: Duration::from_secs(30),
        }
    }

    /// Sets the number of channels, 1 to 64, which must be the same at both ends.
    #[must_use]
    pub const fn channels(mut self, channels: u32) -> Self {
        self.setup.channels = channels;
        self
    }

    /// Sets the slots of each queue in which this end receives: a power of two, 8 to 4096. The
    /// peer's pushes never wait while at most this number of headers is not pulled, and always
    /// wait when it is exceeded by a quarter.
    #[must_use]
    pub const fn slots(mut self, slots: u32) -> Self {
        self.setup.slots = slots;
        self
    }

    /// Sets this end's port; 0: any free one.
    #[must_use]
    pub const fn port(mut self, port: Port) -> Self {
        self.scif = self.scif.port(port);
        self
    }

    /// Sets the number of connections that may wait to be accepted.
    #[must_use]
    pub const fn backlog(mut self, backlog: i32) -> Self {
        self.scif = self.scif.backlog(backlog);
        self
    }

    /// Sets how long [`connect`](crate::connect) tries again while no program listens there yet.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.scif = self.scif.retry_for(time);
        self
    }

    /// Sets how calls wait.
    #[must_use]
    pub const fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }

    /// Sets how many transfers a [session](crate::Session) keeps until the peer's program has
    /// taken them; at least 1.
    #[must_use]
    pub const fn kept(mut self, transfers: usize) -> Self {
        self.kept = transfers;
        self
    }

    /// Sets how long a [session](crate::Session) may be without a connection.
    #[must_use]
    pub const fn reconnect_timeout(mut self, time: Duration) -> Self {
        self.reconnect_timeout = time;
        self
    }

    /// How many clients of a listener are waited for: the backlog, but at least one.
    pub(crate) fn waiting_clients(&self) -> usize {
        let backlog = usize::try_from(self.scif.backlog_length()).unwrap_or(0);
        backlog.clamp(1, MOST_CLIENTS)
    }

    /// The options in the form that the engine of sessions takes.
    pub(crate) fn session(&self) -> reliable::Options {
        reliable::Options {
            kept: self.kept.max(1),
            reconnect_timeout: u64::try_from(self.reconnect_timeout.as_nanos()).unwrap_or(u64::MAX),
        }
    }
}
