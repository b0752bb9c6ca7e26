//! Requests about locks of files, which the event loop answers for a daemon that keeps a table of
//! them.
//!
//! They are Redox's `StdFsCallKind::Lock`, `Unlock` and `GetLock`. Their two arguments are the
//! start and the length of the range. The highest bit of the first one says that the open file
//! owns the lock, not the process; that of the second one says that the lock is exclusive.

use redox_scheme::CallerCtx;
use redox_scheme::scheme::{Op, SchemeResponse};
use syscall::error::{EINVAL, ESRCH, EWOULDBLOCK, Error, Result};
use syscall::flag::StdFsCallKind;

use super::SchemeDaemon;
use crate::locks::{self, Lock, Owner};

/// The highest bit, in both arguments.
const HIGHEST: u64 = 1 << 63;
/// In the second argument of `Lock`: the request is answered when nothing conflicts any more. This
/// is an addition to Redox's calls, which fail in that case.
pub const WAITS: u64 = 1 << 62;

/// A request about locks.
pub(super) struct Request {
    kind: StdFsCallKind,
    handle: usize,
    lock: Result<Lock>,
    /// Whether it waits until nothing conflicts.
    pub waits: bool,
}

/// Reads the request, if it is about locks.
pub(super) fn request(op: &Op, caller: &CallerCtx) -> Option<Request> {
    let Op::StdFsCall(call) = op else {
        return None;
    };
    let &[kind, start, length, ..] = call.metadata() else {
        return None;
    };
    let kind = StdFsCallKind::try_from_raw(kind as u8)?;
    let (length, is_exclusive, waits) = match kind {
        StdFsCallKind::Lock => {
            let waits = length & WAITS != 0;
            (length & !(HIGHEST | WAITS), length & HIGHEST != 0, waits)
        }
        StdFsCallKind::GetLock => (length & !HIGHEST, length & HIGHEST != 0, false),
        StdFsCallKind::Unlock => (length, false, false),
        _ => return None,
    };
    let handle = call.fd();
    let owner = match start & HIGHEST {
        0 => Owner::Process(caller.pid),
        _ => Owner::Opening(handle),
    };
    let lock = locks::bytes(start & !HIGHEST, length).map(|bytes| Lock {
        owner,
        bytes,
        is_exclusive,
    });
    Some(Request {
        kind,
        handle,
        lock,
        waits,
    })
}

/// Answers the request; `EWOULDBLOCK` if a lock conflicts. `GetLock` stores that lock in
/// `payload`.
pub(super) fn serve<S: SchemeDaemon>(
    request: Request,
    payload: &mut [u8],
    scheme: &mut S,
) -> SchemeResponse {
    let result = answer(&request, payload, scheme);
    match (request.kind, request.lock) {
        // Asks the kernel to report when the process closes a descriptor of the file.
        (StdFsCallKind::Lock, Ok(lock)) if result.is_ok() && is_process(lock.owner) => {
            SchemeResponse::RegularAndNotifyOnDetach(result)
        }
        _ => SchemeResponse::Regular(result),
    }
}

fn is_process(owner: Owner) -> bool {
    matches!(owner, Owner::Process(_))
}

fn answer<S: SchemeDaemon>(request: &Request, payload: &mut [u8], scheme: &mut S) -> Result<usize> {
    let (table, file) = scheme.locks(request.handle)?;
    let lock = request.lock.clone()?;
    match request.kind {
        StdFsCallKind::Lock => match table.take(file, lock)? {
            true => Ok(0),
            false => Err(Error::new(EWOULDBLOCK)),
        },
        StdFsCallKind::Unlock => table.release(file, lock.owner, &lock.bytes).map(|()| 0),
        _ => {
            let (start, length) = payload
                .split_at_mut_checked(size_of::<u64>())
                .filter(|(_, length)| length.len() == size_of::<u64>())
                .ok_or(Error::new(EINVAL))?;
            let found = table.in_the_way(file, &lock).ok_or(Error::new(ESRCH))?;
            let found_length = match found.bytes.end {
                u64::MAX => 0,
                end => end - found.bytes.start,
            };
            let exclusive = if found.is_exclusive { HIGHEST } else { 0 };
            start.copy_from_slice(&found.bytes.start.to_ne_bytes());
            length.copy_from_slice(&(found_length | exclusive).to_ne_bytes());
            Ok(match found.owner {
                Owner::Process(pid) => pid,
                Owner::Opening(_) => 0,
            })
        }
    }
}
