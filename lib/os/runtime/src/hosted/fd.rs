//! Descriptor operations, through relibc. All functions take and return raw numbers.

use std::io::{Seek, SeekFrom};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;

use libredox::call;
use syscall::data::Stat;
use syscall::error::{EBADF, EINTR, EINVAL, Error, Result};

/// Repeats a call as long as it is interrupted.
fn restarted(mut attempt: impl FnMut() -> libredox::error::Result<usize>) -> Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.errno() == EINTR => {}
            result => return Ok(result?),
        }
    }
}

/// Duplicates `fd`, or asks its scheme for the object `name` when that is not empty.
pub fn dup(fd: usize, name: &[u8]) -> Result<usize> {
    Ok(call::dup(fd, name)?)
}

/// Closes `fd`.
pub fn close(fd: usize) -> Result<()> {
    Ok(call::close(fd)?)
}

/// Reads into `buffer`; returns the number of bytes.
pub fn read(fd: usize, buffer: &mut [u8]) -> Result<usize> {
    restarted(|| call::read(fd, buffer))
}

/// Writes `bytes`; returns how many were taken.
pub fn write(fd: usize, bytes: &[u8]) -> Result<usize> {
    restarted(|| call::write(fd, bytes))
}

/// Moves the position; `whence` is 0 set, 1 current, 2 end.
pub fn lseek(fd: usize, offset: i64, whence: usize) -> Result<usize> {
    let number = i32::try_from(fd).map_err(|_| Error::new(EBADF))?;
    let to = match (whence, u64::try_from(offset)) {
        (syscall::SEEK_SET, Ok(offset)) => SeekFrom::Start(offset),
        (syscall::SEEK_CUR, _) => SeekFrom::Current(offset),
        (syscall::SEEK_END, _) => SeekFrom::End(offset),
        _ => return Err(Error::new(EINVAL)),
    };
    // SAFETY: the file is never dropped, so the caller's descriptor stays the caller's; one that
    // does not exist is an error of the call.
    let mut file = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(number) });
    let position = file.seek(to).map_err(super::number)?;
    usize::try_from(position).map_err(|_| Error::new(EINVAL))
}

/// Reads directory entries from the position `opaque`; 0 bytes mean the end.
pub fn getdents(fd: usize, buffer: &mut [u8], opaque: u64) -> Result<usize> {
    Ok(call::getdents(fd, buffer, opaque)?)
}

/// Truncates or extends a file.
pub fn truncate(fd: usize, length: u64) -> Result<()> {
    let length = usize::try_from(length).map_err(|_| Error::new(EINVAL))?;
    Ok(call::ftruncate(fd, length)?)
}

/// The attributes of the object behind `fd`. The C structure has the kernel's fields in wider
/// types.
pub fn fstat(fd: usize) -> Result<Stat> {
    let from = call::fstat(fd)?;
    Ok(Stat {
        st_dev: from.st_dev,
        st_ino: from.st_ino,
        st_mode: from.st_mode as u16,
        st_nlink: from.st_nlink as u32,
        st_uid: from.st_uid as u32,
        st_gid: from.st_gid as u32,
        st_size: from.st_size as u64,
        st_blksize: from.st_blksize as u32,
        st_blocks: from.st_blocks as u64,
        st_mtime: from.st_mtime as u64,
        st_mtime_nsec: from.st_mtime_nsec as u32,
        st_atime: from.st_atime as u64,
        st_atime_nsec: from.st_atime_nsec as u32,
        st_ctime: from.st_ctime as u64,
        st_ctime_nsec: from.st_ctime_nsec as u32,
    })
}
