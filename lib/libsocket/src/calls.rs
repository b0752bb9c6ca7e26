//! Creates, names, connects and shuts down sockets.

use alloc::string::String;
use core::ffi::c_int;
use core::time::Duration;

use runtime::time::Instant;
use scif::raw;
use scif_abi::flags::{AcceptFlags, Readiness};
use scif_abi::{Port, PortId};
use syscall::error::{
    EADDRNOTAVAIL, EAFNOSUPPORT, EAGAIN, EALREADY, EBADF, ECONNREFUSED, EINPROGRESS, EINVAL,
    EISCONN, ENETUNREACH, ENOTCONN, EOPNOTSUPP, EPROTONOSUPPORT, EPROTOTYPE,
};

use crate::address::{self, AF_INET, Address};
use crate::paths::Paths;
use crate::socket::{self, Phase, Place, Socket};
use crate::transfer::{self, Waiting};
use crate::transfers::Transfers;
use crate::{Result, errors, greetings, lingering, messages, node, paths, transfers};

const AF_UNSPEC: u16 = 0;
/// C's `AF_UNIX`.
pub const AF_UNIX: c_int = address::AF_UNIX as c_int;
/// C's `SOCK_STREAM`.
pub const SOCK_STREAM: c_int = 1;
const SOCK_SEQPACKET: c_int = 5;
/// `SOCK_NONBLOCK`, relibc's number.
pub const NONBLOCK: c_int = 0o4_000;
/// `SOCK_CLOEXEC`, relibc's number.
pub const CLOEXEC: c_int = 0o2_000_000;
const IPPROTO_TCP: c_int = 6;
/// `ESOCKTNOSUPPORT`, which the system does not have.
const ESOCKTNOSUPPORT: i32 = 94;

/// A thread that waits in `accept` checks after this time whether the listener is still open.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Limit of the backlog: SCIF's backlog of a path.
const MOST_WAITING: c_int = 128;

const SHUT_RD: c_int = 0;
const SHUT_WR: c_int = 1;
const SHUT_RDWR: c_int = 2;

/// `socket`.
///
/// # Errors
/// `EAFNOSUPPORT`, `EPROTONOSUPPORT`, `EPROTOTYPE`, `ESOCKTNOSUPPORT`; those of `scif_open`.
pub fn socket(domain: c_int, kind: c_int, protocol: c_int) -> Result<c_int> {
    let flags = kind & (NONBLOCK | CLOEXEC);
    let is_unix = match domain {
        AF_UNIX => true,
        domain if domain == c_int::from(AF_INET) => false,
        _ => return Err(EAFNOSUPPORT),
    };
    let has_transfers = match (kind & !flags, protocol) {
        (SOCK_STREAM, 0) => false,
        (SOCK_STREAM, AF_UNIX) if is_unix => false,
        (SOCK_STREAM, _) if is_unix => return Err(EPROTONOSUPPORT),
        _ if is_unix => return Err(ESOCKTNOSUPPORT),
        (SOCK_STREAM, IPPROTO_TCP) => false,
        (SOCK_SEQPACKET, 0 | transfers::LEVEL) => true,
        (_, transfers::LEVEL) => return Err(EPROTOTYPE),
        (SOCK_STREAM | SOCK_SEQPACKET, _) => return Err(EPROTONOSUPPORT),
        _ => return Err(ESOCKTNOSUPPORT),
    };
    let place = Place::new()?;
    give((place, raw::open()?), flags, |socket| {
        socket.update(|state| state.is_unix = is_unix);
        match has_transfers {
            true => socket.with_transfers(Transfers::default()),
            false => socket,
        }
    })
}

/// Makes a socket for an endpoint and opens it for C, with flags of `socket` or `accept4`.
pub fn give(
    (place, index): (Place, usize),
    flags: c_int,
    kind: impl FnOnce(Socket) -> Socket,
) -> Result<c_int> {
    let is_nonblocking = flags & NONBLOCK != 0;
    let prepared = Socket::new(place, index).and_then(|socket| {
        if is_nonblocking {
            raw::set_nonblocking(index, true)?;
        }
        Ok(kind(socket))
    });
    match prepared {
        Ok(socket) => {
            socket.set_nonblocking(is_nonblocking);
            Ok(socket::opened(index, socket, flags & CLOEXEC != 0))
        }
        Err(error) => {
            // The caller needs the first error.
            let _ = raw::close(index);
            Err(error)
        }
    }
}

