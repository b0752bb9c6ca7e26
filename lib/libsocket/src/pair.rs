//! `socketpair`.

use core::ffi::c_int;

use scif::raw;
use scif_abi::PortId;
use scif_abi::flags::{AcceptFlags, Readiness};
use skiff_libc::descriptor;
use syscall::error::{EAFNOSUPPORT, EAGAIN, ECONNREFUSED, EINPROGRESS, EISCONN, EOPNOTSUPP};

use crate::calls::{AF_UNIX, CLOEXEC, NONBLOCK, SOCK_STREAM, give};
use crate::options::Options;
use crate::socket::Place;
use crate::{Result, node, paths};

/// Requests of other programs that may wait besides our own while a pair is made.
const STRANGERS: c_int = 8;

/// `socketpair`. Returns both ends of a connection within the node.
///
/// # Errors
/// `EAFNOSUPPORT`, `EOPNOTSUPP`; those of `socket`, `listen` and `connect`.
pub fn pair(domain: c_int, kind: c_int, protocol: c_int) -> Result<[c_int; 2]> {
    let flags = kind & (NONBLOCK | CLOEXEC);
    match (domain, kind & !flags, protocol) {
        (AF_UNIX, SOCK_STREAM, 0) => {}
        (AF_UNIX, ..) => return Err(EOPNOTSUPP),
        _ => return Err(EAFNOSUPPORT),
    }
    let listener = raw::open()?;
    let result = pair_by(listener);
    // The pair is there, or the reason why not is known: an error of this close changes neither.
    let _ = raw::close(listener);
    let [first, second] = result?;
    let connected = |index| {
        let place = Place::new();
        let place = place.inspect_err(|_| {
            let _ = raw::close(index);
        })?;
        give((place, index), flags, |socket| {
            socket.update(|state| state.is_unix = true);
            socket.connected(Options::default())
        })
    };
    let first = connected(first);
    let second = connected(second);
    match (first, second) {
        (Ok(first), Ok(second)) => Ok([first, second]),
        (first, second) => {
            for number in [first, second].into_iter().flatten() {
                // The caller learns why there is no pair.
                let _ = descriptor::close(number);
            }
            first.and(second).map(|_| [-1; 2])
        }
    }
}

/// Connects an endpoint to a listener that only this call uses. Other programs can find its port,
/// so a connection of theirs that arrives first is closed.
fn pair_by(listener: usize) -> Result<[usize; 2]> {
    // Its port tells a program that inherits an end what family that has.
    let port = paths::bind_port(listener)?;
    raw::listen(listener, STRANGERS)?;
    let first = raw::open()?;
    let connected = connect_own(listener, first, PortId::new(node::own(), port));
    let finish = |second| {
        let mut entry = [raw::PollFd::new(first, Readiness::OUT.bits())];
        raw::poll(&mut entry, None)?;
        match raw::connect(first, PortId::new(node::own(), port)) {
            Ok(_) | Err(EISCONN) => raw::set_nonblocking(first, false).map(|()| second),
            Err(EINPROGRESS) => Err(EAGAIN),
            Err(error) => Err(error),
        }
    };
    match connected {
        Ok(second) => match finish(second) {
            Ok(second) => Ok([first, second]),
            Err(error) => {
                let _ = (raw::close(second), raw::close(first));
                Err(error)
            }
        },
        Err(error) => {
            let _ = raw::close(first);
            Err(error)
        }
    }
}

/// Connects `first` to a listener of the same caller, and accepts that connection. Any program may
/// connect to the listener's port. While such requests fill its backlog, our own request is
/// refused, and an accept that waited for it would never return.
fn connect_own(listener: usize, first: usize, to: PortId) -> Result<usize> {
    raw::set_nonblocking(first, true)?;
    loop {
        let is_refused = match raw::connect(first, to) {
            Ok(_) | Err(EINPROGRESS | EISCONN) => false,
            Err(ECONNREFUSED) => true,
            Err(error) => return Err(error),
        };
        let own = raw::local(first)?;
        loop {
            match raw::accept(listener, AcceptFlags::empty().bits()) {
                Ok((second, peer)) if peer == own => return Ok(second),
                Ok((stranger, _)) => raw::close(stranger)?,
                Err(EAGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        if !is_refused {
            let mut entries = [
                raw::PollFd::new(listener, Readiness::IN.bits()),
                raw::PollFd::new(first, Readiness::OUT.bits()),
            ];
            raw::poll(&mut entries, None)?;
        }
    }
}
