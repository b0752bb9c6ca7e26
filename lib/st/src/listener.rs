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

/// Longest sleep of a listener, after which it looks whether the driver still lives.
const LONGEST: Duration = Duration::from_secs(1);

/// An endpoint at which connections are accepted. Threads may share it.
pub struct Listener {
    listener: scif::Listener,
    options: Options,
    /// Connections whose peers have not sent their request yet, the oldest first.
    greeted: Mutex<Vec<Greeted>>,
    /// Of the thread that waits in [`accept`](Self::accept); others wait for it.
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
    /// Those of SCIF's bind: `EACCES`, `EINVAL` when the port is in use, `ENOSPC`.
    pub fn bind(port: Port) -> Result<Self> {
        Self::with_options(&Options::new().port(port))
    }

    /// Listens with these options, which every accepted connection gets.
    ///
    /// # Errors
    /// As [`bind`](Self::bind); `Refused(OwnOptions)`.
    pub fn with_options(options: &Options) -> Result<Self> {
        setup::layout(options.setup)?;
        let scif = scif::Options::new().port(options.port);
        Ok(Self {
            listener: scif.backlog(options.backlog).listen()?,
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

    /// The descriptors to watch in an event queue of the program, for reading: the listener's own
    /// and those of connections that are being set up. They change with
    /// [`try_accept`](Self::try_accept): when that gives `None`, watch those that are new.
    pub fn descriptors(&self) -> Vec<usize> {
        let greeted = self.greeted.lock();
        let each = greeted.iter().map(|new| new.handshake.endpoint().fd());
        core::iter::once(self.listener.fd()).chain(each).collect()
    }

    /// Waits for a connection. Peers are served as they finish their set-up: one that says nothing
    /// delays no other.
    ///
    /// # Errors
    /// Those of SCIF's accept. `Refused` when a peer's parameters cannot be agreed on, `TimedOut`
    /// when it says nothing for 10 s, or when more than the backlog's peers say nothing:
    /// that connection is closed, and the listener goes on.
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
            // Data that came before the file is watched makes an event when watching begins.
            self.watch(events)?;
            events.wait(Some(LONGEST), &mut ready)?;
        }
    }

    /// Watches the connections that are new.
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
    /// As [`accept`](Self::accept).
    pub fn try_accept(&self) -> Result<Option<Connection>> {
        let mut greeted = self.greeted.lock();
        let mut index = 0;
        while let Some(next) = greeted.get_mut(index) {
            match next.handshake.advance() {
                Ok(false) => index += 1,
                Ok(true) => {
                    let new = greeted.remove(index);
                    let link = new.handshake.finish()?;
                    // A thread that holds the queue is in `accept`.
                    if new.is_watched
                        && let Some(mut events) = self.events.try_lock()
                        && let Some(events) = &mut *events
                    {
                        forget(events, &link);
                    }
                    return Ok(Some(link));
                }
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
            // Peers that say nothing must not keep those out that do.
            if greeted.len() > self.options.backlog.max(1) as usize {
                greeted.remove(0);
                return Err(Error::TimedOut);
            }
        }
        Ok(None)
    }
}

/// Watches a connection no more that is accepted: its records are for others from now on. An error
/// would be the connection's own end.
fn forget(events: &mut Queue<()>, link: &Connection) {
    let _ = events.unsubscribe(link.endpoint().fd());
}

/// Connects to a listener of another program: waits until it accepts.
///
/// # Errors
/// Those of SCIF's connect: `ECONNREFUSED` when no program listens there, `ENODEV` when there is no
/// such node, …; `Refused` when the options of both ends do not agree.
pub fn connect(to: PortId, options: &Options) -> Result<Connection> {
    setup::layout(options.setup)?;
    let scif = scif::Options::new().port(options.port);
    Connection::request(scif.retry_for(options.retry_for).connect(to)?, options)
}
