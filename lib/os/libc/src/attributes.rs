//! Rights, owners and links of files. No scheme here has links, so making one fails.

use core::ffi::{c_char, c_int};

use libredox::flag::{O_CLOEXEC, O_PATH};
use runtime::{Result, fd, fs, path};
use syscall::error::{EINVAL, EOPNOTSUPP, Error};

use crate::files::path_of;
use crate::{descriptor, errno, linux_names};

/// Does something to the file at a path; a link is never followed, as there is none.
///
/// # Safety
/// `path` is the caller's string.
unsafe fn with_file(
    path: *const c_char,
    action: impl FnOnce(usize) -> libredox::error::Result<()>,
) -> Result<()> {
    // SAFETY: the same contract.
    let path = linux_names::here(unsafe { path_of(path) }?);
    let number = path::open(&path, (O_PATH | O_CLOEXEC) as usize)?;
    let done = action(number).map_err(|error| Error::new(error.errno()));
    fd::close(number)?;
    done
}

fn change_mode(number: usize, mode: u32) -> libredox::error::Result<()> {
    libredox::call::fchmod(number, mode as u16)
}

fn change_owner(number: usize, user: u32, group: u32) -> libredox::error::Result<()> {
    libredox::call::fchown(number, user, group)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chmod(path: *const c_char, mode: u32) -> c_int {
    // SAFETY: the same contract.
    errno::done(unsafe { with_file(path, |number| change_mode(number, mode)) })
}

#[unsafe(no_mangle)]
extern "C" fn fchmod(number: c_int, mode: u32) -> c_int {
    let changed = descriptor::check(number)
        .and_then(|number| change_mode(number, mode).map_err(|error| Error::new(error.errno())));
    errno::done(changed)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chown(path: *const c_char, user: u32, group: u32) -> c_int {
    // SAFETY: the same contract.
    errno::done(unsafe { with_file(path, |number| change_owner(number, user, group)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn lchown(path: *const c_char, user: u32, group: u32) -> c_int {
    // SAFETY: the same contract.
    unsafe { chown(path, user, group) }
}

#[unsafe(no_mangle)]
extern "C" fn fchown(number: c_int, user: u32, group: u32) -> c_int {
    let changed = descriptor::check(number).and_then(|number| {
        change_owner(number, user, group).map_err(|error| Error::new(error.errno()))
    });
    errno::done(changed)
}

/// `EINVAL`: what is there is no link.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, _place: *mut c_char, _size: usize) -> isize {
    // SAFETY: the caller's string.
    let found = unsafe { path_of(path) }.and_then(|path| fs::metadata(&linux_names::here(path)));
    errno::fail(found.err().map_or(EINVAL, |error| error.errno))
}

#[unsafe(no_mangle)]
extern "C" fn link(_from: *const c_char, _to: *const c_char) -> c_int {
    errno::fail(EOPNOTSUPP)
}

#[unsafe(no_mangle)]
extern "C" fn symlink(_text: *const c_char, _path: *const c_char) -> c_int {
    errno::fail(EOPNOTSUPP)
}

/// `pipe` makes pipes; none has a name.
#[unsafe(no_mangle)]
extern "C" fn mkfifo(_path: *const c_char, _mode: u32) -> c_int {
    errno::fail(EOPNOTSUPP)
}

/// A namespace of schemes has no root to be changed.
#[unsafe(no_mangle)]
extern "C" fn chroot(_path: *const c_char) -> c_int {
    errno::fail(EOPNOTSUPP)
}
