//! The `redox_*_vN` symbols: the stable interface that relibc exports on a real system, and that
//! the crates `libredox`, `redox-scheme` and `redox_event` call. Names, arguments and structures
//! are relibc's. Each function returns a value or a negated error number.
//!
//! Calls that need signals delivered to user code return ENOSYS: nothing here handles signals.

mod files;
mod system;

pub use system::register_scheme;

use alloc::vec::Vec;
use core::slice;

use libredox::data::{
    IoVec, SigAction, SigSet, Stat as CStat, StatVfs as CStatVfs, TimeSpec as CTimeSpec,
};
use libredox::protocol::{O_CLOEXEC, ProcCall, SocketCall};
use syscall::data::{Event, StatVfs, TimeSpec};
use syscall::error::{EINVAL, EIO, ENOSYS, Error, Result};
use syscall::flag::{CallFlags, EventFlags, MapFlags, O_CREAT, O_RDWR, StdFsCallKind};

use crate::sys::{self, NO_FD, mux};
use crate::{fd, path, process, roots, state};

type RawResult = usize;

/// Operations of a namespace descriptor: the first word of the name given to `dup`.
pub mod ns {
    /// Makes a namespace with the listed names; each is its length as a word, and its bytes.
    pub const FORK: usize = 0;
    /// The same namespace with fewer permissions.
    pub const SHRINK_PERMISSIONS: usize = 1;
    /// Makes a handle that registers the name that follows.
    pub const ISSUE_REGISTER: usize = 2;
}

/// Makes a slice of a pointer and a length from a caller; with length 0, any pointer is allowed.
///
/// # Safety
/// `base` must be valid for reads of `length` bytes unless `length` is zero.
unsafe fn bytes<'a>(base: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { slice::from_raw_parts(base, length) }
}

/// As [`bytes`], writable.
///
/// # Safety
/// `base` must be valid for reads and writes of `length` bytes unless `length` is zero.
unsafe fn bytes_mut<'a>(base: *mut u8, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller vouches for it.
    unsafe { slice::from_raw_parts_mut(base, length) }
}

/// Makes a text of a pointer and a length from a caller; EINVAL if it is not UTF-8.
///
/// # Safety
/// That of [`bytes`].
unsafe fn text<'a>(base: *const u8, length: usize) -> Result<&'a str> {
    // SAFETY: passed on to the caller.
    core::str::from_utf8(unsafe { bytes(base, length) }).map_err(|_| Error::new(EINVAL))
}

fn unit(result: Result<()>) -> RawResult {
    mux(result.map(|()| 0))
}
