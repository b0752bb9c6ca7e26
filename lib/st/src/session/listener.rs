//! A server of sessions.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use hal::event::Queue;
use scif::Port;
use st_core::reliable;
use syscall::flag::EventFlags;

use super::desk::{Arrival, Desk};
use super::{CHANNEL, Reconnect, Session, nanoseconds};
use crate::error::Result;
use crate::options::Options;

/// Longest sleep, after which the listener looks whether the driver still lives.
const LONGEST: Duration = Duration::from_secs(1);

/// A port at which sessions are begun and resumed. The sessions that were accepted share it: it
/// goes with the last of them.
pub struct SessionListener {
    desk: Arc<Desk>,
}

impl SessionListener {
    /// Listens at a port (0: any free one) with the default options.
    ///
    /// # Errors
    /// Those of SCIF's bind: `EACCES`, `EINVAL` when the port is in use, `ENOSPC`.
    pub fn bind(port: Port) -> Result<Self> {
        Self::with_options(&Options::new().port(port))
    }

    /// Listens with these options, which every session gets. Sessions have one channel.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); `Refused(OwnOptions)`.
    pub fn with_options(options: &Options) -> Result<Self> {
        let options = options.channels(CHANNEL + 1);
        let desk = Arc::new(Desk::new(&options)?);
        Ok(Self { desk })
    }

    /// The port.
    pub fn port(&self) -> Port {
        self.desk.port()
    }

    /// Waits for a new session. Sessions that live are resumed meanwhile.
    ///
    /// # Errors
    /// Those of event queues. A driver that ends is waited for.
    pub fn accept(&self) -> Result<Session> {
        loop {
            if let Some(session) = self.try_accept()? {
                return Ok(session);
            }
            let mut events = Queue::new()?;
            for fd in self.desk.descriptors() {
                // One that has gone meanwhile has nothing to report.
                let _ = events.subscribe(fd, EventFlags::EVENT_READ, ());
            }
            // Data that came before the file was watched is an event.
            events.wait(Some(LONGEST), &mut Vec::new())?;
        }
    }

    /// A new session, if there is one.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Option<Session>> {
        while let Some((shared, state)) = self.desk.next()? {
            let options = &self.desk.options;
            let engine = reliable::Session::accept(state, options.session(), nanoseconds()?);
            let Some(engine) = engine else {
                // A new session cannot have taken anything.
                self.desk.forget(state.key);
                continue;
            };
            let session = Session::new(engine, Reconnect::Server(self.desk.clone()), options);
            // The client, which was not answered, may begin again.
            let mut session = session.inspect_err(|_| self.desk.forget(state.key))?;
            session.enter(Arrival {
                shared,
                state: Some(state),
            })?;
            return Ok(Some(session));
        }
        Ok(None)
    }
}
