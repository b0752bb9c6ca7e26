//! The places `node` and `pair` of the rows of RDMA verbs. Each end is a program that runs the
//! same rows; a control connection tells the other end the results of each job.

mod device;
mod end;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use conformance::verbs::bench::{Checked, Driver, Job, Place, Reply, Side};
use runtime::time::{Duration, sleep};
use scif::raw;
use scif_abi::flags::AcceptFlags;
use scif_abi::{Error, PortId};
use verbs_core::types;

use crate::control::{Control, text};

pub use device::Scheme;
use end::End;

/// The port where B waits for A.
const PORT: u16 = 3920;
/// Number of A's attempts to reach B, at intervals of a twentieth of a second.
const TRIES: usize = 1200;

/// Errors, by the number that stands for them in a reply.
const ERRORS: [types::Error; 5] = [
    types::Error::Invalid,
    types::Error::NoMemory,
    types::Error::Busy,
    types::Error::NotFound,
    types::Error::NotSupported,
];

/// The driver at one end.
pub struct Guest {
    place: Place,
    own: Side,
    end: End,
    control: Control,
}

fn connect(node: u16) -> Checked<usize> {
    let at = PortId::new(node, PORT);
    for _ in 0..TRIES {
        let endpoint = raw::open().map_err(|error| text("open", error))?;
        match raw::connect(endpoint, at) {
            Ok(_) => return Ok(endpoint),
            Err(error) if error == Error::ConnectionRefused.errno() => {}
            Err(error) if error == Error::NoDevice.errno() => {}
            Err(error) => return Err(text("connect", error)),
        }
        raw::close(endpoint).map_err(|error| text("close", error))?;
        sleep(Duration::from_millis(50));
    }
    Err(format!("nobody listens at {at}"))
}

fn accept() -> Checked<usize> {
    let listener = raw::open().map_err(|error| text("open", error))?;
    raw::bind(listener, PORT).map_err(|error| text("bind", error))?;
    raw::listen(listener, 1).map_err(|error| text("listen", error))?;
    let accepted = raw::accept(listener, AcceptFlags::SYNC.bits());
    let (endpoint, _) = accepted.map_err(|error| text("accept", error))?;
    raw::close(listener).map_err(|error| text("close", error))?;
    Ok(endpoint)
}

impl Guest {
    /// The end A, with B on a node; the end B, if no node is given.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn new(place: Place, peer: Option<u16>) -> Checked<Guest> {
        let (own, endpoint) = match peer {
            Some(node) => (Side::A, connect(node)?),
            None => (Side::B, accept()?),
        };
        Ok(Guest {
            place,
            own,
            end: End::open()?,
            control: Control::new(endpoint),
        })
    }

    /// Waits until the other end has got as far.
    ///
    /// # Errors
    /// A text that names the failure.
    pub fn meet(&mut self) -> Checked {
        self.control.send(&[])?;
        self.control.receive().map(drop)
    }
}

fn encode(reply: &Reply) -> Vec<u64> {
    match reply {
        Ok(words) => core::iter::once(0).chain(words.iter().copied()).collect(),
        Err(error) => {
            let number = ERRORS.iter().position(|known| known == error);
            alloc::vec![1 + number.unwrap_or_default() as u64]
        }
    }
}

fn decode(words: &[u64]) -> Checked<Reply> {
    let (first, rest) = words
        .split_first()
        .ok_or_else(|| String::from("no reply"))?;
    match first.checked_sub(1) {
        None => Ok(Ok(rest.to_vec())),
        Some(number) => {
            let error = ERRORS.get(number as usize);
            error.map(|error| Err(*error)).ok_or("no such error".into())
        }
    }
}

impl Driver for Guest {
    fn place(&self) -> Place {
        self.place
    }

    fn at(&mut self, side: Side, job: Job<'_>) -> Checked<Reply> {
        if side != self.own {
            return decode(&self.control.receive()?);
        }
        let reply = job(&mut self.end);
        self.control.send(&encode(&reply))?;
        Ok(reply)
    }

    fn pause(&mut self) {
        sleep(Duration::from_millis(1));
    }

    fn kill(&mut self, side: Side) -> Checked {
        Err(format!("{side:?} cannot die here"))
    }
}
