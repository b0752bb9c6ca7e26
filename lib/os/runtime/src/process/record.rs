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
    let mut words = bytes
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    let mut next = || words.next().unwrap_or(0);
    // In the order of the record.
    Ok(ProcMeta {
        pid: next(),
        pgid: next(),
        ppid: next(),
        ruid: next(),
        euid: next(),
        suid: next(),
        rgid: next(),
        egid: next(),
        sgid: next(),
        ens: next(),
        rns: next(),
    })
}

/// Reads this process's own record; zeros (root) below the process manager.
pub fn own_meta() -> ProcMeta {
    meta(state::proc_fd()).unwrap_or_default()
}