/// An address that a program passes.
pub enum Name {
    /// An address of a node, and its family.
    Inet(u16, Address),
    /// The path of a file, of the family `AF_UNIX`.
    Path(String),
}

/// `bind`.
///
/// # Errors
/// `EACCES`, `EADDRINUSE`, `EADDRNOTAVAIL`, `EAFNOSUPPORT`, `EBADF`, `EINVAL`, `ENOTSOCK`; those
/// of making the file of a path.
pub fn bind(number: c_int, name: Name) -> Result<()> {
    let (index, socket) = socket::find(number)?;
    let (family, to) = match name {
        Name::Path(path) if socket.state().is_unix => return bind_path(index, &socket, &path),
        Name::Path(_) => return Err(EAFNOSUPPORT),
        Name::Inet(..) if socket.state().is_unix => return Err(EINVAL),
        Name::Inet(family, to) => (family, to),
    };
    // As on Linux: programs omit the family with the all-zero address.
    let is_any = family == AF_UNSPEC && to.host == address::ANY;
    if family != AF_INET && !is_any {
        return Err(EAFNOSUPPORT);
    }
    let own = node::own();
    if address::node_of(to.host, own) != Some(own) {
        return Err(EADDRNOTAVAIL);
    }
    let was_bound = socket.state().bound.is_some() || has_port(index);
    raw::bind(index, to.port).map_err(|error| errors::bind(error, was_bound))?;
    socket.update(|state| state.bound = Some(to.host));
    Ok(())
}

/// `bind` to a path: makes the file there.
fn bind_path(index: usize, socket: &Socket, path: &str) -> Result<()> {
    let is_bound = socket.paths.lock().own.is_some();
    if is_bound || socket.state().phase != Phase::Fresh {
        return Err(EINVAL);
    }
    paths::make(path, || match raw::local(index)?.port() {
        0 => paths::bind_port(index),
        // A `connect` or a `bind` that failed has taken it.
        port => Ok(port),
    })?;
    socket.paths.lock().own = Some(path.into());
    Ok(())
}

fn has_port(index: usize) -> bool {
    raw::local(index).is_ok_and(|local| local.port() != 0)
}

/// `listen`. A backlog below 1 counts as 1.
///
/// # Errors
/// `EBADF`, `EINVAL` connected, `ENOTSOCK`; those of `bind` for a socket without a port.
pub fn listen(number: c_int, backlog: c_int) -> Result<()> {
    let (index, socket) = socket::find(number)?;
    socket.collect(index);
    match socket.state().phase {
        Phase::Fresh => {}
        // The backlog does not change.
        Phase::Listening => return Ok(()),
        _ => return Err(EINVAL),
    }
    if socket.state().is_unix && socket.paths.lock().own.is_none() {
        return Err(EINVAL);
    }
    if !has_port(index) {
        raw::bind(index, 0).map_err(|error| errors::bind(error, false))?;
    }
    let backlog = backlog.clamp(1, MOST_WAITING);
    // As with TCP, a client of a stream need not wait until the server accepts. One of Scheduled
    // Transfers waits for the server's parameters in any case.
    let listening = match socket.transfers {
        None => raw::listen_granting(index, backlog),
        Some(_) => raw::listen(index, backlog),
    };
    listening.map_err(|error| match error {
        EISCONN => EINVAL,
        other => other,
    })?;
    socket.update(|state| {
        state.phase = Phase::Listening;
        state.backlog = backlog as usize;
    });
    Ok(())
}

/// Returns the flags that `accept` gives a connection. It inherits `O_NONBLOCK` from its listener,
/// as on the BSDs and on Redox, whose kernel copies a descriptor's flags. Rust programs rely on
/// that: on Redox they do not set it themselves.
pub fn flags_of_accept(number: c_int) -> c_int {
    match socket::find(number) {
        Ok((_, listener)) if listener.is_nonblocking() => NONBLOCK,
        _ => 0,
    }
}

