//! System V shared memory (`sys/shm.h`): segments that programs find by a key or a number.

use alloc::format;
use alloc::vec::Vec;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use runtime::fs::{self, File};
use runtime::{Error, Result, fd, process};
use syscall::PAGE_SIZE;
use syscall::error::{EEXIST, EFAULT, EINVAL, EIO, ENOENT, ENOMEM};
use syscall::flag::{O_CREAT, O_EXCL, O_RDWR};

use crate::segment::{
    DIRECTORY, KEYED, Notes, PRIVATE, Segment, clean_up, find, now, open, open_for, removed_path,
};
use crate::sync::Shared;
use crate::{errno, files, mman, slashes};

/// `IPC_PRIVATE`, `IPC_CREAT`, `IPC_EXCL`.
const IPC_PRIVATE: c_int = 0;
const IPC_CREAT: c_int = 0o1000;
const IPC_EXCL: c_int = 0o2000;
/// `SHM_RDONLY`, `SHM_RND`, `SHM_REMAP`, `SHM_EXEC`.
const READ_ONLY: c_int = 0o10_000;
const ROUND: c_int = 0o20_000;
const REPLACE: c_int = 0o40_000;
const EXECUTE: c_int = 0o100_000;

/// C's `struct ipc_perm`.
#[repr(C)]
struct Permissions {
    key: c_int,
    user: u32,
    group: u32,
    creator: u32,
    creator_group: u32,
    mode: u32,
    sequence: u32,
}

/// C's `struct shmid_ds`.
#[repr(C)]
pub struct Status {
    permissions: Permissions,
    size: usize,
    attached_at: i64,
    detached_at: i64,
    changed_at: i64,
    creator: c_int,
    last_user: c_int,
    attached: u64,
}

// ---- shmget ----

fn set_mode(file: &File, mode: u32) -> Result<()> {
    libredox::call::fchmod(file.as_raw_fd(), mode as u16).map_err(|error| Error::new(error.errno()))
}

/// Makes the content of a new file.
fn fill(file: File, size: usize, key: c_int, mode: u32) -> Result<Segment> {
    let pages = size
        .checked_next_multiple_of(PAGE_SIZE)
        .and_then(|pages| pages.checked_add(PAGE_SIZE));
    let length = pages.ok_or(Error::new(ENOMEM))?;
    fd::truncate(file.as_raw_fd(), length as u64)?;
    set_mode(&file, mode)?;
    let notes = Notes::new(size, key);
    let mut segment = Segment {
        file,
        notes,
        is_writable: true,
    };
    segment.write()?;
    Ok(segment)
}

/// Makes the segment in an empty file that is locked, and deletes the file if that fails.
fn make(file: File, path: &str, size: usize, key: c_int, mode: u32) -> Result<c_int> {
    let made = fill(file, size, key, mode).and_then(|segment| segment.id());
    made.map_err(|error| {
        let _ = fs::remove_file(path);
        match error.errno {
            EIO => error,
            _ => Error::new(ENOMEM),
        }
    })
}

/// Makes a segment that no key finds.
fn make_private(size: usize, mode: u32) -> Result<c_int> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = format!("{DIRECTORY}/{PRIVATE}{}.{number}", process::id());
        match open(&path, O_RDWR | O_CREAT | O_EXCL, 0o600) {
            // Of a process that had the same number.
            Err(error) if error.errno == EEXIST => {}
            file => return make(Segment::lock(file?)?, &path, size, IPC_PRIVATE, mode),
        }
    }
}

