//! The queue of a listener of Scheduled Transfers (`docs/st.md`): connections that are being set
//! up. A peer that sends nothing does not delay the others.

use alloc::vec::Vec;
use libredox::Fd;
use scif::raw;
use syscall::error::{EAGAIN, EINVAL};

use crate::greeting::{Accepted, Greeting};
use crate::socket::Socket;
use crate::{Result, address, errors, node};

/// Accepts all requests that wait at a listener. As many peers as its backlog may be silent;
/// beyond that, the set-ups of the oldest fail.
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
        // SCIF accepts from all nodes; a socket bound to the loopback address must not.
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
        greeting.fail();
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
