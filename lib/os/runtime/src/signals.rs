//! Signals to and from other processes. The process manager ends a process by each, or drops
//! them, unless the process catches or ignores them. What is caught waits there until the process
//! fetches it.

use core::sync::atomic::{AtomicUsize, Ordering};

use libredox::Fd;
use libredox::protocol::ProcCall;
use syscall::error::{EIO, ENOSYS, Error, Result};

use crate::sys::NO_FD;
use crate::{fd, state};

/// The descriptor of the signals of this process, once it has chosen.
static HANDLE: AtomicUsize = AtomicUsize::new(NO_FD);

/// What signals do to this process. Signal n is bit n - 1 of a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Signals that wait until the process fetches them.
    pub caught: u64,
    /// Signals that have no effect.
    pub ignored: u64,
}

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The signal.
    pub number: u32,
    /// The process that has sent it, or that has ended (SIGCHLD).
    pub process: u32,
    /// The user of that process.
    pub user: u32,
    /// The status with which that process has ended, if that is why the signal was sent.
    pub status: Option<u32>,
}

/// Opens the signals of this process.
fn open() -> Result<usize> {
    match HANDLE.load(Ordering::Acquire) {
        NO_FD => {}
        handle => return Ok(handle),
    }
    let handle = fd::dup_upper(fd::check(state::proc_fd())?, b"signals")?;
    match HANDLE.compare_exchange(NO_FD, handle, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(handle),
        Err(other) => {
            fd::close(handle)?;
            Ok(other)
        }
    }
}

/// Calls of the process manager.
const ASK: u64 = 0;
const CHOOSE: u64 = 1;

fn exchange(request: &[u64]) -> Result<Choice> {
    exchange_at(open()?, request)
}

/// Makes a call on the signals of any process.
fn exchange_at(handle: usize, request: &[u64]) -> Result<Choice> {
    let mut former = [[0; 8]; 2];
    let count = fd::call_rw(handle, former.as_flattened_mut(), request)?;
    match count == size_of_val(&former) {
        true => Ok(Choice {
            caught: u64::from_ne_bytes(former[0]),
            ignored: u64::from_ne_bytes(former[1]),
        }),
        false => Err(Error::new(EIO)),
    }
}

/// The present choice: that of the parent, or of the program before an `exec`, at first.
///
/// # Errors
/// Those of the process manager; Redox's has no such calls.
pub fn choice() -> Result<Choice> {
    exchange(&[ASK])
}

/// Chooses anew. Returns the former choice.
///
/// # Errors
/// Those of [`choice`].
pub fn choose(choice: Choice) -> Result<Choice> {
    exchange(&[CHOOSE, choice.caught, choice.ignored])
}

/// Catches nothing any more, if this process has caught anything: before its end by a signal, and
/// before another program takes its place. Returns the former choice.
pub fn give_up() -> Option<Choice> {
    if HANDLE.load(Ordering::Acquire) == NO_FD {
        return None;
    }
    let former = choice().ok()?;
    choose(Choice {
        caught: 0,
        ..former
    })
    .ok()
}

/// Waits for a signal that is caught. `None`: this process catches none any more.
///
/// # Errors
/// `ENOSYS`: this process has chosen nothing. Those of the process manager.
pub fn fetch() -> Result<Option<Arrival>> {
    let handle = HANDLE.load(Ordering::Acquire);
    if handle == NO_FD {
        return Err(Error::new(ENOSYS));
    }
    let mut bytes = [[0; 4]; 4];
    if fd::read(handle, bytes.as_flattened_mut())? == 0 {
        return Ok(None);
    }
    let [number, process, user, status] = bytes.map(u32::from_ne_bytes);
    Ok(Some(Arrival {
        number,
        process,
        user,
        status: (status != u32::MAX).then_some(status),
    }))
}

/// Sends a signal to a process, to a group (its number negated), to the own group (0), or to all
/// processes but init and the own one (-1).
///
/// # Errors
/// `EINVAL`: no such signal, or one that would stop a process. `ESRCH`: there is no such process.
/// `EPERM`.
pub fn send(target: isize, signal: u32) -> Result<()> {
    let request = [ProcCall::Kill as u64, target as u64, u64::from(signal)];
    fd::call(state::proc_fd(), &request).map(|_| ())
}

/// Makes a process that has not started yet ignore none of these signals, some of which its parent
/// may ignore. A process manager without such calls lets no process ignore any.
///
/// # Errors
/// Those of the process manager.
pub(crate) fn stop_ignoring(process: usize, signals: u64) -> Result<()> {
    let Ok(handle) = fd::dup_upper(process, b"signals") else {
        return Ok(());
    };
    let handle = Fd::new(handle);
    let former = exchange_at(handle.raw(), &[ASK])?;
    let ignored = former.ignored & !signals;
    exchange_at(handle.raw(), &[CHOOSE, former.caught, ignored]).map(|_| ())
}

/// What to ask the process manager for when this process is forked: a child that catches what this
/// process does, if it has chosen.
pub(crate) fn fork_name() -> &'static [u8] {
    match HANDLE.load(Ordering::Acquire) {
        NO_FD => b"fork",
        _ => b"fork-signals",
    }
}

/// Called in the child of a fork, which has a copy of the parent's descriptor.
pub fn forked() {
    let copy = HANDLE.swap(NO_FD, Ordering::AcqRel);
    if copy != NO_FD {
        let _ = fd::close(copy);
    }
}
