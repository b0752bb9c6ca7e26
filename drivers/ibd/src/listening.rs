//! A listener on a port of the daemon's own, which is bound again after a pause if that fails.

use hal::event::Queue;
use scif::{Endpoint, Listener, Port, PortId};
use syscall::error::Result;
use syscall::flag::EventFlags;

/// Nanoseconds until the port is tried again.
const PAUSE: u64 = 50_000_000;

/// See the module.
#[derive(Default)]
pub struct Listening<const PORT: Port> {
    listener: Option<Listener>,
    /// When to bind the port, if that is not done.
    bind_at: u64,
}

impl<const PORT: Port> Listening<PORT> {
    /// Binds the port, if that is not done and the time has come. `source`: what its events are
    /// called in the queue.
    ///
    /// # Errors
    /// Those of the event queue.
    pub fn bind<T: Copy + PartialEq>(
        &mut self,
        queue: &mut Queue<T>,
        source: T,
        now: u64,
    ) -> Result<()> {
        if self.listener.is_some() || now < self.bind_at {
            return Ok(());
        }
        match Listener::bind(PORT) {
            Ok(listener) => {
                queue.subscribe(listener.fd(), EventFlags::EVENT_READ, source)?;
                self.listener = Some(listener);
            }
            // A daemon before this one may still have the port.
            Err(_) => self.bind_at = now + PAUSE,
        }
        Ok(())
    }

    /// The next connection that somebody has made, and of whom.
    pub fn accept(&self) -> Option<(Endpoint, PortId)> {
        self.listener.as_ref()?.try_accept().ok().flatten()
    }

    /// When to bind the port, if that is not done.
    pub fn deadline(&self) -> Option<u64> {
        self.listener.is_none().then_some(self.bind_at)
    }
}
