//! What a program chooses for its end of a connection.

use core::time::Duration;

use scif::{DEFAULT_BACKLOG, Port, Waiting};
use st_core::setup;

/// The options of an end: any port, 4 channels of 64 slots, adaptive waiting, unless told
/// otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub(crate) setup: setup::Options,
    pub(crate) port: Port,
    pub(crate) backlog: i32,
    pub(crate) retry_for: Duration,
    pub(crate) waiting: Waiting,
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
            port: 0,
            backlog: DEFAULT_BACKLOG,
            retry_for: Duration::ZERO,
            waiting: Waiting::Adaptive,
        }
    }

    /// Channels, 1 to 64; both ends must say the same.
    #[must_use]
    pub const fn channels(mut self, channels: u32) -> Self {
        self.setup.channels = channels;
        self
    }

    /// Slots of each queue in which this end receives: a power of two, 8 to 4096. The peer's pushes
    /// wait when so many headers are not yet pulled.
    #[must_use]
    pub const fn slots(mut self, slots: u32) -> Self {
        self.setup.slots = slots;
        self
    }

    /// The own port; 0: any free one.
    #[must_use]
    pub const fn port(mut self, port: Port) -> Self {
        self.port = port;
        self
    }

    /// How many connections may wait to be accepted.
    #[must_use]
    pub const fn backlog(mut self, backlog: i32) -> Self {
        self.backlog = backlog;
        self
    }

    /// How long [`connect`](crate::connect) tries again while no program listens there yet.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// How calls wait that have to.
    #[must_use]
    pub const fn waiting(mut self, waiting: Waiting) -> Self {
        self.waiting = waiting;
        self
    }
}
