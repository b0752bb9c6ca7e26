//! Rights, owners, times and links of files, and file systems. No scheme here supports links, so
//! making one fails.

use core::ffi::{c_char, c_int};

use libredox::data::TimeSpec;
use libredox::flag::{O_CLOEXEC, O_PATH};
use runtime::{Result, fd};
use syscall::error::{EACCES, EINVAL, EOPNOTSUPP, EROFS, Error};
use syscall::flag::{MODE_CHR, MODE_DIR, MODE_FILE, MODE_TYPE, O_STAT, O_WRONLY};

use crate::files::{Timespec, path_of};
use crate::{descriptor, errno, slashes};

/// Calls `action` with a descriptor of the file at a path. There are no links to follow.
///
/// # Safety
/// `path` is the caller's string.
unsafe fn with_file(
    path: *const c_char,
    action: impl FnOnce(usize) -> libredox::error::Result<()>,
) -> Result<()> {
    // SAFETY: the same contract.
    let number = slashes::open(unsafe { path_of(path) }?, (O_PATH | O_CLOEXEC) as usize)?;
    let done = action(number).map_err(|error| Error::new(error.errno()));
    fd::close(number)?;
    done
}

/// C's `X_OK`, `W_OK` and `R_OK` are these bits, as are those of each class in a file's mode.
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
const ALL: u32 = 7;

/// Whether a user may use a file of this mode in these ways. Root may read and write every file,
/// and execute what is a directory or what somebody may execute.
fn allows(stat: &syscall::Stat, user: u32, group: u32, wanted: u32) -> bool {
    let mode = u32::from(stat.st_mode);
    let is_directory = stat.st_mode & MODE_TYPE == MODE_DIR;
    let classes = [mode >> 6 & ALL, mode >> 3 & ALL, mode & ALL];
    let allowed = match classes {
        _ if user == 0 && (is_directory || mode & 0o111 != 0) => ALL,
        _ if user == 0 => ALL & !EXECUTE,
        [owner, ..] if user == stat.st_uid => owner,
        [_, members, _] if group == stat.st_gid => members,
        [.., others] => others,
    };
    allowed & wanted == wanted
}

/// Whether the program may use a file in these ways, by the real ids or by the effective ones. The
/// file is judged by its mode and not opened for use: that has effects on devices and refuses
/// directories.
///
/// # Errors
/// `EACCES`: it may not; `EINVAL`: there is no such way; those of finding the file.
///
/// # Safety
/// `path` is null or a string.
pub unsafe fn check_access(path: *const c_char, wanted: c_int, effective: bool) -> Result<()> {
    let wanted = u32::try_from(wanted).ok().filter(|wanted| *wanted <= ALL);
    let wanted = wanted.ok_or(Error::new(EINVAL))?;
    // SAFETY: the caller's string.
    let path = unsafe { path_of(path) }?;
    let number = slashes::open(path, O_STAT | O_CLOEXEC as usize)?;
    let stat = fd::fstat(number);
    fd::close(number)?;
    let Ok(stat) = stat else {
        return check_by_opening(path, wanted);
    };
    let ids = runtime::process::own_meta();
    let (user, group) = match effective {
        true => (ids.euid, ids.egid),
        false => (ids.ruid, ids.rgid),
    };
    if stat.st_mode & 0o777 == 0 && user != 0 && stat.st_mode & MODE_TYPE == MODE_CHR {
        return check_by_opening(path, wanted);
    }
    if !allows(&stat, user, group, wanted) {
        return Err(Error::new(EACCES));
    }
    if wanted & WRITE != 0 && stat.st_mode & MODE_TYPE == MODE_FILE {
        // Whatever its mode says, its file system may be for reading alone.
        let is_read_only = |error: &Error| error.errno == EROFS;
        return match check_by_opening(path, WRITE) {
            Err(error) if is_read_only(&error) => Err(error),
            _ => Ok(()),
        };
    }
    Ok(())
}

