//! A SCIF driver for tests. Its endpoints can be bound, can listen, and report its death.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hal::testing::host::{self, Request};
use libredox::Fd;
use scif::Endpoint;
use scif_abi::call::Call;
use scif_abi::codec::Operation;
use syscall::error::{EAGAIN, EINVAL, ENODEV, Error, Result};

/// The driver; clones are the same one.
#[derive(Clone, Default)]
pub struct Driver {
    /// Descriptors below this one belong to a driver that has died.
    first_alive: Rc<Cell<usize>>,
    next: Rc<Cell<usize>>,
    /// The results of the next calls of accept: an error, or a new connection.
    accepts: Rc<RefCell<VecDeque<Option<i32>>>>,
}

impl Driver {
    /// Runs a test, and answers its system calls as the driver does.
    pub fn play<T>(&self, test: impl FnOnce() -> T) -> T {
        let driver = self.clone();
        host::play(move |request| driver.answer(request), test)
    }

    /// Lets the driver die, and another one take its place.
    pub fn die(&self) {
        self.first_alive.set(self.next.get() + 1);
    }

    /// Adds results of the next calls of accept: an error, or a new connection.
    pub fn accept(&self, results: impl IntoIterator<Item = Option<i32>>) {
        self.accepts.borrow_mut().extend(results);
    }

    /// The number of connections that wait to be accepted, and of errors.
    pub fn accepts_left(&self) -> usize {
        self.accepts.borrow().len()
    }

    /// A new endpoint.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::from_file(Fd::new(self.open()))
    }

    fn open(&self) -> usize {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn answer(&self, request: Request<'_>) -> Result<usize> {
        let fd = match &request {
            Request::Open(_) => return Ok(self.open()),
            Request::Close(_) | Request::Control(..) => return Ok(0),
            Request::Dup(fd, _) | Request::Call(fd, ..) => *fd,
            _ => return Err(Error::new(EINVAL)),
        };
        if fd < self.first_alive.get() {
            // A receive finds no bytes, as if it had asked the driver just before.
            let is_receive = matches!(&request, Request::Call(_, _, words) if is_receive(words));
            return match is_receive {
                true => Ok(0),
                false => Err(Error::new(ENODEV)),
            };
        }
        match request {
            Request::Dup(_, b"accept-now") => match self.accepts.borrow_mut().pop_front() {
                Some(Some(error)) => Err(Error::new(error)),
                Some(None) => Ok(self.open()),
                None => Err(Error::new(EAGAIN)),
            },
            Request::Call(fd, payload, metadata) => {
                match Call::decode(metadata[0], [metadata[1], metadata[2]], payload) {
                    // Each endpoint has a port of its own.
                    Ok(Call::LocalPort | Call::PeerPort | Call::Bind { .. }) => {
                        Ok(1 << 16 | (2000 + fd))
                    }
                    Ok(Call::Listen { .. } | Call::Recv { .. } | Call::Poll { .. }) => Ok(0),
                    _ => Err(Error::new(EINVAL)),
                }
            }
            _ => Err(Error::new(EINVAL)),
        }
    }
}

fn is_receive(metadata: &[u64]) -> bool {
    let call = Call::decode(metadata[0], [metadata[1], metadata[2]], &[]);
    matches!(call, Ok(Call::Recv { .. }))
}
