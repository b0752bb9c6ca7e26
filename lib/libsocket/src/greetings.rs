//! The queue of a listener of Scheduled Transfers (`docs/st.md`): connections that are being set
//! up. A peer that sends nothing does not delay the others.

use alloc::vec::Vec;
use libredox::Fd;
use scif::raw;
use syscall::error::{EAGAIN, EINVAL};

use crate::greeting::{Accepted, Greeting};
use crate::socket::Socket;
use crate::{Result, address, errors, node};

/// Most peers that may be silent at a listener, and most set-ups that may have ended there: a
/// thread that waits watches the descriptors of all of them (`MOST_WATCHED` of the C library).
const MOST_KEPT: usize = 63;

/// The set-up, if its peer is silent.
fn silent_one(greeting: &mut Greeting) -> Option<&mut Greeting> {
    greeting.is_silent().then_some(greeting)
}

/// Accepts requests that wait at a listener, until as many set-ups as its backlog have ended: the
/// others wait until the program takes these. As many peers as the backlog may be silent; beyond
/// that, the set-ups of the oldest fail.
fn take_requests(number: usize, listener: &Socket, greetings: &mut Vec<Greeting>) -> Result<()> {
    let Some(transfers) = &listener.transfers else {
        return Ok(());
    };
    let state = listener.state();
    // SCIF accepts from all nodes; a socket bound to the loopback address must not.
    let is_local_only = state.bound.is_some_and(address::is_loopback);
    let most = state.backlog.clamp(1, MOST_KEPT);
    let mut silent = 0;
    for greeting in greetings.iter_mut() {
        silent += usize::from(greeting.is_silent());
    }
    while greetings.len() - silent < most {
        let (new, peer) = match raw::accept(number, 0) {
            Ok(accepted) => accepted,
            Err(EAGAIN) => break,
            Err(error) => return Err(errors::accept(error)),
        };
        let file = Fd::new(new);
        if is_local_only && peer.node() != node::own() {
            continue;
        }
        let mut greeting = Greeting::begin(file, peer, &transfers.lock());
        silent += usize::from(greeting.is_silent());
        greetings.push(greeting);
        if silent > most
            && let Some(oldest) = greetings.iter_mut().find_map(silent_one)
        {
            oldest.fail();
            silent -= 1;
        }
    }
    Ok(())
}

/// Returns the next connection whose set-up is complete or has failed. Never waits for a peer.
///
/// # Errors
/// `EAGAIN` if there is none; `EPROTO` or `EINVAL` if one has failed; those of accepting.
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

/// Whether [`next`] would return a connection or an error other than `EAGAIN`.
pub fn is_ready(number: usize, listener: &Socket) -> bool {
    let mut greetings = listener.greetings.lock();
    let taken = take_requests(number, listener, &mut greetings);
    let mut states = greetings.iter_mut().map(Greeting::advance);
    taken.is_err() || states.any(|state| state != Ok(false))
}

/// Returns the descriptors of the connections that a listener is setting up.
pub fn descriptors(listener: &Socket) -> Vec<usize> {
    let greetings = listener.greetings.lock();
    greetings.iter().map(Greeting::descriptor).collect()
}
