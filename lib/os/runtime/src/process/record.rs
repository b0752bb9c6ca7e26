//! The process manager's record of a process: its numbers, users and groups.

use libredox::protocol::ProcMeta;
use syscall::error::{EINVAL, Error, Result};

use crate::{fd, state};

/// Reads the process manager's record of the process behind a process descriptor.
pub fn meta(process: usize) -> Result<ProcMeta> {
    let mut bytes = [0; size_of::<ProcMeta>()];
    if fd::read(process, &mut bytes)? != bytes.len() {
        return Err(Error::new(EINVAL));
    }
    let mut words = [0; size_of::<ProcMeta>() / 4];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let [
        pid,
        pgid,
        ppid,
        ruid,
        euid,
        suid,
        rgid,
        egid,
        sgid,
        ens,
        rns,
    ] = words;
    Ok(ProcMeta {
        pid,
        pgid,
        ppid,
        ruid,
        euid,
        suid,
        rgid,
        egid,
        sgid,
        ens,
        rns,
    })
}

/// Reads this process's own record; zeros (root) below the process manager.
pub fn own_meta() -> ProcMeta {
    meta(state::proc_fd()).unwrap_or_default()
}
