//! Process groups and sessions, which the process manager keeps.

use core::ffi::c_int;

use libredox::protocol::ProcCall;
use runtime::{Result, fd, process, state};
use syscall::error::{EINVAL, Error};

use crate::errno;

/// Asks the process manager; `numbers` are the arguments of its protocol.
fn ask(call: ProcCall, numbers: &[u64]) -> Result<c_int> {
    let manager = fd::check(state::proc_fd())?;
    let mut request = [call as u64, 0, 0];
    for (to, from) in request[1..].iter_mut().zip(numbers) {
        *to = *from;
    }
    fd::call(manager, &request[..1 + numbers.len()]).map(|answer| answer as c_int)
}

/// The number of a process or group; `EINVAL` for negative ones.
fn number(value: c_int) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::new(EINVAL))
}

/// Makes the process the leader of a new session and group; returns its number.
#[unsafe(no_mangle)]
extern "C" fn setsid() -> c_int {
    errno::give(ask(ProcCall::Setsid, &[]).map(|_| process::id() as c_int))
}

#[unsafe(no_mangle)]
extern "C" fn getsid(process: c_int) -> c_int {
    errno::give(number(process).and_then(|process| ask(ProcCall::Getsid, &[process])))
}

#[unsafe(no_mangle)]
extern "C" fn setpgid(process: c_int, group: c_int) -> c_int {
    let set = || ask(ProcCall::Setpgid, &[number(process)?, number(group)?]);
    errno::give(set().map(|_| 0))
}

#[unsafe(no_mangle)]
extern "C" fn getpgid(process: c_int) -> c_int {
    /// Asks for the present group instead of setting one.
    const PRESENT: u64 = u64::MAX;
    errno::give(number(process).and_then(|process| ask(ProcCall::Setpgid, &[process, PRESENT])))
}

#[unsafe(no_mangle)]
extern "C" fn getpgrp() -> c_int {
    getpgid(0)
}

/// Makes the process the leader of a new group.
#[unsafe(no_mangle)]
extern "C" fn setpgrp() -> c_int {
    setpgid(0, 0)
}
