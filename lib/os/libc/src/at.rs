//! `openat` and its kin: names relative to an open directory. Each call appends the name to the
//! directory's path as the system gives it, so it does not follow a directory that is renamed in
//! between.

use alloc::ffi::CString;
use alloc::format;
use alloc::string::String;
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

use runtime::{Result, fs};
use syscall::error::{EINVAL, Error};
use syscall::flag::O_CREAT;

use crate::files::{self, path_of};
use crate::{attributes, descriptor, errno, points, slashes, transfers};

/// C's `AT_FDCWD`: names are relative to the working directory.
const HERE: c_int = -100;
const AT_REMOVEDIR: c_int = 0x400;
const AT_EACCESS: c_int = 0x400;

/// The path of a name relative to a directory.
///
/// # Safety
/// `name` is null or a string.
unsafe fn joined(directory: c_int, name: *const c_char) -> Result<CString> {
    // SAFETY: the caller's string.
    let name = unsafe { path_of(name) }?;
    let path = if directory == HERE || name.starts_with('/') {
        String::from(name)
    } else {
        let mut buffer = [0; 4096];
        let length = runtime::fd::fpath(descriptor::check(directory)?, &mut buffer)?;
        let start = core::str::from_utf8(&buffer[..length]).map_err(|_| Error::new(EINVAL))?;
        format!("{}/{name}", start.trim_end_matches('/'))
    };
    CString::new(path).map_err(|_| Error::new(EINVAL))
}

/// Calls a function for paths with the path of a name relative to a directory.
///
/// # Safety
/// `name` is null or a string.
unsafe fn with_path(
    directory: c_int,
    name: *const c_char,
    action: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: the same contract.
    match unsafe { joined(directory, name) } {
        Ok(path) => action(path.as_ptr()),
        Err(error) => errno::fail(error.errno),
    }
}

unsafe extern "C" {
    fn chmod(path: *const c_char, mode: c_uint) -> c_int;
    fn mkdir(path: *const c_char, mode: c_uint) -> c_int;
    fn rmdir(path: *const c_char) -> c_int;
    fn stat(path: *const c_char, place: *mut c_void) -> c_int;
    fn unlink(path: *const c_char) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn openat(
    directory: c_int,
    name: *const c_char,
    flags: c_int,
    mut arguments: ...
) -> c_int {
    points::pass();
    let creates = flags as u32 as usize & O_CREAT != 0;
    // SAFETY: the caller's string; with O_CREAT a mode was passed.
    let (path, mode) = unsafe {
        let path = joined(directory, name);
        (
            path,
            if creates {
                arguments.arg::<c_uint>()
            } else {
                0
            },
        )
    };
    errno::give(path.and_then(|path| {
        let path = path.to_str().map_err(|_| Error::new(EINVAL))?;
        files::open_path(path, flags, mode)
    }))
}

// SAFETY of the functions below: each passes its own arguments on, under the same contract, with a
// path that lives across the call. No flag says what to do with links, as there are none.

#[unsafe(no_mangle)]
unsafe extern "C" fn fstatat(
    directory: c_int,
    name: *const c_char,
    place: *mut c_void,
    _flags: c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe { with_path(directory, name, |path| stat(path, place)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mkdirat(directory: c_int, name: *const c_char, mode: c_uint) -> c_int {
    // SAFETY: see above.
    unsafe { with_path(directory, name, |path| mkdir(path, mode)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fchmodat(
    directory: c_int,
    name: *const c_char,
    mode: c_uint,
    _flags: c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe { with_path(directory, name, |path| chmod(path, mode)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn faccessat(
    directory: c_int,
    name: *const c_char,
    wanted: c_int,
    flags: c_int,
) -> c_int {
    let effective = flags & AT_EACCESS != 0;
    // SAFETY: see above.
    unsafe {
        with_path(directory, name, |path| {
            errno::done(attributes::check_access(path, wanted, effective))
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn unlinkat(directory: c_int, name: *const c_char, flags: c_int) -> c_int {
    let remove = |path| {
        // SAFETY: see above.
        unsafe {
            if flags & AT_REMOVEDIR != 0 {
                rmdir(path)
            } else {
                unlink(path)
            }
        }
    };
    // SAFETY: see above.
    unsafe { with_path(directory, name, remove) }
}

/// Linux's `RENAME_NOREPLACE`.
const RENAME_NOREPLACE: c_uint = 1;

#[unsafe(no_mangle)]
unsafe extern "C" fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the same contract.
    unsafe { renameat2(from_directory, from, to_directory, to, 0) }
}

/// For `RENAME_NOREPLACE` it first makes a new file at the target, so that no other program's file
/// is replaced; directories cannot be renamed that way.
#[unsafe(no_mangle)]
unsafe extern "C" fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's strings.
    let paths = unsafe { (joined(from_directory, from), joined(to_directory, to)) };
    let rename = |from: CString, to: CString| {
        let [from, to] = [&from, &to].map(|path| path.to_str().map_err(|_| Error::new(EINVAL)));
        let (from, to) = (from?, to?);
        match flags {
            0 => slashes::rename(from, to),
            RENAME_NOREPLACE if slashes::renames_directory(from, to)? => Err(Error::new(EINVAL)),
            RENAME_NOREPLACE => {
                descriptor::close(transfers::open_new(to)?)?;
                // The caller gets the error of renaming, whatever the removal returns.
                fs::rename(from, to).inspect_err(|_| {
                    let _ = fs::remove_file(to);
                })
            }
            _ => Err(Error::new(EINVAL)),
        }
    };
    errno::done(match paths {
        (Ok(from), Ok(to)) => rename(from, to),
        (Err(error), _) | (_, Err(error)) => Err(error),
    })
}

/// Limits of paths and files; -1 with `EINVAL` for an unknown one.
fn limit(name: c_int) -> c_long {
    match name {
        // _PC_LINK_MAX: a file has one name.
        0 => 1,
        // _PC_NAME_MAX
        3 => 255,
        // _PC_PATH_MAX
        4 => 4096,
        // _PC_PIPE_BUF
        5 => 4096,
        // _PC_NO_TRUNC: names that are too long are an error.
        7 => 1,
        _ => errno::fail(EINVAL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pathconf(path: *const c_char, name: c_int) -> c_long {
    // SAFETY: the caller's string.
    match unsafe { path_of(path) } {
        Ok(_) => limit(name),
        Err(error) => errno::fail(error.errno),
    }
}

#[unsafe(no_mangle)]
extern "C" fn fpathconf(number: c_int, name: c_int) -> c_long {
    match descriptor::check(number) {
        Ok(_) => limit(name),
        Err(error) => errno::fail(error.errno),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn utimensat(
    directory: c_int,
    name: *const c_char,
    times: *const files::Timespec,
    _flags: c_int,
) -> c_int {
    // SAFETY: see above.
    unsafe { with_path(directory, name, |path| attributes::set_times(path, times)) }
}