/// `accept4`. Returns the new descriptor and the peer.
///
/// # Errors
/// `EAGAIN`, `EBADF`, `ECONNABORTED`, `EINTR`, `EINVAL` not listening, `EMFILE`, `ENOMEM`,
/// `ENOTSOCK`, `EPROTO`.
pub fn accept(number: c_int, flags: c_int) -> Result<(c_int, Address)> {
    if flags & !(NONBLOCK | CLOEXEC) != 0 {
        return Err(EINVAL);
    }
    let (index, socket) = socket::find(number)?;
    let state = socket.state();
    if state.phase != Phase::Listening {
        return Err(EINVAL);
    }
    if socket.transfers.is_some() {
        return accept_set_up(index, &socket, flags);
    }
    let limit = socket.options.lock().receive_limit;
    let waiting = Waiting::new(&socket, 0, limit);
    loop {
        let place = Place::new()?;
        let (new, peer) = match raw::accept(index, AcceptFlags::empty().bits()) {
            Ok(accepted) => accepted,
            Err(EAGAIN) => {
                drop(place);
                wait_beside_close(waiting, &socket, |part| part.wait_for_request(index))?;
                continue;
            }
            Err(error) => return Err(ended(&socket).unwrap_or_else(|| errors::accept(error))),
        };
        // SCIF accepts from all nodes; a socket with a path or bound to the loopback address must
        // not.
        let is_local_only = state.bound.is_some_and(address::is_loopback);
        if (is_local_only || state.is_unix) && peer.node() != node::own() {
            raw::close(new)?;
            continue;
        }
        wait_as_told(new, &socket, flags)?;
        let options = socket.options.lock().clone();
        let number = give((place, new), flags, |accepted| {
            accepted.update(|accepted| {
                accepted.is_local = is_local_only;
                accepted.is_unix = state.is_unix;
            });
            accepted.paths.lock().own = socket.paths.lock().own.clone();
            accepted.connected(options)
        })?;
        return Ok((number, address_of(peer, is_local_only)));
    }
}

/// Clears the `O_NONBLOCK` that the kernel copies from a listener to its connection, unless the
/// flags of `accept4` contain it.
fn wait_as_told(new: usize, listener: &Socket, flags: c_int) -> Result<()> {
    if !listener.is_nonblocking() || flags & NONBLOCK != 0 {
        return Ok(());
    }
    raw::set_nonblocking(new, false).inspect_err(|_| {
        // The caller needs the first error.
        let _ = raw::close(new);
    })
}

/// Waits in an `accept`, for at most [`LONGEST_WAIT`] at a time: no event reports that another
/// thread has closed a listener which other processes still have open.
fn wait_beside_close(
    waiting: Waiting,
    listener: &Socket,
    wait: impl FnOnce(Waiting) -> Result<()>,
) -> Result<()> {
    if let Some(error) = ended(listener) {
        return Err(error);
    }
    match wait(waiting.at_most(LONGEST_WAIT)) {
        Err(EAGAIN) if !waiting.is_over() => Ok(()),
        result => result.map_err(|error| ended(listener).unwrap_or(error)),
    }
}

/// Returns the error of an `accept` whose listener another thread has closed or shut down,
/// whatever error the layer below reports.
fn ended(listener: &Socket) -> Option<i32> {
    match listener.state() {
        state if state.is_closed => Some(EBADF),
        state if state.is_read_shut => Some(EINVAL),
        _ => None,
    }
}

/// `accept4` of Scheduled Transfers: takes the first connection whose set-up is complete.
fn accept_set_up(index: usize, listener: &Socket, flags: c_int) -> Result<(c_int, Address)> {
    let limit = listener.options.lock().receive_limit;
    let waiting = Waiting::new(listener, 0, limit);
    loop {
        let place = Place::new()?;
        let next = greetings::next(index, listener);
        match next {
            Ok(accepted) => {
                let options = listener.options.lock().clone();
                let chosen = listener.transfers.as_ref().ok_or(EINVAL)?;
                let transfers = chosen.lock().inherited();
                let file = (place, accepted.file.into_raw());
                wait_as_told(file.1, listener, flags)?;
                let number = give(file, flags, |socket| {
                    let socket = socket.connected(options).with_transfers(transfers);
                    socket.set_established(accepted.established);
                    socket
                })?;
                return Ok((number, address_of(accepted.peer, false)));
            }
            Err(EAGAIN) => drop(place),
            Err(error) => return Err(ended(listener).unwrap_or(error)),
        }
        wait_beside_close(waiting, listener, |part| {
            wait_for_set_up(index, listener, part)
        })?;
    }
}

