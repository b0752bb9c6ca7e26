//! The user and group ids of processes.

use libredox::protocol::ProcCall;
use syscall::error::Result;

use crate::{fd, state};

/// Sets all user and group ids of the process behind a process descriptor; `None` keeps them.
pub fn set_ids(process: usize, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    set_each(process, [uid; 3], [gid; 3])
}

/// Sets the effective ids of this process; `None` keeps them. Who is not root can choose among the
/// real, effective and saved one.
pub fn set_effective_ids(uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    let own = fd::check(state::proc_fd())?;
    set_each(own, [None, uid, None], [None, gid, None])
}

/// Sets the real, effective and saved ids.
fn set_each(process: usize, users: [Option<u32>; 3], groups: [Option<u32>; 3]) -> Result<()> {
    let mut payload = [0; 24];
    let ids = users.into_iter().chain(groups);
    for (bytes, id) in payload.chunks_exact_mut(4).zip(ids) {
        let id = id.unwrap_or(u32::MAX);
        bytes.copy_from_slice(&id.to_ne_bytes());
    }
    fd::call_rw(process, &mut payload, &[ProcCall::SetResugid as u64]).map(|_| ())
}

/// Sets all user and group ids of this process (only root may change them).
pub fn set_own_ids(uid: u32, gid: u32) -> Result<()> {
    set_ids(fd::check(state::proc_fd())?, Some(uid), Some(gid))
}
