//! Computes the readiness of sockets, for `poll`.

use core::ffi::c_int;

use libscif::table;
use scif::bypass::Bypass;
use scif_abi::flags::Readiness;

use crate::socket::{Phase, Socket};
use crate::transfer::event;
use crate::{Result, greetings, messages};

/// Returns the readiness of a socket: those of `events` that hold, and `ERR` and `HUP`.
///
/// # Errors
/// `EBADF`.
pub fn readiness(number: usize, socket: &Socket, events: c_int) -> Result<c_int> {
    socket.collect(number);
    let state = socket.state();
    let reads = events & (event::IN | event::READ_NORMAL);
    let writes = events & (event::OUT | event::WRITE_NORMAL);
    let wanted = Readiness::IN | Readiness::OUT | Readiness::READ_HUP;
    let found = match state.phase {
        Phase::Connecting(..) => return Ok(0),
        Phase::Fresh if state.error != 0 => return Ok(reads | writes | event::ERR | event::HUP),
        Phase::Fresh => return Ok(writes | event::HUP),
        _ if state.is_read_shut && state.is_write_shut => Readiness::HUP,
        Phase::Listening if socket.transfers.is_some() => {
            let mut found = Readiness::empty();
            found.set(Readiness::IN, greetings::is_ready(number, socket));
            found
        }
        Phase::Listening => {
            let look = |bypass: &Bypass| bypass.readiness_of_listener(number, wanted.bits());
            Readiness::from_bits_truncate(table::with(number, look)?)
        }
        phase => match &socket.transfers {
            Some(_) if phase == Phase::Connected => messages::readiness(socket)?,
            _ => {
                let found = table::with(number, |bypass| bypass.readiness(number, wanted.bits()))?;
                Readiness::from_bits_truncate(found)
            }
        },
    };
    let mut ready = 0;
    if found.contains(Readiness::IN) || state.is_read_shut || !socket.peeked.lock().is_empty() {
        ready |= reads;
    }
    if found.contains(Readiness::OUT) || state.is_write_shut {
        ready |= writes;
    }
    if found.contains(Readiness::READ_HUP) {
        ready |= events & event::READ_HUP;
    }
    // Both directions have ended, as each was shut down by its sender.
    let is_over = found.contains(Readiness::READ_HUP) && state.is_write_shut;
    if found.contains(Readiness::HUP) || is_over {
        // Every call would return at once.
        ready |= reads | writes | event::HUP | events & event::READ_HUP;
    }
    if found.contains(Readiness::ERR) {
        ready |= event::ERR;
    }
    Ok(ready)
}
