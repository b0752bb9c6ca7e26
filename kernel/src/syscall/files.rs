//! System calls on descriptors.

use alloc::{string::String, sync::Arc};

use ::syscall::{
    EventFlags,
    error::{EBADF, EEXIST, EINVAL, EIO, EMFILE, ENAMETOOLONG, EOVERFLOW, Error, Result},
    flag::{
        F_DUPFD, F_GETFD, F_GETFL, F_SETFD, F_SETFL, O_ACCMODE, O_APPEND, RwFlags, SEEK_CUR,
        SEEK_END, SEEK_SET,
    },
};

use crate::mm::{UserBuf, frame};
use crate::{
    object::Description,
    proc::{self, FileTable},
    scheme::{self, SchemeRef},
};

use super::position::Position;

/// Longest path, in bytes.
const MAX_PATH: usize = 4096;

/// The description behind a descriptor of the caller, its scheme, and its number in the scheme.
fn lookup(fd: usize) -> Result<(Arc<Description>, SchemeRef, usize)> {
    let file = proc::file(fd)?;
    let scheme = scheme::get(file.scheme())?;
    let number = file.number();
    Ok((file, scheme, number))
}

/// Copies a path in: `ENAMETOOLONG`, `EFAULT`, and `EINVAL` when it is not UTF-8.
fn read_path(path: UserBuf) -> Result<String> {
    if path.len() > MAX_PATH {
        return Err(Error::new(ENAMETOOLONG));
    }
    String::from_utf8(path.read_vec()?).map_err(|_| Error::new(EINVAL))
}

/// The part of an absolute path for its scheme: what follows `/scheme/<name>/` or `<name>:`, or,
/// for the file system, everything after the first slash.
fn scheme_part(path: &str) -> Result<&str> {
    let invalid = Error::new(EINVAL);
    if let Some(rest) = path.strip_prefix('/') {
        let Some(rest) = rest.strip_prefix("scheme/") else {
            return Ok(rest);
        };
        let (name, part) = rest.split_once('/').unwrap_or((rest, ""));
        return if name.is_empty() {
            Err(invalid)
        } else {
            Ok(part)
        };
    }
    match path.split_once(':') {
        Some((name, part)) if !name.is_empty() && !name.contains('/') => Ok(part),
        _ => Err(invalid),
    }
}

pub fn openat_into(
    dir: usize,
    path: UserBuf,
    flags: usize,
    fcntl_flags: u32,
    fd: usize,
) -> Result<usize> {
    let path = read_path(path)?;
    let (file, scheme, number) = lookup(dir)?;
    proc::files().check(fd, false, EEXIST)?;
    let opened = scheme.open(number, &path, flags, fcntl_flags, proc::caller())?;
    let opened = opened.into_description(file.scheme(), flags as u32);
    proc::files().insert(fd, opened, EEXIST)
}

pub fn unlinkat(dir: usize, path: UserBuf, flags: usize) -> Result<usize> {
    let path = read_path(path)?;
    let (_file, scheme, number) = lookup(dir)?;
    scheme.unlink(number, &path, flags).map(|()| 0)
}

/// Closes a descriptor in any case. `ENODEV` when the scheme could not be notified.
pub fn close(fd: usize) -> Result<usize> {
    let table = proc::files();
    let file = table.take(fd)?;
    let is_last = Arc::strong_count(&file) == 1;
    let notified = if is_last {
        scheme::get(file.scheme()).map(drop)
    } else {
        Ok(())
    };
    table.close(file);
    notified.map(|()| 0)
}

/// The description of a duplicate, after `check` of the place for it. Without a name it is shared,
/// and its scheme gets no request.
fn duplicate(
    fd: usize,
    name: UserBuf,
    check: impl FnOnce(&FileTable) -> Result<()>,
) -> Result<Arc<Description>> {
    let file = proc::file(fd)?;
    check(&proc::files())?;
    if name.is_empty() {
        return Ok(file);
    }
    let opened = scheme::get(file.scheme())?.dup(file.number(), name, proc::caller())?;
    Ok(opened.into_description(file.scheme(), file.state().flags))
}

pub fn dup_into(fd: usize, name: UserBuf, new_fd: usize) -> Result<usize> {
    let file = duplicate(fd, name, |files| files.check(new_fd, false, EEXIST))?;
    proc::files().insert(new_fd, file, EEXIST)
}

pub fn dup2(fd: usize, new_fd: usize, name: UserBuf) -> Result<usize> {
    if fd == new_fd && name.is_empty() {
        return Ok(new_fd);
    }
    let file = duplicate(fd, name, |files| files.check(new_fd, true, EMFILE))?;
    proc::files().replace(new_fd, file).map(|()| new_fd)
}

pub fn read(fd: usize, buf: UserBuf) -> Result<usize> {
    let (file, scheme, number) = lookup(fd)?;
    let position = Position::take(&file)?;
    let offset = position.offset(&scheme)?;
    let count = scheme.read_at(number, buf, offset, file.io_flags(None))?;
    position.advance(count);
    Ok(count)
}

pub fn write(fd: usize, buf: UserBuf) -> Result<usize> {
    let (file, scheme, number) = lookup(fd)?;
    let position = Position::take(&file)?;
    let flags = file.io_flags(None);
    // Where it appends does not depend on the offset.
    if flags & O_APPEND as u32 != 0 {
        let count = scheme.write_at(number, buf, position.former(), flags)?;
        position.go_to_end();
        return Ok(count);
    }
    let offset = position.offset(&scheme)?;
    let count = scheme.write_at(number, buf, offset, flags)?;
    position.advance(count);
    Ok(count)
}