/// Asks a scheme that keeps no modes, and decides when a file is opened.
fn check_by_opening(path: &str, wanted: u32) -> Result<()> {
    let flags = match wanted & WRITE {
        0 => O_STAT,
        _ => O_WRONLY,
    };
    fd::close(slashes::open(path, flags | O_CLOEXEC as usize)?)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, wanted: c_int) -> c_int {
    // SAFETY: the same contract.
    errno::done(unsafe { check_access(path, wanted, false) })
}

/// As `access`, by the effective ids.
#[unsafe(no_mangle)]
unsafe extern "C" fn eaccess(path: *const c_char, wanted: c_int) -> c_int {
    // SAFETY: the same contract.
    errno::done(unsafe { check_access(path, wanted, true) })
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

/// Fails with `EINVAL` for any file, as none is a link.
#[unsafe(no_mangle)]
unsafe extern "C" fn readlink(path: *const c_char, _place: *mut c_char, _size: usize) -> isize {
    // SAFETY: the caller's string.
    let found = unsafe { path_of(path) }.and_then(slashes::metadata);
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

/// Fails, as pipes have no names; `pipe` makes them.
#[unsafe(no_mangle)]
extern "C" fn mkfifo(_path: *const c_char, _mode: u32) -> c_int {
    errno::fail(EOPNOTSUPP)
}

/// Fails, as a namespace of schemes has no root directory to change.
#[unsafe(no_mangle)]
extern "C" fn chroot(_path: *const c_char) -> c_int {
    errno::fail(EOPNOTSUPP)
}

/// C's `UTIME_NOW` and `UTIME_OMIT`, which a program passes as nanoseconds.
const NOW: i64 = (1 << 30) - 1;
const OMIT: i64 = (1 << 30) - 2;

/// The times of access and change to set: the caller's, or the present time if `times` is null.
///
/// # Safety
/// `times` is null or points to two structures.
unsafe fn wanted(number: usize, times: *const Timespec) -> Result<[TimeSpec; 2]> {
    let present = || {
        let now = runtime::time::unix_time();
        (now.as_secs() as i64, i64::from(now.subsec_nanos()))
    };
    let stat = fd::fstat(number)?;
    let old = [
        (stat.st_atime as i64, i64::from(stat.st_atime_nsec)),
        (stat.st_mtime as i64, i64::from(stat.st_mtime_nsec)),
    ];
    let mut result = [TimeSpec {
        tv_sec: 0,
        tv_nsec: 0,
    }; 2];
    for (index, place) in result.iter_mut().enumerate() {
        let (seconds, nanoseconds) = if times.is_null() {
            present()
        } else {
            // SAFETY: the caller's two structures.
            let time = unsafe { *times.add(index) };
            match time.nanoseconds {
                NOW => present(),
                OMIT => old[index],
                0..1_000_000_000 => (time.seconds, time.nanoseconds),
                _ => return Err(Error::new(EINVAL)),
            }
        };
        place.tv_sec = seconds;
        place.tv_nsec = nanoseconds as _;
    }
    Ok(result)
}

/// # Safety
/// `times` is null or points to two structures.
unsafe fn change_times(number: usize, times: *const Timespec) -> Result<()> {
    // SAFETY: the same contract.
    let times = unsafe { wanted(number, times) }?;
    libredox::call::futimens(number, &times).map_err(|error| Error::new(error.errno()))
}

/// `utimensat` for a path.
///
/// # Safety
/// `path` is a string; `times` is null or points to two structures.
pub unsafe fn set_times(path: *const c_char, times: *const Timespec) -> c_int {
    // SAFETY: the same contract.
    unsafe {
        errno::done(with_file(path, |number| {
            change_times(number, times).map_err(|error| libredox::error::Error::new(error.errno))
        }))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimens(number: c_int, times: *const Timespec) -> c_int {
    // SAFETY: the same contract.
    errno::done(unsafe { descriptor::check(number).and_then(|number| change_times(number, times)) })
}

/// C's `struct timeval`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Timeval {
    seconds: i64,
    microseconds: i64,
}

/// Two times of C's older structure in the newer one; `None` stands for the present.
///
/// # Errors
/// `EINVAL`: the microseconds are no part of a second.
///
/// # Safety
/// `times` is null, or the caller's two structures.
unsafe fn exact(times: *const Timeval) -> Result<Option<[Timespec; 2]>> {
    if times.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let times = [0, 1].map(|index| unsafe { *times.add(index) });
    let is_part = |time: &Timeval| (0..1_000_000).contains(&time.microseconds);
    if !times.iter().all(is_part) {
        return Err(Error::new(EINVAL));
    }
    Ok(Some(times.map(|time| Timespec {
        seconds: time.seconds,
        nanoseconds: time.microseconds * 1000,
    })))
}

/// Where two times are, for a function to which null stands for the present.
fn place_of(times: &Option<[Timespec; 2]>) -> *const Timespec {
    times
        .as_ref()
        .map_or(core::ptr::null(), |times| times.as_ptr())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimes(path: *const c_char, times: *const Timeval) -> c_int {
    // SAFETY: the caller's string and two structures or null.
    unsafe {
        match exact(times) {
            Ok(times) => set_times(path, place_of(&times)),
            Err(error) => errno::fail(error.errno),
        }
    }
}

/// As `utimes`, as there are no links.
#[unsafe(no_mangle)]
unsafe extern "C" fn lutimes(path: *const c_char, times: *const Timeval) -> c_int {
    // SAFETY: the same contract.
    unsafe { utimes(path, times) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn futimes(number: c_int, times: *const Timeval) -> c_int {
    // SAFETY: the caller's two structures or null.
    unsafe {
        match exact(times) {
            Ok(times) => futimens(number, place_of(&times)),
            Err(error) => errno::fail(error.errno),
        }
    }
}

/// `times` is C's `struct utimbuf`: the times of the last access and the last change, in seconds.
#[unsafe(no_mangle)]
unsafe extern "C" fn utime(path: *const c_char, times: *const [i64; 2]) -> c_int {
    // SAFETY: null, or the caller's structure.
    let times = unsafe { times.as_ref() };
    let times = times.map(|times| {
        times.map(|seconds| Timespec {
            seconds,
            nanoseconds: 0,
        })
    });
    // SAFETY: the caller's string, and two times or none.
    unsafe { set_times(path, place_of(&times)) }
}

/// C's `struct statvfs`.
#[repr(C)]
struct FileSystem {
    block_size: u64,
    fragment_size: u64,
    blocks: u64,
    free: u64,
    available: u64,
    /// The numbers of all, free and available files, which are unknown.
    files: [u64; 3],
    id: u64,
    flags: u64,
    name_max: u64,
}

fn file_system(number: usize) -> libredox::error::Result<FileSystem> {
    let found = libredox::call::fstatvfs(number)?;
    Ok(FileSystem {
        block_size: found.f_bsize as u64,
        fragment_size: found.f_bsize as u64,
        blocks: found.f_blocks as u64,
        free: found.f_bfree as u64,
        available: found.f_bavail as u64,
        files: [0; 3],
        id: 0,
        flags: 0,
        name_max: 255,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn statvfs(path: *const c_char, place: *mut FileSystem) -> c_int {
    // SAFETY: the caller's string and place.
    errno::done(unsafe {
        with_file(path, |number| {
            place.write(file_system(number)?);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fstatvfs(number: c_int, place: *mut FileSystem) -> c_int {
    let found = descriptor::check(number)
        .and_then(|number| file_system(number).map_err(|error| Error::new(error.errno())));
    // SAFETY: the caller's place.
    errno::done(found.map(|found| unsafe { place.write(found) }))
}
