//! `sys/wait.h`: waits for the ends of children.

use core::ffi::{c_int, c_uint};

use runtime::process::{self, ExitStatus};
use runtime::{Error, Result};
use syscall::error::{ECHILD, EINVAL};

use crate::handlers::{Information, Origin, SIGCHLD};
use crate::usage::Usage;
use crate::{children, errno, points};

const WNOHANG: c_int = 1;

/// Waits for a child: by its number, any child (-1), any of the own group (0) or any of a group
/// (`-group`). `None`: none has ended yet.
fn wait_for(process: c_int, options: c_int) -> Result<Option<(u32, ExitStatus)>> {
    let polls = options & WNOHANG != 0;
    let ended = points::interruptible(|| match process {
        -1 => process::wait_pid_once(0, polls),
        1.. => process::wait_pid_once(process as u32, polls),
        // The own group is 0 for the process manager, too.
        _ => process::wait_group_once(process.unsigned_abs(), polls),
    })?;
    if let Some((child, _)) = ended {
        children::ended(child);
    }
    Ok(ended)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn waitpid(process: c_int, status: *mut c_int, options: c_int) -> c_int {
    match wait_for(process, options) {
        Ok(Some((process, end))) => {
            if !status.is_null() {
                // SAFETY: the caller's place for a number.
                unsafe { *status = end.into_raw() };
            }
            process as c_int
        }
        Ok(None) => 0,
        Err(error) => errno::fail(error.errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait(status: *mut c_int) -> c_int {
    // SAFETY: the same contract.
    unsafe { waitpid(-1, status, 0) }
}

/// As `waitpid`. What the child has used is unknown.
#[unsafe(no_mangle)]
unsafe extern "C" fn wait4(
    process: c_int,
    status: *mut c_int,
    options: c_int,
    used: *mut Usage,
) -> c_int {
    // SAFETY: the same contract.
    let child = unsafe { waitpid(process, status, options) };
    if child > 0 && !used.is_null() {
        // SAFETY: the caller's place for the structure.
        unsafe { used.write(Usage::default()) };
    }
    child
}

#[unsafe(no_mangle)]
unsafe extern "C" fn wait3(status: *mut c_int, options: c_int, used: *mut Usage) -> c_int {
    // SAFETY: the same contract.
    unsafe { wait4(-1, status, options, used) }
}

/// The number that `waitpid` takes for the children that `waitid` names.
fn target(kind: c_int, id: c_uint) -> Result<c_int> {
    const ALL: c_int = 0;
    const PROCESS: c_int = 1;
    const GROUP: c_int = 2;
    let id = c_int::try_from(id).ok();
    match (kind, id) {
        (ALL, _) => Ok(-1),
        (PROCESS, Some(1..)) => Ok(id.unwrap_or_default()),
        (GROUP, Some(0)) => Ok(0),
        // The group of init, whose negated number stands for all children.
        (GROUP, Some(1)) => Err(Error::new(ECHILD)),
        (GROUP, Some(id)) => Ok(-id),
        _ => Err(Error::new(EINVAL)),
    }
}

/// Stores how a child has ended; with `WNOHANG`, and if none has, number 0 and child 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn waitid(
    kind: c_int,
    id: c_uint,
    place: *mut Information,
    options: c_int,
) -> c_int {
    const WSTOPPED: c_int = 2;
    const WEXITED: c_int = 4;
    const WCONTINUED: c_int = 8;
    // `WNOWAIT` would leave the child to wait for, which the process manager does not.
    let is_known = options & !(WNOHANG | WSTOPPED | WEXITED | WCONTINUED) == 0;
    let ended = match is_known && options & WEXITED != 0 {
        true => target(kind, id).and_then(|process| wait_for(process, options)),
        false => Err(Error::new(EINVAL)),
    };
    errno::done(ended.map(|ended| {
        let information = match ended {
            Some((child, end)) => {
                let user = process::own_meta().ruid;
                Origin::child(child as c_int, user, end.into_raw()).information(SIGCHLD)
            }
            None => Origin::process(0, 0).information(0),
        };
        if !place.is_null() {
            // SAFETY: the caller's place for the structure.
            unsafe { place.write(information) };
        }
    }))
}
