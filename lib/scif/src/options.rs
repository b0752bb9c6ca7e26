//! Options of endpoints, chosen before the endpoint is made.

use core::time::Duration;

use scif_abi::error::Error as Errno;
use scif_abi::{Port, PortId};

use crate::endpoint::{DEFAULT_BACKLOG, Endpoint, Listener};
use crate::error::{Error, Result};
use crate::poll::poll;
use crate::raw::now;

/// The pause between two tries of a connect that [is retried](Options::retry_for).
const PAUSE: Duration = Duration::from_millis(100);

/// Options of a new endpoint. Unless set otherwise, it is bound to any port and has a backlog of
/// [`DEFAULT_BACKLOG`].
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
    retry_for: Duration,
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
            retry_for: Duration::ZERO,
        }
    }

    /// The local port; 0 means any free one from 1088 on.
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

    /// The number that [`backlog`](Self::backlog) has set.
    #[must_use]
    pub const fn backlog_length(&self) -> i32 {
        self.backlog
    }

    /// Whether connects return at once with `EINPROGRESS` instead of waiting; see
    /// [`Endpoint::connect`].
    #[must_use]
    pub const fn nonblocking(mut self, nonblocking: bool) -> Self {
        self.nonblocking = nonblocking;
        self
    }

    /// How long [`connect`](Self::connect) retries while no endpoint listens there yet, or the
    /// node has not booted yet. By default it tries once. A try that has begun goes on: if a
    /// listener never accepts, the try ends after the 30 s of any connect.
    #[must_use]
    pub const fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Makes a bound endpoint.
    ///
    /// # Errors
    /// Those of [`Endpoint::open`] and [`Endpoint::bind`].
    pub fn bind(&self) -> Result<Endpoint> {
        let endpoint = Endpoint::open()?;
        if self.nonblocking {
            endpoint.set_nonblocking(true)?;
        }
        endpoint.bind(self.port)?;
        Ok(endpoint)
    }

    /// Makes a listener.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind) and [`Endpoint::listen`].
    pub fn listen(&self) -> Result<Listener> {
        self.bind()?.listen(self.backlog)
    }

    /// Makes a connected endpoint, always a blocking one. For a connect that does not wait use
    /// [`bind`](Self::bind), because the endpoint is needed to collect the result.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind) and [`Endpoint::connect`]. Once the [time](Self::retry_for)
    /// is over, those of the last try.
    pub fn connect(&self, to: PortId) -> Result<Endpoint> {
        let options = self.nonblocking(false);
        let connect = |endpoint: Endpoint| endpoint.connect(to).map(|_| endpoint);
        // A new endpoint for each try: one of a daemon that has died keeps failing with `ENODEV`.
        let attempt = || options.bind().and_then(connect);
        // Nothing but the time can end this poll: it is a sleep.
        let pause = |time| poll(&mut [], Some(time)).map(drop);
        let clock = || now().map_err(Error::from_errno);
        retry(self.retry_for, attempt, pause, clock)
    }
}

/// Retries while the connection is refused or the node is not there, until the time is over.
fn retry<T>(
    retry_for: Duration,
    mut attempt: impl FnMut() -> Result<T>,
    mut pause: impl FnMut(Duration) -> Result<()>,
    clock: impl Fn() -> Result<Duration>,
) -> Result<T> {
    let end = clock()?.saturating_add(retry_for);
    loop {
        let result = attempt();
        let Err(Error::Scif(Errno::ConnectionRefused | Errno::NoDevice)) = result else {
            return result;
        };
        let left = end.saturating_sub(clock()?);
        if left.is_zero() {
            return result;
        }
        pause(left.min(PAUSE))?;
    }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    const NOBODY: Error = Error::Scif(Errno::ConnectionRefused);

    /// How often an attempt of `each` seconds is made within 20 s.
    fn attempts(each: u64, answer: impl Fn(u32) -> Result<()>) -> (u32, Result<()>) {
        let (time, made) = (Cell::new(Duration::from_secs(500)), Cell::new(0));
        let attempt = || {
            time.set(time.get() + Duration::from_secs(each));
            made.set(made.get() + 1);
            answer(made.get())
        };
        let pause = |pause| {
            time.set(time.get() + pause);
            Ok(())
        };
        let retry_for = Duration::from_secs(20);
        let result = retry(retry_for, attempt, pause, || Ok(time.get()));
        (made.get(), result)
    }

    #[test]
    fn retrying_is_for_a_time_and_not_a_number_of_tries() {
        let nobody = |_| Err(NOBODY);
        assert_eq!(attempts(0, nobody), (201, Err(NOBODY)));
        assert_eq!(attempts(7, nobody), (3, Err(NOBODY)));
        assert_eq!(attempts(30, nobody), (1, Err(NOBODY)));
    }

    #[test]
    fn what_succeeds_or_fails_otherwise_is_not_tried_again() {
        let third = |number| if number < 3 { Err(NOBODY) } else { Ok(()) };
        assert_eq!(attempts(0, third), (3, Ok(())));
        let refused = Error::Scif(Errno::AddressInUse);
        assert_eq!(attempts(0, |_| Err(refused)), (1, Err(refused)));
    }
}
