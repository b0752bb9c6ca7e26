//! Making endpoints step by step.

use core::time::Duration;

use scif_abi::error::Error as Errno;
use scif_abi::{Port, PortId};

use crate::endpoint::{DEFAULT_BACKLOG, Endpoint, Listener};
use crate::error::{Error, Result};
use crate::poll::poll;

/// Between two tries of a [patient](Options::patience) connect.
const PAUSE: Duration = Duration::from_millis(100);

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
    patience: Duration,
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
            patience: Duration::ZERO,
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

    /// How long [`connect`](Self::connect) tries again while nobody listens there yet, or the node
    /// is still to boot. Unless told otherwise it tries once.
    #[must_use]
    pub const fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
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
    /// As [`bind`](Self::bind) and [`Endpoint::connect`]; when the [patience](Self::patience) is at
    /// its end, those of the last try. Not for non-blocking endpoints:
    /// [`bind`](Self::bind) those, as the endpoint is needed to collect the result.
    pub fn connect(&self, to: PortId) -> Result<Endpoint> {
        let options = self.nonblocking(false);
        let connect = |endpoint: Endpoint| endpoint.connect(to).map(|_| endpoint);
        let mut left = self.patience;
        loop {
            // A new endpoint for each try: one of a daemon that is gone stays without a device.
            match options.bind().and_then(connect) {
                Err(Error::Scif(Errno::ConnectionRefused | Errno::NoDevice)) if !left.is_zero() => {
                    let pause = left.min(PAUSE);
                    // There is nothing to wait for but the time.
                    poll(&mut [], Some(pause))?;
                    left -= pause;
                }
                result => return result,
            }
        }
    }
}
