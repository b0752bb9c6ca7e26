//! A listener on a SCIF port of the daemon's own. If there is no memory to bind the port or to
//! accept a connection, it tries again after a pause: neither the connection that waits nor the
//! daemon is lost.

use core::cell::Cell;

use hal::event::Queue;
use scif::{Endpoint, Listener, Port, PortId};
use syscall::flag::EventFlags;

/// Nanoseconds until it tries again to bind the port, or to accept a connection.
const PAUSE: u64 = 50_000_000;

/// A listener on `PORT`, once it is bound.
#[derive(Default)]
pub struct Listening<const PORT: Port> {
    listener: Option<Listener>,
    /// When to bind the port, while it is not bound, in nanoseconds.
    bind_at: u64,
    /// When to take a connection that could not be taken.
    accept_at: Cell<Option<u64>>,
}

impl<const PORT: Port> Listening<PORT> {
    /// Binds the port, if it is not bound and the time has come. `source` names events of the
    /// listener in the event queue.
    pub fn bind<T: Copy + PartialEq>(&mut self, queue: &mut Queue<T>, source: T, now: u64) {
        if self.listener.is_some() || now < self.bind_at {
            return;
        }
        let mut bind = || -> scif::Result<Listener> {
            let listener = Listener::bind(PORT)?;
            queue.subscribe(listener.fd(), EventFlags::EVENT_READ, source)?;
            Ok(listener)
        };
        match bind() {
            Ok(listener) => self.listener = Some(listener),
            // An earlier daemon may still have the port.
            Err(_) => self.bind_at = now + PAUSE,
        }
    }

    /// Accepts the next connection, and says which port it comes from. The event queue reports its
    /// `events` as those of `source`.
    pub fn accept<T: Copy + PartialEq>(
        &self,
        (queue, source): (&mut Queue<T>, T),
        events: EventFlags,
        now: u64,
    ) -> Option<(Endpoint, PortId)> {
        self.accept_at.set(None);
        let mut accept = || -> scif::Result<Option<(Endpoint, PortId)>> {
            let Some(listener) = &self.listener else {
                return Ok(None);
            };
            let accepted = listener.try_accept()?;
            if let Some((endpoint, _)) = &accepted {
                queue.subscribe(endpoint.fd(), events, source)?;
            }
            Ok(accepted)
        };
        accept().unwrap_or_else(|error| {
            log::debug!("port {PORT}: no connection was taken: {error}");
            self.accept_at.set(Some(now.saturating_add(PAUSE)));
            None
        })
    }

    /// When to bind the port, while it is not bound, or to try again to accept a connection, in
    /// nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        match &self.listener {
            None => Some(self.bind_at),
            Some(_) => self.accept_at.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hal::testing::host::{self, Request};
    use syscall::error::{EAGAIN, ENOMEM, Error};

    use super::*;

    const QUEUE: usize = 3;
    const LISTENER: usize = 5;
    const CONNECTION: usize = 7;

    /// A system whose event queue and listener give these results of subscriptions and accepts.
    fn with(
        subscriptions: &'static [bool],
        accepts: &'static [i32],
        test: impl FnOnce(&mut Listening<1>, &mut Queue<()>),
    ) {
        let (mut subscriptions, mut accepts) = (subscriptions.iter(), accepts.iter());
        let answer = |errno: i32, value| match errno {
            0 => Ok(value),
            _ => Err(Error::new(errno)),
        };
        let system = move |request: Request<'_>| match request {
            Request::Open("/scheme/event") => Ok(QUEUE),
            Request::Open(_) => Ok(LISTENER),
            Request::Dup(LISTENER, b"accept-now") => {
                let errno = accepts.next().copied().unwrap_or(EAGAIN);
                answer(errno, CONNECTION)
            }
            // The end of a subscription, of a number that had one.
            Request::Write(QUEUE, bytes) if bytes[8..16] == [0; 8] => Ok(bytes.len()),
            Request::Write(QUEUE, bytes) => {
                let is_taken = subscriptions.next().is_none_or(|is_taken| *is_taken);
                answer(if is_taken { 0 } else { ENOMEM }, bytes.len())
            }
            Request::Dup(..) => answer(ENOMEM, 0),
            Request::Call(..) | Request::Close(_) | Request::Control(..) => Ok(0),
            other => panic!("not expected: {other:?}"),
        };
        host::play(system, || {
            test(&mut Listening::default(), &mut Queue::new().unwrap());
        });
    }

    fn accept(listening: &Listening<1>, queue: &mut Queue<()>, now: u64) -> Option<usize> {
        let accepted = listening.accept((queue, ()), EventFlags::EVENT_READ, now);
        accepted.map(|(endpoint, _)| endpoint.fd())
    }

    #[test]
    fn a_connection_that_cannot_be_taken_is_taken_later() {
        with(&[], &[ENOMEM, 0], |listening, queue| {
            listening.bind(queue, (), 10);
            assert_eq!(listening.deadline(), None);
            assert_eq!(accept(listening, queue, 20), None);
            assert_eq!(listening.deadline(), Some(20 + PAUSE));
            assert_eq!(accept(listening, queue, 20 + PAUSE), Some(CONNECTION));
            assert_eq!(accept(listening, queue, 20 + PAUSE), None);
            assert_eq!(listening.deadline(), None);
        });
    }

    #[test]
    fn what_cannot_be_watched_ends_nothing_else() {
        with(&[false, true, false, true], &[0, 0], |listening, queue| {
            listening.bind(queue, (), 10);
            assert_eq!(listening.deadline(), Some(10 + PAUSE));
            listening.bind(queue, (), 10 + PAUSE);
            assert_eq!(listening.deadline(), None);
            // The first one ends; others may wait behind it.
            assert_eq!(accept(listening, queue, 20), None);
            assert_eq!(listening.deadline(), Some(20 + PAUSE));
            assert_eq!(accept(listening, queue, 30), Some(CONNECTION));
        });
    }
}
