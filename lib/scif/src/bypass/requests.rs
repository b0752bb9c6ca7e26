//! Watching a listener for connection requests, for programs that ask again and again whether one
//! waits. As long as none has come, an event queue of the system answers, and the daemon is not
//! asked.

use hal::event::Watcher;
use hal::kernel::ends_abandoned_requests;
use scif_abi::flags::Readiness;
use spin::Mutex;

use super::Bypass;
use crate::raw::Result;

impl Bypass {
    /// As [`readiness`](Self::readiness), for an endpoint that listens: does not ask the daemon
    /// again as long as no request has come.
    ///
    /// # Errors
    /// Those of [`readiness`](Self::readiness).
    pub fn readiness_of_listener(&self, epd: usize, events: u16) -> Result<u16> {
        let ask = || self.readiness(epd, events);
        let asks_for_requests = Readiness::from_bits_truncate(events).contains(Readiness::IN);
        // Redox's kernel does not report the end of a daemon.
        if !asks_for_requests || !ends_abandoned_requests() {
            return ask();
        }
        let watch = self
            .requests
            .call_once(|| RequestWatch::new(epd).ok())
            .as_ref();
        match watch {
            Some(watch) => watch.readiness(ask),
            None => ask(),
        }
    }
}

/// What is known about the requests at a listener.
pub struct RequestWatch {
    watcher: Watcher,
    /// Whether a request may wait whose event was already taken out of the queue.
    may_wait: Mutex<bool>,
}

impl RequestWatch {
    /// Watches a listening endpoint.
    ///
    /// # Errors
    /// Those of event queues.
    pub fn new(epd: usize) -> Result<Self> {
        let watcher = Watcher::new(epd).map_err(|error| error.errno)?;
        let may_wait = Mutex::new(true);
        Ok(Self { watcher, may_wait })
    }

    /// The listener's readiness. Calls `ask`, which asks the daemon, unless no request can have
    /// come since `ask` last said that there is none.
    ///
    /// # Errors
    /// Those of `ask`.
    pub fn readiness(&self, ask: impl FnOnce() -> Result<u16>) -> Result<u16> {
        // A thread that finds another one asking asks for itself, because that answer takes long.
        let Some(mut may_wait) = self.may_wait.try_lock() else {
            return ask();
        };
        // In this order, a request that comes after this read is an event for the next call.
        let news = self.watcher.take();
        if news == Ok(false) && !*may_wait {
            return Ok(0);
        }
        let answer = ask();
        // A queue that cannot be read proves nothing.
        *may_wait = news.is_err() || answer != Ok(0);
        answer
    }

    /// The event queue that gets an event when a request comes; `None` if one may wait already.
    pub fn queue(&self) -> Option<usize> {
        let may_wait = self.may_wait.try_lock()?;
        (!*may_wait).then(|| self.watcher.descriptor())
    }

    /// The event queue of [`queue`](Self::queue), in any case.
    pub fn descriptor(&self) -> usize {
        self.watcher.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use alloc::rc::Rc;
    use core::cell::RefCell;
    use std::collections::VecDeque;

    use hal::testing::host::{self, Request};
    use syscall::error::{EAGAIN, EIO, Error};

    use super::*;

    const LISTENER: usize = 3;
    const QUEUE: usize = 7;

    /// A watch of a listener whose event queue gives these results of reads.
    fn with(reads: &[syscall::Result<usize>], test: impl FnOnce(&RequestWatch)) {
        let left: Rc<RefCell<VecDeque<_>>> = Rc::new(RefCell::new(reads.iter().copied().collect()));
        let reads = Rc::clone(&left);
        let system = move |request: Request<'_>| match request {
            Request::Open("/scheme/event") => Ok(QUEUE),
            Request::Control(QUEUE, syscall::F_DUPFD, _) => Ok(QUEUE),
            Request::Write(QUEUE, bytes) => {
                assert_eq!(bytes[..8], LISTENER.to_ne_bytes());
                Ok(bytes.len())
            }
            Request::Read(QUEUE, _) => reads.borrow_mut().pop_front().expect("a read too many"),
            Request::Close(QUEUE) => Ok(0),
            other => panic!("not expected: {other:?}"),
        };
        host::play(system, || test(&RequestWatch::new(LISTENER).unwrap()));
        assert!(left.borrow().is_empty());
    }

    const NEWS: syscall::Result<usize> = Ok(24);
    const NOTHING: syscall::Result<usize> = Err(Error { errno: EAGAIN });

    fn unasked() -> Result<u16> {
        panic!("asked")
    }

    #[test]
    fn the_daemon_is_asked_until_it_says_that_no_request_waits() {
        with(&[NOTHING, NOTHING, NEWS, NOTHING], |watch| {
            assert_eq!(watch.queue(), None);
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
            assert_eq!(watch.queue(), Some(QUEUE));
            assert_eq!(watch.readiness(unasked), Ok(0));
            assert_eq!(watch.readiness(|| Ok(1)), Ok(1));
            assert_eq!(watch.queue(), None);
            // Another one may wait behind that.
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
        });
    }

    #[test]
    fn a_request_that_comes_while_the_daemon_is_asked_is_news() {
        with(&[NEWS, NEWS, NOTHING], |watch| {
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
            assert_eq!(watch.readiness(unasked), Ok(0));
        });
    }

    #[test]
    fn an_error_is_no_answer() {
        with(&[NOTHING, NOTHING, NOTHING], |watch| {
            assert_eq!(watch.readiness(|| Err(EIO)), Err(EIO));
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
            assert_eq!(watch.readiness(unasked), Ok(0));
        });
    }

    #[test]
    fn a_queue_that_cannot_be_read_is_not_relied_upon() {
        let broken = Err(Error::new(EIO));
        with(&[NOTHING, broken, broken], |watch| {
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
            assert_eq!(watch.readiness(|| Ok(0)), Ok(0));
            assert_eq!(watch.queue(), None);
            assert_eq!(watch.readiness(|| Ok(1)), Ok(1));
        });
    }

    #[test]
    fn a_thread_beside_one_that_asks_asks_too() {
        with(&[NOTHING], |watch| {
            let inner = || {
                assert_eq!(watch.queue(), None);
                watch.readiness(|| Ok(1))
            };
            assert_eq!(watch.readiness(inner), Ok(1));
        });
    }
}
