//! Making endpoints step by step.

use scif_abi::{Port, PortId};

use crate::endpoint::{DEFAULT_BACKLOG, Endpoint, Listener};
use crate::error::Result;

/// How an endpoint is made: bound to any port, with a backlog of [`DEFAULT_BACKLOG`], unless told
/// otherwise.
///
/// ```no_run
/// # use scif::{Options, PortId};
/// let listener = Options::new().port(2050).backlog(4).listen()?;
/// let endpoint = Options::new().port(1000).connect(PortId::new(1, 2050))?;
/// # Ok::<(), scif::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Options {
    port: Port,
    backlog: i32,
    nonblocking: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl Options {
    /// The defaults.
    pub const fn new() -> Self {
        Self {
            port: 0,
            backlog: DEFAULT_BACKLOG,
            nonblocking: false,
        }
    }

    /// The own port; 0: any free one from 1088 on.
    #[must_use]
    pub const fn port(mut self, port: Port) -> Self {
        self.port = port;
        self
    }

    /// How many requests may wait to be accepted.
    #[must_use]
    pub const fn backlog(mut self, backlog: i32) -> Self {
        self.backlog = backlog;
        self
    }

    /// Whether connects return at once, with `EINPROGRESS`; see [`Endpoint::connect`].
    #[must_use]
    pub const fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.nonblocking = nonblocking;
        self
    }

    /// A bound endpoint.
    ///
    /// # Errors
    /// As [`Endpoint::open`] and [`Endpoint::bind`].
    pub fn bind(&self) -> Result<Endpoint> {
        let endpoint = Endpoint::open()?;
        if self.nonblocking {
            endpoint.set_nonblocking(true)?;
        }
        endpoint.bind(self.port)?;
        Ok(endpoint)
    }

    /// A listener.
    ///
    /// # Errors
    /// As [`bind`](Self::bind) and [`Endpoint::listen`].
    pub fn listen(&self) -> Result<Listener> {
        self.bind()?.listen(self.backlog)
    }

    /// A connected endpoint.
    ///
    /// # Errors
    /// As [`bind`](Self::bind) and [`Endpoint::connect`]. Not for non-blocking endpoints:
    /// [`bind`](Self::bind) those, as the endpoint is needed to collect the result.
    pub fn connect(&self, to: PortId) -> Result<Endpoint> {
        let endpoint = self.nonblocking(false).bind()?;
        endpoint.connect(to)?;
        Ok(endpoint)
    }
}
