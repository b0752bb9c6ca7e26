//! `getsockopt` and `setsockopt`.

use core::ffi::c_int;

use scif::raw;
use syscall::error::{EINVAL, EISCONN, ENOPROTOOPT};

use crate::Result;
use crate::address::{AF_INET, AF_UNIX};
use crate::options::{IPPROTO_TCP, SOL_SOCKET, int_of, number_bytes};
use crate::socket::{Phase, Socket};
use crate::transfers::{LEVEL, Transfers};

const SOCK_STREAM: c_int = 1;
const SOCK_SEQPACKET: c_int = 5;

const SO_TYPE: c_int = 3;
const SO_ERROR: c_int = 4;
const SO_ACCEPTCONN: c_int = 30;
const SO_PROTOCOL: c_int = 38;
const SO_DOMAIN: c_int = 39;

/// Sets an option.
///
/// # Errors
/// `EINVAL` if `value` is too short; `EDOM`; `ENOPROTOOPT`. At the level of Scheduled Transfers
/// also `EINVAL` for a bad value or a bound socket, and `EISCONN` for a socket that listens,
/// connects or is connected.
pub fn set(number: usize, socket: &Socket, level: c_int, name: c_int, value: &[u8]) -> Result<()> {
    if level == LEVEL && socket.transfers.is_some() {
        return set_of_transfers(number, socket, name, int_of(value)?);
    }
    socket.options.lock().set(level, name, value)
}

fn set_of_transfers(number: usize, socket: &Socket, name: c_int, value: c_int) -> Result<()> {
    if !Transfers::can_set(name) {
        return Err(ENOPROTOOPT);
    }
    let state = socket.state();
    match state.phase {
        Phase::Fresh => {}
        _ => return Err(EISCONN),
    }
    let is_bound = state.bound.is_some() || raw::local(number).is_ok_and(|end| end.port() != 0);
    if is_bound {
        return Err(EINVAL);
    }
    let transfers = socket.transfers.as_ref().ok_or(ENOPROTOOPT)?;
    transfers.lock().set_option(name, value)
}

/// Returns an option's value and how many of its bytes count.
///
/// # Errors
/// `ENOPROTOOPT`; `ENOTCONN` for values that come from the peer of a Scheduled Transfer.
pub fn get(number: usize, socket: &Socket, level: c_int, name: c_int) -> Result<([u8; 16], usize)> {
    let is_for_transfers = socket.transfers.is_some();
    let is_unix = socket.state().is_unix;
    let value = match (level, name) {
        (LEVEL, name) if is_for_transfers => {
            socket.collect(number);
            let transfers = socket.transfers.as_ref().ok_or(ENOPROTOOPT)?;
            transfers.lock().option(number, name)?
        }
        (SOL_SOCKET, SO_TYPE) if is_for_transfers => SOCK_SEQPACKET,
        (SOL_SOCKET, SO_PROTOCOL) if is_for_transfers => LEVEL,
        (SOL_SOCKET, SO_TYPE) => SOCK_STREAM,
        (SOL_SOCKET, SO_DOMAIN) if is_unix => AF_UNIX.into(),
        (SOL_SOCKET, SO_PROTOCOL) if is_unix => 0,
        (SOL_SOCKET, SO_DOMAIN) => AF_INET.into(),
        (SOL_SOCKET, SO_PROTOCOL) => IPPROTO_TCP,
        (SOL_SOCKET, SO_ERROR) => {
            socket.collect(number);
            socket.take_error()
        }
        (SOL_SOCKET, SO_ACCEPTCONN) => (socket.state().phase == Phase::Listening).into(),
        (level, name) => return socket.options.lock().get(level, name),
    };
    Ok(number_bytes(value))
}
