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

/// The longest sleep, after which the listener looks whether the driver is alive.
const LONGEST: Duration = Duration::from_secs(1);

/// A port at which sessions are begun and resumed. The sessions that were accepted share it: it
/// stays as long as any of them, and refuses new sessions once this value is dropped.
pub struct SessionListener {
    desk: Arc<Desk>,
}

impl Drop for SessionListener {
    fn drop(&mut self) {
        self.desk.close();
    }
}

impl SessionListener {
    /// Listens at a port (0: any free one) with the default options.
    ///
    /// # Errors
    /// Those of SCIF's bind: `EACCES`, `EINVAL` if the port is in use, `ENOSPC`.
    pub fn bind(port: Port) -> Result<Self> {
        Self::with_options(&Options::new().port(port))
    }

    /// Listens with these options, which all sessions get. Sessions have one channel.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind). `Refused(OwnOptions)`.
    pub fn with_options(options: &Options) -> Result<Self> {
        let options = options.channels(CHANNEL + 1);
        let desk = Arc::new(Desk::new(&options)?);
        Ok(Self { desk })
    }

    /// The port.
    pub fn port(&self) -> Port {
        self.desk.port()
    }

    /// Waits for a new session. Existing sessions are resumed meanwhile.
    ///
    /// # Errors
    /// Those of event queues. If the driver ends, this waits for the next one.
    pub fn accept(&self) -> Result<Session> {
        loop {
            if let Some(session) = self.try_accept()? {
                return Ok(session);
            }
            let mut events = Queue::new()?;
            for fd in self.desk.descriptors() {
                // A descriptor that has been closed meanwhile has nothing to report.
                let _ = events.subscribe(fd, EventFlags::EVENT_READ, ());
            }
            // Data that came before the file was watched is an event.
            events.wait(Some(LONGEST), &mut Vec::new())?;
        }
    }

    /// A new session, if there is one.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Option<Session>> {
        while let Some((shared, state)) = self.desk.next()? {
            let options = &self.desk.options;
            let engine = reliable::Session::accept(state, options.session(), nanoseconds()?);
            let Some(engine) = engine else {
                // A new session cannot have received anything.
                self.desk.forget(state.key);
                continue;
            };
            let session = Session::new(engine, Reconnect::Server(self.desk.clone()), options);
            // The client has had no answer, and may begin again.
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