/// The flags of READ2 and WRITE2; all ones selects those of the description.
fn rw_flags(flags: usize) -> Result<Option<RwFlags>> {
    if flags == usize::MAX {
        return Ok(None);
    }
    let flags = u32::try_from(flags).ok().and_then(RwFlags::from_bits);
    flags.map(Some).ok_or(Error::new(EINVAL))
}

pub fn read2(fd: usize, buf: UserBuf, offset: u64, flags: usize) -> Result<usize> {
    let (file, scheme, number) = lookup(fd)?;
    scheme.read_at(number, buf, offset, file.io_flags(rw_flags(flags)?))
}

pub fn write2(fd: usize, buf: UserBuf, offset: u64, flags: usize) -> Result<usize> {
    let (file, scheme, number) = lookup(fd)?;
    scheme.write_at(number, buf, offset, file.io_flags(rw_flags(flags)?))
}

pub fn lseek(fd: usize, distance: i64, whence: usize) -> Result<usize> {
    let (file, scheme, number) = lookup(fd)?;
    let position = Position::take(&file)?;
    let base = match whence {
        SEEK_SET => 0,
        SEEK_CUR => position.present(&scheme)?,
        SEEK_END => scheme.fsize(number)?,
        _ => return Err(Error::new(EINVAL)),
    };
    let target = distance
        .checked_add_unsigned(base)
        .ok_or(Error::new(EOVERFLOW))?;
    let target = u64::try_from(target).map_err(|_| Error::new(EINVAL))?;
    position.set(target);
    Ok(target as usize)
}

pub fn fchown(fd: usize, uid: u32, gid: u32) -> Result<usize> {
    let (_file, scheme, number) = lookup(fd)?;
    scheme.fchown(number, uid, gid).map(|()| 0)
}

pub fn fcntl(fd: usize, command: usize, argument: usize) -> Result<usize> {
    let file = proc::file(fd)?;
    match command {
        // The caller has chosen a free number.
        F_DUPFD => {
            frame::check_room()?;
            return proc::files().insert(argument, file, EMFILE);
        }
        // The library keeps close-on-exec.
        F_GETFD | F_SETFD => return Ok(0),
        // Redox asks the scheme first. Programs ask for the flags before transfers that wait, and
        // the scheme has nothing to add.
        F_GETFL => return Ok(file.state().flags as usize),
        _ => {}
    }
    let flags = file.state().flags;
    scheme::get(file.scheme())?.fcntl(file.number(), command, argument)?;
    match command {
        F_SETFL => {
            let kept = O_ACCMODE as u32;
            file.update(|state| state.flags = flags & kept | argument as u32 & !kept);
            Ok(0)
        }
        _ => Err(Error::new(EINVAL)),
    }
}

pub fn fevent(fd: usize, flags: EventFlags) -> Result<usize> {
    let (_file, scheme, number) = lookup(fd)?;
    scheme.fevent(number, flags).map(|ready| ready.bits())
}

pub fn flink(fd: usize, path: UserBuf) -> Result<usize> {
    let file = proc::file(fd)?;
    let path = read_path(path)?;
    let part = scheme_part(&path)?;
    scheme::get(file.scheme())?
        .flink(file.number(), part)
        .map(|()| 0)
}

pub fn frename(fd: usize, path: UserBuf) -> Result<usize> {
    let file = proc::file(fd)?;
    let path = read_path(path)?;
    let part = scheme_part(&path)?;
    scheme::get(file.scheme())?
        .frename(file.number(), part)
        .map(|()| 0)
}

pub fn fpath(fd: usize, buf: UserBuf) -> Result<usize> {
    let (_file, scheme, number) = lookup(fd)?;
    scheme.fpath(number, buf)
}

/// `fstat`. The device number, the first field, is always the scheme's id, whatever the scheme
/// stores.
pub fn fstat(fd: usize, buf: UserBuf) -> Result<usize> {
    let (file, scheme, number) = lookup(fd)?;
    scheme.fstat(number, buf)?;
    let device = file.scheme().0 as u64;
    buf.write_all(&device.to_ne_bytes()).map_err(|error| {
        let short = error.errno == EINVAL;
        if short { Error::new(EIO) } else { error }
    })?;
    Ok(0)
}

pub fn fsync(fd: usize) -> Result<usize> {
    let (_file, scheme, number) = lookup(fd)?;
    scheme.fsync(number).map(|()| 0)
}

/// The description of a descriptor. `consume` takes it out of the table.
fn find(table: &FileTable, fd: usize, consume: bool) -> Result<Arc<Description>> {
    if consume {
        table.take(fd)
    } else {
        table.get(fd)
    }
}

/// The object of a call on one descriptor, and its scheme. With `consume` the descriptor is taken
/// out of the caller's table first.
pub fn lookup_one(fd: usize, consume: bool) -> Result<(Arc<Description>, SchemeRef)> {
    let file = find(&proc::files(), fd, consume)?;
    let scheme = scheme::get(file.scheme())?;
    Ok((file, scheme))
}

/// The scheme and the objects of a call on several descriptors: all of one scheme, or `EXDEV`.
/// With `consume` the descriptors are taken out of the caller's table first.
pub fn lookup_all(
    fds: &[usize],
    consume: bool,
) -> Result<(alloc::vec::Vec<Arc<Description>>, SchemeRef)> {
    let table = proc::files();
    let files = fds
        .iter()
        .map(|&fd| find(&table, fd, consume))
        .collect::<Result<alloc::vec::Vec<_>>>()?;
    let first = files.first().ok_or(Error::new(EBADF))?;
    if files.iter().any(|file| file.scheme() != first.scheme()) {
        return Err(Error::new(::syscall::error::EXDEV));
    }
    let scheme = scheme::get(first.scheme())?;
    Ok((files, scheme))
}
