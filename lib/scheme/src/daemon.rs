//! The start of a scheme daemon: socket, name, sandbox.
//!
//! The scheme's name gets into the namespace in one of two ways. A daemon started as a service
//! finds the number of a pipe in its environment variable [`NOTIFY_VARIABLE`]. It sends its
//! scheme's root descriptor over that pipe, and the starter registers the name. Without the
//! variable the daemon registers the name itself. A spawner of drivers, which leaves a channel in
//! another variable ([`hal::pci::CHANNEL_VARIABLE`]), registers no name: it only waits for a byte
//! in the pipe. Nobody forks.

use alloc::rc::Rc;

use libredox::Fd;
use libredox::flag::{O_CLOEXEC, O_RDONLY};
use redox_scheme::Socket;
use redox_scheme::scheme::SchemeSync;
use syscall::error::{EINVAL, Error, Result};
use syscall::flag::CallFlags;

use crate::SchemeLoop;

/// The environment variable that holds the number of the readiness pipe.
pub const NOTIFY_VARIABLE: &str = "INIT_NOTIFY";

/// The environment variable that holds the number of the lease's pipe ([`Lease`]), for a daemon
/// whose predecessor's memory is kept.
pub const LEASE_VARIABLE: &str = "INIT_LEASE";

/// Whether reading requests waits for them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Mode {
    /// The socket is the only event source: [`SchemeLoop::run`].
    Blocking,
    /// The socket is one source of an event queue: [`SchemeLoop::poll`].
    EventDriven,
}

/// Creates the scheme `name` with the root handle `scheme.scheme_root()`, makes it known, and
/// returns its event loop. `notify` is the value of [`NOTIFY_VARIABLE`], if it is set.
///
/// Open everything that needs paths (devices, memory, event queue, log) before [`seal`]. Requests
/// wait until the loop runs, so the name may be made known first or last.
///
/// # Errors
/// `EACCES` for callers without the right to create schemes, `EEXIST` when the name is taken,
/// `EINVAL` when `notify` is no number.
pub fn start<S: SchemeSync>(
    name: &str,
    mode: Mode,
    notify: Option<&str>,
    scheme: &mut S,
) -> Result<SchemeLoop> {
    let blocking = mode == Mode::Blocking;
    let socket = Rc::new(if blocking {
        Socket::create()?
    } else {
        Socket::nonblock()?
    });
    announce(&socket, name, notify, scheme)?;
    Ok(SchemeLoop::new(socket, blocking))
}

/// The second half of [`start`], for daemons that have made their socket themselves.
///
/// # Errors
/// `EACCES` for callers without the right to register names, `EEXIST` when the name is taken,
/// `EINVAL` when `notify` is no number; those of the scheme's root, the socket and the pipe.
pub fn announce<S: SchemeSync>(
    socket: &Socket,
    name: &str,
    notify: Option<&str>,
    scheme: &mut S,
) -> Result<()> {
    let root = scheme.scheme_root()?;
    let Some(notify) = notify else {
        return redox_scheme::scheme::register_scheme_inner(socket, name, root);
    };
    let pipe = notify_pipe(notify)?;
    let root = socket.create_this_scheme_fd(0, root, 0, 0)?;
    pipe.call_wo(&root.to_ne_bytes(), CallFlags::FD, &[])?;
    // The descriptor has moved to the receiver; this close ends the library's record of it.
    let _ = libredox::call::close(root);
    Ok(())
}

/// Reports to the starter of a daemon without a scheme that the daemon is ready.
///
/// # Errors
/// `EINVAL` when `notify` is no number, or an error of the pipe.
pub fn notify_ready(notify: Option<&str>) -> Result<()> {
    if let Some(notify) = notify {
        notify_pipe(notify)?.write(&[0])?;
    }
    Ok(())
}

/// The memory of earlier processes of this daemon that have ended. The starter keeps it as long as
/// other machines may still store into it, and only the successor can tell how long that is.
pub struct Lease {
    pipe: Option<Fd>,
}

impl Lease {
    /// The lease of this process; `pipe` is the value of [`LEASE_VARIABLE`], if it is set.
    ///
    /// # Errors
    /// `EINVAL` when `pipe` is no number.
    pub fn inherited(pipe: Option<&str>) -> Result<Self> {
        Ok(Self {
            pipe: pipe.map(notify_pipe).transpose()?,
        })
    }

    /// Whether memory is kept.
    pub fn is_held(&self) -> bool {
        self.pipe.is_some()
    }

    /// Gives the memory free: no peer reaches it any more.
    ///
    /// # Errors
    /// Those of the pipe. The memory then stays until this process ends, and longer.
    pub fn give_free(&mut self) -> Result<()> {
        if let Some(pipe) = self.pipe.take() {
            pipe.write(&[0])?;
        }
        Ok(())
    }
}

/// Whether a scheme already has a daemon that answers; `file` is a file of the scheme.
pub fn is_served(file: &str) -> bool {
    Fd::open(file, O_RDONLY | O_CLOEXEC, 0).is_ok()
}

/// Gives up the namespace: from here on the daemon reaches only what it has opened.
///
/// # Errors
/// Those of making the empty namespace: `EMFILE`, `ENOMEM`, or there is none to leave.
pub fn seal() -> Result<()> {
    libredox::call::setrens(0, 0)?;
    Ok(())
}

/// The readiness pipe. Dropping it closes it, so the starter sees its end.
fn notify_pipe(notify: &str) -> Result<Fd> {
    notify
        .trim()
        .parse()
        .map(Fd::new)
        .map_err(|_| Error::new(EINVAL))
}