/// Waits until a connection is set up, or until the set of descriptors to watch has changed.
fn wait_for_set_up(index: usize, listener: &Socket, waiting: Waiting) -> Result<()> {
    let mut watched = alloc::vec![index];
    watched.extend(greetings::descriptors(listener));
    waiting.wait(&watched, Readiness::IN, || {
        greetings::is_ready(index, listener) || greetings::descriptors(listener) != watched[1..]
    })
}

/// Returns the address of an end of a connection; `is_local` if it was made by 127.0.0.1.
fn address_of(end: PortId, is_local: bool) -> Address {
    let host = match is_local {
        true => address::LOOPBACK,
        false => address::of_node(end.node()),
    };
    let port = end.port();
    Address { host, port }
}

/// `connect`. A call that stops waiting, for a signal or because `SO_SNDTIMEO` is over, leaves the
/// connect under way: the next call waits for it again, as on Linux.
///
/// # Errors
/// `EADDRNOTAVAIL`, `EAFNOSUPPORT`, `EALREADY`, `EBADF`, `ECONNREFUSED`, `EHOSTUNREACH`,
/// `EINPROGRESS` not waiting, or the limit is over, `EINTR`, `EISCONN`, `ENETUNREACH`, `ENOTSOCK`,
/// `EOPNOTSUPP` listening, `ETIMEDOUT`.
pub fn connect(number: c_int, name: &Name) -> Result<()> {
    let (index, socket) = socket::find(number)?;
    let is_unix = socket.state().is_unix;
    match name {
        _ if is_unix => {}
        Name::Inet(AF_INET, _) => {}
        _ => return Err(EAFNOSUPPORT),
    }
    let limit = socket.options.lock().send_limit;
    let waiting = Waiting::new(&socket, 0, limit);
    let was_connecting = matches!(socket.state().phase, Phase::Connecting(..));
    socket.collect(index);
    match socket.state().phase {
        Phase::Connecting(..) => return wait_for_connect(index, &socket, waiting, EALREADY),
        Phase::Listening => return Err(EOPNOTSUPP),
        Phase::Connected if was_connecting => return Ok(()),
        Phase::Connected => return Err(EISCONN),
        Phase::Fresh => {}
    }
    match socket.take_error() {
        0 => {}
        error if was_connecting => return Err(error),
        // The program never read this error; this is another attempt.
        _ => {}
    }
    let (peer, is_local) = match name {
        Name::Path(path) => {
            let peer = PortId::new(node::own(), paths::port_at(path)?);
            // A `bind` that may follow if this fails needs a port of the range, too.
            if !has_port(index) {
                paths::bind_port(index)?;
            }
            socket.paths.lock().peer = Some(path.as_str().into());
            (peer, false)
        }
        // That the socket is connected comes first.
        Name::Inet(..) if is_unix => return Err(EINVAL),
        Name::Inet(_, to) => {
            let node = address::node_of(to.host, node::own()).ok_or(ENETUNREACH)?;
            let is_local = to.host == address::ANY || address::is_loopback(to.host);
            (PortId::new(node, to.port), is_local)
        }
    };
    if peer.port() == 0 {
        return Err(ECONNREFUSED);
    }
    socket.update(|state| state.is_local = is_local);
    let since = Instant::now();
    match begin_connect(index, &socket, peer) {
        Ok(_) => {
            let established = socket.establish(index).ok_or(EALREADY)?;
            established.map_err(|error| match socket.state().is_closed {
                true => EBADF,
                false => error,
            })?;
            socket.update(|state| state.phase = Phase::Connected);
            Ok(())
        }
        Err(EINPROGRESS) => {
            socket.update(|state| state.phase = Phase::Connecting(peer, since));
            wait_for_connect(index, &socket, waiting, EINPROGRESS)
        }
        Err(error) => Err(errors::connect(error, since.elapsed())),
    }
}

