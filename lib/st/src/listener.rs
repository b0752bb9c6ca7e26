//! Listening, accepting and connecting.

use alloc::vec::Vec;
use core::time::Duration;

use hal::event::Queue;
use hal::lock::Mutex;
use scif::{Port, PortId};
use st_core::setup;
use syscall::flag::EventFlags;

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::handshake::Handshake;
use crate::options::Options;

/// The longest sleep of a listener, after which it looks whether the driver is alive.
const LONGEST: Duration = Duration::from_secs(1);

/// An endpoint at which connections are accepted. Threads may share it.
pub struct Listener {
    listener: scif::Listener,
    options: Options,
    /// Connections whose peers have not sent their request yet, oldest first.
    greeted: Mutex<Vec<Greeted>>,
    /// The queue of the thread that waits in [`accept`](Self::accept); other threads wait for the
    /// lock.
    events: Mutex<Option<Queue<()>>>,
}

/// A connection whose peer is about to send its request.
struct Greeted {
    handshake: Handshake,
    /// The event queue has its descriptor.
    is_watched: bool,
}

impl Listener {
    /// Listens at a port (0: any free one) with the default options.
    ///
    /// # Errors
    /// Those of SCIF's bind: `EACCES`, `EINVAL` if the port is in use, `ENOSPC`.
    pub fn bind(port: Port) -> Result<Self> {
        Self::with_options(&Options::new().port(port))
    }

    /// Listens with these options, which all accepted connections get.
    ///
    /// # Errors
    /// Those of [`bind`](Self::bind). `Refused(OwnOptions)`.
    pub fn with_options(options: &Options) -> Result<Self> {
        setup::layout(options.setup)?;
        Ok(Self {
            listener: options.scif.listen()?,
            options: *options,
            greeted: Mutex::new(Vec::new()),
            events: Mutex::new(None),
        })
    }

    /// The port.
    ///
    /// # Errors
    /// Those of the call.
    pub fn port(&self) -> Result<Port> {
        Ok(self.listener.port()?)
    }

    /// The descriptors that a program has to watch for reading in an event queue of its own: the
    /// listener's, and those of connections that are being set up. They change with
    /// [`try_accept`](Self::try_accept): when that returns `None`, watch those that are new.
    pub fn descriptors(&self) -> Vec<usize> {
        let greeted = self.greeted.lock();
        let each = greeted.iter().map(|new| new.handshake.endpoint().fd());
        core::iter::once(self.listener.fd()).chain(each).collect()
    }

    /// Waits for a connection. Peers are accepted in the order in which they finish their set-up,
    /// so one that sends nothing delays no other.
    ///
    /// # Errors
    /// Those of SCIF's accept. `Refused`: a peer's parameters cannot be agreed on. `TimedOut`: a
    /// peer has sent nothing for 10 s, or more peers than the backlog have sent nothing. That
    /// connection is closed, and the listener goes on.
    pub fn accept(&self) -> Result<Connection> {
        let mut events = self.events.lock();
        let events = match &mut *events {
            Some(events) => events,
            none => {
                let mut queue = Queue::new()?;
                queue.subscribe(self.listener.fd(), EventFlags::EVENT_READ, ())?;
                none.insert(queue)
            }
        };
        let mut ready = Vec::new();
        loop {
            if let Some(link) = self.try_accept()? {
                forget(events, &link);
                return Ok(link);
            }
            // Data that came before the descriptor is watched raises an event when watching
            // begins.
            self.watch(events)?;
            events.wait(Some(LONGEST), &mut ready)?;
        }
    }

    /// Makes the event queue watch the connections that are new.
    fn watch(&self, events: &mut Queue<()>) -> Result<()> {
        for new in self.greeted.lock().iter_mut().filter(|new| !new.is_watched) {
            let fd = new.handshake.endpoint().fd();
            events.subscribe(fd, EventFlags::EVENT_READ, ())?;
            new.is_watched = true;
        }
        Ok(())
    }

    /// A connection whose set-up is done, if there is one. Never waits for a peer.
    ///
    /// # Errors
    /// Those of [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Option<Connection>> {
        let mut greeted = self.greeted.lock();
        let mut index = 0;
        while let Some(next) = greeted.get_mut(index) {
            match next.handshake.advance() {
                Ok(false) => index += 1,
                Ok(true) => return self.finish(greeted.remove(index)).map(Some),
                Err(error) => {
                    greeted.remove(index);
                    return Err(error);
                }
            }
        }
        while let Some((endpoint, _)) = self.listener.try_accept()? {
            let mut handshake = Handshake::answer(endpoint, &self.options)?;
            if handshake.advance()? {
                return handshake.finish().map(Some);
            }
            greeted.push(Greeted {
                handshake,
                is_watched: false,
            });
            // Peers that send nothing must not keep out those that do. The oldest one may have
            // sent its request after the look above.
            if greeted.len() > self.options.waiting_clients() {
                let mut oldest = greeted.remove(0);
                return match oldest.handshake.advance()? {
                    true => self.finish(oldest).map(Some),
                    false => Err(Error::TimedOut),
                };
            }
        }
        Ok(None)
    }

    /// The connection of a peer that has sent its request.
    fn finish(&self, new: Greeted) -> Result<Connection> {
        let link = new.handshake.finish()?;
        // If a thread holds the queue, it is in `accept`.
        if new.is_watched
            && let Some(mut events) = self.events.try_lock()
            && let Some(events) = &mut *events
        {
            forget(events, &link);
        }
        Ok(link)
    }
}

/// Stops watching a connection that is accepted, because its records are for others from now on.
/// An error means that the connection has ended.
fn forget(events: &mut Queue<()>, link: &Connection) {
    let _ = events.unsubscribe(link.endpoint().fd());
}

/// Connects to a listener of another program; waits until it accepts.
///
/// # Errors
/// Those of SCIF's connect: `ECONNREFUSED` if no program listens there, `ENODEV` if there is no
/// such node, …; `Refused`: the options of both ends do not agree.
pub fn connect(to: PortId, options: &Options) -> Result<Connection> {
    setup::layout(options.setup)?;
    Connection::request(options.scif.connect(to)?, options)
}

#[cfg(test)]
mod tests {
    use st_core::record::RECORD_BYTES;
    use st_core::setup::Refused;

    use super::*;
    use crate::played::Driver;

    #[test]
    fn no_more_silent_clients_than_63_are_waited_for() {
        let driver = Driver::default();
        driver.play(|| {
            let listener = Listener::with_options(&Options::new().backlog(1000));
            let listener = listener.expect("a listener");
            driver.waiting.set(63);
            assert!(matches!(listener.try_accept(), Ok(None)));
            driver.waiting.set(1);
            assert_eq!(listener.try_accept().err(), Some(Error::TimedOut));
        });
    }

    #[test]
    fn a_client_that_has_spoken_is_not_dropped_as_silent() {
        let driver = Driver::default();
        driver.play(|| {
            let listener = Listener::with_options(&Options::new().backlog(1));
            let listener = listener.expect("a listener");
            driver.waiting.set(1);
            assert!(matches!(listener.try_accept(), Ok(None)));
            // The oldest one speaks when the next one is being accepted. What it says is wrong,
            // which shows that it is listened to.
            driver.waiting.set(1);
            driver.speak_after(2, &[0xff; RECORD_BYTES]);
            let refused = listener.try_accept().err();
            assert_eq!(refused, Some(Error::Refused(Refused::Protocol)));
        });
    }
}