fn get(key: c_int, size: usize, flags: c_int) -> Result<c_int> {
    let mode = flags as u32 & 0o777;
    let creates = key == IPC_PRIVATE || flags & IPC_CREAT != 0;
    if creates {
        clean_up()?;
    }
    if key == IPC_PRIVATE {
        return match size {
            0 => Err(Error::new(EINVAL)),
            _ => make_private(size, mode),
        };
    }
    let path = format!("{DIRECTORY}/{KEYED}{:08x}", key as u32);
    loop {
        let (file, is_writable) = match open_for(&path, mode & 0o222 == 0) {
            Err(error) if error.errno == ENOENT && creates => {
                if size == 0 {
                    return Err(Error::new(EINVAL));
                }
                match open(&path, O_RDWR | O_CREAT | O_EXCL, 0o600) {
                    Err(error) if error.errno == EEXIST => continue,
                    file => (file?, true),
                }
            }
            opened => opened?,
        };
        match Segment::read(Segment::lock(file)?, is_writable)? {
            Ok(segment) if segment.notes.is_removed() => {}
            Ok(_) if creates && flags & IPC_EXCL != 0 => return Err(Error::new(EEXIST)),
            Ok(segment) if size > segment.size() => return Err(Error::new(EINVAL)),
            Ok(segment) => return segment.id(),
            // Just made, by this thread or by one that has ended before it was ready.
            Err(file) if creates && is_writable && size > 0 => {
                return make(file, &path, size, key, mode);
            }
            Err(_) => return Err(Error::new(ENOENT)),
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn shmget(key: c_int, size: usize, flags: c_int) -> c_int {
    errno::give(get(key, size, flags))
}

// ---- shmat, shmdt ----

/// A segment that this process has attached.
pub struct Attached {
    address: usize,
    length: usize,
    id: c_int,
}

/// The segments that this process has attached.
pub static ATTACHED: Shared<Vec<Attached>> = Shared::new(Vec::new());

/// Where `shmat` maps a segment, and with what right to replace what is there.
fn place_for(address: usize, flags: c_int) -> Result<mman::Place> {
    let address = match flags & ROUND {
        0 => address,
        _ => address & !(PAGE_SIZE - 1),
    };
    match (address, flags & REPLACE) {
        (0, 0) => Ok(mman::Place::Any),
        (0, _) => Err(Error::new(EINVAL)),
        (address, _) if !address.is_multiple_of(PAGE_SIZE) => Err(Error::new(EINVAL)),
        (address, 0) => Ok(mman::Place::Free(address)),
        (address, _) => Ok(mman::Place::Replacing(address)),
    }
}

/// # Safety
/// With `SHM_REMAP` nothing may use the range any more.
unsafe fn attach(id: c_int, address: usize, flags: c_int) -> Result<usize> {
    let place = place_for(address, flags)?;
    let (mut segment, path) = find(id, flags & READ_ONLY != 0)?;
    if segment.end_if_unused(&path)? {
        return Err(Error::new(EINVAL));
    }
    segment.notes.count(true)?;
    let length = segment.pages();
    let mut rights = mman::PROT_READ;
    rights |= if flags & READ_ONLY == 0 {
        mman::PROT_WRITE
    } else {
        0
    };
    rights |= if flags & EXECUTE != 0 {
        mman::PROT_EXEC
    } else {
        0
    };
    let number = segment.file.as_raw_fd() as c_int;
    // SAFETY: the caller's promise.
    let mapped = unsafe { mman::map_file(number, length, place, rights) };
    let address = mapped.map_err(|error| match error.errno {
        EEXIST => Error::new(EINVAL),
        _ => error,
    })?;
    ATTACHED.with(|attached| {
        attached.push(Attached {
            address,
            length,
            id,
        })
    });
    match segment.write() {
        Ok(()) => Ok(address),
        Err(error) => {
            ATTACHED.with(|attached| attached.retain(|each| each.address != address));
            // SAFETY: mapped above, and known to nobody else.
            unsafe { mman::unmap(address, length)? };
            Err(error)
        }
    }
}

/// Notes one attachment of this process more or less, and deletes a segment that was removed and
/// has no users any more. If the file is gone, or was attached for reading alone, there is nothing
/// to note; so errors of this do not concern the program, whose memory is as it asked for.
fn note(id: c_int, is_more: bool) {
    let Ok((mut segment, path)) = find(id, false) else {
        return;
    };
    let noted = segment.notes.count(is_more).and_then(|()| segment.write());
    if noted.is_ok() {
        let _ = segment.end_if_unused(&path);
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shmat(id: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the same contract.
    match unsafe { attach(id, address as usize, flags) } {
        Ok(address) => address as *mut c_void,
        Err(error) => {
            errno::set(error.errno);
            usize::MAX as *mut c_void
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shmdt(address: *const c_void) -> c_int {
    let found = ATTACHED.with(|attached| {
        let index = attached
            .iter()
            .position(|each| each.address == address as usize);
        index.map(|index| attached.swap_remove(index))
    });
    let detached = found.ok_or(Error::new(EINVAL)).and_then(|segment| {
        // SAFETY: the caller gives the range up.
        unsafe { mman::unmap(segment.address, segment.length)? };
        note(segment.id, false);
        Ok(())
    });
    errno::done(detached)
}

/// Called in the child of `fork`, which has what its parent has attached.
pub fn forked() {
    let ids: Vec<c_int> = ATTACHED.with(|attached| attached.iter().map(|each| each.id).collect());
    ids.into_iter().for_each(|id| note(id, true));
}

/// Called when the program is about to end: its memory goes, and the notes have to say so.
pub fn leave() -> Vec<Attached> {
    let gone = ATTACHED.with(core::mem::take);
    gone.iter().for_each(|each| note(each.id, false));
    gone
}

/// Called when the program does not end after all.
pub fn resume(kept: Vec<Attached>) {
    kept.iter().for_each(|each| note(each.id, true));
    ATTACHED.with(|attached| attached.extend(kept));
}

// ---- shmctl ----

fn status_of(id: c_int) -> Result<Status> {
    const REMOVED_BIT: u32 = 0o1000;
    let (mut segment, _) = find(id, true)?;
    let metadata = segment.file.metadata()?;
    let attached = segment.notes.attached();
    let word = |place: usize| segment.notes.words[place];
    let is_removed = segment.notes.is_removed();
    Ok(Status {
        permissions: Permissions {
            key: if is_removed {
                IPC_PRIVATE
            } else {
                word(Notes::KEY) as c_int
            },
            user: metadata.uid(),
            group: metadata.gid(),
            creator: metadata.uid(),
            creator_group: metadata.gid(),
            mode: u32::from(metadata.mode()) & 0o777 | if is_removed { REMOVED_BIT } else { 0 },
            sequence: 0,
        },
        size: segment.size(),
        attached_at: word(Notes::ATTACHED_AT) as i64,
        detached_at: word(Notes::DETACHED_AT) as i64,
        changed_at: word(Notes::CHANGED_AT) as i64,
        creator: word(Notes::CREATOR) as c_int,
        last_user: word(Notes::LAST_USER) as c_int,
        attached,
    })
}

fn set(id: c_int, wanted: &Permissions) -> Result<()> {
    let (mut segment, _) = find(id, false)?;
    let metadata = segment.file.metadata()?;
    if (metadata.uid(), metadata.gid()) != (wanted.user, wanted.group) {
        let number = segment.file.as_raw_fd();
        libredox::call::fchown(number, wanted.user, wanted.group)
            .map_err(|error| Error::new(error.errno()))?;
    }
    set_mode(&segment.file, wanted.mode & 0o777)?;
    segment.notes.words[Notes::CHANGED_AT] = now();
    segment.write()
}

/// Takes the name of a segment away, and the file if nobody has it attached.
fn remove(id: c_int) -> Result<()> {
    let (mut segment, path) = find(id, false)?;
    if segment.notes.is_removed() {
        return segment.end_if_unused(&path).map(drop);
    }
    match segment.notes.attached() > 0 {
        true => fs::rename(&path, &removed_path(id as u64))?,
        false => fs::remove_file(&path)?,
    }
    // For whoever waits for the lock, to find the segment by its key.
    segment.notes.words[Notes::IS_REMOVED] = 1;
    segment.notes.words[Notes::CHANGED_AT] = now();
    segment.write()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn shmctl(id: c_int, command: c_int, status: *mut Status) -> c_int {
    /// `IPC_RMID`, `IPC_SET`, `IPC_STAT`, `SHM_LOCK`, `SHM_UNLOCK`.
    const REMOVE: c_int = 0;
    const SET: c_int = 1;
    const STATUS: c_int = 2;
    const LOCK: c_int = 11;
    const UNLOCK: c_int = 12;
    let done = match command {
        SET | STATUS if status.is_null() => Err(Error::new(EFAULT)),
        REMOVE => remove(id),
        // SAFETY: the caller's structure.
        SET => set(id, unsafe { &(*status).permissions }),
        // SAFETY: the caller's place for a structure.
        STATUS => status_of(id).map(|found| unsafe { status.write(found) }),
        // Memory is never paged out.
        LOCK | UNLOCK => find(id, true).map(drop),
        _ => Err(Error::new(EINVAL)),
    };
    errno::done(done)
}

// ---- ftok ----

/// A key from the numbers of a file and its file system, and the lowest byte of `number`.
#[unsafe(no_mangle)]
unsafe extern "C" fn ftok(path: *const c_char, number: c_int) -> c_int {
    // SAFETY: the caller's string.
    let found = unsafe { files::path_of(path) }.and_then(slashes::metadata);
    errno::give(found.map(|found| {
        let (device, inode) = (found.stat().st_dev, found.stat().st_ino);
        (number & 0xff) << 24 | (device as c_int & 0xff) << 16 | (inode as c_int & 0xffff)
    }))
}
