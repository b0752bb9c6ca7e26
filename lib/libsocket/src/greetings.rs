//! Connections of Scheduled Transfers that a listener has accepted and that are being set up: their
//! peers have not said yet what they want. A peer that says nothing delays no other.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::c_int;
use core::time::Duration;

use libredox::Fd;
use runtime::time::Instant;
use scif::raw;
use scif_abi::PortId;
use st::Handshake;
use st_core::record::{RECORD_BYTES, Record};
use st_core::setup::Refused;
use syscall::error::{EAGAIN, EINVAL, EPROTO};

use crate::socket::Socket;
use crate::transfers::{self, Established};
use crate::{Result, address, errors, node};

/// How long a peer may take for its request.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// A connection that is being set up.
pub struct Greeting {
    /// The descriptor that the program gets in the end.
    file: Fd,
    peer: PortId,
    stage: Stage,
}

enum Stage {
    /// With the bypass: the library of transfers has it.
    Bypass(Box<Handshake>),
    /// Without: the request so far, and when it must be there.
    Request([u8; RECORD_BYTES], usize, Instant),
    /// It has failed.
    Failed(i32),
}

/// A connection that is set up.
pub struct Accepted {
    /// Its descriptor.
    pub file: Fd,
    /// The other end.
    pub peer: PortId,
    /// What both ends have told each other.
    pub established: Established,
}

impl Greeting {
    fn begin(file: Fd, peer: PortId, listener: &transfers::Transfers) -> Self {
        let deadline = Instant::now() + REQUEST_TIME;
        let stage = match listener.begin_answer(file.raw()) {
            Ok(Some(handshake)) => Stage::Bypass(Box::new(handshake)),
            Ok(None) => Stage::Request([0; RECORD_BYTES], 0, deadline),
            Err(error) => Stage::Failed(error_of(error)),
        };
        Self { file, peer, stage }
    }

    /// Takes what has come; whether it is all. An error stays one.
    fn advance(&mut self) -> Result<bool> {
        match &mut self.stage {
            Stage::Bypass(handshake) => handshake.advance().map_err(error_of),
            Stage::Failed(error) => Err(*error),
            Stage::Request(bytes, filled, deadline) => {
                while *filled < RECORD_BYTES {
                    let count = raw::recv(self.file.raw(), &mut bytes[*filled..], 0);
                    match count.map_err(|_| EPROTO)? {
                        0 if Instant::now() > *deadline => return Err(EPROTO),
                        0 => return Ok(false),
                        count => *filled += count,
                    }
                }
                Ok(true)
            }
        }
    }

    fn finish(self, listener: &transfers::Transfers) -> Result<Accepted> {
        let established = match self.stage {
            Stage::Bypass(handshake) => handshake.finish().map(Established::with),
            Stage::Request(bytes, ..) => {
                let request = Record::decode(&bytes).map_err(|_| Refused::Protocol.into());
                request.and_then(|request| listener.answer(self.file.raw(), request))
            }
            Stage::Failed(error) => return Err(error),
        };
        Ok(Accepted {
            file: self.file,
            peer: self.peer,
            established: established.map_err(error_of)?,
        })
    }
}

/// What a server is told of a set-up that has failed.
fn error_of(error: st::Error) -> i32 {
    match error {
        st::Error::Refused(Refused::OwnOptions) => EINVAL,
        _ => EPROTO,
    }
}

/// Accepts what waits at a listener. At most its backlog of peers may be silent: then the oldest
/// fails.
fn take_requests(number: usize, listener: &Socket, greetings: &mut Vec<Greeting>) -> Result<()> {
    let Some(transfers) = &listener.transfers else {
        return Ok(());
    };
    let state = listener.state();
    loop {
        let (new, peer) = match raw::accept(number, 0) {
            Ok(accepted) => accepted,
            Err(EAGAIN) => break,
            Err(error) => return Err(errors::accept(error)),
        };
        let file = Fd::new(new);
        // SCIF listens for all nodes; a socket bound to the loopback address does not.
        let is_local_only = state.bound.is_some_and(address::is_loopback);
        if !is_local_only || peer.node() == node::own() {
            greetings.push(Greeting::begin(file, peer, &transfers.lock()));
        }
    }
    let mut silent: Vec<&mut Greeting> = greetings
        .iter_mut()
        .filter_map(|greeting| (greeting.advance() == Ok(false)).then_some(greeting))
        .collect();
    let surplus = silent.len().saturating_sub(state.backlog.max(1));
    for greeting in silent.iter_mut().take(surplus) {
        greeting.stage = Stage::Failed(EPROTO);
    }
    Ok(())
}

/// The next connection that is set up, or that has failed to be. Never waits for a peer.
///
/// # Errors
/// `EAGAIN`: there is none. `EPROTO`, `EINVAL`: one has failed; those of accepting.
pub fn next(number: usize, listener: &Socket) -> Result<Accepted> {
    let mut greetings = listener.greetings.lock();
    let taken = take_requests(number, listener, &mut greetings);
    for index in 0..greetings.len() {
        match greetings[index].advance() {
            Ok(false) => {}
            Ok(true) => {
                let transfers = listener
                    .transfers
                    .as_ref()
                    .ok_or(EINVAL)?
                    .lock()
                    .inherited();
                return greetings.remove(index).finish(&transfers);
            }
            Err(error) => {
                greetings.remove(index);
                return Err(error);
            }
        }
    }
    taken.and(Err(EAGAIN))
}

/// Whether [`next`] would find something, an error among it.
pub fn is_ready(number: usize, listener: &Socket) -> bool {
    let mut greetings = listener.greetings.lock();
    let taken = take_requests(number, listener, &mut greetings);
    let mut states = greetings.iter_mut().map(Greeting::advance);
    taken.is_err() || states.any(|state| state != Ok(false))
}

/// Stores the descriptors of those connections that a listener is setting up, as far as there is
/// room; how many.
pub fn descriptors(listener: &Socket, places: &mut [c_int]) -> usize {
    let greetings = listener.greetings.lock();
    let pairs = places.iter_mut().zip(greetings.iter());
    pairs
        .map(|(place, greeting)| *place = greeting.file.raw() as c_int)
        .count()
}
