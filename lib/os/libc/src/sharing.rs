//! What processes share by a name: memory (`shm_open` of `sys/mman.h`) and semaphores (`sem_open`
//! of `semaphore.h`). Both are files in `/dev/shm`, which the file system in memory has.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_uint, c_void};

use runtime::{Error, Result, fd, fs};
use syscall::error::{EACCES, EINVAL, EMFILE, ENAMETOOLONG, ENOENT};
use syscall::flag::{O_CREAT, O_RDWR};

use crate::sync::Shared;
use crate::{descriptor, errno, files, locking, mman, strings};

const O_CLOEXEC: c_int = libredox::flag::O_CLOEXEC as c_int;

/// The file for a name, which may begin with slashes and has no other ones.
///
/// # Errors
/// `EINVAL`: such a name, or none. `ENAMETOOLONG`.
///
/// # Safety
/// `name` is the caller's string.
unsafe fn path_of(prefix: &str, name: *const c_char) -> Result<String> {
    /// The longest name of a file.
    const LONGEST: usize = 255;
    // SAFETY: the caller's promise.
    let name = unsafe { strings::bytes(name) };
    let name = core::str::from_utf8(name).map_err(|_| Error::new(EINVAL))?;
    let name = name.trim_start_matches('/');
    if name.is_empty() || name.contains('/') || [".", ".."].contains(&name) {
        return Err(Error::new(EINVAL));
    }
    if prefix.len() + name.len() > LONGEST {
        return Err(Error::new(ENAMETOOLONG));
    }
    Ok(format!("/dev/shm/{prefix}{name}"))
}

// ---- Memory ----

#[unsafe(no_mangle)]
unsafe extern "C" fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    // SAFETY: the caller's string.
    let path = unsafe { path_of("", name) };
    errno::give(path.and_then(|path| files::open_path(&path, flags | O_CLOEXEC, mode)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shm_unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    errno::done(unsafe { path_of("", name) }.and_then(|path| fs::remove_file(&path)))
}

// ---- Semaphores ----

/// A semaphore that this process has open.
pub struct Open {
    /// The file's number.
    inode: u64,
    address: usize,
    /// How often it was opened and not closed.
    count: usize,
}

/// The semaphores that this process has open.
pub static OPEN: Shared<Vec<Open>> = Shared::new(Vec::new());

/// What a semaphore is called, besides its name.
const PREFIX: &str = "sem.";
/// Bytes of `sem_t`.
const SIZE: usize = size_of::<u64>();
/// `SEM_VALUE_MAX`.
const LARGEST: c_uint = 0x7fff_ffff;

/// Makes the content of a new file, as many threads as may try that at the same time. `count`: the
/// value of a semaphore that has none; `None`: it does not exist then.
fn fill(number: c_int, count: Option<c_uint>) -> Result<()> {
    const EXCLUSIVE: c_int = 2;
    const NONE: c_int = 8;
    let file = number as usize;
    if fd::fstat(file)?.st_size >= SIZE as u64 {
        return Ok(());
    }
    locking::lock(number, EXCLUSIVE)?;
    let filled = fd::fstat(file).and_then(|stat| match count {
        _ if stat.st_size >= SIZE as u64 => Ok(()),
        None => Err(Error::new(ENOENT)),
        // One write: the file has its whole content, or none.
        Some(count) => fd::write(file, &u64::from(count).to_le_bytes()).map(drop),
    });
    locking::lock(number, NONE)?;
    filled
}

/// Maps the semaphore in a file, or finds where this process has mapped it.
fn place_of(number: c_int) -> Result<usize> {
    let inode = fd::fstat(number as usize)?.st_ino;
    OPEN.with(|open| {
        if let Some(known) = open.iter_mut().find(|known| known.inode == inode) {
            known.count += 1;
            return Ok(known.address);
        }
        open.try_reserve(1).map_err(|_| Error::new(EMFILE))?;
        let address = mman::map_shared(number, syscall::PAGE_SIZE)?;
        open.push(Open {
            inode,
            address,
            count: 1,
        });
        Ok(address)
    })
}

fn open_semaphore(path: &str, flags: c_int, mode: c_uint, count: c_uint) -> Result<usize> {
    let creates = flags & O_CREAT as c_int != 0;
    if creates && count > LARGEST {
        return Err(Error::new(EINVAL));
    }
    let flags = flags | O_RDWR as c_int | O_CLOEXEC;
    let number = files::open_path(path, flags, mode)?;
    let place = fill(number, creates.then_some(count)).and_then(|()| place_of(number));
    // An error of the close changes nothing about the mapping.
    let _ = descriptor::close(number);
    place
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_open(
    name: *const c_char,
    flags: c_int,
    mut arguments: ...
) -> *mut c_void {
    // SAFETY: the caller's string.
    let path = unsafe { path_of(PREFIX, name) };
    let (mode, count) = match flags & O_CREAT as c_int {
        0 => (0, 0),
        // SAFETY: with O_CREAT a mode and a count were passed.
        _ => unsafe { (arguments.arg::<c_uint>(), arguments.arg::<c_uint>()) },
    };
    match path.and_then(|path| open_semaphore(&path, flags, mode, count)) {
        Ok(address) => address as *mut c_void,
        Err(error) => {
            errno::set(error.errno);
            core::ptr::null_mut()
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn sem_close(semaphore: *mut c_void) -> c_int {
    let address = semaphore as usize;
    let is_last = OPEN.with(|open| {
        let index = open.iter().position(|known| known.address == address);
        let index = index.ok_or(Error::new(EINVAL))?;
        open[index].count -= 1;
        let is_last = open[index].count == 0;
        if is_last {
            open.swap_remove(index);
        }
        Ok(is_last)
    });
    errno::done(is_last.and_then(|is_last| match is_last {
        // SAFETY: the last opening is gone, so by C's contract nobody uses it any more.
        true => unsafe { mman::unmap(address, syscall::PAGE_SIZE) },
        false => Ok(()),
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sem_unlink(name: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    let path = unsafe { path_of(PREFIX, name) };
    let removed = path.and_then(|path| fs::remove_file(&path));
    errno::done(removed.map_err(|error| match error.errno {
        // In that directory only owners may remove files.
        syscall::EPERM => Error::new(EACCES),
        _ => error,
    }))
}
