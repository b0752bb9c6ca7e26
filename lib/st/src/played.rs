//! A SCIF driver for tests: endpoints of this library, whose peer a test plays.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::vec::Vec;

use hal::mem::PAGE;
use hal::testing::host::{self, Request};
use libredox::Fd;
use scif::{Endpoint, Memory, Protection};
use scif_abi::call::Call;
use scif_abi::codec::Operation;
use st_core::connection::Connection;
use st_core::record::{Parameters, Record};
use st_core::setup;
use syscall::error::{EAGAIN, EINVAL, Error, Result};

use crate::options::Options;
use crate::shared::Shared;

/// The descriptor of files that give memory.
const MEMORY: usize = 1_000;

/// Bytes after which a peer ends what it sends without end.
const MOST: usize = 1 << 24;

/// The driver; clones are the same one. Every connection has the same peer.
#[derive(Clone, Default)]
pub struct Driver {
    next: Rc<Cell<usize>>,
    /// What the peer has sent.
    sent: Rc<RefCell<VecDeque<u8>>>,
    /// How many receives find nothing before that.
    silent: Rc<Cell<usize>>,
    /// What it sends without end.
    endless: Rc<RefCell<Vec<u8>>>,
    /// The number of bytes that were received.
    pub received: Rc<Cell<usize>>,
    /// The error of calls that register memory, if not 0.
    pub refusal: Rc<Cell<i32>>,
    /// The descriptors that were written to.
    written: Rc<RefCell<Vec<usize>>>,
    /// How many connections wait to be accepted.
    pub waiting: Rc<Cell<usize>>,
}

impl Driver {
    /// Runs a test, and answers its system calls as the driver does.
    pub fn play<T>(&self, test: impl FnOnce() -> T) -> T {
        let driver = self.clone();
        host::play(move |request| driver.answer(request), test)
    }

    /// Lets the peer send these bytes after this number of receives that find nothing.
    pub fn speak_after(&self, receives: usize, bytes: &[u8]) {
        self.silent.set(receives);
        self.sent.borrow_mut().extend(bytes);
    }

    /// Lets the peer send this record without end.
    pub fn send_for_ever(&self, record: &Record) {
        *self.endless.borrow_mut() = Vec::from(record.encode());
    }

    /// How often a bell, given by its descriptor, has rung.
    pub fn rung(&self, bell: usize) -> usize {
        let written = self.written.borrow();
        written.iter().filter(|fd| **fd == bell).count()
    }

    /// A connection with these options at both ends, whose set-up is done.
    pub fn connection(&self, options: &Options) -> std::sync::Arc<Shared> {
        let setup = options.setup;
        let own = Parameters {
            port: 2000,
            key: 1,
            bypass: setup.bypass,
            channels: setup.channels,
            slots: setup.slots,
            window: 0,
        };
        let agreed = setup::connected(own, Record::Answer(own)).expect("agreed parameters");
        let endpoint = Endpoint::from_file(Fd::new(self.open()));
        let bytes = agreed.own.bytes().next_multiple_of(PAGE);
        let own_window = Memory::new(bytes).expect("a window");
        let peer_window = endpoint.map(0, bytes, Protection::all());
        let peer_window = peer_window.expect("the peer's window");
        let connection = Connection::new(own, agreed);
        Shared::new(endpoint, own_window, peer_window, connection, true)
    }

    fn open(&self) -> usize {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn answer(&self, request: Request<'_>) -> Result<usize> {
        match request {
            Request::Dup(_, b"accept-now") => {
                let waiting = self.waiting.get().checked_sub(1);
                self.waiting.set(waiting.ok_or(Error::new(EAGAIN))?);
                Ok(self.open())
            }
            Request::Open("/scheme/scif/memory") => Ok(MEMORY),
            // The token of a memory.
            Request::Call(MEMORY, ..) => Ok(1),
            Request::Open(_) | Request::Dup(..) => Ok(self.open()),
            // The clock stands still.
            Request::Clock(..) => Ok(0),
            Request::Close(_) | Request::Control(..) | Request::Unmap(..) => Ok(0),
            Request::Write(fd, bytes) => {
                self.written.borrow_mut().push(fd);
                Ok(bytes.len())
            }
            Request::Map { bytes, .. } => Ok(host::pages(bytes)?.as_ptr().addr()),
            Request::Call(_, payload, metadata) => {
                let mut words = [0; 2];
                for (word, given) in words.iter_mut().zip(metadata.iter().skip(1)) {
                    *word = *given;
                }
                let call = Call::decode(metadata[0], words, payload);
                self.carry_out(call.map_err(|_| Error::new(EINVAL))?, payload)
            }
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn carry_out(&self, call: Call, payload: &mut [u8]) -> Result<usize> {
        match call {
            Call::Recv { .. } => self.receive(payload),
            Call::Send { .. } => Ok(payload.len()),
            Call::Register { .. } if self.refusal.get() != 0 => Err(Error::new(self.refusal.get())),
            Call::LocalPort | Call::PeerPort | Call::Bind { .. } => Ok(1 << 16 | 2000),
            Call::Register { .. } | Call::Unregister { .. } | Call::Listen { .. } => Ok(0),
            Call::Poll { .. } => Ok(0),
            // The bytes that one mapping of a window can have.
            Call::MapRun { length, .. } => Ok(length as usize),
            _ => Err(Error::new(EINVAL)),
        }
    }

    fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        if let Some(left) = self.silent.get().checked_sub(1) {
            self.silent.set(left);
            return Ok(0);
        }
        let mut sent = self.sent.borrow_mut();
        let endless = self.endless.borrow();
        // Even that has an end, for a test of a caller that has none.
        if sent.len() < buffer.len() && self.received.get() < MOST {
            let more = endless.iter().cycle().take(endless.len() * 64);
            sent.extend(more);
        }
        let count = sent.len().min(buffer.len());
        for (to, byte) in buffer.iter_mut().zip(sent.drain(..count)) {
            *to = byte;
        }
        self.received.set(self.received.get() + count);
        Ok(count)
    }
}
