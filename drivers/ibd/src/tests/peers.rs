//! A SCIF driver whose listeners give connections of chosen peers, which send nothing or what the
//! test says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hal::event::Queue;
use hal::testing::host::{self, Request};
use scif::PortId;
use scif_abi::call::Call;
use scif_abi::codec::Operation;
use syscall::error::{EAGAIN, EINVAL, Error, Result};

/// The descriptor of the first accepted connection; the others follow.
const FIRST: usize = 100;

/// The peers that connect; clones are the same ones.
#[derive(Clone, Default)]
pub struct Peers {
    waiting: Rc<RefCell<VecDeque<PortId>>>,
    accepted: Rc<RefCell<Vec<PortId>>>,
    /// The bytes that each connection sends.
    message: Rc<RefCell<Vec<u8>>>,
    /// How many of them were received on each connection, in the order of acceptance.
    received: Rc<RefCell<Vec<usize>>>,
}

impl Peers {
    /// Lets these peers connect, after those that wait.
    pub fn come(&self, peers: impl IntoIterator<Item = PortId>) {
        self.waiting.borrow_mut().extend(peers);
    }

    /// Lets each connection send these bytes.
    pub fn say(&self, message: Vec<u8>) {
        *self.message.borrow_mut() = message;
    }

    /// How many bytes were received on each accepted connection.
    pub fn received(&self) -> Vec<usize> {
        self.received.borrow().clone()
    }

    /// Number of connections that wait to be accepted.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// The descriptor of the connection that was accepted last.
    pub fn newest(&self) -> Option<usize> {
        let accepted = self.accepted.borrow().len();
        accepted.checked_sub(1).map(|last| FIRST + last)
    }

    /// Runs a test with an event queue, and answers its system calls as the driver does.
    pub fn play<T>(&self, test: impl FnOnce(&mut Queue<()>) -> T) -> T {
        let peers = self.clone();
        let system = move |request: Request<'_>| peers.answer(request);
        host::play(system, || test(&mut Queue::new().expect("a queue")))
    }

    fn answer(&self, request: Request<'_>) -> Result<usize> {
        match request {
            Request::Open(_) => Ok(1),
            Request::Dup(_, b"accept-now") => {
                let next = self.waiting.borrow_mut().pop_front();
                let peer = next.ok_or(Error::new(EAGAIN))?;
                self.accepted.borrow_mut().push(peer);
                self.received.borrow_mut().push(0);
                self.newest().ok_or(Error::new(EINVAL))
            }
            Request::Write(_, bytes) => Ok(bytes.len()),
            Request::Call(fd, payload, metadata) => {
                match Call::decode(metadata[0], [metadata[1], metadata[2]], payload) {
                    Ok(Call::PeerPort) => {
                        let accepted = self.accepted.borrow();
                        let peer = accepted.get(fd - FIRST).ok_or(Error::new(EINVAL))?;
                        Ok(usize::from(peer.node()) << 16 | usize::from(peer.port()))
                    }
                    Ok(Call::Recv { .. }) => Ok(self.receive(fd, payload)),
                    _ => Ok(0),
                }
            }
            Request::Control(..) | Request::Close(_) => Ok(0),
            _ => Err(Error::new(EINVAL)),
        }
    }

    /// Receives as much as has been sent and fits.
    fn receive(&self, fd: usize, payload: &mut [u8]) -> usize {
        let mut all = self.received.borrow_mut();
        let Some(received) = all.get_mut(fd - FIRST) else {
            return 0;
        };
        let message = self.message.borrow();
        let left = message.get(*received..).unwrap_or_default();
        let count = left.len().min(payload.len());
        payload[..count].copy_from_slice(&left[..count]);
        *received += count;
        count
    }
}