/// Begins a connect, and does not wait for its end: in the driver, a signal would give up a wait,
/// and nothing would limit it.
fn begin_connect(index: usize, socket: &Socket, peer: PortId) -> Result<Port> {
    if socket.is_nonblocking() {
        return raw::connect(index, peer);
    }
    raw::set_nonblocking(index, true)?;
    let begun = raw::connect(index, peer);
    // The program may have changed the flag meanwhile.
    raw::set_nonblocking(index, socket.is_nonblocking())?;
    begun
}

/// Waits until a connect that is under way has ended. `over`: the error when the waiting
/// ends first.
///
/// # Errors
/// Those of [`connect`].
fn wait_for_connect(index: usize, socket: &Socket, waiting: Waiting, over: i32) -> Result<()> {
    if matches!(waiting, Waiting::No) {
        return Err(over);
    }
    match transfer::wait_for_connection(index, socket, waiting) {
        Ok(_) => Ok(()),
        Err(_) if socket.state().is_closed => Err(EBADF),
        Err(EAGAIN) => Err(over),
        Err(error) => Err(error),
    }
}

/// The paths of a socket whose family is `AF_UNIX`; `None` for other sockets.
pub fn paths_of(number: c_int) -> Option<Paths> {
    let (_, socket) = socket::find(number).ok()?;
    socket.state().is_unix.then(|| socket.paths.lock().clone())
}

/// `getsockname`.
///
/// # Errors
/// `EBADF`, `ENOTSOCK`.
pub fn local(number: c_int) -> Result<Address> {
    let (index, socket) = socket::find(number)?;
    socket.collect(index);
    let local = raw::local(index)?;
    let state = socket.state();
    if matches!(state.phase, Phase::Connecting(..) | Phase::Connected) {
        return Ok(address_of(local, state.is_local));
    }
    let host = state.bound.unwrap_or(address::ANY);
    let port = local.port();
    Ok(Address { host, port })
}

/// `getpeername`.
///
/// # Errors
/// `EBADF`, `ENOTCONN`, `ENOTSOCK`.
pub fn peer(number: c_int) -> Result<Address> {
    let (index, socket) = socket::find(number)?;
    socket.collect(index);
    let state = socket.state();
    if state.phase != Phase::Connected {
        return Err(ENOTCONN);
    }
    let peer = raw::peer(index).map_err(|_| ENOTCONN)?;
    Ok(address_of(peer, state.is_local))
}

/// `shutdown`. After `SHUT_WR`, the peer reads to the end of the data and may still send. A peer
/// node that has only the base protocol notices the end once both directions are shut down.
///
/// # Errors
/// `EBADF`, `EINVAL`, `ENOTCONN`, `ENOTSOCK`.
pub fn shutdown(number: c_int, how: c_int) -> Result<()> {
    let (index, socket) = socket::find(number)?;
    if !(SHUT_RD..=SHUT_RDWR).contains(&how) {
        return Err(EINVAL);
    }
    socket.collect(index);
    let phase = socket.state().phase;
    if !matches!(phase, Phase::Connected | Phase::Listening) {
        return Err(ENOTCONN);
    }
    let sends = phase == Phase::Connected && !socket.state().is_write_shut;
    let finishes = how == SHUT_WR && sends && socket.transfers.is_none();
    let mut is_over = false;
    socket.update(|state| {
        let was_over = state.is_read_shut && state.is_write_shut;
        state.is_read_shut |= how != SHUT_WR;
        state.is_write_shut |= how != SHUT_RD;
        is_over = !was_over && state.is_read_shut && state.is_write_shut;
    });
    if how != SHUT_RD && sends && socket.transfers.is_some() {
        messages::end(&socket);
        lingering::send_rest(&socket);
    }
    if is_over || phase == Phase::Listening && how != SHUT_WR {
        match lingering::is_under_way(&socket) {
            false => socket.end_endpoint(),
            // The remaining data is still sent, but threads that sleep in a receive wake up.
            true => drop(raw::finish_receiving(index)),
        }
        return Ok(());
    }
    if finishes {
        // An error does not matter: the peer has gone, or its base protocol has no such message.
        let _ = raw::finish(index);
    }
    // The bypass of Scheduled Transfers shares the endpoint and continues to receive.
    if phase == Phase::Connected && how != SHUT_WR && !socket.has_link() {
        // Other threads may sleep in a receive. An error does not matter: if the peer has gone,
        // their receives end anyway.
        let _ = raw::finish_receiving(index);
    }
    Ok(())
}
