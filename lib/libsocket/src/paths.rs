//! Sockets with a path: makes and reads the files that stand for them, and finds their ports.

use alloc::sync::Arc;

use libredox::flag::O_CLOEXEC;
use runtime::{fd, path};
use scif::raw;
use skiff_libc::linux_names;
use syscall::error::{EADDRINUSE, ECONNREFUSED, EEXIST, EINVAL, EISDIR, ENOENT, EOPNOTSUPP, Error};
use syscall::flag::{MODE_SOCK, MODE_TYPE, O_CREAT, O_EXCL, O_RDWR, O_STAT};

use crate::{Result, errors, local};

/// The paths in the addresses of a socket and of its peer.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The own one, given to `bind`; that of its listener for an accepted socket.
    pub own: Option<Arc<str>>,
    /// The one given to `connect`.
    pub peer: Option<Arc<str>>,
}

/// Ports that are tried before a `bind` gives up: hardly one is in use.
const TRIES: usize = 64;

/// Binds an endpoint to a free port of [`local::PORTS`].
///
/// # Errors
/// `EADDRINUSE`; those of `scif_bind`.
pub fn bind_port(index: usize) -> Result<u16> {
    let mut last = EADDRINUSE;
    for _ in 0..TRIES {
        match raw::bind(index, local::port_of(hal::random::word())) {
            Ok(port) => return Ok(port),
            Err(error) => last = errors::bind(error, false),
        }
        if last != EADDRINUSE {
            break;
        }
    }
    Err(last)
}

/// Opens a file into the upper table, whose numbers the program does not see.
fn open(at: &str, flags: usize) -> Result<usize> {
    path::open_upper(&linux_names::here(at), flags | O_CLOEXEC as usize).map_err(|e| e.errno)
}

/// Makes the file of a socket, and writes the port that `port` gives into it.
///
/// # Errors
/// `EADDRINUSE`: something is there; `EOPNOTSUPP`: the file system holds no sockets; those of
/// making a file, and those of `port`. No file remains.
pub fn make(at: &str, port: impl FnOnce() -> Result<u16>) -> Result<()> {
    // Not every scheme knows `O_EXCL`, and a device must not be opened for use.
    if with_file(at, O_STAT, |_| Ok(())).is_ok() {
        return Err(EADDRINUSE);
    }
    let mode = skiff_libc::made_with(0o777);
    let file = open(at, O_CREAT | O_EXCL | O_RDWR | mode).map_err(|error| match error {
        EEXIST => EADDRINUSE,
        // The path ends with a slash: it names nothing that could be made.
        EISDIR => ENOENT,
        other => other,
    })?;
    let made = fill(file, mode as u16, port);
    // Nothing was buffered.
    let _ = fd::close(file);
    made.inspect_err(|_| {
        // The program needs the first error.
        let _ = path::unlink(&linux_names::here(at), 0);
    })
}

fn fill(file: usize, mode: u16, port: impl FnOnce() -> Result<u16>) -> Result<()> {
    // An error shows in the kind of the file.
    let _ = libredox::call::fchmod(file, MODE_SOCK | mode);
    if !is_socket(file)? {
        return Err(EOPNOTSUPP);
    }
    let content = local::file_of(port()?);
    match fd::write(file, content.as_bytes()).map_err(|error| error.errno)? {
        count if count == content.len() => Ok(()),
        _ => Err(EINVAL),
    }
}

fn is_socket(file: usize) -> Result<bool> {
    let stat = fd::fstat(file).map_err(|error: Error| error.errno)?;
    Ok(stat.st_mode & MODE_TYPE == MODE_SOCK)
}

/// Runs `action` on an open file, and closes it.
fn with_file<T>(at: &str, flags: usize, action: impl FnOnce(usize) -> Result<T>) -> Result<T> {
    let file = open(at, flags)?;
    let result = action(file);
    // Nothing was written.
    let _ = fd::close(file);
    result
}

/// The port of the socket that a file stands for.
///
/// # Errors
/// `ECONNREFUSED`: the file is no socket or says no port; those of opening the file for reading
/// and writing.
pub fn port_at(at: &str) -> Result<u16> {
    // Files of devices may do something when they are opened for use, so this looks first.
    if !with_file(at, O_STAT, is_socket)? {
        return Err(ECONNREFUSED);
    }
    with_file(at, O_RDWR, |file| {
        if !is_socket(file)? {
            return Err(ECONNREFUSED);
        }
        let mut content = [0; local::MOST_FILE_BYTES];
        let count = fd::read_once(file, &mut content).map_err(|error| error.errno)?;
        local::port_in(&content[..count]).ok_or(ECONNREFUSED)
    })
}
